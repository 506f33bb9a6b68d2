"""The evidence of pairs: tests, what each depends on, and which tests speak for or against a cause.
`explain` weighs sets of causes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from healthcheck.burnin import faults
from healthcheck.burnin.rounds import NodeGroup, NodePair, Sites

# Faults that noise can cause.
SOFT = (faults.SLOW, faults.SLOW_LINK, faults.SLOW_COMPUTE, faults.JITTER, faults.LATE)


class PairOutcome(Enum):
    """The outcome of a pair's test. UNKNOWN (not run, not whole, not to be judged) clears no one."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class PairTest:
    """One test of a pair: the task's id, outcome and fault; whether it was measured, even if not judged."""

    pair: NodePair
    test: str
    outcome: PairOutcome
    fault: str = faults.SLOW
    whole: bool = False

    @property
    def hard(self) -> bool:
        """Whether it failed of something that noise does not do."""
        return self.outcome is PairOutcome.FAIL and self.fault not in SOFT


class CandidateCause(NamedTuple):
    """What may be guilty, by kind: a "node", its way "out" beyond its neighbours, the path of a "pair" of
    nodes or "between" two groups, a group's "uplinks", or all "inside" it."""

    kind: str
    name: str
    other: str = ""
    group: NodeGroup | None = None


def causes_of(each: NodePair, sites: Sites) -> tuple[CandidateCause, ...]:
    """All that a test of this pair depends on."""
    one, two = each
    apart = sites.near[one] != sites.near[two]
    return (CandidateCause("node", one), CandidateCause("node", two), CandidateCause("pair", one, two),
            *((CandidateCause("out", one), CandidateCause("out", two)) if apart else ()),
            *_on_the_way(sites.near[one], sites.near[two], sites.leaf[one], sites.leaf[two]))


@lru_cache(maxsize=1 << 16)
def _on_the_way(near: NodeGroup, other_near: NodeGroup, leaf: NodeGroup,
                other_leaf: NodeGroup) -> tuple[CandidateCause, ...]:
    """What of groups lies between two nodes: their nearest ones, and their leaves."""
    if near == other_near:
        return (_group("inside", near),)
    found = [_group("inside", group) for group in dict.fromkeys((leaf, other_leaf))]
    if leaf != other_leaf:
        found += [_group("uplinks", leaf), _group("uplinks", other_leaf), _between(leaf, other_leaf)]
    found += [_group("uplinks", group) for group in (near, other_near) if group.kind == "domain"]
    if leaf == other_leaf:
        found.append(_between(near, other_near))
    return tuple(found)


def _group(kind: str, group: NodeGroup) -> CandidateCause:
    return CandidateCause(kind, str(group), "", group)


def _between(one: NodeGroup, two: NodeGroup) -> CandidateCause:
    first, second = sorted((str(one), str(two)))
    return CandidateCause("between", first, second)


class PairEvidence:
    """All tests so far, by what they depend on."""

    def __init__(self, sites: Sites) -> None:
        self.sites = sites
        self.tests: list[PairTest] = []
        self.causes: list[tuple[CandidateCause, ...]] = []
        self.of: dict[CandidateCause, list[int]] = {}
        # nodes that completed a test, even if it could not be judged
        self.measured: set[str] = set()

    def add(self, tests: Iterable[PairTest]) -> None:
        """These too."""
        for test in tests:
            causes = causes_of(test.pair, self.sites) if test.outcome is not PairOutcome.UNKNOWN else ()
            self.measured.update(test.pair if causes or test.whole else ())
            for cause in causes:
                self.of.setdefault(cause, []).append(len(self.tests))
            self.tests.append(test)
            self.causes.append(causes)

    def failed(self, cause: CandidateCause) -> list[int]:
        """The tests that depend on it and failed."""
        return [at for at in self.of.get(cause, ()) if self.tests[at].outcome is PairOutcome.FAIL]

    def passed(self, cause: CandidateCause) -> list[int]:
        """Those that passed."""
        return [at for at in self.of.get(cause, ()) if self.tests[at].outcome is PairOutcome.PASS]

    def clears(self, cause: CandidateCause) -> bool:
        """Whether any test of it passed."""
        return any(self.tests[at].outcome is PairOutcome.PASS for at in self.of.get(cause, ()))
