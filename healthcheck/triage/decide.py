"""Decides on one node: its verdict, from its faults and what it has shown since."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import Owner, Repair
from healthcheck.model.verdict import INCIDENT, MACHINE, RMA, Fault, Incident, Verdict
from healthcheck.store.machines import AnotherMachine
from healthcheck.triage.faults import faults, suspect_node
from healthcheck.triage.past import NodeHistory, Repaired
from healthcheck.triage.policy import TriagePolicy
from healthcheck.triage.requalify import requalified, spoiled, unproven_machine
from healthcheck.triage.symptom import symptom
from inventory.times import minute

_ISOLATIONS = tuple(Isolation)
_REPAIRS = tuple(Repair)
# Of these a higher one does what a lower one would.
_LADDER = (Repair.RESTART_SERVICE, Repair.RESET_GPU, Repair.REBOOT)


def decide(
    past: NodeHistory, policy: TriagePolicy, now: float, excused: Collection[str] = (),
    incidents: Mapping[int, Incident] = MappingProxyType({}),
) -> Verdict | None:
    """The verdict on a node; None where there is nothing to say of it.
    `incidents` are those that are open, by their numbers."""
    if not (past.problems or past.over or past.cordons or past.away or past.verdict or past.machine):
        return None
    found = faults(past, policy, now, excused)
    ours = [cordon for cordon in past.cordons if cordon.verdict is not None]
    # A node that came anew before it was proven well is held again:
    # what was seen of the one before it proves nothing.
    anew = (past.anew if not ours and past.anew is not None and past.anew.isolation is not Isolation.NONE
            else None)
    other = unproven_machine(past, policy, now) if not past.away else None
    if not found and not ours and not past.away and anew is None and other is None:
        return None
    proven = unproven = ""
    before = past.verdict.incident if past.verdict is not None else 0
    isolation = max((fault.isolation for fault in found), key=_ISOLATIONS.index, default=Isolation.NONE)
    if (isolation is Isolation.NONE and (ours or anew) and not past.away and before in incidents
        and incidents[before].isolates):
        return _of_incident(past, incidents[before],
                            past.verdict.isolation if past.verdict is not None else isolation, found)
    if isolation is Isolation.NONE and ours:
        well, said = requalified(past, policy, now)
        proven, unproven = (said, "") if well else ("", said)
    if isolation is Isolation.NONE and anew is not None and not past.away:
        well, said = requalified(replace(past, repaired=(*past.repaired, Repaired(anew.time, "registered"))),
                                 policy, now)
        if not well:
            why = f"it registered or was installed anew before it had shown that it is well: {said}"
            return Verdict(past.node, anew.isolation, Repair.WATCH, Owner.OPERATOR, anew.fault, why,
                           tuple(found))
        if not found and other is None:
            return None
    if isolation is Isolation.NONE and other is not None:
        return Verdict(past.node, Isolation.NO_NEW_JOBS, Repair.INSPECT, Owner.OPERATOR, MACHINE,
                       _unproven(other, past, policy), tuple(found))
    if past.away:
        kept = max(isolation, Isolation.NO_NEW_JOBS, key=_ISOLATIONS.index)
        return Verdict(past.node, kept, Repair.REPLACE, Owner.VENDOR, RMA, past.away, tuple(found),
                       unproven=unproven)
    if not found:
        held = past.verdict.fault if past.verdict is not None else ""
        # What keeps a held node from proving itself may be an open incident's, and so is the next step.
        waits = next((incidents[one.incident].owner for one in past.shared
                      if one.ended is None and one.incident in incidents), None) if unproven else None
        return Verdict(past.node, Isolation.NONE, Repair.WATCH, waits, held, proven or unproven,
                       incident=before, proven=proven, unproven=unproven)
    # What an incident that isolates answers for is not the node's; a fault of its own goes before it.
    share = [(fault, incident) for fault in found if fault.isolation is not Isolation.NONE
             and (incident := _shared(past, fault, incidents)) is not None]
    if share and len(share) == sum(fault.isolation is not Isolation.NONE for fault in found):
        return _of_incident(past, share[0][1], isolation, found)
    if share:
        shared_faults = [fault for fault, _ in share]
        found = [*(fault for fault in found if fault not in shared_faults), *shared_faults]
        isolation = found[0].isolation
    first = found[0]
    if isolation is not Isolation.NONE and (shared := suspect_node(past, policy, now)):
        worse = max(first.repair, Repair.INSPECT, key=_REPAIRS.index)
        first = replace(first, because=(*first.because, shared), repair=worse,
                        raised=first.raised or worse is not first.repair)
        found[0] = first
    still = before if isolation is Isolation.NONE else 0
    return Verdict(past.node, isolation, _due(found), first.owner, first.kind.id, reason(first), tuple(found),
                   still, proven, unproven)


def _unproven(other: AnotherMachine, past: NodeHistory, policy: TriagePolicy) -> str:
    """Why what is proven of a node's name is not of the machine that has it now."""
    origin = f", which sat in {other.origin} before" if other.origin else ""
    wanted = policy.requalify
    return (f"another machine has its name since {minute(other.at)}{origin}: bring it up again: muster check "
            f"{past.node} --profile {wanted.profile} --store, {wanted.sweeps} times clean"
            f"{spoiled(past.unsilenced)}")


def _due(found: Sequence[Fault]) -> Repair:
    """The repair of the first fault, whose reason and owner the verdict gives; of what is mended by a restart
    of something, the most that any other fault of that owner, with the same isolation, needs."""
    first = found[0]
    if first.repair not in _LADDER:
        return first.repair
    return max((fault.repair for fault in found if fault.repair in _LADDER
                and fault.isolation is first.isolation and fault.owner is first.owner), key=_REPAIRS.index)


def _shared(past: NodeHistory, fault: Fault, incidents: Mapping[int, Incident]) -> Incident | None:
    """The open incident that isolates in its name and that a fault is of, if it is of one."""
    for one in past.shared:
        if one.ended is None and one.incident in incidents and incidents[one.incident].isolates \
                and any(symptom(problem) in one.symptoms for problem in fault.problems):
            return incidents[one.incident]
    return None


def _of_incident(
    past: NodeHistory, incident: Incident, isolation: Isolation, found: Sequence[Fault],
) -> Verdict:
    """The verdict on a node isolated for an incident: the incident's owner repairs it, not the node."""
    kept = max(isolation, Isolation.NO_NEW_JOBS, key=_ISOLATIONS.index)
    return Verdict(past.node, kept, Repair.INSPECT, incident.owner, INCIDENT,
                   f"incident {incident.id}: {incident.why}", tuple(found), incident=incident.id)


def reason(fault: Fault) -> str:
    """A fault in one line: what was seen, and what history adds."""
    problem = fault.problems[0]
    subject = f" of {problem.subject}" if problem.subject else ""
    if not problem.rule:
        what = f"not reached: {problem.reason}"
    elif problem.observed or problem.expected:
        what = f"{problem.rule}{subject}: {problem.observed} (expected {problem.expected})"
    else:
        what = f"{problem.rule}{subject} not measured: {problem.reason}"
    more = len(fault.problems) - 1
    return "; ".join([what + (f" and {more} more" if more else ""), *fault.because])
