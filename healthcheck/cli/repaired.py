"""`muster repaired`: records that a component was repaired, which ends what kernel logs reported of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.options import GROUPS, STATE
from healthcheck.store.file import opened
from inventory.cli.chosen import chosen, who
from inventory.cli.confirm import YES_MANY, confirm
from inventory.errors import UsageError
from inventory.locate import state_dir
from inventory.text import clean, short

if TYPE_CHECKING:
    from healthcheck.store.repairs import Logged


@click.command()
@click.argument("nodes", shell_complete=completing.node_set)
@click.option("--component", metavar="C",
              help="A subject as muster shows it, a serial number, a PCI address, a slot, or `all`.")
@click.option("--reason", metavar="TEXT", help="What was done; kept in the ledger.")
@YES_MANY
@click.option("--dry-run", is_flag=True, help="Only show what would end.")
@GROUPS
@STATE
def repaired(
    nodes: str, component: str | None, reason: str | None, yes: bool, dry_run: bool, inventory: str | None,
    state: str | None,
) -> int:
    """Record that a component of NODES was repaired: this ends all that kernel logs reported of it until now.

    A fault stays until its end is proven, even if the log forgot it; for some this command is the only proof
    (`muster explain xid 54` says so). Newer kernel reports count again. A node that triage holds returns
    after enough clean snapshots.

    The repair is recorded in this store. The head's sweeps, also with --from-agent, triage and the gate's
    next snapshot use it. An agent on a node does not know it: its own result and metrics keep the fault until
    the log proves the end or the node boots.

    \b
    muster repaired gpu017 --component 0000:3b:00.0 --reason 'GPU reseated'
    muster repaired gpu017 --component nvme3n1 --reason 'drive replaced' --dry-run
    muster repaired 'gpu[001-004]' --component all --reason 'risers replaced'

    Exit: 0 done, 1 some node has no such component, 2 usage.
    """
    from healthcheck.store import repairs

    if component is None or not component.strip():
        raise UsageError(f"--component is missing: muster repaired {nodes} --component 0000:3b:00.0 --reason "
                         "'GPU reseated'; or say: all")
    if reason is None or not reason.strip():
        raise UsageError("--reason is missing: say what was done, for the ledger")
    what, why = clean(component.strip(), 120), clean(reason.strip(), 200)
    names, _ = chosen(nodes, inventory)
    with opened(state_dir(state)) as store:
        found = {name: repairs.meant(store, name, what) for name in names}
        known = {name: ended for name, (ended, there) in found.items() if there}
        if not known:
            raise UsageError(_nothing(what, {name: repairs.logged(store, name) for name in names}))
        confirm(f"record {short(what)} as repaired on", tuple(known), stops=False, yes=yes or dry_run)
        code = 0
        for name in names:
            if name not in known:
                click.echo(f"{name}: it has no {short(what)}, so nothing changed", err=True)
                code = 1
                continue
            ended_text = (", ".join(f"{one.rule} of {clean(one.subject, 80)}" for one in known[name][:5])
                          or "no report of a kernel log")
            more = f" and {len(known[name]) - 5} more" if len(known[name]) > 5 else ""
            if dry_run:
                click.echo(f"{name}: would end: {ended_text}{more}")
                continue
            with store.writing() as db:
                repairs.say(db, name, what, known[name], why, who(), time.time())
            click.echo(f"{name}: {clean(what)} was repaired; ended: {ended_text}{more}")
    if dry_run:
        click.echo("nothing changed (--dry-run)")
    return code


def _nothing(what: str, held: dict[str, list[Logged]]) -> str:
    there = list(dict.fromkeys(one.subject for logged in held.values() for one in logged))
    known = (f"; open reports there are of {', '.join(short(subject) for subject in there[:5])}" if there
             else "")
    return (f"these nodes have no known component {short(what)}{known}; expected a subject, serial number, "
            "PCI address or slot, or: all")
