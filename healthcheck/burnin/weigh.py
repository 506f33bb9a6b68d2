"""Weighs all tests of pairs against each other: the fewest causes that explain what failed, and how sure each of them is.

A cause is a node, one pair's path, a whole leaf, or what leads out of it. Each accused cause that a test touches makes it fail with some
chance, alone and besides the others (a "noisy or"), so what one guilty partner explains accuses nobody else. Causes are accused from the
most probable down while that explains more than it costs, and dropped again when others explain their share. Never on one sample.

What is weighed are logarithms of odds. A slow node shows in 7 of 10 tests at least, a good one in 5 of 1,000 (a flaky fault and the false
alarms of the relative rule, both from the simulation behind `scripts/bench/isolate`); a fault that everybody has to prove before it is
believed costs its rarity: the rarer, the more tests it takes.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from healthcheck.burnin import faults
from healthcheck.burnin.rounds import Group, Pair, Sites

# The gain from which a cause is accused: odds of e^3.5, 33 to 1.
ENOUGH = 3.5
SHOWS = 0.7
FALSE_ALARM = 0.005
# Wrong data, or a process that dies, does not come of noise.
FALSE_HARD = 0.0005
_SOFT = (faults.SLOW, faults.SLOW_LINK, faults.SLOW_COMPUTE, faults.JITTER, faults.LATE)
PASS = -math.log(1 - SHOWS)                     # what one test that passes takes from the gain of a node or pair,
FAIL = math.log((1 - (1 - SHOWS) * (1 - FALSE_ALARM)) / FALSE_ALARM)    # and what one that fails, slow, adds where nothing explains it


class Outcome(Enum):
    """What a test of a pair came to. `UNKNOWN` is neither: it was not run, not whole, or could not be judged; it never clears anybody."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Tested:
    """One test of a pair: the task's id, what it came to, of which fault it failed, and each rail's own outcome where it was measured.

    `whole` is whether it was measured though it could not be judged.
    """

    pair: Pair
    test: str
    outcome: Outcome
    fault: str = faults.SLOW
    rails: Mapping[int, Outcome] = field(default_factory=lambda: MappingProxyType({}))
    whole: bool = False

    @property
    def hard(self) -> bool:
        """Whether it failed of something that noise does not do."""
        return self.outcome is Outcome.FAIL and self.fault not in _SOFT


class Cause(NamedTuple):
    """What may be guilty: a node; a path between two nodes or groups; a group's "uplinks", or all of it ("inside")."""

    kind: str
    name: str
    other: str = ""
    group: Group | None = None


# What it costs to accuse one: minus the logarithm of how rare it is.
_COST = {"node": 4.85, "pair": 8.5, "inside": 6.0, "uplinks": 6.0, "between": 8.0}


def causes_of(each: Pair, sites: Sites) -> tuple[Cause, ...]:
    """All that a test of this pair depends on."""
    one, two = each
    return (Cause("node", one), Cause("node", two), Cause("pair", one, two),
            *_on_the_way(sites.near[one], sites.near[two], sites.leaf[one], sites.leaf[two]))


@lru_cache(maxsize=1 << 16)
def _on_the_way(near: Group, other_near: Group, leaf: Group, other_leaf: Group) -> tuple[Cause, ...]:
    """What of groups lies between two nodes: their nearest ones, and their leaves."""
    if near == other_near:
        return (_group("inside", near),)
    found = [_group("inside", group) for group in dict.fromkeys((leaf, other_leaf))]
    if leaf != other_leaf:
        found += [_group("uplinks", leaf), _group("uplinks", other_leaf), _between(leaf, other_leaf)]
    found += [_group("uplinks", group) for group in (near, other_near) if group.kind == "domain"]
    if leaf == other_leaf:
        found.append(_between(near, other_near))
    return tuple(found)


def _group(kind: str, group: Group) -> Cause:
    return Cause(kind, str(group), "", group)


def _between(one: Group, two: Group) -> Cause:
    first, second = sorted((str(one), str(two)))
    return Cause("between", first, second)


class Evidence:
    """All tests so far, by what they depend on."""

    def __init__(self, sites: Sites) -> None:
        self.sites = sites
        self.tests: list[Tested] = []
        self.causes: list[tuple[Cause, ...]] = []
        self.of: dict[Cause, list[int]] = {}
        self.measured: set[str] = set()     # nodes that came to the end of a test, though nothing could judge it

    def add(self, tests: Iterable[Tested]) -> None:
        """These too."""
        for test in tests:
            causes = causes_of(test.pair, self.sites) if test.outcome is not Outcome.UNKNOWN else ()
            self.measured.update(test.pair if causes or test.whole else ())
            for cause in causes:
                self.of.setdefault(cause, []).append(len(self.tests))
            self.tests.append(test)
            self.causes.append(causes)

    def failed(self, cause: Cause) -> list[int]:
        """The tests that depend on it and failed."""
        return [at for at in self.of.get(cause, ()) if self.tests[at].outcome is Outcome.FAIL]

    def passed(self, cause: Cause) -> list[int]:
        """Those that passed."""
        return [at for at in self.of.get(cause, ()) if self.tests[at].outcome is Outcome.PASS]

    def clears(self, cause: Cause) -> bool:
        """Whether any test of it passed."""
        return any(self.tests[at].outcome is Outcome.PASS for at in self.of.get(cause, ()))


class Weighed:
    """What the evidence says: `accused`, with the gain that each has beside the others; and what would be gained by any other cause."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.accused: dict[Cause, float] = {}
        self._base = {at: math.log1p(-(FALSE_HARD if test.hard else FALSE_ALARM))
                      for at, test in enumerate(evidence.tests) if test.outcome is Outcome.FAIL}
        self._log = dict(self._base)        # of each failed test, the logarithm of the chance that it had passed
        self._by = Counter[int]()           # how many of the accused touch it
        self._shows = {cause: self._chance(cause) for at in self._base for cause in evidence.causes[at]}
        for _ in range(5):
            if not (self._accuse() | self._drop()):
                break
        self.accused = {cause: self._without(cause) for cause in self.accused}

    def unexplained(self, causes: Iterable[Cause] | None = None) -> list[int]:
        """The failed tests that none of these causes (all accused, unless others are given) touches."""
        known = set(self.accused if causes is None else causes)
        return [at for at in self._base if known.isdisjoint(self.evidence.causes[at])]

    def gain(self, cause: Cause) -> float:
        """What accusing it too would gain, in logarithms of odds."""
        if cause in self.accused:
            return self.accused[cause]
        return self._gain(cause)

    def _chance(self, cause: Cause) -> float:
        """How often a test fails that this cause touches. Of a leaf's many uplinks few are bad: as often as its tests did."""
        if cause.kind in ("node", "pair"):
            return SHOWS
        if cause.kind == "inside":
            return 0.95
        tests = self.evidence.of[cause]
        return min(0.9, max(0.1, sum(at in self._base for at in tests) / len(tests)))

    def _gain(self, cause: Cause) -> float:
        log = math.log1p(-self._shows.get(cause, SHOWS))
        gain = -_COST[cause.kind]
        for at in self.evidence.of.get(cause, ()):
            had = self._log.get(at)
            gain += log if had is None else math.log(math.expm1(had + log) / math.expm1(had))
        return gain

    def _without(self, cause: Cause) -> float:
        """The gain of an accused cause beside the other accused ones."""
        self._mark(cause, -1)
        gain = self._gain(cause)
        self._mark(cause, 1)
        return gain

    def _mark(self, cause: Cause, sign: int) -> None:
        log = math.log1p(-self._shows[cause])
        for at in self.evidence.of[cause]:
            if at in self._base:
                self._by[at] += sign
                self._log[at] = self._log[at] + sign * log if self._by[at] else self._base[at]

    def _accuse(self) -> bool:
        """Takes the most probable cause again and again; whether there was one. Gains only fall as others are accused, so an old one is
        an upper bound."""
        before = len(self.accused)
        heap = [(-self._gain(cause), cause) for cause in self._shows if cause not in self.accused]
        heapq.heapify(heap)
        while heap and -heap[0][0] >= ENOUGH:
            _, cause = heapq.heappop(heap)
            gain = self._gain(cause)
            if heap and gain < -heap[0][0]:
                heapq.heappush(heap, (-gain, cause))
            elif gain >= ENOUGH and self._enough(cause):
                self.accused[cause] = gain
                self._mark(cause, 1)
        return len(self.accused) > before

    def _drop(self) -> bool:
        """Takes back what the others explain without it; whether there was any."""
        dropped = False
        for cause in reversed(tuple(self.accused)):
            self._mark(cause, -1)
            if self._gain(cause) >= ENOUGH and self._enough(cause):
                self._mark(cause, 1)
            else:
                del self.accused[cause]
                dropped = True
        return dropped

    def _enough(self, cause: Cause) -> bool:
        """Whether enough different tests failed that nobody accused explains: nobody is guilty by one sample, or by one partner's word."""
        pairs = [self.evidence.tests[at].pair for at in self.evidence.of[cause] if at in self._base and not self._by[at]]
        if cause.kind == "pair":
            return len(pairs) > 1 and not any(self._fails_elsewhere(node, pairs[0]) for node in (cause.name, cause.other))
        if cause.kind == "node":
            return len(set(pairs)) > 1
        leaf, near = self.evidence.sites.leaf, self.evidence.sites.near
        where = {node: near[node] if cause.group and cause.group.kind == "domain" else leaf[node] for each in pairs for node in each}
        if cause.kind == "between":
            sides: dict[Group, set[str]] = {}
            for node in where:
                sides.setdefault((near if cause.name.startswith("NVLink") else leaf)[node], set()).add(node)
            return all(len(nodes) > 1 for nodes in sides.values()) and len(pairs) > 2
        own = {node for node, group in where.items() if group == cause.group}
        if cause.kind == "inside":
            return len(own) > 2 and len(pairs) > 1
        return len(own) > 1 and len(pairs) > 2 and len({where[node] for node in where} - {cause.group}) > 1

    def _fails_elsewhere(self, node: str, each: Pair) -> bool:
        """Whether a node fails with another partner, too, so that more than the path to this one is wrong."""
        return any(at in self._base and not self._by[at] and self.evidence.tests[at].pair != each
                   for at in self.evidence.of[Cause("node", node)])
