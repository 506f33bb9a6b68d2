"""Measures what stands: from a saved sweep or the store, and from stored burn-ins. Touches no node."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from healthcheck.baseline.approval import short_id
from healthcheck.baseline.gather import LearningNotes, digests_from_recording
from healthcheck.burnin.compare import versions_of
from healthcheck.burnin.document import Burnin, kept
from healthcheck.burnin.documentread import load
from healthcheck.burnin.model import Object
from healthcheck.burnin.published import Setting
from healthcheck.burnin.setting import measures
from healthcheck.burnin.stats import median
from healthcheck.change.model import FigureSeries, LogForm, LoggedForms, NodeStanding, Stood
from healthcheck.kernellog.model import Digest, KernelEventKind, KernelMessage, Phase
from healthcheck.model.outcome import NodeReport, Severity, Status
from healthcheck.model.recording import Recording
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.store import newest
from healthcheck.store.file import Store
from healthcheck.store.readings import readings
from healthcheck.store.telemetry import Telemetry
from healthcheck.sweep import saved, sweep
from inventory.errors import MusterError, UsageError
from inventory.text import clean

_STARTING = (Phase.KERNEL, Phase.INITRD, Phase.SERVICES)
# How many burn-ins are read: each may take seconds, and the noise between runs is known long before.
# Of a node's runs those count that had the versions of its newest one.
_MOST_RUNS, _MOST_READ = 8, 32
_MOST_TEMPLATE = 1000
# Of rules that could not be judged for a device that does not answer the store keeps only the number.
_UNANSWERED = "what-does-not-answer"
_NO_LOG = "the store keeps no kernel log; a saved sweep has it (muster check --save DIR, then --sweep DIR)"


def of_sweep(folder: Path, nodes: Collection[str], ruleset: Ruleset) -> Stood:
    """What a saved sweep shows of these nodes, judged by these rules. Raises UsageError."""
    try:
        manifest = saved.load_manifest(folder)
        _, outcome = sweep.replay(folder, ruleset, (), (), None)
    except UsageError as error:
        raise UsageError(str(error).replace("--replay", "--sweep", 1)) from None
    reports = {report.node: report for report in outcome.assessed.reports}
    skus = {node.name: node.sku or manifest.default_sku or "" for node in manifest.nodes}
    selected = "the sweep was of selected rules (--only, --skip)" if manifest.only or manifest.skip else ""
    standings: dict[str, NodeStanding] = {}
    forms: dict[str, LogForm] = {}
    wanted = set(nodes)
    for recording, _ in saved.recordings(folder, manifest):
        if recording.node in wanted and recording.node in reports:
            one = _of_report(reports[recording.node], recording, selected)
            if recording.host is not None:
                one = _with_log(one, recording, skus.get(recording.node, ""), forms)
            standings[recording.node] = one
    for name in sorted(wanted - standings.keys()):
        standings[name] = NodeStanding(0.0, missing="the saved sweep has no snapshot of it")
    return Stood(f"saved sweep {clean(folder, 200)} of {clean(manifest.started, 40)}", ruleset.digest,
                    standings, forms)


def of_store(store: Store, nodes: Collection[str]) -> Stood:
    """What the newest snapshots in the store show of these nodes. Raises StoreError."""
    standings = {name: NodeStanding(0.0, missing="the store has no snapshot of it") for name in sorted(nodes)}
    rules: set[str] = set()
    for name, time, digest, snapshot, counters in newest.rows(store):
        if name in standings:
            standings[name] = _of_newest(newest.decoded(name, time, digest, snapshot, counters))
            rules.add(digest)
    return Stood("the store's newest snapshots", ", ".join(sorted(rules)), standings)


def too_old(standing: Stood, now: float, most: float) -> Stood:
    """The same, where a snapshot that is older than that (in seconds) counts as none."""
    nodes = {name: one if one.missing or now - one.time <= most else
             NodeStanding(one.time, missing=f"its newest snapshot is {_days(now - one.time)} old")
             for name, one in standing.nodes.items()}
    return replace(standing, nodes=nodes)


def with_figures(
    standing: Stood, state: Path, *, since: float, until: float,
) -> tuple[Stood, list[str]]:
    """The same with the figures of burn-ins that began and ended between these times, the newest
    `_MOST_RUNS`; and a line for each burn-in that could not be read. Of those that a node had under other
    versions than its newest one none counts."""
    values: dict[tuple[str, str, tuple[str, ...]], list[float]] = defaultdict(list)
    runs: list[str] = []
    troubles: list[str] = []
    found: list[Burnin] = []
    for path in kept(state)[:_MOST_READ]:
        try:
            burnin = load(path)
        except MusterError as error:
            troubles.append(clean(error, 300))
            continue
        names = {place.node for place in burnin.burnt.places}
        if since <= burnin.began <= burnin.ended <= until and names & standing.nodes.keys():
            found.append(burnin)
    ran: dict[tuple[str, str], set[str]] = {}
    for burnin in sorted(found, key=lambda one: (one.ended, one.run), reverse=True):
        versions = versions_of(burnin)
        if len(runs) == _MOST_RUNS or any(ran.get(key, value) != value for key, value in versions.items()):
            continue
        ran.update(versions)
        runs.append(clean(burnin.run, 80))
        for key, value in _figures(burnin).items():
            if set(key[2]) <= standing.nodes.keys():
                values[key].append(value)
    series = tuple(FigureSeries(*key, tuple(reversed(each))) for key, each in sorted(values.items()))
    return replace(standing, figures=series, runs=tuple(reversed(runs))), troubles


def _of_report(report: NodeReport, recording: Recording, selected: str) -> NodeStanding:
    if report.stage is not None or not report.results:
        why = f"{report.stage}: {clean(report.reason, 200)}" if report.stage else "nothing was judged"
        return NodeStanding(recording.received, missing=clean(why, 240))
    shown = readings(recording).shown
    severe = [one for one in report.results if one.severity is not Severity.INFO]
    return NodeStanding(
        recording.received, frozenset(one.rule for one in severe if one.status is Status.FAIL),
        frozenset(one.rule for one in severe if one.status is Status.UNKNOWN), _versions(shown),
        shown.boot, missing=selected, unlogged="its kernel log was not read",
        skipped=frozenset(one.rule for one in severe if one.status is Status.SKIPPED),
        skips=sum(one.status is Status.SKIPPED for one in report.results))


def _of_newest(one: newest.Newest) -> NodeStanding:
    if one.stage is not None or not one.statuses.get(Status.PASS.value, 0) + len(one.not_passed):
        why = f"{one.stage or 'nothing was judged'}: {one.reason}"
        return NodeStanding(one.time, missing=clean(why, 240), unlogged=_NO_LOG)
    severe = [each for each in one.not_passed if each.severity != Severity.INFO.value]
    return NodeStanding(
        one.time, frozenset(each.rule for each in severe if each.status == Status.FAIL.value),
        frozenset([*(each.rule for each in severe if each.status == Status.UNKNOWN.value),
                   *([_UNANSWERED] if one.statuses.get(newest.EXPLAINED) else [])]),
        _versions(one.shown), one.shown.boot, unlogged=_NO_LOG,
        skips=one.statuses.get(Status.SKIPPED.value, 0))


def _versions(shown: Telemetry) -> Mapping[str, str]:
    named = {"driver": shown.driver, "kernel": shown.kernel, "firmware": newest.firmware(shown)}
    return {name: clean(value, 80) for name, value in named.items() if value}


def _with_log(one: NodeStanding, recording: Recording, sku: str, forms: dict[str, LogForm]) -> NodeStanding:
    notes = LearningNotes()
    for digest in digests_from_recording(recording, sku, notes):
        return replace(one, log=_logged(digest, recording.node not in notes.caveats, forms), unlogged="")
    return replace(one, unlogged=notes.left_out.get(recording.node, one.unlogged))


def _logged(digest: Digest, whole: bool, forms: dict[str, LogForm]) -> LoggedForms:
    ids, starting = set(), set()
    for message in digest.messages:
        key = short_id(message.template)
        ids.add(key)
        if message.phase in _STARTING:
            starting.add(key)
        known = forms.get(key)
        forms[key] = _form(message) if known is None else _worse(known, _form(message))
    return LoggedForms(frozenset(ids), frozenset(starting), whole)


def _form(message: KernelMessage) -> LogForm:
    priorities = [line.priority for line in message.lines if line.priority is not None]
    return LogForm(clean(message.template, _MOST_TEMPLATE), min(priorities) if priorities else None,
                   message.kind is not KernelEventKind.LINE)


def _worse(one: LogForm, other: LogForm) -> LogForm:
    known = [each.priority for each in (one, other) if each.priority is not None]
    return LogForm(one.template, min(known) if known else None, one.report or other.report)


def _figures(burnin: Burnin) -> dict[tuple[str, str, tuple[str, ...]], float]:
    """By figure, subject and nodes the median value of one run."""
    places = {place.node: place for place in burnin.burnt.places}
    found: dict[tuple[str, str, tuple[str, ...]], list[float]] = defaultdict(list)
    for one in measures(burnin.burnt.results, places, burnin.burnt.hardware):
        nodes = tuple(sorted(one.nodes))
        subject = f"{len(nodes)} nodes" if one.object is Object.UNEXPLAINED else one.name
        name = figure_name(replace(one.setting.learned_from, watts=0))
        found[clean(name, 300), clean(subject, 200), nodes].append(one.value)
    return {key: median(values) for key, values in found.items()}


def figure_name(setting: Setting) -> str:
    """A name that two settings share only if they are equal, but for the power limit."""
    plain: Iterable[tuple[str, object, object]] = (
        ("algo", setting.algo, ""), ("nics", setting.nics, 0), ("gbps", setting.gbps, 0),
        ("nvlink", setting.nvlink, True), ("backend", setting.backend, Setting.backend),
        ("mount", setting.mount, ""))
    more = [f"{name} {value}" for name, value, usual in plain if value != usual]
    return ", ".join([str(setting), *more])


def _days(seconds: float) -> str:
    span = dt.timedelta(seconds=max(0.0, seconds))
    return f"{span.days} d" if span.days else f"{span.seconds // 3600} h {span.seconds % 3600 // 60} min"
