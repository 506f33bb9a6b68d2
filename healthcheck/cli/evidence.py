"""`muster evidence`: a folder with all that a repair of a node needs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.check import choose
from healthcheck.cli.options import INVENTORY, check_sku
from healthcheck.config.files import make_folder, write_named
from inventory.cli.limits import LIMIT
from inventory.errors import UsageError
from inventory.locate import state_dir
from inventory.text import clean
from inventory.times import millisecond
from inventory.transport.choose import transport_of

if TYPE_CHECKING:
    from healthcheck.model.probes import Probe
    from healthcheck.model.recording import Recording
    from healthcheck.sweep.evidence import BugReport
    from inventory.model import Node
    from inventory.transport.base import Transport


@click.command()
@click.argument("node", required=False, shell_complete=completing.node)
@click.option("--bug-report", is_flag=True,
              help="Also run nvidia-bug-report.sh as root on the node; takes minutes and may hang.")
@click.option("--safe-mode", is_flag=True,
              help="With --bug-report: skip parts known to hang with a sick driver.")
@click.option("--output", "-o", metavar="DIR",
              help="A new or empty folder. Default: STATE/evidence/NODE/TIME.")
@INVENTORY
@LIMIT
@click.option("--local", is_flag=True, help="Check this machine, without SSH.")
@click.option("--sku", metavar="NAME", shell_complete=completing.sku,
              help="The node's SKU, if the inventory names none.")
@click.option("--state", metavar="DIR", help="The state folder. Default: MUSTER_STATE, XDG, /var/lib/muster.")
def evidence(
    node: str | None, bug_report: bool, safe_mode: bool, output: str | None, inventory: str | None,
    local: bool, sku: str | None, state: str | None,
) -> int:
    """Save a full snapshot of one NODE for its repair: every probe and its outcome, and the whole kernel log.

    The files name hosts, users, addresses and serial numbers, as a repair needs. For a public report use
    `muster record`. With --bug-report the snapshot is on disk before nvidia-bug-report.sh starts. That script
    asks the driver for everything and can stall a sick GPU: do not run it beside an important job. It is
    stopped after 300 s; what it wrote by then is kept, up to 24 MiB.

    \b
    muster evidence gpu017 --bug-report
    muster evidence gpu017 --bug-report --safe-mode -o ticket-4711
    muster check --replay ticket-4711/recording.json

    Exit: 0 complete, 2 usage, 3 the node was not reached, or the report is missing or incomplete.
    """
    from healthcheck.ruleset.ruleset import ruleset_of
    from healthcheck.sweep import evidence as kit
    from healthcheck.sweep import saved
    from healthcheck.sweep.snapshots import KeptSnapshots
    from inventory.release import VERSION

    if not local and node is None:
        raise UsageError("no node named: muster evidence gpu017, or --local")
    if safe_mode and not bug_report:
        raise UsageError("--safe-mode goes with --bug-report")
    ruleset = ruleset_of(None)
    check_sku(sku, ruleset)
    chosen = choose(node, inventory, local, False, ruleset, sku)
    if len(chosen) != 1:
        raise UsageError(f"{node} names {len(chosen)} nodes, expected one")
    target = chosen[0]
    states = state_dir(state)
    started = time.time()
    stamp = time.strftime(kit.STAMP, time.gmtime(started))
    folder = Path(output) if output is not None else states / "evidence" / target.name / stamp
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: exists and is not an empty folder")
    make_folder(folder, "--output" if output is not None else "the state folder (--state, MUSTER_STATE)")

    transport = transport_of("local" if local else "ssh")
    probes = kit.snapshot_probes(target)
    recording = kit.collect(target, probes, transport, 60.0)
    looked = saved.SweepManifest(
        millisecond(started), millisecond(time.time()), False, chosen.source, (target,), sku, (), (),
        ruleset.digest, probes.to_json(),
    )
    previous = KeptSnapshots(states).read(target.name)
    files = {"recording.json": saved.encode_one(recording, previous, looked, muster=VERSION,
                                         scrubbed=False)}
    _write(folder, files)
    probe = kit.bug_report_probe(safe=safe_mode)
    report = _bug_report(target, recording, probe, transport) if bug_report else None
    if report is not None and report.data:
        files[report.name] = report.data
        _write(folder, {report.name: report.data})
    _write(folder, {"manifest.json": kit.manifest(
        recording, probes, report, probe, files, muster=VERSION,
        started=millisecond(started), finished=millisecond(time.time()),
    )})
    return _report(folder, recording, report)


def _bug_report(node: Node, recording: Recording, probe: Probe, transport: Transport) -> BugReport:
    """Runs the script if possible; the snapshot before it shows whether we are root there."""
    from healthcheck.sweep import evidence as kit

    if recording.host is None:
        return kit.BugReport("unreached", "the node was not reached, so the script was not started")
    refused = kit.why_not(node, recording.host)
    if refused:
        return kit.BugReport("not-run", refused)
    click.echo(f"muster: running {kit.COMMAND} on {node.name}, for at most {kit.LIMIT_S} s", err=True)
    return kit.bug_report_of(kit.collect(node, kit.bug_report_probes(probe), transport, probe.seconds + 30.0),
                             probe)


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        write_named(folder / name, data, f"{folder / name}")


def _report(folder: Path, recording: Recording, report: BugReport | None) -> int:
    click.echo(f"{folder}")
    if recording.failure is not None:
        click.echo("recording.json            not reached: "
                   f"{clean(f'{recording.failure.stage.value}: {recording.failure.reason}', 300)}")
    else:
        size = (folder / "recording.json").stat().st_size / 1024
        done = sum(capture.outcome.value == "done" for capture in recording.captures.values())
        click.echo(f"recording.json            {done} of {len(recording.captures)} probes captured "
                   f"completely, {size:.0f} KiB")
    if report is not None:
        held = f"{len(report.data) / 1024:.0f} KiB, {report.seconds:.0f} s" if report.data else ""
        words = ", ".join(part for part in (report.outcome, held, report.reason) if part)
        click.echo(f"{report.name or 'nvidia-bug-report.log.gz':<25} {words}")
    click.echo("manifest.json             what was captured, how each probe ended, versions, limits")
    return 0 if recording.failure is None and (report is None or report.outcome == "written") else 3
