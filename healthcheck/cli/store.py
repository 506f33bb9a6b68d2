"""`muster store`: looks after the file in which sweeps are remembered."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from inventory.cli.span import span
from inventory.errors import StoreError, UsageError

_STATE = click.option("--state", metavar="DIR", help="Where the store is. Default: MUSTER_STATE, XDG, /var/lib/muster.")


@click.group()
def store() -> None:
    """Look after the store: one SQLite file in the state folder, to which `muster check --store` writes.

    \b
    muster store show                    what it holds
    muster store check                   whether it is whole
    muster store backup /backup/muster.db
    muster store restore /backup/muster.db   on another head, after this one is lost
    muster store prune --older 90d       forget what ended before that
    """


@store.command()
@_STATE
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True)
def show(state: str | None, form: str) -> None:
    """Say what the store holds."""
    from healthcheck.store.file import opened
    from healthcheck.store.history import size
    from inventory.locate import state_dir

    with opened(state_dir(state)) as held:
        found = {"file": str(held.path), "bytes": held.path.stat().st_size, **vars(size(held))}
    if form == "json":
        click.echo(json.dumps({"schema": "muster.store/1", **found}))
        return
    for name, value in found.items():
        click.echo(f"{name:<11}{value}")


@store.command()
@_STATE
def check(state: str | None) -> int:
    """Say whether the file is whole; exit 2 where it is not."""
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
@_STATE
def backup(file: str, state: str | None) -> None:
    """Write a whole copy to FILE, as of one moment, while sweeps go on; an older copy there is replaced when the new one is whole."""
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
@click.option("--replace", is_flag=True, help="Where there is a store: keep it aside, and put the copy in its place.")
@_STATE
def restore(file: Path, replace: bool, state: str | None) -> None:
    """Put the copy FILE of `muster store backup` back, on this head or on another one; it is checked before anything is touched.

    The head that it is of must act no more. The store takes a new name: cordons from before the copy are known by their marks and are given
    back when their nodes are well; marks that the lost head made after it are nobody's, and are left alone until a person settles them.
    Keys, certificates and burn-ins are files beside the store, and are copied by other means.

    
    muster store restore /backup/muster.db
    muster store restore /backup/muster.db --replace && muster triage

    Exit: 0 restored, 2 not, and nothing was changed.
    """
    import datetime as dt

    from healthcheck.store.restore import restore as put_back
    from inventory.cli.chosen import who
    from inventory.locate import state_dir

    made = put_back(file, state_dir(state), who(), time.time(), replace=replace)
    when = f"{dt.datetime.fromtimestamp(made.newest, dt.timezone.utc):%Y-%m-%dT%H:%MZ}" if made.newest is not None else ""
    newest = f"its newest sweep is of {when}" if when else "no sweep"
    many = f"{made.cordons} cordon{'s' * (made.cordons != 1)}"
    click.echo(f"restored: {many}, {newest}; marks are muster:{made.name}#N from now on, and those of "
               f"{', '.join(made.was)} are known")
    if made.aside is not None:
        click.echo(f"what was there is kept as {made.aside}")
    click.echo("next: see that the head that this is a copy of acts no more; muster check --store; muster triage")


@store.command()
@click.option("--older", metavar="SPAN", required=True, callback=span(86400, 3650 * 86400), help="Forget what ended so long ago: 90d, 26w.")
@_STATE
def prune(older: float, state: str | None) -> None:
    """Forget what ended long ago, and end what no sweep has seen since. What muster did, and where components sit, stays."""
    from healthcheck.store.file import opened
    from healthcheck.store.history import prune as forget
    from inventory.locate import state_dir

    with opened(state_dir(state)) as held:
        click.echo(f"{forget(held, time.time() - older)} rows forgotten")
