"""`muster store`: maintains the file with stored sweeps."""

from __future__ import annotations

import json
import time
from importlib import import_module
from pathlib import Path

import click

from healthcheck.cli.options import STATE
from healthcheck.store.file import opened
from healthcheck.store.history import prune as forget
from healthcheck.store.history import size
from inventory.cli.formatted import as_json as format_option
from inventory.cli.formatted import formats
from inventory.cli.span import span
from inventory.errors import StoreError, UsageError
from inventory.locate import state_dir

# They ask back ends, and so are loaded by name, as commands of the root are.
PLACES = {
    "restore": "provisioning.cli.storerestore:restore",
    "reconcile": "provisioning.cli.storerestore:reconcile",
    "move": "provisioning.cli.storemove:move",
}


class _Store(click.Group):
    """A group of which some commands are loaded when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *PLACES})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in PLACES:
            return super().get_command(ctx, cmd_name)
        module, _, name = PLACES[cmd_name].partition(":")
        found: click.Command = getattr(import_module(module), name)
        return found


@click.group(cls=_Store)
def store() -> None:
    """Maintain the store: one SQLite file in the state folder, to which `muster check --store` writes.

    \b
    muster store show                    what it holds
    muster store check                   whether it is intact
    muster store backup /backup/muster.db
    muster store restore /backup/muster.db   on another head, after losing this one
    muster store move /shared/muster.db      to another head, while this one works
    muster store prune --older 90d       delete what ended before that
    """


@store.command()
@STATE
@formats()
def show(state: str | None, fmt: str) -> None:
    """Show what the store holds.

    \b
    muster store show
    """
    with opened(state_dir(state), moved=True) as held:
        found = {"file": str(held.path), "bytes": held.path.stat().st_size, **vars(size(held))}
    if fmt == "json":
        click.echo(json.dumps({"schema": "muster.store/1", **found}))
        return
    for name, value in found.items():
        click.echo(f"{name:<11}{value}")


@store.command()
@STATE
@format_option("json: muster.store-check/1.")
def check(state: str | None, as_json: bool) -> int:
    """Check that the file is intact; exit 2 if it is not.

    \b
    muster store check && muster store backup /backup/muster.db
    """
    with opened(state_dir(state), moved=True) as held:
        wrong = held.check()
        if as_json:
            click.echo(json.dumps({"schema": "muster.store-check/1", "file": str(held.path),
                                   "whole": not wrong, "wrong": wrong}))
        else:
            for line in wrong:
                click.echo(line)
        if wrong:
            raise StoreError(f"{held.path}: is damaged; put a copy of `muster store backup` back: muster "
                             "store restore FILE --replace, which keeps this one aside")
        if not as_json:
            click.echo(f"{held.path}: whole")
    return 0


@store.command()
@click.argument("file")
@STATE
def backup(file: str, state: str | None) -> None:
    """Write a consistent copy to FILE while sweeps continue; it replaces an older copy once complete.

    \b
    muster store backup /backup/muster.db
    """
    target = Path(file)
    with opened(state_dir(state), moved=True) as held:
        if target.exists() and target.samefile(held.path):
            raise UsageError(f"{file}: is the store itself")
        try:
            held.backup(target)
        except OSError as error:
            raise UsageError(f"{file}: cannot be written: {error.strerror}") from None
        click.echo(f"{file}: {target.stat().st_size} bytes")


@store.command()
@click.option("--older", metavar="SPAN", required=True, callback=span(86400, 3650 * 86400),
              help="Delete what ended this long ago: 90d, 26w.")
@STATE
def prune(older: float, state: str | None) -> None:
    """Delete what ended long ago, and end what no sweep has seen since.
    Keeps the ledger and where components are.

    \b
    muster store prune --older 90d
    """
    with opened(state_dir(state)) as held:
        click.echo(f"{forget(held, time.time() - older)} rows deleted")
