"""What a further test could decide: the nodes, paths and leaves on which good explanations differ, or that
may yet prove bad.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from healthcheck.burnin.posterior import Rival, Weighed
from healthcheck.burnin.priors import LEAVE
from healthcheck.burnin.rounds import NodePair, pair
from healthcheck.burnin.weigh import CandidateCause

UNMEASURED_TRIES = 2
DECIDES = 0.1       # a test tells two explanations apart whose chances of failing differ by this
DECIDE = 0.06       # and all nodes of a leaf, at once
_SAMPLES = 8


@dataclass(frozen=True)
class FurtherTests:
    """Nodes to try with a proven one, the worst first; pairs to try once more; groups to try as wholes."""

    nodes: list[str]
    pairs: list[NodePair]
    groups: list[tuple[CandidateCause, Rival]]


def clean(weighed: Weighed, guilty: Iterable[CandidateCause]) -> list[str]:
    """The nodes that have passed with somebody, and failed with nobody unless one of these explains it."""
    evidence = weighed.evidence
    guilty = frozenset(guilty)
    doubted = {node for at in weighed.unexplained(guilty) for node in evidence.tests[at].pair}
    bad = {cause.name for cause in guilty if cause.kind in ("node", "out")}
    return [node for node in evidence.sites.order if node not in doubted and node not in bad
            and evidence.clears(CandidateCause("node", node))]


def at_issue(weighed: Weighed) -> dict[CandidateCause, None]:
    """The causes on which the best explanation and one that is about as good differ."""
    found: dict[CandidateCause, None] = {}
    for cause, rival in weighed.doubtful.items():
        found[cause] = None
        found.update(dict.fromkeys(other for other in rival.causes if other not in weighed.best))
    return found


class Suspects:
    """Of the evidence so far.

    `tried` is how often each was tried without failing, of at most `tries` for a node and `paths` for a path;
    `confirmed` are the nodes that failed with a proven one.
    """

    def __init__(self, weighed: Weighed, tried: Mapping[CandidateCause, int], tries: int = 1, paths: int = 1,
                 confirmed: Collection[str] = ()) -> None:
        self._weighed, self._evidence = weighed, weighed.evidence
        self._tried, self._confirmed = tried, confirmed
        self._most = {"node": tries, "out": tries, "pair": paths}
        self._issue = at_issue(weighed)

    def left(self, cause: CandidateCause) -> int:
        """How many more times a node is tried with a proven one, or a pair with itself."""
        return max(0, self._most[cause.kind] - self._tried.get(cause, 0))

    def proven(self) -> list[str]:
        """Nodes to try others with: those of which nothing bad is known, or for want of any, nothing that the
        best explanation leaves.
        """
        suspected = {cause.name for cause in (*self._issue, *self._weighed.best)
                     if cause.kind in ("node", "out")}
        certain = [node for node in clean(self._weighed, self._weighed.accused) if node not in suspected]
        return certain or [node for node in clean(self._weighed, self._weighed.best) if node not in suspected]

    def wanted(self) -> FurtherTests:
        """What is worth a test now."""
        nodes = {node: 0.0 for node in self._evidence.sites.order if node not in self._evidence.measured
                 and self._tried.get(CandidateCause("node", node), 0) < UNMEASURED_TRIES}
        pairs: dict[NodePair, float] = {}       # with how much each tells
        groups: dict[CandidateCause, Rival] = {}
        proven = self.proven()
        for cause in self._weighed.accused:
            if cause.kind in ("node", "out") and cause.name not in self._confirmed and self.left(cause):
                if cause.kind == "node":
                    nodes[cause.name] = self._weighed.gain(cause)
                elif (test := self._sample(cause, proven, self._weighed.rivals[cause])) is not None:
                    pairs[test] = 1.0
        for doubted, rival in self._weighed.doubtful.items():
            for cause in dict.fromkeys((doubted, *self._differ(rival))):
                if cause.kind in self._most and not self.left(cause):
                    continue
                if cause.kind in ("node", "out", "pair"):
                    test = (NodePair(cause.name, cause.other)
                            if cause.kind == "pair" else self._sample(cause, proven, rival))
                    told = self._tells(test, rival) if test is not None else 1.0
                    if told >= DECIDES and cause.kind == "node":
                        nodes[cause.name] = self._weighed.gain(cause)
                    elif told >= DECIDES and test is not None:
                        pairs[test] = max(told, pairs.get(test, 0.0))
                else:
                    groups.setdefault(cause, rival)
        # Who has met bad ones alone has passed nothing yet.
        nodes.update({node: 0.0 for node in self._evidence.sites.order
                      if (cause := CandidateCause("node", node)) in self._evidence.of
                      and cause not in self._weighed.best and node not in self._confirmed
                      and not self._evidence.clears(cause)})
        for at in self._weighed.unexplained(self._weighed.best):
            self._again(self._evidence.tests[at].pair, nodes, pairs)
        return FurtherTests(sorted(nodes, key=lambda node: -nodes[node]),
                            sorted(pairs, key=lambda test: -pairs[test]), list(groups.items()))

    def _again(self, each: NodePair, nodes: dict[str, float], pairs: dict[NodePair, float]) -> None:
        """Adds what is to be tried of a pair that failed and that nothing explains: whatever is likeliest of
        its nodes and its path.
        """
        path = CandidateCause("pair", *each)
        left = self.left(path) and len(self._evidence.passed(path)) < len(self._evidence.failed(path))
        least = max(LEAVE, self._weighed.gain(path)) if left else LEAVE
        worth = {node: gain for node in each if self.left(cause := CandidateCause("node", node))
                 and (gain := self._weighed.gain(cause)) > least}
        nodes.update(worth)
        if left and not worth:
            pairs[each] = 0.0

    def _differ(self, rival: Rival) -> list[CandidateCause]:
        """What one explanation accuses, and the other does not."""
        best = self._weighed.best
        return [cause for cause in (*best, *rival.causes) if (cause in best) != (cause in rival.causes)]

    def _sample(self, cause: CandidateCause, proven: Iterable[str], rival: Rival) -> NodePair | None:
        """A test of a node with a proven one, of what leads out of it with one that is no neighbour: the
        nearest that tells most.
        """
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
        """The test that tells the best explanation and this one apart most surely; None where there is none.
        """
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
        """Tests of the leaves on which this explanation and the best one differ, be it in how bad they are:
        all nodes of two such leaves, or of one and another, where they differ most; [] where they differ
        nowhere.
        """
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
                if tests and (told := self._tells(tests[0], rival)) > found[0]:
                    found = (told, tests)
        return found[1]
