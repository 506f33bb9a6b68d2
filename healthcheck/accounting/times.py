"""How long it took to see a failure, to isolate the node, and to return it; and what is unknown. Pure.

A failure may have several holds: a node is given back too early and held again, people take it over, two back
ends hold it at once. All of them are its own, and each hour is that of one failure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import fmean, median

from healthcheck.accounting.failures import NodeFailure
from healthcheck.model.spans import Span, seconds

_APART = 6 * 3600.0     # as `repeat.apart_hours` of the packaged policy


@dataclass(frozen=True)
class CordonSpan:
    """A cordon of ours, from when to when; `released`: we ended it, and not a person behind our back. `own`:
    triage made it, and in no incident's name."""

    node: str
    began: float
    ended: float | None
    released: bool
    own: bool = True


class IsolationOutcome(Enum):
    """Whether a failed node was isolated."""

    ISOLATED = "isolated"
    ALREADY = "already isolated"
    NEVER = "not isolated by muster"


@dataclass(frozen=True)
class FailureTimeline:
    """What became of one failure. `unseen` is the time from the sweep before to the one that saw it first,
    None where there was none before: the failure began somewhere in it. `isolate` is from then to our first
    cordon, `back` from that to our last release; `held` is how long the node was out of service for it, in
    all its holds and until now where one lasts, None where it was not."""

    failure: NodeFailure
    kept: IsolationOutcome
    unseen: float | None = None
    isolate: float | None = None
    back: float | None = None
    out: bool = False
    held: float | None = None


@dataclass
class FailureHolds:
    """What of the holds is one failure's: the cordons that began for it, and the time, in which nothing
    counts twice; `out`: one of them lasts. `until` is when the node last came back from a hold that the
    failure was in, minus infinity without one."""

    cordons: list[CordonSpan] = field(default_factory=list)
    time: list[Span] = field(default_factory=list)
    until: float = float("-inf")
    out: bool = False


@dataclass(frozen=True)
class DurationStats:
    """Some durations in seconds: how many, their mean and their median; both None where there are none."""

    count: int
    mean: float | None
    median: float | None


def holds(
    failures: Iterable[NodeFailure], held: Mapping[str, Sequence[CordonSpan]], now: float,
    apart: float = _APART,
) -> dict[NodeFailure, FailureHolds]:
    """What each failure was held for; `held` is by node and sorted by time. A hold is of the failure in which
    it begins; beyond its end it is of it where it takes over from one that is, or where triage holds the node
    again within `apart` seconds. What no failure began is, from the beginning of the next one on, that
    one's."""
    of_node: dict[str, list[NodeFailure]] = defaultdict(list)
    for failure in failures:
        of_node[failure.node].append(failure)
    found: dict[NodeFailure, FailureHolds] = {}
    for node, several in of_node.items():
        several.sort(key=lambda failure: failure.began)
        found |= _of_node(several, held.get(node, ()), now, apart)
    return found


def _of_node(
    failures: Sequence[NodeFailure], held: Sequence[CordonSpan], now: float, apart: float,
) -> dict[NodeFailure, FailureHolds]:
    found = {failure: FailureHolds() for failure in failures}
    starts = [failure.began for failure in failures]
    counted = float("-inf")     # until when time has been counted
    for one in held:
        ended = max(one.began, min(one.ended, now) if one.ended is not None else now)
        at = bisect_right(starts, one.began) - 1
        began = one.began
        if at >= 0 and _is_of(one, failures[at], found[failures[at]], apart):
            found[failures[at]].cordons.append(one)
        elif at + 1 < len(failures) and starts[at + 1] < ended:
            at, began = at + 1, starts[at + 1]
        else:
            continue
        found[failures[at]].out |= one.ended is None
        for failure in failures[at:bisect_right(starts, ended)]:
            found[failure].until = max(found[failure].until, ended)
        if (began := max(began, counted)) < ended:
            found[failures[at]].time.append((began, ended))
            counted = ended
    return found


def _is_of(one: CordonSpan, failure: NodeFailure, before: FailureHolds, apart: float) -> bool:
    """Whether a hold that begins after a failure is one of its own."""
    if failure.ended is None or one.began <= max(failure.ended, before.until):
        return True
    return before.until > float("-inf") and one.own and one.began <= max(before.until, failure.ended) + apart


def courses(
    failures: Iterable[NodeFailure], sweeps: Sequence[float], held: Mapping[str, Sequence[CordonSpan]],
    kept: Mapping[NodeFailure, FailureHolds],
) -> list[FailureTimeline]:
    """What became of each; `sweeps` are the beginnings, sorted, of those that looked at most nodes;
    `held` is sorted by time, and `kept` what of it is each failure's."""
    return [_course(failure, sweeps, held.get(failure.node, ()), kept[failure]) for failure in failures]


def spread(values: Iterable[float | None]) -> DurationStats:
    """Of those that are known."""
    known = [value for value in values if value is not None]
    return DurationStats(len(known), fmean(known), median(known)) if known else DurationStats(0, None, None)


def _course(
    failure: NodeFailure, sweeps: Sequence[float], held: Sequence[CordonSpan], own: FailureHolds,
) -> FailureTimeline:
    before = bisect_left(sweeps, failure.began)
    unseen = failure.began - sweeps[before - 1] if before else None
    lasted = seconds(own.time) or None
    if any(one.began < failure.began and (one.ended is None or one.ended > failure.began) for one in held):
        return FailureTimeline(failure, IsolationOutcome.ALREADY, unseen, out=own.out, held=lasted)
    if not own.cordons:
        return FailureTimeline(failure, IsolationOutcome.NEVER, unseen, held=lasted)
    first = own.cordons[0].began
    last = max(own.cordons, key=lambda one: one.ended if one.ended is not None else float("inf"))
    back = last.ended - first if last.ended is not None and last.released else None
    return FailureTimeline(failure, IsolationOutcome.ISOLATED, unseen, first - failure.began, back, own.out,
                           lasted)
