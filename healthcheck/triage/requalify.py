"""Whether a node that we hold may be returned: one function,
which asks for proof and never takes silence for it."""

from __future__ import annotations

from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import NodeState, Severity, Status
from healthcheck.store.accused import lasts
from healthcheck.store.machines import AnotherMachine
from healthcheck.triage.faults import accuses, covers, faults, of
from healthcheck.triage.past import REPAIRED, RETURNED, NodeHistory, RequalifySnapshot
from healthcheck.triage.policy import TriagePolicy
from inventory.times import minute

FIT = (NodeState.HEALTHY.value, NodeState.DEGRADED.value)


def requalified(past: NodeHistory, policy: TriagePolicy, now: float) -> tuple[bool, str]:
    """Whether the node has shown, since its repair, what the policy asks for; and in words what it showed,
    or what is missing.

    The repair is the last of: a fault that may isolate was seen to be over, however few sweeps saw it, a
    reboot, a repair that we know of or a person's word, our cordon itself, and that it became this machine.
    While such a fault is there nothing is proven. A look that is later than now is of a clock that was wrong;
    one that did not measure what had failed proves nothing of it. Silences prove nothing: all is as if no one
    had silenced anything, and where only that keeps the node, a person must give it back.
    """
    if (kept := _against(past, policy)) is not None:
        return False, kept
    whole = past.unsilenced
    kept = _held_again(whole, policy, now) if whole is not past else ""
    if not kept:
        well, said = _shown(whole, policy, now)
        # No look is clean while a warning lasts.
        lasting = [problem for problem in past.hidden.problems if problem.severity != Severity.INFO.value]
        if well or not lasting:
            return well, said
        kept = f"{lasting[0].rule} since {minute(lasting[0].began)}"
    how = (f"to give it to jobs all the same: muster uncordon {past.node}" if past.cordons
           else f"see: muster unsilence {past.node}")
    return False, f"only silenced problems are left: {kept}; {how}"


def _against(past: NodeHistory, policy: TriagePolicy) -> str | None:
    """What speaks against the node, whatever its looks show."""
    if past.away:
        return past.away
    if not past.in_service:
        return f"its lifecycle is {past.lifecycle}"
    if (kept := _still_there(past, policy)) is not None:
        return kept
    for problem in sorted(past.problems, key=lambda problem: problem.status != Status.FAIL.value):
        if accuses(problem, policy):
            what = "fails" if problem.status == Status.FAIL.value else "is not measured"
            return (f"{f'{problem.rule} {what}' if problem.rule else 'it is not reached'} since "
                    f"{minute(problem.began)}")
    return None


def _held_again(whole: NodeHistory, policy: TriagePolicy, now: float) -> str:
    """What would hold the node by itself if it was not silenced; empty where nothing would."""
    if (kept := _against(whole, policy)) is not None:
        return kept
    return next((f"{fault.kind.id}{f' of {fault.place}' if fault.place else ''}: {'; '.join(fault.because)}"
                 for fault in faults(whole, policy, now) if fault.isolation is not Isolation.NONE), "")


def _shown(past: NodeHistory, policy: TriagePolicy, now: float) -> tuple[bool, str]:
    """What its looks have shown since its repair."""
    lapsed = [problem for problem in past.over if accuses(problem, policy)]
    over = [problem.ended or problem.seen for problem in lapsed]
    since = max([*over, past.left, past.new_since, *past.boots[-1:], *(done.time for done in past.repaired),
                 *(cordon.began for cordon in past.cordons)])
    held = min((cordon.began for cordon in past.cordons if cordon.verdict is not None), default=0.0)
    own = any((problem.ended or problem.seen) >= held and not past.in_incident(problem) for problem in lapsed)
    if past.verdict is not None and past.verdict.incident and not own:
        return _after_incident(past, policy, now, since)
    wanted = policy.requalify
    by_hand = f"muster check {past.node} --profile {wanted.profile} --store"
    # What a burn-in found a burn-in has measured again, or a person has: no sweep can.
    failed = frozenset(problem.rule for problem in lapsed if problem.rule and not lasts(problem.rule)
                       and (problem.ended or problem.seen) >= held)
    clean: list[RequalifySnapshot] = []
    unmeasured: frozenset[str] = frozenset()
    for snapshot in _newest_first(past, now):
        if len(clean) == wanted.sweeps or snapshot.time < since or snapshot.state != NodeState.HEALTHY.value:
            break
        lacks = failed - snapshot.measured if snapshot.measured is not None else frozenset()
        unmeasured |= lacks
        if (not lacks and (not clean or snapshot.measured is None
                           or clean[-1].time - snapshot.time >= wanted.apart_minutes * 60)):
            clean.append(snapshot)
    if len(clean) < wanted.sweeps:
        apart = f", {wanted.apart_minutes:g} min apart," if wanted.apart_minutes and wanted.sweeps > 1 else ""
        not_seen = f"; not measured: {', '.join(sorted(unmeasured)[:3])}" if unmeasured else ""
        return (False, f"{len(clean)} of {wanted.sweeps} clean looks{apart}{_since(since)}{not_seen}"
                       f"{spoiled(past)}: {by_hand}")
    if now - clean[0].time > policy.fresh_hours * 3600:
        return (False, f"its last clean look was at {minute(clean[0].time)}, over {policy.fresh_hours:g} h "
                       f"ago: {by_hand}")
    return (True, f"clean in its last {wanted.sweeps} looks under profile {wanted.profile}, since "
                  f"{minute(clean[-1].time)}")


def spoiled(past: NodeHistory) -> str:
    """What keeps looks from being clean, as the end of a sentence; empty where nothing does."""
    lasting = sorted({problem.rule or "what keeps it from answering" for problem in past.problems
                      if problem.severity != Severity.INFO.value})
    return f"; no look is clean while there is {', '.join(lasting[:3])}" if lasting else ""


def unproven_machine(past: NodeHistory, policy: TriagePolicy, now: float) -> AnotherMachine | None:
    """The machine that has the node's name now, where it has not shown yet, in as many clean looks as a
    repaired node must, that it is well; None for one that has, and for one that was always there. The look
    that met it is none of them."""
    if past.machine is None:
        return None
    clean: list[float] = []
    for snapshot in _newest_first(past, now):
        if (snapshot.state == NodeState.HEALTHY.value and snapshot.time > past.machine.at
                and (not clean or clean[-1] - snapshot.time >= policy.requalify.apart_minutes * 60)):
            clean.append(snapshot.time)
    return past.machine if len(clean) < policy.requalify.sweeps else None


def _newest_first(past: NodeHistory, now: float) -> list[RequalifySnapshot]:
    return sorted((one for one in past.snapshots if one.time <= now), key=lambda one: one.time, reverse=True)


def _after_incident(past: NodeHistory, policy: TriagePolicy, now: float, since: float) -> tuple[bool, str]:
    """A node isolated only for an incident needs no repair: one clean sweep is enough."""
    over = f"incident {past.verdict.incident if past.verdict is not None else 0} is over"
    if past.state in FIT and since <= past.seen <= now and now - past.seen <= policy.fresh_hours * 3600:
        return True, f"{over}, and the sweep of {minute(past.seen)} found it fit"
    return False, f"{over}, and no sweep has found it fit{_since(since)}: muster check {past.node} --store"


def _still_there(past: NodeHistory, policy: TriagePolicy) -> str | None:
    """A fault that does not go away by itself, whose component is here still and was at no vendor's since;
    no reboot mends it."""
    for problem in past.over:
        what = of(problem)
        kind = policy.kind(what, problem.rule, Severity(problem.severity)) if what is not None else None
        if kind is None or not kind.lasting or problem.node != past.node:
            continue
        ended = problem.ended if problem.ended is not None else problem.seen
        back = any(done.time >= problem.began
                   and done.what in (RETURNED, REPAIRED) and covers(done, problem)
                   for done in past.repaired)
        if not back and any(cordon.began <= ended for cordon in past.cordons):
            return (f"{problem.rule} of {problem.subject} went away by itself, and the same board is there: "
                    f"muster rma open {past.node}, or muster repaired {past.node} if somebody repaired it")
    return None


def _since(time: float) -> str:
    """Since when something is asked for; empty where nothing is known to have happened yet."""
    return f" since {minute(time)}" if time else ""
