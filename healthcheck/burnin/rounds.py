"""Which nodes are measured together: rounds of pairs, and ring orders of all nodes.

A node is in a round at most once, so that all pairs of a round run at the same time. Partners come by the
circle method of round-robin tournaments, so no two nodes meet again before each has met all others. An NVLink
domain is a unit: pairs inside it measure NVLink; two domains meet as wholes, node by node, which measures
their NICs; in a ring its nodes stay together.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from healthcheck.burnin.model import BurnInStage, Participant, Seat, Task, TaskKind

# With 2 nodes NCCL would choose trees, whose figure may exceed the NICs' rate and hide a slow NIC (nccl-tests
# issues 196 and 290).
RING = MappingProxyType({"NCCL_ALGO": "RING"})


class NodePair(NamedTuple):
    """Two nodes that are measured together, in the order of their names."""

    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.first} - {self.second}"

    def other(self, node: str) -> str:
        """The partner of `node`."""
        return self.second if node == self.first else self.first


def pair(one: str, two: str) -> NodePair:
    """The pair of two nodes. Raises ValueError where they are one."""
    if one == two:
        raise ValueError(f"{one} cannot be its own partner")
    return NodePair(min(one, two), max(one, two))


@dataclass(frozen=True)
class Round:
    """Pairs that are measured at the same time; `number` counts the rounds of one burn-in from 1."""

    stage: BurnInStage
    number: int
    pairs: tuple[NodePair, ...]


class NodeGroup(NamedTuple):
    """Neighbouring nodes: a leaf ("" where the inventory has none), or an NVLink domain."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"NVLink domain {self.name}" if self.kind == "domain" else self.name


class Sites:
    """Where the nodes are: their leaf, and their nearest group (the NVLink domain if they have one)."""

    def __init__(self, places: Iterable[Participant], seed: int = 0) -> None:
        ordered = sorted(places, key=lambda place: (place.leaf or "", place.domain or "", place.node))
        self.places = {place.node: place for place in ordered}
        self.leaf = {node: NodeGroup("leaf", place.leaf or "") for node, place in self.places.items()}
        self.near = {node: NodeGroup("domain", place.domain) if place.domain else self.leaf[node]
                     for node, place in self.places.items()}
        order = list(self.places)
        if seed:
            random.Random(seed).shuffle(order)  # noqa: S311  (another seed tries other paths: no secret)
        self.order = tuple(order)
        self._rank = {node: at for at, node in enumerate(order)}

    def grouped(self, nodes: Iterable[str], by: Mapping[str, NodeGroup]) -> dict[NodeGroup, list[str]]:
        """These nodes by leaf or by nearest group, in this burn-in's order."""
        found: dict[NodeGroup, list[str]] = {}
        for node in sorted(nodes, key=self._rank.__getitem__):
            found.setdefault(by[node], []).append(node)
        return found


def circle(count: int, turn: int) -> list[tuple[int, int]]:
    """The pairs of one turn, 0 to `turns(count)` - 1; of an odd count another one sits out each turn."""
    if not 0 <= turn < turns(count):
        return []
    around = count - 1 if count % 2 == 0 else count
    found = [((turn + at) % around, (turn - at) % around) for at in range(1, (around + 1) // 2)]
    return [*found, (turn, count - 1)] if count % 2 == 0 else found


def turns(count: int) -> int:
    """How many turns it takes until all have met."""
    return 0 if count < 2 else count - 1 if count % 2 == 0 else count


def inside(groups: Iterable[Sequence[str]], turn: int) -> list[NodePair]:
    """Pairs of neighbours, in all groups at once; a group whose nodes have all met takes no part."""
    return [pair(group[one], group[two]) for group in groups for one, two in circle(len(group), turn)]


def between(groups: Sequence[Sequence[str]], turn: int, met: Iterable[NodePair] = ()) -> list[NodePair]:
    """Pairs across groups: groups meet as wholes, node by node, and no pair meets twice. Nodes that are left
    over, as groups differ in size or are odd in number, are paired among themselves as far as possible."""
    if len(groups) < 2:
        return []
    known = set(met)
    found: list[NodePair] = []
    left = [list(group) for group in groups]
    for one, two in circle(len(groups), turn % turns(len(groups))):
        matched = _matched(left[one], left[two], turn, known)
        found += matched
        used = {node for each in matched for node in each}
        for at in (one, two):
            left[at] = [node for node in left[at] if node not in used]
    return found + list(_leftover(left, known))


def _matched(one: Sequence[str], two: Sequence[str], turn: int, met: set[NodePair]) -> list[NodePair]:
    """Pairs each node of the smaller group with one of the larger, another choice in each turn."""
    few, many = sorted((one, two), key=len)
    best: list[NodePair] = []
    for step in range(len(many)):
        start = (turn * len(few) + step) % len(many)
        found = [each for at, node in enumerate(few)
                 if (each := pair(node, many[(start + at) % len(many)])) not in met]
        if len(found) > len(best):
            best = found
        if len(best) == len(few):
            break
    return best


def _leftover(groups: list[list[str]], met: set[NodePair]) -> Iterator[NodePair]:
    """Pairs the largest group with the next largest until one is left; nodes without a new partner wait."""
    groups = [group for group in groups if group]
    while len(groups) > 1:
        groups.sort(key=len)
        many = groups[-1]
        node = many.pop()
        for group in reversed(groups[:-1]):
            partner = next((each for each in group if pair(node, each) not in met), None)
            if partner is not None:
                group.remove(partner)
                yield pair(node, partner)
                break
        groups = [group for group in groups if group]


def with_proven(suspects: Sequence[str], proven: Iterable[str], sites: Sites,
                met: Iterable[NodePair] = ()) -> tuple[list[NodePair], list[str]]:
    """Each suspect with a new proven partner, a neighbour if possible; and the suspects without any."""
    known = set(met)
    free = [node for node in proven if node not in set(suspects)]
    near, leaf = sites.grouped(free, sites.near), sites.grouped(free, sites.leaf)
    used: set[str] = set()
    found, without = [], []
    for node in suspects:
        for some in (near.get(sites.near[node], []), leaf.get(sites.leaf[node], []), free):
            partner = next((each for each in some if each not in used and pair(node, each) not in known),
                           None)
            if partner is not None:
                used.add(partner)
                found.append(pair(node, partner))
                break
        else:
            without.append(node)
    return found, without


def rings(places: Iterable[Participant], count: int) -> tuple[tuple[str, ...], ...]:
    """Orders of all nodes for a ring, at most `count`, the first by leaf; no two share a link of two units.

    An all-reduce that passes proves the links of its ring and no others. These are Walecki's Hamiltonian
    cycles (Lucas, "Récréations mathématiques" II, 1883): n units have (n - 1) // 2 without a common edge.
    """
    sites = Sites(places)
    units: dict[tuple[NodeGroup, str], list[str]] = {}
    for node in sites.order:
        near = sites.near[node]
        units.setdefault((near, "" if near.kind == "domain" else node), []).append(node)
    members = list(units.values())
    most = max(1, (len(members) - 1) // 2)
    count = max(0, min(count, most))
    if len(members) < 3:
        return (tuple(sites.order),) if count and members else ()
    first = _cycle(len(members), 0)
    at = {label: members[place] for place, label in enumerate(first)}
    return tuple(tuple(node for label in _cycle(len(members), turn * most // count) for node in at[label])
                 for turn in range(count))


def _cycle(count: int, turn: int) -> list[int]:
    """The hub (`count` - 1), then a zigzag over the circle of the others: turn, turn+1, turn-1, turn+2 ..."""
    around = count - 1
    return [around, *((turn + (step + 1) // 2 * (1 if step % 2 else -1)) % around for step in range(around))]


def seats(nodes: Iterable[str], places: Mapping[str, Participant]) -> tuple[Seat, ...]:
    """All GPUs of these nodes, by rail within a node: the n-th NIC by address is the n-th GPU's."""
    found = []
    for node in nodes:
        place = places[node]
        order: Iterable[int] = range(place.gpus)
        if len(place.rails) == place.gpus:
            numbers = [rail.number for rail in sorted(place.rails, key=lambda rail: rail.address)]
            order = sorted(order, key=lambda gpu: numbers[gpu])
        found += [Seat(node, gpu) for gpu in order]
    return tuple(found)


def tasks(
    the: Round, places: Mapping[str, Participant], seconds: float,
    params: Mapping[str, int | float | str] = MappingProxyType({}),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Task, ...]:
    """The round's all-reduces over all GPUs of each pair, in the order of pairs: "leaf-pairs-1-0" ..."""
    settings = MappingProxyType({**environment, **RING})
    return tuple(Task(f"{the.stage.value}-{the.number}-{at}", the.stage, TaskKind.ALLREDUCE,
                      seats(each, places), seconds, params, settings) for at, each in enumerate(the.pairs))
