"""`muster baseline check`: judge a saved kernel log by the catalogue of known faults and a baseline;
needs no inventory."""

from __future__ import annotations

import datetime as dt
import os
import stat
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.options import check_sku
from healthcheck.cli.pieces import write_pieces
from healthcheck.model.outcome import exit_code
from inventory.cli.formatted import formats
from inventory.errors import UsageError
from inventory.model import Node
from inventory.text import clean, short
from inventory.times import millisecond

if TYPE_CHECKING:
    from healthcheck.baseline.kernelrules import KernelRules
    from healthcheck.kernellog.model import Baseline
    from healthcheck.model.outcome import NodeReport
    from healthcheck.ruleset.ruleset import Ruleset

_MOST = 256 << 20       # bytes of a file


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--baseline", "-b", metavar="B",
              help="The baseline to judge by: a file. Default: a fitting one from the rules folders.")
@click.option("--sku", metavar="NAME", shell_complete=completing.sku,
              help="The machine's SKU, which selects a baseline from the rules folders.")
@click.option("--rules", metavar="DIR",
              help="A folder of site rules, catalogue entries and baselines over the packaged ones.")
@formats("jsonl")
def check(files: tuple[str, ...], baseline: str | None, sku: str | None, rules: str | None, fmt: str) -> int:
    """Find what is wrong in saved kernel logs: known faults by the catalogue and, with a baseline,
    unusual lines.

    FILE is the output of dmesg, journalctl -k or syslog in any format, or /dev/kmsg, plain or compressed; -
    is standard input. Needs neither an inventory nor a baseline. A file of several boots is judged boot by
    boot.

    \b
    dmesg | muster baseline check -
    muster baseline check /dev/kmsg --format json | jq '.nodes[].results[].findings'
    muster baseline check gpu007.dmesg gpu008.dmesg.gz --baseline h100.yaml

    Exit: 0 fine, 1 a warning or critical fault, 2 usage, 3 nothing failed but no baseline fits. The report
    names gaps in a log (a missing beginning, lost records).
    """
    from healthcheck.report import document
    from healthcheck.ruleset.ruleset import ruleset_of

    ruleset = ruleset_of(rules)
    check_sku(sku, ruleset)
    chosen = _by(ruleset, baseline)
    started = time.time()
    reports = tuple(_judged(file, chosen, sku) for file in files)
    ended = time.time()
    if fmt == "table":
        _page(reports, chosen, ended - started)
    else:
        write = document.as_json if fmt == "json" else document.as_jsonl
        # Names of files are no node names, which alone can be folded.
        write_pieces(write(reports, started=millisecond(started), finished=millisecond(ended), partial=False,
                           full=True))
    return exit_code(reports)


def _by(ruleset: Ruleset, baseline: str | None) -> Ruleset:
    """The kernel log's rules and the chosen baseline."""
    from healthcheck.explain.savedlog import judged

    rules = judged(ruleset.rules)
    held = ruleset.kernel
    if held is None or baseline is None:
        return replace(ruleset, rules=rules)
    kernel = replace(held, chosen=_loaded(baseline, held))
    return replace(ruleset, rules=rules, kernel_from=lambda: kernel)


def _loaded(path: str, kernel: KernelRules) -> Baseline:
    from healthcheck.baseline.fileload import load
    from healthcheck.baseline.learn import current

    return current(load(Path(path), kernel.catalogue), dt.date.today().isoformat())


def _judged(file: str, ruleset: Ruleset, sku: str | None) -> NodeReport:
    from healthcheck.baseline.formats import read
    from healthcheck.explain.savedlog import merged, recording, with_file_lines
    from healthcheck.sweep.assess import Assessment

    name = clean("standard input" if file == "-" else Path(file).name, 200)
    logs = read(_bytes(file), name)
    if not logs:
        raise UsageError(f"{short(file)} has no kernel log line; expected the output of dmesg, journalctl -k "
                         "or /var/log/kern.log")
    reports = []
    for log in logs:
        assessment = Assessment([Node(name, sku=sku)], ruleset)
        assessment.add(recording(name, log, time.time()))
        (report,) = assessment.finish().reports
        reports.append(with_file_lines(report, log))
    return merged(reports)


def _bytes(file: str) -> bytes:
    if file == "-":
        data = sys.stdin.buffer.read(_MOST + 1)
    else:
        try:
            data = _records(file) if stat.S_ISCHR(Path(file).stat().st_mode) else _read(file)
        except OSError as error:
            raise UsageError(f"{short(file)} cannot be read: {error.strerror}") from None
    if len(data) > _MOST:
        raise UsageError(
            f"{short(file)} is longer than {_MOST >> 20} MiB; give a part of it, with tail -c {_MOST}")
    return data


def _read(file: str) -> bytes:
    with Path(file).open("rb") as opened:
        return opened.read(_MOST + 1)


def _records(device: str) -> bytes:
    """The current records of /dev/kmsg, one per read."""
    held = []
    opened = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            try:
                record = os.read(opened, 1 << 14)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue        # the kernel overwrote it; the next read continues with the oldest record
            if not record:
                break
            held.append(record)
    finally:
        os.close(opened)
    return b"".join(held)


def _page(reports: Sequence[NodeReport], ruleset: Ruleset, seconds: float) -> None:
    from rich.console import Console

    from healthcheck.report.table import Heading, render
    from healthcheck.sweep.assess import Assessed

    console = Console(soft_wrap=True, highlight=False, markup=False, emoji=False)
    rules = {rule.id: rule for rule in ruleset.rules}
    render(console, Assessed(tuple(reports)), rules, Heading("saved kernel logs", seconds, False, len(rules)),
           ", ".join, every=True)
