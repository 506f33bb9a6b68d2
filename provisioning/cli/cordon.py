"""`muster cordon` and `muster uncordon`: keep new jobs away from nodes, and give them back."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from inventory.cli.chosen import chosen, who
from inventory.errors import UsageError
from inventory.text import clean

if TYPE_CHECKING:
    from provisioning.actions.base import Backend
    from provisioning.actions.choose import Options
    from provisioning.actions.cordon import CordonResult


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--state", metavar="DIR", help="Where the store is. Default: MUSTER_STATE, XDG, /var/lib/muster."),
        click.option("--inventory", "-i", metavar="FILE", help="For groups in NODES, and `cordon:`. Default: as for muster check."),
        click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing."),
        click.option("--golden", metavar="FILE", help="A file of the nodes that launch scripts may use, instead of what `cordon:` says."),
        click.option("--hostfile", metavar="FILE", help="A file of hosts that launch scripts leave out, instead of what `cordon:` says."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("words", nargs=-1, metavar="[adopt|forget] [NODES]")
@click.option("--reason", metavar="TEXT", help="Why, for whoever wonders; it is shown with the mark of the cordon.")
@_common
def cordon(
    words: tuple[str, ...], reason: str | None, hostfile: str | None, golden: str | None, dry_run: bool, inventory: str | None,
    state: str | None,
) -> int:
    """Keep new jobs away from NODES; what runs goes on. Without NODES: list our cordons.

    Where is the site's choice, in the inventory: `cordon: slurm`, `cordon: kubernetes`, {hostfile: FILE}, {golden: FILE} or
    {command: [PROGRAM, ...]}. Without one it is Slurm.

    A node that is drained or down already stays as it is, whoever did that. Every cordon carries its mark ("muster:7f3a#12: ..."), and
    `muster uncordon` gives back no other. What was done, when and by whom is kept in the store.

    What a person writes beside our mark makes the node theirs. Such nodes, and marks of another store or of a copy of this one, are listed
    by `muster nodes` and `muster triage`. `adopt` makes them a cordon of ours, without a moment in which jobs could start. `forget` takes
    the mark away: what nobody else holds goes back to jobs, and what a person wrote beside it stays as their drain.

    \b
    muster cordon gpu007 --reason 'fan 3 is loud'
    muster cordon 'gpu[001-004]' --reason 'new cables' --hostfile /shared/bad-hosts --dry-run
    muster cordon
    muster cordon adopt gpu007 --reason 'the old head is gone'
    muster cordon forget gpu007 --reason 'it was repaired last week'

    Exit: 0 nobody gets jobs there now, 1 some node could not be cordoned, 2 usage.
    """
    from healthcheck.store.cordons import open_cordons
    from healthcheck.store.file import opened
    from inventory.locate import state_dir
    from provisioning.actions import strays
    from provisioning.actions.choose import Options
    from provisioning.actions.cordon import cordon as act

    verb, nodes = _verb(words)
    if nodes is None:
        if reason is not None:
            raise UsageError("--reason goes with NODES: muster cordon gpu007 --reason 'fan 3 is loud'")
        with opened(state_dir(state), make=True) as store:
            for one in open_cordons(store):
                began = dt.datetime.fromtimestamp(one.began, dt.timezone.utc).strftime("%Y-%m-%dT%H:%MZ")
                click.echo(f"{one.node}  {one.mark}  {one.backend}  {began}  {one.who}  {one.why}")
        return 0
    if reason is None or not reason.strip():
        raise UsageError("--reason is missing: whoever finds the node drained wants to know why")
    names, backend = _chosen(nodes, inventory, Options(hostfile, golden))
    with opened(state_dir(state), make=True) as store:
        does = {"": act, "adopt": strays.adopt, "forget": strays.forget}[verb]
        return _told(does(store, backend, names, _words(reason), who(), time.time, dry=dry_run))


def _verb(words: tuple[str, ...]) -> tuple[str, str | None]:
    """What is to be done, and to which nodes; none means a list."""
    verb, rest = (words[0], words[1:]) if words[:1] in (("adopt",), ("forget",)) else ("", words)
    if verb and not rest:
        raise UsageError(f"NODES are missing: muster cordon {verb} gpu007 --reason TEXT; see: muster triage")
    if len(rest) > 1:
        example = " ".join(("muster cordon", *words[: len(words) - len(rest)], "gpu007,gpu008"))
        raise UsageError(f"one set of nodes is expected, not {len(rest)}: {example} --reason TEXT")
    return verb, rest[0] if rest else None


@click.command()
@click.argument("nodes")
@click.option("--reason", metavar="TEXT", default="by hand", help="For the ledger.")
@_common
def uncordon(
    nodes: str, reason: str, hostfile: str | None, golden: str | None, dry_run: bool, inventory: str | None, state: str | None,
) -> int:
    """Give NODES back to jobs where we hold them. What carries no mark of ours, or that of another store, is left alone.

    \b
    muster uncordon gpu007
    muster uncordon @train --dry-run

    Exit: 0 done, 1 some node could not be given back, 2 usage.
    """
    from healthcheck.store.file import opened
    from inventory.locate import state_dir
    from provisioning.actions.choose import Options
    from provisioning.actions.cordon import uncordon as act

    names, backend = _chosen(nodes, inventory, Options(hostfile, golden))
    with opened(state_dir(state)) as store:
        return _told(act(store, backend, names, _words(reason), who(), time.time, dry=dry_run))


def _chosen(nodes: str, option: str | None, options: Options) -> tuple[tuple[str, ...], Backend]:
    from provisioning.actions.choose import backend

    names, found = chosen(nodes, option)
    return names, backend(found, options, lambda line: click.echo(line, err=True))


def _words(reason: str) -> str:
    """What somebody typed, which may be no UTF-8, as the store and every back end can keep it."""
    return clean(reason.strip())


def _told(done: Iterable[CordonResult]) -> int:
    code = 0
    for one in done:
        click.echo(f"{one.node}: {one.said}")
        code = max(code, int(one.failed))
    return code
