"""Marks for facts that are alike in all that nodes of a fleet have in common, though not in what is each node's own.

Two nodes' GPUs differ in serial numbers and temperatures, and most rules read neither. So of the facts of one name those fields are found
out in which nodes differ all the time; what the others hold bears a mark, and facts that bear the same one are alike to every rule that
reads no more than this. Which fields a rule read is written down by guards (healthcheck.judge.guard). A check is a pure function of what it
reads: where that is equal it reads the same again, in the same order, and says the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

from healthcheck.facts.values import Fact, Partial, Unmeasured
from healthcheck.judge.guard import operates

# More facts of one name are not compared, for that costs more than it spares.
_MANY = 64
# A field is each node's own when it differed this often from the node before, and on more than one node of so many.
_TIMES, _OF = 3, 8
# After so many nodes whose marks served no rule there are none any more.
_IN_VAIN = 48
_MOST = 256

# What the engine itself reads of each fact.
_ALWAYS = ("name", "caveat")
_numbers = itertools.count(-1, -1)


class Core:
    """The marks of the facts of one name, for one sweep. A mark is a number below 0, given once; 0 is none.

    `kind` is the type of the facts and `common` the fields that a mark stands for; `whole` as long as these are all that were met.
    Whoever can use a mark adds to `uses`.
    """

    def __init__(self) -> None:
        self.kind: type | None = None
        self.common: frozenset[str] = frozenset()
        self.whole = True
        self.uses = 0
        self._met = 0
        self._worth = True
        self._differed: dict[str, int] = {}
        self._fields: tuple[str, ...] = ()
        self._read: Callable[[tuple[Any, ...]], Iterable[tuple[Any, ...]]] = partial(map, attrgetter(*_ALWAYS))
        self._known: dict[Any, int] = {}
        self._once: set[int] = set()
        self._last: tuple[Any, ...] = ()
        self._usual: tuple[tuple[Any, ...], int] = (), 0        # what was known last, and its mark

    def mark(self, value: Any) -> int:
        """The mark of one node's facts of this name; 0 for such as were not met before, or cannot be compared."""
        if not self._worth:
            return 0
        self._met += 1
        if self._met > _IN_VAIN and not self.uses:
            self._give_up()
            return 0
        try:
            seen = self._seen(value)
            # Nodes that are alike come one after the other, and comparing costs less than hashing.
            if seen == self._usual[0]:
                return self._usual[1]
            known = self._known.get(seen) if seen is not None else 0
        except TypeError:       # a field that holds a mapping
            self._drop([field for field in self._fields if not all(_hashable(one, field) for one in _facts(value))])
            return 0
        except Exception:  # noqa: BLE001  (facts of a plug-in that cannot be compared are still to be judged)
            self._give_up()
            return 0
        if seen is None:
            return 0
        if known is not None:
            self._usual = seen, known
            return known
        self._compare(seen)
        return self._marked(seen)

    def _seen(self, value: Any) -> tuple[Any, ...] | None:
        """What is compared of the facts; None where they are not of one kind, or one of them is there twice."""
        if type(value) is Unmeasured:
            return (value,)
        if type(value) is self.kind:
            return (None, False, *self._read((value,)))
        items = _facts(value)
        kinds = set(map(type, items))
        if len(kinds) > 1 or len(items) > _MANY or len(set(map(id, items))) < len(items):
            return None
        if kinds != {self.kind} and not self._is_kind(kinds):
            return None
        partly = value.reason if type(value) is Partial else None
        whole = value.value if type(value) is Partial else value
        return (partly, type(whole) is tuple, *self._read(items))

    def _is_kind(self, kinds: set[type]) -> bool:
        """Takes the first kind of facts that is met for that of all. None at all are alike, too."""
        if self.kind is None:
            for kind in kinds:
                # A guard writes down no more than what is read by name.
                if not issubclass(kind, Fact) or not hasattr(kind, "__dataclass_fields__") or operates(kind):  # type: ignore[arg-type]
                    self._give_up()
                    return False
                self.kind = kind
                self._take([*_ALWAYS, *(field.name for field in fields(kind) if field.name not in _ALWAYS)])  # type: ignore[arg-type]
        return kinds <= {self.kind}

    def _take(self, names: Iterable[str]) -> None:
        self._fields = tuple(names)
        self.common = frozenset(self._fields)
        self._read = _reader(self.kind, self._fields)
        self._known.clear()
        self._once.clear()
        self._last = ()
        self._usual = (), 0

    def _drop(self, names: Iterable[str]) -> None:
        """Fields that marks do not stand for from now on."""
        dropped = set(names)
        if dropped & set(_ALWAYS):
            self._give_up()
        elif dropped:
            self.whole = False
            self._take(field for field in self._fields if field not in dropped)

    def _give_up(self) -> None:
        self._worth = False
        self._take(_ALWAYS)

    def _compare(self, seen: tuple[Any, ...]) -> None:
        """Counts the fields in which these facts differ from those that were met before them, and drops each node's own."""
        last, self._last = self._last, seen
        if len(last) != len(seen) or len(seen) < 2:
            return
        differing = {place for one, other in zip(last[2:], seen[2:], strict=True) if one != other
                     for place, (was, now) in enumerate(zip(one, other, strict=True)) if was != now}
        for place in differing:
            name = self._fields[place]
            self._differed[name] = self._differed.get(name, 0) + 1
        self._drop([name for name, times in self._differed.items()
                    if name in self.common and times >= _TIMES and times * _OF > self._met])

    def _marked(self, seen: tuple[Any, ...]) -> int:
        """A number for what was met before; else it is remembered that it was met."""
        if not self._last:      # other fields are compared now
            return 0
        number = hash(seen)
        if number not in self._once:
            if len(self._once) >= _MOST * _OF:
                self._once.clear()
            self._once.add(number)
            return 0
        if len(self._known) >= _MOST:
            self._known.clear()
        mark = self._known[seen] = next(_numbers)
        return mark


def _reader(kind: type | None, names: tuple[str, ...]) -> Callable[[tuple[Any, ...]], Iterable[tuple[Any, ...]]]:
    """What reads these attributes of facts of one kind: for each fact a tuple of them."""
    held = {field.name for field in fields(kind)} if kind is not None and kind.__dictoffset__ else set()
    if held.issuperset(names):      # past all that attributes may be beside
        read = itemgetter(*names)
        return lambda items: map(read, map(vars, items))
    return partial(map, attrgetter(*names))


def _facts(value: Any) -> tuple[Any, ...]:
    held = value.value if type(value) is Partial else value
    return held if type(held) is tuple else (held,)


def _hashable(fact: Any, field: str) -> bool:
    try:
        hash(getattr(fact, field))
    except (TypeError, AttributeError):
        return False
    return True
