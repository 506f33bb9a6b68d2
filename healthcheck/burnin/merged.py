"""Merges all accusations: each object once, and no one accused of what another one is guilty of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from healthcheck.burnin import faults, limits
from healthcheck.burnin.model import Accusation, Object, Participant
from healthcheck.burnin.rounds import NodeGroup
from inventory.nodeset import natural

# The gravest first: an object with several accusations shows the first of them.
_WORST = (faults.WRONG_DATA, faults.WRONG_STORAGE, faults.DEAD, faults.LOST, faults.ABSENT, faults.STOPPED,
          faults.HUNG, faults.RAISED, faults.COUNTED, faults.SLOW_COMPUTE, faults.SLOW_LINK, faults.SLOW,
          faults.SLOW_STORAGE, faults.LATE, faults.JITTER)
_ORDER = tuple(Object)
# Only a whole node can cause these; no part of it explains them.
_OF_NODES = (faults.LOST, faults.ABSENT)
# Faults that a NIC, its cable or its switch can cause. Dead and missing ranks are not; nor is wrong data: a
# rail's test also tests the GPU beside it, and links find changed data by checksums.
OF_RAILS = (faults.SLOW, faults.SLOW_LINK, faults.JITTER, faults.LATE, faults.RAISED, faults.HUNG)
_WRONG = (faults.WRONG_DATA, faults.WRONG_STORAGE)
# What all GPUs of a node are seldom at once: they share its power, cooling, clocks and software.
_OF_SPEED = (faults.SLOW, faults.SLOW_COMPUTE, faults.JITTER)


def task_of(test: str) -> str:
    """The task's id in a test of an accusation, before what it showed ("leaf-1-0: gpu1 - gpu2 slow")."""
    return test.partition(": ")[0]


def node_of(accusation: Accusation) -> str | None:
    """The node that an accused GPU, rail or node is, or is part of."""
    if accusation.object is Object.NODE:
        return accusation.name
    if accusation.object is Object.GPU:
        return accusation.name.rpartition(":")[0]
    return accusation.name.rpartition("/")[0] if accusation.object is Object.RAIL else None


def behind(leaf: str, places: Mapping[str, Participant]) -> frozenset[str]:
    """The nodes behind a leaf (all rails or one), or in an NVLink domain, by the name in an accusation."""
    group = leaf.partition(", rail ")[0]
    return frozenset(place.node for place in places.values() if group == place.leaf
                     or group in (place.leaf or "").split("+")
                     or any(rail.leaf == group for rail in place.rails)
                     or (place.domain is not None and group == str(NodeGroup("domain", place.domain))))


def sharing(name: str, places: Mapping[str, Participant]) -> frozenset[str]:
    """The nodes of a pair or leaf by its name; of a path between two leaves all nodes behind them."""
    return frozenset[str]().union(*({part} if part in places else behind(part, places)
                                    for part in name.split(" - ")))


def merged(accusations: Iterable[Accusation], places: Mapping[str, Participant]) -> tuple[Accusation, ...]:
    """Each object once, with all tests for and against; the gravest first. A GPU or rail replaces its node
    and gets its tests, a node its GPUs where all are slow, which no rail explains; a node (or part of one)
    the pairs with it, a leaf or a path between two the pairs that cross it, what is unexplained but for some
    nodes the pairs of its tests, and anything named for a task that task as unexplained."""
    each = _united(accusations)
    whole = _all_slow(each, places)
    one_each = _united(_of_whole_nodes(each, whole))
    parts = [one for one in one_each
             if one.object in (Object.GPU, Object.RAIL) and node_of(one) not in whole]
    kept = _into_parts(one_each, parts)
    guilty = {node for one in kept if (node := node_of(one)) is not None}
    crossing = frozenset[str]().union(*(behind(one.name, places) for one in kept
                                        if one.object is Object.LEAF))
    explained = {task_of(test) for one in kept if one.object is not Object.UNEXPLAINED
                 for test in one.tests_for}
    paths = [tuple(behind(leaf, places) for leaf in one.name.split(" - ")) for one in kept
             if one.object is Object.PAIR and places.keys().isdisjoint(one.name.split(" - "))]
    narrowed = {task_of(test) for one in kept if one.nodes for test in one.tests_for}
    left = []
    for one in kept:
        if one.object is Object.PAIR and set(one.name.split(" - ")) & (guilty | crossing):
            continue
        if one.object is Object.PAIR and (
                (one.tests_for and narrowed.issuperset(map(task_of, one.tests_for)))
                or any(_crosses(one.name, path) for path in paths)):
            continue
        if one.object is Object.UNEXPLAINED and one.name in explained:
            continue
        left.append(one)
    return tuple(sorted(left,
                        key=lambda one: (_ORDER.index(one.object) == _ORDER.index(Object.UNEXPLAINED),
                                         _weight(one.fault), _ORDER.index(one.object), natural(one.name))))


def _crosses(name: str, path: Sequence[frozenset[str]]) -> bool:
    """Whether a pair of nodes lies across this path between two groups."""
    ends = name.split(" - ")
    return len(ends) == len(path) == 2 and any(
        one in path[0] and other in path[1] for one, other in (ends, reversed(ends)))


def _united(accusations: Iterable[Accusation]) -> list[Accusation]:
    found: dict[tuple[Object, str], Accusation] = {}
    for one in accusations:
        key = (one.object, one.name)
        found[key] = unite(found[key], one) if key in found else one
    return list(found.values())


def _all_slow(accusations: Iterable[Accusation],
              places: Mapping[str, Participant]) -> dict[str, list[Accusation]]:
    """The accusations of GPUs by node, of each node whose GPUs are all slow."""
    slow: dict[str, list[Accusation]] = {}
    for one in accusations:
        if one.object is Object.GPU and one.fault in _OF_SPEED:
            slow.setdefault(node_of(one) or "", []).append(one)
    return {node: gpus for node, gpus in slow.items()
            if node in places and len(gpus) == places[node].gpus > 1}


def _of_whole_nodes(accusations: Iterable[Accusation],
                    whole: Mapping[str, Sequence[Accusation]]) -> list[Accusation]:
    """The accusations, with one of each of these nodes in place of those of its GPUs."""
    kept = [one for one in accusations if one.object is not Object.GPU or node_of(one) not in whole]
    for node, gpus in whole.items():
        first = min(gpus, key=lambda one: _weight(one.fault))
        tests = _tests(test for one in gpus for test in one.tests_for)
        against = _tests((test for one in gpus for test in one.tests_against), set(map(task_of, tests)))
        kept.append(replace(first, object=Object.NODE, name=node, tests_for=tests, tests_against=against,
                            why=f"all of its {len(gpus)} GPUs, as {first.name}: {first.why}",
                            confirmed=any(one.confirmed for one in gpus)))
    return kept


def unite(one: Accusation, other: Accusation) -> Accusation:
    """Both as one: the graver fault, both reasons, all tests; a test both for and against counts for."""
    first, second = sorted((one, other), key=lambda each: _weight(each.fault))
    why = first.why if second.why in first.why else f"{first.why}; {second.why}"
    in_favour = _tests((*first.tests_for, *second.tests_for))
    against = _tests((*first.tests_against, *second.tests_against), {task_of(test) for test in in_favour})
    return replace(first, why=why[:limits.WHY_TEXT], tests_for=in_favour, tests_against=against,
                   confirmed=first.confirmed or second.confirmed,
                   nodes=(tuple(dict.fromkeys((*one.nodes, *other.nodes)))
                          if one.nodes and other.nodes else ()))


def _tests(tests: Iterable[str], but: Collection[str] = ()) -> tuple[str, ...]:
    """Each task once, with what it showed where that is known."""
    found: dict[str, str] = {}
    for test in tests:
        id_ = task_of(test)
        if id_ not in but and len(test) > len(found.get(id_, "")):
            found[id_] = test
    return tuple(found.values())


def _into_parts(all_: Sequence[Accusation], parts: Sequence[Accusation]) -> list[Accusation]:
    """Removes accusations of nodes whose accused GPU or rail explains them, and adds their tests to it."""
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
            why = f"{part.why}; its node: {one.why}" if len(named) == 1 else part.why
            tests = unite(part, one)
            grown[part] = replace(part, why=why[:limits.WHY_TEXT], tests_for=tests.tests_for,
                                  tests_against=tests.tests_against)
    return [grown.get(one, one) for one in kept]


def _explains(part: Accusation, node: Accusation) -> bool:
    """Whether what a part of a node is named for can be why its node failed."""
    if node.fault in _OF_NODES or (node.fault in _WRONG and part.fault != node.fault):
        return False
    return part.object is not Object.RAIL or node.fault in OF_RAILS or node.fault == part.fault


def _weight(fault: str) -> int:
    return _WORST.index(fault) if fault in _WORST else len(_WORST)
