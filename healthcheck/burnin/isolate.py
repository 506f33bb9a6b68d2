"""Finds the guilty nodes by pair tests in few rounds: a state machine without clock or I/O.

Two rounds in the leaf with different partners, then one more with a proven node for each that failed, then
four rounds across leaves without the guilty. Then come tests on which good explanations differ: a node with a
proven one, a pair with itself, a leaf with proven ones. That goes on while an outcome could still change the
answer. More rounds, by length of burn-in, find what fails seldom: of 100 nodes that fail in 3 of 10 tests, 12
fail in none of six.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from healthcheck.burnin import faults, limits
from healthcheck.burnin.accuse import accusations, doubts, noise
from healthcheck.burnin.model import Accusation, BurnInStage, Participant, TaskResult
from healthcheck.burnin.posterior import Rival, WeighedEvidence
from healthcheck.burnin.rounds import NodePair, Round, Sites, between, inside, pair, turns, with_proven
from healthcheck.burnin.suspects import Suspects, clean_nodes
from healthcheck.burnin.weigh import CandidateCause, PairEvidence, PairOutcome, PairTest
from inventory.text import listed

ACROSS = 4          # rounds across leaves
TRIES = 12          # passed tests of one node with proven ones, at most
TRIES_BETWEEN = 3   # the same while more rounds follow, which show as much
TRIES_OF_PATHS = 3  # repeats of one pair
GROUP_ROUNDS = 10   # rounds with tests of leaves, beyond the planned ones
_MORE = 12          # further rounds, beyond the tries of one node


@dataclass(frozen=True)
class Depth:
    """How much each length asks of pairs: repeats in the leaf, rounds across leaves, tries of a node."""

    repeats: int
    across: int
    tries: int


# Simulated with nodes that fail in 3 of 10 tests (scripts/bench/isolate): quick finds 9 of 10 of them,
# standard 99 of 100. A screening runs every few days: two rounds in the leaf, which tell two suspects apart,
# and few tries.
DEPTHS = MappingProxyType({"screen": Depth(1, 0, 4), "quick": Depth(1, 8, 16), "standard": Depth(3, 14, 40),
                           "soak": Depth(3, 14, 40)})


def pair_test(result: TaskResult, slow: bool | None) -> PairTest:
    """The test that a pair's task is; `slow` is the judge's verdict, None where it has none. Wrong data and
    every accusation by the watch is a failure; not whole without one is unknown."""
    one, two = result.task.nodes
    outcome, fault = PairOutcome.UNKNOWN, faults.SLOW
    if any(report.wrong_total or report.wrong for report in result.reports):
        outcome, fault = PairOutcome.FAIL, faults.WRONG_DATA
    elif result.accusations:
        outcome, fault = PairOutcome.FAIL, result.accusations[0].fault
    elif result.whole and slow is not None:
        outcome = PairOutcome.FAIL if slow else PairOutcome.PASS
    return PairTest(pair(one, two), result.task.id, outcome, fault,
                  result.whole and outcome is PairOutcome.UNKNOWN)


class PairSearch:
    """Run each round of `next` and add its results until `next` is None; then read the accusations."""

    def __init__(self, places: Iterable[Participant], *, repeats: int = 1, tries: int = TRIES,
                 paths: int = TRIES_OF_PATHS, across: int = ACROSS, seed: int = 0) -> None:
        if repeats < 1 or tries < 1 or paths < 0 or across < 0:
            raise ValueError("at least one repeat and one try, and no negative number of rounds")
        self.sites = Sites(places, seed)
        self.evidence = PairEvidence(self.sites)
        # notes for people: too few proven nodes, and for which
        self.notes: list[str] = []
        self._repeats, self._tries, self._paths, self._across = repeats, tries, paths, across
        self._met: set[NodePair] = set()
        self._tried: Counter[CandidateCause] = Counter()
        # (node, test): tested with a proven node
        self._with_proven: set[tuple[str, int]] = set()
        self._number = self._group_rounds = 0
        self._weighed: WeighedEvidence | None = None
        self._trying: set[str] = set()
        self._steps = self._plan()
        self._current: Round | None = None

    @property
    def weighed(self) -> WeighedEvidence:
        """The evidence so far, weighed."""
        if self._weighed is None:
            self._weighed = WeighedEvidence(self.evidence)
        return self._weighed

    def next(self) -> Round | None:
        """The round to run now, the same until its results are added; None when nothing is left to test."""
        if self._current is None:
            self._current = next(self._steps, None)
        return self._current

    def add_results(self, tests: Iterable[PairTest]) -> None:
        """Adds the round's results; a pair without one is unknown. ValueError for a pair not in the round."""
        if self._current is None:
            raise ValueError("no round is under way")
        missing = dict.fromkeys(self._current.pairs)
        results = list(tests)
        for test in results:
            if test.pair not in missing:
                raise ValueError(f"{test.pair} is not in the round, or has a result already")
            del missing[test.pair]
        begin = len(self.evidence.tests)
        self.evidence.add([*results, *(PairTest(each, "", PairOutcome.UNKNOWN) for each in missing)])
        self._met.update(self._current.pairs)
        for at in range(begin, len(self.evidence.tests)):
            test = self.evidence.tests[at]
            for node in self._trying & set(test.pair):
                self._with_proven.add((node, at))
                # Only passed tests use up tries.
                apart = self.sites.near[node] != self.sites.near[test.pair.other(node)]
                self._tried[CandidateCause("out" if apart else "node",
                                           node)] += test.outcome is not PairOutcome.FAIL
        self._weighed, self._current = None, None

    def accusations(self) -> tuple[Accusation, ...]:
        """The accusations by the results so far, with the tests for and against."""
        return accusations(self.weighed, self._with_proven)

    def doubts(self) -> tuple[str, ...]:
        """The failures that did not come again, a line each: noise."""
        return doubts(self.weighed)

    def noise(self) -> frozenset[str]:
        """The ids of those tests."""
        return frozenset(test.test for test in noise(self.weighed))

    def proven(self) -> tuple[str, ...]:
        """The nodes that passed with some node and failed only with guilty ones."""
        return tuple(clean_nodes(self.weighed, self.weighed.accused))

    def unmeasured(self) -> tuple[str, ...]:
        """The nodes without any result: neither clean nor guilty, and never a pass."""
        return tuple(node for node in self.sites.order
                     if CandidateCause("node", node) not in self.evidence.of)

    # ---- the plan

    def _plan(self) -> Iterator[Round]:
        near = self.sites.grouped(self.sites.order, self.sites.near)
        for turn in range(1 + self._repeats):
            yield from self._round(BurnInStage.LEAF_PAIRS, inside(near.values(), turn))
        yield from self._confirm(self._short())
        leaves = self.sites.grouped(self._alive(), self.sites.leaf).values()
        parts = [tuple(self.sites.grouped(nodes, self.sites.near).values()) for nodes in leaves]
        if any(len(part) > 1 for part in parts):
            for turn in range(1 + self._repeats):
                yield from self._round(BurnInStage.LEAF_PAIRS,
                                       [each for part in parts for each in between(part, turn, self._met)])
            yield from self._confirm(self._short())
        groups = tuple(self.sites.grouped(self._alive(), self.sites.leaf).values())
        for turn in range(self._across):
            if len(groups) > 1:
                yield from self._round(BurnInStage.CROSS_PAIRS,
                                       between(groups, turn, self._met) or between(groups, turn))
            else:
                # A single leaf: more turns of its nodes, from the first again when all have met.
                more = 1 + self._repeats + turn
                yield from self._round(BurnInStage.LEAF_PAIRS, [
                    each for group in groups for each in inside([group], more % max(1, turns(len(group))))])
        if self._across:
            yield from self._confirm(self._tries)

    def _short(self) -> int:
        return min(self._tries, TRIES_BETWEEN) if self._across else self._tries

    def _round(self, stage: BurnInStage, pairs: list[NodePair]) -> Iterator[Round]:
        if pairs:
            self._number += 1
            yield Round(stage, self._number, tuple(pairs))

    def _alive(self) -> list[str]:
        """The nodes of the next stage: not accused, and not twice without a result."""
        silent = Counter(node for test in self.evidence.tests if test.outcome is PairOutcome.UNKNOWN
                         for node in test.pair)
        accused = {cause.name for cause in self.weighed.accused if cause.kind in ("node", "out")}
        return [node for node in self.sites.order if node not in accused
                and (silent[node] < 2 or node in self.evidence.measured)]

    def _confirm(self, tries: int) -> Iterator[Round]:
        """Rounds for what is at issue, until no test is left that could decide it."""
        without: list[str] = []
        # Without any pass, tests of two suspects decide little.
        for _ in range(tries + _MORE if clean_nodes(self.weighed, self.weighed.best) else TRIES_BETWEEN):
            pairs, without = self._again(tries)
            yield from self._round(BurnInStage.LEAF_CONFIRM, pairs)
            self._trying = set()
            if not pairs:
                break
        without = [node for node in without if not any(node == each for each, _ in self._with_proven)]
        if without:
            named = listed(without, limits.NAMES)
            note = f"too few proven nodes: none was left to test {named} with"
            self.notes += [note] if note not in self.notes else []

    def _again(self, tries: int) -> tuple[list[NodePair], list[str]]:
        """The pairs of one such round, and the suspects without a partner."""
        suspects = Suspects(self.weighed, self._tried, tries, self._paths, self._confirmed())
        wanted = suspects.next_tests()
        proven = [node for node in suspects.proven() if node not in wanted.nodes]
        pairs, without = self._node_pairs(wanted.nodes, proven, suspects)
        used = {node for each in pairs for node in each}
        for each in wanted.pairs:
            if used.isdisjoint(each):
                used.update(each)
                pairs.append(each)
                self._tried[CandidateCause("pair", *each)] += 1
                self._trying.update(node for node in each if each.other(node) in proven)
        of_groups = (self._group_pairs(wanted.groups, suspects, used)
                     if self._group_rounds < GROUP_ROUNDS else [])
        self._group_rounds += bool(of_groups)
        return pairs + of_groups, without

    def _confirmed(self) -> set[str]:
        return {node for node, at in self._with_proven if self.evidence.tests[at].outcome is PairOutcome.FAIL}

    def _node_pairs(self, nodes: list[str], proven: list[str],
                    suspects: Suspects) -> tuple[list[NodePair], list[str]]:
        """Each node with a proven one, if possible a new one; without any, with each other."""
        pairs, without = with_proven(nodes, proven, self.sites, self._met)
        used = {node for each in pairs for node in each}
        more, without = with_proven(without, [node for node in proven if node not in used], self.sites)
        pairs += more
        self._trying.update(node for node in nodes if node not in without)
        if pairs:
            return pairs, without
        waiting = list(without)
        while waiting:
            node = waiting.pop()
            partner = next((each for each in waiting if pair(node, each) not in self._met), None) or next(
                (each for each in waiting if suspects.tries_left(CandidateCause("pair", *pair(node, each)))),
                None)
            if partner is not None:
                waiting.remove(partner)
                pairs.append(pair(node, partner))
                self._tried[CandidateCause("pair", *pairs[-1])] += 1
        return pairs, [node for node in without if not any(node in each for each in pairs)]

    def _group_pairs(self, groups: Sequence[tuple[CandidateCause, Rival]], suspects: Suspects,
                     used: Iterable[str]) -> list[NodePair]:
        """Tests of whole groups, as many of their nodes as are free."""
        pairs: list[NodePair] = []
        taken = set(used)
        for cause, rival in groups:
            while found := suspects.of_groups(cause, rival, taken):
                taken.update(node for each in found for node in each)
                pairs += found
        return pairs
