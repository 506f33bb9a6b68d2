"""What is made of equal answers is made once: facts of captures that say the same, and what rules say of such facts.

A fleet is built of the same parts, so most of what its nodes answer is equal to the letter (what the bus holds, which modules are loaded,
how Docker is set), and of one node two looks differ in its counters and temperatures alone. A fact is a pure function of the captures of
its probes, and a result of its rule, its SKU and the facts it takes: equal ones need no second making. What two nodes were not seen to
have in common is not kept, so that a fleet's own facts do not stay in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from healthcheck.facts.base import Captures
from healthcheck.facts.marks import NOTHING, Mark, Own
from healthcheck.judge.guard import Guards, Subject
from healthcheck.judge.judge import Facts
from healthcheck.judge.lastlook import LastLook
from healthcheck.judge.settled import Like, Look, Settled
from healthcheck.model.outcome import Result
from healthcheck.model.recording import Recording
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.sku import Sku

# Facts and results that are kept at most; a fleet of one SKU needs some hundreds.
_MOST = 8192
# From this many a tuple of facts is compared by the identity of the facts in it, for comparing values would cost more than it spares.
_MANY = 64
# So many different values of a fact that cannot be hashed are compared one by one.
_ALIKE = 4
# So many different values of a fact, and it is taken for one that differs between nodes.
_TRIES = 16
# Sets of facts of which the last look is known: one for each profile, and one for earlier looks.
_MOST_LAST = 16
# Facts that the inventory gives (port plans): as many as there are kinds of nodes.
_MOST_GIVEN = 64


class Shared:
    """Facts by what they are made of, and results by the facts they are of; for one sweep."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._forgot = 0                                # how often all was forgotten
        self._facts: dict[Mark, Any] = {}
        self._last: dict[tuple[str, ...], LastLook] = {}
        self._beside: dict[Mark, Any] = {}              # of the node that is looked at, whose two looks say much the same
        self._vain: dict[str, int] = {}
        self._own: dict[str, tuple[int, int]] = {}      # how often what is each node's own was looked for, and found
        self._unhashable: dict[str, list[Any]] = {}
        self._subjects: dict[int, Subject] = {}
        self._said = Settled()
        self._given: list[Any] = [None]                 # None: that there is no such fact is what nodes have in common, too
        self._common = self._of_given()

    def facts(self, recordings: Sequence[tuple[Recording, Iterable[str]]]) -> list[dict[str, Any]]:
        """Of recordings of one node the facts of the names given with each."""
        self._beside.clear()
        return [self._last_of(tuple(names)).facts(Captures(recording, self)) for recording, names in recordings]

    def _last_of(self, names: tuple[str, ...]) -> LastLook:
        last = self._last.get(names)
        if last is None:
            if len(self._last) >= _MOST_LAST:
                self._last.clear()
            last = self._last[names] = LastLook(names)
        return last

    def find(self, key: Mark) -> Any:
        """What was made of captures that say the same, of this node or of others."""
        found = self._beside.get(key, NOTHING)
        return found if found is not NOTHING else self._facts.get(key, NOTHING)

    def keep(self, key: Mark, value: Any) -> Any:
        """Takes what was made; gives back what is equal to it and known already, where there is such a thing."""
        forgot = self._forgot
        value = self.same(key[0], value)
        if self._twice(key):
            self._make_room()
            if self._forgot == forgot:
                self._hold(key, value)
        if self._forgot == forgot:      # else it may name facts by an identity that others get now
            self._beside[key] = value
        return value

    def depends(self, key: Mark, on: Own) -> None:
        """Remembers that it takes more than this to tell what is made of such captures."""
        self._make_room()
        self._facts[key] = on

    def find_own(self, key: Mark) -> Any:
        """As `find`, of captures that say the same in what is each node's own, too."""
        found = self.find(key)
        asked, hits = self._own.get(key[0], (0, 0))
        self._own[key[0]] = asked + 1, hits + (found is not NOTHING)
        return found

    def own_differs(self, name: str) -> bool:
        """Whether for the fact of this name that hardly ever finds anything."""
        asked, hits = self._own.get(name, (0, 0))
        return asked > _TRIES and hits * 4 < asked

    def same(self, name: str, value: Any) -> Any:
        """The equal fact that is known already, if there is one."""
        # Those that are held are the very ones that they would be found equal to.
        return value if id(value) in self._common else self._equal(name, value)

    def holds(self, value: Any) -> bool:
        """Whether a fact is held here: then no other has its identity, as long as anything is known by it."""
        return id(value) in self._common

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

    def _make_room(self) -> None:
        if len(self._facts) >= _MOST:
            self._forgot += 1
            self._facts.clear()
            self._seen.clear()
            self._last.clear()
            self._beside.clear()        # in whose keys facts are known by their identity
            self._unhashable.clear()
            self._common = self._of_given()
            self._subjects.clear()
            self._said.forget()

    def _hold(self, key: Mark, value: Any) -> None:
        self._make_room()
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
        """What tells of each rule what it says of a node; made once where its facts are alike to those of other nodes.

        It serves until the next node's facts are made. The SKU lives as long as this does.
        """
        return self._said.judging(Look(facts, previous, sku), self._common, Guards(common=self._subjects))

    def results(
        self, rules: Sequence[Rule], facts: Facts, previous: Facts | None, sku: Sku | None,
    ) -> tuple[Mapping[str, Result], dict[str, Result]]:
        """What each of the rules says of a node, by its id; as `judging`. The sequence of rules lives as long as this does.

        First what most nodes like it have, in one object for all of them, then what this one has in its place or beside.
        """
        guards = Guards(common=self._subjects)
        try:
            return self._said.results(rules, Look(facts, previous, sku), self._common, guards)
        finally:
            guards.let_go()

    def like(self, names: Iterable[str], facts: Facts, previous: Facts | None) -> dict[str, Like]:
        """Of the node whose `results` were asked for last, by name what stands for its facts and for those of nodes that are alike."""
        return self._said.like(Look(facts, previous, None), names)
