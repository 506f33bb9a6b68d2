"""`muster check`: sweep nodes and say what is wrong."""

from __future__ import annotations

import contextlib
import datetime as dt
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing, formerids, fromprometheus
from healthcheck.cli.options import INVENTORY, RULES, TIMEOUT, check_sku
from healthcheck.cli.pieces import write_pieces
from healthcheck.cli.via import SSH, VIA, refuse_with, remote_transport, ways
from healthcheck.model.lease import NEEDED
from healthcheck.model.outcome import exit_code, unknowns
from healthcheck.report.progress import progress
from healthcheck.sweep.workers import cores
from inventory.cli.chosen import who
from inventory.cli.formatted import formats
from inventory.cli.limits import FANOUT, LIMIT, given
from inventory.cli.span import span
from inventory.discover import from_names
from inventory.discover import from_slurm as nodes_of_slurm
from inventory.errors import StoreError, StoreMoved, UsageError
from inventory.load import load_inventory
from inventory.locate import find_inventory, state_dir
from inventory.model import Inventory, Node, Privilege
from inventory.nodeset import NAME, fold
from inventory.select import select
from inventory.transport.base import Transport
from inventory.transport.deadline import announced

if TYPE_CHECKING:
    from healthcheck.cli.fromprometheus import FromPrometheus
    from healthcheck.model.recording import Recording
    from healthcheck.ruleset.ruleset import Ruleset
    from healthcheck.store.readings import NodeReadings
    from healthcheck.sweep.agents import Agents
    from healthcheck.sweep.leases import LeaseSource
    from healthcheck.sweep.saved import Saver
    from healthcheck.sweep.sweep import SweepPlan, SweepResult
    from inventory.transport.base import Limits



@click.command()
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@INVENTORY
@click.option("--local", is_flag=True, help="Check this machine, without SSH.")
@click.option("--from-slurm", is_flag=True, help="Take the nodes from sinfo.")
@click.option("--replay", metavar="DIR",
              help="Judge a sweep saved with --save, or a file of `muster record`; touches no node.")
@click.option("--sku", metavar="NAME", shell_complete=completing.sku,
              help="SKU of nodes without one, such as hgx-h100 or cpu-only.")
@click.option("--profile", metavar="NAME", multiple=True, shell_complete=completing.profile,
              help="A profile such as bringup, timer or gate, besides each node's own; repeatable.")
@click.option("--only", metavar="GLOB", multiple=True, shell_complete=completing.rule,
              help="Judge only rules whose id matches; repeatable.")
@click.option("--skip", metavar="GLOB", multiple=True, shell_complete=completing.rule,
              help="Skip rules whose id matches; repeatable.")
@RULES
@formats("jsonl")
@click.option("--all", "everything", is_flag=True,
              help="Also print INFO findings, sources, skipped rules and gaps; every node of a finding.")
@click.option("--brief", is_flag=True, help="Print one line a node.")
@click.option("--full", is_flag=True,
              help="With json or jsonl: list every result at its node, passed and skipped ones too.")
@click.option("--save", metavar="DIR", help="Keep the recordings in a new folder, for --replay.")
@click.option("--store", is_flag=True,
              help="Keep the results in the state folder's store; see muster history.")
@click.option("--state", metavar="DIR",
              help="Where each node's newest snapshot is kept. Default: MUSTER_STATE, XDG, /var/lib/muster.")
@TIMEOUT
@LIMIT
@FANOUT
@VIA
@click.option("--every", metavar="SPAN", callback=span(1, 7 * 86400),
              help="Sweep repeatedly (30s, 5m) and keep the connections. A node whose login hung is left "
                   "alone for a minute or an interval, then twice as long each time, up to 1h.")
@click.option("--from-agent", is_flag=True, help="Judge what the nodes' agents recorded; run no probes.")
@click.option("--from-prometheus", metavar="URL",
              help="Leave out nodes that are healthy by their agents' metrics; implies --store. See muster "
                   "help from-prometheus.")
@click.option("--prometheus-auth", metavar="FILE",
              help="USER:PASSWORD for Prometheus, readable for you alone. [MUSTER_PROMETHEUS_AUTH]")
@click.option("--max-age", metavar="SPAN", callback=span(1, 7 * 86400),
              help="With --from-agent, --from-prometheus: the greatest age. [two periods]")
@click.option("--disruptive", is_flag=True,
              help="Also run disruptive probes, on nodes that are leased and proven idle.")
@click.option("--lease", type=click.Choice(("reservation", "cordon")),
              help="With --disruptive: kind of lease. [reservation in Slurm, else cordon]")
@click.option("--jobs", metavar="N", type=click.IntRange(1, 1024),
              help="With --replay: number of processes. [the cores]")
@click.option("--count", metavar="N", type=click.IntRange(1), help="With --every: end after N sweeps.")
def check(
    nodes: str | None, inventory: str | None, local: bool, from_slurm: bool, replay: str | None,
    sku: str | None, profile: tuple[str, ...], only: tuple[str, ...], skip: tuple[str, ...],
    rules: str | None, fmt: str, save: str | None, store: bool, state: str | None, timeout: float | None,
    fanout: int, every: float | None, count: int | None, disruptive: bool, lease: str | None,
    from_agent: bool, max_age: float | None, jobs: int | None, full: bool, from_prometheus: str | None,
    prometheus_auth: str | None, via: str, everything: bool, brief: bool,
) -> int:
    """Sweep nodes over SSH, one exec each, and report what is wrong, with evidence and remedy.

    NODES is a node set: gpu[001-064], @train, 'gpu[001-064]!gpu007'. Without it, all nodes of the inventory.
    Without an inventory, NODES are host names for ~/.ssh/config and the resolver; then all are expected to be
    like the majority.

    \b
    muster check 'gpu[001-064]'
    muster check @train --only 'gpu-*' --format json | jq .summary
    muster check --format json | jq -r '.nodes[] | select(.counts.unknown > 0) | .node'
    muster check --save monday; muster check --replay monday
    muster check --store; muster history --still what is wrong, and since when
    muster check gpu007 --disruptive --only dcgm-diag-medium
    muster check --from-agent                    judge the agents' recordings
    muster check --every 30s                     a page on each change, else one line; Ctrl-C ends it

    Exit: 0 fine, 1 a warning or critical FAIL, 2 usage, 3 something unknown, 130 interrupted. Only nodes in
    service count. A profile may allow some UNKNOWN: they are shown but do not count. `muster rules list
    --profile gate` shows its rules.
    """
    from healthcheck.ruleset.ruleset import ruleset_of
    from healthcheck.sweep import sweep
    from healthcheck.sweep.agents import Agents
    from healthcheck.sweep.gpuhistory import known_of_gpus
    from healthcheck.sweep.saved import load_manifest

    sources = [name for name, used in (("--local", local), ("--replay", replay), ("--from-slurm", from_slurm))
               if used]
    if len(sources) > 1:
        raise UsageError(f"{' and '.join(sources)} exclude each other")
    if full and fmt == "table":
        raise UsageError("--full goes with --format json or jsonl")
    if (everything or brief) and fmt != "table":
        raise UsageError("--all and --brief are for the table; --format json --full lists every result")
    if everything and brief:
        raise UsageError("--all prints more and --brief prints less; give one of them")
    refuse_with(via, local=local, replay=replay is not None, disruptive=disruptive)
    ruleset = ruleset_of(rules)
    check_sku(sku, ruleset)
    ruleset.named(*profile)
    if replay is not None:
        for name, value in (("NODES", nodes), ("--inventory", inventory), ("--save", save),
                            ("--timeout", timeout), ("--limit", given() or None), ("--every", every),
                            ("--store", store or None),
                            ("--disruptive", disruptive or None), ("--from-agent", from_agent or None),
                            ("--max-age", max_age), ("--from-prometheus", from_prometheus)):
            if value is not None:
                raise UsageError(f"{name} does not go with --replay")
        plan, outcome = sweep.replay(Path(replay), ruleset, only, skip, sku, profile, jobs or cores())
        if load_manifest(Path(replay)).rules_digest not in ("", ruleset.digest):
            click.echo(f"muster: --replay {replay}: the rules have changed since it was saved; judged by the "
                       "current ones", err=True)
    else:
        formerids.report((*only, *skip), ruleset.former)

        def planned() -> SweepPlan:
            chosen = choose(nodes, inventory, local, from_slurm, ruleset, sku)
            if not disruptive:
                ruleset.refuse_disruptive(only)
            return sweep.SweepPlan(chosen, ruleset.select(only, skip), sku, chosen.source, only, skip,
                                   profile, gpu_history=None if local or sku is not None else known_of_gpus(
                                       chosen.inventory, ruleset.skus, state_dir(state)))

        if jobs is not None:
            raise UsageError(
                "--jobs goes with --replay; a sweep judges each node while it waits for the others")
        if count is not None and every is None:
            raise UsageError("--count goes with --every")
        if disruptive and every is not None:
            raise UsageError("--disruptive takes nodes from jobs; it does not go with --every")
        if lease is not None and not disruptive:
            raise UsageError("--lease goes with --disruptive")
        if from_agent and disruptive:
            raise UsageError("--from-agent runs no probes, but --disruptive does; use one of them")
        if max_age is not None and not from_agent and from_prometheus is None:
            raise UsageError("--max-age goes with --from-agent and --from-prometheus")
        if prometheus_auth is not None and from_prometheus is None:
            raise UsageError("--prometheus-auth goes with --from-prometheus")
        if (from_agent or from_prometheus is not None) and not profile and "timer" in ruleset.profiles:
            profile = ("timer",)        # the profile of an agent
        chooser = None
        if from_prometheus is not None:
            fromprometheus.refuse({"--local": local, "--from-agent": from_agent, "--disruptive": disruptive,
                                   "--only": only, "--skip": skip, "--save": save})
            if len(profile) != 1:
                raise UsageError("--from-prometheus takes one --profile: an agent judges by one")
            chooser = fromprometheus.FromPrometheus(from_prometheus, prometheus_auth, max_age,
                                                    timeout if timeout is not None else every)
            store = True
        leases = _leases(lease, inventory, state, timeout, fanout) if disruptive else None
        sweeper = LiveSweeps(local, timeout, fanout, save, state, every,
                             quiet=fmt != "table" and not sys.stderr.isatty(), store=store, leases=leases,
                             agents=Agents(max_age) if from_agent else None, chooser=chooser, via=via)
        if every is not None:
            from healthcheck.cli.every import rounds

            return rounds(planned, sweeper, fmt, every, count, full, everything=everything, brief=brief)
        plan = planned()
        outcome = sweeper(plan)
    # A closed output (`| head`) does not change the result; rich raises SystemExit then.
    with contextlib.suppress(BrokenPipeError, SystemExit):
        show(plan, outcome, fmt, full, every=everything, brief=brief)
    for line in (*outcome.remarks, *outcome.troubles):
        click.echo(f"muster: {line}", err=True)
    if not any(node.in_service for node in plan.nodes):
        click.echo("muster: none of these nodes is in lifecycle `service`, so the exit code is 0", err=True)
    if replay is None:
        _warn_overdue(plan.nodes)
    if outcome.partial and replay is None:
        return 130
    return (2 if any(trouble.startswith(("--save", "--store")) for trouble in outcome.troubles)
            else ended(plan, outcome))


def ended(plan: SweepPlan, outcome: SweepResult) -> int:
    """The exit code with the profile's policy on UNKNOWN; one line reports what that allowed."""
    allows = partial(plan.ruleset.allows, profiles=plan.profiles)
    passed = {report.node: sum(map(allows, unknowns(report))) for report in outcome.assessed.reports
              if report.in_service}
    if number := sum(passed.values()):
        nodes = sum(map(bool, passed.values()))
        where = "1 node" if nodes == 1 else f"{nodes} nodes"
        click.echo(f"muster: {number} UNKNOWN on {where} allowed by profile {', '.join(plan.profiles)}: "
                   "shown, but not counted in the exit code", err=True)
    return exit_code(outcome.assessed.reports, allows)


def _warn_overdue(nodes: Sequence[Node]) -> None:
    """Reports overdue nodes, which do not count and would go unnoticed."""
    today = dt.date.today()
    late = [node.name for node in nodes if node.lifecycle.until is not None and node.lifecycle.until < today]
    if late:
        click.echo(f"muster: the end date of their lifecycle has passed: {fold(late)}; "
                   "see: muster inventory lifecycle", err=True)


class _Chosen(tuple[Node, ...]):
    """The nodes to sweep, a phrase for their source, and all nodes that there are, of which they are some."""

    source: str
    inventory: tuple[Node, ...]


def _chosen(
    nodes: Sequence[Node], source: str, ruleset: Ruleset, sku: str | None, among: Iterable[Node] = (),
) -> _Chosen:
    from healthcheck.ruleset.skulimits import limited

    chosen = _Chosen(limited(nodes, ruleset.skus, sku, given()))
    chosen.source = source
    chosen.inventory = tuple(among) or tuple(chosen)
    if not chosen:
        raise UsageError(f"no node to check in {source}")
    return chosen


def choose(
    nodes: str | None, option: str | None, local: bool, from_slurm: bool, ruleset: Ruleset,
    sku: str | None = None,
) -> _Chosen:
    """The nodes that a command's options name, in order, with the limits that hold for them; raises
    UsageError if none. `sku` is that of nodes without one."""
    path = find_inventory(option)
    found: Inventory | None = (load_inventory(path, ruleset.skus, ruleset.profiles) if path is not None
                               else None)
    if local:
        if nodes is not None:
            raise UsageError("NODES does not go with --local")
        name = socket.gethostname().partition(".")[0]
        if not NAME.fullmatch(name):    # "(none)" on a machine without a name
            name = "localhost"
        known = found.nodes.get(name) if found is not None else None
        # A file must not decide which program runs here, and as whom.
        return _chosen([replace(known or Node(name=name), python=sys.executable,
                                privilege=Privilege.UNPRIVILEGED)], "this machine", ruleset, sku)
    if from_slurm:
        cluster = nodes_of_slurm()
        return _chosen(select(cluster, nodes), cluster.source, ruleset, sku, cluster)
    if found is not None:
        return _chosen(select(found, nodes), found.source, ruleset, sku, found)
    if nodes is None:
        raise UsageError("no inventory found and no node named: muster check 'gpu[001-064]', or --inventory "
                         "FILE, or --local")
    names = from_names(nodes)
    return _chosen(list(names), names.source, ruleset, sku)


def _leases(
    kind: str | None, inventory: str | None, state: str | None, timeout: float | None, fanout: int,
) -> LeaseSource:
    """Leases are loaded by name, as commands are, because nothing here may import upward."""
    made: LeaseSource = import_module("provisioning.lease.check").SweepLeases(
        kind, inventory, state_dir(state), timeout, fanout)
    return made


class LiveSweeps:
    """Sweeps plans over one transport, which keeps connections between sweeps that
    are `every` seconds apart."""

    def __init__(
        self, local: bool, timeout: float | None, fanout: int, save: str | None, state: str | None,
        every: float | None, *, quiet: bool, store: bool = False, leases: LeaseSource | None = None,
        agents: Agents | None = None, chooser: FromPrometheus | None = None, via: str = SSH,
    ) -> None:
        from healthcheck.sweep.snapshots import KeptSnapshots

        if save is not None and every is not None:
            raise UsageError("--save keeps one sweep, but --every makes many; use one of them")
        self._timeout, self._fanout = timeout, fanout
        self._announced: str | None = None if local else ""     # nothing logs in on this machine
        self._quiet = quiet
        self._save = save
        self._leases = leases
        self._agents = agents
        self._chooser = chooser
        self._looks = KeptSnapshots(state_dir(state)) if agents is None else None   # an agent keeps its own
        self._folder = state_dir(state)
        self._store = self._folder if store else None
        self._transport: Transport
        if local:
            from inventory.transport.local import LocalTransport

            self._transport = LocalTransport()
        else:
            self._transport = remote_transport(via, every)

    def __call__(self, plan: SweepPlan) -> SweepResult:
        """One sweep."""
        from healthcheck.sweep.saved import Saver

        saver = Saver(Path(self._save)) if self._save is not None else None
        if self._store is None:
            return self._sweep(plan, saver, None)
        from healthcheck.store.file import opened
        from healthcheck.store.readings import readings

        found: dict[str, NodeReadings] = {}
        chooser = self._chooser
        try:
            with opened(self._store, make=True):
                pass
        except StoreMoved:
            raise
        except StoreError as error:     # before any node is asked: it may take a while
            click.echo(f"muster: --store: {error}; the sweep goes on without the store", err=True)
            chooser = None              # it chooses by what the store knows
        def read(recording: Recording) -> None:
            found[recording.node] = readings(recording)

        if chooser is None:
            outcome = self._sweep(plan, saver, read)
        else:
            choice = chooser.choose(plan, self._store)
            outcome = fromprometheus.with_left_out(
                plan, choice, self._sweep(fromprometheus.to_visit(plan, choice), saver, read))
        return stored(self._store, plan, outcome, found)

    def _sweep(
        self, plan: SweepPlan, saver: Saver | None, on_recording: Callable[[Recording], None] | None,
    ) -> SweepResult:
        from healthcheck.store.repairs import words_in
        from healthcheck.sweep import sweep

        words = words_in(self._folder, {node.name for node in plan.nodes})
        limits = sweep.limits(self._timeout, self._fanout, plan.nodes)
        if self._leases is None:
            self._announce(plan, limits)
        bar = progress(len(plan.nodes), "check", quiet=self._quiet)
        if self._leases is None:
            outcome = sweep.live(plan, self._transport, limits, bar, snapshots=self._looks, saver=saver,
                                 on_recording=on_recording, agents=self._agents, repairs=words)
            return replace(outcome, remarks=(*outcome.remarks, *ways(self._transport)))
        with self._leases(plan, self._transport) as granted:
            return sweep.live(plan, granted.transport, granted.bounds, bar, snapshots=self._looks,
                              saver=saver, on_recording=on_recording, lease=granted.lease, repairs=words)

    def _announce(self, plan: SweepPlan, limits: Limits) -> None:
        """Says how wide the sweep is and when it ends, once for equal sweeps."""
        line = announced(len(plan.nodes), limits, self._timeout)
        if not self._quiet and self._announced is not None and line != self._announced:
            self._announced = line
            click.echo(f"muster: {line}", err=True)

    def close(self) -> None:
        """Ends the connections that were kept."""
        close = getattr(self._transport, "close", None)
        if close is not None:
            close()


def stored(
    folder: Path, plan: SweepPlan, outcome: SweepResult, found: Mapping[str, NodeReadings],
) -> SweepResult:
    """Stores the outcome and returns it as the store knows it, or with a line on why it was not stored: then
    it waits in a file until the store can be opened."""
    from healthcheck.store.file import opened
    from healthcheck.store.sweeps import SweepRecord, record
    from healthcheck.store.waiting import keep_sweep
    from healthcheck.triage.judgedby import judged_by
    from inventory.release import VERSION

    started, finished = (dt.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
                         for text in (outcome.started, outcome.finished))
    sweep = SweepRecord(started, finished, outcome.partial, plan.source, plan.ruleset.digest,
                        tuple(plan.profiles), bool(plan.only or plan.skip),
                        judged_by(plan.ruleset, VERSION), who())
    try:
        with opened(folder, make=True) as held:
            known = record(held, sweep, outcome.assessed.reports, found)
    except StoreMoved as error:
        return replace(outcome, troubles=(*outcome.troubles, f"--store: this sweep was not stored: {error}"))
    except StoreError as error:
        try:
            kept = keep_sweep(folder, sweep, outcome.assessed.reports, found)
        except StoreError as both:
            return replace(outcome, troubles=(
                *outcome.troubles, f"--store: this sweep was not stored: {error}; {both}"))
        return replace(outcome, remarks=(*outcome.remarks, (
            f"--store: this sweep is not in the store: {error}; it waits in {kept}, and is taken in when the "
            "store can be opened")))
    return replace(outcome, assessed=replace(outcome.assessed, reports=known))


def show(
    plan: SweepPlan, outcome: SweepResult, fmt: str, full: bool = False, *, every: bool = False,
    brief: bool = False,
) -> None:
    """Prints the sweep on standard output in the given form; a document with every result if `full`. Of the
    table `every` prints all, and `brief` one line a node."""
    if fmt != "table":
        from healthcheck.report import document

        write = document.as_json if fmt == "json" else document.as_jsonl
        write_pieces(write(outcome.assessed.reports, started=outcome.started, finished=outcome.finished,
                           partial=outcome.partial, full=full))
        return
    from rich.console import Console

    from healthcheck.report import table

    console = Console(soft_wrap=True, highlight=False, markup=False, emoji=False)
    if brief:
        table.brief(console, outcome.assessed)
        return
    profiles = {node.profile for node in plan.nodes}
    started = {said.rule for report in outcome.assessed.reports for said in report.results
               if said.reason != NEEDED}
    judged = {rule.id: rule for profile in profiles for rule in plan.ruleset.under(profile, *plan.profiles)
              if not rule.left_out and not (rule.disruptive and rule.id not in started)}
    heading = table.Heading(plan.source, outcome.seconds, outcome.partial, len(judged),
                            _epoch(outcome.finished))
    table.render(console, outcome.assessed, judged, heading, fold, every=every)


def _epoch(text: str) -> float | None:
    """When the sweep ended; None where a saved sweep has no time there, or one far from ours."""
    try:
        found = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return found.timestamp() if found.tzinfo is not None and 2000 <= found.year < 9000 else None
