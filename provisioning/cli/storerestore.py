"""`muster store restore` and `reconcile`: a copy of the store back, and back ends beside it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli.options import STATE
from inventory.cli.chosen import who
from inventory.cli.stacked import stacked
from inventory.errors import MusterError, UsageError
from inventory.times import minute

if TYPE_CHECKING:
    from healthcheck.store.file import Store
    from inventory.model import Inventory
    from provisioning.actions.base import Backend
    from provisioning.actions.reconcile import Reconciled


_BACKENDS = stacked(
    click.option("--hostfile", metavar="FILE", multiple=True,
                 help="Also a file of hosts that launch scripts leave out; repeatable."),
    click.option("--golden", metavar="FILE", multiple=True,
                 help="Also a file of the nodes that launch scripts may use; repeatable."),
    click.option("--inventory", "-i", metavar="FILE",
                 help="For its nodes and `cordon:`. Default: as for muster check."),
    STATE)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True,
              help="Keep an existing store under another name, and restore the copy.")
@_BACKENDS
def restore(
    file: Path, replace: bool, hostfile: tuple[str, ...], golden: tuple[str, ...], inventory: str | None,
    state: str | None,
) -> None:
    """Restore the copy FILE of `muster store backup` or `muster store move`, on this head or another one.

    It is checked first, with what a -wal or -journal beside it holds. The old head must no longer act. The
    store gets a new name, so that no mark is given twice. Cordons from before the copy are recognised by
    their marks. Those that were made after it are taken in from the back ends: triage's own stay triage's,
    and a person ends the others with muster uncordon. What was released after it is over. Keys, certificates
    and burn-ins are files beside the store; copy them separately.

    \b
    muster store restore /backup/muster.db
    muster store restore /backup/muster.db --replace && muster triage

    Exit: 0 restored, 2 not restored, nothing changed.
    """
    from healthcheck.store.restore import restore as put_back
    from inventory.locate import state_dir

    folder = state_dir(state)
    found: list[Reconciled] = []
    troubles: list[str] = []

    def also(store: Store) -> None:
        found.extend(_asked(store, folder, *_all(inventory, hostfile, golden, troubles), troubles))

    made = put_back(file, folder, who(), time.time(), replace=replace, also=also)
    when = (f"{minute(made.newest)}"
            if made.newest is not None else "")
    newest = f"its newest sweep is of {when}" if when else "no sweep"
    many = f"{made.cordons} cordon{'s' * (made.cordons != 1)}"
    click.echo(f"restored: {many}, {newest}; new marks are muster:{made.name}#N, and those of "
               f"{', '.join(made.was)} are known")
    if made.taken:
        click.echo(f"taken in with the copy: {', '.join(made.taken)}")
    if made.left_out:
        click.echo(f"left out, as they are another store's: {', '.join(made.left_out)}")
    if made.aside is not None:
        click.echo(f"the previous store is kept as {made.aside}")
    _print(found)
    for line in troubles:
        click.echo(f"note: {line}: later, type muster store reconcile", err=True)
    click.echo("next: make sure that the old head no longer acts; muster check --store; muster triage")


@click.command()
@_BACKENDS
def reconcile(
    hostfile: tuple[str, ...], golden: tuple[str, ...], inventory: str | None, state: str | None,
) -> int:
    """Take in what the back ends show and a restored store does not know; no back end is changed.

    `muster store restore` does it, too. Type it where a back end could not be asked then.

    \b
    muster store reconcile
    muster store reconcile --hostfile /shared/bad-hosts

    Exit: 0 done, 1 a back end could not be asked, 2 usage.
    """
    from healthcheck.store.file import opened
    from inventory.locate import state_dir

    troubles: list[str] = []
    folder = state_dir(state)
    with opened(folder) as store:
        found = _asked(store, folder, *_all(inventory, hostfile, golden, troubles), troubles)
    _print(found)
    if found and not any(one.taken or one.over or one.strays for one in found):
        click.echo(f"nothing to take in: {', '.join(one.backend for one in found)}")
    for line in troubles:
        click.echo(f"muster: {line}", err=True)
    return int(bool(troubles))


def _all(
    option: str | None, hostfile: tuple[str, ...], golden: tuple[str, ...], troubles: list[str],
) -> tuple[list[Backend], Inventory | None]:
    """Every back end: the inventory's and those that are named. Why one is not known goes to `troubles`."""
    from inventory.load import usual_inventory
    from provisioning.actions.choose import Options, backend

    there: Inventory | None = None
    found: list[Backend] = []
    try:
        there = usual_inventory(option)
        found.append(backend(there))
    except UsageError as error:
        if not hostfile and not golden:
            troubles.append(f"no back end was asked for marks: {error}")
    except MusterError as error:        # a store must be restored without an inventory, too
        troubles.append(f"the back end of the inventory was not asked for marks: {error}")
    found += [backend(None, Options(hostfile=each)) for each in hostfile]
    found += [backend(None, Options(golden=each)) for each in golden]
    return found, there


def _asked(
    store: Store, folder: Path, backends: list[Backend], there: Inventory | None, troubles: list[str],
) -> list[Reconciled]:
    from healthcheck.store.cordons import open_cordons
    from healthcheck.store.waiting import waiting_cordons
    from provisioning.actions.base import ActionError, file_of, unlisted
    from provisioning.actions.reconcile import reconcile as bring_together

    waiting = [each.mark for each in waiting_cordons(folder)]
    done = []
    # Two files are one back end to the store: what either of them shows is not over.
    nodes = there.nodes if there is not None else ()
    for name in dict.fromkeys(one.name for one in backends):
        try:
            done.append(bring_together(store, [one for one in backends if one.name == name], nodes, who(),
                                       time.time, waiting=waiting))
        except ActionError as error:
            troubles.append(f"{name} could not be asked for marks: {error}")
    for text in dict.fromkeys(filter(None, map(unlisted, backends))):
        click.echo(f"note: {text}", err=True)
    names, files = {one.name for one in backends}, {file_of(one) for one in backends}
    others = {f"{one.backend} {one.file}".strip() for one in open_cordons(store)
              if one.backend not in names or (one.file and one.file not in files)}
    if others and backends:
        troubles.append(f"there are cordons in {', '.join(sorted(others))}, which was not asked for marks")
    return done


def _print(found: list[Reconciled]) -> None:
    from healthcheck.report.strays import lines
    from inventory.nodeset import fold

    for one in found:
        by_triage = [cordon for cordon in one.taken if cordon.verdict is not None]
        for taken in (by_triage, [cordon for cordon in one.taken if cordon.verdict is None]):
            if not taken:
                continue
            nodes = fold(cordon.node for cordon in taken)
            marks = ", ".join(str(cordon.mark) for cordon in taken[:5])
            more = ", ..." if len(taken) > 5 else ""
            ends = ("triage made them, and releases them when sweeps find them well" if taken is by_triage
                    else f"when they are fit: muster uncordon {nodes}")
            click.echo(f"{one.backend}: taken in, as made after the copy: {nodes} ({marks}{more}); {ends}")
        if one.over:
            click.echo(f"{one.backend}: released after the copy: {fold(cordon.node for cordon in one.over)}")
        for line in lines(one.strays):
            click.echo(line, err=True)
