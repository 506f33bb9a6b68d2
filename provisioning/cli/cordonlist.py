"""`muster cordon` without nodes: our cordons by the store, what became of each by the back end, and marks
that the store has no open cordon for, each with the command that ends it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from healthcheck.store.cordons import Cordon
    from healthcheck.store.strays import Stray
    from inventory.model import Inventory
    from provisioning.actions.base import Backend, NodeHold
    from provisioning.actions.choose import Options


def listed(folder: Path, option: str | None, options: Options, given: str) -> int:
    """Prints the list; makes no store. `given` are the options that the next command needs, too. Gives the
    exit code: 3 where the back end could not be asked."""
    from healthcheck.store.cordons import names, open_cordons
    from healthcheck.store.file import NAME, opened
    from healthcheck.store.renaming import unfinished
    from inventory.errors import MusterError, UsageError
    from inventory.load import load_inventory
    from inventory.locate import find_inventory
    from provisioning.actions.base import ActionError
    from provisioning.actions.choose import backend

    if options.hostfile is not None and options.golden is not None:
        raise UsageError("--hostfile and --golden exclude each other: give one")
    with opened(folder) if (folder / NAME).exists() else nullcontext() as store:
        ours = open_cordons(store) if store is not None else []
        stores = names(store) if store is not None else frozenset()
        renames = unfinished(store) if store is not None else []
    there: Inventory | None = None
    through: Backend | None = None
    seen: Mapping[str, NodeHold] | None = None
    code, trouble = 0, ""
    try:
        path = find_inventory(option)
        there = load_inventory(path) if path is not None else None
        through = backend(there, options, lambda line: click.echo(line, err=True))
        seen = _seen(through, ours, there)
    except ActionError as error:
        code, trouble = 3, str(error)
    except UsageError as error:     # there is none to ask
        trouble = str(error)
    except MusterError as error:
        code, trouble = 3, str(error)
    rows = list(_rows(ours, through, seen, there, given))
    if through is not None and seen is not None:
        rows += _strays(through, seen, ours, stores, given)
    for row in rows or ["no cordons"]:
        click.echo(row)
    for rename in renames:
        click.echo(f"note: a rename was cut short: muster inventory rename {rename.old} {rename.new}",
                   err=True)
    if trouble:
        click.echo("note: this is what the store knows; marks that it does not know are not listed: "
                   f"{trouble}", err=True)
    return code


def _seen(through: Backend, ours: Iterable[Cordon], there: Inventory | None) -> Mapping[str, NodeHold]:
    """All marks there, and who holds the nodes of our own cordons."""
    from provisioning.actions.base import marked

    cordoned = {one.node for one in ours if one.backend == through.name}
    shown = marked(through, {*cordoned, *(there.nodes if there is not None else ())})
    rest = sorted(cordoned - shown.keys())
    return {**shown, **(through.held(rest) if rest else {})}


def _rows(
    ours: Iterable[Cordon], through: Backend | None, seen: Mapping[str, NodeHold] | None,
    there: Inventory | None, given: str,
) -> Iterator[str]:
    for one in ours:
        began = dt.datetime.fromtimestamp(one.began, dt.timezone.utc).strftime("%Y-%m-%dT%H:%MZ")
        beside = _beside(one, through, seen)
        if there is not None and one.node not in there.nodes:
            beside.append(f"not in the inventory: muster uncordon {one.node}{given}")
        yield (f"{one.node}  {one.mark}  {one.backend}  {began}  {one.who}  {one.why}"
               + "".join(f"  ({text})" for text in beside))


def _beside(one: Cordon, through: Backend | None, seen: Mapping[str, NodeHold] | None) -> list[str]:
    """What the back end shows instead of a cordon, or beside it."""
    from healthcheck.store.cordons import CordonState
    from provisioning.actions.ownership import instead, whose

    if through is None or seen is None or one.backend != through.name:
        return []
    if one.state is CordonState.MEANT:
        return ["it is not known whether it was made: muster triage --apply reads it again"]
    text = instead(whose(one, seen[one.node]), one, seen[one.node])
    return [text] if text else []


def _strays(
    through: Backend, seen: Mapping[str, NodeHold], ours: Collection[Cordon], stores: Collection[str],
    given: str,
) -> list[str]:
    """A line for each mark of none of our open cordons. What a person wrote beside one of ours stands in its
    own line."""
    from healthcheck.store.strays import StrayKind
    from provisioning.actions.ownership import strays

    found = strays(seen, [one for one in ours if one.backend == through.name], stores)
    return [_stray(one, through.name, given) for one in found if one.kind is not StrayKind.PERSON]


def _stray(one: Stray, backend: str, given: str) -> str:
    from healthcheck.store.marks import ended_by, typed_mark
    from healthcheck.store.strays import StrayKind

    whose = ("of a store that this one does not know" if one.kind is StrayKind.STORE
             else "ours, without an open cordon in this store")
    mark = typed_mark(one.mark)
    assert mark is not None  # noqa: S101  (what the back end showed had its form)
    return (f"{one.node}  {one.mark}  {backend}  {whose}: "
            f"{one.words.removeprefix(f'{one.mark}: ')}; to end it: {ended_by(mark)}{given}")
