"""One sweep: takes recordings from nodes (live) or from a folder (replay) and assesses them."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from healthcheck.collector import program, reply
from healthcheck.collector.reply import within
from healthcheck.facts import gpusigns
from healthcheck.facts.carried_log import with_earlier, with_statements
from healthcheck.judge.gpuless import GpuHistory
from healthcheck.judge.samplejudge import FleetSample
from healthcheck.kernellog.carried import RepairStatement
from healthcheck.model.lease import Lease
from healthcheck.model.probes import Effect, Probe, ProbeSet
from healthcheck.model.progress import Progress
from healthcheck.model.recording import Recording
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.sweep import saved, workers
from healthcheck.sweep.agents import Agents
from healthcheck.sweep.assess import Assessed, Assessment
from healthcheck.sweep.snapshots import KeptSnapshots
from inventory.errors import UsageError
from inventory.model import Node
from inventory.text import short
from inventory.times import millisecond
from inventory.transport.base import RETURN_S, Failure, Limits, Transport
from inventory.transport.deadline import bounded, second_tries

_PROGRAM_S = 45.0      # for the collector, unless limits say otherwise
_NO_REPAIRS: Mapping[str, Sequence[RepairStatement]] = MappingProxyType({})


@dataclass(frozen=True)
class SweepResult:
    """A finished or interrupted sweep. `troubles` say, a line each, what could not be kept or saved;
    `remarks` what else a person should know of it."""

    assessed: Assessed
    started: str
    finished: str
    seconds: float
    partial: bool
    troubles: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class SweepPlan:
    """What to sweep: nodes, selected rules, the SKU for nodes that name none, where the nodes are from, and
    the occasion.

    `profiles` are those of the occasion, beside each node's own. `samples` are the cohorts, by SKU, of which
    nodes were left out. `gpu_history` is there where nodes without SKU may be taken for machines without
    GPUs.
    """

    nodes: Sequence[Node]
    ruleset: Ruleset
    default_sku: str | None = None
    source: str = "the command line"
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    samples: Mapping[str, FleetSample] = field(default_factory=dict)
    gpu_history: GpuHistory | None = None


def limits(timeout_s: float | None, fanout: int, nodes: Sequence[Node] = ()) -> Limits:
    """The transport's limits for a sweep of these nodes: its deadline is `timeout_s`, or else what they need
    (`inventory.transport.deadline`)."""
    base = Limits(fanout=fanout, program_s=_PROGRAM_S + RETURN_S)
    if timeout_s is not None:
        base = replace(base, node_s=min(base.node_s, timeout_s), connect_s=min(base.connect_s, timeout_s),
                       program_s=min(base.work_s, timeout_s))
    return bounded(nodes, base, timeout_s) if nodes or timeout_s is not None else base


def leased_limits(plan: SweepPlan, timeout_s: float | None, fanout: int) -> tuple[Limits, tuple[Probe, ...]]:
    """The limits of a sweep under a lease, and the disruptive probes that it sends; a node runs them one
    after another.

    `timeout_s` bounds the sweep; without it the probes' own limits do.
    """
    probes = tuple(probe for probe in _probe_set(plan, _PROGRAM_S, Lease(frozenset(), "")).probes
                   if probe.effect is Effect.DISRUPTIVE)
    base = replace(limits(timeout_s, fanout), program_s=None)
    node = Limits.node_s + sum(probe.seconds for probe in probes)
    if timeout_s is not None:
        return replace(base, node_s=min(node, timeout_s)), probes
    return bounded(plan.nodes, replace(base, node_s=node), None), probes


def _probe_set(plan: SweepPlan, seconds: float, lease: Lease | None) -> ProbeSet:
    wanted = plan.gpu_history is not None and plan.default_sku is None and any(
        node.sku is None for node in plan.nodes)
    return plan.ruleset.probe_set(seconds, gpusigns.PROBES if wanted else (),
                                  profiles={node.profile for node in plan.nodes}, lease=lease,
                                  occasion=plan.profiles)


def live(plan: SweepPlan, transport: Transport, bounds: Limits, progress: Progress, *,
         snapshots: KeptSnapshots | None = None, saver: saved.Saver | None = None, lease: Lease | None = None,
         on_recording: Callable[[Recording], None] | None = None, agents: Agents | None = None,
         repairs: Mapping[str, Sequence[RepairStatement]] = _NO_REPAIRS) -> SweepResult:
    """Sweeps the nodes: one connection, one channel, one program each. Ctrl-C ends it cleanly with what it
    has.

    Nothing disruptive is sent without a lease, or to a node that the lease refuses; raises UsageError where
    the lease does not name a node. `on_recording` gets the recording of each node that was reached. With
    `agents` it takes what each node's agent recorded. `repairs` are by node what people reported as repaired.
    """
    if lease is not None and (lacking := lease.lacks(node.name for node in plan.nodes)):
        raise UsageError(f"the lease of {short(lease.holder)} does not cover {short(', '.join(lacking))}")
    if snapshots is not None:
        snapshots.prepare()
    started = time.time()
    troubles: dict[str, str] = {}
    second: dict[str, Failure] = {}
    states = {node.name: node.lifecycle.state for node in plan.nodes}
    # Under a lease no job waits, and a diagnostic may use the node's whole time.
    seconds = max(1.0, bounds.node_s - RETURN_S if lease is not None
                  else min(_PROGRAM_S, bounds.work_s - RETURN_S))
    probe_set = _probe_set(plan, seconds, lease)
    sent = probe_set if agents is None else agents.probes
    assessment = Assessment(plan.nodes, plan.ruleset, plan.default_sku,
                            {probe.id for probe in probe_set.probes}, plan.profiles, samples=plan.samples,
                            gpu_history=plan.gpu_history)
    partial = False
    try:
        withheld = lease.refused if lease is not None else {}
        refused = [node for node in plan.nodes if node.name in withheld]
        granted = [node for node in plan.nodes if node.name not in withheld]
        passive = _probe_set(plan, _PROGRAM_S, None)
        short_bounds = limits(None, bounds.fanout, refused)
        short_bounds = replace(short_bounds, sweep_s=min(bounds.sweep_s, short_bounds.sweep_s))
        made = program.build(sent, nvml=agents is None)
        if lease is None:
            made = replace(made, words=_own_seconds(plan.nodes, bounds, seconds))
        replies = transport.run(granted, made, bounds) if granted else iter(())
        others = transport.run(refused, program.build(passive), short_bounds) if refused else iter(())
        with _closing(replies), _closing(others), progress:
            for answer in chain(others, replies):
                probes = passive if answer.node in withheld else sent
                recording = within(reply.decode(answer, limit=bounds.reply_bytes), probes)
                previous = snapshots.read(recording.node) if snapshots and recording.host else None
                if agents is not None:      # their own snapshots hand on what they saw
                    recording, previous = agents.snapshots(recording, probe_set)
                else:
                    recording = with_earlier(recording, previous)
                recording = with_statements(recording, repairs.get(recording.node, ()))
                assessment.add(recording, previous)
                if on_recording is not None and recording.host is not None:
                    on_recording(recording)
                try:
                    if saver is not None:
                        saver.add(recording, previous if assessment.uses_previous else None)
                except OSError as error:
                    saver = None
                    troubles["save"] = (f"--save: {recording.node} could not be written, so nothing is "
                                        f"saved: {error.strerror}")
                try:
                    if snapshots is not None:
                        snapshots.write(recording, previous, states[recording.node],
                                        assessment.unusual(recording.node), assessment.rests(recording.node))
                except OSError as error:
                    troubles["snapshots"] = (
                        f"the newest snapshot of {recording.node} could not be kept in the state folder: "
                        f"{error.filename}: {error.strerror}")
                if answer.first is not None and answer.failure is None:
                    second[answer.node] = answer.first
                progress.done(recording.node, recording.host is not None)
    except KeyboardInterrupt:
        partial = True
    withheld = {**lease.refused, **lease.stood()} if lease is not None else {}
    ended = time.time()
    begun, finished = millisecond(started), millisecond(ended)
    if saver is not None:
        try:
            saver.finish(saved.SweepManifest(begun, finished, partial, plan.source, tuple(plan.nodes),
                                             plan.default_sku, plan.only, plan.skip, plan.ruleset.digest,
                                             probe_set.to_json(), plan.profiles, withheld, plan.gpu_history))
        except OSError as error:
            troubles["save"] = (
                f"--save: the manifest could not be written, so nothing is saved: {error.strerror}")
    seconds = _seconds(begun, finished)
    assessed = assessment.finish(_UNFINISHED, withheld)
    return SweepResult(assessed, begun, finished, seconds, partial, tuple(troubles.values()),
                       (*_of_head(assessed), *second_tries(second)))


def judged_again(plan: SweepPlan, outcome: SweepResult, kept: saved.MemorySaver) -> SweepResult:
    """A finished sweep as judged by this plan, which has other SKUs or rules than its own; no node is
    asked."""
    sent = saved.sent_probes(kept.manifest) if kept.manifest is not None else ()
    assessment = Assessment(plan.nodes, plan.ruleset, plan.default_sku, sent, plan.profiles,
                            gpu_history=plan.gpu_history)
    for recording, previous in kept.snapshots:
        assessment.add(recording, previous)
    return replace(outcome, assessed=assessment.finish(_UNFINISHED))


def _of_head(assessed: Assessed) -> tuple[str, ...]:
    return (assessed.head.words(),) if assessed.head is not None else ()


def _own_seconds(nodes: Sequence[Node], bounds: Limits, seconds: float) -> dict[str, tuple[str, ...]]:
    """The collector's argument for nodes that give it another time than the probe set's."""
    found: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        own = max(1.0, min(bounds.of(node).work_s, bounds.sweep_s) - RETURN_S)
        if node.limits.over(node.default_limits).node is not None and own != seconds:
            found[node.name] = (f"seconds={own:g}",)
    return found


_UNFINISHED = "interrupted before this node had answered"


@contextmanager
def _closing(replies: Iterator[object]) -> Iterator[None]:
    """Closes a generator at the end, which drops its connections and so ends the collectors on the nodes."""
    try:
        yield
    finally:
        close = getattr(replies, "close", None)
        if close is not None:
            close()


def replay(folder: Path, ruleset: Ruleset, only: tuple[str, ...], skip: tuple[str, ...], sku: str | None,
           profiles: tuple[str, ...] = (), jobs: int = 1) -> tuple[SweepPlan, SweepResult]:
    """Judges a saved sweep again, in `jobs` processes, with the saved selection, SKU and profiles unless
    others are given.

    It writes nothing.
    """
    manifest = saved.load_manifest(folder)
    only, skip = (only, skip) if only or skip else (manifest.only, manifest.skip)
    default = sku or manifest.default_sku
    for node in manifest.nodes:
        if (node.sku or default) not in (None, *ruleset.skus):
            raise UsageError(f"--replay {folder}: node {node.name} is of SKU {short(node.sku or default)}, "
                             "which no rules folder defines")
        if node.profile not in (None, *ruleset.profiles):
            raise UsageError(f"--replay {folder}: node {node.name} is of profile {short(node.profile)}, "
                             "which no rules folder defines")
    try:
        ruleset.named(*manifest.profiles)
    except UsageError as error:
        raise UsageError(f"--replay {folder}: {error}") from None
    plan = SweepPlan(manifest.nodes, ruleset.select(only, skip), default, manifest.source, only, skip,
                     profiles or manifest.profiles, gpu_history=manifest.gpu_history)
    assessment = Assessment(plan.nodes, plan.ruleset, default, saved.sent_probes(manifest), plan.profiles,
                            gpu_history=plan.gpu_history)
    names = list(saved.recorded_nodes(folder, manifest))
    for judged in workers.distribute(lambda node: assessment.judged(*saved.snapshots(folder, node)), names,
                                     jobs):
        if isinstance(judged, workers.WorkerDied):
            judged = assessment.failed(judged.item, f"its process ended {judged.how}")
        assessment.add_judged(judged)
    seconds = _seconds(manifest.started, manifest.finished)
    assessed = assessment.finish(_UNFINISHED, manifest.withheld)
    return plan, SweepResult(assessed, manifest.started, manifest.finished, seconds, manifest.partial,
                             remarks=_of_head(assessed))


def _seconds(started: str, finished: str) -> float:
    """From the documents' own times, so that a replay shows the same page as the live sweep."""
    try:
        begun, ended = (dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
                        for text in (started, finished))
        return (ended - begun).total_seconds()
    except (ValueError, TypeError):     # the second: one of them names no zone
        return 0.0
