"""Judges a fleet rule: runs its check over the facts of a whole cohort, without what could not be read.

A fact may be one thing of a node or a collection (its GPUs). What lacks a reading that the check asks for leaves the comparison: one
GPU, or the node, which is then UNKNOWN for this rule; the others are still judged, among themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from healthcheck.checks.base import PREVIOUS, Check, NotMeasured
from healthcheck.checks.fleet import NoMajority, Uncompared
from healthcheck.facts.values import Fact, Partial, Unmeasured, Unsupported
from healthcheck.judge.fleetalike import all_pass
from healthcheck.judge.guard import Guards, NotSupported, Tracker, original
from healthcheck.judge.judge import MOST_RUNS, Verdict, result, rule_on, sound
from healthcheck.judge.settled import Like
from healthcheck.model.outcome import Finding, Origin, Result, Status
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.sku import SMALLEST_COHORT, Sku

_Measured = dict[str, dict[str, Any]]


def judge_fleet(
    rule: Rule, cohort: Mapping[str, Mapping[str, Any]], sku: Sku | None = None, guards: Guards | None = None,
    like: Mapping[str, Mapping[str, Like]] = MappingProxyType({}),
) -> dict[str, Result]:
    """What one fleet rule says of each node of a cohort (nodes of one SKU); `cohort` maps a node to its facts by name.

    An earlier look's facts have the names that checks ask for them by (`previous_gpus`); a node that has none lacks these names.
    `guards` are those of the cohort, which all rules share: there may be thousands of GPUs. `like` holds by node and name what stands for
    facts that are alike.
    """
    if rule.left_out:
        return {node: result(rule, Status.SKIPPED, reason=rule.left_out) for node in cohort}
    check = rule.checked
    guards = guards or Guards()
    if all_pass(rule, cohort, guards, like):
        return dict.fromkeys(cohort, rule.passed)
    # Of most nodes there is nothing to be said.
    verdicts: defaultdict[str, Verdict] = defaultdict(Verdict)
    measured: _Measured = {}
    for node, facts in cohort.items():
        taken = _take(check, facts, verdicts, node, sku)
        if taken is not None:
            measured[node] = taken
    for run in range(2 * MOST_RUNS + 1):
        if len(measured) < SMALLEST_COHORT:
            skipped = f"a cohort of {len(measured)} is too small to compare: at least {SMALLEST_COHORT} nodes of one SKU"
            for node in measured:
                verdicts[node].skipped = skipped
            break
        tracker = guards.tracker = Tracker()
        found: list[tuple[str, Finding]] = []
        alone: dict[str, list[Uncompared]] = {}
        problem: Unmeasured | None = None
        try:
            arguments = [{node: guards.wrap(taken[name]) for node, taken in measured.items()} for name in check.facts]
            for node, said in check.function(*arguments, **rule.values(None)):
                if node not in measured:
                    raise ValueError(f"a finding about {node}, which is not among the nodes that were compared")
                if isinstance(said, Uncompared):
                    alone.setdefault(node, []).append(said)
                else:
                    found.append((node, sound(said)))
        except NoMajority as error:
            problem = Unmeasured(str(error), Origin.MUSTER)
        except NotMeasured as error:
            problem = Unmeasured(error.reason)
            fact = original(error.fact)
            if isinstance(fact, Fact) and id(fact) not in tracker.unmeasured:
                tracker.unmeasured[id(fact)] = (fact, problem)
        except NotSupported as error:
            problem = Unmeasured(str(error))
        except Exception as error:  # noqa: BLE001  (a defect of a check must cost its rule, not the sweep)
            problem = Unmeasured(f"the check failed: {type(error).__name__}: {error}", Origin.MUSTER)
        if (tracker.unmeasured or tracker.unsupported) and run < 2 * MOST_RUNS and _leave(measured, tracker, verdicts):
            continue
        for node, finding in found if problem is None else ():
            verdicts[node].findings.append(finding)
        for node, taken in measured.items():
            if problem is not None:
                verdicts[node].unmeasured[check.name] = problem
            elif node in alone:
                _set_apart(verdicts[node], alone[node], taken[check.facts[0]])
        break
    return {node: _told(rule, verdicts.get(node)) for node in cohort}


def _told(rule: Rule, verdict: Verdict | None) -> Result:
    """The rule's word on one node; there is no verdict where nothing is to be said of it."""
    return rule.passed if verdict is None else rule_on(rule, verdict)


def _take(check: Check, facts: Mapping[str, Any], verdicts: Mapping[str, Verdict], node: str, sku: Sku | None) -> dict[str, Any] | None:
    """One node's facts as far as they were measured, or None where there is nothing to compare; its verdict is told why."""
    taken: dict[str, Any] = {}
    for name in check.facts:
        value = facts.get(name)
        if value is not None and value != () and type(value) is not Partial and type(value) is not Unmeasured:
            taken[name] = value
            continue
        verdict = verdicts[node]
        if name.startswith(PREVIOUS) and name not in facts:
            verdict.skipped = "no earlier look at this node in this boot"
            return None
        value = facts.get(name, Unmeasured(f"{name} was not captured"))
        if isinstance(value, Partial):
            verdict.unmeasured[name] = Unmeasured(value.reason)
            value = value.value
        if isinstance(value, Unmeasured):
            verdict.unmeasured[name] = value
            return None
        if value == () and sku is not None and name in sku.empty and name not in verdict.unmeasured:
            verdict.skipped = f"there are no {name}, as the SKU says"
            return None
        if value == ():
            verdict.unmeasured.setdefault(name, Unmeasured(f"there are no {name} to compare"))
            return None
        taken[name] = value
    return taken


def _leave(measured: _Measured, tracker: Tracker, verdicts: Mapping[str, Verdict]) -> bool:
    """Takes out everything that lacks what was asked for, at once, for there may be thousands; whether anything left."""
    left = False
    for node, taken in list(measured.items()):
        for name, value in taken.items():
            whole = not isinstance(value, tuple)
            kept = []
            for fact in (value,) if whole else value:
                if _lacks(fact, tracker, verdicts[node], name if whole else getattr(fact, "name", name)):
                    left = True
                else:
                    kept.append(fact)
            if not kept:
                verdicts[node].judged = False
                measured.pop(node, None)
            taken[name] = kept[0] if whole and kept else tuple(kept)
    return left


def _lacks(fact: Any, tracker: Tracker, verdict: Verdict, subject: str) -> bool:
    """Whether a fact cannot answer what was asked of any of its kind; `verdict` is told of what it cannot."""
    if id(fact) in tracker.unmeasured:
        verdict.unmeasured[subject] = tracker.unmeasured[id(fact)][1]
        return True
    for field in tracker.fields:
        value = getattr(fact, field, None)
        if isinstance(value, Unmeasured):
            verdict.unmeasured[subject] = value
            return True
        if isinstance(value, Unsupported):
            verdict.unsupported.append(f"{field} of {subject}")
            return True
    return False


def _set_apart(verdict: Verdict, alone: Iterable[Uncompared], subjects: Any) -> None:
    """What had no peers is told beside a PASS, and where that is everything the node was not judged."""
    whys: dict[str, list[str]] = {}
    for one in alone:
        if one.unmeasured:
            verdict.unmeasured[one.subject] = Unmeasured(one.why)
            continue
        whys.setdefault(one.why, []).append(one.subject)
    number = sum(len(names) for names in whys.values())
    everything = number >= (len(subjects) if isinstance(subjects, tuple) else 1)
    if everything and not verdict.findings and not verdict.unmeasured:
        verdict.skipped = "; ".join(whys)
    else:
        verdict.caveats += [f"{', '.join(names)}: {why}" for why, names in whys.items()]
