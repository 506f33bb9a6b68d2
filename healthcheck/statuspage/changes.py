"""The second answer of the page: what has changed within a day. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from healthcheck.model.verdict import StoredIncident
from healthcheck.report.nodes import HEALTHY, NEVER
from healthcheck.store.history import Spell
from healthcheck.store.ledger import LedgerEntry
from healthcheck.triage.whole import named
from inventory.nodeset import fold
from inventory.text import clean

HOURS = 24
_WORSE = {"unhealthy": 4, "unknown": 3, "degraded": 2, NEVER: 1, HEALTHY: 0}
_MOST = 14
_MOST_NAMES = 160


class Change(NamedTuple):
    """One line: when it happened last, in words, how many nodes, which, whether to the worse, and what shows
    more."""

    at: float
    text: str
    number: int
    nodes: str
    worse: bool
    command: str


def before(spells: Sequence[Spell], since: float) -> str:
    """The state of a node at that time by its spells, oldest first; never-seen where none had begun."""
    state = NEVER
    for one in spells:
        if one.began <= since:
            state = one.state
    return state


def of_states(spells: Mapping[str, Sequence[Spell]], since: float) -> list[Change]:
    """Nodes whose state is another than it was, by from and to; and those that changed and came back."""
    moved: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    for node, held in spells.items():
        newest = held[-1]
        was = before(held, since)
        if newest.began > since:
            moved[was, newest.state].append((newest.began, node))
    found = []
    for (was, state), nodes in moved.items():
        names = [node for _, node in nodes]
        if was == state:
            text = f"changed, and {state} again"
        elif was == NEVER:
            text = f"first seen, {state}"
        else:
            text = f"{was} → {state}"
        found.append(Change(max(at for at, _ in nodes), text, len(names), _names(names),
                            _WORSE.get(state, 0) > _WORSE.get(was, 0) and state != HEALTHY,
                            f"muster history {{}} --since {HOURS}h"))
    return found


def of_incidents(incidents: Iterable[StoredIncident], since: float) -> list[Change]:
    """Incidents that were opened or closed."""
    found = []
    for one in incidents:
        where, names = clean(named(one.kind, one.place), 80), [member.node for member in one.members]
        show = f"muster incident show {one.id}"
        if one.ended is not None and one.ended > since:
            found.append(Change(one.ended, f"incident {one.id} closed: {where}", len(names),
                                _names(names), False, show))
        elif one.began > since:
            found.append(Change(one.began, f"incident {one.id} opened: {where}", len(names),
                                _names(names), True, show))
    return found


def of_actions(lines: Iterable[LedgerEntry]) -> list[Change]:
    """What muster and people did, by action and person."""
    groups: dict[tuple[str, str], list[LedgerEntry]] = defaultdict(list)
    for line in lines:
        groups[clean(line.action, 60), clean(line.who, 40)].append(line)
    found = []
    for (action, who), group in groups.items():
        names = list(dict.fromkeys(line.node for line in group if line.node))
        failed = sum((line.outcome or "").startswith("not done") for line in group)
        text = f"{action}, by {who}" + (f" ({failed} not done)" if failed else "")
        found.append(Change(max(line.time for line in group), text, len(names), _names(names), False,
                            ""))
    return found


def document(found: Iterable[Change]) -> list[dict[str, Any]]:
    """The newest first, what became worse before the rest; at most 14, and then how many more."""
    listed = sorted(found, key=lambda one: (not one.worse, -one.at))
    lines = [one._asdict() for one in listed[:_MOST]]
    if more := len(listed) - len(lines):
        lines.append(Change(0, f"and {more} more kinds of change", 0, "", False,
                            f"muster history --since {HOURS}h")._asdict())
    return lines


def _names(names: Sequence[str]) -> str:
    return clean(fold(names), _MOST_NAMES) if names else ""
