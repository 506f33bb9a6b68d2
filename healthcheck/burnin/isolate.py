"""Finds the guilty by pairs, in few rounds: a plan that goes on from what it is told, as a state machine without clock or machine.

Two rounds in the leaf with different partners; who failed, once more with a proven node; four rounds across leaves without the guilty; and
again whoever failed there: a node in its leaf with a proven one, a pair with itself, a leaf with one that is proven. A suspect is tried
again only while the outcome could still change the answer: a node that fails always is named after three rounds, one that fails at times
takes some more. `repeats` are more rounds in the leaf, which find what fails seldom.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from healthcheck.burnin import faults
from healthcheck.burnin.accuse import accusations, doubts
from healthcheck.burnin.model import Accusation, Place, Stage, TaskResult
from healthcheck.burnin.rounds import Pair, Round, Sites, between, inside, pair, with_proven
from healthcheck.burnin.suspects import LEAF_TRIES, Suspects, clean
from healthcheck.burnin.weigh import Cause, Evidence, Outcome, Tested, Weighed

ACROSS = 4          # rounds across leaves
TRIES = 3           # of one node with proven ones, at most
TRIES_OF_PATHS = 2  # of one pair with itself


def tested(result: TaskResult, slow: bool | None, rails: Mapping[int, Outcome] = MappingProxyType({})) -> Tested:
    """What a pair's task says as a test. `slow` is what the judge of its figures says, None where he could not.

    Wrong data, and whatever watching already blamed on somebody, is a failure. A task that is not whole and blames nobody is unknown.
    """
    one, two = result.task.nodes
    outcome, fault = Outcome.UNKNOWN, faults.SLOW
    if any(report.wrong_total or report.wrong for report in result.reports):
        outcome, fault = Outcome.FAIL, faults.WRONG_DATA
    elif result.accusations:
        outcome, fault = Outcome.FAIL, result.accusations[0].fault
    elif result.whole and Outcome.FAIL in rails.values():
        outcome, fault = Outcome.FAIL, faults.SLOW_LINK
    elif result.whole and slow is not None:
        outcome = Outcome.FAIL if slow else Outcome.PASS
    return Tested(pair(one, two), result.task.id, outcome, fault, rails, result.whole and outcome is Outcome.UNKNOWN)


class Isolation:
    """Give it the nodes, run what `next` says, tell it what came of that, until `next` is None; then read who is accused."""

    def __init__(self, places: Iterable[Place], *, repeats: int = 1, tries: int = TRIES, paths: int = TRIES_OF_PATHS,
                 across: int = ACROSS, seed: int = 0) -> None:
        if repeats < 1 or tries < 1 or paths < 0 or across < 0:
            raise ValueError("at least one repeat and one try, and no negative number of rounds")
        self.sites = Sites(places, seed)
        self.evidence = Evidence(self.sites)
        self.notes: list[str] = []      # what people should know of how it went: too few proven nodes, and for whom
        self._repeats, self._tries, self._paths, self._across = repeats, tries, paths, across
        self._met: set[Pair] = set()
        self._tried: Counter[Cause] = Counter()
        self._with_proven: set[tuple[str, int]] = set()     # a node, and a test in which it was tried with a proven one
        self._number = 0
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
        """The round to run now, the same one until it has been told; None when nothing is left to find out."""
        if self._current is None:
            self._current = next(self._steps, None)
        return self._current

    def told(self, tests: Iterable[Tested]) -> None:
        """What came of the round. A pair of which nothing is told is unknown. Raises ValueError for a pair that is not in the round."""
        if self._current is None:
            raise ValueError("no round is under way")
        missing = dict.fromkeys(self._current.pairs)
        heard = list(tests)
        for test in heard:
            if test.pair not in missing:
                raise ValueError(f"{test.pair} is not in the round, or was told already")
            del missing[test.pair]
        begin = len(self.evidence.tests)
        self.evidence.add([*heard, *(Tested(each, "", Outcome.UNKNOWN) for each in missing)])
        self._met.update(self._current.pairs)
        for at in range(begin, len(self.evidence.tests)):
            for node in self.evidence.tests[at].pair:
                if node in self._trying:
                    self._with_proven.add((node, at))
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
        return tuple(node for node in self.sites.order if Cause("node", node) not in self.evidence.of)

    # ---- the plan

    def _plan(self) -> Iterator[Round]:
        near = self.sites.grouped(self.sites.order, self.sites.near)
        for turn in range(1 + self._repeats):
            yield from self._round(Stage.LEAF_PAIRS, inside(near.values(), turn))
        yield from self._confirm()
        leaves = self.sites.grouped(self._alive(), self.sites.leaf).values()
        parts = [tuple(self.sites.grouped(nodes, self.sites.near).values()) for nodes in leaves]
        for turn in range(1 + self._repeats):
            yield from self._round(Stage.LEAF_PAIRS, [each for part in parts for each in between(part, turn, self._met)])
        yield from self._confirm()
        groups = tuple(self.sites.grouped(self._alive(), self.sites.leaf).values())
        for turn in range(self._across):
            yield from self._round(Stage.CROSS_PAIRS, between(groups, turn, self._met))
        yield from self._confirm()

    def _round(self, stage: Stage, pairs: list[Pair]) -> Iterator[Round]:
        if pairs:
            self._number += 1
            yield Round(stage, self._number, tuple(pairs))

    def _alive(self) -> list[str]:
        """Who takes part in the next stage: nobody accused, and nobody who gave no result twice."""
        silent = Counter(node for test in self.evidence.tests if test.outcome is Outcome.UNKNOWN for node in test.pair)
        accused = self.weighed.accused
        return [node for node in self.sites.order if Cause("node", node) not in accused
                and (silent[node] < 2 or node in self.evidence.measured)]

    def _confirm(self) -> Iterator[Round]:
        """Rounds for suspects, until none is left whom another test could convict or clear."""
        without: list[str] = []
        for _ in range(self._tries + self._paths + LEAF_TRIES):
            pairs, without = self._again()
            yield from self._round(Stage.LEAF_CONFIRM, pairs)
            self._trying = set()
            if not pairs:
                break
        without = [node for node in without if not self._tried[Cause("node", node)]]
        if without:
            named = ", ".join(without[:8]) + (f" and {len(without) - 8} more" if len(without) > 8 else "")
            note = f"too few proven nodes: none was left to try {named} with"
            self.notes += [note] if note not in self.notes else []

    def _suspects(self) -> Suspects:
        return Suspects(self.weighed, self._tried, self._tries, self._paths)

    def _again(self) -> tuple[list[Pair], list[str]]:
        """The pairs of one such round, and the suspects for whom there was no partner."""
        suspects = self._suspects()
        nodes, same, groups = suspects.found()
        proven = [node for node in suspects.proven() if node not in nodes]
        pairs = self._leaf_pairs(groups, proven)
        if groups and not pairs:
            nodes, same, _ = suspects.found(groups_too=False)
            proven = [node for node in suspects.proven() if node not in nodes]
        used = {node for each in pairs for node in each}
        found, without = self._node_pairs([node for node in nodes if node not in used], [node for node in proven if node not in used])
        used.update(node for each in found for node in each)
        pairs += found
        for each in same:
            if used.isdisjoint(each):
                used.update(each)
                pairs.append(each)
                self._tried[Cause("pair", *each)] += 1
        return pairs, without

    def _node_pairs(self, suspects: list[str], proven: list[str]) -> tuple[list[Pair], list[str]]:
        """Each suspect with a proven node, better with a new one; without any, suspects with each other, better with new ones."""
        pairs, without = with_proven(suspects, proven, self.sites, self._met)
        used = {node for each in pairs for node in each}
        more, without = with_proven(without, [node for node in proven if node not in used], self.sites)
        pairs += more
        tried = [node for node in suspects if node not in without]
        self._trying.update(tried)
        left = self._suspects().left
        if not pairs:
            while without:
                node = without.pop()
                partner = next((each for each in without if pair(node, each) not in self._met), None) or next(
                    (each for each in without if left(Cause("pair", *pair(node, each)))), None)
                if partner is not None:
                    without.remove(partner)
                    pairs.append(pair(node, partner))
                    self._tried[Cause("pair", *pairs[-1])] += 1
            without = [node for node in suspects if not any(node in each for each in pairs)]
            tried = []
        for node in tried:
            self._tried[Cause("node", node)] += 1
        return pairs, without

    def _leaf_pairs(self, groups: list[Cause], proven: list[str]) -> list[Pair]:
        """Each of these groups, as a whole, with nodes of groups that nobody suspects; several share those fairly."""
        if not groups:
            return []
        doubted = {cause.group for cause in (*groups, *self.weighed.accused) if cause.group is not None}
        free = [node for node in proven if not doubted & {self.sites.leaf[node], self.sites.near[node]}]
        alive = self._alive()
        queues = {cause: [node for node in alive if cause.group in (self.sites.leaf[node], self.sites.near[node])] for cause in groups}
        pairs: list[Pair] = []
        took: set[Cause] = set()
        used: set[str] = set()
        while free and any(queues.values()):
            for cause, queue in queues.items():
                # A domain's nodes are their leaf's as well, and both may be suspected.
                while queue and queue[-1] in used:
                    queue.pop()
                if queue and free:
                    pairs.append(pair(queue.pop(), free.pop()))
                    used.update(pairs[-1])
                    took.add(cause)
        self._tried.update(took)
        return pairs
