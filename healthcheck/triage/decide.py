"""Decides on one node: its verdict, from its faults and what it has shown since."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from healthcheck.outcome import Owner, Repair
from healthcheck.triage.faults import faults, suspect_node
from healthcheck.triage.past import RMA, Past
from healthcheck.triage.policy import Isolation, Policy
from healthcheck.triage.requalify import requalified
from healthcheck.triage.verdict import Fault, Verdict

_ISOLATIONS = tuple(Isolation)
_REPAIRS = tuple(Repair)


def decide(past: Past, policy: Policy, now: float, excused: Collection[str] = ()) -> Verdict | None:
    """The verdict on a node; None where there is nothing to say of it."""
    if not (past.problems or past.over or past.cordons or past.away or past.verdict):
        return None
    found = faults(past, policy, now, excused)
    ours = [cordon for cordon in past.cordons if cordon.verdict is not None]
    if not found and not ours and not past.away:
        return None
    proven = unproven = ""
    isolation = max((fault.isolation for fault in found), key=_ISOLATIONS.index, default=Isolation.NONE)
    if isolation is Isolation.NONE and ours:
        well, said = requalified(past, policy, now)
        proven, unproven = (said, "") if well else ("", said)
    if past.away:
        kept = max(isolation, Isolation.NO_NEW_JOBS, key=_ISOLATIONS.index)
        return Verdict(past.node, kept, Repair.REPLACE, Owner.VENDOR, RMA, past.away, tuple(found), unproven=unproven)
    if not found:
        held = past.verdict.fault if past.verdict is not None else ""
        return Verdict(past.node, Isolation.NONE, Repair.WATCH, None, held, proven or unproven, proven=proven, unproven=unproven)
    repair = max((fault.repair for fault in found if fault.isolation is isolation), key=_REPAIRS.index)
    first = found[0]
    if isolation is not Isolation.NONE and (shared := suspect_node(past, policy, now)):
        repair = max(repair, Repair.INSPECT, key=_REPAIRS.index)
        first = replace(first, because=(*first.because, shared))
        found[0] = first
    return Verdict(past.node, isolation, repair, first.owner, first.kind.id, reason(first), tuple(found), proven=proven, unproven=unproven)


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
