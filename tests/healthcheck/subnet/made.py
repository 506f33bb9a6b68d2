"""Plans and cablings for tests."""

from __future__ import annotations

from dataclasses import replace

from healthcheck.subnet.cabled import CabledFabric, SeenCable
from healthcheck.subnet.cabling import CablingPlan
from healthcheck.subnet.generate import FabricShape, HostPorts, generate


def rails(hosts: int = 8, ports: int = 4, per_leaf: int = 4, **counts: int) -> CablingPlan:
    """Hosts gpu01.. with mlx5_0.., four to a rack, rail-optimised."""
    return generate([HostPorts(f"gpu{at:02d}", tuple(f"mlx5_{port}" for port in range(ports)),
                               f"r{at // 4 + 1}") for at in range(1, hosts + 1)],
                    FabricShape(hosts_per_leaf=per_leaf, **counts))


def as_planned(plan: CablingPlan) -> list[SeenCable]:
    """Every cable where it should be, in the plan's order."""
    return [SeenCable(cable.a, cable.b, cable.serial, cable.part, cable.metres) for cable in plan.cables]


def swap(cables: list[SeenCable], one: int, other: int, end: str = "b") -> None:
    """Exchanges the ports of an end of two cables."""
    first, second = cables[one], cables[other]
    cables[one] = replace(first, **{end: getattr(second, end)})
    cables[other] = replace(second, **{end: getattr(first, end)})


def there(plan: CablingPlan, cables: list[SeenCable], unseen: tuple[str, ...] = (),
          partial: tuple[str | None, ...] = ()) -> CabledFabric:
    """What a subnet shows of them."""
    return CabledFabric(tuple(cables), frozenset(plan.devices) - set(unseen), frozenset(partial))
