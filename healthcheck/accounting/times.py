"""How long it took to see a failure, to isolate the node, and to return it; and what is unknown. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean, median

from healthcheck.accounting.failures import NodeFailure


@dataclass(frozen=True)
class CordonSpan:
    """A cordon of ours, from when to when; `released`: we ended it, and not a person behind our back."""

    node: str
    began: float
    ended: float | None
    released: bool


class IsolationOutcome(Enum):
    """Whether a failed node was isolated."""

    ISOLATED = "isolated"
    ALREADY = "already isolated"
    NEVER = "not isolated by muster"


@dataclass(frozen=True)
class FailureTimeline:
    """What became of one failure. `unseen` is the time from the sweep before to the one that saw it first,
    None where there was none before: the failure began somewhere in it. `isolate` is from then to our cordon,
    `back` from that to our release."""

    failure: NodeFailure
    kept: IsolationOutcome
    unseen: float | None = None
    isolate: float | None = None
    back: float | None = None
    out: bool = False


@dataclass(frozen=True)
class DurationStats:
    """Some durations in seconds: how many, their mean and their median; both None where there are none."""

    count: int
    mean: float | None
    median: float | None


def courses(
    failures: Iterable[NodeFailure], sweeps: Sequence[float], held: Mapping[str, Sequence[CordonSpan]],
) -> list[FailureTimeline]:
    """What became of each; `sweeps` are the beginnings, sorted, of those that looked at most nodes;
    `held` is sorted by time."""
    return [_course(failure, sweeps, held.get(failure.node, ())) for failure in failures]


def spread(values: Iterable[float | None]) -> DurationStats:
    """Of those that are known."""
    known = [value for value in values if value is not None]
    return DurationStats(len(known), fmean(known), median(known)) if known else DurationStats(0, None, None)


def _course(failure: NodeFailure, sweeps: Sequence[float], held: Sequence[CordonSpan]) -> FailureTimeline:
    before = bisect_left(sweeps, failure.began)
    unseen = failure.began - sweeps[before - 1] if before else None
    if any(one.began < failure.began and (one.ended is None or one.ended > failure.began) for one in held):
        return FailureTimeline(failure, IsolationOutcome.ALREADY, unseen)
    until = failure.ended if failure.ended is not None else float("inf")
    first = next((one for one in held if failure.began <= one.began <= until), None)
    if first is None:
        return FailureTimeline(failure, IsolationOutcome.NEVER, unseen)
    back = first.ended - first.began if first.ended is not None and first.released else None
    return FailureTimeline(failure, IsolationOutcome.ISOLATED, unseen, first.began - failure.began, back,
                           first.ended is None)
