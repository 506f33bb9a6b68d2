"""Summarises a fleet's history: failures per 100 nodes and week with confidence, times, repeat offenders."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from healthcheck.accounting import chance
from healthcheck.accounting.failures import NodeFailure
from healthcheck.accounting.service import within
from healthcheck.accounting.times import (
    CordonSpan,
    DurationStats,
    FailureHolds,
    FailureTimeline,
    IsolationOutcome,
    courses,
    holds,
    spread,
)
from healthcheck.model.spans import Span, both, merged, seconds

WEEK = 7 * 86400.0
WORST = 0.10        # the share of nodes that count as the worst


@dataclass(frozen=True)
class Rate:
    """Failures in a time: per 100 nodes and week, with an exact 95% interval; None without any time."""

    failures: int
    node_weeks: float
    per_100_week: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class SummaryRow:
    """One cause, component, rack or SKU. `unseen`: from the sweep before to the one
    that saw a failure first; `held`: how long nodes were out of service for one. Durations in seconds."""

    key: str
    rate: Rate
    nodes: int
    unseen: DurationStats
    isolate: DurationStats
    back: DurationStats
    already: int
    never: int
    out: int
    held: DurationStats


@dataclass(frozen=True)
class HeldTime:
    """For how many seconds muster kept nodes out of service in that time: for the failures that are counted,
    for those in incidents, and for all else."""

    total: float
    failures: float
    incidents: float
    other: float


@dataclass(frozen=True)
class Worst:
    """How much of all failures the `nodes` worst nodes had, and how much they would have had by chance.
    `again`: those that failed twice or more, with how often, the worst first; `share_again` is their share,
    and `again_by_chance` what it would be by chance."""

    nodes: int
    share: float | None
    by_chance: float | None
    share_again: float | None
    again_by_chance: float | None
    again: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Summary:
    """All of it, from `since` to `now`. `weekly` counts a node once in each week in which it failed. `first`:
    failures that were there at a node's first look, `shared`: of incidents, `changed`: that came only with a
    change of what nodes are judged by, and `outside`: of time that does not count; they are in no rate."""

    since: float
    now: float
    nodes: int
    total: SummaryRow
    tables: Mapping[str, tuple[SummaryRow, ...]]
    weekly: Rate
    worst: Worst
    first: int
    shared: int
    outside: int
    changed: int
    interval: DurationStats
    out: tuple[CordonSpan, ...]
    held: HeldTime


@dataclass(frozen=True)
class SummaryInput:
    """What a summary is made of. `service` is, by node, the time that counts, and `first` when each was first
    looked at; `sweeps` are the beginnings of those that looked at most nodes, sorted; `held` our cordons by
    node, sorted; `groups` by what is grouped by, what a node belongs to. Within `apart` seconds triage holds
    a node again for the same failure."""

    failures: Sequence[NodeFailure]
    service: Mapping[str, Sequence[Span]]
    first: Mapping[str, float]
    sweeps: Sequence[float]
    held: Mapping[str, Sequence[CordonSpan]]
    groups: Mapping[str, Mapping[str, str]]
    apart: float = 6 * 3600.0


BY_FAILURE: Mapping[str, Callable[[NodeFailure], str]] = {
    "cause": lambda failure: failure.cause, "component": lambda failure: failure.component}


def summary(data: SummaryInput, since: float, now: float, by: Iterable[str]) -> Summary:
    """The summary of `data`, with a table for each of `by`: "cause", "component", or of `data.groups`."""
    begun = [failure for failure in data.failures if since <= failure.began <= now
             and failure.node in data.service]
    shared = [failure for failure in begun if failure.shared]
    first = [failure for failure in begun if not failure.shared and failure.began <= data.first[failure.node]]
    later = [failure for failure in begun if not failure.shared and failure.began > data.first[failure.node]]
    own = [failure for failure in later if not failure.changed]
    inside = [failure for failure in own if within(failure.began, data.service[failure.node])]
    kept = holds(data.failures, data.held, now, data.apart)
    found = courses(inside, data.sweeps, data.held, kept)
    time = {node: seconds(spans) for node, spans in data.service.items()}
    weeks = sum(time.values()) / WEEK
    tables = {name: _table(name, found, time, weeks, data.groups.get(name, {})) for name in by}
    cells = {(failure.node, int((now - failure.began) // WEEK)) for failure in inside}
    gaps = [later - before for before, later in zip(data.sweeps, data.sweeps[1:], strict=False)
            if later >= since]
    return Summary(since, now, len(time), _row("all", found, weeks), tables, rate(len(cells), weeks),
                   _worst(inside, len(time)), len(first), len(shared), len(own) - len(inside),
                   len(later) - len(own), spread(gaps),
                   tuple(first for node in sorted(data.service)
                         for first in [one for one in data.held.get(node, ()) if one.ended is None][:1]),
                   _held(data, inside, shared, kept, (since, now)))


def _held(
    data: SummaryInput, counted: Iterable[NodeFailure], shared: Iterable[NodeFailure],
    kept: Mapping[NodeFailure, FailureHolds], period: Span,
) -> HeldTime:
    total = sum(seconds(both(merged((one.began, one.ended if one.ended is not None else period[1])
                                    for one in data.held.get(node, ())), [period])) for node in data.service)
    own, others = (sum(seconds(both(kept[failure].time, [period])) for failure in each)
                   for each in (counted, shared))
    return HeldTime(total, own, others, max(0.0, total - own - others))


def rate(failures: int, node_weeks: float) -> Rate:
    """So many failures in so much time."""
    if not node_weeks:
        return Rate(failures, 0.0, None, None, None)
    low, high = chance.interval(failures)
    return Rate(failures, node_weeks, *(100 * number / node_weeks for number in (failures, low, high)))


def _table(
    name: str, found: Sequence[FailureTimeline], time: Mapping[str, float], weeks: float,
    group: Mapping[str, str],
) -> tuple[SummaryRow, ...]:
    """A row for each group, most failures first; the time of a rack or a SKU is that of its own nodes."""
    of = BY_FAILURE.get(name) or (lambda failure: group.get(failure.node, ""))
    there: dict[str, list[FailureTimeline]] = defaultdict(list)
    for course in found:
        there[of(course.failure)].append(course)
    times: dict[str, float] = dict.fromkeys(there, weeks)
    if name not in BY_FAILURE:
        times = defaultdict(float)
        for node, lasted in time.items():
            times[group.get(node, "")] += lasted / WEEK
    rows = [_row(key, there.get(key, []), lasted) for key, lasted in times.items()]
    return tuple(sorted(rows, key=lambda row: (-row.rate.failures, row.key)))


def _row(key: str, found: Sequence[FailureTimeline], weeks: float) -> SummaryRow:
    kept = Counter(course.kept for course in found)
    return SummaryRow(
        key, rate(len(found), weeks), len({course.failure.node for course in found}),
        spread(course.unseen for course in found), spread(course.isolate for course in found),
        spread(course.back for course in found), kept[IsolationOutcome.ALREADY],
        kept[IsolationOutcome.NEVER],
        sum(course.out for course in found), spread(course.held for course in found))


def _worst(found: Sequence[NodeFailure], nodes: int) -> Worst:
    often = sorted(Counter(failure.node for failure in found).items(), key=lambda pair: (-pair[1], pair[0]))
    most = math.ceil(nodes * WORST)
    again = tuple(pair for pair in often if pair[1] > 1)
    if not found:
        return Worst(most, None, None, None, None, again)
    # Of a Poisson number with mean m, the part that is of those with two or more is (m - m exp(-m)) / m.
    return Worst(most, sum(number for _, number in often[:most]) / len(found),
                 chance.share_of_worst(len(found), nodes, most),
                 sum(number for _, number in again) / len(found), 1 - math.exp(-len(found) / nodes), again)
