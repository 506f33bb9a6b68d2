"""Fleet checks: what nodes of one kind should share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from healthcheck.checks.base import fleet_check
from healthcheck.facts.host import Versions
from healthcheck.outcome import Finding


class NoMajority(Exception):
    """A cohort is split so that nobody can be called the outlier; its text says how."""


def outliers(values: Mapping[str, str], what: str) -> Iterator[tuple[str, Finding]]:
    """A finding for each node that differs from what more than half say; raises NoMajority when no value has that many."""
    counts = Counter(values.values())
    value, number = counts.most_common(1)[0]
    if 2 * number <= len(values):
        split = ", ".join(f"{count} say {said}" for said, count in counts.most_common(3))
        raise NoMajority(f"no {what} holds a majority of {len(values)} nodes: {split}")
    for node, said in values.items():
        if said != value:
            yield node, Finding(what, said, f"{value}, as on {number} of {len(values)} nodes")


@fleet_check("fleet.kernel")
def fleet_kernel(versions: Mapping[str, Versions]) -> Iterator[tuple[str, Finding]]:
    """Every node runs the kernel release that the majority of its cohort runs."""
    yield from outliers({node: fact.kernel for node, fact in versions.items()}, "kernel")


@fleet_check("fleet.driver")
def fleet_driver(versions: Mapping[str, Versions]) -> Iterator[tuple[str, Finding]]:
    """Every node has loaded the NVIDIA driver that the majority of its cohort has loaded."""
    yield from outliers({node: fact.driver for node, fact in versions.items()}, "driver")
