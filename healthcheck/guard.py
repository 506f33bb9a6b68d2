"""The guard between checks and facts: it lets a check see values only, and remembers every attempt to read anything else.

This is what makes 'not measured is never PASS' hold without the care of a check's author: reading an unmeasured field raises,
and the attempt is on record even if the check swallows the exception.

A guard holds the plain values of its fact as attributes of its own, so that reading them costs what any attribute costs; whatever is
not there is looked up the slow way, through the tracker. Guards are made once per node and serve all of its rules, one run at a time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from functools import cached_property
from operator import is_
from typing import Any

from healthcheck.checks.base import NotMeasured
from healthcheck.facts.base import UNSUPPORTED, Fact, Unmeasured, Unsupported


class NotSupported(Exception):
    """A check met a field that the device does not have."""


class Tracker:
    """What one run of a check tried to read and could not, per fact object (by identity).

    `wrap` makes guards that report to this tracker for good, or, made through `Guards`, until the next run begins.
    """

    def __init__(self) -> None:
        self.unmeasured: dict[int, tuple[Fact, Unmeasured]] = {}
        self.fields: set[str] = set()
        self.unsupported: dict[int, tuple[Fact, str]] = {}
        self._guards: Guards | None = None

    def value(self, fact: Fact, field: str, value: object) -> object:
        """The value, if there is one; raises, and remembers, where there is none."""
        if isinstance(value, (Unmeasured, Unsupported)):
            self.fields.add(field)
        if isinstance(value, Unmeasured):
            self.unmeasured.setdefault(id(fact), (fact, value))
            raise NotMeasured(fact, value.reason)
        if isinstance(value, Unsupported):
            self.unsupported.setdefault(id(fact), (fact, field))
            raise NotSupported(f"{fact.name}: {field} is not supported")
        return value

    def wrap(self, value: Any) -> Any:
        """A fact, or a tuple of facts, with its readings guarded; facts that are whole pass as they are."""
        if self._guards is None:
            self._guards = Guards(self)
        return self._guards.wrap(value)


class Guards:
    """The guards of one node's facts, made when first asked for. `tracker` is that of the run that goes on."""

    def __init__(self, tracker: Tracker | None = None) -> None:
        self.tracker = tracker or Tracker()
        # By identity, with the value itself beside it: so no other can come to have its number.
        self._made: dict[int, tuple[Any, Any]] = {}
        self._caveats: dict[int, tuple[Any, tuple[str, ...]]] = {}

    def caveats(self, value: Any) -> tuple[str, ...]:
        """What a PASS over a fact, or over a tuple of them, does not cover; each caveat once."""
        known = self._caveats.get(id(value))
        if known is None:
            facts = value if type(value) is tuple else (value,)
            known = value, tuple(dict.fromkeys(fact.caveat for fact in facts if isinstance(fact, Fact) and fact.caveat))
            self._caveats[id(value)] = known
        return known[1]

    def wrap(self, value: Any) -> Any:
        """A fact, or a tuple of facts, with its readings guarded; facts that are whole pass as they are."""
        known = self._made.get(id(value))
        if known is not None:
            return known[1]
        if isinstance(value, Fact):
            if whole(value):
                return value
            made: Any = _Guarded(value, self)
        elif type(value) is tuple:
            # There may be hundreds (links), nearly all of them whole.
            items = [item if isinstance(item, Fact) and _PLAIN.issuperset(map(type, vars(item).values())) else self.wrap(item)
                     for item in value]
            made = value if all(map(is_, items, value)) else tuple(items)
        else:
            return value
        self._made[id(value)] = (value, made)
        return made


_NO_VALUE = (Unmeasured, Unsupported, Fact, tuple)
_PLAIN = frozenset((int, float, str, bool))


def whole(fact: Fact) -> bool:
    """Whether every field of the fact is a plain value."""
    values = vars(fact).values()
    return _PLAIN.issuperset(map(type, values)) or not any(isinstance(value, _NO_VALUE) for value in values)


class _Held:
    """Holds attributes."""


_held = _Held.__dict__["__dict__"].__get__


class _Guarded(_Held):
    """Stands for a fact; reads of what is no plain value go through the tracker. The fact's properties and methods see it as self."""

    def __init__(self, fact: Fact, guards: Guards) -> None:
        held = _held(self)
        held.update(vars(fact))
        for name, value in vars(fact).items():
            if type(value) not in _PLAIN and isinstance(value, _NO_VALUE):
                del held[name]
        # No field has such names.
        held["the fact"] = fact
        held["the guards"] = guards

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        # What is not measured would merely be missing from it.
        raise TypeError("a check reads a fact's fields by their names")

    def __getattr__(self, name: str) -> Any:
        held = _held(self)
        fact, guards = held["the fact"], held["the guards"]
        if name not in vars(fact):
            member = getattr(type(fact), name, None)
            if isinstance(member, property) and member.fget is not None:
                return member.fget(self)
            if isinstance(member, cached_property):
                return member.func(self)
            if callable(member):
                return member.__get__(self)
        return guards.wrap(guards.tracker.value(fact, name, getattr(fact, name)))

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __repr__(self) -> str:
        return f"<{_held(self)['the fact'].name}>"


def original(fact: object) -> object:
    """The fact behind a guard."""
    return _held(fact)["the fact"] if type(fact) is _Guarded else fact


class Subjects(tuple[Any, ...]):
    """A collection of facts from which the unmeasured ones were set aside: iterating skips them, `len` still counts them.

    So a check that counts its subjects does not accuse a node of missing what merely could not be read.
    """

    everything: int

    @classmethod
    def of(cls, items: tuple[Any, ...], without: Collection[int]) -> Subjects:
        """The collection without the facts whose identities are given."""
        subjects = cls([item for item in items if id(original(item)) not in without] if without else items)
        subjects.everything = len(items)
        return subjects

    def __len__(self) -> int:
        return self.everything

    def __iter__(self) -> Iterator[Any]:
        return tuple.__iter__(self)


__all__ = ["UNSUPPORTED", "Guards", "NotMeasured", "NotSupported", "Subjects", "Tracker", "original", "whole"]
