"""Finds the guilty by pairs, in few rounds: a plan that goes on from what is reported to it, as a state
machine without clock or machine.

Two rounds in the leaf with different partners; who failed, once more with a proven node; four rounds across
leaves without the guilty; and then tests of that on which good explanations differ: a node with a proven one,
a pair with itself, a leaf with proven ones. That goes on while the outcome could still change the answer.
More rounds, by length of burn-in, find what fails seldom: of 100 nodes that fail in 3 of 10 tests, 12 fail in
none of six.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from healthcheck.burnin import faults
from healthcheck.burnin.accuse import accusations, doubts
from healthcheck.burnin.model import Accusation, BurnInStage, Participant, TaskResult
from healthcheck.burnin.posterior import Rival, Weighed
from healthcheck.burnin.rounds import NodePair, Round, Sites, between, inside, pair, turns, with_proven
from healthcheck.burnin.suspects import Suspects, clean
from healthcheck.burnin.weigh import CandidateCause, PairEvidence, PairOutcome, Tested

ACROSS = 4          # rounds across leaves
TRIES = 12          # of one node with proven ones that it passes, at most
TRIES_BETWEEN = 3   # the same before more rounds, which tell as much
TRIES_OF_PATHS = 3  # of one pair with itself
GROUP_ROUNDS = 10   # with tests of leaves, beyond those that are planned
_MORE = 12          # rounds of such tests at most, beyond the tries of one node


@dataclass(frozen=True)
class Depth:
    """How much a length of burn-in asks of pairs: rounds in the leaf beside the first, rounds across leaves,
    and tries of one node.
    """

    repeats: int
    across: int
    tries: int


# Simulated with nodes that fail in 3 of 10 tests (scripts/bench/isolate): quick finds 9 of 10 of them,
# standard 99 of 100. A screening is repeated every few days: two rounds in the leaf, which tell two suspects
# apart, and few tries.
DEPTHS = MappingProxyType({"screen": Depth(1, 0, 4), "quick": Depth(1, 8, 16), "standard": Depth(3, 14, 40),
                           "soak": Depth(3, 14, 40)})


def tested(result: TaskResult, slow: bool | None) -> Tested:
    """What a pair's task says as a test.

    `slow` is what the judge of its figures says, None where he could not.

    Wrong data, and whatever watching already blamed on somebody, is a failure. A task that is not whole and
    blames nobody is unknown.
    """
    one, two = result.task.nodes
    outcome, fault = PairOutcome.UNKNOWN, faults.SLOW
    if any(report.wrong_total or report.wrong for report in result.reports):
        outcome, fault = PairOutcome.FAIL, faults.WRONG_DATA
    elif result.accusations:
        outcome, fault = PairOutcome.FAIL, result.accusations[0].fault
    elif result.whole and slow is not None:
        outcome = PairOutcome.FAIL if slow else PairOutcome.PASS
    return Tested(pair(one, two), result.task.id, outcome, fault,
                  result.whole and outcome is PairOutcome.UNKNOWN)


class PairSearch:
    """Give it the nodes, run what `next` says, tell it what came of that, until `next` is None; then read who
    is accused.
    """

    def __init__(self, places: Iterable[Participant], *, repeats: int = 1, tries: int = TRIES,
                 paths: int = TRIES_OF_PATHS, across: int = ACROSS, seed: int = 0) -> None:
        if repeats < 1 or tries < 1 or paths < 0 or across < 0:
            raise ValueError("at least one repeat and one try, and no negative number of rounds")
        self.sites = Sites(places, seed)
        self.evidence = PairEvidence(self.sites)
        # what people should know of how it went: too few proven nodes, and for whom
        self.notes: list[str] = []
        self._repeats, self._tries, self._paths, self._across = repeats, tries, paths, across
        self._met: set[NodePair] = set()
        self._tried: Counter[CandidateCause] = Counter()
        # a node, and a test in which it was tried with a proven one
        self._with_proven: set[tuple[str, int]] = set()
        self._number = self._group_rounds = 0
        self._weighed: Weighed | None = None
        self._trying: set[str] = set()
        self._steps = self._plan()
        self._current: Round | None = None

    @property
    def weighed(self) -> Weighed:
        """What the evidence says so far."""
        if self._weighed is None:
            self._weighed = Weighed(self.evidence)
        return self._weighed

    def next(self) -> Round | None:
        """The round to run now, the same one until it has been told; None when nothing is left to find out.
        """
        if self._current is None:
            self._current = next(self._steps, None)
        return self._current

    def told(self, tests: Iterable[Tested]) -> None:
        """What came of the round. A pair of which nothing is told is unknown.

        Raises ValueError for a pair that is not in the round.
        """
        if self._current is None:
            raise ValueError("no round is under way")
        missing = dict.fromkeys(self._current.pairs)
        heard = list(tests)
        for test in heard:
            if test.pair not in missing:
                raise ValueError(f"{test.pair} is not in the round, or was told already")
            del missing[test.pair]
        begin = len(self.evidence.tests)
        self.evidence.add([*heard, *(Tested(each, "", PairOutcome.UNKNOWN) for each in missing)])
        self._met.update(self._current.pairs)
        for at in range(begin, len(self.evidence.tests)):
            test = self.evidence.tests[at]
            for node in self._trying & set(test.pair):
                self._with_proven.add((node, at))
                # Who fails is tried again: it is those that pass whose tries come to an end.
                apart = self.sites.near[node] != self.sites.near[test.pair.other(node)]
                self._tried[CandidateCause("out" if apart else "node",
                                           node)] += test.outcome is not PairOutcome.FAIL
        self._weighed, self._current = None, None

    def accusations(self) -> tuple[Accusation, ...]:
        """Who is accused by what was told so far, with the tests for and against."""
        return accusations(self.weighed, self._with_proven)

    def doubts(self) -> tuple[str, ...]:
        """The failures that did not come again, a line each: noise, and nobody's fault yet."""
        return doubts(self.weighed)

    def proven(self) -> tuple[str, ...]:
        """The nodes that have passed with somebody and failed with nobody but the guilty."""
        return tuple(clean(self.weighed, self.weighed.accused))

    def unmeasured(self) -> tuple[str, ...]:
        """The nodes of which no test has said anything: neither clean nor guilty, and never a pass."""
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
                yield from self._round(BurnInStage.LEAF_PAIRS,
                                       self._once_more(groups, 1 + self._repeats + turn))
        if self._across:
            yield from self._confirm(self._tries)

    def _short(self) -> int:
        return min(self._tries, TRIES_BETWEEN) if self._across else self._tries

    def _once_more(self, groups: Iterable[list[str]], turn: int) -> list[NodePair]:
        """In one leaf alone, where there is no other to try it with: more turns of its nodes, from the first
        when all have met.
        """
        return [each for group in groups for each in inside([group], turn % max(1, turns(len(group))))]

    def _round(self, stage: BurnInStage, pairs: list[NodePair]) -> Iterator[Round]:
        if pairs:
            self._number += 1
            yield Round(stage, self._number, tuple(pairs))

    def _alive(self) -> list[str]:
        """Who takes part in the next stage: nobody accused, and nobody who gave no result twice."""
        silent = Counter(node for test in self.evidence.tests if test.outcome is PairOutcome.UNKNOWN
                         for node in test.pair)
        accused = {cause.name for cause in self.weighed.accused if cause.kind in ("node", "out")}
        return [node for node in self.sites.order if node not in accused
                and (silent[node] < 2 or node in self.evidence.measured)]

    def _confirm(self, tries: int) -> Iterator[Round]:
        """Rounds for what is at issue, until no test is left that could decide it."""
        without: list[str] = []
        # Where nothing has passed, no test of two suspects decides much.
        for _ in range(tries + _MORE if clean(self.weighed, self.weighed.best) else TRIES_BETWEEN):
            pairs, without = self._again(tries)
            yield from self._round(BurnInStage.LEAF_CONFIRM, pairs)
            self._trying = set()
            if not pairs:
                break
        without = [node for node in without if not any(node == each for each, _ in self._with_proven)]
        if without:
            named = ", ".join(without[:8]) + (f" and {len(without) - 8} more" if len(without) > 8 else "")
            note = f"too few proven nodes: none was left to try {named} with"
            self.notes += [note] if note not in self.notes else []

    def _again(self, tries: int) -> tuple[list[NodePair], list[str]]:
        """The pairs of one such round, and the suspects for whom there was no partner."""
        suspects = Suspects(self.weighed, self._tried, tries, self._paths, self._confirmed())
        wanted = suspects.wanted()
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
        """Each of these with a proven node, better with a new one; without any, with each other, better with
        new ones.
        """
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
                (each for each in waiting if suspects.left(CandidateCause("pair", *pair(node, each)))), None)
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
