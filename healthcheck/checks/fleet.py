"""Fleet checks of whole nodes, and the comparisons of all fleet checks: with a majority, or with the median
of equals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from statistics import median
from typing import NamedTuple, TypeVar

from healthcheck.checks.base import fleet_check
from healthcheck.facts.boot import EarlierBoot
from healthcheck.facts.host import Uptime, Versions
from healthcheck.facts.values import Fact, readable
from healthcheck.model.outcome import Finding

F = TypeVar("F", bound=Fact)
T = TypeVar("T")
# The median absolute deviation of a normal distribution is its standard deviation divided by this.
_SIGMA = 1.4826
# Where more than a quarter would be outliers, there are two populations and no outliers.
_MOST_OUTLIERS = 4


class NoMajority(Exception):
    """A cohort is split so that no node is the outlier; its text says how."""


class Split(Enum):
    """The result for a cohort in which no value has a majority."""

    UNKNOWN = "unknown"         # NoMajority is raised: the rule is UNKNOWN for all
    ALONE = "alone"             # each is reported as having no peers
    NO_ONE = "no one"           # no one is accused


class Uncompared(NamedTuple):
    """In place of a finding, for a subject without peers to compare with: it is visibly not judged."""

    subject: str
    why: str


class Undecided(NamedTuple):
    """In place of a finding, for a node whose peers disagree so that no one is the outlier: it is UNKNOWN."""

    subject: str
    why: str


Comparison = Iterator[tuple[str, Finding | Uncompared | Undecided]]


class FleetReadings(NamedTuple):
    """A node's readings, a value for each subject. `peers` names those that they are compared with, as in
    '... of 64 GPUs in slot 3, idle'."""

    node: str
    subjects: Sequence[str]
    values: Sequence[float]
    peers: str = ""


def read_all(facts: Mapping[str, F], read: Callable[[F], T]) -> dict[str, T]:
    """The result of `read` for each node's fact; a node whose fact refuses is left out, and UNKNOWN."""
    return {node: value for node, fact in facts.items() for _, value in readable((fact,), read)}


def rows(facts: Mapping[str, tuple[F, ...]], read: Callable[[F], str]) -> list[tuple[str, str, str]]:
    """(node, subject, value) of each member of each node's collection; a member that refuses is left out, and
    UNKNOWN."""
    return [(node, member.name, value) for node, members in facts.items()
            for member, value in readable(members, read)]


def outliers(facts: Mapping[str, F], read: Callable[[F], str], what: str,
             split: Split = Split.UNKNOWN) -> Comparison:
    """A finding for each node that differs from more than half of them."""
    yield from odd_ones([(node, what, value) for node, value in read_all(facts, read).items()], what, "nodes",
                        split)


def odd_ones(values: Iterable[tuple[str, str, str]], what: str, things: str,
             split: Split = Split.UNKNOWN) -> Comparison:
    """The same for several subjects of a node, given as (node, subject, value); equal values on one node are
    one finding."""
    values = list(values)
    counts = Counter(value for _, _, value in values)
    if len(counts) < 2:
        return
    usual, number = counts.most_common(1)[0]
    if 2 * number <= len(values):
        shares = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:3]
        why = (f"no {what} holds a majority of {len(values)} {things}: "
               + ", ".join(f"{count} say {value}" for value, count in shares))
        if split is Split.UNKNOWN:
            raise NoMajority(why)
        yield from ((node, Uncompared(subject, why)) for node, subject, _ in values if split is Split.ALONE)
        return
    odd: dict[tuple[str, str], list[str]] = {}
    for node, subject, value in values:
        if value != usual:
            odd.setdefault((node, value), []).append(subject)
    for (node, value), subjects in odd.items():
        yield node, Finding(value, f"{usual}, as on {number} of {len(values)} {things}", ", ".join(subjects))


def by_peers(
    facts: Mapping[str, tuple[F, ...]], what: str, read: Callable[[F], tuple[str, str] | None],
) -> Comparison:
    """The same for members of the nodes' collections, each among its own peers.

    `read` returns the peers ("nodes at 0000:43:00.0") and the value; with None a member is not compared.
    Where no value has a majority of the peers, each of them is `Uncompared`.
    """
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for node, members in facts.items():
        for member, found in readable(members, read):
            if found is not None:
                groups.setdefault(found[0], []).append((node, member.name, found[1]))
    for peers, values in groups.items():
        yield from odd_ones(values, what, peers, Split.ALONE)


def far_off(
    readings: Iterable[FleetReadings], unit: str, *, spreads: float, floor: float, at_least: int,
    above: bool = True, below: bool = True,
) -> Comparison:
    """A finding for each reading that is further from its peers' median than `spreads` times their spread.

    The spread is 1.4826 times the median absolute deviation, and at least `floor`: among identical readings,
    one degree is no fault. There is no finding among fewer than `at_least` peers, where the peers are spread
    too widely for a useful median, or where more than a quarter of them would be outliers.
    """
    groups: dict[str, list[FleetReadings]] = {}
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
                yield some.node, Finding(f"{value:.4g}{unit}, {off}", usual, subject)


def _level(group: Iterable[FleetReadings], at_least: int) -> bool:
    """Whether there are enough readings and all are equal, as most counters' are: then there is no
    outlier."""
    values = [value for some in group for value in some.values]
    return len(values) >= at_least and values.count(values[0]) == len(values)


@fleet_check("fleet.kernel")
def fleet_kernel(versions: Mapping[str, Versions]) -> Comparison:
    """Every node runs the kernel release that the majority of its cohort runs."""
    yield from outliers(versions, lambda fact: fact.kernel, "kernel")


@fleet_check("fleet.driver")
def fleet_driver(versions: Mapping[str, Versions]) -> Comparison:
    """Every node has loaded the NVIDIA driver that the majority of its cohort has loaded."""
    yield from outliers(versions, lambda fact: fact.driver, "driver")


@fleet_check("fleet.boot_time")
def fleet_boot_time(
    uptime: Mapping[str, Uptime], earlier_boot: Mapping[str, EarlierBoot], *, recent_hours: float,
    settled_hours: float,
) -> Comparison:
    """No node has booted lately while its peers have long been up: such a reboot was hardly planned, and
    needs an explanation.

    Where more than a quarter have booted lately, that is maintenance. Where an earlier snapshot shows the
    reboot, host.rebooted reports it in detail.
    """
    hours = read_all(uptime, lambda fact: fact.hours)
    looked = read_all({node: earlier_boot[node] for node in hours}, lambda fact: fact.looked)
    usual = median(hours.values()) if hours else 0.0
    if usual < settled_hours:
        return
    recent = [node for node in looked if hours[node] < recent_hours]
    for node in recent:
        if looked[node]:
            why = "an earlier snapshot shows this reboot, which host-rebooted judges"
            yield node, Uncompared("boot", why)
        elif _MOST_OUTLIERS * len(recent) > len(hours):
            yield node, Uncompared("boot", "many of its peers have booted lately as well")
        else:
            expected = f"as long ago as its peers': {usual / 24:.0f} days, the median of {len(hours)} nodes"
            yield node, Finding(f"{hours[node]:.1f} hours ago", expected, "boot")
