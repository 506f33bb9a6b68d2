"""Marks of captures: equal for those that say the same, so that what was made of one need not be made of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from healthcheck.model.recording import Capture, Entries, Kindred, Outcome

if TYPE_CHECKING:
    from healthcheck.facts.base import Captures

Builder = Callable[["Captures"], Any]
Mark = tuple[Any, ...]
NOTHING = object()
# Looked up once: an enum's members cost more than the rest.
_DONE, _TIMEOUT = Outcome.DONE, Outcome.TIMEOUT


class Store(Protocol):
    """Where what was built is kept for other captures that say the same (healthcheck.judge.shared)."""

    def find(self, key: Mark) -> Any:
        """What was made of such captures, or NOTHING."""

    def keep(self, key: Mark, value: Any) -> Any:
        """Takes what was made of them; gives it back, or what is equal to it and known already."""

    def depends(self, key: Mark, on: Own) -> None:
        """From now on this is found there: what is made of such captures depends on what is each node's own in them."""

    def find_own(self, key: Mark) -> Any:
        """As `find`, of captures that say the same in what is each node's own, too."""

    def own_differs(self, name: str) -> bool:
        """Whether for the fact of this name that hardly ever finds anything."""

    def same(self, name: str, value: Any) -> Any:
        """A fact of this name, or what is equal to it and known already."""

    def holds(self, value: Any) -> bool:
        """Whether it is a fact that nodes have in common, and so is known by its identity."""


def mark_of(capture: Capture) -> Mark | None:
    """What is equal for captures that are equal but for files that are each node's own, and for no others, nor for none at all (()); None
    where that cannot be told (they were not read from JSON)."""
    files = capture.files
    if not files:
        serial = -1
    elif type(files) is Kindred:
        serial = files.kin.serial
    elif type(files) is Entries:
        serial = files.serial
    else:
        return None
    # How long it took is looked at only where it did not end. Of an enum's member the name is cheap to hash, and the member is not.
    outcome = capture.outcome
    if outcome is _DONE and capture.exit is None and not capture.stderr and not capture.note:
        return serial, capture.text         # as nearly all
    seconds = capture.seconds if outcome is _TIMEOUT else None
    return serial, outcome._name_, capture.exit, seconds, capture.text, capture.stderr, capture.note


def own_of(capture: Capture | None) -> Mark:
    """What the files say that are each node's own."""
    files = capture.files if capture is not None else None
    return tuple(files.texts.values()) if type(files) is Kindred else ()


class Own(NamedTuple):
    """What is made of captures depends on files that are each node's own: it reads such, or what the builders `through` make of them."""

    read: bool
    through: frozenset[Builder]


NOT = Own(False, frozenset())
READ = Own(True, frozenset())
