"""Marks and words that a back end shows and that no cordon of this store accounts for,
as the newest snapshot had them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from healthcheck.store.file import Store


class StrayKind(Enum):
    """What a stray is."""

    PERSON = "person"       # our mark, with a person's words, or given by another user than it was
    STORE = "store"         # the mark of a store that this one does not know
    NUMBER = "number"       # a mark of ours of which this store has no open cordon


@dataclass(frozen=True)
class Stray:
    """What stands on one node: the mark, and the words beside it or instead of ours."""

    node: str
    kind: StrayKind
    mark: str
    words: str


def keep(store: Store, backend: str, nodes: Collection[str], found: Collection[Stray], now: float) -> None:
    """What a snapshot of these nodes showed takes the place of what the one before did."""
    with store.writing() as db:
        db.executemany("DELETE FROM stray WHERE backend = ? AND node = ?",
                       [(backend, node) for node in nodes])
        db.executemany("INSERT INTO stray (backend, node, kind, mark, words, seen) VALUES (?, ?, ?, ?, ?, ?)",
                       [(backend, one.node, one.kind.value, one.mark, one.words, now) for one in found])


def strays(store: Store) -> list[Stray]:
    """All that the newest snapshots showed."""
    return [Stray(row[0], StrayKind(row[1]), row[2], row[3])
            for row in store.rows("SELECT node, kind, mark, words FROM stray ORDER BY node")]
