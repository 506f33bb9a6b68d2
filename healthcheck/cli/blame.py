"""`muster blame`: which node killed a job, or that none is known, and what was not measured."""

from __future__ import annotations

import datetime as dt
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.blame.rank import NEAR, suspects
from healthcheck.cli import completing
from healthcheck.cli.options import RULES, STATE
from healthcheck.joblog.names import NodeNames
from healthcheck.store.file import NAME, opened
from inventory.cli.formatted import formats
from inventory.errors import StoreError, UsageError
from inventory.jobs import job as asked
from inventory.load import usual_inventory
from inventory.locate import state_dir
from inventory.nodeset import expand, fold
from inventory.text import short

if TYPE_CHECKING:
    from healthcheck.blame.evidence import Case, Evidence, JobWindow, SharedPlace
    from healthcheck.joblog.model import JobLog
    from inventory.jobs import Job

_MOST_NODES = 20_000
_LEADING = 3600.0       # without a scheduler's times: how long before --until


@click.command()
@click.argument("job", required=False, metavar="JOBID")
@click.option("--nodes", metavar="NODES", shell_complete=completing.node_set,
              help="Without a scheduler: the job's nodes. Default: those in its logs.")
@click.option("--since", metavar="TIME",
              help="Without a scheduler: the job's start (2026-11-21T10:00:00, local, or epoch seconds). "
                                                   "Default: the times in its logs.")
@click.option("--until", metavar="TIME",
              help="Without a scheduler: the time of failure. Default: as for --since, or now.")
@click.option("--log", "logs", metavar="[NODE=]FILE", multiple=True,
              help="The job's output (NCCL, torchrun, Slurm), a flight recorder's dump, a node's kernel log "
                   "with times, or a muster recording; repeatable.")
@click.option("--inventory", "-i", metavar="FILE",
              help="For shared leaf, rack and power. Default: as for muster check.")
@RULES
@STATE
@formats()
def blame(
    job: str | None, nodes: str | None, since: str | None, until: str | None, logs: tuple[str, ...],
    inventory: str | None, rules: str | None, state: str | None, fmt: str,
) -> int:
    """Find the node that killed a job: evidence with times, owner and next step; or report that none is
    known, and what was not measured.

    Joins Slurm's record of the job with stored sweeps of its nodes: results, boots, counters, muster's
    actions, incidents and logs. Logs alone are enough; they are read as by muster explain. Faults that ended
    before the job are listed apart and never count as the cause.

    \b
    muster blame 4711
    muster blame 4711 --log slurm-4711.out --log nccl_trace_rank_0 --log nccl_trace_rank_1
    muster blame --log train.log
    muster blame --nodes 'gpu[001-016]' --since 2026-11-21T08:00 --until 2026-11-21T10:03 --log gpu007=dmesg

    Exit: 0 nothing to blame, 1 found, 2 usage, 3 nothing found but something was not measured.
    """
    from healthcheck.blame import page

    case = _case(job, nodes, since, until, logs, inventory, rules, state)
    ranked = suspects(case)
    if fmt == "json":
        click.echo(json.dumps(page.document(case, ranked, fold), indent=1))
    else:
        for line in page.text(case, ranked, fold):
            click.echo(line)
    return page.exit_code(case, ranked)


def _case(
    job: str | None, nodes: str | None, since: str | None, until: str | None, logs: tuple[str, ...],
    inventory: str | None, rules: str | None, state: str | None,
) -> Case:
    from healthcheck.blame import jobevidence
    from healthcheck.blame.evidence import Case, shared
    from healthcheck.blame.logevidence import evidence as of_logs
    from healthcheck.blame.logevidence import failed
    from healthcheck.cli.blamelogs import of_files, of_kernel

    record = _record(job, nodes, since, until, logs)
    known = tuple(usual_inventory(inventory) or ())
    names = (record.nodes if record is not None else _expanded(nodes) if nodes is not None
             else tuple(node.name for node in known))
    ended_at = record.ended if record is not None else _time(until, "--until") if until is not None else None
    near = ended_at if ended_at is not None else time.time()
    given = of_files(logs, names, near, rules)
    window = _window(record, nodes, since, until, given.job(), names)
    evidence: list[Evidence] = list(jobevidence.evidence(record)) if record is not None else []
    unmeasured = [] if record is not None else ["the scheduler's record: no job id was given"]
    sources = [f"the record of {record.source}"] if record is not None else []
    stored, incidents = _stored(window, state, unmeasured, sources)
    evidence += stored
    log = given.job(window)
    evidence += of_kernel(given, window, rules)
    addresses = {address: node.name for node in known for address in (node.name, node.address) if address}
    evidence += of_logs(log, window, addresses,
                        ordered=record is not None and record.state in jobevidence.ORDERED)
    unmeasured += [caveat for caveat in (*given.unmeasured, *log.caveats) if caveat not in unmeasured]
    first = failed(log)
    began = min(first, window.end) if first is not None and first >= window.start else window.end
    fine = record is not None and record.state in jobevidence.FINE
    title, ended = ((f"job {record.id}", jobevidence.ended(record)) if record is not None
                    else ("what ran", "it failed"))
    return Case(title, window, ended, began, () if fine else tuple(evidence),
                (*incidents, *shared(known, window.nodes)), tuple(dict.fromkeys(unmeasured)),
                (*sources, *given.sources), fine)


def _record(
    job: str | None, nodes: str | None, since: str | None, until: str | None, logs: tuple[str, ...],
) -> Job | None:
    if (job is not None and nodes is not None) or (job is None and nodes is None and not logs):
        raise UsageError("no job named: muster blame JOBID, or without a scheduler: muster blame --nodes N "
                         "--since T --until T")
    if job is None:
        return None
    if since is not None or until is not None:
        raise UsageError("--since and --until go with --nodes; for a job id the scheduler knows the times")
    if Path(job).is_file() and not job.isdecimal():
        raise UsageError(f"{short(job)} is a file: muster blame --log {short(job)}")
    return asked(job)


def _expanded(nodes: str) -> tuple[str, ...]:
    names = expand(nodes)
    if not 0 < len(names) <= _MOST_NODES:
        raise UsageError(f"--nodes {short(nodes)} names {len(names)} nodes, expected 1 to {_MOST_NODES}")
    return names


def _window(
    record: Job | None, nodes: str | None, since: str | None, until: str | None, log: JobLog,
    names: tuple[str, ...],
) -> JobWindow:
    """The job's time and nodes: from the scheduler, the command line, or else its logs."""
    from healthcheck.blame.evidence import JobWindow

    now = time.time()
    if record is not None:
        if not record.nodes or record.started is None:
            raise UsageError(f"job {record.id} is {record.state} and ran on no node")
        return JobWindow(record.started, min(record.ended, now) if record.ended is not None else now,
                         record.nodes)
    if nodes is None:
        names = _nodes_in(log, names)
    if since is None and until is None:
        if log.span is None:
            return JobWindow(now, now, names, known=False, whole=nodes is not None)
        # A log's first time may be that of the failure, and a collective waits for long.
        return JobWindow(min(log.span[0], log.span[1] - NEAR), log.span[1], names, whole=nodes is not None)
    end = _time(until, "--until") if until is not None else now
    start = _time(since, "--since") if since is not None else end - _LEADING
    if start >= end:
        raise UsageError(f"--since {short(since)} is not before --until")
    return JobWindow(start, end, names, whole=nodes is not None)


def _nodes_in(log: JobLog, known: tuple[str, ...]) -> tuple[str, ...]:
    """The nodes in the logs, by their inventory names where known."""
    names = NodeNames(log, known)
    hosts = {*log.heard, *log.hosts.values(), *log.addresses.values(), *(event.node for event in log.events)}
    return tuple(sorted({names.named(host) for host in hosts if host} - {""}))[:_MOST_NODES]


def _time(text: str, option: str) -> float:
    try:
        return (float(text) if text.replace(".", "", 1).isdecimal()
                else dt.datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{option} {short(text)} is not a time, expected one such as 2026-11-21T10:00:00 "
                         "(local) or epoch seconds") from None


def _stored(
    window: JobWindow, state: str | None, unmeasured: list[str], sources: list[str],
) -> tuple[tuple[Evidence, ...], tuple[SharedPlace, ...]]:
    from healthcheck.blame.stored import stored_evidence

    folder = state_dir(state)
    if not (folder / NAME).exists():
        if state is not None:
            raise StoreError(f"{folder / NAME}: no store there; `muster check --store` makes one")
        unmeasured.append("the nodes' history: there is no store of sweeps; one (muster check --store) adds "
                          "Xids, reboots, links and counters before and after the job, and muster's actions")
        return (), ()
    if not window.known:
        unmeasured.append("the nodes' history: the job's time is unknown, so no sweep can be tied to it; "
                          "give --since T --until T, or a log with times")
        return (), ()
    with opened(folder) as store:
        found = stored_evidence(store, window)
    unmeasured += found.unmeasured
    sources += found.looked
    return found.evidence, found.incidents


