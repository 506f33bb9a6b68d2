"""Checks nodes before and after a step as `muster check` does; the snapshot goes into the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from healthcheck.model.outcome import NodeReport, Origin, Severity, Status
from healthcheck.model.recording import Recording
from healthcheck.report.progress import progress
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.store.file import opened
from healthcheck.store.readings import NodeReadings, readings
from healthcheck.store.repairs import words_in
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.sweep import sweep
from healthcheck.sweep.snapshots import KeptSnapshots
from healthcheck.triage.judgedby import judged_by
from inventory.cli.chosen import who
from inventory.model import Node
from inventory.release import VERSION
from inventory.transport.base import Transport

_BETWEEN_S = 3.0


@dataclass(frozen=True)
class NodeHealth:
    """What a look showed of a node. `wrong` are the rules that fail (INFO does not count), and critical ones
    that it does not answer; `named` are, of rules that fail and were measured whole, the subjects with which
    they do. `message` is why it was not reached."""

    node: str
    reached: bool
    boot: str = ""
    wrong: frozenset[str] = frozenset()
    passed: frozenset[str] = frozenset()
    named: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    message: str = ""


@dataclass
class VerifyContext:
    """With what one looks: rules, the way to the nodes, and the state folder."""

    ruleset: Ruleset
    transport: Transport
    folder: Path
    fanout: int
    sleep: Callable[[float], None] = field(default=time.sleep)


def look(site: VerifyContext, nodes: Sequence[Node]) -> dict[str, NodeHealth]:
    """One sweep of these nodes by all rules."""
    boots: dict[str, str] = {}
    found: dict[str, NodeReadings] = {}

    def keep(recording: Recording) -> None:
        found[recording.node] = readings(recording)
        boots[recording.node] = recording.host.boot_id if recording.host is not None else ""

    plan = sweep.SweepPlan(nodes, site.ruleset, source="muster remediate")
    began = time.time()
    outcome = sweep.live(
        plan, site.transport, sweep.limits(None, site.fanout, nodes),
        progress(len(nodes), "snapshot", quiet=True),
        snapshots=KeptSnapshots(site.folder), on_recording=keep, repairs=words_in(site.folder))
    if outcome.partial:
        raise KeyboardInterrupt
    with opened(site.folder, make=True) as store:
        known = record(store,
                       SweepRecord(began, time.time(), False, plan.source, site.ruleset.digest,
                                   versions=judged_by(plan.ruleset, VERSION), who=who()),
                       outcome.assessed.reports, found)
    return {report.node: _seen(report, boots.get(report.node, "")) for report in known}


def _seen(report: NodeReport, boot: str) -> NodeHealth:
    if not report.results:
        return NodeHealth(report.node, False, message=report.reason)
    wrong = {
        one.rule for one in report.results if one.severity is not Severity.INFO and (
            one.status is Status.FAIL or (one.status is Status.UNKNOWN and one.severity is Severity.CRITICAL
                                          and one.origin is Origin.NODE))}
    passed = {one.rule for one in report.results if one.status is Status.PASS}
    named = {one.rule: frozenset(finding.subject.removesuffix(".service") for finding in one.findings)
             for one in report.results if one.status is Status.FAIL and not one.reason}
    return NodeHealth(report.node, True, boot, frozenset(wrong), frozenset(passed), MappingProxyType(named))


def await_(
    site: VerifyContext, nodes: Sequence[Node], done: Callable[[NodeHealth], bool], seconds: float,
) -> dict[str, NodeHealth]:
    """Looks again and again until each is as wanted, or the time is over: the newest look at each."""
    until = time.monotonic() + seconds
    seen: dict[str, NodeHealth] = {}
    waiting = list(nodes)
    while waiting:
        seen.update(look(site, waiting))
        waiting = [node for node in waiting if not done(seen[node.name])]
        if time.monotonic() >= until:
            break
        if waiting:
            site.sleep(min(_BETWEEN_S, max(0.0, until - time.monotonic())))
    return seen


def passes(seen: NodeHealth, rules: Collection[str]) -> bool:
    """Whether all these rules pass, or of `RULE@SUBJECT` the subject; skipped or unmeasured is no pass."""
    return seen.reached and all(_passes(seen, *rule.partition("@")[::2]) for rule in rules)


def _passes(seen: NodeHealth, rule: str, subject: str) -> bool:
    return rule in seen.passed or (subject != "" and rule in seen.named and subject not in seen.named[rule])


def worse(passed: Collection[str], seen: NodeHealth) -> list[str]:
    """The rules that are wrong now and passed before; what could not be judged before does not count."""
    return sorted(seen.wrong.intersection(passed))

