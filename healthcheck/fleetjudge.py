"""Judges a fleet rule: runs its check over the facts of a whole cohort, without the nodes of which it could not read what it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from healthcheck.checks.base import NotMeasured
from healthcheck.checks.fleet import NoMajority
from healthcheck.facts.base import Partial, Unmeasured, Unsupported
from healthcheck.guard import NotSupported, Tracker
from healthcheck.judge import Verdict, result, rule_on, sound
from healthcheck.outcome import Finding, Origin, Result, Status
from healthcheck.rule import Rule
from healthcheck.sku import SMALLEST_COHORT


def judge_fleet(rule: Rule, cohort: Mapping[str, Any]) -> dict[str, Result]:
    """What one fleet rule says of each node of a cohort (nodes of one SKU); `cohort` maps a node to the rule's one fact."""
    if rule.left_out:
        return {node: result(rule, Status.SKIPPED, reason=rule.left_out) for node in cohort}
    verdicts = {node: Verdict() for node in cohort}
    measured: dict[str, Any] = {}
    tracker = Tracker()
    for node, fact in cohort.items():
        if isinstance(fact, Partial):
            verdicts[node].unmeasured[rule.checked.facts[0]] = Unmeasured(fact.reason)
            fact = fact.value
        if isinstance(fact, Unmeasured):
            verdicts[node].unmeasured[rule.checked.facts[0]] = fact
        else:
            measured[node] = fact
    problem: Unmeasured | None = None
    while True:
        if len(measured) < SMALLEST_COHORT:
            skipped = f"a cohort of {len(measured)} is too small to compare: at least {SMALLEST_COHORT} nodes of one SKU"
            for node in measured:
                verdicts[node].skipped = skipped
            break
        tracker = Tracker()
        found: list[tuple[str, Finding]] = []
        try:
            for node, finding in rule.checked.function({n: tracker.wrap(fact) for n, fact in measured.items()}, **rule.values(None)):
                if node not in measured:
                    raise ValueError(f"a finding about {node}, which is not among the nodes that were compared")
                found.append((node, sound(finding)))
        except NoMajority as error:
            problem = Unmeasured(str(error), Origin.MUSTER)
        except (NotMeasured, NotSupported) as error:
            problem = Unmeasured(str(error))
        except Exception as error:  # noqa: BLE001  (a defect of a check must cost its rule, not the sweep)
            problem = Unmeasured(f"the check failed: {type(error).__name__}: {error}", Origin.MUSTER)
        if not (tracker.unmeasured or tracker.unsupported):
            for node, finding in found:
                verdicts[node].findings.append(finding)
            if problem is not None:
                for node in measured:
                    verdicts[node].unmeasured[rule.checked.name] = problem
            break
        problem = None
        # Every node whose fact lacks what was asked for leaves at once: there may be thousands.
        for node, fact in list(measured.items()):
            for name in tracker.fields:
                value = getattr(fact, name, None)
                if isinstance(value, Unmeasured):
                    verdicts[node].unmeasured[rule.checked.facts[0]] = value
                elif isinstance(value, Unsupported):
                    verdicts[node].unsupported.append(f"{name} of this node")
                    verdicts[node].judged = False
                else:
                    continue
                measured.pop(node, None)
    return {node: rule_on(rule, verdict) for node, verdict in verdicts.items()}
