"""`muster watch report`: a page on a job for its team."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.options import INVENTORY, RULES, STATE
from healthcheck.cli.watch import _nodes, _of_scheduler
from healthcheck.cli.wrapping import echo
from healthcheck.config import rulesfolder
from healthcheck.store.file import opened
from healthcheck.watch.goodput import goodput
from healthcheck.watch.judged import unjudged
from healthcheck.watch.mfu import ModelShape, utilisation
from healthcheck.watch.model import StepPhase
from healthcheck.watch.robust import median
from inventory.cli.formatted import formats
from inventory.cli.number import FiniteNumber
from inventory.cli.span import span
from inventory.errors import MusterError, UsageError
from inventory.locate import state_dir
from inventory.nodeset import fold

if TYPE_CHECKING:
    from pathlib import Path

    from healthcheck.accounting.forecast import InterruptionForecast
    from healthcheck.cli.watchlogs import JobLogs
    from healthcheck.report.watchkept import KeptCause
    from healthcheck.watch.mfu import Utilisation
    from healthcheck.watch.model import JobAttempt, StepWindow
    from healthcheck.watch.watcher import JobWatch
    from inventory.model import Node

_SINCE_S = 90 * 86400.0     # of the fleet's history, as muster history --summary takes it
_AFTER_S = 86400.0      # after the last step, in which a job may still be watched
_POSITIVE = FiniteNumber(1e-30, 1e30)


@click.command()
@click.argument("job", required=False, metavar="JOBID")
@click.option("--log", "logs", metavar="PATH", multiple=True,
              help="A folder or file with step times; repeatable. Default: the output that Slurm knows.")
@click.option("--nodes", metavar="NODES", shell_complete=completing.node_set,
              help="The job's nodes. Default: those that its lines name.")
@click.option("--parameters", metavar="N", type=_POSITIVE,
              help="Of the model, those that a token passes, such as 70e9.")
@click.option("--tokens", metavar="N", type=_POSITIVE, help="Tokens of a step, over all ranks.")
@click.option("--layers", metavar="N", type=click.IntRange(1), help="Of the model, for its attention.")
@click.option("--hidden", metavar="N", type=click.IntRange(1), help="The size of its hidden layer.")
@click.option("--sequence", metavar="N", type=click.IntRange(1), help="Tokens of one sequence.")
@click.option("--flops", metavar="N", type=_POSITIVE,
              help="Operations of a step, in place of the model's shape.")
@click.option("--gpus", metavar="N", type=click.IntRange(1), help="Of the job. Default: one for each rank.")
@click.option("--sku", metavar="NAME", shell_complete=completing.sku,
              help="For the GPUs' peak. Default: that of the job's nodes in the inventory.")
@click.option("--precision", type=click.Choice(("bf16", "fp8")), default="bf16", show_default=True,
              help="Of which the peak is taken.")
@click.option("--peak-tflops", metavar="X", type=_POSITIVE, help="The peak itself, dense.")
@click.option("--job-nodes", metavar="N", type=click.IntRange(1, 1_000_000),
              help="For interruptions to expect. Default: as many as the job has.")
@click.option("--checkpoint-seconds", metavar="S", type=FiniteNumber(0.001, 86400),
              help="What a checkpoint costs. Default: as ranks time it.")
@click.option("--window", metavar="SPAN", default="10s", show_default=True, callback=span(0.1, 3600),
              help="How much of the job is judged at once.")
@INVENTORY
@RULES
@STATE
@formats()
def report(
    job: str | None, logs: tuple[str, ...], nodes: str | None, parameters: float | None, tokens: float | None,
    layers: int | None, hidden: int | None, sequence: int | None, flops: float | None, gpus: int | None,
    sku: str | None, precision: str, peak_tflops: float | None, job_nodes: int | None,
    checkpoint_seconds: float | None, window: float, inventory: str | None, rules: str | None,
    state: str | None, fmt: str,
) -> int:
    """Report on a job: goodput, what time was lost to, MFU, restarts, findings, forecast.

    From its logs, and from what muster watch --store kept while it ran.

    \b
    muster watch report 4711
    muster watch report --log /shared/run7/steps --parameters 70e9 --tokens 4194304 --sku hgx-h100
    muster watch report --log /shared/run7/steps --format json

    Exit: 0 the page is made, 2 usage, 3 no step times.
    """
    from healthcheck.cli.watchlogs import JobLogs
    from healthcheck.cli.watchpage import sentence
    from healthcheck.report.watched import JobReport, document, suspects, text
    from healthcheck.report.watchkept import adopted, beyond
    from healthcheck.watch.watcher import JobWatch, WatchSettings

    if job is None and not logs:
        raise UsageError("no job named: muster watch report JOBID, or muster watch report --log DIR")
    shape = _shape(parameters, tokens, layers, hidden, sequence, flops)
    folder = state_dir(state)
    alone = bool(job and _kept(folder, job, ()))    # what was kept is a page by itself
    try:
        names, places = _of_scheduler(job, logs, nodes, replay=True)
    except UsageError:
        if not alone:
            raise
        names, places = nodes, ()
    if not places and not alone:
        raise UsageError("nothing to read: give --log, the folder or file with step times")
    chosen = _nodes(names, inventory, rules, replay=True)
    watch = JobWatch(WatchSettings(window_s=window), {node.name: node.rack for node in chosen if node.rack})
    found = JobLogs(places, job or "", time.time())
    hosts = _read(watch, found, window)
    mfu, no_mfu, notes = _mfu(watch, shape, flops, gpus, peak_tflops, precision,
                              sku or _sku_of(chosen, hosts), rules)
    cost = checkpoint_seconds
    if cost is None and (cost := checkpoint_cost(list(watch.windows))) is not None:
        notes += (f"a checkpoint costs {cost:.3g} s as ranks time it, all of a window as one",)
    size = job_nodes or len(hosts)
    expected, no_forecast = (_forecast(folder, rules, size, cost) if size else
                             (None, "no line names a host: --job-nodes"))
    if watch.windows and watch.windows[0].first > watch.attempts[0].first:
        notes += ("the job has more windows than are kept: what is of older ones counts as not known",)
    known = _kept(folder, job or found.named, watch.attempts)
    findings = adopted(tuple(watch.findings.values()), known)
    bad = suspects(findings)
    page = JobReport(job or found.named, goodput(watch.attempts, list(watch.windows), findings), mfu, no_mfu,
                     findings, expected, no_forecast, notes, (*found.caveats(), *unjudged(watch)), bad,
                     _spares(hosts, bad), beyond(known, findings))
    if fmt == "json":
        click.echo(json.dumps(document(page), indent=1))
    else:
        for line in text(page, [sentence(one) for one in findings]):
            echo(line)
    return 0 if watch.windows else 3


def _read(watch: JobWatch, logs: JobLogs, window: float) -> tuple[str, ...]:
    """Reads all that there is; the job's hosts, by name."""
    logs.scan()
    hosts: dict[str, None] = {}
    for lines in logs.slices(window, whole=True):
        watch.add_all(lines)
        hosts |= dict.fromkeys(line.host for line in lines if line.host)
        watch.settle(time.time())
    watch.add_all(logs.finish())
    watch.add_scores(logs.scores())
    watch.finish()
    watch.hung(logs.of_hang(time.time(), watch.ended))
    return tuple(sorted(hosts))


def _shape(parameters: float | None, tokens: float | None, layers: int | None, hidden: int | None,
           sequence: int | None, flops: float | None) -> ModelShape | None:
    attention = [layers, hidden, sequence]
    if flops is not None and (parameters is not None or tokens is not None or any(attention)):
        raise UsageError("--flops stands for the model's shape: give one of them")
    if (parameters is None) != (tokens is None):
        raise UsageError("--parameters and --tokens go together")
    if any(attention) and (parameters is None or not all(attention)):
        raise UsageError("--layers, --hidden and --sequence go together, and with --parameters and --tokens")
    if parameters is None or tokens is None:
        return None
    return ModelShape(parameters, tokens, layers or 0, hidden or 0, sequence or 0)


def _mfu(watch: JobWatch, shape: ModelShape | None, flops: float | None, gpus: int | None,
         peak: float | None, precision: str, sku: str | None,
         rules: str | None) -> tuple[Utilisation | None, str, tuple[str, ...]]:
    """The utilisation, or why there is none; and what to know of it."""
    if shape is None and flops is None:
        return None, "give the model: --parameters and --tokens, or --flops", ()
    notes: list[str] = []
    if shape is not None and not shape.whole:
        notes.append("mfu is without attention: --layers, --hidden and --sequence add it")
    ranks = max((one.ranks for one in watch.windows), default=0)
    if gpus is None:
        if watch.ranks == (None,):
            return None, "the log speaks for the whole job: give --gpus", ()
        gpus = ranks
        notes.append(f"{gpus} ranks report, taken for as many GPUs")
    if peak is None:
        peak, said = _peak(sku, precision, rules)
        if peak is None:
            return None, said, ()
        notes.append(said)
    if not gpus:
        return None, "no step times", ()
    of_step = flops if flops is not None else shape.flops if shape is not None else 0.0
    return utilisation(list(watch.windows), of_step, gpus, peak), "", tuple(notes)


def _peak(sku: str | None, precision: str, rules: str | None) -> tuple[float | None, str]:
    """The peak of a SKU's GPU in TFLOPS, with its source; or why it is not known."""
    from healthcheck.burnin.publishedload import load_burnin
    from healthcheck.ruleset.ruleset import load_ruleset

    if sku is None:
        return None, "the GPU is not known: --sku or --peak-tflops"
    folders = rulesfolder.folders(rules)
    known = load_ruleset(folders).skus.get(sku)
    if known is None:
        raise UsageError(f"--sku: no SKU is called {sku}: muster sku list")
    model, burnin = known.numbers.get("gpu_model"), load_burnin(folders)
    entry = burnin.datasheet(f"tflops_{precision}", model) if isinstance(model, str) else None
    if entry is None or entry.peak is None:
        return None, f"no {precision} peak of {model or sku} is known: --peak-tflops"
    return entry.peak, (f"peak of {model}: {entry.peak:g} TFLOPS {precision}, dense "
                        f"({burnin.sources.get('datasheet', entry.source)})")


def _sku_of(nodes: Sequence[Node], hosts: Sequence[str]) -> str | None:
    """The SKU of the job's nodes, where the inventory gives one and the same."""
    short = {host.partition(".")[0] for host in hosts}
    found = {node.sku for node in nodes if node.name.partition(".")[0] in short}
    return found.pop() if len(found) == 1 else None


def checkpoint_cost(windows: Sequence[StepWindow]) -> float | None:
    """What a checkpoint costs in seconds: the median, over windows with one, of the time in it; None where
    ranks do not time them."""
    costs = [took * (one.last - one.first + 1) for one in windows
             if (took := one.phases.get(StepPhase.CHECKPOINT, 0.0)) > 0]
    return median(costs) if costs else None


def _forecast(state: Path, rules: str | None, nodes: int,
              cost: float | None) -> tuple[InterruptionForecast | None, str]:
    """What the fleet's history says; or why it says nothing."""
    from healthcheck.accounting.forecast import forecast
    from healthcheck.accounting.read import read
    from healthcheck.accounting.summary import summary
    from healthcheck.triage.policyload import policy_of

    now = time.time()
    policy = policy_of(rules)
    try:
        with opened(state) as store:
            made = summary(read(store, None, policy, now - _SINCE_S, now, {}), now - _SINCE_S, now, ())
    except MusterError as error:
        return None, f"the fleet's history cannot be read: {error}"
    return forecast(made.total.rate, nodes, cost), ""


def _kept(state: Path, job: str, attempts: Sequence[JobAttempt]) -> tuple[KeptCause, ...]:
    """What was kept of the job in the time of its attempts, or at any time where none is known; nothing
    without a store."""
    from healthcheck.report.watchkept import kept
    from healthcheck.store.watched import of_job

    start = attempts[0].began if attempts else 0.0
    # A hang goes on after the last step.
    end = attempts[-1].ended + _AFTER_S if attempts else time.time()
    try:
        with opened(state) as store:
            return kept(of_job(store, job, start, end))
    except MusterError:
        return ()


def _spares(hosts: Sequence[str], bad: Sequence[str]) -> str:
    """The command that proposes nodes in place of those."""
    rest = [host for host in hosts if host not in bad]
    if not bad or not rest:
        return ""
    return f"muster gate '{fold(rest)}' --write-hostfile hosts.open --need {len(hosts)} --spares @spares"
