"""`muster bmc power|boot|media`: changes through controllers, as typed; what powers off asks first, and each
change enters the ledger before it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from inventory.cli.chosen import who
from inventory.cli.confirm import confirm, yes_or
from inventory.cli.folded import echo_folded
from inventory.cli.stacked import stacked
from inventory.errors import UsageError
from inventory.model import Node
from inventory.nodeset import fold
from inventory.text import clean
from provisioning.cli.bmccommon import NODES, BmcOptions, options

if TYPE_CHECKING:
    from provisioning.bmc.base import Controller

ControllerAction = Callable[["Controller"], Any]
_CHANGE_OPTIONS = stacked(
    click.option("--reason", metavar="TEXT", default="by hand", show_default=True, help="For the ledger."),
    yes_or("--apply"),
    click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing."))


@dataclass(frozen=True)
class _ChangeOptions:
    """What the options say of any change, whichever it is."""

    bmc: BmcOptions
    dry_run: bool
    yes: bool
    reason: str


def _changing(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of any change, as the parameter `how`."""
    @functools.wraps(command)
    def with_how(*args: Any, bmc: BmcOptions, dry_run: bool, yes: bool, reason: str, **others: Any) -> Any:
        return command(*args, how=_ChangeOptions(bmc, dry_run, yes, reason), **others)

    return _CHANGE_OPTIONS(options(with_how))


def _change(
    nodes: str, what: str, action: ControllerAction, how: _ChangeOptions, *, off: bool = False,
) -> int:
    """Makes the change where it is allowed; the ledger entry is written before it, the outcome after it."""
    from healthcheck.store import ledger
    from healthcheck.store.file import opened
    from provisioning.bmc.base import BmcError
    from provisioning.bmc.permission import why_not

    def allowed(nodes: Sequence[Node]) -> list[Node]:
        refused = why_not(inventory, nodes, off=off)
        echo_folded((name, f"not done: {why}") for name, why in refused.items())
        return [node for node in nodes if node.name not in refused]

    named, inventory = how.bmc.chosen(nodes)
    affected = allowed(named)
    if how.dry_run:
        if affected:
            click.echo(f"{fold(node.name for node in affected)}: would do: {what}. Nothing changed.")
        return int(len(affected) < len(named))
    if confirm(what, [node.name for node in affected], stops=off, yes=how.yes):
        affected = allowed(affected)        # a job may have come while the person thought
    code = int(len(affected) < len(named))
    with opened(how.bmc.folder, make=True) if affected else nullcontext() as store:
        lines: dict[str, int] = {}
        done: list[tuple[str, str]] = []
        if store is not None:
            with store.writing() as db:
                lines = {
                    node.name: ledger.begin(db, time.time(), who(), f"bmc {what}", node.name,
                                            clean(how.reason.strip())) for node in affected}
        for node, found in how.bmc.ask(affected, action):
            message = clean(f"accepted: {found}", 300) if isinstance(found, str) and found else "accepted"
            if isinstance(found, BmcError):
                code = 1
                unsure = found.done is None
                message = (f"{'it is not known whether it was done' if unsure else 'not done'}: "
                           f"{found.wrong.value}: {found.message}")
                if unsure:
                    message += f"; check: muster bmc show {node.name}"
            if store is not None:
                with store.writing() as db:
                    ledger.finish(db, lines[node.name], message, time.time())
            done.append((node.name, f"{what}: {message}"))
    echo_folded(done)
    return code


@click.command()
@NODES
@click.argument("action", type=click.Choice(("on", "off", "shutdown")))
@_changing
def power(nodes: str, action: str, how: _ChangeOptions) -> int:
    """Turn the machines of NODES on, turn them off at once, or shut down their operating system.

    Off is refused for a node in service unless muster holds a cordon on it, and wherever a job runs or may
    run. Off and shutdown ask first. To reset a machine, turn it off, then on; `muster bmc show` shows each.

    \b
    muster bmc power gpu007 on
    muster cordon gpu007 --reason 'hangs' && muster bmc power gpu007 off --reason 'hangs' --yes

    Exit: 0 all accepted, 1 some refused or not reached, or the answer was no, 2 usage.
    """
    from provisioning.bmc.base import PowerAction

    wanted = PowerAction(action)
    return _change(nodes, f"power {action}", lambda controller: controller.set_power(wanted), how,
                   off=action != "on")


@click.command()
@NODES
@click.argument("target", type=click.Choice(("none", "pxe", "disk", "cd", "bios")))
@click.option(
    "--always", is_flag=True, help="For every boot from now on. Without this, only for the next one.")
@_changing
def boot(nodes: str, target: str, always: bool, how: _ChangeOptions) -> int:
    """Set what the machines of NODES boot from next; `none` clears it. This resets nothing.

    \b
    muster bmc boot gpu007 pxe

    Exit: 0 all accepted, 1 some refused or not reached, or the answer was no, 2 usage.
    """
    from provisioning.bmc.base import BootTarget

    return _change(nodes, f"boot {target}{' always' if always else ''}",
                   lambda controller: controller.set_boot(BootTarget(target), not always), how)


@click.command()
@NODES
@click.argument("action", type=click.Choice(("show", "insert", "eject")))
@click.argument("image", required=False)
@click.option("--drive", metavar="NAME",
              help="Which virtual drive, as `media NODES show` calls it. Default: the first that takes a CD.")
@_changing
def media(nodes: str, action: str, image: str | None, drive: str | None, how: _ChangeOptions) -> int:
    """Insert the IMAGE at an http(s) address into the virtual drives of NODES, eject it, or show what is in
    them.

    \b
    muster bmc media gpu007 show
    muster bmc media gpu007 insert http://10.1.0.1/rescue.iso
    muster bmc media gpu007 eject

    Exit: 0 all accepted, 1 some refused or not reached, 2 usage, 3 some could not be read.
    """
    if (image is None) == (action == "insert"):
        raise UsageError("insert needs an IMAGE, show and eject take none: muster bmc media gpu007 insert "
                         "http://10.1.0.1/rescue.iso")
    if image is not None:       # before it is shown or enters the ledger
        from provisioning.bmc.redfish.state import no_image

        if why := no_image(image):
            raise UsageError(why)
    if action == "show":
        from provisioning.cli.bmcshow import media_lines

        return media_lines(nodes, how.bmc)
    from provisioning.bmc.redfish.media import cd_drive

    def change(controller: Controller) -> str:
        name = drive or cd_drive(controller.media()).name
        return controller.insert(name, image) if image is not None else controller.eject(name)

    what = f"media insert {clean(image, 200)}" if image is not None else "media eject"
    return _change(nodes, what, change, how)
