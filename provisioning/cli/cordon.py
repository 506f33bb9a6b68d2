"""`muster cordon` and `muster uncordon`: keep new jobs away from nodes, and release nodes."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.options import STATE
from inventory.cli.chosen import chosen, who
from inventory.cli.confirm import YES_MANY, confirm
from inventory.cli.formatted import as_json as format_option
from inventory.cli.stacked import stacked
from inventory.errors import StoreError, StoreMoved, UsageError
from inventory.text import clean, short

if TYPE_CHECKING:
    from healthcheck.store.file import Store
    from healthcheck.store.marks import CordonMark
    from provisioning.actions.base import Backend
    from provisioning.actions.choose import Options
    from provisioning.actions.cordon import CordonResult


_common = stacked(
    click.option("--hostfile", metavar="FILE",
                 help="A file of hosts that launch scripts leave out, instead of what `cordon:` says."),
    click.option("--golden", metavar="FILE",
                 help="A file of the nodes that launch scripts may use, instead of what `cordon:` says."),
    YES_MANY,
    click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing."),
    click.option("--inventory", "-i", metavar="FILE",
                 help="For groups in NODES, and `cordon:`. Default: as for muster check."),
    STATE)


@click.command()
@click.argument("words", nargs=-1, metavar="[adopt|forget] [NODES]",
                shell_complete=completing.node_set)
@click.option("--reason", metavar="TEXT", help="Why; shown with the mark of the cordon.")
@_common
@format_option("json: the list (muster.cordons/1), or what became of each of NODES (muster.outcomes/1).")
def cordon(
    words: tuple[str, ...], reason: str | None, hostfile: str | None, golden: str | None, dry_run: bool,
    yes: bool, inventory: str | None, state: str | None, as_json: bool,
) -> int:
    """Keep new jobs away from NODES; running jobs go on. Without NODES: list our cordons, and what the back
    end shows in our form beside them, with the command that ends it.

    The inventory chooses the back end: `cordon: slurm`, `cordon: kubernetes`, {hostfile: FILE}, {golden:
    FILE} or {command: [PROGRAM, ...]}. The default is Slurm.

    A node that is already drained or down stays as it is, whoever did that. Every cordon has a mark
    ("muster:7f3a#12: ..."), and `muster uncordon` releases only nodes with our mark. The store records what
    was done, when and by whom.

    A node becomes a person's when they edit the reason next to our mark. `muster nodes` and `muster triage`
    list such nodes, and marks of another store or of a copy of this one. `adopt` turns them into a cordon of
    ours, without a moment in which jobs could start. `forget` removes the mark: a node that no one else holds
    goes back to jobs, and a person's text stays as their drain.

    \b
    muster cordon gpu007 --reason 'fan 3 is loud'
    muster cordon 'gpu[001-004]' --reason 'new cables' --hostfile /shared/bad-hosts --dry-run
    muster cordon
    muster cordon adopt gpu007 --reason 'the old head is gone'
    muster cordon forget gpu007 --reason 'it was repaired last week'

    It works without a store, too (a full disk, a damaged file): the cordon has a mark of its own, and the
    store takes it in once it can be opened.

    For more than 32 nodes it asks first; --yes answers.

    Exit: 0 no job starts there now, 1 some node could not be cordoned, 2 usage.
    """
    from healthcheck.store.file import opened
    from inventory.locate import state_dir
    from provisioning.actions import strays
    from provisioning.actions.choose import Options
    from provisioning.actions.cordon import cordon as act
    from provisioning.actions.unstored import cordon_unstored
    from provisioning.cli.cordonlist import listed

    verb, nodes = _verb(words)
    options = Options(hostfile, golden)
    if nodes is None:
        if reason is not None:
            raise UsageError("--reason goes with NODES: muster cordon gpu007 --reason 'fan 3 is loud'")
        return listed(state_dir(state), inventory, options, _given(hostfile, golden, inventory, state),
                      _given(None, None, inventory, state), as_json=as_json)
    if reason is None or not reason.strip():
        raise UsageError("--reason is missing: it is shown on the drained node")
    folder, why = state_dir(state), _clean_reason(reason)
    if verb:
        with opened(folder, make=True) as store:
            names, backend = _held(nodes, inventory, options, store)
            confirm(f"cordon {verb}", names, stops=False, yes=yes or dry_run)
            does = strays.adopt if verb == "adopt" else strays.forget
            return _print_results(does(store, backend, names, why, who(), time.time, dry=dry_run), as_json)
    names, backend = _chosen(nodes, inventory, options)
    confirm("cordon", names, stops=False, yes=yes or dry_run)
    try:
        with opened(folder, make=True) as store:
            return _print_results(act(store, backend, names, why, who(), time.time, dry=dry_run), as_json)
    except StoreMoved:
        raise
    except StoreError as error:
        click.echo(f"muster: {error}; it is cordoned without the store, which takes it in once it can be "
                   "opened", err=True)
    done = cordon_unstored(folder, backend, names, why, who(), time.time, dry=dry_run)
    return _print_results(done, as_json)


def _verb(words: tuple[str, ...]) -> tuple[str, str | None]:
    """The verb and its nodes; no nodes means a list."""
    verb, rest = (words[0], words[1:]) if words[:1] in (("adopt",), ("forget",)) else ("", words)
    if verb and not rest:
        raise UsageError(f"NODES are missing: muster cordon {verb} gpu007 --reason TEXT; see: muster triage")
    if len(rest) > 1:
        example = " ".join(("muster cordon", *words[: len(words) - len(rest)], "gpu007,gpu008"))
        raise UsageError(f"one set of nodes is expected, not {len(rest)}: {example} --reason TEXT")
    return verb, rest[0] if rest else None


@click.command()
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@click.option("--mark", "marks", metavar="MARK", multiple=True,
              help="End this mark, which `muster cordon` lists, and no other; may be repeated.")
@click.option("--reason", metavar="TEXT", default="by hand", help="For the ledger.")
@_common
@format_option("json: what became of each node (muster.outcomes/1).")
def uncordon(
    nodes: str | None, marks: tuple[str, ...], reason: str, hostfile: str | None, golden: str | None,
    dry_run: bool, yes: bool, inventory: str | None, state: str | None, as_json: bool,
) -> int:
    """Give NODES that we hold back to jobs. Nodes without our mark, or with that of another store, are left
    alone, and who holds them is shown.

    NODES may be names that the inventory does not have any more, as long as a cordon or a mark is on them.
    With --mark, end exactly that mark wherever it stands, also one that this store does not know; what a
    person wrote beside it stays.

    \b
    muster uncordon gpu007
    muster uncordon @train --dry-run
    muster uncordon --mark 'muster:7f3a#12' --reason 'left by the old head'

    For more than 32 nodes it asks first; --yes answers.

    Exit: 0 all of them are free now, 1 some node is not, 2 usage.
    """
    from healthcheck.store.file import opened
    from inventory.locate import state_dir
    from provisioning.actions.byhand import end_mark, give_back
    from provisioning.actions.choose import Options

    if (nodes is None) == (not marks):
        raise UsageError("NODES or --mark is expected, one of them: muster uncordon gpu007; see: muster "
                         "cordon")
    wanted = [_mark(text) for text in marks]
    options, why = Options(hostfile, golden), _clean_reason(reason)
    with opened(state_dir(state), make=True) as store:
        if nodes is not None:
            names, backend = _held(nodes, inventory, options, store)
            confirm("uncordon", names, stops=False, yes=yes or dry_run)
            done = give_back(store, backend, names, why, who(), time.time, dry=dry_run)
        else:
            known, backend = _through(inventory, options)
            done = [one for mark in dict.fromkeys(wanted)
                    for one in end_mark(store, backend, mark, known, why, who(), time.time, dry=dry_run)]
        return max(_print_results(done, as_json), int(not dry_run and any(one.held for one in done)))


def _mark(text: str) -> CordonMark:
    from healthcheck.store.marks import typed_mark

    mark = typed_mark(text)
    if mark is None:
        raise UsageError(f"--mark is {short(text)}, expected a mark such as muster:7f3a#12; see: muster "
                         "cordon")
    return mark


def _given(hostfile: str | None, golden: str | None, inventory: str | None, state: str | None) -> str:
    """The options that the next command needs, too, as a shell takes them."""
    named = {"--hostfile": hostfile, "--golden": golden, "--inventory": inventory, "--state": state}
    return "".join(f" {key} {shlex.quote(value)}" for key, value in named.items() if value is not None)


def _through(option: str | None, options: Options) -> tuple[tuple[str, ...], Backend]:
    """The names that the inventory has, if there is one, and the back end."""
    from inventory.load import usual_inventory
    from provisioning.actions.choose import backend

    found = usual_inventory(option)
    return tuple(found.nodes) if found is not None else (), backend(found, options, _to_stderr)


def _held(nodes: str, option: str | None, options: Options, store: Store) -> tuple[tuple[str, ...], Backend]:
    """As `_chosen`, and also names that the inventory does not have, where a cordon or a mark is on them.
    No other node's name is suggested: that one is not meant."""
    from healthcheck.store.cordons import open_cordons
    from inventory.load import load_inventory
    from inventory.locate import find_inventory
    from inventory.nodeset import expand, fold
    from provisioning.actions.base import marked
    from provisioning.actions.choose import backend

    path = find_inventory(option)
    if path is None:
        return _chosen(nodes, option, options)
    there = load_inventory(path)
    through = backend(there, options, _to_stderr)
    names = expand(nodes, there.groups, there.nodes.keys())
    strange = [name for name in names if name not in there.nodes]
    strange = [name for name in strange if name not in {one.node for one in open_cordons(store)}]
    if strange:
        shown = marked(through, strange)
        strange = [name for name in strange if name not in shown]
    if strange:
        raise UsageError(f"{there.source} has no node {short(fold(strange))}, and no cordon or mark is on "
                         "it; see: muster cordon")
    if not names:
        raise UsageError(f"{short(nodes)} selects no node")
    return names, through


def _chosen(nodes: str, option: str | None, options: Options) -> tuple[tuple[str, ...], Backend]:
    from provisioning.actions.choose import backend

    names, found = chosen(nodes, option)
    return names, backend(found, options, _to_stderr)


def _to_stderr(line: str) -> None:
    click.echo(line, err=True)


def _clean_reason(reason: str) -> str:
    """The typed reason, which may not be UTF-8, in a form that the store and every back end can keep."""
    return clean(reason.strip())


def _print_results(done: Sequence[CordonResult], as_json: bool) -> int:
    from provisioning.actions.cordon import document

    if as_json:
        click.echo(json.dumps(document(done), indent=1))
    else:
        for one in done:
            click.echo(f"{one.node}: {one.message}")
    return int(any(one.failed for one in done))
