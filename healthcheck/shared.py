"""What is made of equal answers is made once: facts of captures that say the same, and what rules say of such facts.

A fleet is built of the same parts, so most of what its nodes answer is equal to the letter (what the bus holds, which modules are loaded,
how Docker is set), and of one node two looks differ in its counters and temperatures alone. A fact is a pure function of the captures of
its probes, and a result of its rule, its SKU and the facts it takes: equal ones need no second making. What two nodes were not seen to
have in common is not kept, so that a fleet's own facts do not stay in memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from healthcheck.alike import Alike
from healthcheck.checks.base import PREVIOUS
from healthcheck.facts.base import FACTS, NOTHING, Captures, Mark, build_fact
from healthcheck.guard import Guards, Subject
from healthcheck.judge import Facts, judge
from healthcheck.outcome import Result
from healthcheck.recording import Recording
from healthcheck.rule import Rule
from healthcheck.sku import Sku

# Facts and results that are kept at most; a fleet of one SKU needs some hundreds.
_MOST = 8192
# From this many a tuple of facts is compared by the identity of the facts in it, for comparing values would cost more than it spares.
_MANY = 64
# So many different values of a fact that cannot be hashed are compared one by one.
_ALIKE = 4
# So many different values of a fact, and it is taken for one that differs between nodes.
_TRIES = 16
# Facts that the inventory gives (port plans): as many as there are kinds of nodes.
_MOST_GIVEN = 64


class Shared:
    """Facts by what they are made of, and results by the facts they are of; for one sweep."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._facts: dict[Mark, Any] = {}
        self._beside: dict[Mark, Any] = {}              # of the node that is looked at, whose two looks say much the same
        self._vain: dict[str, int] = {}
        self._unhashable: dict[str, list[Any]] = {}
        self._results: dict[Mark, Result] = {}
        self._subjects: dict[int, Subject] = {}
        self._alike = Alike()
        self._given: list[Any] = [None]                 # None: that there is no such fact is what nodes have in common, too
        self._common = self._of_given()

    def facts(self, recordings: Sequence[tuple[Recording, Iterable[str]]]) -> list[dict[str, Any]]:
        """Of recordings of one node the facts of the names given with each."""
        self._beside.clear()
        return [{name: build_fact(FACTS[name], captures) for name in names}
                for captures, names in ((Captures(recording, self), names) for recording, names in recordings)]

    def find(self, key: Mark) -> Any:
        """What was made of captures that say the same, of this node or of others."""
        found = self._beside.get(key, NOTHING)
        return found if found is not NOTHING else self._facts.get(key, NOTHING)

    def keep(self, key: Mark, value: Any) -> Any:
        """Takes what was made; gives back what is equal to it and known already, where there is such a thing."""
        value = self._equal(key[0], value)
        self._beside[key] = value
        if self._twice(key):
            self._hold(key, value)
        return value

    def _equal(self, name: str, value: Any) -> Any:
        """The equal fact that is known already, if there is one: answers differ in what no fact holds (an address, a serial number)."""
        # Never the key of captures: () is the mark of a probe that was not captured, and a measured fact too.
        if type(value) is tuple and len(value) >= _MANY:
            # Of many facts only whether they are the very same: builders share those of devices that say the same.
            key: Mark = ("very same", name, *map(id, value))
        elif self._vain.get(name, 0) < _TRIES:
            key = ("equal", name, value)
        else:
            return value
        try:
            known = self._facts.get(key, NOTHING)
            if known is not NOTHING:
                return known
            if self._twice(key):
                self._hold(key, value)
            else:
                self._vain[name] = self._vain.get(name, 0) + 1
        except TypeError:       # it holds a mapping
            return self._listed(name, value)
        return value

    def _listed(self, name: str, value: Any) -> Any:
        alike = self._unhashable.setdefault(name, [])
        for known in alike:
            if known == value:
                return known
        if len(alike) < _ALIKE:
            alike.append(value)
            self._common[id(value)] = value
        else:
            self._vain[name] = _TRIES
        return value

    def _twice(self, key: Mark) -> bool:
        number = hash(key)
        if number in self._seen:
            return True
        self._seen.add(number)
        return False

    def _hold(self, key: Mark, value: Any) -> None:
        if len(self._facts) >= _MOST or len(self._results) >= _MOST:
            self._facts.clear()
            self._unhashable.clear()
            self._common = self._of_given()
            self._results.clear()
            self._subjects.clear()
            self._alike.clear()
        self._facts[key] = self._common[id(value)] = value
        subject = Guards().subject(value)
        if subject.guarded is subject.value:            # whole: no guard, which would be one node's
            self._subjects[id(value)] = subject

    def _of_given(self) -> dict[int, Any]:
        """Common facts by identity, which is safe as long as they are held here."""
        return {id(fact): fact for fact in self._given}

    def given(self, fact: Any) -> Any:
        """A fact that no capture holds, or an equal one that was given before."""
        for known in self._given:
            if known == fact:
                return known
        if len(self._given) < _MOST_GIVEN:
            self._given.append(fact)
            self._common[id(fact)] = fact
        return fact

    def judging(self, facts: Facts, previous: Facts | None, sku: Sku | None) -> Callable[[Rule], Result]:
        """What tells of each rule what it says of a node; made once where its facts are what nodes have in common.

        It serves until the next node's facts are made. The SKU lives as long as this does.
        """
        guards = Guards(common=self._subjects)
        common, results = self._common, self._results
        named = facts if previous is None else {**facts, **{PREVIOUS + name: fact for name, fact in previous.items()}}
        # 0 where nodes do not have it in common; what there is none of, they have.
        marks: defaultdict[str, int] = defaultdict(lambda: id(None))
        marks.update((name, id(fact) if id(fact) in common else 0) for name, fact in named.items())

        def judged(rule: Rule) -> Result:
            key = (id(rule), id(sku), *map(marks.__getitem__, rule.checked.facts))
            if 0 in key:
                return self._alike.result(rule, sku, facts, previous, guards, named, marks)
            known = results.get(key)
            if known is None:
                known = results[key] = judge(rule, facts, previous, sku, guards)
            return known

        return judged
