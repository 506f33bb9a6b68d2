"""Makes one list of all accusations: the same object once, and nobody accused for what another one is guilty
of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from healthcheck.burnin import faults
from healthcheck.burnin.model import Accusation, Object, Participant
from healthcheck.burnin.rounds import NodeGroup
from inventory.nodeset import natural

# What weighs most comes first: an object that is accused of several things is shown with the first of them.
_WORST = (faults.WRONG_DATA, faults.WRONG_STORAGE, faults.DEAD, faults.LOST, faults.ABSENT, faults.STOPPED,
          faults.HUNG, faults.RAISED, faults.COUNTED, faults.SLOW_COMPUTE, faults.SLOW_LINK, faults.SLOW,
          faults.SLOW_STORAGE, faults.LATE, faults.JITTER)
_ORDER = tuple(Object)
# Only a whole node can do that; no part of it explains it.
_OF_NODES = (faults.LOST, faults.ABSENT)
# What a NIC, its cable or its switch can do to a node. Of ranks that never came, or died, no rail is the
# cause. Nor of wrong data: a rail's test is of the GPU beside it as well, and what changes on a link is found
# by its checksums.
OF_RAILS = (faults.SLOW, faults.SLOW_LINK, faults.JITTER, faults.LATE, faults.RAISED, faults.HUNG)
_WRONG = (faults.WRONG_DATA, faults.WRONG_STORAGE)
_MOST_WHY = 600


def task_of(test: str) -> str:
    """The id of the task that a test of an accusation names, before what it showed ("leaf-1-0: gpu1 - gpu2
    slow").
    """
    return test.partition(": ")[0]


def node_of(accusation: Accusation) -> str | None:
    """The node that an accused GPU, rail or node is, or is part of."""
    if accusation.object is Object.NODE:
        return accusation.name
    if accusation.object is Object.GPU:
        return accusation.name.rpartition(":")[0]
    return accusation.name.rpartition("/")[0] if accusation.object is Object.RAIL else None


def behind(leaf: str, places: Mapping[str, Participant]) -> frozenset[str]:
    """The nodes that hang on a leaf, with all rails or one, or that are of an NVLink domain, as an accusation
    names it.
    """
    group = leaf.partition(", rail ")[0]
    return frozenset(place.node for place in places.values() if group == place.leaf
                     or group in (place.leaf or "").split("+")
                     or any(rail.leaf == group for rail in place.rails)
                     or (place.domain is not None and group == str(NodeGroup("domain", place.domain))))


def sharing(name: str, places: Mapping[str, Participant]) -> frozenset[str]:
    """The nodes that the name of a pair or of a leaf stands for; of a path between two leaves all that are
    behind them.
    """
    return frozenset[str]().union(*({part} if part in places else behind(part, places)
                                    for part in name.split(" - ")))


def merged(accusations: Iterable[Accusation], places: Mapping[str, Participant]) -> tuple[Accusation, ...]:
    """Each object once, with all tests for and against; what weighs most first.

    A GPU or rail outranks its node, whose tests become its own; a node (or part of one) outranks the pairs
    with it, and a leaf the pairs that cross it; whoever is named for a task outranks that this task is
    unexplained.
    """
    one_each = _united(accusations)
    parts = [one for one in one_each if one.object in (Object.GPU, Object.RAIL)]
    kept = _into_parts(one_each, parts)
    guilty = {node for one in kept if (node := node_of(one)) is not None}
    crossing = frozenset[str]().union(*(behind(one.name, places) for one in kept
                                        if one.object is Object.LEAF))
    explained = {task_of(test) for one in kept if one.object is not Object.UNEXPLAINED
                 for test in one.tests_for}
    left = []
    for one in kept:
        if one.object is Object.PAIR and set(one.name.split(" - ")) & (guilty | crossing):
            continue
        if one.object is Object.UNEXPLAINED and one.name in explained:
            continue
        left.append(one)
    return tuple(sorted(left,
                        key=lambda one: (_ORDER.index(one.object) == _ORDER.index(Object.UNEXPLAINED),
                                         _weight(one.fault), _ORDER.index(one.object), natural(one.name))))


def _united(accusations: Iterable[Accusation]) -> list[Accusation]:
    found: dict[tuple[Object, str], Accusation] = {}
    for one in accusations:
        key = (one.object, one.name)
        found[key] = unite(found[key], one) if key in found else one
    return list(found.values())


def unite(one: Accusation, other: Accusation) -> Accusation:
    """Both as one: the graver fault, what is said of each, all tests.

    A test that both have for and against speaks for.
    """
    first, second = sorted((one, other), key=lambda each: _weight(each.fault))
    why = first.why if second.why in first.why else f"{first.why}; {second.why}"
    in_favour = _tests((*first.tests_for, *second.tests_for))
    against = _tests((*first.tests_against, *second.tests_against), {task_of(test) for test in in_favour})
    return replace(first, why=why[:_MOST_WHY], tests_for=in_favour, tests_against=against,
                   confirmed=first.confirmed or second.confirmed)


def _tests(tests: Iterable[str], but: Collection[str] = ()) -> tuple[str, ...]:
    """Each task once, with what it showed where somebody says so."""
    found: dict[str, str] = {}
    for test in tests:
        id_ = task_of(test)
        if id_ not in but and len(test) > len(found.get(id_, "")):
            found[id_] = test
    return tuple(found.values())


def _into_parts(all_: Sequence[Accusation], parts: Sequence[Accusation]) -> list[Accusation]:
    """Without the nodes whose GPU or rail is named and may be why: their tests and words go to the part,
    where there is but one.
    """
    of_node: dict[str, list[Accusation]] = {}
    for part in parts:
        of_node.setdefault(node_of(part) or "", []).append(part)
    kept = []
    grown: dict[Accusation, Accusation] = {}
    for one in all_:
        named = ([part for part in of_node.get(one.name, []) if _explains(part, one)]
                 if one.object is Object.NODE else [])
        if not named:
            kept.append(one)
        for part in named:
            said = f"{part.why}; its node: {one.why}" if len(named) == 1 else part.why
            tests = unite(part, one)
            grown[part] = replace(part, why=said[:_MOST_WHY], tests_for=tests.tests_for,
                                  tests_against=tests.tests_against)
    return [grown.get(one, one) for one in kept]


def _explains(part: Accusation, node: Accusation) -> bool:
    """Whether what a part of a node is named for can be why its node failed."""
    if node.fault in _OF_NODES or (node.fault in _WRONG and part.fault != node.fault):
        return False
    return part.object is not Object.RAIL or node.fault in OF_RAILS or node.fault == part.fault


def _weight(fault: str) -> int:
    return _WORST.index(fault) if fault in _WORST else len(_WORST)
