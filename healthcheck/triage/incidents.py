"""The life of incidents: they open where nodes share a place, take in others there, merge, split,
close when all is well, come back. Pure.

An open incident goes on, though it may no longer be unlikely, until its nodes were well for the policy's calm
hours; what is not measured is not well. What goes on in few of them after the rest has healed is each one's
own from then on, and so is all that a person closes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from healthcheck.model.faultkind import Of
from healthcheck.model.outcome import Owner
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import Incident, IncidentEnd, IncidentMember, StoredIncident
from healthcheck.store.fabricfindings import RULES as FABRIC_RULES
from healthcheck.triage.correlate import KINDS, Correlation, OutOfService, Place, correlate, domains
from healthcheck.triage.fabricincidents import FabricIncidents, fabric_incidents, of_fabric
from healthcheck.triage.faults import of
from healthcheck.triage.fleetlots import lot_incidents
from healthcheck.triage.likelihood import words
from healthcheck.triage.ours import SOMEWHERE, UNREACHED, ours
from healthcheck.triage.past import FleetHistory, IncidentMembership, NodeHistory
from healthcheck.triage.policy import IncidentKind, TriagePolicy
from healthcheck.triage.suspect import suspected, suspects
from healthcheck.triage.symptom import NOT_REACHED, about, symptom
from healthcheck.triage.whole import listed, named
from inventory.nodeset import natural
from inventory.times import minute

_TRIAGE = "triage"
_SHOWN = 3
_NO_LONGER = ("it is not so on most of its nodes any more, or what changed changed again; what goes on is "
              "each node's own")
Showing = Mapping[str, Mapping[str, tuple[Problem, ...]]]


@dataclass(frozen=True)
class IncidentUpdate:
    """The incidents that are open now, those that end, and the rules whose UNKNOWN accuses no one. `shared`
    are by node the incidents that it is or was in; `of` are the open ones by number, and by the numbers of
    those that became part of one; `waived` are by node the rules whose failing accuses it of nothing.
    `fabric` has those that are of what the subnets show, which are among `incidents`, too."""

    incidents: tuple[Incident, ...]
    ends: tuple[IncidentEnd, ...]
    excused: frozenset[str]
    shared: Mapping[str, tuple[IncidentMembership, ...]]
    of: Mapping[int, Incident]
    waived: Mapping[str, frozenset[str]]
    fabric: FabricIncidents = field(default_factory=FabricIncidents)


def live(fleet: FleetHistory, policy: TriagePolicy) -> IncidentUpdate:
    """What becomes of the incidents that the store knows, and which are new."""
    wide, excused = ours(fleet, policy)
    newly, ours_to_explain = suspects(fleet, policy)
    showing = _showing(fleet, policy)
    waived = [(one.ended, frozenset(one.symptoms), {member.node for member in one.members})
              for one in fleet.incidents
              if one.ended is not None and one.by != _TRIAGE and not of_fabric(one)]
    came = {past.node: past.came for past in fleet.nodes}
    # What a person closed is each node's own, as long as it goes on; what came with a rule is of no place.
    fair = _without(showing, lambda name, node, problem: problem.rule in (
        excused if of(problem) is not Of.FAIL else ours_to_explain.get(node, ())) or (
        (cause := came.get(node, {}).get(problem)) is not None and cause.exact) or any(
        problem.began <= ended and name in symptoms and node in nodes for ended, symptoms, nodes in waived))
    ours_of = frozenset(rule for rules in ours_to_explain.values() for rule in rules)
    beside = _beside(fleet, policy, lambda problem: problem.rule in (
        excused if of(problem) is not Of.FAIL else ours_of))
    found = correlate(fleet, fair, policy.incidents, beside)
    numbers = _Numbers(fleet, policy)
    lots = lot_incidents(fleet, fair, found, policy.incidents)
    opened, ends = _ours(fleet, showing, [*wide, *newly, *lots], numbers, policy)
    places, more = _places(fleet, fair, found, numbers, policy)
    opened, ends = [*opened, *places], [*ends, *more]
    fabric = fabric_incidents(fleet, opened, lambda *place: numbers.of(*place)[0])
    opened, ends = [*fabric.others, *fabric.incidents], [*ends, *fabric.ends]
    by_number = {one.id: one for one in opened}
    by_number |= {end.id: by_number[end.into] for end in ends if end.into in by_number}
    return IncidentUpdate(tuple(sorted(opened, key=lambda one: one.id)), tuple(ends), excused,
                          _shared(fleet, fabric.others, ends), by_number, ours_to_explain, fabric)


def _showing(fleet: FleetHistory, policy: TriagePolicy) -> dict[str, dict[str, tuple[Problem, ...]]]:
    """By symptom and node in service, what shows it now; what is not measured counts when it has lasted,
    as it does with faults."""
    return _shown((past for past in fleet.nodes if past.in_service), fleet.now, policy)


def _shown(
    nodes: Iterable[NodeHistory], now: float, policy: TriagePolicy,
) -> dict[str, dict[str, tuple[Problem, ...]]]:
    found: dict[str, dict[str, tuple[Problem, ...]]] = defaultdict(dict)
    for past in nodes:
        for problem in past.problems:
            lasting = of(problem) is Of.FAIL or problem.sweeps >= policy.wedged
            if (lasting and now - problem.seen <= policy.fresh_hours * 3600
                and problem.rule not in FABRIC_RULES        # what subnets show is of a place already
                and (name := symptom(problem))):
                held = found[name]
                held[past.node] = (*held.get(past.node, ()), problem)
    return found


def _beside(fleet: FleetHistory, policy: TriagePolicy, drop: Callable[[Problem], bool]) -> OutOfService:
    """The nodes out of service that sweeps have seen lately, and what they show of the same."""
    looked = [past for past in fleet.nodes if not past.in_service and past.state
              and fleet.now - past.seen <= policy.fresh_hours * 3600]
    return OutOfService(frozenset(past.node for past in looked),
                        _without(_shown(looked, fleet.now, policy), lambda _, __, problem: drop(problem)))


def _without(
    showing: Showing, drop: Callable[[str, str, Problem], bool],
) -> dict[str, dict[str, tuple[Problem, ...]]]:
    return {name: {node: kept for node, problems in nodes.items()
                   if (kept := tuple(one for one in problems if not drop(name, node, one)))}
            for name, nodes in showing.items()}


class _Numbers:
    """Gives an incident its number: that of one which ended by itself not long ago, or the next.

    One that a person closed stays closed: its record says what is each node's own since.
    """

    def __init__(self, fleet: FleetHistory, policy: TriagePolicy) -> None:
        since = fleet.now - policy.incidents.reopen_days * 86400
        self._ended = [one for one in fleet.incidents if one.ended is not None and one.ended >= since
                       and one.by == _TRIAGE]
        self._next = fleet.next_incident

    def of(
        self, kind: str, place: str, symptoms: Collection[str], nodes: Collection[str] = (),
    ) -> tuple[int, StoredIncident | None]:
        """The number, and the one that is opened again, if it is one: of the same place, or with half of
        these nodes."""
        for one in reversed(self._ended):
            again = 2 * sum(member.node in nodes for member in one.members) >= len(nodes)
            if one.kind == kind and (one.place == place or (nodes and again)) and (
                    set(one.symptoms) & set(symptoms)):
                return one.id, one
        self._next += 1
        return self._next - 1, None


def _ours(fleet: FleetHistory, showing: Showing, wide: Iterable[Incident], numbers: _Numbers,
          policy: TriagePolicy) -> tuple[list[Incident], list[IncidentEnd]]:
    """The incidents that are on muster, with their numbers and members;
    each is over as soon as it is not found any more."""
    before = {called(one.kind, one.place): one for one in fleet.incidents if one.ended is None
              and not _somewhere(one) and not of_fabric(one)}
    found = []
    for one in wide:
        known = before.pop(called(one.kind, one.cause), None)
        nodes = frozenset(one.nodes)
        number, again = ((known.id, known) if known is not None
                         else numbers.of(one.kind, one.cause, one.symptoms,
                                         nodes if one.kind == UNREACHED else ()))
        again = (replace(again, members=tuple(member for member in again.members if member.node in nodes))
                 if again is not None else None)
        members = _members(again,
                           {name: {node: problems for node, problems in showing.get(name, {}).items()
                                   if node in nodes} for name in one.symptoms}, fleet.now, one.nodes)
        began = again.began if again is not None else min(member.began for member in members)
        why = one.why
        if one.cause == SOMEWHERE:
            there = correlate(fleet, {NOT_REACHED: showing.get(NOT_REACHED, {})}, policy.incidents)
            why += "".join(f"; {len(each.nodes)} of them are in {named(each.kind, each.place)} "
                           f"({words(each.likelihood)}): look there first" for each in there[:1])
        found.append(replace(one, id=number, members=members, began=began, why=why))
    past_of = {past.node: past for past in fleet.nodes}
    return (found, [IncidentEnd(one.id, _NO_LONGER if suspected(one.kind, one.place)
                                else f"it is over{_still_out(one, past_of)}")
                    for one in before.values()])


def _still_out(known: StoredIncident, past_of: Mapping[str, NodeHistory]) -> str:
    """In words, its nodes that show it as before and are not in service any more; empty without such."""
    names = sorted((member.node for member in known.members
                    if (past := past_of.get(member.node)) is not None and not past.in_service
                    and any(symptom(problem) in known.symptoms for problem in past.problems)), key=natural)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (f" for nodes in service; not in service, and not well: {', '.join(names[:_SHOWN])}{more}" if names
            else "")


def called(kind: str, cause: str) -> tuple[str, str]:
    """What an open incident of muster's own goes on by. Of nodes that are not reached there is one,
    which goes by the places that it has come to."""
    return kind, "" if kind == UNREACHED else cause


def _somewhere(one: StoredIncident) -> bool:
    """Whether an incident is one of a place."""
    return one.kind in KINDS and not suspected(one.kind, one.place) and not of_fabric(one)


def _places(
    fleet: FleetHistory, showing: Showing, found: Sequence[Correlation], numbers: _Numbers,
    policy: TriagePolicy,
) -> tuple[list[Incident], list[IncidentEnd]]:
    """The incidents that are somewhere: what is found is one that is open already, or one that comes back,
    or new."""
    past_of = {past.node: past for past in fleet.nodes}
    were = [replace(one, members=tuple(member for member in one.members if member.ended is None),
                    symptoms=_possible(one, policy)) for one in fleet.incidents if one.ended is None
            and _somewhere(one)]
    left = {one.id: one for one in were if one.symptoms}
    impossible = [IncidentEnd(one.id, f"by the policy such a place does not cause that: {one.kind}")
                  for one in were if not one.symptoms]
    sick = {one.id: {member.node for member in one.members
                     if _well_since(past_of.get(member.node), one.symptoms, member) is None}
            for one in left.values()}
    goes_on = _goes_on(found, left, sick)
    opened: list[Incident] = []
    ends: list[IncidentEnd] = impossible
    taken: dict[str, set[str]] = defaultdict(set)
    for one in found:
        nodes = frozenset(one.nodes)
        others = {node for other in found if other is not one and set(other.symptoms) & set(one.symptoms)
                  for node in other.nodes} - nodes
        kept, merged = goes_on[one.kind, one.place]
        kind, place, base = one.kind, one.place, kept
        if kept is not None:
            there = sick[kept.id]
            # It goes by another name only where it has grown,
            # or where the rest of it is another incident now.
            if not (there < nodes or (there - nodes and there <= nodes | others)):
                kind, place = kept.kind, kept.place
            number = kept.id
            base = _joined(kept, merged, others)
        else:
            number, base = numbers.of(kind, place, one.symptoms)
            base = (replace(base, members=tuple(member for member in base.members if member.node in nodes))
                    if base is not None else None)
        ends += [IncidentEnd(each.id, f"it is part of incident {number}", number) for each in merged]
        for each in (*merged, *([kept] if kept is not None else [])):
            del left[each.id]
        symptoms = tuple(dict.fromkeys([*one.symptoms, *(kept.symptoms if kept is not None else ())]))
        there_now = {name: {node: problems for node, problems in showing.get(name, {}).items()
                            if node in nodes} for name in one.symptoms}
        members = _members(base, there_now, fleet.now)
        since = min(problem.began for of_symptom in there_now.values() for problems in of_symptom.values()
                    for problem in problems)
        for member in members:
            taken[member.node].update(symptoms)
        opened.append(_incident(number, kind, place, symptoms, one.nodes, members,
                                base.began if base is not None else since,
                                max(one.likelihood, kept.likelihood) if kept is not None else one.likelihood,
                                _words(one, since), policy))
    for known in left.values():
        members = tuple(member
                        for member in _members(known, _still(known, showing, past_of, taken), fleet.now)
                        if not taken[member.node] & set(known.symptoms))
        if (why := _over(members, known.symptoms, past_of, fleet.now, policy)) is not None:
            ends.append(IncidentEnd(known.id, why))
            continue
        now_there = tuple(member.node for member in members
                          if _well_since(past_of.get(member.node), known.symptoms, member) is None)
        opened.append(_incident(known.id, known.kind, known.place, known.symptoms, now_there, members,
                                known.began, known.likelihood, known.why, policy))
    return opened, ends


def _possible(known: StoredIncident, policy: TriagePolicy) -> tuple[str, ...]:
    """Of its symptoms those that its kind of place can cause, by the policy as it is now."""
    return tuple(name for name in known.symptoms if not policy.incidents.kinds
                 or known.kind in policy.incidents.may_cause(*about(name)))


def _goes_on(
    found: Sequence[Correlation], left: Mapping[int, StoredIncident], sick: Mapping[int, Collection[str]],
) -> dict[Place, tuple[StoredIncident | None, list[StoredIncident]]]:
    """By place of what is found: the open incident that it is, if any,
    and those that turn out to be part of it.

    An open one goes on in what is found at its own place, else in what is most like it, of those that have
    most of what goes on in it: so it goes on in one alone, and nothing else is found at the place whose name
    it keeps. What is found elsewhere has most of its nodes, too, or no others: two places that share a few
    nodes are two, or what healed in the first would be held for the second.
    """
    at = {(one.kind, one.place): one for one in found}
    goes_on: dict[Place, tuple[StoredIncident | None, list[StoredIncident]]] = {
        place: (None, []) for place in at}
    for known in sorted(left.values(), key=lambda each: ((each.kind, each.place) not in at, each.id)):
        there = frozenset(sick[known.id])
        like = [one for one in found if there and set(known.symptoms) & set(one.symptoms)
                and 2 * len(there.intersection(one.nodes)) >= len(there)
                and _most_or_none_else(known, one)]
        best = (at.get((known.kind, known.place))
                or min(like, key=lambda one: len(there.symmetric_difference(one.nodes)), default=None))
        if best is None:
            continue
        kept, merged = goes_on[best.kind, best.place]
        if kept is None:
            goes_on[best.kind, best.place] = known, merged
        else:
            merged.append(known)
    return goes_on


def _most_or_none_else(known: StoredIncident, found: Correlation) -> bool:
    members = {member.node for member in known.members}
    return 2 * len(members.intersection(found.nodes)) >= len(members) or members.issuperset(found.nodes)


def _joined(
    known: StoredIncident, merged: Iterable[StoredIncident], others: Collection[str],
) -> StoredIncident:
    """One with the nodes of those that became part of it, and without those that are in another now."""
    first: dict[str, IncidentMember] = {}
    for member in sorted((member for each in (known, *merged) for member in each.members),
                         key=lambda member: member.began):
        if member.node not in others:
            held = first.setdefault(member.node, member)
            first[member.node] = replace(held, seen=max(held.seen, member.seen))
    return replace(known, members=tuple(first.values()))


def _still(
    known: StoredIncident, showing: Showing, past_of: Mapping[str, NodeHistory],
    taken: Mapping[str, Collection[str]],
) -> Showing:
    """What shows its symptoms in its place now, including new members; a moment takes no new members."""
    before = {member.node for member in known.members}
    return {name: {node: problems for node, problems in showing.get(name, {}).items()
                   if name not in taken.get(node, ())
                   and (node in before or (known.kind, known.place) in domains(past_of[node], problems))}
            for name in known.symptoms}


def _members(
    known: StoredIncident | None, there: Showing, now: float, nodes: Iterable[str] = (),
) -> tuple[IncidentMember, ...]:
    """Those of before, with what is there now."""
    found = ({member.node: replace(member, ended=None) for member in known.members} if known is not None
             else {})
    for of_symptom in there.values():
        for node, problems in of_symptom.items():
            began, seen = (min(problem.began for problem in problems),
                           max(problem.seen for problem in problems))
            held = found.get(node)
            found[node] = (IncidentMember(node, min(began, held.began), max(seen, held.seen))
                           if held is not None else IncidentMember(node, began, seen))
    for node in nodes:
        found.setdefault(node, IncidentMember(node, now, now))
    return tuple(found.values())


def _well_since(past: NodeHistory | None, symptoms: Collection[str], member: IncidentMember) -> float | None:
    """Since when a node of an incident is healthy; None while it is not, or unknown.
    A node out of service does not count."""
    if past is None or not past.in_service:
        return member.seen
    if any((name := symptom(problem)) == NOT_REACHED or name in symptoms for problem in past.problems):
        return None
    return max([member.seen, *(problem.ended for problem in past.over if problem.ended is not None
                               and symptom(problem) in symptoms)])


def _over(
    members: Collection[IncidentMember], symptoms: Collection[str], past_of: Mapping[str, NodeHistory],
    now: float, policy: TriagePolicy,
) -> str | None:
    """Why an incident that is not found any more ends; None while it goes on."""
    since = {member.node: _well_since(past_of.get(member.node), symptoms, member) for member in members}
    well = [time for time in since.values() if time is not None]
    sick = [node for node, time in since.items() if time is None]
    if well and now - max(well) < policy.incidents.calm_hours * 3600:
        return None
    if not sick:
        quiet = [member.node for member in members if (past := past_of.get(member.node)) is not None and any(
            symptom(problem) in symptoms for problem in past.hidden.problems)]
        if quiet:
            return f"what is left of it is silenced, on {_listed(quiet)}"
        return _well(members, past_of, policy.incidents.calm_hours)
    few = len(sick) < policy.incidents.at_least or len(sick) * 100 < policy.incidents.share * len(members)
    if well and few:
        return (f"the rest was well for {policy.incidents.calm_hours:g} h; what goes on in "
                f"{_listed(sick)} is their own")
    return None


def _listed(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    return f"{', '.join(nodes[:_SHOWN])}{more}"


def _well(members: Collection[IncidentMember], past_of: Mapping[str, NodeHistory], hours: float) -> str:
    """Why one ends of which no node in service is sick. One that is out of service has no say,
    which does not make it well."""
    serving = sum((past := past_of.get(member.node)) is not None and past.in_service for member in members)
    if not members:
        return "all its nodes are in others"
    if not serving:
        return f"none of its {len(members)} nodes is in service any more"
    return f"all its {serving} nodes{' in service' * (serving < len(members))} were well for {hours:g} h"


def _incident(
    number: int, kind: str, place: str, symptoms: tuple[str, ...], nodes: tuple[str, ...],
    members: tuple[IncidentMember, ...], began: float, likelihood: float, why: str, policy: TriagePolicy,
) -> Incident:
    said = policy.incidents.kinds.get(kind, IncidentKind(Owner.OPERATOR))
    # On the lesser evidence of a whole place it only explains: each node is held, and proven well, by itself.
    return Incident(kind, place, nodes, why, said.owner, number, symptoms, members, began, likelihood,
                    policy.incidents.isolates(kind) and likelihood >= policy.incidents.likelihood)


def _words(found: Correlation, began: float) -> str:
    """An incident in one line: where, what, on how many, how unlikely."""
    more = f" and {len(found.symptoms) - _SHOWN} more" if len(found.symptoms) > _SHOWN else ""
    what = f"{', '.join(found.symptoms[:_SHOWN])}{more}"
    share = {"rail": f"on {len(found.nodes)} nodes, of {found.had} with it on any rail",
             "moment": f"began on {len(found.nodes)} nodes, of {found.had} with it, within minutes of each "
                       "other"}.get(found.kind, f"on {len(found.nodes)} of its {found.inside} nodes in "
                                                f"service{_out(found)}, of {found.had} with it among "
                                                f"{found.fleet}")
    # First, as lists cut what is long: who looks at a rack goes to its feed.
    besides = f", the same nodes as {', '.join(found.besides)}" if found.besides else ""
    whole = f"; with it {listed(found.whole)}" if found.whole else ""
    return (f"{named(found.kind, found.place)}{besides}: {what} {share}, since {minute(began)}; "
            f"{words(found.likelihood)}{whole}")


def _out(found: Correlation) -> str:
    """Its nodes that are not in service, by name as far as there is room."""
    if not found.out:
        return ""
    more = f" and {len(found.out) - _SHOWN} more" if len(found.out) > _SHOWN else ""
    return f" and on {len(found.out)} that are not ({', '.join(found.out[:_SHOWN])}{more})"


def _shared(
    fleet: FleetHistory, opened: Iterable[Incident], ends: Iterable[IncidentEnd],
) -> dict[str, tuple[IncidentMembership, ...]]:
    """By node the incidents that it is or was in."""
    found: dict[str, list[IncidentMembership]] = defaultdict(list)
    open_now = {one.id: {member.node for member in one.members} for one in opened}
    for known in fleet.incidents:
        # What a node shows of its own port counts as it does without the link's incident.
        for member in known.members if not of_fabric(known) else ():
            if member.node not in open_now.get(known.id, ()):
                found[member.node].append(IncidentMembership(known.id, frozenset(known.symptoms),
                                                             member.began,
                                                             member.ended if member.ended is not None
                                                             else fleet.now))
    for one in opened:
        for member in one.members:
            found[member.node].append(IncidentMembership(one.id, frozenset(one.symptoms), member.began))
    return {node: tuple(each) for node, each in found.items()}
