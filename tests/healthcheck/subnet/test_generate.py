"""Generated plans: regular, possible, the same each time, and refused where the counts do not make a
fabric."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from healthcheck.subnet.cabling import CablingPlan, Tier
from healthcheck.subnet.generate import FabricLayout, FabricShape, HostPorts, generate
from healthcheck.subnet.plancheck import faults
from inventory.errors import UsageError
from tests.healthcheck.subnet.made import rails


def hosts(count: int, ports: int) -> list[HostPorts]:
    return [HostPorts(f"gpu{at:04d}", tuple(f"mlx5_{port}" for port in range(ports)))
            for at in range(1, count + 1)]


def tiers(plan: CablingPlan) -> dict[str, int]:
    return dict(Counter(device.tier.value for device in plan.devices.values()))


def test_512_hosts_of_8_rails_have_the_switches_of_the_published_reference() -> None:
    """DGX SuperPOD H100 reference architecture, 16 scalable units: 128 leaves, 128 spines, 64 cores of 64
    ports."""
    plan = generate(hosts(512, 8), FabricShape(tiers=3, radix=64, hosts_per_leaf=32))
    assert tiers(plan) == {"host": 512, "leaf": 128, "spine": 128,
                           "core": 64} and len(plan.cables) == 3 * 4096 and not faults(plan)


def test_port_r_of_a_host_is_at_the_leaf_of_its_groups_rail_r() -> None:
    plan = rails(hosts=8, ports=4, per_leaf=4)
    at = {(cable.a.device, cable.a.port): (cable.b.device, cable.b.port) for cable in plan.cables}
    assert at["gpu01", "mlx5_2"] == ("leaf003", "1") and at["gpu06", "mlx5_0"] == ("leaf005", "2")


def test_in_a_tree_all_ports_of_a_host_are_at_one_leaf() -> None:
    plan = generate(hosts(8, 2), FabricShape(FabricLayout.TREE, radix=16, hosts_per_leaf=4))
    leaves = {host: {cable.b.device for cable in plan.cables if cable.a.device == host}
              for host in ("gpu0001", "gpu0008")}
    assert leaves == {"gpu0001": {"leaf001"}, "gpu0008": {"leaf002"}} and not faults(plan)


def test_planes_are_networks_of_their_own_and_share_the_hosts() -> None:
    plan = rails(planes=2)
    switches = {plane: {cable.b.device for cable in plan.cables if cable.plane == plane}
                for plane in ("plane1", "plane2")}
    assert not switches["plane1"] & switches["plane2"] and not faults(plan)
    assert {cable.a.port for cable in plan.cables if cable.a.device == "gpu01"
            and cable.plane == "plane2"} == {f"mlx5_{port}/2" for port in range(4)}


def test_oversubscription_takes_fewer_uplinks() -> None:
    plan = generate(hosts(32, 8), FabricShape(radix=48, hosts_per_leaf=32, oversubscription=2.0))
    assert set(Counter(cable.a.device
                       for cable in plan.cables if cable.a.device.startswith("leaf")).values()) == {16}


@given(st.integers(1, 60), st.integers(1, 8), st.sampled_from(list(FabricLayout)), st.integers(1, 3),
       st.sampled_from([16, 36, 64]),
       st.integers(1, 8) | st.none(), st.integers(1, 16) | st.none(), st.integers(1, 2))
def test_whatever_is_generated_is_possible_whole_and_fits_its_switches(
    count: int, ports: int, layout: FabricLayout, tier_count: int, radix: int, per_leaf: int | None,
    uplinks: int | None, planes: int,
) -> None:
    shape = FabricShape(layout, tier_count, radix, per_leaf, uplinks, planes=planes)
    try:
        plan = generate(hosts(count, ports), shape)
    except UsageError:
        assume(False)
    assert plan == generate(hosts(count, ports), shape)
    assert not faults(plan)
    used = Counter(end.device for cable in plan.cables for end in (cable.a, cable.b))
    assert all(used[name] <= radix for name, device in plan.devices.items() if device.tier is not Tier.HOST)
    assert all(used[name] == ports * planes
               for name, device in plan.devices.items() if device.tier is Tier.HOST)
    numbers = [int(end.port) for cable in plan.cables
               for end in (cable.a, cable.b) if plan.devices[end.device].tier is not Tier.HOST]
    assert max(numbers) <= radix


@pytest.mark.parametrize(("count", "shape", "expected"), [
    (0, FabricShape(), "a fabric needs hosts"),
    (512, FabricShape(hosts_per_leaf=32),
     "128 leaves with 32 uplinks each need spines of at least 128 ports, and 64 are to be had"),
    (32, FabricShape(hosts_per_leaf=60, uplinks=20),
     "a leaf has 60 ports for hosts and 20 up, its switch 64"),
    (4, FabricShape(tiers=4), "--tiers 4: expected 1 to 3"),
    (4, FabricShape(oversubscription=0.0), "--oversubscription 0: expected"),
])
def test_counts_that_make_no_fabric_are_refused_with_the_numbers(count: int, shape: FabricShape,
                                                                 expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        generate(hosts(count, 8), shape)


def test_hosts_that_differ_in_ports_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match="gpu0002 has 1 port of the fabric, gpu0001 has 2"):
        generate([*hosts(1, 2), HostPorts("gpu0002", ("mlx5_0",))], FabricShape())
