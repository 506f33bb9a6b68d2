"""`muster store`: maintains the file with stored sweeps."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from healthcheck.cli.options import STATE
from inventory.cli.span import span
from inventory.errors import StoreError, UsageError


@click.group()
def store() -> None:
    """Maintain the store: one SQLite file in the state folder, to which `muster check --store` writes.

    \b
    muster store show                    what it holds
    muster store check                   whether it is intact
    muster store backup /backup/muster.db
    muster store restore /backup/muster.db   on another head, after losing this one
    muster store prune --older 90d       delete what ended before that
    """


@store.command()
@STATE
@click.option("--format", "fmt", type=click.Choice(("text", "json")), default="text", show_default=True)
def show(state: str | None, fmt: str) -> None:
    """Show what the store holds.

    \b
    muster store show
    """
    from healthcheck.store.file import opened
    from healthcheck.store.history import size
    from inventory.locate import state_dir

    with opened(state_dir(state)) as held:
        found = {"file": str(held.path), "bytes": held.path.stat().st_size, **vars(size(held))}
    if fmt == "json":
        click.echo(json.dumps({"schema": "muster.store/1", **found}))
        return
    for name, value in found.items():
        click.echo(f"{name:<11}{value}")


@store.command()
@STATE
def check(state: str | None) -> int:
    """Check that the file is intact; exit 2 if it is not.

    \b
    muster store check && muster store backup /backup/muster.db
    """
    from healthcheck.store.file import opened
    from inventory.locate import state_dir

    with opened(state_dir(state)) as held:
        wrong = held.check()
        for line in wrong:
            click.echo(line)
        if wrong:
            raise StoreError(f"{held.path}: is damaged; put back a copy of `muster store backup`")
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
    from healthcheck.store.file import opened
    from inventory.locate import state_dir

    target = Path(file)
    with opened(state_dir(state)) as held:
        if target.exists() and target.samefile(held.path):
            raise UsageError(f"{file}: is the store itself")
        try:
            held.backup(target)
        except OSError as error:
            raise UsageError(f"{file}: cannot be written: {error.strerror}") from None
        click.echo(f"{file}: {target.stat().st_size} bytes")


@store.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True,
              help="Keep an existing store under another name, and restore the copy.")
@STATE
def restore(file: Path, replace: bool, state: str | None) -> None:
    """Restore the copy FILE of `muster store backup`, on this head or another one; it is checked first.

    The old head must no longer act. The store gets a new name: cordons from before the copy are recognised by
    their marks and released when their nodes are healthy; later marks of the lost head belong to no store,
    and a person must remove them. Keys, certificates and burn-ins are files beside the store; copy them
    separately.

    \b
    muster store restore /backup/muster.db
    muster store restore /backup/muster.db --replace && muster triage

    Exit: 0 restored, 2 not restored, nothing changed.
    """
    import datetime as dt

    from healthcheck.store.restore import restore as put_back
    from inventory.cli.chosen import who
    from inventory.locate import state_dir

    made = put_back(file, state_dir(state), who(), time.time(), replace=replace)
    when = (f"{dt.datetime.fromtimestamp(made.newest, dt.timezone.utc):%Y-%m-%dT%H:%MZ}"
            if made.newest is not None else "")
    newest = f"its newest sweep is of {when}" if when else "no sweep"
    many = f"{made.cordons} cordon{'s' * (made.cordons != 1)}"
    click.echo(f"restored: {many}, {newest}; new marks are muster:{made.name}#N, and those of "
               f"{', '.join(made.was)} are known")
    if made.aside is not None:
        click.echo(f"the previous store is kept as {made.aside}")
    click.echo("next: make sure that the old head no longer acts; muster check --store; muster triage")


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
    from healthcheck.store.file import opened
    from healthcheck.store.history import prune as forget
    from inventory.locate import state_dir

    with opened(state_dir(state)) as held:
        click.echo(f"{forget(held, time.time() - older)} rows deleted")
