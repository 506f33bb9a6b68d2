"""A triage plan as text, one line per step, and as JSON (muster.triage/1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import Repair
from healthcheck.model.verdict import Verdict
from healthcheck.report.machines import lines as machine_lines
from healthcheck.store.verdicts import lines_of
from healthcheck.triage.changed import batches, change_document, lines
from healthcheck.triage.plan import Act, PlannedAction, TriagePlan, Withheld
from inventory.nodeset import fold
from inventory.text import clean
from inventory.times import ago, iso, minute

# How a person ends the jobs that run on some nodes: a command, or words where none is known.
EndJobs = Callable[[Sequence[str]], str]
_WIDE = 150
_CHANGES = 600


def no_command(nodes: Sequence[str]) -> str:
    """Where the back end names no command that ends jobs."""
    return "by the scheduler's own command"


def text(
    plan: TriagePlan, nodes: int, serving: int, newest: float | None, *,
    held_back: Iterable[str] = (), end_jobs: EndJobs = no_command,
) -> Iterator[str]:
    """The plan, line by line, most important first. `newest` is when the newest stored sweep began;
    `held_back` are lines on what silences hold back."""
    if plan.is_open:
        why = plan.opens or "it has been open since an earlier triage"
        yield f"BREAKER OPEN: {why}; releases go on, and the worst faults have a reserve"
    if plan.closes:
        yield f"breaker closes: {plan.closes}"
    for window in plan.windows:
        but = f"but for {', '.join(sorted(window.but))}" if window.but else "at all"
        yield (f"change window until {minute(window.until)}: {clean(window.why, 200)}; nothing is isolated "
               f"{but}; releases go on")
    age = "no sweep is stored" if newest is None else f"the newest sweep is {ago(plan.now - newest)} old"
    silenced = sum(len(one.problems) for one in plan.held_back)
    quiet = f", {silenced} problem{'s' * (silenced != 1)} silenced" if silenced else ""
    yield f"{nodes} nodes, {serving} in service; {len(plan.unfit)} not fit for new jobs{quiet}; {age}"
    yield from (clean(line, _CHANGES) for line in lines(plan.changes))
    for incident in plan.incidents:
        gone = "no node any more" if incident.members else clean(incident.kind, 40)
        where = fold(incident.nodes) if incident.nodes else gone
        number = f" {incident.id}" if incident.id else ""
        yield f"incident{number}  {where}: {clean(incident.why, 400)} ({incident.owner.value})"
    for end in plan.ends:
        yield f"incident {end.id} ends: {clean(end.why, 300)}"
    yield from _folded((step.act.value, step.node, _why(step)) for step in plan.steps)
    yield from machine_lines(plan.machines)
    if plan.unmeasured:
        yield (f"unknown   {fold(plan.unmeasured)}: no fresh sweep, so the plan does not cover them; see: "
               "muster nodes")
    yield from _withheld(plan)
    yield from held_back
    acted = {step.node for step in plan.steps} | {one.node for one in plan.withheld}
    kept = [verdict for verdict in plan.verdicts if verdict.isolation is not Isolation.NONE
            and verdict.node not in acted]
    held = [one for one in kept if one.node in plan.held or one.node not in plan.out]
    yield from _folded(("held", one.node, _cause(one)) for one in held)
    yield from _folded(("not in service", one.node, f"{plan.out[one.node]}; {_cause(one)}") for one in kept
                        if one not in held)
    if plan.only_since:
        yield _only_since(plan.only_since)
    if plan.to_end:
        yield (f"by hand   {fold(plan.to_end)}: end the jobs that still run there; muster ends none: "
               f"{end_jobs(plan.to_end)}")
    watched: dict[tuple[str, str], list[str]] = defaultdict(list)
    for verdict in plan.verdicts:
        if verdict.isolation is Isolation.NONE and verdict.faults:
            owner = verdict.owner.value if verdict.owner is not None else ""
            asked = f"{verdict.repair.value}, by {owner}" if verdict.repair is not Repair.WATCH else owner
            watched[verdict.fault, asked].append(verdict.node)
    for (fault, owner), names in watched.items():
        yield f"watch     {fold(names)}: {fault} ({owner})"


def undo_text(plan: TriagePlan, since: float) -> Iterator[str]:
    """What `--undo-since` would give back, and why not the rest."""
    yield from (clean(line, _CHANGES) for line in lines(plan.changes))
    if not plan.changes:
        yield f"nothing that nodes are judged by has changed since {minute(since)}: there is nothing to undo"
        return
    yield from _folded((step.act.value, step.node, clean(step.why, _CHANGES)) for step in plan.steps)
    yield from _withheld(plan)
    if not plan.steps and not plan.withheld:
        yield f"triage has taken no node from jobs since {minute(since)} that is held still"


def _only_since(nodes: Mapping[str, float]) -> str:
    """Which nodes nothing but a change takes from jobs, and how they are given back where it was wrong."""
    names, since = fold(nodes), minute(min(nodes.values()))
    return (f"by change {names}: nothing but a change keeps jobs away; if that was wrong, put back what held "
            f"before, then: muster check {names} --store; muster triage --undo-since {since}")


def _folded(each: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Lines of an action, a node and a reason; each reason once with its nodes,
    in the order of the first node."""
    names: dict[tuple[str, str], list[str]] = defaultdict(list)
    for act, node, why in each:
        names[act, why].append(node)
    for (act, why), nodes in names.items():
        yield f"{act:<9} {fold(nodes)}: {why}"


def _why(step: PlannedAction) -> str:
    return clean(step.why, _WIDE) + (f"  {_asked(step.verdict)}" if step.act is Act.ISOLATE else "")


def _cause(verdict: Verdict) -> str:
    why = verdict.why if verdict.incident else f"{verdict.fault}: {verdict.why}"
    return f"{clean(why, _WIDE)}  {_asked(verdict)}"


def _withheld(plan: TriagePlan) -> Iterator[str]:
    """What is withheld, a line for each reason; for what the breaker withholds,
    one per incident and other fault."""
    groups: dict[tuple[str, str], list[Withheld]] = defaultdict(list)
    for one in plan.withheld:
        why = one.why.replace(one.node, "NODE")
        groups[one.act.value, why if not one.by_breaker else f"incident {one.incident}" if one.incident
              else one.fault].append(one)
    for (act, what), each in groups.items():
        names = [one.node for one in each]
        why = each[0].why if len(each) == 1 else what
        if each[0].by_breaker:
            number = f"{len(names)} node{'s' * (len(names) != 1)}"
            why = f"{what}, {number}: {'; '.join(dict.fromkeys(one.why for one in each))}"
        yield f"withheld  {act} {fold(names)}: {clean(why, 300)}"


def _asked(verdict: Verdict) -> str:
    owner = verdict.owner.value if verdict.owner is not None else "operator"
    return f"[{verdict.isolation.value}; {verdict.repair.value}, by {owner}]"


def document(
    plan: TriagePlan, end_jobs: EndJobs = no_command, silenced: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The plan as one JSON document; `silenced` are the problems that silences hold back."""
    return {
        "schema": "muster.triage/1", "time": iso(plan.now),
        "breaker": {"open": plan.is_open, "opens": plan.opens, "closes": plan.closes},
        "windows": [{"until": iso(one.until), "why": one.why, "but": sorted(one.but)}
                    for one in plan.windows],
        "changes": [change_document(one) for _, changes in batches(plan.changes) for one in changes],
        "only_by_change": [{"node": node, "since": iso(since)} for node, since in plan.only_since.items()],
        "incidents": [{"id": one.id, "kind": one.kind, "cause": one.cause, "nodes": list(one.nodes),
                       "why": one.why, "owner": one.owner.value, "symptoms": list(one.symptoms),
                       "likelihood": one.likelihood, "isolates": one.isolates}
                      for one in plan.incidents],
        "ends": [{"incident": one.id, "why": one.why, "into": one.into or None} for one in plan.ends],
        "unmeasured": list(plan.unmeasured),
        "machines": [{"node": one.node, "since": iso(one.at), "others": one.others, "parts": one.parts,
                      "origin": one.origin or None, "swapped": one.swapped} for one in plan.machines],
        "by_hand": [{"nodes": list(plan.to_end), "what": "end-jobs", "how": end_jobs(plan.to_end)}]
        if plan.to_end else [],
        "steps": [{"act": step.act.value, "node": step.node, "why": step.why}
                  | ({"backend": step.backend} if step.backend else {})
                  for step in plan.steps],
        "withheld": [{"act": one.act.value, "node": one.node, "why": one.why, "by_breaker": one.by_breaker,
                      "fault": one.fault, "incident": one.incident or None} for one in plan.withheld],
        "silenced": list(silenced),
        "verdicts": [{
            "node": verdict.node, "isolation": verdict.isolation.value, "repair": verdict.repair.value,
            "owner": verdict.owner.value if verdict.owner is not None else None, "fault": verdict.fault,
            "why": verdict.why, "incident": verdict.incident or None,
            "proven": verdict.proven, "unproven": verdict.unproven, "evidence": lines_of(verdict),
        } for verdict in plan.verdicts],
    }
