"""What a run writes down, many machines in one transaction; a dry run writes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from healthcheck.model.trouble import Trouble
from healthcheck.store import bringupnotes as notes
from healthcheck.store.file import Store
from inventory.text import clean
from provisioning.bringup.engine.advance import MOST
from provisioning.bringup.engine.model import Operation, OperationResult

_WORD = 80      # characters of a part, a slot or a serial number


class Journal:
    """The store as a run writes it. Every method is for inside `transaction()`, which is one transaction."""

    def __init__(self, store: Store | None, who: str) -> None:
        self._store = store
        self._who = who
        self._db: sqlite3.Connection | None = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is written in here is there afterwards, all of it, or none. Raises StoreError."""
        if self._store is None:
            yield
            return
        with self._store.writing() as db:
            self._db = db
            try:
                yield
            finally:
                self._db = None

    def entered(self, node: str, step: str, now: float) -> None:
        """A machine is checked in a step for the first time."""
        if self._db is not None:
            notes.entered(self._db, node, step, now)

    def stood(
        self, node: str, stand: str, message: str, *, again: float | None = None, looked: float | None = None,
        kept: Mapping[str, str] | None = None,
    ) -> None:
        """How a machine stands."""
        if self._db is not None:
            notes.stood(self._db, node, stand, clean(message, MOST), again=again, looked=looked, kept=kept)

    def left(self, node: str, step: str, outcome: str, onward: str | None, now: float, why: str = "") -> None:
        """A machine is through with a step."""
        if self._db is not None:
            notes.left(self._db, node, step, outcome, onward, now, why)

    def troubled(self, node: str, step: str, troubles: Sequence[Trouble], now: float) -> None:
        """What is wrong with a machine, nothing where it is empty."""
        if self._db is not None:
            notes.troubled(self._db, node, step, [_row(one) for one in troubles], now)

    def operation_started(self, node: str, step: str, operation: Operation, now: float) -> int:
        """An operation is about to be done; gives its number."""
        assert self._db is not None  # noqa: S101  (a dry run does nothing)
        return notes.action_begun(
            self._db, node, step, operation.key, operation.name, operation.change, self._who, now)

    def operation_ended(self, number: int, made: OperationResult, now: float) -> None:
        """What became of an operation."""
        if self._db is not None:
            notes.action_ended(self._db, number, made.done, clean(made.message, MOST), now)

    def operation_learned(self, number: int, made: OperationResult, now: float) -> None:
        """What was learned later of an operation of which no one knew the end."""
        if self._db is not None and made.done is not None:
            notes.action_learned(self._db, number, made.done, clean(made.message, MOST), now)


def _row(one: Trouble) -> tuple[str, str, str, str, str, str]:
    return (clean(one.what, MOST), one.owner.value, clean(one.hand, MOST),
            clean(one.part, _WORD), clean(one.slot, _WORD), clean(one.serial, _WORD))
