"""`muster watch`: who slows a running job, since when and why; it does nothing to the job."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.check import choose
from healthcheck.cli.options import INVENTORY, RULES, STATE, TIMEOUT
from healthcheck.cli.via import VIA, remote_transport
from healthcheck.watch.hang import HangSources
from healthcheck.watch.judged import unjudged
from inventory.cli.formatted import formats
from inventory.cli.lazy import LazyCommand
from inventory.cli.limits import FANOUT, LIMIT
from inventory.cli.span import span
from inventory.errors import UsageError
from inventory.jobs import job as asked
from inventory.jobs import output_files
from inventory.locate import find_inventory, state_dir
from inventory.nodeset import fold
from inventory.times import ago

if TYPE_CHECKING:
    from healthcheck.cli.watchhang import HangAsker
    from healthcheck.cli.watchlogs import JobLogs
    from healthcheck.cli.watchnodes import NodeSampler
    from healthcheck.cli.watchpage import WatchView
    from healthcheck.cli.watchstore import WatchStore
    from healthcheck.watch.watcher import JobWatch
    from inventory.model import Node

# A log that no one has written to for so long is of a job that is over.
FINISHED_S = 600.0
_ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL",
          "DEADLINE", "PREEMPTED")
_HANG_S = 30.0          # between readings of what the logs say of a hang
_ASK_S = 60.0           # between questions to the scheduler whether the job goes on


PLACES = {
    "report": ("healthcheck.cli.watchreport:report", "A page on a job for its team: goodput, MFU, losses."),
}


@click.command(cls=LazyCommand, places=PLACES)
@click.argument("job", required=False, metavar="JOBID")
@click.option("--log", "logs", metavar="PATH", multiple=True,
              help="A folder or file with step times, such as the job's output; repeatable. Default: the "
                   "output that Slurm knows.")
@click.option("--nodes", metavar="NODES", shell_complete=completing.node_set,
              help="The job's nodes, for their measurements. Default: those that Slurm knows.")
@INVENTORY
@RULES
@formats()
@click.option("--replay", is_flag=True, help="Read what the logs hold, and end; asks no node.")
@click.option("--window", metavar="SPAN", default="10s", show_default=True, callback=span(0.1, 3600),
              help="How much of the job is judged at once.")
@click.option("--every", metavar="SPAN", default="5s", show_default=True, callback=span(0.1, 3600),
              help="How often the logs are read.")
@click.option("--sample", metavar="SPAN", default="60s", show_default=True, callback=span(1, 3600),
              help="How often the nodes are asked.")
@click.option("--store", "keep", is_flag=True,
              help="Keep what is found in the store, for triage, muster blame and the exporter.")
@STATE
@click.option("--from-agent", is_flag=True, help="Take what the nodes' agents recorded; run no probes.")
@click.option("--stacks", is_flag=True,
              help="In a hang, also read the stacks of the job's processes, with py-spy where it is there.")
@TIMEOUT
@LIMIT
@FANOUT
@VIA
def watch(
    job: str | None, logs: tuple[str, ...], nodes: str | None, inventory: str | None, rules: str | None,
    fmt: str, replay: bool, window: float, every: float, sample: float, keep: bool,
    state: str | None, from_agent: bool, stacks: bool, timeout: float | None, fanout: int, via: str,
) -> int:
    """Watch a running job: which ranks, hosts or racks slow it, since when, in which phase and why.

    Reads step times from the job's logs (muster help watch shows the form, and a callback for PyTorch), and
    asks the job's nodes what they measure. It does nothing to the job. It ends with the job, with --replay,
    or by Ctrl-C.

    \b
    muster watch 4711
    muster watch --log /shared/run7/steps --nodes 'gpu[001-064]'
    muster watch --log /shared/run7/steps --format json | jq -c 'select(.kind == "finding")'
    muster watch --replay --log /shared/run7/steps
    muster watch report 4711

    Exit: 0 nothing slows it, 1 something does (or did to the end), 2 usage, 3 too few step times to say, 130
    interrupted.
    """
    from healthcheck.cli.watchlogs import JobLogs
    from healthcheck.cli.watchpage import view
    from healthcheck.watch.watcher import JobWatch, WatchSettings

    if job is None and not logs and nodes is None:
        raise UsageError("no job named: muster watch JOBID, or muster watch --log DIR")
    if replay and (nodes is not None or from_agent):
        raise UsageError(f"{'--nodes' if nodes is not None else '--from-agent'} does not go with --replay, "
                         "which asks no node")
    if stacks and (replay or from_agent):
        raise UsageError(f"--stacks does not go with {'--replay' if replay else '--from-agent'}: it runs "
                         "py-spy on the job's nodes")
    if keep and replay:
        raise UsageError("--store does not go with --replay: what is kept is what slows a job now")
    if state is not None and not keep:
        raise UsageError("--state goes with --store")
    names, places = _of_scheduler(job, logs, nodes, replay)
    if replay and not places:
        raise UsageError("--replay needs --log")
    chosen = _nodes(names, inventory, rules, replay=replay)
    found = JobLogs(places, job or "", time.time())
    if stacks and not chosen:
        raise UsageError("--stacks needs the job's nodes: --nodes")
    sampler = asker = None
    if chosen and not replay:
        sampler = _sampler(chosen, via, timeout, fanout, sample, from_agent=from_agent, steps=not places)
        asker = None if from_agent else _asker(job or "", chosen, via, timeout, fanout, stacks=stacks)
    one = JobWatch(WatchSettings(window_s=window), {node.name: node.rack for node in chosen if node.rack})
    return _Watching(job or "", one, found, sampler, asker, view(fmt), window, every, replay=replay,
                     kept=_kept(state, chosen) if keep else None).run()


class _Watching:
    """One run of the command."""

    def __init__(self, job: str, one: JobWatch, logs: JobLogs, sampler: NodeSampler | None,
                 asker: HangAsker | None, shown: WatchView, window: float, every: float, *, replay: bool,
                 kept: WatchStore | None = None) -> None:
        self._job, self._watch, self._logs, self._sampler, self._view = job, one, logs, sampler, shown
        self._asker = asker
        self._window, self._every, self._replay, self._kept = window, every, replay, kept
        self._asked = -_ASK_S
        self._silence: tuple[str, ...] = ()
        self._of_hang: HangSources | None = None
        self._read_hang = 0.0

    def run(self) -> int:
        """Goes on until the job is over; the exit code."""
        interrupted = False
        if self._sampler is not None:
            self._sampler.start()
        try:
            self._passes()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            if self._sampler is not None:
                self._sampler.stop()
        self._ended(interrupted=interrupted)
        code = 130 if interrupted else self._code()
        caveats = (*self._logs.caveats(), *(self._sampler.caveats() if self._sampler is not None else ()),
                   *self._silence, *unjudged(self._watch))
        if self._asker is not None and self._asker.trouble:
            caveats = (*caveats, f"of the hang: {self._asker.trouble}")
        self._view.end(self._name, self._watch, caveats, code)
        for line in caveats:
            click.echo(f"muster: {line}", err=True)
        return code

    @property
    def _name(self) -> str:
        return self._job or self._logs.named

    def _passes(self) -> None:
        while True:
            newest = self._logs.scan()
            over = self._replay or self._is_over(newest)
            heard = False
            for lines in self._logs.slices(self._window, whole=over):
                self._watch.add_all(lines)
                heard = heard or bool(lines)
                self._settle(heard=True, written=self._logs.written)
            if over:
                return
            if self._sampler is not None:
                signals, lines = self._sampler.take()
                self._watch.add_signals(signals)
                self._watch.add_all(lines)
                if lines:
                    self._settle(heard=True)
                heard = heard or bool(lines)
            if not heard:
                self._settle(heard=False)
            time.sleep(self._every)

    def _settle(self, *, heard: bool, written: float = math.inf) -> None:
        self._watch.add_scores(self._logs.scores())
        now = time.time()
        if heard or not self._watch.silent(now):
            self._of_hang = None
        elif self._of_hang is None or now - self._read_hang >= _HANG_S:
            self._of_hang, self._read_hang = self._sources(now), now
        update = self._watch.settle(min(now, written), self._of_hang, heard=heard)
        if self._kept is not None:
            self._kept.keep(self._name, self._watch, update, now)
        if update.windows or update.findings:
            self._view.show(self._name, self._watch, update)

    def _sources(self, now: float) -> HangSources:
        """What there is to know of a hang: logs, and what the nodes say."""
        found = self._logs.of_hang(now, min(self._watch.heard, self._watch.ended))
        if self._asker is None:
            return found
        found = replace(found, ras=self._asker.ras() or found.ras)
        return replace(found, stacks=self._asker.stacks(self._watch.waited_for(found).hosts))

    def _ended(self, *, interrupted: bool) -> None:
        from healthcheck.watch.watcher import WatchUpdate

        self._watch.add_all(self._logs.finish())
        self._watch.add_scores(self._logs.scores())
        update = self._watch.finish()
        if not interrupted:
            hung = self._watch.hung(self._logs.of_hang(time.time(), self._watch.ended))
            verdict = self._watch.waited_for(HangSources())
            if self._silence and verdict.ranks and not hung.findings:
                self._silence += ("if it still runs, it hangs: " + "; ".join(verdict.evidence[:4]),)
            update = WatchUpdate(update.windows, (*update.findings, *hung.findings))
        if self._kept is not None:
            self._kept.keep(self._name, self._watch, update, time.time(), last=True)
        if update.windows or update.findings:
            self._view.show(self._name, self._watch, update)

    def _is_over(self, newest: float) -> bool:
        """Whether the job is: by the scheduler, or as no one writes to its logs."""
        if self._job and time.monotonic() - self._asked >= _ASK_S:
            self._asked = time.monotonic()
            try:
                return asked(self._job).state.startswith(_ENDED)
            except UsageError:
                return self._is_silent(newest)
        return not self._job and self._is_silent(newest)

    def _is_silent(self, newest: float) -> bool:
        """Whether no one has written to the logs for so long that the job is taken as over."""
        silent = time.time() - newest
        if not newest or silent <= FINISHED_S:
            return False
        self._silence = (f"no one has written to the logs for {ago(silent)}: the job is taken as over",)
        return True

    def _code(self) -> int:
        if any(one.still for one in self._watch.findings.values()):
            return 1
        return 0 if self._watch.judged else 3


def _of_scheduler(job: str | None, logs: Sequence[str], nodes: str | None,
                  replay: bool) -> tuple[str | None, tuple[str, ...]]:
    """The node set and the logs, as given or as Slurm knows them."""
    if job is None or (logs and (nodes is not None or replay)):
        return nodes, tuple(logs)
    try:
        record = asked(job)
    except UsageError:
        if logs or nodes is not None:       # what was given is enough
            return nodes, tuple(logs)
        raise
    files = tuple(logs) or output_files(job)
    return nodes if nodes is not None else fold(record.nodes) if record.nodes else None, files


def _nodes(names: str | None, inventory: str | None, rules: str | None, *, replay: bool) -> Sequence[Node]:
    """The nodes to ask, and to know the racks of; of an inventory all, where none is named."""
    from healthcheck.ruleset.ruleset import ruleset_of

    if names is None and (not replay or find_inventory(inventory) is None):
        return ()
    return choose(names, inventory, False, False, ruleset_of(rules))


def _kept(state: str | None, nodes: Sequence[Node]) -> WatchStore:
    from healthcheck.cli.watchstore import WatchStore
    from healthcheck.joblog.prefix import short

    return WatchStore(state_dir(state), {short(node.name): node.name for node in nodes})


def _asker(job: str, nodes: Sequence[Node], via: str, timeout: float | None, fanout: int, *,
           stacks: bool) -> HangAsker:
    from healthcheck.cli.watchhang import HangAsker
    from healthcheck.sweep import sweep

    return HangAsker(job, nodes, remote_transport(via, _HANG_S), sweep.limits(timeout, fanout, nodes),
                     stacks=stacks)


def _sampler(nodes: Sequence[Node], via: str, timeout: float | None, fanout: int, every: float, *,
             from_agent: bool, steps: bool) -> NodeSampler:
    from healthcheck.cli.watchnodes import NodeSampler
    from healthcheck.sweep import sweep
    from healthcheck.sweep.agents import Agents

    return NodeSampler(nodes, remote_transport(via, every), sweep.limits(timeout, fanout, nodes), every,
                       Agents() if from_agent else None, steps=steps)
