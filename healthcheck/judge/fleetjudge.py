"""Judges a fleet rule: runs its check once over the facts of a whole cohort.

A fact may be one thing of a node or a collection (its GPUs). What lacks a reading that the check asks for leaves the comparison: one
GPU, or the node, which is then UNKNOWN for this rule; the others are compared among themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from healthcheck.checks.base import GROWTH, Check
from healthcheck.checks.fleet import NoMajority, Uncompared
from healthcheck.facts.values import Refusal, Unmeasured, refusals
from healthcheck.judge.judge import NO_EARLIER, CheckRun, growth_of, result, rule_on, sound
from healthcheck.judge.nodefacts import NodeFacts, members
from healthcheck.model.outcome import Finding, Origin, Result, Status
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.sku import SMALLEST_COHORT, Sku

Cohort = Mapping[str, NodeFacts]


def judge_fleet(rule: Rule, cohort: Cohort, sku: Sku | None = None) -> dict[str, Result]:
    """What one fleet rule says of each node of a cohort (nodes of one SKU)."""
    if rule.left_out:
        return {node: result(rule, Status.SKIPPED, reason=rule.left_out) for node in cohort}
    check = rule.checked
    verdicts: defaultdict[str, CheckRun] = defaultdict(CheckRun)      # of most nodes there is nothing to report
    compared = {node: snapshot for node, snapshot in cohort.items() if _ready(check, snapshot, verdicts, node, sku)}
    if _enough(compared, verdicts):
        refused: list[Refusal] = []
        found: list[tuple[str, Finding | Uncompared]] = []
        problem: Unmeasured | None = None
        with refusals(refused):
            try:
                for node, one in check.function(*[_argument(check, name, compared) for name in check.arguments], **rule.values(None)):
                    if node not in compared:
                        raise ValueError(f"a finding about {node}, which is not among the nodes that were compared")
                    found.append((node, one if isinstance(one, Uncompared) else sound(one, check.subject)))
            except NoMajority as error:
                problem = Unmeasured(str(error), Origin.MUSTER)
            except Refusal as error:
                problem = Unmeasured(str(error))
            except Exception as error:  # noqa: BLE001  (a defect of a check must cost its rule, not the sweep)
                problem = Unmeasured(f"the check failed: {type(error).__name__}: {error}", Origin.MUSTER)
        left = _without_refused(check, compared, refused, verdicts)
        if _enough(left, verdicts):
            _tell(check, left, found, problem, verdicts)
    return {node: _result_of(rule, verdicts.get(node)) for node in cohort}


def _result_of(rule: Rule, verdict: CheckRun | None) -> Result:
    """The rule's word on one node; there is no verdict where nothing is to be said of it."""
    return rule.passed if verdict is None else rule_on(rule, verdict)


def _enough(compared: Cohort, verdicts: Mapping[str, CheckRun]) -> bool:
    """Whether there are nodes enough to compare; each is told where there are not."""
    if len(compared) >= SMALLEST_COHORT:
        return True
    for node in compared:
        verdicts[node].skipped = (
            f"a cohort of {len(compared)} is too small to compare: at least {SMALLEST_COHORT} nodes of one SKU")
    return False


def _ready(check: Check, snapshot: NodeFacts, verdicts: Mapping[str, CheckRun], node: str, sku: Sku | None) -> bool:
    """Whether a node has what is to be compared; its verdict is told what it lacks."""
    for name in check.facts:
        held = snapshot.input(name)
        if held.plain:
            continue
        if held.nothing is not None:
            verdicts[node].unmeasured[name] = held.nothing
            return False
        if held.partly is not None:
            verdicts[node].unmeasured[name] = held.partly
        if held.value == ():
            if sku is not None and name in sku.empty and held.partly is None:
                verdicts[node].skipped = f"there are no {name}, as the SKU says"
            else:
                verdicts[node].unmeasured.setdefault(name, Unmeasured(f"there are no {name} to compare"))
            return False
    for name in check.earlier:
        before = snapshot.earlier(name)
        if before is None:
            verdicts[node].skipped = NO_EARLIER
            return False
        if before.partly is not None:
            verdicts[node].unmeasured[f"earlier {name}"] = before.partly
        if before.nothing is not None or before.value == ():
            verdicts[node].unmeasured.setdefault(
                f"earlier {name}", before.nothing or Unmeasured(f"there are no {name} to compare"))
            return False
    return True


def _argument(check: Check, name: str, compared: Cohort) -> dict[str, Any]:
    if name == GROWTH:
        return {node: growth_of(snapshot, check.subject) for node, snapshot in compared.items()}
    return {node: snapshot.input(name).value for node, snapshot in compared.items()}


def _without_refused(
    check: Check, compared: Cohort, refused: Iterable[Refusal], verdicts: Mapping[str, CheckRun],
) -> dict[str, NodeFacts]:
    """The nodes of which anything was left to compare; the verdicts of those that refused a reading are told."""
    by_source: dict[int, list[Refusal]] = {}
    for one in refused:
        by_source.setdefault(id(one.source), []).append(one)
    if not by_source:
        return dict(compared)
    left = {}
    for node, snapshot in compared.items():
        growths = snapshot.growths(check.subject) if check.trend else {}
        nothing_left = False
        for value in snapshot.taken(check):
            lacking = 0
            for fact in members(value):
                told = by_source.get(id(fact), [])
                if id(fact) in growths:
                    told = [*told, *by_source.get(id(growths[id(fact)]), [])]
                if told:
                    verdicts[node].refuse(told, check.name)
                    lacking += 1
            nothing_left |= lacking == len(members(value))
        if nothing_left:
            verdicts[node].judged = False
        else:
            left[node] = snapshot
    return left


def _tell(
    check: Check, compared: Cohort, found: Iterable[tuple[str, Finding | Uncompared]], problem: Unmeasured | None,
    verdicts: Mapping[str, CheckRun],
) -> None:
    """Tells the verdicts of the nodes that were compared what the check found."""
    if problem is not None:
        for node in compared:
            verdicts[node].unmeasured[check.name] = problem
        return
    alone: defaultdict[str, list[Uncompared]] = defaultdict(list)
    for node, one in found:
        if node in compared and isinstance(one, Uncompared):
            alone[node].append(one)
        elif node in compared and isinstance(one, Finding):
            verdicts[node].findings.append(one)
    for node, apart in alone.items():
        _set_apart(verdicts[node], apart, members(compared[node].input(check.subject).value))


def _set_apart(verdict: CheckRun, alone: Iterable[Uncompared], subjects: tuple[Any, ...]) -> None:
    """What had no peers is reported beside a PASS, and where that is everything the node was not judged."""
    whys: dict[str, list[str]] = {}
    for one in alone:
        whys.setdefault(one.why, []).append(one.subject)
    everything = sum(map(len, whys.values())) >= len(subjects)
    if everything and not verdict.findings and not verdict.unmeasured:
        verdict.skipped = "; ".join(whys)
    else:
        verdict.caveats += [f"{', '.join(names)}: {why}" for why, names in whys.items()]
