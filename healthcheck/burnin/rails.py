"""Finds of which rails an accused node, or a leaf of several switches, is bad: the accused and some proven nodes, with each rail alone.

Tests over all rails tell nothing about which: one bad rail spoils what all carry. So a rail is taken for a fabric of its own, with an
isolation of its own, and the isolations of all rails go on at the same time. They only make an accusation narrower: whom the pairs of all
rails have not accused, one rail alone does not either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from healthcheck.burnin import faults
from healthcheck.burnin.isolate import Isolation
from healthcheck.burnin.merged import behind
from healthcheck.burnin.model import Accusation, Object, Place, Rail
from healthcheck.burnin.rounds import Round
from healthcheck.burnin.weigh import Tested

# What a NIC, its cable or its switch can do to a node. Of ranks that never came, or died, no rail is the cause.
OF_RAILS = (faults.SLOW, faults.SLOW_LINK, faults.JITTER, faults.LATE, faults.RAISED, faults.HUNG, faults.WRONG_DATA)
TRIES, ACROSS = 4, 2       # of one node and rail, and rounds across leaves: who is bad is known, and only what of it is asked
MATES = 3           # proven neighbours for each accused node, so that two of three pairs are of proven nodes alone
_LEAST_MATES = 5    # and never fewer of one leaf: what fails is then no leaf's, and one that is slow has equals
_OF_LEAF = 8        # nodes of an accused leaf, and of two others: from seven on it is the leaf of which all fail

Rounds = Mapping[int, Round]


class Rails:
    """Give it the accusations of all rails and who is proven; run what `next` says, tell what came of it, until that is None.

    `usable` says by node which of its rails can be used alone. `accusations` are the given ones, made narrower where that could be.
    """

    def __init__(self, accused: Iterable[Accusation], proven: Sequence[str], places: Mapping[str, Place],
                 usable: Mapping[str, Collection[int]], seed: int = 0) -> None:
        self._accused = tuple(accused)
        self._places, self._usable = places, usable
        nodes = [one.name for one in self._accused if one.object is Object.NODE and one.fault in OF_RAILS and self._several(one.name)]
        # An NVLink domain is no leaf: of some of a leaf's nodes no test tells what their switch does.
        self._leaves = {place.leaf for place in places.values()}
        leaves = [one.name for one in self._accused if one.object is Object.LEAF and one.name in self._leaves]
        team = self._team(nodes, leaves, [node for node in proven if node not in nodes and self._several(node)])
        numbers = sorted({number for node in team for number in self._numbers(node)})
        self._of = {number: Isolation([self._alone(node, number) for node in team if number in self._numbers(node)],
                                      tries=TRIES, across=ACROSS, seed=seed) for number in numbers}

    def next(self) -> Rounds | None:
        """The rounds to run now, by rail; None when no rail has one left."""
        found = {number: the for number, isolation in self._of.items() if (the := isolation.next()) is not None}
        return found or None

    def told(self, tests: Mapping[int, Iterable[Tested]]) -> None:
        """What came of each rail's round."""
        for number, heard in tests.items():
            self._of[number].told(heard)

    def accusations(self) -> tuple[Accusation, ...]:
        """Those that were given; of a node or a leaf of which some rails are bad and others are not, each bad one in its stead."""
        found = {number: isolation.accusations() for number, isolation in self._of.items()}
        proven = {number: frozenset(isolation.proven()) for number, isolation in self._of.items()}
        narrower: list[Accusation] = []
        for one in self._accused:
            if one.object is Object.NODE:
                narrower += self._of_node(one, found, proven)
            elif one.object is Object.LEAF and one.name in self._leaves:
                narrower += self._of_leaf(one, found, proven)
            else:
                narrower.append(one)
        return tuple(narrower)

    # ---- who takes part

    def _numbers(self, node: str) -> list[int]:
        usable = self._usable.get(node, ())
        return list(dict.fromkeys(rail.number for rail in self._places[node].rails if rail.number in usable))

    def _several(self, node: str) -> bool:
        return node in self._places and len(self._numbers(node)) > 1

    def _alone(self, node: str, number: int) -> Place:
        """The node as that rail's fabric has it: NVLink is no part of it."""
        place, rail = self._places[node], self._rail(node, number)
        return replace(place, leaf=rail.leaf or place.leaf, domain=None, rails=(rail,))

    def _rail(self, node: str, number: int) -> Rail:
        return next(rail for rail in self._places[node].rails if rail.number == number)

    def _team(self, nodes: Sequence[str], leaves: Sequence[str], proven: Sequence[str]) -> list[str]:
        """The accused, some of each accused leaf and of two others, and proven nodes beside them, neighbours first; [] for nobody."""
        found = dict.fromkeys(nodes)
        for leaf in leaves:
            there = behind(leaf, self._places)
            own = [node for node in self._places if node in there and node not in nodes and self._several(node)]
            found.update(dict.fromkeys(own[:_OF_LEAF]))
            others: dict[str | None, list[str]] = {}
            for node in proven:
                if node not in there:
                    others.setdefault(self._places[node].leaf, []).append(node)
            for some in list(others.values())[:2]:
                found.update(dict.fromkeys(some[:_OF_LEAF]))
        for at, count in Counter(self._places[node].leaf for node in nodes).items():
            mates = sorted((node for node in proven if node not in found), key=lambda node: self._places[node].leaf != at)
            found.update(dict.fromkeys(mates[:max(_LEAST_MATES, MATES * count)]))
        return list(found)

    # ---- what it comes to

    def _of_node(self, one: Accusation, found: Mapping[int, Sequence[Accusation]], proven: Mapping[int, Collection[str]],
                 ) -> Iterator[Accusation]:
        bad = {number: each for number, some in found.items() for each in some if each.object is Object.NODE and each.name == one.name}
        clear = [number for number, nodes in proven.items() if one.name in nodes]
        if not bad or not clear:
            yield one
        for number, each in bad.items() if clear else ():
            name, fault = f"{one.name}/rail{number}", _of_link(each.fault)
            yield self._narrowed(one, replace(each, object=Object.RAIL, name=name, fault=fault), number, clear)

    def _of_leaf(self, one: Accusation, found: Mapping[int, Sequence[Accusation]], proven: Mapping[int, Collection[str]],
                 ) -> Iterator[Accusation]:
        there = behind(one.name, self._places)
        switches = {number: self._switches(there, number) for number in found}
        bad = {number: each for number, some in found.items() for each in some
               if each.object is Object.LEAF and each.name in switches[number]}
        # What is open on a rail has not passed.
        clear = [number for number, nodes in proven.items() if number not in bad and there & frozenset(nodes)
                 and not any(each.object is Object.UNEXPLAINED for each in found[number])]
        if not bad or not clear:
            yield one
        for number, each in bad.items() if clear else ():
            own = each.name if not any(each.name in switches[other] for other in clear) else f"{each.name}, rail {number}"
            yield self._narrowed(one, replace(each, name=own), number, clear)

    def _switches(self, nodes: Iterable[str], number: int) -> frozenset[str]:
        """The leaves that this rail of these nodes hangs on."""
        return frozenset(self._alone(node, number).leaf or "" for node in nodes if number in self._numbers(node))

    def _narrowed(self, one: Accusation, each: Accusation, number: int, clear: Sequence[int]) -> Accusation:
        why = f"with rail {number} alone {each.why}; rail{'s' * (len(clear) != 1)} {', '.join(map(str, clear))} passed"
        return replace(each, why=why, tests_for=(*one.tests_for, *each.tests_for), tests_against=(*one.tests_against, *each.tests_against))


def _of_link(fault: str) -> str:
    return faults.SLOW_LINK if fault == faults.SLOW else fault
