"""What the evidence of pairs says: the best explanation as a whole, the next best without each of its causes,
and who is named by that.

A cause is named where every explanation without it is worse by `ENOUGH`. Where one is about as good, the two
differ in what nobody is named for, and a further test may decide. No one is named either, and no one
acquitted, where bad leaves explain how another one failed with them that has hardly been tried with others.
How often sound tests fail for nothing is learned from the tests that the accused do not touch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from healthcheck.burnin import priors
from healthcheck.burnin.explain import CauseMode, CauseSearch, Explanation, fails
from healthcheck.burnin.priors import ACQUIT, ENOUGH, WAYS
from healthcheck.burnin.rounds import NodeGroup, NodePair
from healthcheck.burnin.weigh import CandidateCause, PairEvidence, PairOutcome, causes_of

_SAME = {"out": "node", "inside": "uplinks"}


class Rival(NamedTuple):
    """The best explanation without a cause, or of one that may be guilty with it: what it accuses, and how
    much worse it is (in logarithms of odds).
    """

    causes: Mapping[CandidateCause, float]
    worse: float


class Weighed:
    """`best` are the causes of the best explanation, each with the share of its tests that it spoils;
    `rivals` the best one without each.

    `accused` are those that are named, each with the logarithm of its odds; `doubtful` the causes that good
    explanations differ on, each with the one that differs; `noise` is how often a sound test fails for
    nothing.
    """

    def __init__(self, evidence: PairEvidence) -> None:
        self.evidence = evidence
        self._failed = [at for at, test in enumerate(evidence.tests) if test.outcome is PairOutcome.FAIL]
        self.noise = min(priors.NOISE)
        self.best: dict[CandidateCause, float] = {}
        self.rivals: dict[CandidateCause, Rival] = {}
        self.accused: dict[CandidateCause, float] = {}
        self.doubtful: dict[CandidateCause, Rival] = {}
        self._near: list[_AtNoise] = []
        self._chances: dict[int, float] = {}    # of each failed test, by the best explanation
        if not any(test.outcome is PairOutcome.PASS for test in evidence.tests):
            return      # with nothing to compare with, any explanation is as good as any other
        weighed = self._by_noise()
        likeliest = max(weighed.values(), key=lambda each: each.score)
        near = [each for each in weighed.values() if each.score > likeliest.score - ENOUGH]
        for each in near:
            each.doubt()
        likeliest = max(near, key=lambda each: each.score)
        self.noise, self.best = likeliest.noise, likeliest.causes
        self.rivals = {cause: _rival(cause, likeliest, near) for cause in self.best}
        self.accused = {cause: rival.worse for cause, rival in self.rivals.items() if rival.worse >= ENOUGH}
        self._near = near
        self.doubtful = {**self._not_acquitted(), **{cause: rival for cause, rival in self.rivals.items()
                                                     if cause not in self.accused}}

    def worse(self, causes: Collection[CandidateCause]) -> float:
        """How much worse the best explanation is in which all of these are innocent."""
        best = max(each.score for each in self._near)
        return best - max(each.without(*causes)[0] for each in self._near)

    def _not_acquitted(self) -> dict[CandidateCause, Rival]:
        """The groups that failed, with others that explain it, and have passed too seldom where none of those
        took part: else a bad leaf among bad leaves would be a sound one.
        """
        failed = dict.fromkeys(cause for at in self._failed for cause in self.evidence.causes[at]
                               if cause.kind == "uplinks")
        owners = {_owner(cause) for cause in self.best}
        found = {}
        for cause in failed:
            alone = [at for at in self.evidence.passed(cause)
                     if self.best.keys().isdisjoint(self.evidence.causes[at])]
            if _owner(cause) not in owners and len(alone) < ACQUIT:
                gain, rate = self._beside(cause)
                found[cause] = Rival({**self.best, cause: rate}, max(0.0, -gain))
        return found

    def unexplained(self, causes: Iterable[CandidateCause] | None = None) -> list[int]:
        """The failed tests that none of these causes (all named ones, unless others are given) touches."""
        known = set(self.accused if causes is None else causes)
        return [at for at in self._failed if known.isdisjoint(self.evidence.causes[at])]

    def gain(self, cause: CandidateCause) -> float:
        """By how much accusing it too would better the best explanation; for one of its own causes, how much
        worse it is without.
        """
        if cause in self.rivals:
            return self.rivals[cause].worse
        return self._beside(cause)[0]

    def chance(self, pair: NodePair, causes: Mapping[CandidateCause, float]) -> float:
        """How often a test of this pair would fail if these were the guilty ones."""
        well = 1 - self.noise
        for cause in causes_of(pair, self.evidence.sites):
            well *= 1 - causes.get(cause, 0.0)
        return 1 - well

    # ---- the problem in numbers

    def _beside(self, cause: CandidateCause) -> tuple[float, float]:
        """What accusing it too gains where it is bad in the way that gains most, and the rate of that."""
        hits, passed = self.evidence.failed(cause), len(self.evidence.passed(cause))
        return max((self._alone(hits, passed, way), way.rate) for way in WAYS[cause.kind])

    def _alone(self, hits: Iterable[int], passed: int, way: priors.FailureMode) -> float:
        gain = -priors.cost(way.prior) - passed * priors.strength(way.rate)
        for at in hits:
            had = self._chance_of(at)
            gain += math.log((1 - (1 - had) * (1 - way.rate)) / had)
        return gain

    def _chance_of(self, at: int) -> float:
        """How often a test like this one would fail by the best explanation."""
        if at not in self._chances:
            test = self.evidence.tests[at]
            well = 1 - (priors.NOISE_HARD if test.hard else self.noise)
            for cause in self.evidence.causes[at]:
                well *= 1 - self.best.get(cause, 0.0)
            self._chances[at] = 1 - well
        return self._chances[at]

    def _by_noise(self) -> dict[float, _AtNoise]:
        """The best explanations by how much noise there is; not of more noise than so many passes leave any
        chance.
        """
        found: dict[float, _AtNoise] = {}
        passed = sum(test.outcome is PairOutcome.PASS for test in self.evidence.tests)
        hard = sum(self.evidence.tests[at].hard for at in self._failed)
        best = -math.inf
        for noise, prior in priors.NOISE.items():
            # As if all failures were explained for nothing.
            most = math.log(prior) + passed * math.log1p(-noise) - hard * math.log(priors.NOISE_HARD)
            if most > best - ENOUGH:
                found[noise] = _AtNoise(self.evidence, self._failed, noise)
                best = max(best, found[noise].score)
        return found


def _owner(cause: CandidateCause) -> tuple[str, str, str]:
    """A node or its way out, the inside of a leaf or what leads out of it: whichever it is, it has one name.
    """
    return _SAME.get(cause.kind, cause.kind), cause.name, cause.other


class _AtNoise:
    """The best explanation if so many sound tests fail for nothing, and how likely it is; the problems that
    it falls into.
    """

    def __init__(self, evidence: PairEvidence, failed: list[int], noise: float) -> None:
        self.noise = noise
        self.solved = [_Solved(*each) for each in _problems(evidence, failed, noise)]
        soft = sum(not evidence.tests[at].hard for at in failed)
        passed = sum(test.outcome is PairOutcome.PASS for test in evidence.tests)
        self._alone = math.log(priors.NOISE[noise]) + soft * math.log(noise) + passed * math.log1p(-noise)

    @property
    def score(self) -> float:
        return self._alone + sum(one.best.score for one in self.solved)

    @property
    def causes(self) -> dict[CandidateCause, float]:
        return {cause: rate for one in self.solved for cause, rate in one.rates(one.best).items()}

    def doubt(self) -> None:
        """Looks for the best explanation without each cause of the best one."""
        for one in self.solved:
            one.doubt()

    def without(self, *causes: CandidateCause) -> tuple[float, dict[CandidateCause, float]]:
        """The best explanation without these causes: its score, and what it accuses."""
        rivals = [(one, one.without(causes)) for one in self.solved]
        return (self.score + sum(rival.score - one.best.score for one, rival in rivals),
                {cause: rate for one, rival in rivals for cause, rate in one.rates(rival).items()})


def _rival(cause: CandidateCause, best: _AtNoise, near: Sequence[_AtNoise]) -> Rival:
    score, causes = max((each.without(cause) for each in near), key=lambda item: item[0])
    return Rival(causes, best.score - score)


class _Solved:
    """One problem with its best explanation, and which cause and rate each of its parts is."""

    def __init__(self, problem: CauseSearch, parts: list[tuple[CandidateCause, float]]) -> None:
        self.problem, self.parts = problem, parts
        self.best = problem.best()
        self._without: dict[int, Explanation] = {}

    def doubt(self) -> None:
        """Looks for the best explanation without each cause of the best one."""
        self.best, self._without = self.problem.rivals(self.best)

    def without(self, causes: Collection[CandidateCause]) -> Explanation:
        """The best explanation without these causes, which is the best of all where that does without."""
        owners = {part.owner for part, (cause, _) in zip(self.problem.parts, self.parts, strict=True)
                  if cause in causes}
        accused = owners & {self.problem.parts[at].owner for at in self.best.parts}
        if not accused:
            return self.best
        return self._without[accused.pop()] if len(owners) == 1 else self.problem.without(self.best, owners)

    def rates(self, of: Explanation) -> dict[CandidateCause, float]:
        """What it accuses, and the share of its tests that each spoils."""
        found: dict[CandidateCause, float] = {}
        for at in sorted(of.parts):
            cause, rate = self.parts[at]
            found[cause] = 1 - (1 - found.get(cause, 0.0)) * (1 - rate)
        return found


class _Found(NamedTuple):
    """A part as the evidence has it: its hits are tests of the evidence."""

    cause: CandidateCause
    rate: float
    part: CauseMode


def _problems(evidence: PairEvidence, failed: list[int],
              noise: float) -> Iterator[tuple[CauseSearch, list[tuple[CandidateCause, float]]]]:
    """The failed tests as problems that have no cause in common.

    A cause that gains nothing by itself is in none.
    """
    base = {at: priors.strength(priors.NOISE_HARD if evidence.tests[at].hard else noise) for at in failed}
    hits: dict[CandidateCause, list[int]] = {}
    for at in failed:
        for cause in evidence.causes[at]:
            hits.setdefault(cause, []).append(at)
    found = []
    owners: dict[tuple[str, str, str], int] = {}
    for cause, tests in hits.items():
        owner = owners.setdefault(_owner(cause), len(owners))
        passed = len(evidence.passed(cause))
        for number, way in enumerate(WAYS[cause.kind]):
            strength = priors.strength(way.rate)
            against = passed * strength
            lot_price = priors.cost(priors.LOT_WAYS[number]) + against if cause.kind == "node" else math.inf
            start = number if cause.kind == "uplinks" else -1
            part = CauseMode(owner, strength, priors.cost(way.prior) + against, tuple(tests),
                             lot_price=lot_price, start=start)
            found.append(_Found(cause, way.rate, part))
    most = {each.part: sum(fails(base[at] + each.part.strength) - fails(base[at]) for at in each.part.hits)
            for each in found}
    lots = _lots(evidence, [each for each in found if most[each.part] > each.part.lot_price])
    leaf = evidence.sites.leaf
    kept = [each for each in found if most[each.part] > each.part.price
            or (each.cause.kind == "node" and leaf[each.cause.name] in lots
                and most[each.part] > each.part.lot_price)]
    yield from _parted(kept, base, lots, leaf)


def _lots(evidence: PairEvidence, found: Iterable[_Found]) -> dict[NodeGroup, float]:
    """What it costs to take a leaf's nodes for a bad lot, for each leaf where that can pay."""
    leaf = evidence.sites.leaf
    saved: dict[NodeGroup, dict[CandidateCause, float]] = {}
    for cause, _, part in found:
        of = saved.setdefault(leaf[cause.name], {})
        of[cause] = max(of.get(cause, 0.0), part.price - part.lot_price)
    sizes = Counter(leaf.values())
    costs = {group: priors.cost(priors.LOT) - sizes[group] * math.log(priors.LOT_NODE) for group in saved}
    return {group: value for group, value in costs.items() if sum(saved[group].values()) > value}


def _parted(found: Sequence[_Found], base: Mapping[int, float], lots: Mapping[NodeGroup, float],
            leaf: Mapping[str, NodeGroup]) -> Iterator[
    tuple[CauseSearch, list[tuple[CandidateCause, float]]]]:
    """Parts that share a test, or a lot, in one problem."""
    joined: dict[object, object] = {}

    def root(of: object) -> object:
        while (up := joined.setdefault(of, of)) != of:
            joined[of] = of = joined.setdefault(up, up)
        return of

    own = [leaf[cause.name] if cause.kind == "node" and leaf[cause.name] in lots else None
           for cause, _, _ in found]
    for (_, _, part), lot in zip(found, own, strict=True):
        for of in (*part.hits[1:], *([lot] if lot is not None else ())):
            joined[root(of)] = root(part.hits[0])
    members: dict[object, list[int]] = {}
    for at, each in enumerate(found):
        members.setdefault(root(each.part.hits[0]), []).append(at)
    for some in members.values():
        touching: dict[int, list[int]] = {}
        for number, at in enumerate(some):
            for test in found[at].part.hits:
                touching.setdefault(test, []).append(number)
        alike = Counter((base[test], tuple(numbers)) for test, numbers in touching.items())
        hits: list[list[int]] = [[] for _ in some]
        for test, (_, numbers) in enumerate(alike):
            for number in numbers:
                hits[number].append(test)
        here = [lot for lot in lots if lot in {own[at] for at in some}]
        parts = [found[at].part._replace(hits=tuple(hits[number]),
                                         lot=here.index(lot) if (lot := own[at]) is not None else -1)
                 for number, at in enumerate(some)]
        yield (CauseSearch(parts, [of for of, _ in alike], list(alike.values()),
                           {at: lots[lot] for at, lot in enumerate(here)}),
               [(found[at].cause, found[at].rate) for at in some])
