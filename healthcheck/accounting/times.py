"""How long it took to see a failure, to keep jobs away, and to give the node back; and what of that cannot be known. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean, median

from healthcheck.accounting.failures import Failure


@dataclass(frozen=True)
class Held:
    """A cordon of ours, from when to when; `released`: we ended it, and not a person behind our back."""

    node: str
    began: float
    ended: float | None
    released: bool


class Kept(Enum):
    """What became of the jobs' way to a node that failed."""

    ISOLATED = "isolated"
    ALREADY = "already isolated"
    NEVER = "not isolated by muster"


@dataclass(frozen=True)
class Course:
    """What became of one failure. `unseen` is the time from the sweep before to the one that saw it first, None where there was none
    before: the failure began somewhere in it. `isolate` is from then to our cordon, `back` from that to our release."""

    failure: Failure
    kept: Kept
    unseen: float | None = None
    isolate: float | None = None
    back: float | None = None
    out: bool = False


@dataclass(frozen=True)
class Spread:
    """Some durations in seconds: how many, their mean and their median; both None where there are none."""

    count: int
    mean: float | None
    median: float | None


def courses(failures: Iterable[Failure], sweeps: Sequence[float], held: Mapping[str, Sequence[Held]]) -> list[Course]:
    """What became of each; `sweeps` are the beginnings, sorted, of those that looked at most nodes; `held` is sorted by time."""
    return [_course(failure, sweeps, held.get(failure.node, ())) for failure in failures]


def spread(values: Iterable[float | None]) -> Spread:
    """Of those that are known."""
    known = [value for value in values if value is not None]
    return Spread(len(known), fmean(known), median(known)) if known else Spread(0, None, None)


def _course(failure: Failure, sweeps: Sequence[float], held: Sequence[Held]) -> Course:
    before = bisect_left(sweeps, failure.began)
    unseen = failure.began - sweeps[before - 1] if before else None
    if any(one.began < failure.began and (one.ended is None or one.ended > failure.began) for one in held):
        return Course(failure, Kept.ALREADY, unseen)
    until = failure.ended if failure.ended is not None else float("inf")
    first = next((one for one in held if failure.began <= one.began <= until), None)
    if first is None:
        return Course(failure, Kept.NEVER, unseen)
    back = first.ended - first.began if first.ended is not None and first.released else None
    return Course(failure, Kept.ISOLATED, unseen, first.began - failure.began, back, first.ended is None)
