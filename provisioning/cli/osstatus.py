"""`muster os status|disarm`: reads the records of installations, and ends them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from healthcheck.cli import completing
from inventory.cli.chosen import needed
from inventory.cli.confirm import YES_MANY, confirm
from inventory.cli.folded import echo_folded
from inventory.cli.formatted import as_json as format_option

if TYPE_CHECKING:
    from provisioning.osinstall.base import OsReport
    from provisioning.osinstall.pxe.record import Installation

_NO_INVENTORY = "no inventory was found, and only it says which nodes there are: --inventory FILE"
_INVENTORY = click.option("--inventory", "-i", "file", metavar="FILE", help="Default: as for muster check.")
_STATE = click.option("--state", metavar="DIR",
                      help="Folder of the installations. Default: MUSTER_STATE, XDG, /var/lib/muster.")


@click.command()
@click.argument("nodes", default="@all", shell_complete=completing.node_set)
@format_option("json: muster.installations/1.")
@_STATE
@_INVENTORY
def status(nodes: str, as_json: bool, state: str | None, file: str | None) -> int:
    """Show how far the installation of each of NODES is (default: all that have one), by the records alone.

    \b
    muster os status
    muster os status @rack7 --format json

    Exit: 0 all fine or on their way, 1 some failed, 2 usage, 3 some records cannot be read.
    """
    from inventory.locate import state_dir
    from provisioning.osinstall.base import OsError, OsState
    from provisioning.osinstall.pxe.backend import report
    from provisioning.osinstall.pxe.records import InstallationRecords

    records, now = InstallationRecords(state_dir(state)), time.time()
    found: list[tuple[str, Installation | None, OsReport]] = []
    unread: list[tuple[str, str]] = []
    for node in needed(nodes, file, _NO_INVENTORY)[0]:
        try:
            record = records.read(node.name)
        except OsError as problem:
            unread.append((node.name, str(problem)))
            continue
        if record is not None:
            found.append((node.name, record, report(record, now, node)))
    if as_json:
        click.echo(json.dumps({"schema": "muster.installations/1", "nodes": [
            _document(name, record, shown) for name, record, shown in found if record is not None],
            "unreadable": [{"node": name, "message": text} for name, text in unread]}, indent=1))
    else:
        echo_folded((name, f"{shown.state.value}: {shown.message}"
                     f"{f'; {advice}' if (advice := _advice(name, shown)) else ''}")
                    for name, _, shown in found)
        echo_folded((name, f"unknown: {text}") for name, text in unread)
        if not found and not unread:
            click.echo("no installations")
    if any(shown.state is OsState.FAILED for _, _, shown in found):
        return 1
    return 3 if unread else 0


def _advice(name: str, shown: OsReport) -> str:
    """What to do next, where something is to be done."""
    return f"{shown.advice}; to have it installed again: muster bringup retry {name}" if shown.advice else ""


def _document(name: str, record: Installation, shown: OsReport) -> dict[str, Any]:
    """Without the secrets of the record."""
    return {"node": name, "state": shown.state.value, "message": shown.message,
            "advice": _advice(name, shown), "number": record.number, "image": record.image,
            "stage": record.stage.value, "macs": list(record.macs), "began": record.began,
            "since": record.since, "until": record.until, "host_keys": list(shown.host_keys)}


@click.command()
@click.argument("nodes", shell_complete=completing.node_set)
@click.option("--again", is_flag=True,
              help="Also forget that NODES are installed, or failed: bring-up installs them again where no "
                   "system answers.")
@click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing.")
@YES_MANY
@_STATE
@_INVENTORY
def disarm(nodes: str, again: bool, dry_run: bool, yes: bool, state: str | None, file: str | None) -> int:
    """End the installations of NODES that are on their way: their next boot goes to the disk, and no
    phone-home of them is accepted. A machine that is being installed is not stopped. One that is to be
    installed over is turned off as well, for bring-up installs over no system that answers.

    \b
    muster os disarm gpu007
    muster os disarm gpu007 --again && muster bmc power gpu007 off

    Exit: 0 done, or there was none, 2 usage.
    """
    from inventory.locate import state_dir
    from provisioning.osinstall.pxe import record
    from provisioning.osinstall.pxe.records import InstallationRecords

    records, (named, _) = InstallationRecords(state_dir(state)), needed(nodes, file, _NO_INVENTORY)
    ends = record.forgotten if again else record.disarmed
    held = {node.name: records.read(node.name) for node in named}
    going = [name for name, one in held.items() if one is not None and ends(one, 0.0) != one]
    if not dry_run:
        confirm("disarm", [node.name for node in named], stops=False, yes=yes)
    done: list[tuple[str, str]] = []
    for node in named:
        if node.name not in going:
            done.append((node.name, "has no installation" if again else "no installation is on its way"))
        elif dry_run:
            done.append((node.name, "would end its installation. Nothing changed."))
        else:
            records.change(node.name, lambda old: old and ends(old, time.time()))
            done.append((node.name, "its installation is ended"))
    echo_folded(done)
    return 0
