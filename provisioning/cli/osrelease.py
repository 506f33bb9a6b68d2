"""`muster os release`: has the site's MAAS take a machine back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.options import STATE
from inventory.cli.chosen import who
from inventory.cli.confirm import YES, confirm
from inventory.errors import UsageError
from inventory.text import clean, short

if TYPE_CHECKING:
    from pathlib import Path

    from inventory.model import Inventory, Node
    from provisioning.osinstall.base import SupportsRelease


@click.command()
@click.argument("node", shell_complete=completing.node)
@click.option("--reason", metavar="TEXT", default="by hand", show_default=True, help="For the ledger.")
@click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing.")
@YES
@click.option("--rules", metavar="DIR", help="A folder of site rules, whose bringup.yaml names the MAAS.")
@click.option("--inventory", "-i", "file", metavar="FILE", help="Default: as for muster check.")
@STATE
def release(
    node: str, reason: str, dry_run: bool, yes: bool, rules: str | None, file: str | None, state: str | None,
) -> int:
    """Have MAAS release the machine of NODE: what runs there ends, and its disk is no longer its own.

    For sites whose bringup.yaml says `os: {by: maas}`. One node, by its whole name; also one that muster did
    not deploy. A node in service is refused unless muster holds a cordon on it, and so is one where a job
    runs or may run. It asks first.

    \b
    muster os release gpu007 --reason 'goes back to the pool'

    Exit: 0 released or released already, 1 not done, or the answer was no, 2 usage.
    """
    from healthcheck.store import ledger
    from healthcheck.store.file import opened
    from inventory.locate import state_dir
    from provisioning.bmc.permission import why_not
    from provisioning.osinstall.base import OsError

    inventory, wanted = _named(node, file)
    at = state_dir(state)
    backend = _backend(rules, at)
    for _ in range(2):          # a job may have come while the person thought
        if why := why_not(inventory, [wanted], off=True).get(node):
            click.echo(f"{node}: not done: {why}")
            return 1
        if dry_run:
            click.echo(f"{node}: would have MAAS release it. Nothing changed.")
            return 0
        if not confirm("release", [node], stops=True, yes=yes):
            break
        yes = True
    with opened(at, make=True) as store:
        with store.writing() as db:
            line = ledger.begin(db, time.time(), who(), "os release", node, clean(reason.strip()), "")
        try:
            message, code = "accepted" if backend.release(wanted, typed=node) else "it is released already", 0
        except OsError as problem:
            message, code = f"not done: {problem}", 1
            if problem.done is None:
                message = f"it is not known whether it was done: {problem}"
        with store.writing() as db:
            ledger.finish(db, line, clean(message, 300), time.time())
    click.echo(f"{node}: {message}")
    return code


def _named(node: str, file: str | None) -> tuple[Inventory, Node]:
    from inventory.load import load_inventory
    from inventory.locate import needed_inventory

    path = needed_inventory(file, "no inventory was found, and only it says which nodes there are: "
                            "--inventory FILE")
    inventory = load_inventory(path)
    if node not in inventory.nodes:
        raise UsageError(f"{inventory.source} has no node {short(node)}; one is released at a time, by its "
                         "whole name")
    return inventory, inventory.nodes[node]


def _backend(rules: str | None, at: Path) -> SupportsRelease:
    from healthcheck.config.rulesfolder import folders
    from provisioning.bmc.connect import controller
    from provisioning.bringup.policy.load import load
    from provisioning.osinstall.base import OsReport, OsState, SupportsRelease
    from provisioning.osinstall.registry import OsTools

    found = folders(rules)
    chosen = load(found).os
    backend = chosen.make(OsTools(
        lambda node: OsReport(OsState.UNKNOWN, "it was not asked"),
        lambda node: controller(node, folder=at), at, tuple(found)))
    if not isinstance(backend, SupportsRelease):
        raise UsageError(f"os: by: {chosen.by} of bringup.yaml takes no machine back; expected maas: "
                         "muster help maas")
    return backend
