"""Finds which rails of an accused node or leaf are bad, by tests of each rail alone.

Tests over all rails do not show which one is bad: it spoils what all carry. So each rail is a fabric with a
PairSearch of its own, and all of them run at the same time. They only narrow accusations: a node that the
pairs of all rails did not accuse is not accused by one rail either. A node that fails now and then fails on
some rails by chance, and so does a leaf. So rails are named only where the whole node or leaf explains the
tests much worse; nodes are tested on until then, or long enough.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from healthcheck.burnin import faults, priors
from healthcheck.burnin.isolate import PairSearch
from healthcheck.burnin.merged import OF_RAILS, behind
from healthcheck.burnin.model import Accusation, BurnInStage, Object, Participant, Rail
from healthcheck.burnin.rounds import NodePair, Round, Sites, pair
from healthcheck.burnin.weigh import CandidateCause, PairOutcome, PairTest, causes_of

# tries of a node on a rail, and rounds across leaves: few, as the bad nodes are known
TRIES, ACROSS = 8, 2
# proven neighbours of each accused node, so that two of three pairs are proven nodes only
MATES = 3
# at least so many of one leaf, so that no leaf is accused, and a slow node has equals
_LEAST_MATES = 5
_MORE = 8           # limit of further rounds, each with all rails of the accused nodes
# nodes of an accused leaf, and of two others: from seven on a failing leaf is accused
_OF_LEAF = 8

Rounds = Mapping[int, Round]


class _RailFindings(NamedTuple):
    """What is known of one rail."""

    accusations: Sequence[Accusation]
    proven: frozenset[str]
    tests: Sequence[PairTest]
    guilty: frozenset[CandidateCause]
    sites: Sites

    def alone(self, node: str, each: NodePair) -> bool:
        """Whether a test of this pair touches nothing that is guilty on this rail, but that node."""
        return all(cause.name == node or cause not in self.guilty for cause in causes_of(each, self.sites))


class RailSearch:
    """Run the rounds that `next` gives and add their results until `next` is None. `usable` are by node the
    rails that can be used alone; `accusations` narrows the given ones where possible."""

    def __init__(self, accused: Iterable[Accusation], proven: Sequence[str],
                 places: Mapping[str, Participant], usable: Mapping[str, Collection[int]],
                 seed: int = 0) -> None:
        self._accused = tuple(accused)
        self._places, self._usable = places, usable
        nodes = [one.name for one in self._accused if one.object is Object.NODE and one.fault in OF_RAILS
                 and self._several(one.name)]
        # An NVLink domain is no leaf: tests of some nodes of a leaf do not show what their switch does.
        self._leaves = {place.leaf for place in places.values()}
        leaves = [one.name for one in self._accused if one.object is Object.LEAF and one.name in self._leaves]
        team = self._team(nodes, leaves,
                          [node for node in proven if node not in nodes and self._several(node)])
        numbers = sorted({number for node in team for number in self._numbers(node)})
        self._of = {
            number: PairSearch([self._alone(node, number) for node in team if number in self._numbers(node)],
                               tries=TRIES, across=ACROSS, seed=seed) for number in numbers}
        # results of further rounds
        self._more: dict[int, list[PairTest]] = {number: [] for number in numbers}
        self._current: Rounds | None = None
        self._rounds_more = 0

    def next(self) -> Rounds | None:
        """The rounds to run now, by rail; None when no rail has one left."""
        found = {number: round_ for number, isolation in self._of.items()
                 if (round_ := isolation.next()) is not None}
        if not found and self._current is None and self._rounds_more < _MORE:
            self._rounds_more += 1
            self._current = self._on()
        return found or self._current or None

    def add_results(self, tests: Mapping[int, Iterable[PairTest]]) -> None:
        """Adds the results of each rail's round."""
        for number, results in tests.items():
            if self._current is None:
                self._of[number].add_results(results)
            else:
                self._more[number] += results
        self._current = None

    def accusations(self) -> tuple[Accusation, ...]:
        """The given accusations; a node or leaf with good and bad rails is replaced by its bad rails."""
        found = self._found()
        narrower: list[Accusation] = []
        for one in self._accused:
            if one.object is Object.NODE:
                narrower += self._of_node(one, found)
            elif one.object is Object.LEAF and one.name in self._leaves:
                narrower += self._of_leaf(one, found)
            else:
                narrower.append(one)
        return tuple(narrower)

    # ---- who takes part

    def _numbers(self, node: str) -> list[int]:
        usable = self._usable.get(node, ())
        return list(dict.fromkeys(rail.number for rail in self._places[node].rails if rail.number in usable))

    def _several(self, node: str) -> bool:
        return node in self._places and len(self._numbers(node)) > 1

    def _alone(self, node: str, number: int) -> Participant:
        """The node in the fabric of one rail, without NVLink."""
        place, rail = self._places[node], self._rail(node, number)
        return replace(place, leaf=rail.leaf or place.leaf, domain=None, rails=(rail,))

    def _rail(self, node: str, number: int) -> Rail:
        return next(rail for rail in self._places[node].rails if rail.number == number)

    def _team(self, nodes: Sequence[str], leaves: Sequence[str], proven: Sequence[str]) -> list[str]:
        """The accused, some nodes of each accused leaf and of two others, and proven nodes near them."""
        found = dict.fromkeys(nodes)
        for leaf in leaves:
            there = behind(leaf, self._places)
            own = [node for node in self._places if node in there and node not in nodes
                   and self._several(node)]
            found.update(dict.fromkeys(own[:_OF_LEAF]))
            others: dict[str | None, list[str]] = {}
            for node in proven:
                if node not in there:
                    others.setdefault(self._places[node].leaf, []).append(node)
            for some in list(others.values())[:2]:
                found.update(dict.fromkeys(some[:_OF_LEAF]))
        for at, count in Counter(self._places[node].leaf for node in nodes).items():
            partners = sorted((node for node in proven if node not in found),
                           key=lambda node: self._places[node].leaf != at)
            found.update(dict.fromkeys(partners[:max(_LEAST_MATES, MATES * count)]))
        return list(found)

    def _on(self) -> Rounds:
        """One more round with proven nodes for accused nodes whose rails may not all be bad."""
        found = self._found()
        pairs: dict[int, list[NodePair]] = {}
        for one in self._accused:
            bad, clear = self._of_rails(one, found) if one.object is Object.NODE else ({}, [])
            if not bad or not clear or self._surely(self._tests_of(one.name, found), bad, "node"):
                continue
            for number in (*bad, *clear):
                used = {node for each in pairs.get(number, ()) for node in each}
                leaf = self._places[one.name].leaf
                free = (node for node in found[number].proven - used - {one.name}
                        if found[number].alone(one.name, pair(one.name, node)))
                partners = sorted(free, key=lambda node: (self._places[node].leaf != leaf, node))
                if partners:
                    pairs.setdefault(number, []).append(
                        pair(one.name, partners[self._rounds_more % min(MATES, len(partners))]))
        return {number: Round(BurnInStage.LEAF_CONFIRM, self._rounds_more, tuple(some))
                for number, some in pairs.items()}

    # ---- what it comes to

    def _found(self) -> Mapping[int, _RailFindings]:
        return {number: _RailFindings(isolation.accusations(), frozenset(isolation.proven()),
                               (*isolation.evidence.tests,
                                *self._more[number]), frozenset(isolation.weighed.accused), isolation.sites)
                for number, isolation in self._of.items()}

    def _of_rails(self, one: Accusation,
                  found: Mapping[int, _RailFindings]) -> tuple[dict[int, Accusation], list[int]]:
        """Which rails of an accused node are bad by themselves, and which have passed."""
        bad = {number: each for number, of in found.items() for each in of.accusations
               if each.object is Object.NODE and each.name == one.name}
        return bad, [number for number, of in found.items() if one.name in of.proven]

    def _of_node(self, one: Accusation, found: Mapping[int, _RailFindings]) -> Iterator[Accusation]:
        bad, clear = self._of_rails(one, found)
        if not bad or not clear or any(each.fault not in OF_RAILS for each in bad.values()) \
                or not self._surely(self._tests_of(one.name, found), bad, "node"):
            yield one
            return
        for number, each in bad.items():
            fault = faults.SLOW_LINK if each.fault == faults.SLOW else each.fault
            yield self._narrowed(one, replace(each, object=Object.RAIL, name=f"{one.name}/rail{number}",
                                              fault=fault), number, clear)

    def _of_leaf(self, one: Accusation, found: Mapping[int, _RailFindings]) -> Iterator[Accusation]:
        there = behind(one.name, self._places)
        switches = {number: self._switches(there, number) for number in found}
        bad = {number: each for number, of in found.items() for each in of.accusations
               if each.object is Object.LEAF and each.name in switches[number]}
        # An open question on a rail is no pass.
        clear = [number for number, of in found.items() if number not in bad and there & of.proven
                 and not any(each.object is Object.UNEXPLAINED for each in of.accusations)]
        tests = {number: [test for test in of.tests if len(there & set(test.pair)) == 1]
                 for number, of in found.items()}
        if not bad or not clear or not self._surely(tests, bad, "uplinks"):
            yield one
            return
        for number, each in bad.items():
            own = (each.name if not any(each.name in switches[other] for other in clear)
                   else f"{each.name}, rail {number}")
            yield self._narrowed(one, replace(each, name=own), number, clear)

    def _tests_of(self, node: str, found: Mapping[int, _RailFindings]) -> Mapping[int, list[PairTest]]:
        """By rail the tests of a node with others, where nothing else is known to be bad."""
        accused = {one.name for one in self._accused}
        return {number: [test for test in of.tests if node in test.pair
                         and test.pair.other(node) not in accused and of.alone(node, test.pair)]
                for number, of in found.items()}

    def _surely(self, tests: Mapping[int, Iterable[PairTest]], bad: Collection[int], kind: str) -> bool:
        """Whether a cause that affects every rail explains these tests much worse than these bad rails do."""
        counts = {number: (_count(some, PairOutcome.FAIL), _count(some, PairOutcome.PASS))
                  for number, some in tests.items()}
        failed, passed = (sum(some) for some in zip(*counts.values(), strict=True))
        share = (failed + 0.5) / (failed + passed + 1)
        whole = (_chance(failed, passed, share)
                 - priors.cost(max(mode.prior for mode in priors.FAILURE_MODES[kind])))
        noise = min(priors.NOISE)
        parts = sum(max(_chance(*counts[number], mode.rate) - priors.cost(mode.prior)
                        for mode in priors.FAILURE_MODES["out"])
                    if number in bad else _chance(*counts[number], noise) for number in counts)
        return parts - whole >= priors.ENOUGH

    def _switches(self, nodes: Iterable[str], number: int) -> frozenset[str]:
        """The leaves that this rail of these nodes hangs on."""
        return frozenset(self._alone(node, number).leaf or "" for node in nodes
                         if number in self._numbers(node))

    def _narrowed(self, one: Accusation, each: Accusation, number: int, clear: Sequence[int]) -> Accusation:
        passed = f"rail{'s' * (len(clear) != 1)} {', '.join(map(str, clear))} passed"
        why = f"with rail {number} alone, from the GPU beside it, {each.why}; {passed}"
        return replace(each, why=why, tests_for=(*one.tests_for, *each.tests_for),
                       tests_against=(*one.tests_against, *each.tests_against))


def _count(tests: Iterable[PairTest], outcome: PairOutcome) -> int:
    return sum(test.outcome is outcome for test in tests)


def _chance(failed: int, passed: int, rate: float) -> float:
    """The log of the chance of so many failures and passes at this rate."""
    return failed * math.log(rate) + passed * math.log1p(-rate)
