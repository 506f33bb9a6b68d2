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
    """One finding over all its nodes; `row` is what was kept of it last, of whichever node."""

    nodes: tuple[str, ...]
    row: WatchedNode


def kept(rows: Iterable[WatchedNode]) -> tuple[KeptCause, ...]:
    """The findings that these rows are of, the oldest first."""
    found: dict[str, KeptCause] = {}
    for row in rows:
        one = found.get(row.finding)
        nodes = (*(one.nodes if one is not None else ()), *((row.node,) if row.node else ()))
        found[row.finding] = KeptCause(nodes, row)
    return tuple(sorted(found.values(), key=lambda one: (one.row.began, one.row.finding)))


def adopted(findings: Sequence[WatchFinding], known: Sequence[KeptCause]) -> tuple[WatchFinding, ...]:
    """The findings of the logs, each with the likely cause that was kept of the same ranks in the same time
    where the logs themselves tell none."""
    return tuple(_adopted(one, known) for one in findings)


def _adopted(one: WatchFinding, known: Sequence[KeptCause]) -> WatchFinding:
    if one.verdict.certainty is Certainty.LIKELY or one.pattern is SlowPattern.HANG:
        return one
    fits = [other for other in known if other.row.certainty == LIKELY and other.row.pattern != _HANG
            and _CAUSES.get(other.row.cause, WatchCause.UNKNOWN) is not WatchCause.UNKNOWN
            and _same(one, other.row)]
    causes = {other.row.cause for other in fits}
    if len(causes) != 1:
        return one      # none, or they do not agree
    words = (f"kept by muster watch --store while it ran: {fits[-1].row.said}", *one.verdict.evidence)
    return replace(one, verdict=CauseVerdict(_CAUSES[causes.pop()], Certainty.LIKELY, words,
                                             hosts=one.hosts or fits[-1].nodes))


def _same(one: WatchFinding, other: WatchedNode) -> bool:
    """Whether both are of the same ranks (or of the job as a whole) in a common time."""
    until = other.ended if other.ended is not None else other.seen
    if one.since > until + _APART_S or one.last < other.began - _APART_S:
        return False
    return bool(set(one.ranks) & set(other.ranks)) if one.ranks or other.ranks else True


def beyond(known: Sequence[KeptCause], findings: Sequence[WatchFinding]) -> tuple[KeptCause, ...]:
    """Those that the logs do not show: of ranks or of a time that no finding of theirs is of."""
    return tuple(other for other in known if not any(
        (one.pattern is SlowPattern.HANG) == (other.row.pattern == _HANG) and _same(one, other.row)
        for one in findings))


def document(one: KeptCause) -> dict[str, Any]:
    """As part of a document; times in epoch seconds."""
    row = one.row
    return {"id": row.finding, "nodes": list(one.nodes), "ranks": list(row.ranks), "pattern": row.pattern,
            "cause": row.cause, "certainty": row.certainty, "share": row.share, "text": row.said,
            "began": row.began, "seen": row.seen, "ended": row.ended}
