"""What a rule says of facts that are alike in everything that its check reads of them is found out once.

Most rules cost less than such a look-up. Dear are those whose check meets one subject after another that has no such reading: a run each,
on every node, of GPUs and disks that differ in serial numbers and temperatures alone. So where a rule took several runs, it is judged once
more over guards that write down every field that is read. A check is a pure function of what it reads: on a node whose facts have equal
values in these fields it reads the same ones again, in the same order, and says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from healthcheck.facts.base import Fact
from healthcheck.guard import Guards
from healthcheck.judge import MOST_RUNS, Facts, judge
from healthcheck.outcome import Result, Status
from healthcheck.rule import Rule
from healthcheck.sku import Sku

# From this many runs a rule is dear, up to this many subjects they are compared, and after so many nodes in vain no more for that rule.
_DEAR, _MANY, _TRIES = 3, 64, 16
_MOST = 4096

Getters = Mapping[type, Callable[[Any], Any]]
# What the engine itself reads of each fact.
_ALWAYS = ("name", "caveat")
_NAMES = attrgetter(*_ALWAYS)


class Alike:
    """Results of dear rules by what their checks read; for one sweep."""

    def __init__(self) -> None:
        self._read: dict[int, Getters] = {}
        self._fields: dict[int, set[tuple[type, str]]] = {}
        self._vain: dict[int, int] = {}
        self._known: dict[tuple[Any, ...], Result] = {}

    def clear(self) -> None:
        """Forgets the results."""
        self._known.clear()

    def result(
        self, rule: Rule, sku: Sku | None, facts: Facts, previous: Facts | None, guards: Guards, named: Facts, marks: Mapping[str, int],
    ) -> Result:
        """What the rule says of a node. `named` holds its facts as checks call them, `marks` what stands for one that nodes share, or 0."""
        number = id(rule)
        if self._vain.get(number, 0) >= _TRIES:
            return judge(rule, facts, previous, sku, guards)
        getters = self._read.get(number)
        key = self._key(rule, sku, named, marks, getters) if getters is not None else None
        known = self._known.get(key) if key is not None else None
        if known is not None:
            self._vain[number] = 0
            return known
        before = guards.runs
        result = judge(rule, facts, previous, sku, guards)
        # Of a finding the numbers are shown, and equal ones may look different (1, 1.0).
        if (getters is not None or guards.runs - before >= _DEAR) and guards.runs - before < MOST_RUNS and result.status is not Status.FAIL:
            self._vain[number] = self._vain.get(number, 0) + 1
            self._learn(rule, sku, facts, previous, named, marks, result)
        return result

    def _learn(
        self, rule: Rule, sku: Sku | None, facts: Facts, previous: Facts | None, named: Facts, marks: Mapping[str, int], result: Result,
    ) -> None:
        number = id(rule)
        guards = Guards(read=set())
        again = judge(rule, facts, previous, sku, guards)
        read = guards.read or set()
        if again != result or Guards.WHOLLY in read:
            self._vain[number] = _TRIES         # it compares facts with one another, and not what they say
            return
        fields = self._fields.setdefault(number, set())
        if number not in self._read or not read <= fields:
            fields |= read
            kinds = {kind for kind, _ in fields}
            self._read[number] = {kind: attrgetter(*_ALWAYS, *sorted(field for owner, field in fields if owner is kind)) for kind in kinds}
        key = self._key(rule, sku, named, marks, self._read[number])
        if key is not None:
            if len(self._known) >= _MOST:
                self.clear()
            self._known[key] = result


    def _key(self, rule: Rule, sku: Sku | None, named: Facts, marks: Mapping[str, int], getters: Getters) -> tuple[Any, ...] | None:
        """What is equal for nodes of which the check would read the same; None where that cannot be told."""
        # The fields only ever become more: their number tells which they were.
        parts: list[Any] = [id(rule), id(sku), len(self._fields[id(rule)])]
        for name in rule.checked.facts:
            part: Any = marks[name]
            if not part:
                value = named[name]
                facts = value if type(value) is tuple else (value,)
                kinds = set(map(type, facts))
                if len(kinds) != 1 or len(facts) > _MANY:
                    return None
                kind = kinds.pop()
                if not issubclass(kind, Fact):
                    return None
                part = (type(value), kind, tuple(map(getters.get(kind, _NAMES), facts)))
            parts.append(part)
        key = tuple(parts)
        try:
            hash(key)
        except TypeError:       # a field that holds a mapping
            return None
        return key
