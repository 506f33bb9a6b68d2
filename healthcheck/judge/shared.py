"""What is made of equal answers is made once: facts of captures that say the same, and what rules say of such facts.

A fleet is built of the same parts, so most of what its nodes answer is equal to the letter (what the bus holds, which modules are loaded,
how Docker is set), and of one node two looks differ in its counters and temperatures alone. A fact is a pure function of the captures of
its probes, and a result of its rule, its SKU and the facts it takes: equal ones need no second making. What two nodes were not seen to
have in common is not kept, so that a fleet's own facts do not stay in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.cache import FactCache
from healthcheck.judge.guard import Guards, Subject
from healthcheck.judge.judge import Facts
from healthcheck.judge.settled import Like, Look, Settled
from healthcheck.model.outcome import Result
from healthcheck.model.recording import Recording
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.sku import Sku

# Facts that the inventory gives (port plans): as many as there are kinds of nodes.
_MOST_GIVEN = 64


class Shared:
    """Facts by what they are made of, and results by the facts they are of; for one sweep."""

    def __init__(self) -> None:
        self._subjects: dict[int, Subject] = {}
        self._said = Settled()
        self._cache = FactCache()
        self._given: list[Any] = [None]                 # None: that there is no such fact is what nodes have in common, too
        self._common = {id(None): None}

    def facts(self, recordings: Sequence[tuple[Recording, Iterable[str]]]) -> list[dict[str, Any]]:
        """Of recordings of one node the facts of the names given with each."""
        return [_facts(Captures(recording, self._cache), names) for recording, names in recordings]

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


def _facts(captures: Captures, names: Iterable[str]) -> dict[str, Any]:
    return {name: build_fact(FACTS[name], captures) for name in names}
