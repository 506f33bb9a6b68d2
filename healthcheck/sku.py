"""SKUs: the numbers that machines of one kind should show, from a file, or provisionally from what most nodes show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low
from types import MappingProxyType
from typing import Any

from healthcheck.facts.base import Partial, Unmeasured, Unsupported
from healthcheck.facts.port import most_alike
from inventory.model import PortPlan

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Sku:
    """Numbers by name; None for one that this SKU declines to judge. `empty` names the facts that may be empty collections, `ports`
    says by PCI address what the ports of such a machine are for.

    `why_unknown` says, for a provisional SKU, why a number could not be had.
    """

    name: str
    title: str
    numbers: Mapping[str, Any]
    empty: frozenset[str]
    file: str
    provisional: bool = False
    ports: Mapping[str, PortPlan] = field(default_factory=lambda: MappingProxyType({}))
    why_unknown: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def declines(self, number: str) -> bool:
        """Whether the SKU names this number and says that it is not judged."""
        return number in self.numbers and self.numbers[number] is None


def _count(fact: str, attribute: str) -> Callable[[Facts], Any]:
    return lambda facts: _plain(getattr(_plain(facts.get(fact)), attribute, None))


def _port_rate(facts: Facts) -> float | None:
    """The slowest active port: where all nodes have slower ones too (storage), nobody is accused of it."""
    ports = _plain(facts.get("ports"))
    if ports is None:
        return None
    rates = [_plain(port.rate_gbps) for port in most_alike(ports) if port.state == "ACTIVE"]
    return None if None in rates else min(rates, default=0.0)


def _port_count(facts: Facts) -> int | None:
    ports = _plain(facts.get("ports"))
    return len(most_alike(ports)) if ports is not None else None


def _memory_gib(facts: Facts) -> float | None:
    total = _count("memory", "total_bytes")(facts)
    return float(round(total / 2**30)) if total is not None else None


def _docker(facts: Facts) -> bool | None:
    """True where a daemon answers. One that is dead does not show that none is wanted."""
    return True if _count("docker", "answers")(facts) is True else None


def _ecc(facts: Facts) -> bool | None:
    gpus = _plain(facts.get("gpus"))
    modes = {_plain(gpu.ecc_enabled) for gpu in gpus} if gpus else {None}
    return modes.pop() if len(modes) == 1 else None


# How each number is learned from one node's facts; None where the node does not show it.
LEARNERS: Mapping[str, Callable[[Facts], Any]] = {
    "gpu_count": _count("gpu_presence", "on_pci"),
    "port_count": _port_count,
    "port_rate_gbps": _port_rate,
    "memory_gib": _memory_gib,
    "docker": _docker,
    "ecc": _ecc,
}
LEARNED_FROM: Mapping[str, tuple[str, ...]] = {
    "gpu_count": ("gpu_presence",), "port_count": ("ports",), "port_rate_gbps": ("ports",), "memory_gib": ("memory",),
    "docker": ("docker",), "ecc": ("gpus",),
}
# Quantities that differ a little between equal machines: the median is expected, not what most say to the digit.
MEASURED = ("memory_gib",)
EMPTY_FACTS = ("gpus", "ports")
SMALLEST_COHORT = 3


def _plain(value: Any) -> Any:
    return None if isinstance(value, (Unmeasured, Unsupported, Partial)) else value


def learn(facts: Facts) -> dict[str, Any]:
    """What one node shows of each number that can be learned; None where it was not measured."""
    return {name: learner(facts) for name, learner in LEARNERS.items()}


def emptiness(facts: Facts) -> dict[str, bool]:
    """Which collections this node was measured to have none of."""
    return {name: facts.get(name) == () for name in EMPTY_FACTS}


def alike(shows: Mapping[str, Any], known: Mapping[str, Sku]) -> str | None:
    """The one known SKU with as many GPUs and ports as a node shows; None where there is none, or more than one.

    A SKU that also says where the ports sit describes one maker's machine, and comes second to the general one of its kind.
    """
    counts = ("gpu_count", "port_count")
    fits = [sku for sku in known.values() if all(shows.get(n) is not None and shows[n] == sku.numbers.get(n) for n in counts)]
    general = [sku.name for sku in fits if not sku.ports] or [sku.name for sku in fits]
    return general[0] if len(general) == 1 else None


def provisional(seen: Sequence[Mapping[str, Any]], empty: Sequence[Mapping[str, bool]]) -> Sku:
    """The SKU that more than half of at least three nodes agree on, number by number; what has no majority says why."""
    numbers: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for name in LEARNERS:
        counts = Counter(values[name] for values in seen if values.get(name) is not None)
        total = sum(counts.values())
        if total < SMALLEST_COHORT:
            unknown[name] = "no SKU is named for this node, and too few nodes were measured to learn what to expect"
            continue
        if name in MEASURED:
            numbers[name] = median_low(counts.elements())
            continue
        value, number = counts.most_common(1)[0]
        if 2 * number <= total:
            unknown[name] = f"no SKU is named for this node, and the {total} measured nodes agree on no {name}"
        else:
            numbers[name] = value
    without = frozenset(
        name for name in EMPTY_FACTS if len(empty) >= SMALLEST_COHORT and 2 * sum(e.get(name, False) for e in empty) > len(empty)
    )
    return Sku("provisional", "what most nodes show", numbers, without, "the majority of this sweep", True, why_unknown=unknown)
