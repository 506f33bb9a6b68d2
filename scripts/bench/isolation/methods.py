"""The ways to find the guilty that are compared: the product's own, and what others do, as their code or
their papers describe it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from isolation.world import Tally, World, number

from healthcheck.burnin.isolate import DEPTHS, PairSearch
from healthcheck.burnin.model import Object
from healthcheck.burnin.weigh import PairOutcome, PairTest


def ours(world: World, repeats: int = 1, tries: int = 12, across: int = 4, paths: int = 3) -> Tally:
    """healthcheck.burnin.isolate, as it is."""
    tally = Tally()
    isolation = PairSearch(world.places(), repeats=repeats, tries=tries, paths=paths, across=across,
                           seed=world.chance.randrange(1 << 30))
    while (the := isolation.next()) is not None:
        results = []
        for at, each in enumerate(the.pairs):
            one, two = number(each.first), number(each.second)
            failed = world.pair_fails(one, two)
            tally.exercised.add((min(one, two), max(one, two)))
            results.append(PairTest(each, f"{the.stage.value}-{the.number}-{at}",
                                    PairOutcome.FAIL if failed else PairOutcome.PASS))
        tally.round((2, test.outcome is PairOutcome.FAIL) for test in results)
        isolation.add_results(results)
    for accused in isolation.accusations():
        if accused.object is Object.NODE:
            tally.nodes.add(number(accused.name))
        elif accused.object is Object.LEAF:
            tally.leaves.add(int(accused.name.removeprefix("leaf")))
        elif accused.object is Object.PAIR and not accused.name.startswith("leaf"):
            first, _, second = accused.name.partition(" - ")
            tally.links.add((number(first), number(second)))
        elif accused.object is Object.PAIR and world.uplinks.keys().isdisjoint(ends := _leaves(accused.name)):
            tally.leaves |= ends        # a path between two sound leaves
        else:
            tally.unexplained += 1
    return tally


def _leaves(path: str) -> set[int]:
    return {int(end.removeprefix("leaf")) for end in path.split(" - ")}


def of_length(length: str) -> Callable[[World], Tally]:
    """The same as a burn-in of this length asks for it."""
    depth = DEPTHS[length]
    return lambda world: ours(world, depth.repeats, depth.tries, depth.across)


def round_robin(world: World) -> Tally:
    """All pairs, n - 1 rounds by the circle method (SuperBench); a node is bad that fails with most, else a
    pair is that fails.

    Only tests that touch something guilty are played one by one; of the others, each round draws whether one
    gives a false alarm.
    """
    tally = Tally()
    count = world.count
    touched = {(min(one, two), max(one, two))
               for one in world.nodes for two in range(count) if one != two} | world.links
    for one in range(count) if world.uplinks else ():
        touched.update((min(one, two), max(one, two)) for two in range(count)
                       if world.leaf(one) in world.uplinks and world.leaf(one) != world.leaf(two))
    bad = {(one, two) for one, two in sorted(touched) if world.pair_fails(one, two)}
    fails = Counter(node for pair in bad for node in pair)
    # Of the circle, the pairs of one turn have one sum; the last node is the hub, and meets the one that
    # would meet itself.
    of_round = {(one + two) % (count - 1) if two < count - 1 else 2 * one % (count - 1) for one, two in bad}
    quiet = 1 - (1 - world.alarm) ** (count / 2)
    for turn in range(count - 1):
        failed = turn in of_round or (quiet > 0 and world.chance.random() < quiet)
        tally.round((2, failed and not at) for at in range(count // 2))
    tally.nodes = {node for node, times in fails.items() if 2 * times > count - 1}
    tally.links = {pair for pair in bad if tally.nodes.isdisjoint(pair)}
    return tally


def bisection(world: World) -> Tally:
    """One half after the other until one node is left; that one is taken out, and all are tested again, until
    they pass."""
    tally = Tally()
    left = list(range(world.count))
    while tally.rounds < 2000 and left and _group(world, tally, [left])[0]:
        some = left
        while len(some) > 1:
            half = some[:len(some) // 2]
            some = half if _group(world, tally, [half])[0] else some[len(some) // 2:]
        tally.nodes.add(some[0])
        left = [node for node in left if node != some[0]]
    return tally


def parallel_bisection(world: World) -> Tally:
    """Both halves of everything that failed, at the same time, until single nodes fail."""
    tally = Tally()
    some = [list(range(world.count))]
    while some:
        outcomes = _group(world, tally, some)
        failing = [nodes for nodes, failed in zip(some, outcomes, strict=True) if failed]
        tally.nodes.update(nodes[0] for nodes in failing if len(nodes) == 1)
        some = [half for nodes in failing if len(nodes) > 1
                for half in (nodes[:len(nodes) // 2], nodes[len(nodes) // 2:])]
    return tally


def _group(world: World, tally: Tally, parts: list[list[int]]) -> list[bool]:
    outcomes = [world.group_fails(nodes) for nodes in parts]
    tally.round((len(nodes), failed) for nodes, failed in zip(parts, outcomes, strict=True))
    return outcomes


def two_passes(world: World) -> Tally:
    """Random pairs; who was in a failing one is paired with somebody who passed; who fails again is bad
    (Google's health scanner)."""
    return _fixed(world, 1, 1, lambda failed, tests: failed == tests > 1)


def fixed(first: int, again: int) -> Callable[[World], Tally]:
    """So many rounds of random pairs, then as many for suspects with proven nodes, and the majority: what the
    notes propose."""
    return lambda world: _fixed(world, first, again, lambda failed, tests: 2 * failed > tests and failed > 1)


def _fixed(world: World, first: int, again: int, bad: Callable[[int, int], bool]) -> Tally:
    tally = Tally()
    everybody = list(range(world.count))
    tests: Counter[int] = Counter()
    fails: Counter[int] = Counter()
    for turn in range(first + again):
        if turn < first:
            world.chance.shuffle(everybody)
            pairs = list(zip(everybody[::2], everybody[1::2], strict=True))
        else:
            suspects = [node for node in everybody if fails[node]]
            proven = [node for node in everybody if not fails[node]]
            chosen = world.chance.sample(proven, min(len(proven), len(suspects)))
            pairs = list(zip(suspects, chosen, strict=False))
            if not pairs:
                break
        outcomes = [world.pair_fails(*pair) for pair in pairs]
        tally.round((2, failed) for failed in outcomes)
        for pair, failed in zip(pairs, outcomes, strict=True):
            # A proven node that helps a suspect is not judged by that.
            told = pair if turn < first else pair[:1]
            tests.update(told)
            fails.update(told if failed else ())
    tally.nodes = {node for node in everybody if bad(fails[node], tests[node])}
    return tally
