"""Judges what a controller says of itself by the rules for the node's own look (`rules/bmc.yaml`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from healthcheck.facts.bmc import BmcEvent, BmcLog, BmcLogUse, BmcSensors
from healthcheck.facts.values import UNSUPPORTED, Partial, Unmeasured, reading
from healthcheck.judge.judge import judge as judge_rule
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.judge.nodereport import worst_first
from healthcheck.model.outcome import NodeReport, Result, Status, state_of
from healthcheck.ruleset.rule import Rule
from inventory.model import Node
from inventory.text import clean
from provisioning.bmc.base import LOG_DAYS, BmcError, BmcErrorReason, Controller, LogReading
from provisioning.bmc.redfish.log import CRITICAL

FACTS = frozenset({"bmc_log", "bmc_log_use", "bmc_sensors"})
_DAY = 86400.0
Facts = dict[str, Any]


def rules_of(rules: Iterable[Rule]) -> list[Rule]:
    """The rules that need nothing but what a controller says."""
    return [rule for rule in rules if set(rule.fact_names) <= FACTS and rule.fact_names]


def facts(controller: Controller, now: float, days: float = LOG_DAYS) -> Facts:
    """Log of so many days, its use, and sensors, or why not. Raises BmcError where it cannot be asked."""
    nothing: Any = UNSUPPORTED
    return {
        "bmc_log": _log(_read(lambda: controller.log(days),
                              lambda: LogReading(BmcLog("BMC", events=nothing, now=now)))),
        "bmc_log_use": _read(controller.log_use, lambda: BmcLogUse("BMC", used_percent=nothing)),
        "bmc_sensors": _read(controller.sensors, lambda: BmcSensors("BMC", sensors=nothing))}


def log_days(rules: Iterable[Rule]) -> float:
    """How far back the rules look into the event log."""
    given = [rule.parameters.get("days") for rule in rules if rule.check == "bmc.sel_critical"]
    return max((float(one) for one in given if isinstance(one, (int, float))), default=LOG_DAYS)


def _log(found: LogReading | Unmeasured) -> BmcLog | Partial | Unmeasured:
    """A log of which not all was read can fail its rules, and cannot pass them."""
    if isinstance(found, Unmeasured):
        return found
    return Partial(found.log, found.missing) if found.missing else found.log


def _read(ask: Callable[[], Any], unsupported: Callable[[], Any]) -> Any:
    try:
        return ask()
    except BmcError as problem:
        if (problem.wrong in (BmcErrorReason.UNREACHABLE, BmcErrorReason.TLS, BmcErrorReason.CREDENTIALS,
                                  BmcErrorReason.NO_SECRET)):
            raise
        return unsupported() if problem.wrong is BmcErrorReason.UNSUPPORTED else Unmeasured(problem.message)


def judged(node: Node, rules: Iterable[Rule], found: Facts | BmcError) -> NodeReport:
    """What the rules say of one node."""
    why = f"{found.wrong.value}: {found.message}" if isinstance(found, BmcError) else ""
    given: Facts = dict.fromkeys(FACTS, Unmeasured(why)) if isinstance(found, BmcError) else found
    results = tuple(_judged(rule, given) for rule in rules)
    return NodeReport(node.name, state_of(results), why, results, node.in_service)


def _judged(rule: Rule, found: Facts) -> Result:
    """One rule. What is critical and no rule has words for keeps the log's from passing."""
    log = found.get("bmc_log")
    log = log.value if isinstance(log, Partial) else log
    if rule.check == "bmc.sel_critical" and isinstance(log, BmcLog) and (
        strange := _strange(rule, log)):
        more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
        message = ("the controller reports it as critical, and no rule covers it: "
                   f"{clean(strange[0].description, 160)}{more}")
        found = {**found, "bmc_log": Partial(log, message)}
    return judge_rule(rule, NodeFacts(found), None)


def _strange(rule: Rule, log: BmcLog) -> list[BmcEvent]:
    events = reading(log, "events")
    if not isinstance(events, tuple):       # this controller has no log
        return []
    days = rule.parameters.get("days")
    since = log.now - (days if isinstance(days, (int, float)) else 7.0) * _DAY
    return [event for event in events
            if event.text.endswith(CRITICAL) and (event.time is None or event.time >= since)]


def lines(report: NodeReport, remedies: bool = True) -> list[str]:
    """What is wrong or unknown, worst first; one line where nothing is, or nothing could be asked."""
    if report.reason:
        return [f"unknown  nothing is judged: {clean(report.reason, 300)}"]
    found = []
    for result in worst_first(report.results):
        if result.status is Status.FAIL:
            for finding in result.findings:
                owner = finding.owner or result.owner
                found.append(f"{result.severity.value}  {result.rule}  {clean(finding.subject, 60)}: "
                             f"{clean(finding.observed, 200)}, expected {clean(finding.expected, 80)}")
                if remedies:
                    found.append(f"  {owner.value if owner is not None else 'operator'}: "
                                 f"{finding.remedy or result.remedy}")
        else:
            found.append(f"unknown  {result.rule}  {clean(result.reason, 300)}")
    passed = sum(result.status is Status.PASS for result in report.results)
    left = [result.rule for result in report.results if result.status is Status.SKIPPED]
    return (found or [f"fine  {passed} rule{'' if passed == 1 else 's'}"
                      + (f"; not reported: {', '.join(left)}" if left else "")])
