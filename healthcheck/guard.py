"""The guard between checks and facts: it lets a check see values only, and remembers every attempt to read anything else.

This is what makes 'not measured is never PASS' hold without the care of a check's author: reading an unmeasured field raises,
and the attempt is on record even if the check swallows the exception.

A guard holds the plain values of its fact as attributes of its own, so that reading them costs what any attribute costs; whatever is
not there is looked up the slow way, through the tracker. Guards are made once per node and serve all of its rules, one run at a time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import is_
from typing import Any

from healthcheck.checks.base import NotMeasured
from healthcheck.facts.base import UNSUPPORTED, Fact, Partial, Unmeasured, Unsupported

MOST_SUBJECTS = 4096


class NotSupported(Exception):
    """A check met a field that the device does not have: made of the fact and the field's name."""

    def __str__(self) -> str:
        fact, field = self.args     # in words only where they are wanted, for most are of no account
        return f"{fact.name}: {field} is not supported"


class Tracker:
    """What one run of a check tried to read and could not, per fact object (by identity).

    `wrap` makes guards that report to this tracker for good, or, made through `Guards`, until the next run begins.
    """

    @property
    def clean(self) -> bool:
        """Whether nothing was asked for in vain."""
        return not self.unmeasured and not self.unsupported

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
            raise NotSupported(fact, field)
        return value

    def wrap(self, value: Any) -> Any:
        """A fact, or a tuple of facts, with its readings guarded; facts that are whole pass as they are."""
        if self._guards is None:
            self._guards = Guards(self)
        return self._guards.wrap(value)


@dataclass(frozen=True)
class Subject:
    """One fact, or tuple of facts, as all rules of a node meet it.

    `value` is what was measured of it and `guarded` the same under guard; `nothing` says why it was not measured at all, `partly` why
    not wholly; `caveats` are what a PASS over it does not cover, each once. It is `plain` where it can be judged and none of this is.
    """

    fact: Any
    value: Any
    guarded: Any
    plain: bool
    nothing: Unmeasured | None = None
    partly: Unmeasured | None = None
    caveats: tuple[str, ...] = ()


class Guards:
    """The guards of one node's facts, made when first asked for. `tracker` is that of the run that goes on."""

    # In `read`: facts themselves were compared.
    WHOLLY: tuple[type, str] = (Fact, "")

    def __init__(
        self, tracker: Tracker | None = None, common: Mapping[int, Subject] | None = None, read: set[tuple[type, str]] | None = None,
    ) -> None:
        """`common` holds subjects by the identity of facts that several nodes have, and that whoever gives it keeps.

        Into `read`, if it is given, goes every field that is read, with the fact's type; and `runs` counts runs.
        """
        self.tracker = tracker or Tracker()
        self.read = read
        self.runs = 0
        self._common: Mapping[int, Subject] = {} if common is None else common
        # By identity, with the value itself beside it: so no other can come to have its number.
        self._made: dict[int, tuple[Any, Any]] = {}
        self._subjects: dict[int, Subject] = {}

    def fresh(self) -> Tracker:
        """A tracker for a run that begins: the last run's, where that has nothing on record."""
        self.runs += 1
        if not self.tracker.clean or self.tracker.fields:
            self.tracker = Tracker()
        return self.tracker

    def subject(self, fact: Any) -> Subject:
        """What is known of a fact (or Partial, or Unmeasured) before any check reads it."""
        known = self._subjects.get(id(fact)) or self._common.get(id(fact))
        if known is None:
            known = self._subjects[id(fact)] = self._subject(fact)
        return known

    def _subject(self, fact: Any) -> Subject:
        value, partly = fact, None
        if type(value) is tuple and len(value) > MOST_SUBJECTS:
            value = Partial(value[:MOST_SUBJECTS], f"more than {MOST_SUBJECTS}: the rest was not judged")
        if isinstance(value, Partial):
            value, partly = value.value, Unmeasured(value.reason)
        if isinstance(value, Unmeasured):
            return Subject(fact, value, value, plain=False, nothing=value)
        items = value if type(value) is tuple else (value,)
        caveats = tuple(dict.fromkeys(item.caveat for item in items if isinstance(item, Fact) and item.caveat))
        plain = partly is None and not caveats and value != ()
        return Subject(fact, value, self.wrap(value), plain, partly=partly, caveats=caveats)

    def wrap(self, value: Any) -> Any:
        """A fact, or a tuple of facts, with its readings guarded; facts that are whole pass as they are."""
        known = self._made.get(id(value))
        if known is not None:
            return known[1]
        if isinstance(value, Fact):
            if self.read is None and whole(value):
                return value
            made: Any = _Guarded(value, self)
        elif type(value) is tuple:
            # There may be hundreds (links), nearly all of them whole.
            items = [item if self.read is None and isinstance(item, Fact) and not _gaps(tuple(map(type, vars(item).values())))
                     else self.wrap(item) for item in value]
            made = value if all(map(is_, items, value)) else tuple(items)
        else:
            return value
        self._made[id(value)] = (value, made)
        return made


_NO_VALUE = (Unmeasured, Unsupported, Fact, tuple)


def whole(fact: Fact) -> bool:
    """Whether every field of the fact is a plain value."""
    return not _gaps(tuple(map(type, vars(fact).values())))


@lru_cache(maxsize=4096)
def _gaps(kinds: tuple[type, ...]) -> tuple[int, ...]:
    """The places of values of these types that are never handed to a check as they are; facts are of few forms."""
    return tuple(at for at, kind in enumerate(kinds) if issubclass(kind, _NO_VALUE))


class _Held:
    """Holds attributes."""


_held = _Held.__dict__["__dict__"].__get__


class _Guarded(_Held):
    """Stands for a fact; reads of what is no plain value go through the tracker. The fact's properties and methods see it as self."""

    def __init__(self, fact: Fact, guards: Guards) -> None:
        held, values = _held(self), vars(fact)
        if guards.read is None:
            held.update(values)
            names = list(values)
            for at in _gaps(tuple(map(type, values.values()))):
                del held[names[at]]
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
        if guards.read is not None:
            guards.read.add((type(fact), name))
        return guards.wrap(guards.tracker.value(fact, name, getattr(fact, name)))

    def __eq__(self, other: object) -> bool:
        _wholly(self)
        return self is other

    def __hash__(self) -> int:
        _wholly(self)
        return id(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __repr__(self) -> str:
        return f"<{_held(self)['the fact'].name}>"


def _wholly(guarded: _Guarded) -> None:
    read = _held(guarded)["the guards"].read
    if read is not None:
        read.add(Guards.WHOLLY)


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
        subjects = cls([item for item in items if id(_held(item)["the fact"] if type(item) is _Guarded else item) not in without])
        subjects.everything = len(items)
        return subjects

    def __len__(self) -> int:
        return self.everything

    def __iter__(self) -> Iterator[Any]:
        return tuple.__iter__(self)


__all__ = ["MOST_SUBJECTS", "UNSUPPORTED", "Guards", "NotMeasured", "NotSupported", "Subject", "Subjects", "Tracker", "original", "whole"]
