"""What `muster watch --store` kept of a job while it ran, beside what its logs alone say afterwards. The
nodes were asked then, so that it may know a cause that no log has. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from healthcheck.store.watched import LIKELY, WatchedNode
from healthcheck.watch.model import CauseVerdict, Certainty, SlowPattern, WatchCause, WatchFinding

_CAUSES = {cause.name.lower(): cause for cause in WatchCause}
_HANG = SlowPattern.HANG.name.lower()
_APART_S = 60.0     # that the beginnings and ends of one slowness may differ by: windows lie differently


@dataclass(frozen=True)
class KeptCause:
    """One finding over all its nodes, as it was seen last. Times in epoch seconds; `ended` is None where it
    lasted when it was seen last."""

    id: str
    nodes: tuple[str, ...]
    ranks: tuple[int, ...]
    pattern: str
    cause: str
    certainty: str
    share: float
    said: str
    began: float
    seen: float
    ended: float | None


def kept(rows: Iterable[WatchedNode]) -> tuple[KeptCause, ...]:
    """The findings that these rows are of, the oldest first."""
    found: dict[str, KeptCause] = {}
    for row in rows:
        one = found.get(row.finding)
        nodes = (*(one.nodes if one is not None else ()), *((row.node,) if row.node else ()))
        found[row.finding] = KeptCause(row.finding, nodes, row.ranks, row.pattern, row.cause, row.certainty,
                                         row.share, row.said, row.began, row.seen, row.ended)
    return tuple(sorted(found.values(), key=lambda one: (one.began, one.id)))


def adopted(findings: Sequence[WatchFinding], known: Sequence[KeptCause]) -> tuple[WatchFinding, ...]:
    """The findings of the logs, each with the likely cause that was kept of the same ranks in the same time
    where the logs themselves tell none."""
    return tuple(_adopted(one, known) for one in findings)


def _adopted(one: WatchFinding, known: Sequence[KeptCause]) -> WatchFinding:
    if one.verdict.certainty is Certainty.LIKELY or one.pattern is SlowPattern.HANG:
        return one
    fits = [other for other in known if other.certainty == LIKELY and other.pattern != _HANG
            and _CAUSES.get(other.cause, WatchCause.UNKNOWN) is not WatchCause.UNKNOWN and _same(one, other)]
    causes = {other.cause for other in fits}
    if len(causes) != 1:
        return one      # none, or they do not agree
    words = (f"kept by muster watch --store while it ran: {fits[-1].said}", *one.verdict.evidence)
    return replace(one, verdict=CauseVerdict(_CAUSES[causes.pop()], Certainty.LIKELY, words,
                                             hosts=one.hosts or fits[-1].nodes))


def _same(one: WatchFinding, other: KeptCause) -> bool:
    """Whether both are of the same ranks (or of the job as a whole) in a common time."""
    until = other.ended if other.ended is not None else other.seen
    if one.since > until + _APART_S or one.last < other.began - _APART_S:
        return False
    return bool(set(one.ranks) & set(other.ranks)) if one.ranks or other.ranks else True


def beyond(known: Sequence[KeptCause], findings: Sequence[WatchFinding]) -> tuple[KeptCause, ...]:
    """Those that the logs do not show: of ranks or of a time that no finding of theirs is of."""
    return tuple(other for other in known if not any(
        (one.pattern is SlowPattern.HANG) == (other.pattern == _HANG) and _same(one, other)
        for one in findings))


def document(one: KeptCause) -> dict[str, Any]:
    """As part of a document; times in epoch seconds."""
    return {"id": one.id, "nodes": list(one.nodes), "ranks": list(one.ranks), "pattern": one.pattern,
            "cause": one.cause, "certainty": one.certainty, "share": one.share, "text": one.said,
            "began": one.began, "seen": one.seen, "ended": one.ended}
