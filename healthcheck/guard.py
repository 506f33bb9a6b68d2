"""The guard between checks and facts: it lets a check see values only, and remembers every attempt to read anything else.

This is what makes 'not measured is never PASS' hold without the care of a check's author: reading an unmeasured field raises,
and the attempt is on record even if the check swallows the exception.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from healthcheck.checks.base import NotMeasured
from healthcheck.facts.base import UNSUPPORTED, Fact, Unmeasured, Unsupported


class NotSupported(Exception):
    """A check met a field that the device does not have."""


class Tracker:
    """What one run of a check tried to read and could not, per fact object (by identity)."""

    def __init__(self) -> None:
        self.unmeasured: dict[int, tuple[Fact, Unmeasured]] = {}
        self.fields: set[str] = set()
        self.unsupported: dict[int, tuple[Fact, str]] = {}

    def value(self, fact: Fact, field: str, value: object) -> Any:
        """The value as a check may see it; raises where there is none."""
        if isinstance(value, (Unmeasured, Unsupported)):
            self.fields.add(field)
        if isinstance(value, Unmeasured):
            self.unmeasured.setdefault(id(fact), (fact, value))
            raise NotMeasured(fact, value.reason)
        if isinstance(value, Unsupported):
            self.unsupported.setdefault(id(fact), (fact, field))
            raise NotSupported(f"{fact.name}: {field} is not supported")
        return self.wrap(value)

    def wrap(self, value: Any) -> Any:
        """A fact, or a tuple of facts, with its readings guarded; facts that are whole pass as they are."""
        if isinstance(value, Fact):
            return value if whole(value) else _Guarded(value, self)
        if type(value) is tuple and any(isinstance(item, Fact) for item in value):
            return tuple(self.wrap(item) for item in value)
        return value


def whole(fact: Fact) -> bool:
    """Whether every field of the fact is a plain value."""
    return not any(isinstance(value, (Unmeasured, Unsupported, Fact, tuple)) for value in vars(fact).values())


class _Guarded:
    """Stands for a fact; reads go through the tracker. Properties and methods of the fact see the guard as self."""

    __slots__ = ("_fact", "_tracker")

    def __init__(self, fact: Fact, tracker: Tracker) -> None:
        object.__setattr__(self, "_fact", fact)
        object.__setattr__(self, "_tracker", tracker)

    def __getattr__(self, name: str) -> Any:
        fact = object.__getattribute__(self, "_fact")
        tracker = object.__getattribute__(self, "_tracker")
        member = getattr(type(fact), name, None)
        if isinstance(member, property) and member.fget is not None:
            return member.fget(self)
        if name not in vars(fact) and callable(member):
            return member.__get__(self)
        return tracker.value(fact, name, getattr(fact, name))

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __repr__(self) -> str:
        return f"<{object.__getattribute__(self, '_fact').name}>"


def original(fact: object) -> object:
    """The fact behind a guard."""
    return object.__getattribute__(fact, "_fact") if isinstance(fact, _Guarded) else fact


class Subjects(tuple[Any, ...]):
    """A collection of facts from which the unmeasured ones were set aside: iterating skips them, `len` still counts them.

    So a check that counts its subjects does not accuse a node of missing what merely could not be read.
    """

    everything: int

    @classmethod
    def of(cls, items: tuple[Any, ...], without: set[int]) -> Subjects:
        """The collection without the facts whose identities are given."""
        subjects = cls(item for item in items if id(original(item)) not in without)
        subjects.everything = len(items)
        return subjects

    def __len__(self) -> int:
        return self.everything

    def __iter__(self) -> Iterator[Any]:
        return tuple.__iter__(self)


__all__ = ["UNSUPPORTED", "NotMeasured", "NotSupported", "Subjects", "Tracker", "original", "whole"]
