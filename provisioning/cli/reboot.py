"""`muster reboot`: restarts nodes that we hold through the scheduler, as soon as their jobs have ended."""

from __future__ import annotations

import json
import time

import click

from healthcheck.cli import completing
from healthcheck.cli.options import STATE
from inventory.cli.chosen import chosen, who
from inventory.cli.confirm import YES, confirm
from inventory.cli.formatted import as_json as format_option
from inventory.errors import UsageError


@click.command()
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@click.option("--reason", metavar="TEXT", help="Why, for the ledger.")
@click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing.")
@YES
@format_option("json: the document (muster.outcomes/1), with a message for each node.")
@click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check.")
@STATE
def reboot(
    nodes: str | None, reason: str | None, dry_run: bool, yes: bool, as_json: bool,
    inventory: str | None, state: str | None,
) -> int:
    """Restart NODES through Slurm (or the site's own command), as soon as their jobs have ended. Without
    NODES: show the progress.

    It asks first; --yes answers. Only nodes with a cordon of ours are restarted, and they stay cordoned
    throughout. The command does not wait: run it again to see the outcome, or let `muster triage --apply`
    record it.

    \b
    muster cordon gpu007 --reason 'Xid 79' && muster reboot gpu007 --reason 'Xid 79' --yes
    muster reboot

    Exit: 0 done or in progress, 1 some node was not restarted, or the answer was no, 2 usage.
    """
    from healthcheck.store.file import opened
    from inventory.load import usual_inventory
    from inventory.locate import state_dir
    from provisioning.actions.choose import backend
    from provisioning.actions.cordon import document
    from provisioning.actions.reboot import reboot as act
    from provisioning.actions.reboot import resolve_reboots

    if nodes is None:
        through = backend(usual_inventory(inventory))
        with opened(state_dir(state)) as store:
            done = resolve_reboots(store, through, time.time)
    else:
        if reason is None or not reason.strip():
            raise UsageError("--reason is missing: it is kept in the ledger")
        names, there = chosen(nodes, inventory)
        through = backend(there)
        if not dry_run:
            confirm("reboot", names, stops=True, yes=yes)
        with opened(state_dir(state)) as store:
            done = act(store, through, names, reason.strip(), who(), time.time, dry=dry_run)
    if as_json:
        click.echo(json.dumps(document(done), indent=1))
        return int(any(one.failed for one in done))
    for one in done:
        click.echo(f"{one.node}: {one.message}")
    if not done:
        click.echo("no reboot is in progress")
    return int(any(one.failed for one in done))
