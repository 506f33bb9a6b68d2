"""Names an open change as a possible cause of what triage found on its nodes since; decides nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from healthcheck.change.model import ChangeVerdict, SiteChange
from healthcheck.model.verdict import Incident, Verdict
from healthcheck.triage.plan import Act, PlannedAction, TriagePlan
from inventory.times import minute

# A change is made soon after it was begun; what begins later has other causes.
LASTS_S = 14 * 86400.0
_CAUSE = "possible cause: change "


def is_open(change: SiteChange, now: float) -> bool:
    """Whether it can be why something is wrong: it began, not long ago, and its newest verdict is no pass."""
    passed = change.newest is not None and change.newest.verdict is ChangeVerdict.PASSED
    return not passed and change.began <= now <= change.began + LASTS_S


def explained(plan: TriagePlan, changes: Iterable[SiteChange]) -> TriagePlan:
    """The same plan, with the changes named in the words of verdicts, of isolations and of incidents."""
    still = [change for change in changes if is_open(change, plan.now)]
    if not still:
        return plan
    return replace(
        plan, verdicts=tuple(_verdict(one, still) for one in plan.verdicts),
        incidents=tuple(_incident(one, still, plan.now) for one in plan.incidents),
        steps=tuple(_step(one, still) for one in plan.steps))


def _verdict(one: Verdict, changes: Sequence[SiteChange]) -> Verdict:
    """A node of a canary whose problems all began since; of several changes the newest before them."""
    problems = [problem for fault in one.faults for problem in fault.problems]
    if not problems or one.incident:
        return one
    first = min(problem.began for problem in problems)
    fit = [change for change in changes if one.node in change.canary and change.began <= first]
    if not fit:
        return one
    change = max(fit, key=lambda each: each.began)
    return replace(one, why=_with(one.why, f"{change.name}, begun at {minute(change.began)}"))


def _incident(one: Incident, changes: Sequence[SiteChange], now: float) -> Incident:
    """An incident that began since, on nodes of which some are the canary; a new one began now."""
    began = one.began or now
    fit = [(change, len(set(one.nodes) & set(change.canary))) for change in changes if change.began <= began]
    fit = [(change, nodes) for change, nodes in fit if nodes]
    if not fit:
        return one
    change, nodes = max(fit, key=lambda each: (each[1], each[0].began))
    share = f"whose canary are {nodes} of its {len(one.nodes)} nodes"
    return replace(one, why=_with(one.why, f"{change.name}, begun at {minute(change.began)}, {share}"))


def _step(one: PlannedAction, changes: Sequence[SiteChange]) -> PlannedAction:
    verdict = _verdict(one.verdict, changes)
    if one.act is not Act.ISOLATE or verdict is one.verdict:
        return one
    head = one.why.removesuffix(one.verdict.why)
    return replace(one, why=f"{head}{verdict.why}", verdict=verdict)


def _with(why: str, cause: str) -> str:
    """The cause stands first, as lines are cut at their end; and once: triage keeps the words of an incident,
    and may go on with them."""
    kept = why.partition("; ")[2] if why.startswith(_CAUSE) else why
    return f"{_CAUSE}{cause}; {kept}"
