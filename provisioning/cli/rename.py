"""`muster inventory rename`: gives a node another name in the inventory and in all that muster keeps."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from healthcheck.cli.options import STATE
from inventory.cli.chosen import who
from inventory.cli.propose import dry_run_option, propose, yes_option
from inventory.errors import UsageError
from inventory.text import clean, short

if TYPE_CHECKING:
    from inventory.model import Inventory
    from provisioning.actions.base import Backend
    from provisioning.rename.run import Renamed, RenameRequest


@click.command(short_help="Give a node another name in all that muster keeps, cordons included.")
@click.argument("old")
@click.argument("new")
@click.option("--reason", metavar="TEXT", default="by hand", help="For the ledger.")
@yes_option
@dry_run_option
@click.option("--hostfile", metavar="FILE", multiple=True,
              help="A file of hosts that holds cordons beside what `cordon:` says; may be given again.")
@click.option("--golden", metavar="FILE", multiple=True,
              help="A file of good nodes that holds cordons beside what `cordon:` says; may be given again.")
@click.option("--rules", metavar="DIR", help="A folder of site rules, whose baselines name nodes.")
@click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check.")
@STATE
@click.pass_context
def rename(
    ctx: click.Context, old: str, new: str, reason: str, yes: bool, dry_run: bool, hostfile: tuple[str, ...],
    golden: tuple[str, ...], rules: str | None, inventory: str | None, state: str | None,
) -> None:
    """Give the node OLD the name NEW: in the inventory, in cordons and the files or schedulers that show
    them, and in the store with its history, RMAs, silences, certificate, baselines and bring-up.

    Shows the change of the inventory and asks first. The node is held at any moment: the new name gets the
    mark before the old one loses it. A rename that was cut short is finished by the same command. Also for a
    node that was renamed in the inventory by hand, and for one that only the store still has.

    In Slurm and Kubernetes give the node its new name there first. `address` and other values stay. Saved
    sweeps and results of burn-in keep the name that they were made with.

    \b
    muster inventory rename gpu007 gpu107 --dry-run
    muster inventory rename gpu007 gpu107 --reason 'moved to row 1'

    Exit: 0 done or nothing to change, 1 some hold is not under the new name, 2 the command or a file is
    wrong.
    """
    from healthcheck.config.rulesfolder import folders
    from inventory.cli.show import _known_skus
    from inventory.inventoryfile import InventoryFile
    from inventory.load import parse_with_origins
    from inventory.locate import find_inventory, state_dir
    from inventory.rename import check_name, renamed
    from provisioning.rename import run
    from provisioning.rename.run import RenameRequest

    check_name(new)
    if old == new:
        raise UsageError(f"{old} is its name already")
    path = find_inventory(inventory)
    given = InventoryFile.read(path) if path is not None else None
    there: Inventory | None = None
    after = None
    if given is not None:
        there = parse_with_origins(given.text, str(given.path), _known_skus(ctx)).inventory
        if old in there.nodes:
            after = renamed(given.text, str(given.path), old, new, _known_skus(ctx))
    want = RenameRequest(old, new, state_dir(state), folders(rules), _backends(old, there, hostfile, golden),
                         clean(reason.strip(), 200), who())
    if after is None and not run.is_known(want):
        if run.done_before(want):
            click.echo(f"{old} has the name {new} already; nothing to change")
            return
        where = there.source if there is not None else "an inventory"
        raise UsageError(f"{short(old)} is known neither to {where} nor to the store")
    plan = run.check(want)
    done: list[Renamed] = []

    def act(write: Callable[[], None] = lambda: None) -> None:
        done.append(run.rename(want, write, time.time))

    if given is not None and after is not None:
        text = after
        propose(str(given.path), given.text, text, lambda: act(lambda: given.write(text)), yes=yes,
                dry_run=dry_run, remarks=[f"moves: {line}" for line in plan])
    elif dry_run:
        click.echo(f"{old} -> {new}: {', '.join([*plan, 'the store'])}; the inventory does not change")
    else:
        act()
    if done:
        _print(want, done[0], ctx, written=str(given.path) if given is not None and after is not None else "")


def _print(want: RenameRequest, done: Renamed, ctx: click.Context, written: str) -> None:
    click.echo(f"{want.old} -> {want.new}: {', '.join([*done.taken, *([written] if written else [])])}")
    for line in done.left:
        click.echo(f"note: {line}", err=True)
    if any(line.startswith("certificate ") for line in done.taken):
        click.echo("next: muster gate publish")
    if done.left:
        ctx.exit(1)


def _backends(
    old: str, there: Inventory | None, hostfile: Sequence[str], golden: Sequence[str],
) -> list[Backend]:
    """What the inventory says, else Slurm where it answers, and the files that were named."""
    from provisioning.actions.base import file_of
    from provisioning.actions.choose import Options, backend

    files = [*(Options(hostfile=file) for file in hostfile), *(Options(golden=file) for file in golden)]
    found: dict[tuple[str, str], Backend] = {}
    try:
        first = backend(there)
        if there is None or there.cordon is None:
            first.held([old])
        found[first.name, file_of(first)] = first
    except UsageError:      # a cordon that is there, by the store, is asked for later
        if there is not None and there.cordon is not None:
            raise
    for options in files:
        named = backend(there, options)
        found[named.name, file_of(named)] = named
    return list(found.values())
