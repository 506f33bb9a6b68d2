"""What a further test could decide: nodes, paths and leaves on which good explanations differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from healthcheck.burnin.posterior import Rival, WeighedEvidence
from healthcheck.burnin.priors import LEAVE
from healthcheck.burnin.rounds import NodePair, pair
from healthcheck.burnin.weigh import CandidateCause

UNMEASURED_TRIES = 2
DECIDES = 0.1       # difference of failure chances at which a test tells two explanations apart
DECIDE = 0.06       # the same for all nodes of a leaf at once
_SAMPLES = 8


@dataclass(frozen=True)
class FurtherTests:
    """Nodes to try with a proven one, the worst first; pairs to try once more; groups to try as wholes."""

    nodes: list[str]
    pairs: list[NodePair]
    groups: list[tuple[CandidateCause, Rival]]


def clean_nodes(weighed: WeighedEvidence, guilty: Iterable[CandidateCause]) -> list[str]:
    """The nodes that passed with some node, and failed with none unless one of these causes explains it."""
    evidence = weighed.evidence
    guilty = frozenset(guilty)
    doubted = {node for at in weighed.unexplained(guilty) for node in evidence.tests[at].pair}
    bad = {cause.name for cause in guilty if cause.kind in ("node", "out")}
    return [node for node in evidence.sites.order if node not in doubted and node not in bad
            and evidence.clears(CandidateCause("node", node))]


def disputed(weighed: WeighedEvidence) -> dict[CandidateCause, None]:
    """The causes on which the best explanation and one about as good differ."""
    found: dict[CandidateCause, None] = {}
    for cause, rival in weighed.doubtful.items():
        found[cause] = None
        found.update(dict.fromkeys(other for other in rival.causes if other not in weighed.best))
    return found


class Suspects:
    """The state of the tests of suspects. `tried` counts their passed tests, of at most `tries` for a node
    and `paths` for a path; `confirmed` are the nodes that failed with a proven one."""

    def __init__(self, weighed: WeighedEvidence, tried: Mapping[CandidateCause, int], tries: int = 1,
                 paths: int = 1, confirmed: Collection[str] = ()) -> None:
        self._weighed, self._evidence = weighed, weighed.evidence
        self._tried, self._confirmed = tried, confirmed
        self._most = {"node": tries, "out": tries, "pair": paths}
        self._issue = disputed(weighed)

    def tries_left(self, cause: CandidateCause) -> int:
        """How many more times to test a node with a proven one, or a pair with itself."""
        return max(0, self._most[cause.kind] - self._tried.get(cause, 0))

    def proven(self) -> list[str]:
        """Nodes to test others with: nothing bad, or at least nothing unexplained, is known of them."""
        suspected = {cause.name for cause in (*self._issue, *self._weighed.best)
                     if cause.kind in ("node", "out")}
        certain = [node for node in clean_nodes(self._weighed, self._weighed.accused)
                   if node not in suspected]
        return certain or [node for node in clean_nodes(self._weighed, self._weighed.best)
                           if node not in suspected]

    def next_tests(self) -> FurtherTests:
        """The tests that are worth running now."""
        nodes = {node: 0.0 for node in self._evidence.sites.order if node not in self._evidence.measured
                 and self._tried.get(CandidateCause("node", node), 0) < UNMEASURED_TRIES}
        pairs: dict[NodePair, float] = {}       # with how well each tells explanations apart
        groups: dict[CandidateCause, Rival] = {}
        proven = self.proven()
        for cause in self._weighed.accused:
            if cause.kind in ("node", "out") and cause.name not in self._confirmed and self.tries_left(cause):
                if cause.kind == "node":
                    nodes[cause.name] = self._weighed.gain(cause)
                elif (test := self._sample(cause, proven, self._weighed.rivals[cause])) is not None:
                    pairs[test] = 1.0
        for doubted, rival in self._weighed.doubtful.items():
            for cause in dict.fromkeys((doubted, *self._differ(rival))):
                if cause.kind in self._most and not self.tries_left(cause):
                    continue
                if cause.kind in ("node", "out", "pair"):
                    test = (NodePair(cause.name, cause.other)
                            if cause.kind == "pair" else self._sample(cause, proven, rival))
                    power = self._tells(test, rival) if test is not None else 1.0
                    if power >= DECIDES and cause.kind == "node":
                        nodes[cause.name] = self._weighed.gain(cause)
                    elif power >= DECIDES and test is not None:
                        pairs[test] = max(power, pairs.get(test, 0.0))
                else:
                    groups.setdefault(cause, rival)
        # A node that met only bad ones has not passed yet.
        nodes.update({node: 0.0 for node in self._evidence.sites.order
                      if (cause := CandidateCause("node", node)) in self._evidence.of
                      and cause not in self._weighed.best and node not in self._confirmed
                      and not self._evidence.clears(cause)})
        for at in self._weighed.unexplained(self._weighed.best):
            self._again(self._evidence.tests[at].pair, nodes, pairs)
        return FurtherTests(sorted(nodes, key=lambda node: -nodes[node]),
                            sorted(pairs, key=lambda test: -pairs[test]), list(groups.items()))

    def _again(self, each: NodePair, nodes: dict[str, float], pairs: dict[NodePair, float]) -> None:
        """Adds tests for a failed pair that nothing explains: the likeliest of its nodes and its path."""
        path = CandidateCause("pair", *each)
        left = self.tries_left(path) and len(self._evidence.passed(path)) < len(self._evidence.failed(path))
        least = max(LEAVE, self._weighed.gain(path)) if left else LEAVE
        worth = {node: gain for node in each if self.tries_left(cause := CandidateCause("node", node))
                 and (gain := self._weighed.gain(cause)) > least}
        nodes.update(worth)
        if left and not worth:
            pairs[each] = 0.0

    def _differ(self, rival: Rival) -> list[CandidateCause]:
        """What one explanation accuses, and the other does not."""
        best = self._weighed.best
        return [cause for cause in (*best, *rival.causes) if (cause in best) != (cause in rival.causes)]

    def _sample(self, cause: CandidateCause, proven: Iterable[str], rival: Rival) -> NodePair | None:
        """A test of a node (or its way out) with a proven one: the nearest that tells most."""
        near, leaf = self._evidence.sites.near, self._evidence.sites.leaf
        node = cause.name
        others = [other for other in proven if other != node
                  and not (cause.kind == "out" and near[other] == near[node])]
        nearest = sorted(others, key=lambda other: (near[other] != near[node],
                                                    leaf[other] != leaf[node]))[:_SAMPLES]
        return max((pair(node, other) for other in nearest), key=lambda test: self._tells(test, rival),
                   default=None)

    def _tells(self, test: NodePair, rival: Rival) -> float:
        return abs(self._weighed.chance(test, self._weighed.best) - self._weighed.chance(test, rival.causes))

    def decides(self, rival: Rival) -> NodePair | None:
        """The test that best tells the best explanation from this one; None where there is none."""
        proven = self.proven()
        tests = []
        for cause in self._differ(rival):
            if cause.kind in ("node", "out"):
                tests.append(self._sample(cause, proven, rival))
            else:
                tests += ([NodePair(cause.name, cause.other)]
                          if cause.kind == "pair" else self.of_groups(cause, rival, ())[:1])
        best = max((test for test in tests if test is not None), key=lambda test: self._tells(test, rival),
                   default=None)
        return best if best is not None and self._tells(best, rival) >= DECIDES else None

    def of_groups(self, cause: CandidateCause, rival: Rival, used: Collection[str]) -> list[NodePair]:
        """Tests of leaves on which this explanation and the best one differ, all nodes of two such leaves or
        of one and another, where they differ most; [] where they do not."""
        sites, best = self._evidence.sites, self._weighed.best
        bad = {each.name for each in (*self._issue, *best) if each.kind in ("node", "out")} | set(used)
        by = (sites.near if cause.kind != "between" and cause.group is not None
              and cause.group.kind == "domain" else sites.leaf)
        free = sites.grouped((node for node in sites.order if node not in bad), by)
        names = {name for each in (cause, *best, *rival.causes)
                 if each.kind in ("inside", "uplinks", "between")
                 and (each == cause or best.get(each) != rival.causes.get(each))
                 for name in (each.name, each.other)}
        found: tuple[float, list[NodePair]] = (DECIDE, [])
        for one in [group for group in free if str(group) in names]:
            for two, others in free.items():
                half = len(others) // 2
                tests = [pair(*each) for each in (zip(others[:half], others[half:], strict=False)
                                                  if one == two else zip(free[one], others, strict=False))]
                if tests and (power := self._tells(tests[0], rival)) > found[0]:
                    found = (power, tests)
        return found[1]
