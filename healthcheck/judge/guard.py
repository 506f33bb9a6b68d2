"""The guard between checks and facts: it lets a check see values only, and remembers every attempt to read anything else.

This is what makes 'not measured is never PASS' hold without the care of a check's author: reading an unmeasured field raises,
and the attempt is on record even if the check swallows the exception.

A guard holds plain values of its fact as attributes of its own, so that reading them costs what any attribute costs; whatever is not
there is looked up the slow way, through the tracker. Guards are made once per node and serve all of its rules, one run at a time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import is_
from typing import Any

from healthcheck.checks.base import NotMeasured
from healthcheck.facts.values import UNSUPPORTED, Fact, Partial, Unmeasured, Unsupported

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
        self, tracker: Tracker | None = None, common: Mapping[int, Subject] | None = None, read: set[tuple[type, str]] | None = None, *,
        few: bool = False,
    ) -> None:
        """`common` holds subjects by the identity of facts that several nodes have, and that whoever gives it keeps.

        Into `read`, if it is given, goes every field that is read, with the fact's type.
        """
        self.tracker = tracker or Tracker()
        self.read = read
        # Whether few fields are to be read (few rules are judged, or those of fleets): then a guard holds what was read, and not from the
        # outset all that may be, and a fact of many fields is not looked through for one without a value.
        self.few = few
        self.asked: dict[type, dict[str, None]] = {}
        self._common: Mapping[int, Subject] = {} if common is None else common
        # By identity, with the value itself beside it: so no other can come to have its number.
        self._made: dict[int, tuple[Any, Any]] = {}
        self._subjects: dict[int, Subject] = {}

    def fresh(self) -> Tracker:
        """A tracker for a run that begins: the last run's, where that has nothing on record."""
        if not self.tracker.clean or self.tracker.fields:
            self.tracker = Tracker()
        return self.tracker

    def let_go(self) -> None:
        """Lets go of all guards, which know of this in turn: their memory is free at once, and not when Python looks for such circles."""
        self._made.clear()
        self._subjects.clear()

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
        caveats = tuple(dict.fromkeys([item.caveat for item in items if isinstance(item, Fact) and item.caveat]))
        plain = partly is None and not caveats and value != ()
        return Subject(fact, value, self.wrap(value), plain, partly=partly, caveats=caveats)

    def wrap(self, value: Any) -> Any:
        """A fact, or a tuple of facts, with its readings guarded; facts that are whole pass as they are."""
        known = self._made.get(id(value))
        if known is not None:
            return known[1]
        if isinstance(value, Fact):
            if self._passes(value):
                return value
            made: Any = _Guarded(value, self)
        elif type(value) is tuple and not bare(value):
            # There may be hundreds (links), nearly all of them whole.
            items = [item if isinstance(item, Fact) and self._passes(item) else self.wrap(item) for item in value]
            made = value if all(map(is_, items, value)) else tuple(items)
        else:
            return value
        self._made[id(value)] = (value, made)
        return made

    def _passes(self, fact: Fact) -> bool:
        """Whether a fact needs no guard."""
        return self.read is None and not (self.few and len(vars(fact)) > _MANY_FIELDS and not operates(type(fact))) and whole(fact)  # type: ignore[arg-type]


_NO_VALUE = (Unmeasured, Unsupported, Fact, tuple)
_PLAIN = frozenset((str, int, float, bool))
# From this many fields looking through them all costs more than guarding the few that are read.
_MANY_FIELDS = 8
# So much a guard holds when the first field was looked up: the fact, its guards, and that.
_NEW = 3


def whole(fact: Fact) -> bool:
    """Whether every field of the fact is a plain value, or a tuple of such."""
    values = vars(fact).values()
    gaps = _gaps(tuple(map(type, values)))
    if not gaps:
        return True
    held = list(values)
    return all(type(held[at]) is tuple and bare(held[at]) for at in gaps)


def bare(values: tuple[Any, ...]) -> bool:
    """Whether nothing in it is ever guarded."""
    return not _gaps(tuple(set(map(type, values))))


@lru_cache(maxsize=1024)
def operates(kind: type) -> bool:
    """Whether facts of this kind say themselves what is asked of them by operators (bool, len, <, str): a guard in their place does not."""
    return any(not vars(base).keys().isdisjoint(_OPERATORS) for base in kind.__mro__ if base is not object)


_OPERATORS = frozenset((
    "__bool__", "__len__", "__iter__", "__contains__", "__getitem__", "__lt__", "__le__", "__gt__", "__ge__", "__str__", "__format__",
    "__call__", "__int__", "__float__", "__index__", "__enter__",
    *(f"__{side}{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor") for side in ("", "r")),
))


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
        if guards.read is None and not guards.few:
            held.update(values)
            names = list(values)
            for at in _gaps(tuple(map(type, values.values()))):
                del held[names[at]]
        # No field has such names.
        held["the fact"] = fact
        held["the guards"] = guards

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(_held(self)["the fact"])        # for isinstance and match: a check that asks for a kind of facts means guarded ones too

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        if _wholly(self):
            values: dict[str, Any] = vars(_held(self)["the fact"])
            return values
        # What is not measured would merely be missing from it.
        raise TypeError("a check reads a fact's fields by their names")

    @property
    def __dataclass_fields__(self) -> dict[str, Any]:
        fields: dict[str, Any] = self.__getattr__("__dataclass_fields__")       # dataclasses.replace looks for it in the class
        return fields

    def __getattr__(self, name: str) -> Any:
        held = _held(self)
        fact, guards = held["the fact"], held["the guards"]
        values = fact.__dict__
        if name in values:
            value = values[name]
            if type(value) in _PLAIN and guards.read is None:
                held[name] = value
                if len(held) == _NEW:
                    # What others of its kind were asked for, this one will be asked for next.
                    asked = guards.asked.setdefault(type(fact), {})
                    asked[name] = None
                    held.update({other: values[other] for other in asked if type(values.get(other)) in _PLAIN})
                elif name not in (asked := guards.asked.setdefault(type(fact), {})):
                    asked[name] = None
                return value
        else:
            member = getattr(type(fact), name, None)
            if isinstance(member, property) and member.fget is not None:
                return member.fget(self)
            if isinstance(member, cached_property):
                return member.func(self)
            if callable(member):
                return member.__get__(self)
            value = getattr(fact, name)
        if guards.read is not None:
            guards.read.add((type(fact), name))
        elif not isinstance(value, _NO_VALUE) or (type(value) is tuple and bare(value)):
            held[name] = value
            return value
        return guards.wrap(guards.tracker.value(fact, name, value))

    def __eq__(self, other: object) -> bool:
        return self is other or (_wholly(self) and bool(_held(self)["the fact"] == other))

    def __hash__(self) -> int:
        return hash(_held(self)["the fact"]) if _wholly(self) else id(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __repr__(self) -> str:
        return repr(_held(self)["the fact"]) if _wholly(self) else f"<{_held(self)['the fact'].name}>"


def _wholly(guarded: _Guarded) -> bool:
    """Notes that a fact was taken as a whole; whether it is one without gaps, and so would be compared by its values if it had no guard."""
    held = _held(guarded)
    read = held["the guards"].read
    if read is not None:
        read.add(Guards.WHOLLY)
        return False
    return whole(held["the fact"])


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
