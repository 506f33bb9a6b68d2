"""A cluster in which something is wrong, as tests see it: nodes, paths between two nodes, and uplinks of
leaves, steady or at times.

The model of the notes that the figures beside ours are from: a test that passes takes 60 s, one that fails
hangs for 180 s, starting takes 20 s and 0.1 s a node. A leaf of 32 nodes has 32 uplinks; a pair across leaves
is hashed on 8 of each leaf's, anew each time it runs.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from healthcheck.burnin.model import Participant

PASS_S, HANG_S, START_S, NODE_S = 60.0, 180.0, 20.0, 0.1
UPLINKS, HASHED = 32, 8
Pair = tuple[int, int]


@dataclass
class World:
    """What is wrong, by number of node and leaf; `detect` is how often a guilty one shows, `alarm` how often
    a test fails for nothing."""

    leaves: int
    size: int
    nodes: frozenset[int] = frozenset()
    links: frozenset[Pair] = frozenset()
    uplinks: dict[int, int] = field(default_factory=dict)       # how many of a leaf are bad
    detect: float = 1.0
    alarm: float = 0.0
    chance: random.Random = field(default_factory=random.Random)

    @property
    def count(self) -> int:
        return self.leaves * self.size

    def leaf(self, node: int) -> int:
        return node // self.size

    def places(self) -> list[Participant]:
        """The nodes as burn-in sees them."""
        return [Participant(name(node), 8, leaf=f"leaf{self.leaf(node):03d}") for node in range(self.count)]

    def group_fails(self, nodes: Sequence[int]) -> bool:
        """Whether an all-reduce among these fails. Of paths it meets only those of its ring."""
        met = any(self._shows() for node in nodes if node in self.nodes)
        if self.links and len(nodes) > 1:
            there = set(nodes)
            near = 1.0 if len(nodes) == 2 else 2 / (len(nodes) - 1)
            met |= any(one in there and two in there and self.chance.random() < near and self._shows()
                       for one, two in self.links)
        return met or self._alarmed()

    def pair_fails(self, one: int, two: int) -> bool:
        met = any(node in self.nodes and self._shows() for node in (one, two))
        met |= (min(one, two), max(one, two)) in self.links and self._shows()
        leaves = (self.leaf(one), self.leaf(two))
        if leaves[0] != leaves[1]:
            met |= any(leaf in self.uplinks and self._hashed(self.uplinks[leaf]) and self._shows()
                       for leaf in leaves)
        return met or self._alarmed()

    def _hashed(self, bad: int) -> bool:
        return any(at < bad for at in self.chance.sample(range(UPLINKS), HASHED))

    def _shows(self) -> bool:
        return self.detect >= 1 or self.chance.random() < self.detect

    def _alarmed(self) -> bool:
        return self.alarm > 0 and self.chance.random() < self.alarm


@dataclass
class Tally:
    """What a method did and whom it named: nodes, links, leaves; `unexplained` is what it left open."""

    rounds: int = 0
    seconds: float = 0.0
    node_seconds: float = 0.0
    tests: int = 0
    nodes: set[int] = field(default_factory=set)
    links: set[Pair] = field(default_factory=set)
    leaves: set[int] = field(default_factory=set)
    unexplained: int = 0
    exercised: set[Pair] = field(default_factory=set)

    def round(self, tests: Iterable[tuple[int, bool]]) -> None:
        """Books one round of tests, each of so many nodes and failed or not; they run at the same time."""
        longest = 0.0
        for nodes, failed in tests:
            took = (HANG_S if failed else PASS_S) + START_S + NODE_S * nodes
            longest = max(longest, took)
            self.node_seconds += nodes * took
            self.tests += 1
        self.rounds += 1
        self.seconds += longest


def name(node: int) -> str:
    return f"n{node:05d}"


def number(node: str) -> int:
    return int(node[1:])


def drawn(leaves: int, size: int, seed: int, *, nodes: int = 0, links: int = 0, uplinks: int = 0,
          detect: float = 1.0, alarm: float = 0.0, one_leaf: float = 0.0) -> World:
    """A world with so many guilty ones, from one seed; besides, this share of one leaf's nodes."""
    chance = random.Random(seed)  # noqa: S311
    count = leaves * size
    bad = frozenset(chance.sample(range(count), nodes)) | frozenset(
        chance.sample(range(size), round(one_leaf * size)) if one_leaf else ())
    paths: set[Pair] = set()
    while len(paths) < links:
        one, two = sorted(chance.sample(range(count), 2))
        paths.add((one, two))
    up: dict[int, int] = {}
    for _ in range(uplinks):
        leaf = chance.randrange(leaves)
        up[leaf] = up.get(leaf, 0) + 1
    return World(leaves, size, bad, frozenset(paths), up, detect, alarm, chance)
