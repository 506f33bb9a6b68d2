"""Makes faults of a node's problems: what belongs together, whether it is sure,
and what its history adds to the repair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from healthcheck.model.faultkind import FaultKind, Isolation, Of
from healthcheck.model.outcome import Owner, Repair, Severity, Status
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import Fault
from healthcheck.triage.episodes import flapping, place, returns, score
from healthcheck.triage.past import REPAIRED, RETURNED, NodeHistory, Repaired
from healthcheck.triage.policy import TriagePolicy

_REPAIRS = tuple(Repair)
_WITH_PARTS = (Owner.VENDOR, Owner.DATACENTRE, Owner.NETWORK)
Key = tuple[str, str]
# What is merely unusual in the kernel's log takes no node from jobs, whatever a policy says.
MERELY_NEW = frozenset({"kernel-novel", "kernel-suspect", "kernel-missing", "kernel-order", "kernel-rate"})


def of(problem: Problem) -> Of | None:
    """What a problem is evidence of; None for an UNKNOWN that is muster's own doing,
    which accuses no node."""
    if problem.status == Status.FAIL.value:
        return Of.FAIL
    if problem.origin != "node":
        return None
    return Of.UNKNOWN if problem.rule else Of.UNREACHED


def faults(past: NodeHistory, policy: TriagePolicy, now: float, excused: Collection[str] = ()) -> list[Fault]:
    """What is wrong with a node, from worst to least. `excused` are the rules whose UNKNOWN an incident
    answers for ("": unreached)."""
    accusing = [problem for problem in past.problems if of(problem) is not Of.FAIL
                or problem.rule not in past.excused]
    now_there = _grouped(accusing, policy, excused, waiting=policy.wedged)
    # Of what was an incident's, or of a change of the rules, nothing is held against the node.
    before = _grouped((problem for problem in (*past.over, *past.moved) if not past.not_its_own(problem)),
                      policy, ())
    unsure = _grouped((problem for problem in accusing if not past.not_its_own(problem)), policy, excused)
    found: list[Fault] = []
    for key in {**now_there, **before, **unsure}:
        came = [problem for group in (before.get(key), unsure.get(key)) if group is not None
                for problem in group.problems if problem.node == past.node and _convicts(problem)
                and not _repaired(problem, past)]
        group = now_there.get(key) or before.get(key) or unsure[key]
        # What could not be measured for a while accuses no one once it is.
        flaps = flapping(came, policy.flap, now) if group.kind.of is not Of.UNKNOWN else ""
        if key in now_there or flaps:
            here = group.problems if key in now_there else came[-1:]
            found.append(_fault(key, group.kind, here, before.get(key), past, policy, now, flaps))
    return sorted(_driver_first(found), key=lambda fault: _rank(fault, policy))


def _repaired(problem: Problem, past: NodeHistory) -> bool:
    """Whether it was over when a person said that it was repaired, or another part came: it flaps no more."""
    return problem.ended is not None and any(
        done.what in (REPAIRED, RETURNED) and done.time >= problem.ended and covers(done, problem)
        for done in past.repaired)


def _rank(fault: Fault, policy: TriagePolicy) -> tuple[int, int, int, float, str]:
    isolation, repair = fault.urgency
    return -isolation, policy.kinds.index(fault.kind), -repair, fault.began, fault.place


@dataclass
class _Group:
    kind: FaultKind
    problems: list[Problem]


def _grouped(
    problems: Iterable[Problem], policy: TriagePolicy, excused: Collection[str], waiting: int = 0,
) -> dict[Key, _Group]:
    """Problems by kind and place; what is not measured counts after `waiting` sweeps."""
    groups: dict[Key, _Group] = {}
    for problem in sorted(problems, key=lambda problem: (problem.began, problem.rule, problem.subject)):
        what = of(problem)
        if what is None or (what is not Of.FAIL and (problem.rule in excused or problem.sweeps < waiting)):
            continue
        kind = policy.kind(what, problem.rule, Severity(problem.severity))
        if kind is not None:
            groups.setdefault((kind.id, place(problem)), _Group(kind, [])).problems.append(problem)
    return groups


def _fault(
    key: Key, kind: FaultKind, here: Sequence[Problem], before: _Group | None, past: NodeHistory,
    policy: TriagePolicy, now: float, flaps: str,
) -> Fault:
    """`here` are the problems that it is by now; `flaps` is why it isolates as what comes and goes does."""
    because: list[str] = []
    # What convicts no one confirms nothing and asks for no repair, where other things do.
    believed = [problem for problem in here if _convicts(problem)] or here
    history = [*believed, *(problem for problem in (before.problems if before is not None else ())
                            if _convicts(problem))]
    isolation = kind.isolation
    if isolation is not Isolation.NONE and not any(map(_convicts, believed)):
        isolation = Isolation.NONE
        because.append("a line that is merely new, or whose emitter is not known, isolates no node")
    if isolation is not Isolation.NONE and not flaps and not _sure(kind, believed, history, policy):
        isolation = Isolation.NONE
        because.append(f"seen in {max(problem.sweeps for problem in believed)} of the {kind.confirm} sweeps "
                       "that it takes")
    # To watch is no repair: it says nothing against what another problem of the same fault asks for.
    naming = [problem for problem in believed if problem.repair not in (None, Repair.WATCH.value)] or believed
    asked = [(policy.repair(kind, problem), problem) for problem in naming]
    by_itself = repair = max((one for one, _ in asked), key=_REPAIRS.index)
    if kind.isolation is not Isolation.NONE:
        repair = _climbed(repair, key[1], history, past, policy, now, because)
        repair = _repeated(repair, key[1], past, policy, now, because)
    if flaps:
        because.append(flaps)
    if said := _since_change(believed, past):
        because.append(said)
    owner = kind.owner or _owner([problem for one, problem in asked if one is by_itself] + list(here))
    # Who names no one with spare parts, or goes by history alone, names the vendor.
    if repair is Repair.REPLACE and (by_itself is not repair or owner not in _WITH_PARTS):
        owner = Owner.VENDOR
    began = min(problem.began for problem in here)
    return Fault(kind, key[1], tuple(here), isolation, repair, owner, began, tuple(because),
                 repair is not by_itself)


def _since_change(believed: Sequence[Problem], past: NodeHistory) -> str:
    """Which change of what it is judged by alone made it; empty where not all of it came so."""
    if not past.came or not all(problem in past.came for problem in believed):
        return ""
    return "; ".join(dict.fromkeys(past.came[problem].words for problem in believed))


def _convicts(problem: Problem) -> bool:
    """Whether it may take a node from jobs: of what a log says only known faults do,
    and only those in an emitter's own messages."""
    return problem.rule not in MERELY_NEW and problem.emitter != ""


def _sure(kind: FaultKind, here: Sequence[Problem], history: Sequence[Problem], policy: TriagePolicy) -> bool:
    """Whether enough sweeps saw it; what was here within the flap window has been confirmed before."""
    if kind.of is not Of.FAIL or max(problem.sweeps for problem in here) >= kind.confirm:
        return True
    first = min(problem.began for problem in here)
    return any(0 < first - problem.began <= policy.flap.hours * 3600 and problem.sweeps >= kind.confirm
               for problem in history)


def _owner(problems: Sequence[Problem]) -> Owner:
    named = [Owner(problem.owner) for problem in problems if problem.owner is not None]
    return named[0] if named else Owner.OPERATOR


def _component(where: str) -> bool:
    return " " in where and where.partition(" ")[0] in ("gpu", "nvme")


def _climbed(
    repair: Repair, where: str, history: Sequence[Problem], past: NodeHistory, policy: TriagePolicy,
    now: float, because: list[str],
) -> Repair:
    """The next rung where this one did not hold."""
    if repair not in (Repair.RESTART_SERVICE, Repair.RESET_GPU, Repair.REBOOT):
        return repair
    own = [problem for problem in history if problem.node == past.node and not past.not_its_own(problem)]
    outlived = returns(own, past.boots[1:], policy.climb, now)
    if outlived >= policy.climb.failures:
        because.append(f"it came back after {outlived} reboots in {policy.climb.days:g} days: hardware")
        return Repair.REPLACE if _component(where) else Repair.INSPECT
    lesser = [done.time for done in past.repaired if done.what == repair.value]
    if repair is not Repair.REBOOT and (outlived or returns(own, lesser, policy.climb, now)):
        because.append(f"it came back after {'a reboot' if outlived else repair.value}")
        return Repair.REBOOT
    return repair


def _repeated(
    repair: Repair, where: str, past: NodeHistory, policy: TriagePolicy, now: float, because: list[str],
) -> Repair:
    """Repeat offenders leave the ladder: what fails again and again is not mended by another reboot."""
    failures = [problem for problem in (*past.problems, *past.over, *past.moved)
                if isolates(problem, policy) and not past.not_its_own(problem)]
    if not _component(where):
        failures = [problem for problem in failures if problem.began >= past.chassis_since]
    at = [problem for problem in failures if place(problem) == where] if _component(where) else \
         [problem for problem in failures if not _component(place(problem))]
    value, times = score(at, policy.repeat, now)
    if value < policy.repeat.score:
        return repair
    what = "this component" if _component(where) else "this node"
    elsewhere = sorted({problem.node for problem in at} - {past.node})
    because.append(f"repeat offender: {what} failed {times} times in {policy.repeat.days:g} days (score "
                   f"{value:.1f})" + (f", also in {', '.join(elsewhere[:3])}" if elsewhere else ""))
    worst = Repair.REPLACE if _component(where) else Repair.INSPECT
    return max(repair, worst, key=_REPAIRS.index)


def covers(done: Repaired, problem: Problem) -> bool:
    """Whether a recorded repair covers it; one without names covers all. A part that returned covers what
    was of its kind, where the problem has no serial number to tell parts apart by."""
    if not done.of or problem.subject in done.of:
        return True
    if problem.serial is not None:
        return problem.serial.lower() in {word.lower() for word in done.of}
    subject = problem.subject.lower()
    return done.what == RETURNED and (any(word.lower() in subject for word in done.of)
                                      or (bool(done.kind) and subject.startswith(done.kind)))


def accuses(problem: Problem, policy: TriagePolicy) -> bool:
    """Whether such a problem keeps jobs away from a node, or would if more sweeps saw it."""
    what = of(problem)
    kind = policy.kind(what, problem.rule, Severity(problem.severity)) if what is not None else None
    return kind is not None and kind.isolation is not Isolation.NONE and _convicts(problem)


def isolates(problem: Problem, policy: TriagePolicy) -> bool:
    """Whether such a problem, by itself, keeps jobs away from a node."""
    what = of(problem)
    if what is None or what is Of.UNKNOWN:
        return False
    kind = policy.kind(what, problem.rule, Severity(problem.severity))
    return (kind is not None and kind.isolation is not Isolation.NONE and problem.sweeps >= kind.confirm
            and _convicts(problem))


def _driver_first(found: list[Fault]) -> list[Fault]:
    """The driver's own recovery action comes first; history may require more."""
    deciding: dict[str, list[Fault]] = defaultdict(list)
    for fault in found:
        if fault.kind.decides and fault.isolation is not Isolation.NONE:
            deciding[fault.place].append(fault)
    result = []
    for fault in found:
        words = deciding.get(fault.place)
        if words and not fault.kind.decides and fault.isolation is not Isolation.NONE and not fault.raised:
            said = max((word.repair for word in words), key=_REPAIRS.index)
            if said is not fault.repair:
                fault = replace(fault, repair=said, owner=words[0].owner,
                                because=(*fault.because, f"the driver asks for {said.value}"))
        result.append(fault)
    return result


def suspect_node(past: NodeHistory, policy: TriagePolicy, now: float) -> str:
    """Why the node itself is suspect where several of its components repeat; empty where they do not."""
    failures = [problem for problem in past.problems + past.over if problem.began >= past.chassis_since
                and isolates(problem, policy) and not past.not_its_own(problem)]
    places = {place(problem) for problem in failures if _component(place(problem))}
    value, times = score([problem for problem in failures if _component(place(problem))], policy.repeat, now)
    if len(places) < 2 or value < policy.repeat.score:
        return ""
    return (f"{len(places)} components of this node failed {times} times in {policy.repeat.days:g} days: "
            "suspect what they share")
