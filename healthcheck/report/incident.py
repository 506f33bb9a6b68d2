"""Incidents for people and as JSON (muster.incidents/1): place, symptoms, likelihood, nodes and times,
who closed it and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from healthcheck.model.verdict import StoredIncident
from healthcheck.store.marks import CordonMark
from healthcheck.triage.changed import change_document
from healthcheck.triage.changed import lines as change_lines
from healthcheck.triage.likelihood import words
from healthcheck.triage.past import VersionChange
from healthcheck.triage.whole import named
from inventory.nodeset import fold, natural
from inventory.text import clean
from inventory.times import ago, iso, minute

_HEAD = ("ID", "WHERE", "OWNER", "OPENED", "STATE", "NODES", "WHAT")
_WHAT = 90


def lines(found: Sequence[StoredIncident], now: float) -> Iterator[str]:
    """A table, one line per incident."""
    rows = [_HEAD, *(
        (str(one.id), clean(named(one.kind, one.place), 60), one.owner, minute(one.began),
         f"open {ago(now - one.began)}" if one.ended is None else f"closed {minute(one.ended)}",
         clean(fold(member.node for member in one.members) or "-", 60), clean(", ".join(one.symptoms), _WHAT))
        for one in found)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD) - 1)]
    for row in rows if found else []:
        yield "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)),
                         row[-1]]).rstrip()


def page(
    one: StoredIncident, held: Mapping[str, CordonMark], changes: Sequence[VersionChange] = (),
) -> Iterator[str]:
    """One incident in full. `held` are its cordons, by node; `changes` what changed just before it began, of
    what nodes are judged by."""
    yield f"incident {one.id}: {clean(named(one.kind, one.place))}"
    yield ""
    yield f"  {'why':<11}{clean(one.why, 600)}"
    if one.likelihood:
        yield f"  {'likelihood':<11}{words(one.likelihood)} ({one.likelihood:.3g})"
    yield f"  {'owner':<11}{one.owner}"
    yield f"  {'opened':<11}{minute(one.began)}, last seen {minute(one.seen)}"
    if one.ended is not None:
        yield f"  {'closed':<11}{minute(one.ended)} by {clean(one.by)}: {clean(one.closed)}"
    for line in change_lines(changes):
        yield f"  {'beside':<11}{clean(line, 600)}"
    yield from (f"  {'shows' if not at else '':<11}{clean(symptom)}"
                for at, symptom in enumerate(one.symptoms))
    yield ""
    members = sorted(one.members, key=lambda member: natural(member.node))
    width = max([4, *(len(member.node) for member in members)])
    yield f"  {'NODE':<{width}}  FIRST              LAST               IN IT UNTIL        CORDON"
    for member in members:
        until = minute(member.ended) if member.ended is not None else "now"
        mark = str(held.get(member.node, "-"))
        yield f"  {member.node:<{width}}  {minute(member.began)}  {minute(member.seen)}  {until:<17}  {mark}"


def _number(mark: CordonMark | None) -> int | None:
    return mark.number if mark is not None else None


def document(
    found: Sequence[StoredIncident], now: float, held: Mapping[int, Mapping[str, CordonMark]],
    changes: Mapping[int, Sequence[VersionChange]] = MappingProxyType({}),
) -> dict[str, Any]:
    """The document for programs; times are epoch seconds. `changes` are those beside each, if asked for."""
    return {
        "schema": "muster.incidents/1",
        "time": iso(now),
        "incidents": [{
            "id": one.id, "kind": one.kind, "place": one.place, "symptoms": list(one.symptoms),
            "owner": one.owner, "why": one.why, "likelihood": one.likelihood, "opened": one.began,
            "seen": one.seen, "closed": one.ended, "closed_by": one.by or None,
            "closed_why": one.closed or None,
            "nodes": [{"node": member.node, "first": member.began, "last": member.seen, "until": member.ended,
                       "cordon": _number(held.get(one.id, {}).get(member.node))} for member in one.members],
        } | ({"changes": [change_document(each) for each in changes[one.id]]} if one.id in changes else {})
            for one in found],
    }
