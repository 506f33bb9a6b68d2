"""`muster store move`: gives the store to another head, after which this one no longer acts."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import click

from healthcheck.cli.options import STATE
from inventory.cli.chosen import who
from inventory.errors import UsageError

_LOCKS = (("triage.lock", "triage"), ("remediate.lock", "remediate"), ("bringup.lock", "bringup run"),
          ("firmware.lock", "firmware update"))


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--back", is_flag=True, help="Keep the store here after all.")
@STATE
def move(file: Path | None, back: bool, state: str | None) -> None:
    """Write the store to FILE for another head; from then on this head no longer acts, and commands say so.

    A triage or bring-up at work and an open lease refuse it. After a kill the same command goes on. On the
    new head: muster store restore FILE.

    \b
    muster store move /shared/muster.db
    muster store move --back

    Exit: 0 moved, 2 not moved.
    """
    from healthcheck.store.file import opened
    from healthcheck.store.leases import open_leases
    from healthcheck.store.move import keep_here, move_to
    from inventory.locate import state_dir
    from provisioning.lease.runlock import alone

    if back is (file is not None):
        raise UsageError("give either FILE or --back: muster store move /shared/muster.db")
    folder = state_dir(state)
    with opened(folder, moved=True) as store, ExitStack() as stack:
        if file is None:
            keep_here(store, who(), time.time())
            click.echo("the store is kept here; make sure that no other head has restored the copy")
            return
        for lock, what in _LOCKS:
            stack.enter_context(alone(folder, lock, what, "store move"))
        if leases := open_leases(store):
            raise UsageError(f"lease {leases[0].name} is open ({leases[0].why}): end it first, see muster "
                             "lease list")
        cordons = move_to(store, file.absolute(), who(), time.time())
    click.echo(f"moved to {file}: {cordons} cordon{'s' * (cordons != 1)}; this head no longer acts")
    click.echo(f"next, on the new head: muster store restore {file}")
    if beside := _beside(folder):
        click.echo(f"beside the store are {', '.join(beside)}; for the new head: tar -C {folder} -cf - "
                   f"{' '.join(beside)} | ssh NEWHEAD tar -C {folder} -xf -")


def _beside(folder: Path) -> list[str]:
    """What else the state folder holds that a head needs."""
    return sorted(path.name for path in folder.iterdir()
                  if not path.name.startswith((".", "muster.")) and path.suffix != ".lock")
