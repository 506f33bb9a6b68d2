"""The third answer of the page: open work by owner, and the incidents. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

from healthcheck.model.faultkind import Isolation
from healthcheck.model.verdict import StoredIncident
from healthcheck.report.nodes import NodeRow
from healthcheck.statuspage.nextstep import typed
from healthcheck.statuspage.read import FleetRead
from healthcheck.triage.whole import named
from inventory.nodeset import fold
from inventory.text import clean

_MOST_WORK, MOST_NAMES = 30, 200
_LONGEST = 400      # characters of a command; the name of a node has at most 253


def work(read: FleetRead, known: Iterable[StoredIncident]) -> list[dict[str, Any]]:
    """Open work by owner, the most urgent first: incidents, then what nodes have in common. What an
    incident's owner has to do on its nodes is in the incident."""
    found: dict[str, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    taken: set[tuple[str, str]] = set()
    theirs: dict[str, set[str]] = defaultdict(set)
    for one in known:
        if one.ended is None:
            names = [member.node for member in one.members if member.ended is None]
            taken.update((one.owner, name) for name in names)
            theirs[one.owner].update(names)
            found[one.owner].append((100, _item(
                f"incident {one.id}: {clean(named(one.kind, one.place), 80)}", names, one.began,
                f"muster incident show {one.id}", len(names))))
    groups: dict[tuple[str, str, str, int], list[NodeRow]] = defaultdict(list)
    for each in read.rows:
        said = read.turns[each.node]
        if said.owner and (said.owner, each.node) not in taken:
            groups[said.owner, said.what.partition(" (")[0], said.command, said.urgency].append(each)
    for (owner, what, command, urgency), rows in groups.items():
        began = min((each.since for each in rows if each.since is not None), default=None)
        names = [each.node for each in rows]
        theirs[owner].update(names)
        # A ticket is of one node, and a command that was cut would be of others.
        of = names[:1] if command.startswith("muster ticket") else names
        while len(text := typed(command, fold(of))) > _LONGEST and len(of) > 1:
            of = of[:len(of) // 2]
        found[owner].append((urgency, _item(what, names, began, text, len(of))))
    lines = []
    for owner, items in sorted(found.items(), key=lambda each: -max(urgency for urgency, _ in each[1])):
        items.sort(key=lambda each: (-each[0], -int(each[1]["count"])))
        lines.append({"owner": owner, "nodes": len(theirs[owner]),
                      "items": [item for _, item in items[:_MOST_WORK]],
                      "more": max(0, len(items) - _MOST_WORK)})
    return lines


def _item(what: str, names: Collection[str], since: float | None, command: str, of: int) -> dict[str, Any]:
    """`of`: how many of the nodes the command is for, from the first on."""
    return {"what": clean(what, 200), "count": len(names), "nodes": clean(fold(names), MOST_NAMES),
            "since": since, "next": clean(command, 2 * _LONGEST), "of": of}


def incident(one: StoredIncident, read: FleetRead) -> dict[str, Any]:
    """One open incident."""
    names = [member.node for member in one.members if member.ended is None]
    return {"id": one.id, "where": clean(named(one.kind, one.place), 80), "owner": one.owner,
            "why": clean(one.why, 400), "symptoms": [clean(each, 200) for each in one.symptoms[:5]],
            "began": one.began, "seen": one.seen, "count": len(names),
            "nodes": clean(fold(names), MOST_NAMES),
            "isolated": sum(each.isolation is not Isolation.NONE for each in read.rows
                            if one.id in each.incidents),
            "next": f"muster incident show {one.id}"}
