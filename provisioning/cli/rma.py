"""`muster rma`: takes a part, or a whole node, through its return to the vendor."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.options import STATE
from inventory.cli.chosen import who
from inventory.cli.formatted import formats
from inventory.cli.propose import dry_run_option, yes_option
from inventory.cli.stacked import stacked
from inventory.errors import UsageError

if TYPE_CHECKING:
    from healthcheck.store.file import Store
    from healthcheck.store.rmas import Rma

_UNTIL = "28d"


_GPU = click.option("--gpu", metavar="N", type=click.IntRange(0, 255),
                    help="The GPU with this number in NVML and nvidia-smi.")
_CHASSIS = click.option("--chassis", is_flag=True, help="The whole node.")
_REFERENCE = click.option("--reference", metavar="TEXT", default="", help="The vendor's case number.")
_HELD_BY = click.option("--held-by", metavar="WHO",
                        help="Who keeps jobs away if we do not: a person's drain, or that the node is off.")
_WHICH = click.argument("which", metavar="ID|NODE", shell_complete=completing.node)
_CHANGING = stacked(
    yes_option, dry_run_option,
    click.option("--inventory", "-i", metavar="FILE",
                 help="The file to change. Default: as for muster check."),
    STATE, click.pass_context)


@click.group()
def rma() -> None:
    """Take a part, or a whole node, through its return to the vendor: open, shipped, returned.

    The node's lifecycle in the inventory file follows: rma while anything of it is away, bringup when it is
    back. A part that was exchanged on site goes no way at all: exchange. What never went, never comes back,
    or came back wrong and may stay is closed.

    \b
    muster rma open gpu017 --gpu 3 --reason 'rows cannot be remapped' --reference 00412345
    muster rma ship gpu017
    muster rma return gpu017 --serial 1650999
    muster rma exchange gpu018 --gpu 5 --serial 1650888 --reason 'fell off the bus' --held-by 'it is off'
    muster rma close 3 --reason 'the vendor reseated it on site'
    muster rma list
    """


@rma.command("open")
@click.argument("node", shell_complete=completing.node)
@click.option(
    "--slot", metavar="SLOT", help="Where the part sits: a PCI address, a drive, or any place with --serial.")
@_GPU
@_CHASSIS
@click.option("--serial", metavar="TEXT", help="Its serial number, if the store does not know it.")
@click.option("--reason", metavar="TEXT", required=True, help="What is wrong with it.")
@_REFERENCE
@click.option("--evidence", metavar="PATH",
              help="The evidence to store. Default: the newest of `muster evidence` since it began.")
@click.option("--until", metavar="DATE",
              help=f"When it should be back, for the inventory: 2026-12-24, or 14d. Default: {_UNTIL}.")
@_HELD_BY
@_CHANGING
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
    from healthcheck.store.history import seats, whereabouts
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
            one.name, seats(store, [one.name], 0), found, words[0] or None, gpu, chassis, words[1] or None,
            whereabouts(store, words[1]) if words[1] else ())
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
@_WHICH
@STATE
def ship(which: str, state: str | None) -> None:
    """Record that a part is on its way to the vendor.

    \b
    muster rma ship gpu017
    """
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
@_WHICH
@click.option("--serial", metavar="NEW", default="", help="The serial number of the replacement.")
@click.option("--same", is_flag=True, help="The same part came back repaired, with its old serial number.")
@_CHANGING
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
    from healthcheck.store.history import whereabouts
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
        for line in returns.known_as([each for each in found if each.id != one.id], whereabouts(store, new),
                                     one.node, new):
            click.echo(f"note: {line}", err=True)
        file = InventoryEdit.of(ctx, inventory)
        away = _others_away(found, one.node, one.id)
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


@rma.command()
@_WHICH
@click.option("--slot", metavar="SLOT", help="Where the part sat: a PCI address, a drive, or any place.")
@_GPU
@_CHASSIS
@click.option("--serial", metavar="NEW", required=True, help="The serial number of what sits there now.")
@click.option("--old", metavar="TEXT", help="The serial number of what was taken out, if the store does not "
              "know it.")
@click.option("--reason", metavar="TEXT", help="What was wrong with it, where no RMA of it is open.")
@_REFERENCE
@_HELD_BY
@_CHANGING
def exchange(
    ctx: click.Context, which: str, slot: str | None, gpu: int | None, chassis: bool, serial: str,
    old: str | None, reason: str | None, reference: str, held_by: str | None, yes: bool, dry_run: bool,
    inventory: str | None, state: str | None,
) -> None:
    """Record that a part was exchanged on site: nothing is shipped, and the node is in bring-up from now on.

    ID or NODE is an open RMA; for a part without one name NODE, the part and --reason. The next stored
    snapshot should find the new serial number in the slot; the old one raises an alarm wherever it shows up.

    \b
    muster rma exchange gpu017 --gpu 3 --serial 1650999 --reason 'fell off the bus'
    muster rma exchange 4 --serial 1650999 --yes
    muster rma exchange gpu017 --slot 'PSU 2' --old P7 --serial P9 --reason 'hums' --held-by 'it was off'
    """
    from healthcheck.store.file import opened
    from healthcheck.store.history import seats, whereabouts
    from healthcheck.store.rmas import RmaState, rmas, unfinished
    from inventory.locate import state_dir
    from inventory.model import Lifecycle, LifecycleState
    from provisioning.cli.rmafile import InventoryEdit
    from provisioning.remediate import rma as returns
    from provisioning.remediate.rmaticket import bundle

    named = slot is not None or gpu is not None or chassis
    if sum((slot is not None, gpu is not None, chassis)) > 1:
        raise UsageError("--slot, --gpu and --chassis exclude each other: exchange one part at a time")
    new, case = _line(serial, "--serial"), _line(reference, "--reference") if reference else ""
    taken = _line(old, "--old") if old is not None else None
    folder = state_dir(state)
    with opened(folder, make=True) as store:
        found, left = rmas(store), unfinished(store)
        file = InventoryEdit.of(ctx, inventory)
        there: int | None = None
        if not named:
            one = returns.chosen(found, left, which)
            if one.state is RmaState.RETURNED and one.new.lower() == new.lower() and one.id not in left:
                click.echo(f"RMA {one.id} is exchanged already ({one.outcome}, {_when(one.returned)}): "
                           f"{one.part} of {one.node}")
                return
            returns.may_exchange(one, left, new)
            part = returns.ReturnedPart(one.node, one.slot, one.kind, one.serial or taken or "")
            why, there = one.why, one.id
        else:
            node = file.node(which).name
            part = returns.part_at(node, seats(store, [node], 0), found, slot, gpu, chassis, taken,
                                   whereabouts(store, taken) if taken else (), new)
            past = [each for each in found if (each.node, each.slot) == (part.node, part.slot)]
            if past and past[-1].state is RmaState.RETURNED and past[-1].new.lower() == new.lower() and (
                    past[-1].id not in left):
                click.echo(f"RMA {past[-1].id} is exchanged already ({past[-1].outcome}, "
                           f"{_when(past[-1].returned)}): {past[-1].part} of {node}")
                return
            if past and past[-1].away:
                returns.may_exchange(past[-1], left, new)
                there = past[-1].id
            if part.serial and part.serial.lower() == new.lower():
                raise UsageError(f"{new} is the serial number of what was taken out: nothing was exchanged")
            why = _line(reason or (past[-1].why if there is not None else ""), "--reason")
        _print_unfinished(store, but=there)
        holds = _holds(store, part.node, held_by)
        for line in returns.known_as([each for each in found if each.id != there], whereabouts(store, new),
                                     part.node, new):
            click.echo(f"note: {line}", err=True)
        away = _others_away(found, part.node, there)
        proof = bundle(store, folder, part.node)

        def action(write: Callable[[], str]) -> None:
            done = returns.exchanging(store, part, why, who(), case, proof, new, time.time, write)
            click.echo(f"RMA {done.id} is returned ({done.outcome}, on site): {done.part} of {done.node}")
            for line in returns.next_steps(done, done.outcome or "", away):
                click.echo(line)

        now = file.node(part.node).lifecycle
        wanted = now if away else returns.aim(now, Lifecycle(LifecycleState.BRINGUP))
        file.change(part.node, wanted, action,
                    f"to be written down: {part.words} of {part.node} was exchanged for {new}; {holds}",
                    yes=yes, dry_run=dry_run)


@rma.command()
@_WHICH
@click.option("--reason", metavar="TEXT", required=True, help="Why nothing more is to be done about it.")
@_CHANGING
def close(
    ctx: click.Context, which: str, reason: str, yes: bool, dry_run: bool, inventory: str | None,
    state: str | None,
) -> None:
    """Close an RMA: its part never went, never comes back, or came back other than announced and may stay.

    A node of which nothing is away any more is in bring-up from then on. What a part is accused of does not
    end with it: a repair without a return is: muster repaired.

    \b
    muster rma close 3 --reason 'the vendor reseated it on site' --yes
    muster rma close 5 --reason 'the vendor repaired the board and kept its number'
    """
    from healthcheck.store.file import opened
    from healthcheck.store.rmas import alarms, rmas, unfinished
    from inventory.locate import state_dir
    from inventory.model import Lifecycle, LifecycleState
    from provisioning.cli.rmafile import InventoryEdit
    from provisioning.remediate import rma as returns

    why = _line(reason, "--reason")
    with opened(state_dir(state)) as store:
        found, left = rmas(store), unfinished(store)
        wrong = alarms(store, found)
        one = returns.chosen(found, left, which, wrong)
        _print_unfinished(store, but=one.id)
        if not returns.may_close(one, left, one.id in wrong):
            click.echo(f"RMA {one.id} is closed already ({one.closed_why}, {_when(one.closed)}): {one.part} "
                       f"of {one.node}")
            return
        file = InventoryEdit.of(ctx, inventory)
        away = _others_away(found, one.node, one.id)

        def action(write: Callable[[], str]) -> None:
            returns.closing(store, one, why, who(), time.time, write)
            click.echo(f"RMA {one.id} is closed ({why}): {one.part} of {one.node}")

        if one.node not in file.loaded.inventory.nodes:
            action(lambda: f"{file.given.path} does not name the node any more")
            return
        now = file.node(one.node).lifecycle
        ends = (one.away or one.id in left) and not away and now.state is LifecycleState.RMA
        wanted = Lifecycle(LifecycleState.BRINGUP) if ends else now
        file.change(one.node, wanted, action, f"to be closed: RMA {one.id}, {one.part} of {one.node}: {why}",
                    yes=yes, dry_run=dry_run)


def _others_away(found: Sequence[Rma], node: str, but: int | None) -> list[int]:
    """The numbers of the other RMAs of a node that are not back."""
    return [each.id for each in found if each.node == node and each.id != but and each.away]


@rma.command("list")
@click.option("--all", "every", is_flag=True, help="Also those that are back.")
@formats()
@STATE
def list_(every: bool, fmt: str, state: str | None) -> None:
    """List what is away, and what came back different from what was announced.

    \b
    muster rma list
    muster rma list --all --format json | jq -r '.rmas[].serial'
    """
    from healthcheck.store.file import opened
    from healthcheck.store.rmas import RmaState, alarms, rmas
    from inventory.locate import state_dir
    from inventory.text import clean
    from provisioning.remediate.rma import ways_out

    with opened(state_dir(state)) as store:
        found = rmas(store)
        wrong = alarms(store, found)
        shown = [one for one in found if every or one.away or one.id in wrong]
        _print_unfinished(store)
    if fmt == "json":
        click.echo(
            json.dumps({
                "schema": "muster.rmas/1",
                "rmas": [{**vars(one), "state": one.state.value,
                          "alarm": wrong[one.id].said if one.id in wrong else "",
                          "alarm_node": wrong[one.id].node if one.id in wrong else ""}
                         for one in shown]}, indent=1))
        return
    for one in shown:
        since = {RmaState.OPEN: one.opened, RmaState.SHIPPED: one.shipped, RmaState.RETURNED: one.returned,
                 RmaState.CLOSED: one.closed}[one.state]
        words = (one.part, one.reference, one.why, f"closed: {one.closed_why}" if one.closed_why else "")
        message = "  ".join(clean(text, 200) for text in words if text)
        click.echo(f"{one.id}  {one.node}  {one.state.value} since {_when(since)}  {message}")
        if one.id in wrong:
            alarm = wrong[one.id]
            click.echo(f"   {clean(alarm.said, 300)}")
            click.echo(f"   {clean(ways_out(one, alarm.node, alarm.slot), 300)}")
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
    from inventory.times import minute

    return minute(seconds) if seconds is not None else ""
