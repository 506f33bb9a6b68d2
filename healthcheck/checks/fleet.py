"""Fleet checks of whole nodes, and what all fleet checks compare with: a majority, or the median of equals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from healthcheck.checks.base import fleet_check
from healthcheck.facts.boot import EarlierBoot
from healthcheck.facts.host import Uptime, Versions
from healthcheck.model.outcome import Finding

# The median absolute deviation of a normal distribution is its standard deviation divided by this.
_SIGMA = 1.4826
# Where more than a quarter would be outliers, there are two populations rather than a fleet and its outliers.
_MOST_OUTLIERS = 4


class NoMajority(Exception):
    """A cohort is split so that nobody can be called the outlier; its text says how."""


@dataclass(frozen=True)
class Uncompared:
    """What a fleet check yields in place of a finding for what has no peers to be compared with: it is not judged, visibly.

    `unmeasured` says that it was not read well enough to be compared, which is UNKNOWN.
    """

    subject: str
    why: str
    unmeasured: bool = False


Said = Iterator[tuple[str, Finding | Uncompared]]


class Readings(NamedTuple):
    """Readings of things of a node, a value for each. `peers` names those that they are compared with, as in '... of 64 GPUs in slot 3,
    idle'."""

    node: str
    subjects: Sequence[str]
    values: Sequence[float]
    peers: str = ""


def outliers(values: Mapping[str, str], what: str) -> Iterator[tuple[str, Finding]]:
    """A finding for each node that differs from what more than half say; raises NoMajority when no value has that many."""
    yield from odd_ones([(node, what, value) for node, value in values.items()], what, "nodes")


def odd_ones(values: Iterable[tuple[str, str, str]], what: str, things: str) -> Iterator[tuple[str, Finding]]:
    """The same for several things of a node, given as (node, subject, value); what is equal on one node is one finding."""
    values = list(values)
    counts = Counter(value for _, _, value in values)
    if not counts:
        return
    usual, number = counts.most_common(1)[0]
    if 2 * number <= len(values):
        split = ", ".join(f"{count} say {said}" for said, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:3])
        raise NoMajority(f"no {what} holds a majority of {len(values)} {things}: {split}")
    odd: dict[tuple[str, str], list[str]] = {}
    for node, subject, value in values:
        if value != usual:
            odd.setdefault((node, value), []).append(subject)
    for (node, value), subjects in odd.items():
        yield node, Finding(", ".join(subjects), value, f"{usual}, as on {number} of {len(values)} {things}")


def far_off(
    readings: Iterable[Readings], unit: str, *, spreads: float, floor: float, at_least: int, above: bool = True, below: bool = True,
) -> Said:
    """A finding for each reading that is further from its peers' median than `spreads` times their spread.

    The spread is 1.4826 times the median absolute deviation, and at least `floor`: among equals to the digit, a degree is no fault.
    Nobody is accused among fewer than `at_least` peers, where the peers are spread too widely to have a median worth the name, or where
    more than a quarter of them would be outliers.
    """
    groups: dict[str, list[Readings]] = {}
    for some in readings:
        groups.setdefault(some.peers, []).append(some)
    for peers, group in groups.items():
        if _level(group, at_least) and spreads * floor >= 0:
            continue
        values = [value for some in group for value in some.values]
        if not values:
            continue
        middle = median(values)
        far = [abs(value - middle) for value in values]
        spread = _SIGMA * median(far)
        limit = spreads * max(spread, floor)
        number = sum(off > limit for off in far)
        why = ""
        if len(values) < at_least:
            why = f"fewer than {at_least} peers to compare with"
        elif spread > spreads * floor or _MOST_OUTLIERS * number > len(values):
            why = "the peers differ too widely to say who is the outlier"
        for some in group if why else ():
            yield from ((some.node, Uncompared(subject, why)) for subject in some.subjects)
        for some in group if number and not why else ():
            for subject, value in zip(some.subjects, some.values, strict=True):
                if not abs(value - middle) > limit or not (above if value > middle else below):
                    continue
                off = f"{abs(value - middle):.4g}{unit} {'above' if value > middle else 'below'} the median"
                usual = f"about {middle:.4g}{unit}, the median of {len(values)} {peers}".rstrip()
                yield some.node, Finding(subject, f"{value:.4g}{unit}, {off}", usual)


def _level(group: Iterable[Readings], at_least: int) -> bool:
    """Whether so many readings are all the same, as most counters' are: then none is far from the others. Nodes may share their values."""
    usual, number = None, 0
    blocks: dict[int, bool] = {}
    for some in group:
        values = some.values
        level = blocks.get(id(values))
        if level is None:
            usual = values[0] if usual is None and values else usual
            level = blocks[id(values)] = usual is None or values.count(usual) == len(values)
        if not level:
            return False
        number += len(values)
    return number >= at_least


@fleet_check("fleet.kernel")
def fleet_kernel(versions: Mapping[str, Versions]) -> Iterator[tuple[str, Finding]]:
    """Every node runs the kernel release that the majority of its cohort runs."""
    yield from outliers({node: fact.kernel for node, fact in versions.items()}, "kernel")


@fleet_check("fleet.driver")
def fleet_driver(versions: Mapping[str, Versions]) -> Iterator[tuple[str, Finding]]:
    """Every node has loaded the NVIDIA driver that the majority of its cohort has loaded."""
    yield from outliers({node: fact.driver for node, fact in versions.items()}, "driver")


@fleet_check("fleet.boot_time")
def fleet_boot_time(
    uptime: Mapping[str, Uptime], earlier_boot: Mapping[str, EarlierBoot], *, recent_hours: float, settled_hours: float,
) -> Said:
    """No node has booted lately while its peers have long been up: such a reboot was hardly planned, and somebody should know why.

    Where more than a quarter have booted lately, that is somebody's maintenance. Where an earlier look tells of the reboot,
    host.rebooted knows more of it.
    """
    usual = median(fact.hours for fact in uptime.values())
    recent = {node: fact.hours for node, fact in uptime.items() if fact.hours < recent_hours}
    if usual < settled_hours:
        return
    for node, hours in recent.items():
        if earlier_boot[node].looked:
            yield node, Uncompared("boot", "an earlier look tells of this reboot, which is host-rebooted's matter")
        elif _MOST_OUTLIERS * len(recent) > len(uptime):
            yield node, Uncompared("boot", "many of its peers have booted lately as well")
        else:
            expected = f"as long ago as its peers': {usual / 24:.0f} days, the median of {len(uptime)} nodes"
            yield node, Finding("boot", f"{hours:.1f} hours ago", expected)
