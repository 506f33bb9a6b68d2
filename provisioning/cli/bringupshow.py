"""`muster bringup status` and `report`: how machines stand, and who repairs what; from the store."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.options import STATE
from inventory.cli.formatted import as_json as format_option
from inventory.cli.formatted import formats
from inventory.errors import UsageError
from inventory.text import clean

if TYPE_CHECKING:
    from healthcheck.model.outcome import Owner
    from healthcheck.report.nodes import Paint
    from healthcheck.store.file import Store
    from inventory.model import Inventory
    from provisioning.bringup.pages.progress import BringupStatus

_OWNERS = ("datacentre", "vendor", "network", "operator", "user")
_COLOURS = {"trouble": "red", "waiting": "yellow"}


@click.command(short_help="Show the state of each machine, and who takes the next action.")
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@format_option("json: the document (muster.bringup/1), with every machine.")
@click.option(
    "--watch", is_flag=True,
    help="Refresh every two seconds until you interrupt it; in a log, print a line for each change.")
@click.option("--rules", metavar="DIR", help="A folder of site rules; its bringup.yaml says who owns a step.")
@click.option("--inventory", "-i", metavar="FILE", help="For groups in NODES. Default: as for muster check.")
@STATE
def status(
    nodes: str | None, as_json: bool, watch: bool, rules: str | None, inventory: str | None,
    state: str | None,
) -> int:
    """Show how many of NODES (default: all) are in each step, then which wait or are in trouble: since when,
    the owner, what to do next.

    It reads only the store and asks no machine. Machines in the same state share a line.

    \b
    muster bringup status
    muster bringup status @rack4
    muster bringup status --watch
    muster bringup status --format json | jq -r '.machines[] | select(.stand == "trouble") | .node'

    Exit: 0 all are through, 1 some are in trouble, 2 usage, 3 some are not through or none was started.
    """
    from healthcheck.config.rulesfolder import folders
    from inventory.locate import state_dir
    from inventory.nodeset import fold
    from provisioning.bringup.pages.progress import code
    from provisioning.bringup.pages.status import lines
    from provisioning.bringup.policy.load import load
    from provisioning.cli.bringupconsole import no_consoles, stuck_consoles
    from provisioning.cli.bringupsite import begun

    if watch and as_json:
        raise UsageError("--format json prints one document, and --watch goes on: leave one out")
    policy = load(folders(rules))
    owners = {name: step.owner for name, step in policy.steps.items()}
    folder = state_dir(state)

    consoles = stuck_consoles(folder, folders(rules)) if policy.consoles.capture else no_consoles

    def observe() -> BringupStatus:
        return consoles(progress_of(folder, names, owners))

    with begun(folder) as store:
        names = known(store, nodes, inventory)
    if watch:
        from provisioning.bringup.pages.live import watch as watched

        watched(observe, fold)
    found = observe()
    with suppress(BrokenPipeError):
        if as_json:
            from provisioning.bringup.pages.progress import document

            click.echo(json.dumps(document(found), indent=1))
        else:
            for line in lines(found, fold, painted()):
                click.echo(line)
    return code(found)


@click.command(short_help="Print the punch list: who has to repair what, and where.")
@click.option("--owner", type=click.Choice(_OWNERS), help="Only what this owner has to repair.")
@formats("csv", "html")
@click.option("--output", "-o", metavar="FILE", default="-", show_default=True,
              help="Written whole; - for standard output.")
@click.option(
    "--inventory", "-i", metavar="FILE", help="Has the racks of machines. Default: as for muster check.")
@STATE
def report(owner: str | None, fmt: str, output: str, inventory: str | None, state: str | None) -> None:
    """Print what has to be repaired so that machines come up: for the data centre, the vendor, the network
    team and us.

    Each line has the rack and place (`rack:` of the inventory, and the label `unit:`), machine, part, slot
    and serial numbers, since when, what is wrong, and the next action, sorted by rack. HTML is one file to
    print or mail: a sheet for each owner.

    \b
    muster bringup report
    muster bringup report --owner datacentre --format html -o racks.html
    muster bringup report --owner vendor --format csv -o rma.csv

    Exit: 0 printed, 2 usage.
    """
    from healthcheck.config.files import write_whole
    from healthcheck.model.outcome import Owner
    from healthcheck.store import bringups
    from inventory.load import usual_inventory
    from inventory.locate import state_dir
    from provisioning.bringup.pages import report as lists
    from provisioning.bringup.pages.progress import SERIAL, trouble_of
    from provisioning.cli.bringupsite import begun

    there = usual_inventory(inventory)
    with begun(state_dir(state)) as store:
        progress = {one.node: one for one in bringups.progress(store)}
        troubles = [one for one in bringups.troubles(store) if one.node in progress]
    whose = Owner(owner) if owner is not None else None
    lines = lists.ordered(lists.line(one.step, one.node, progress[one.node].since, trouble_of(one),
                                     there.nodes.get(one.node) if there is not None else None,
                                     progress[one.node].kept.get(SERIAL, "")) for one in troubles)
    lines = [one for one in lines if whose is None or one.owner is whose]
    head = lists.PunchListSummary(
        time.time(), len(progress), sum(one.stand == "done" for one in progress.values()),
        sum(one.stand == "trouble" for one in progress.values()), whose)
    if fmt == "html":
        from provisioning.bringup.pages.reporthtml import html

        data = html(lines, head)
    elif fmt == "json":
        data = json.dumps(lists.document(lines, head), indent=1) + "\n"
    else:
        data = lists.csv(lines) if fmt == "csv" else "".join(f"{line}\n" for line in lists.text(lines, head))
    if there is None:
        click.echo("note: no inventory was found, so the racks of machines are not known: see muster "
                   "inventory --help", err=True)
    if output == "-":
        click.echo(data.encode(), nl=False)
        return
    try:
        write_whole(Path(output), data.encode(), 0o644)
    except OSError as error:
        raise UsageError(f"--output {output}: cannot be written: {error.strerror}") from error
    click.echo(f"{output}: {head.counts}; {len(lines)} to mend", err=True)


def known(store: Store, text: str | None, option: str | None) -> Collection[str] | None:
    """The machines of the store that a node set names, None for all; groups are those of the inventory.
    Prints which were never started; raises UsageError where none was."""
    from healthcheck.store.bringups import progress
    from inventory.load import load_inventory
    from inventory.locate import find_inventory
    from inventory.nodeset import expand, fold

    if text is None:
        return None
    there: Inventory | None = None
    if "@" in text and (path := find_inventory(option)) is not None:
        there = load_inventory(path)
    begun = [one.node for one in progress(store)]
    names = expand(text, there.groups if there is not None else None, begun)
    there_too = set(names) & set(begun)
    if strange := set(names) - there_too:
        message = f"{clean(fold(strange), 200)}: never started: muster bringup run NODES"
        if not there_too:
            raise UsageError(message)
        click.echo(f"note: {message}", err=True)
    return there_too


def progress_of(folder: Path, names: Collection[str] | None, owners: Mapping[str, Owner]) -> BringupStatus:
    """The state of these machines in the store, None for all, with the steps' `owners`. Raises StoreError."""
    from healthcheck.store import bringups
    from healthcheck.store.file import opened
    from provisioning.bringup.engine.site import LOCK
    from provisioning.bringup.pages.progress import progress
    from provisioning.lease.runlock import locked

    with opened(folder) as store:
        return progress(bringups.progress(store, names), bringups.troubles(store, nodes=names),
                        bringups.skips(store, names), bringups.steps(store, names), time.time(),
                        owners=owners, running=locked(folder / LOCK))


def painted() -> Paint:
    """Colours where standard output is a terminal and they are wanted."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return lambda text, kind: text
    return lambda text, kind: click.style(text, fg=_COLOURS.get(kind), bold=kind == "head")
