"""`muster rma`: takes a part, or a whole node, through its return to the vendor."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from inventory.cli.chosen import who
from inventory.cli.propose import dry_run_option, yes_option
from inventory.errors import UsageError

if TYPE_CHECKING:
    from healthcheck.store.file import Store

_UNTIL = "28d"


def _state(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--state", metavar="DIR",
                        help="Folder of the store. Default: MUSTER_STATE, XDG, /var/lib/muster.")(command)


_inventory = click.option(
    "--inventory", "-i", metavar="FILE", help="The file to change. Default: as for muster check.")


@click.group()
def rma() -> None:
    """Take a part, or a whole node, through its return to the vendor: open, shipped, returned.

    The node's lifecycle in the inventory file follows: rma while anything of it is away, bringup when it is
    back.

    \b
    muster rma open gpu017 --gpu 3 --reason 'rows cannot be remapped' --reference 00412345
    muster rma ship gpu017
    muster rma return gpu017 --serial 1650999
    muster rma list
    """


@rma.command("open")
@click.argument("node")
@click.option(
    "--slot", metavar="SLOT", help="Where the part sits: a PCI address, a drive, or any place with --serial.")
@click.option("--gpu", metavar="N", type=click.IntRange(0, 255),
              help="The GPU with this number in NVML and nvidia-smi.")
@click.option("--chassis", is_flag=True, help="The whole node.")
@click.option("--serial", metavar="TEXT", help="Its serial number, if the store does not know it.")
@click.option("--reason", metavar="TEXT", required=True, help="What is wrong with it.")
@click.option("--reference", metavar="TEXT", default="", help="The vendor's case number.")
@click.option("--evidence", metavar="PATH",
              help="The evidence to store. Default: the newest of `muster evidence` since it began.")
@click.option("--until", metavar="DATE",
              help=f"When it should be back, for the inventory: 2026-12-24, or 14d. Default: {_UNTIL}.")
@click.option("--held-by", metavar="WHO",
              help="Who keeps jobs away if we do not: a person's drain, or that the node is off.")
@yes_option
@dry_run_option
@_inventory
@_state
@click.pass_context
def open_(
    ctx: click.Context, node: str, slot: str | None, gpu: int | None, chassis: bool, serial: str | None,
    reason: str, reference: str, evidence: str | None, until: str | None, held_by: str | None, yes: bool,
    dry_run: bool, inventory: str | None, state: str | None,
) -> None:
    """Open the return of a part of NODE, take the node out of service in the inventory file, and print the
    vendor's ticket.

    A node that may get jobs is refused: cordon it first (or give --held-by). Running the same command again
    finishes an interrupted one, and prints the ticket again.

    \b
    muster cordon gpu017 --reason 'RMA of GPU 3'
    muster rma open gpu017 --gpu 3 --reason 'rows cannot be remapped' --reference 00412345
    muster rma open gpu017 --slot 'DIMM A3' --serial 80CE011 --reason 'uncorrectable errors' --yes
    """
    from healthcheck.store.file import opened
    from healthcheck.store.history import seats
    from healthcheck.store.rmas import rmas
    from inventory.cli.lifecycle import _date
    from inventory.locate import state_dir
    from inventory.model import Lifecycle, LifecycleState
    from provisioning.cli.rmafile import InventoryEdit
    from provisioning.remediate import rma as returns
    from provisioning.remediate.rmaticket import bundle, text_of

    if sum((slot is not None, gpu is not None, chassis)) > 1:
        raise UsageError("--slot, --gpu and --chassis exclude each other: open one return per part")
    why, kept = _line(reason, "--reason"), _path(evidence)
    words = [_line(text, name) if text else ""
             for text, name in ((slot, "--slot"), (serial, "--serial"), (reference, "--reference"))]
    file = InventoryEdit.of(ctx, inventory)
    one = file.node(node)
    now = one.lifecycle
    day = _date(until or (_UNTIL if now.state is not LifecycleState.RMA else None), dt.date.today())
    wanted = Lifecycle(LifecycleState.RMA, "vendor", day or now.until)
    folder = state_dir(state)
    with opened(folder, make=True) as store:
        found = rmas(store)
        part = returns.part_at(
            one.name, seats(store, [one.name], 0), found, words[0] or None, gpu, chassis, words[1] or None)
        _print_unfinished(
            store,
            but=next((each.id for each in found if (each.node, each.slot) == (part.node, part.slot)), None))
        holds = _holds(store, one.name, held_by)
        proof = kept or bundle(store, folder, one.name)

        def action(write: Callable[[], str]) -> None:
            opened_ = returns.opening(store, part, why, who(), words[2], proof, holds, time.time, write)
            click.echo(f"RMA {opened_.id} is open: {opened_.part} of {opened_.node}; {holds}")
            click.echo("")
            click.echo(text_of(store, opened_, one, time.time()), nl=False)

        file.change(one.name, wanted, action, f"to be opened: the RMA of {part.words} of {one.name}; {holds}",
                    yes=yes, dry_run=dry_run)


@rma.command()
@click.argument("which", metavar="ID|NODE")
@_state
def ship(which: str, state: str | None) -> None:
    """Record that a part is on its way to the vendor."""
    from healthcheck.store.file import opened
    from healthcheck.store.rmas import rmas, unfinished
    from inventory.locate import state_dir
    from provisioning.remediate import rma as returns

    with opened(state_dir(state)) as store:
        left = unfinished(store)
        one = returns.chosen(rmas(store), left, which)
        done = returns.shipping(store, one, left, who(), time.time)
        _print_unfinished(store)
    click.echo(f"RMA {one.id} is shipped{'' if done else ' already'}: {one.part} of {one.node}")


@rma.command("return")
@click.argument("which", metavar="ID|NODE")
@click.option("--serial", metavar="NEW", default="", help="The serial number of the replacement.")
@click.option("--same", is_flag=True, help="The same part came back repaired, with its old serial number.")
@yes_option
@dry_run_option
@_inventory
@_state
@click.pass_context
def return_(
    ctx: click.Context, which: str, serial: str, same: bool, yes: bool, dry_run: bool, inventory: str | None,
    state: str | None,
) -> None:
    """Record that a part is back; its node is in bring-up from now on, and has to pass before it gets jobs.

    The next stored snapshot should find a new serial number in the slot, or with --same the old one;
    otherwise `muster rma list` raises an alarm.

    \b
    muster rma return gpu017 --serial 1650999
    muster rma return 3 --same --yes
    """
    from healthcheck.store.file import opened
    from healthcheck.store.rmas import RmaState, outcome, rmas, unfinished
    from inventory.locate import state_dir
    from inventory.model import Lifecycle, LifecycleState
    from provisioning.cli.rmafile import InventoryEdit
    from provisioning.remediate import rma as returns

    new = _line(serial, "--serial") if serial else ""
    with opened(state_dir(state)) as store:
        found, left = rmas(store), unfinished(store)
        one = returns.chosen(found, left, which)
        _print_unfinished(store, but=one.id)
        if one.state is RmaState.RETURNED and one.id not in left:
            click.echo(f"RMA {one.id} is returned already ({one.outcome}, {_when(one.returned)}): {one.part} "
                       f"of {one.node}")
            return
        returns.may_return(one, same=same, new=new)
        file = InventoryEdit.of(ctx, inventory)
        away = [each.id for each in found
                if each.node == one.node and each.id != one.id and each.state is not RmaState.RETURNED]
        message = one.outcome if one.outcome is not None else outcome(same=same, new=new)

        def action(write: Callable[[], str]) -> None:
            returns.returning(store, one, message, who(), time.time, write)
            click.echo(f"RMA {one.id} is returned ({message}): {one.part} of {one.node}")

        if one.node not in file.loaded.inventory.nodes:
            action(lambda: f"{file.given.path} does not name the node any more")
            return
        now = file.node(one.node).lifecycle
        wanted = now if away else returns.aim(now, Lifecycle(LifecycleState.BRINGUP))
        remark = f"to be written down: RMA {one.id} is returned ({message}), {one.part} of {one.node}"
        if file.change(one.node, wanted, action, remark, yes=yes, dry_run=dry_run):
            for line in returns.next_steps(one, message, away):
                click.echo(line)


@rma.command("list")
@click.option("--all", "every", is_flag=True, help="Also those that are back.")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True)
@_state
def list_(every: bool, form: str, state: str | None) -> None:
    """List what is away, and what came back different from what was announced."""
    from healthcheck.store.file import opened
    from healthcheck.store.rmas import RmaState, alarms, rmas
    from inventory.locate import state_dir
    from inventory.text import clean

    with opened(state_dir(state)) as store:
        found = rmas(store)
        wrong = alarms(store, found)
        shown = [one for one in found if every or one.state is not RmaState.RETURNED or one.id in wrong]
        _print_unfinished(store)
    if form == "json":
        click.echo(
            json.dumps({
                "schema": "muster.rmas/1",
                "rmas": [{**vars(one), "state": one.state.value, "alarm": wrong.get(one.id, "")}
                         for one in shown]}, indent=1))
        return
    for one in shown:
        since = {RmaState.OPEN: one.opened, RmaState.SHIPPED: one.shipped, RmaState.RETURNED: one.returned}[
            one.state]
        words = (one.part, one.reference, one.why)
        message = "  ".join(clean(text, 200) for text in words if text)
        click.echo(f"{one.id}  {one.node}  {one.state.value} since {_when(since)}  {message}")
        if one.id in wrong:
            click.echo(f"   {clean(wrong[one.id], 300)}")
    if not shown:
        click.echo("nothing is away")


def _holds(store: Store, node: str, held_by: str | None) -> str:
    """A phrase for what keeps jobs away from the node; raises UsageError if nothing is known to."""
    from healthcheck.store.cordons import CordonState, open_cordons

    ours = [one for one in open_cordons(store, [node]) if one.state is CordonState.HELD]
    if ours:
        return f"{ours[0].mark} ({ours[0].backend}) keeps jobs away"
    if held_by is not None:
        return f"jobs are kept away by {_line(held_by, '--held-by')}"
    raise UsageError(f"no cordon of ours keeps jobs away from {node}: muster cordon {node} --reason 'RMA', "
                         "or give --held-by 'the night shift drained it'")


def _print_unfinished(store: Store, but: int | None = None) -> None:
    from healthcheck.store.rmas import rmas, unfinished
    from provisioning.remediate import rma as returns

    left = unfinished(store)
    for line in returns.unfinished([one for one in rmas(store) if one.id != but], left):
        click.echo(f"muster: {line}", err=True)


def _line(text: str, option: str) -> str:
    from inventory.text import clean

    found = clean(text.strip(), 200)
    if not found:
        raise UsageError(f"{option} is empty")
    return found


def _path(option: str | None) -> str:
    if option is None:
        return ""
    path = Path(option).expanduser()
    if not path.exists():
        raise UsageError(
            f"{option}: there is no such file or folder (named by --evidence); muster evidence makes one")
    return str(path.absolute())


def _when(seconds: float | None) -> str:
    from healthcheck.triage.ticket import utc

    return utc(seconds) if seconds is not None else ""
