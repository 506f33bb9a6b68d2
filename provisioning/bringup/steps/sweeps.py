"""A sweep of the machines at a step, as `muster check`'s, stored; and what of it keeps a machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from healthcheck.judge.nodereport import worst_first
from healthcheck.model.lease import Lease
from healthcheck.model.outcome import Finding, NodeReport, Owner, Result, Severity, Status
from healthcheck.model.recording import Recording
from healthcheck.model.trouble import Trouble
from healthcheck.report.progress import progress
from healthcheck.store.file import opened
from healthcheck.store.readings import NodeReadings, readings
from healthcheck.store.repairs import words_in
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.sweep import sweep
from healthcheck.sweep.snapshots import KeptSnapshots
from healthcheck.triage.judgedby import judged_by
from inventory.cli.chosen import who
from inventory.release import VERSION
from inventory.text import clean, many
from inventory.transport.base import Limits, Transport
from provisioning.actions.choose import Options, backend
from provisioning.bringup.engine.model import Machine, Observation, StepState
from provisioning.bringup.steps.context import StepContext
from provisioning.lease.check import leased, manager

_MOST = 40          # troubles of one machine: a punch list is read by people
PARTS = {"gpu": "gpu", "nvme": "drive", "chassis": "node", "port": "port"}


def swept(
    context: StepContext, machines: Sequence[Machine], profiles: tuple[str, ...], only: tuple[str, ...] = (),
    skip: tuple[str, ...] = (), each: Callable[[Recording], None] = lambda recording: None,
) -> tuple[tuple[NodeReport, ...], Mapping[str, NodeReadings]]:
    """One sweep of these machines, which is in the store afterwards; `each` gets what was recorded."""
    plan = _plan(context, machines, profiles, only, skip)
    bounds = sweep.limits(None, context.fanout, plan.nodes)
    return _stored(context, plan, context.transport(), bounds, None, each)


def under_lease(
    context: StepContext, machines: Sequence[Machine], profiles: tuple[str, ...], only: tuple[str, ...],
    why: str,
) -> tuple[tuple[NodeReport, ...], Mapping[str, NodeReadings], Mapping[str, str]]:
    """As `swept`, by rules of which some run under a lease alone; and by machine why it had none, or lost it.
    Raises ActionError, StoreError, UsageError before anything is sent."""
    plan = _plan(context, machines, profiles, only, ())
    bounds, _ = sweep.leased_limits(plan, None, context.fanout)
    made = manager(None, backend(context.inventory, Options()), context.who)
    with leased(plan, context.transport(), bounds, context.folder, made, why=why) as granted:
        reports, found = _stored(context, plan, granted.transport, granted.bounds, granted.lease)
        return reports, found, {**granted.lease.refused, **granted.lease.stood()}


def _plan(
    context: StepContext, machines: Sequence[Machine], profiles: tuple[str, ...], only: tuple[str, ...],
    skip: tuple[str, ...],
) -> sweep.SweepPlan:
    return sweep.SweepPlan([machine.node for machine in machines], context.ruleset.select(only, skip),
                           context.default_sku, "muster bringup", only, skip, profiles)


def _stored(
    context: StepContext, plan: sweep.SweepPlan, transport: Transport, bounds: Limits,
    lease: Lease | None, each: Callable[[Recording], None] = lambda recording: None,
) -> tuple[tuple[NodeReport, ...], Mapping[str, NodeReadings]]:
    found: dict[str, NodeReadings] = {}

    def keep(recording: Recording) -> None:
        found[recording.node] = readings(recording)
        each(recording)

    began = time.time()
    outcome = sweep.live(
        plan, transport, bounds, progress(len(plan.nodes), "snapshot", quiet=True),
        snapshots=KeptSnapshots(context.folder), lease=lease, on_recording=keep,
        repairs=words_in(context.folder))
    with opened(context.folder, make=True) as store:
        known = record(
            store,
            SweepRecord(began, time.time(), outcome.partial, plan.source, context.ruleset.digest,
                        plan.profiles, bool(plan.only or plan.skip),
                        judged_by(plan.ruleset, VERSION), who()),
            outcome.assessed.reports, found)
    return known, found


def judged(report: NodeReport, known: NodeReadings | None) -> Observation:
    """What a sweep says of one machine: FAIL is trouble; what was not measured is checked again."""
    if not report.results:
        return Observation(StepState.UNKNOWN, clean(f"{report.stage or 'not checked'}: {report.reason}", 300))
    counted = [one for one in report.results if one.severity is not Severity.INFO]
    wrong = worst_first(counted)
    failed = [one for one in wrong if one.status is Status.FAIL]
    unknown = [one for one in wrong if one.status is Status.UNKNOWN]
    if failed:
        troubles = [trouble for one in failed for trouble in _troubles(one, known)]
        names = ", ".join(one.rule for one in failed[:4])
        return Observation(StepState.TROUBLE, f"{many(len(failed), 'rule')} failed: {names}",
                           troubles=tuple(troubles[:_MOST]))
    if unknown:
        message = "; ".join(f"{one.rule}: {one.reason}" for one in unknown[:3])
        return Observation(
            StepState.UNKNOWN, clean(f"{many(len(unknown), 'rule')} not measured: {message}", 300))
    if not any(one.status is Status.PASS for one in counted):
        return Observation(StepState.UNKNOWN, "no rule was judged")
    return Observation(
        StepState.SO, f"{many(sum(one.status is Status.PASS for one in counted), 'rule')} passed")


def _troubles(result: Result, known: NodeReadings | None) -> Iterator[Trouble]:
    findings = result.findings or (Finding(result.reason, "", "node"),)
    for finding in findings:
        part, slot, serial = _part(finding.subject, known)
        expected = f", expected {clean(str(finding.expected), 120)}" if str(finding.expected) else ""
        yield Trouble(
            f"{result.rule}: {clean(finding.subject, 80)}: {clean(str(finding.observed), 160)}{expected}",
            finding.owner or result.owner or Owner.OPERATOR, clean(finding.remedy or result.remedy, 300),
            part, slot, serial)


def _part(subject: str, known: NodeReadings | None) -> tuple[str, str, str]:
    """The component that a finding names, by what the look read of components: kind, slot, serial."""
    for one in known.components if known is not None else ():
        if subject in (one.name, one.slot) or subject.startswith(f"{one.name} "):
            return PARTS.get(one.kind, one.kind), one.slot, one.serial
    return "", clean(subject, 60), ""
