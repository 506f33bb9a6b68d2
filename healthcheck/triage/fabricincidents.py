"""Incidents of places that are no nodes: what the subnets show, from when a check first shows it to when one
measures it and does not. Pure.

They isolate no node. What a node shows of its own port is part of its link's incident; where an incident that
nodes share is there already (their leaf, their rack), what the subnet shows there is evidence for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from healthcheck.model.faultkind import Of
from healthcheck.model.outcome import Repair
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import Incident, IncidentEnd, IncidentMember, StoredIncident, Verdict
from healthcheck.store.fabricfindings import RULES, FabricTrouble, remedy
from healthcheck.triage.fabricplaces import LINK, PORT, FabricSpot, at_node, spots
from healthcheck.triage.faults import of
from healthcheck.triage.ours import UNREACHED
from healthcheck.triage.past import FleetHistory, NodeHistory
from healthcheck.triage.policy import PHYSICAL
from inventory.times import minute

_TRIAGE = "triage"
# Rules of a node's own checks that are about a port, by how their ids begin.
_OF_PORTS = ("port-", "hca-", "roce-", "optics-", "netdev-", "fleet-netdev", "fleet-hca", "burnin-link")
_BESIDE = "; the subnet shows "
_SHOWN = 3
_LONGEST = 900
_WORD = re.compile(r"[0-9A-Za-z_:.-]+")


@dataclass(frozen=True)
class FabricIncidents:
    """The incidents of links, ports, switches, leaves and subnets; the other ones with what the subnets show
    there; those that end; and by a node's own problem the incident of the link that it is about."""

    incidents: tuple[Incident, ...] = ()
    others: tuple[Incident, ...] = ()
    ends: tuple[IncidentEnd, ...] = ()
    ports: Mapping[Problem, int] = field(default_factory=dict)


def of_fabric(one: StoredIncident) -> bool:
    """Whether an incident is of what subnets show."""
    return any(name in RULES for name in one.symptoms)


def fabric_incidents(
    fleet: FleetHistory, others: Sequence[Incident], number_of: Callable[[str, str, Sequence[str]], int],
) -> FabricIncidents:
    """What becomes of them. `others` are the open incidents that nodes share; `number_of` gives the number of
    an incident by its kind, place and symptoms: the next, or that of one that is opened again."""
    # What was said of the last plan is said anew.
    others = [replace(one, why=one.why.partition(_BESIDE)[0]) for one in others]
    known = [one for one in fleet.incidents if of_fabric(one)]
    before = [one for one in known if one.ended is None]
    if not fleet.fabric and not before:
        return FabricIncidents(others=tuple(others))
    closed = [one for one in known if one.ended is not None and one.by != _TRIAGE]
    past_of = {past.node: past for past in fleet.nodes}
    out = {past.node for past in fleet.nodes if not past.in_service}
    found = spots((each for each in fleet.fabric if not _closed(each, closed)), out)
    left = {one.id: one for one in before}
    shared = list(others)
    opened: list[Incident] = []
    ends: list[IncidentEnd] = []
    ports: dict[Problem, int] = {}
    for spot in found:
        were = sorted((one for one in left.values() if _is(one, spot)),
                      key=lambda one: ((one.kind, one.place) != (spot.kind, spot.place), one.id))
        for one in were:
            del left[one.id]
        own = _own(spot, past_of)
        if (at := _within(spot, shared)) is not None:
            shared[at] = _with(shared[at], spot)
            ends += [IncidentEnd(one.id, f"it is part of incident {shared[at].id}", shared[at].id)
                     for one in were]
            continue
        symptoms = tuple(dict.fromkeys(each.rule for each in spot.troubles))
        if were:
            number = were[0].id
            ends += [IncidentEnd(one.id, f"it is part of incident {number}", number) for one in were[1:]]
        else:
            number = number_of(spot.kind, spot.place, symptoms)
        ports |= dict.fromkeys(own, number)
        opened.append(_incident(number, spot, symptoms, own, were[0] if were else None))
    ends += [IncidentEnd(one.id, _over(one, fleet)) for one in left.values()]
    return FabricIncidents(tuple(opened), tuple(shared), tuple(ends), ports)


def owed(verdict: Verdict, found: FabricIncidents) -> Verdict:
    """The verdict, with the incident of the link that its first fault is about: who mends the cable is asked,
    and no one twice. Whether jobs are kept away stays as it is."""
    if verdict.incident or not verdict.faults:
        return verdict
    first = verdict.faults[0]
    numbers = {found.ports.get(problem, 0) for problem in first.problems}
    if len(numbers) != 1 or not (number := numbers.pop()):
        return verdict
    one = next(each for each in found.incidents if each.id == number)
    said = f"one with incident {number}, {one.kind} {one.cause}"
    owner = one.owner if first.repair in (Repair.INSPECT, Repair.WATCH) else first.owner
    first = replace(first, owner=owner, because=(*first.because, said))
    return replace(verdict, owner=owner, why=f"{verdict.why}; {said}", faults=(first, *verdict.faults[1:]))


def _closed(each: FabricTrouble, closed: Iterable[StoredIncident]) -> bool:
    """Whether a person closed the incident of what goes on since: it is known, and no one is asked again."""
    return any(one.ended is not None and each.began <= one.ended and each.rule in one.symptoms
               and (_first_end(each.finding.place) == _first_end(one.place)
                    or any(device.name == one.place for device in each.finding.touched))
               for one in closed)


def _first_end(place: str) -> str:
    """A link's name up to its other end, which may be called otherwise by now."""
    return place.partition(" to ")[0]


def _is(one: StoredIncident, spot: FabricSpot) -> bool:
    """Whether a known incident is of this place, or of a part of it."""
    if (one.kind, one.place) == (spot.kind, spot.place):
        return True
    return one.kind in (LINK, PORT) and _first_end(one.place) in map(_first_end, spot.alias)


def _own(spot: FabricSpot, past_of: Mapping[str, NodeHistory]) -> list[Problem]:
    """What nodes show of their own ports at a link or a port."""
    if spot.kind not in (LINK, PORT):
        return []
    found = []
    for node in spot.nodes:
        parts = at_node(spot, node)
        for problem in past_of[node].problems if node in past_of else ():
            words = {word.strip(".:") for word in _WORD.findall(problem.subject.lower())}
            if problem.rule.startswith(_OF_PORTS) and of(problem) is Of.FAIL and words & parts.keys():
                found.append(problem)
    return found


def _within(spot: FabricSpot, shared: Sequence[Incident]) -> int | None:
    """Which incident that nodes share is this, or has caused it: that of the same leaf, or one of a place
    without which all these nodes' links are down."""
    for at, one in enumerate(shared):
        if (one.kind, one.cause) == (spot.kind, spot.place):
            return at
    if spot.kind in (LINK, PORT) and spot.down and spot.nodes:
        for at, one in enumerate(shared):
            if one.kind in (*PHYSICAL, "rail", UNREACHED) and set(spot.nodes) <= set(one.nodes):
                return at
    return None


def _with(one: Incident, spot: FabricSpot) -> Incident:
    """An incident that nodes share with what the subnet shows; of many links the first are named."""
    base, _, before = one.why.partition(_BESIDE)
    items = [each for each in before.split("; ") if each]
    first = spot.troubles[0].finding
    said = f"{first.rule.value} at {spot.place}".replace("; ", ", ")
    if said not in items:
        items.append(said)
    shown = items if len(items) <= _SHOWN else [*items[:_SHOWN], "and more"]
    return replace(one, why=f"{base}{_BESIDE}{'; '.join(dict.fromkeys(shown))}")


def _incident(number: int, spot: FabricSpot, symptoms: tuple[str, ...], own: Sequence[Problem],
              before: StoredIncident | None) -> Incident:
    began = min(each.began for each in spot.troubles)
    seen = max(each.seen for each in spot.troubles)
    members = tuple(IncidentMember(
        node, min(each.began for each in spot.troubles if node in each.finding.nodes),
        max(each.seen for each in spot.troubles if node in each.finding.nodes)) for node in spot.nodes)
    shown = tuple(dict.fromkeys((*symptoms, *(problem.rule for problem in own))))
    return Incident(spot.kind, spot.place, spot.nodes, _words(spot, own, began, seen), spot.owner, number,
                    shown, members, before.began if before is not None else began)


def _words(spot: FabricSpot, own: Sequence[Problem], began: float, seen: float) -> str:
    """In one line: what, what nodes show of it, since when, and what a person does."""
    lines = [f"{each.finding.rule.value}: {each.finding.observed}"
             + (f", expected {each.finding.expected}" if each.finding.expected else "")
             + (f" ({each.finding.place})" if each.finding.place != spot.place and spot.kind != LINK else "")
             for each in spot.troubles]
    more = [f"and {len(lines) - _SHOWN} more findings"] if len(lines) > _SHOWN else []
    at_nodes = [f"{node} itself shows {', '.join(sorted({one.rule for one in own if one.node == node}))}"
                for node in dict.fromkeys(problem.node for problem in own)]
    unread = [each for each in spot.troubles if each.missed is not None]
    lost = ([f"last measured {minute(seen)}: at {minute(max(each.missed or 0.0 for each in unread))} "
             f"{unread[0].unmeasured}"] if len(unread) == len(spot.troubles) else [])
    hand = f"next: {remedy(spot.troubles[0].finding)}"
    where = "" if spot.kind in (LINK, PORT) else f"{spot.kind} "
    said = "; ".join([*lines[:_SHOWN], *more, *at_nodes, *lost, hand, f"since {minute(began)}"])
    return f"{where}{spot.place}: {said}"[:_LONGEST]


def _over(one: StoredIncident, fleet: FleetHistory) -> str:
    """Why one ends that is no place of what is open now."""
    names = {_first_end(each.finding.place) for each in fleet.fabric}
    if _first_end(one.place) in names:
        return "what is left of it is another incident's, a node's own, or of a node that is not in service"
    return "a check of the subnet measured it, and it is not there any more"
