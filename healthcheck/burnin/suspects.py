"""Whom a further test could convict or clear: the nodes, paths and leaves that are worth another round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from healthcheck.burnin.rounds import Pair
from healthcheck.burnin.weigh import ENOUGH, FAIL, PASS, Cause, Outcome, Weighed

LEAF_TRIES = 2
_SURE = 8.0         # the gain from which a leaf is sure: it has hundreds of tests, and one more round would not change it


def clean(weighed: Weighed, guilty: Iterable[Cause]) -> list[str]:
    """The nodes that have passed with somebody, and failed with nobody unless one of these explains it."""
    evidence = weighed.evidence
    doubted = {node for at in weighed.unexplained(guilty) for node in evidence.tests[at].pair}
    return [node for node in evidence.sites.order
            if node not in doubted and (cause := Cause("node", node)) not in weighed.accused and evidence.clears(cause)]


class Suspects:
    """Of the evidence so far. `tried` is how often each was tried again already, of at most `tries` for a node and `paths` for a path."""

    def __init__(self, weighed: Weighed, tried: Mapping[Cause, int], tries: int, paths: int) -> None:
        self._weighed, self._evidence = weighed, weighed.evidence
        self._tried = tried
        self._most = {"node": tries, "pair": paths, "uplinks": LEAF_TRIES, "inside": LEAF_TRIES}
        self._sure = {cause for cause, gain in weighed.accused.items() if self._is_sure(cause, gain)}

    def left(self, cause: Cause) -> int:
        """How many more times a node is tried with a proven one, a pair with itself, a group with others."""
        return max(0, self._most.get(cause.kind, 0) - self._tried.get(cause, 0))

    def proven(self) -> list[str]:
        """Nodes to try others with: those of which nothing bad is known, or for want of any, nothing that the accused do not explain."""
        return clean(self._weighed, self._sure) or clean(self._weighed, self._weighed.accused)

    def found(self, groups_too: bool = True) -> tuple[list[str], list[Pair], list[Cause]]:
        """Nodes to try with a proven one, the worst first; pairs to try with themselves; groups to try with proven groups.

        Without `groups_too`, because there are no proven ones, what a group may explain is looked for in nodes and pairs.
        """
        unmeasured = (node for node in self._evidence.sites.order if node not in self._evidence.measured
                      and self._tried.get(Cause("node", node), 0) < LEAF_TRIES)
        nodes: dict[str, float] = dict.fromkeys(unmeasured, 0.0)
        same: dict[Pair, None] = {}
        groups = dict.fromkeys(cause for cause in self._evidence.of if groups_too and cause.kind == "uplinks" and self.left(cause)
                               and self._evidence.failed(cause) and self._doubtful(cause))
        for at in self._weighed.unexplained(self._sure):
            causes = self._evidence.causes[at]
            likely = self._likely(causes, groups) if groups_too else []
            if likely:
                groups.update(dict.fromkeys(likely))
                continue
            each = self._evidence.tests[at].pair
            untried = self._untried(Cause("pair", *each)) if Cause("pair", *each) in self._weighed.accused else []
            if untried:
                nodes.update(dict.fromkeys(untried, 0.0))
                continue
            # Only whom as many failures as it has tries left would convict.
            gain = {cause: value for cause in causes if cause.kind in ("node", "pair") and (left := self.left(cause))
                    and (value := self._weighed.gain(cause)) + left * FAIL >= ENOUGH}
            path = gain.pop(Cause("pair", *each), None)
            worse = {cause.name: value for cause, value in gain.items() if path is None or value >= path + PASS}
            nodes.update(worse)
            if not worse and path is not None:
                same[each] = None
        return sorted(nodes, key=lambda node: -nodes[node]), list(same), list(groups)

    def _likely(self, causes: Iterable[Cause], doubtful: Mapping[Cause, None]) -> list[Cause]:
        """The groups among these causes that another round would tell more about than one of a node or a pair."""
        found = []
        for cause in causes:
            if cause.kind == "between" and cause in self._weighed.accused:
                found += self._ends(cause)
            elif cause.kind in ("uplinks", "inside") and self.left(cause) and (cause in doubtful or self._weighed.gain(cause) >= ENOUGH):
                found.append(cause)
        return found

    def _is_sure(self, cause: Cause, gain: float) -> bool:
        """Whether an accused cause needs no more tests: a node or path was tried again, and stays accused though the next one passed."""
        if self._untried(cause):
            return False
        if cause.kind in ("node", "pair"):
            return self._tried.get(cause, 0) > 0 and gain - min(1, self.left(cause)) * PASS >= ENOUGH
        if cause.kind == "between":
            return not self._ends(cause)
        return not self.left(cause) or (gain >= _SURE and not (cause.kind == "uplinks" and self._doubtful(cause)))

    def _untried(self, cause: Cause) -> list[str]:
        """The nodes of an accused path that were never tried with a proven one: a flaky node may have failed each time the path was run."""
        return [] if cause.kind != "pair" else [
            node for node in (cause.name, cause.other) if not self._tried.get(each := Cause("node", node), 0) and self.left(each)]

    def _doubtful(self, cause: Cause) -> bool:
        """Whether what leads out of a group may be guilty or not: all groups that it met are accused themselves, or all but one, and with
        that one it failed as well."""
        others: dict[Cause, bool] = {}
        for at in self._evidence.of[cause]:
            for other in self._evidence.causes[at]:
                if other.kind == cause.kind and other != cause and other not in self._weighed.accused:
                    others[other] = others.get(other, False) or self._evidence.tests[at].outcome is Outcome.FAIL
        return not others or list(others.values()) == [True]

    def _ends(self, cause: Cause) -> list[Cause]:
        """What may be guilty in place of the path between two groups: either one's uplinks, where these can still be tried elsewhere."""
        sites = self._evidence.sites
        found = dict.fromkeys(other for at in self._evidence.of[cause] for other in self._evidence.causes[at]
                              if other.kind == "uplinks" and str(other.group) in (cause.name, cause.other))
        number = len({group for by in (sites.leaf, sites.near) for group in by.values()})
        return [other for other in found if number > 2 and not self._tried.get(other, 0)]
