"""`muster cordon` without nodes: our cordons by the store, what became of each by the back end, and marks
that the store has no open cordon for, each with the command that ends it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from inventory.errors import MusterError, StoreError, UsageError
from inventory.times import minute

if TYPE_CHECKING:
    from healthcheck.store.cordons import Cordon
    from healthcheck.store.renaming import Renaming
    from healthcheck.store.strays import Stray
    from healthcheck.store.waiting import WaitingCordon
    from inventory.model import Inventory
    from provisioning.actions.base import Backend, NodeHold
    from provisioning.actions.choose import Options


@dataclass(frozen=True)
class _Stored:
    """The store's open cordons, its names in marks, renames cut short; `broken`: why it cannot be read."""

    cordons: tuple[Cordon, ...] = ()
    names: frozenset[str] = frozenset()
    renames: tuple[Renaming, ...] = ()
    broken: StoreError | None = None


@dataclass(frozen=True)
class _Row:
    """One mark. `kind` is ours, waiting (for the store to take it in) or stray, which has no `since` and no
    `who`; `notes` say what stands beside it; `end` is the command that ends it, "" for a plain uncordon."""

    kind: str
    node: str
    mark: str
    backend: str
    since: str
    who: str
    why: str
    notes: tuple[str, ...] = ()
    end: str = ""

    @property
    def line(self) -> str:
        if self.kind == "stray":
            return (f"{self.node}  {self.mark}  {self.backend}  {self.notes[0]}: {self.why}; to end it: "
                    f"{self.end}")
        notes = [*self.notes[:-1], f"{self.notes[-1]}: {self.end}"] if self.end else self.notes
        return (f"{self.node}  {self.mark}  {self.backend}  {self.since}  {self.who}  {self.why}"
                + "".join(f"  ({text})" for text in notes))


@dataclass
class _Shown:
    """What the back end shows, as far as it could be asked; else `trouble` says why, `code` the exit code."""

    there: Inventory | None = None
    backend: Backend | None = None
    held: Mapping[str, NodeHold] = field(default_factory=dict)
    trouble: str = ""
    code: int = 0


def listed(
    folder: Path, option: str | None, options: Options, given: str, elsewhere: str, *, as_json: bool,
) -> int:
    """Prints the list, or its document (muster.cordons/1); makes no store. `given` are the options that the
    next command needs, too, `elsewhere` those for a cordon in another back end. Gives the exit code: 3 where
    the back end could not be asked. Raises StoreError after the list."""
    from healthcheck.store.waiting import waiting_cordons
    from provisioning.actions.base import unlisted

    if options.hostfile is not None and options.golden is not None:
        raise UsageError("--hostfile and --golden exclude each other: give one")
    stored = _stored(folder)
    waiting = waiting_cordons(folder)       # what the store has not taken in as it was opened
    shown = _asked(option, options, stored)
    known = {str(one.mark) for one in waiting}
    rows = [*map(_waiting, waiting), *_rows(stored, shown, given, elsewhere),
            *_strays(stored, shown, given, known)]
    if as_json:
        click.echo(json.dumps({"schema": "muster.cordons/1", "trouble": shown.trouble or None,
                               "cordons": [_entry(row) for row in rows]}, indent=1))
    else:
        for row in rows:
            click.echo(row.line)
        if not rows and stored.broken is None:
            click.echo("no cordons by the store" if shown.trouble else "no cordons")
    for rename in stored.renames:
        click.echo(f"note: a rename was cut short: muster inventory rename {rename.old} {rename.new}",
                   err=True)
    if shown.trouble:
        click.echo("note: marks that the store does not know are not listed, as the back end cannot be "
                   f"asked: {shown.trouble}", err=True)
    if shown.backend is not None and (lacks := unlisted(shown.backend)):
        click.echo(f"note: {lacks}", err=True)
    if stored.broken is not None:
        raise stored.broken
    return shown.code


def _stored(folder: Path) -> _Stored:
    from healthcheck.store.cordons import names, open_cordons
    from healthcheck.store.file import NAME, opened
    from healthcheck.store.renaming import unfinished

    if not any((folder / f"{NAME}{end}").exists() for end in ("", "-wal")):
        return _Stored()
    try:
        with opened(folder) as store:
            return _Stored(tuple(open_cordons(store)), names(store), tuple(unfinished(store)))
    except StoreError as error:
        return _Stored(broken=error)


def _asked(option: str | None, options: Options, stored: _Stored) -> _Shown:
    """All marks that the back end shows, and who holds the nodes of our own cordons."""
    from inventory.load import usual_inventory
    from provisioning.actions.base import marked
    from provisioning.actions.choose import Options, backend

    shown = _Shown()
    chosen = options != Options()
    try:
        shown.there = usual_inventory(option)
        chosen |= shown.there is not None and shown.there.cordon is not None
        through = backend(shown.there, options, lambda line: click.echo(line, err=True))
        ours = {one.node for one in stored.cordons if _is_in(one, through)}
        marks = marked(through, {*ours, *(shown.there.nodes if shown.there is not None else ())})
        rest = sorted(ours - marks.keys())
        shown.held = {**marks, **(through.held(rest) if rest else {})}
        shown.backend = through
    except MusterError as error:        # no one has said that there is one, or it does not answer
        shown.trouble, shown.code = str(error), 3 * chosen
    return shown


def _entry(row: _Row) -> dict[str, Any]:
    return {**asdict(row), "since": row.since or None, "who": row.who or None, "end": row.end or None}


def _rows(stored: _Stored, shown: _Shown, given: str, elsewhere: str) -> Iterator[_Row]:
    for one in stored.cordons:
        beside, end = _beside(one, shown), ""
        if shown.there is not None and one.node not in shown.there.nodes:
            here = shown.backend is None or _is_in(one, shown.backend)
            file = f" --{one.backend} {shlex.quote(one.file)}" if one.file else ""
            beside.append("not in the inventory")
            end = f"muster uncordon {one.node}{given if here else file + elsewhere}"
        yield _Row("ours", one.node, str(one.mark), one.backend, minute(one.began), one.who, one.why,
                   tuple(beside), end)


def _is_in(one: Cordon, backend: Backend) -> bool:
    from provisioning.actions.base import file_of

    return one.backend == backend.name and one.file in ("", file_of(backend))


def _beside(one: Cordon, shown: _Shown) -> list[str]:
    """What the back end shows instead of a cordon, or beside it."""
    from healthcheck.store.cordons import CordonState
    from provisioning.actions.ownership import instead, whose

    if shown.backend is None or not _is_in(one, shown.backend):
        return [f"in {one.file}"] if one.file else []
    if one.state is CordonState.MEANT:
        return ["it is not known whether it was made: muster triage --apply reads it again"]
    held = shown.held[one.node]
    text = instead(whose(one, held), one, held)
    return [text] if text else []


def _waiting(one: WaitingCordon) -> _Row:
    """A cordon that was made without the store, which has yet to take it in."""
    return _Row("waiting", one.node, str(one.mark), one.backend, minute(one.began), one.who, one.why)


def _strays(stored: _Stored, shown: _Shown, given: str, waiting: Collection[str]) -> Iterator[_Row]:
    """A row for each mark without an open or waiting cordon; words beside ours are in its line."""
    from healthcheck.store.strays import StrayKind
    from provisioning.actions.ownership import strays

    if shown.backend is None:
        return
    ours = [one for one in stored.cordons if _is_in(one, shown.backend)]
    for one in strays(shown.held, ours, stored.names):
        if one.kind is not StrayKind.PERSON and one.mark not in waiting:
            yield _stray(one, shown.backend.name, given, blind=stored.broken is not None)


def _stray(one: Stray, backend: str, given: str, *, blind: bool) -> _Row:
    from healthcheck.store.marks import ended_by, typed_mark
    from healthcheck.store.strays import StrayKind

    whose = "of a store that this one does not know"
    if blind:
        whose = "the store cannot be read"
    elif one.kind is StrayKind.NUMBER:
        whose = "ours, without an open cordon in this store"
    mark = typed_mark(one.mark)
    assert mark is not None  # noqa: S101  (what the back end showed had its form)
    return _Row("stray", one.node, str(one.mark), backend, "", "", one.words.removeprefix(f"{one.mark}: "),
                (whose,), f"{ended_by(mark)}{given}")
