"""Weighs the evidence of pairs: the best explanation, its rivals, and whom that names.

A cause is named where every explanation without it is worse by `ENOUGH`. Where a rival is about as good, no
one is named for what they differ in, and a further test may decide. No one is named or acquitted either where
bad leaves explain the failures of another leaf that was hardly tested with others. The rate at which sound
tests fail is learned from the tests that the accused do not touch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from healthcheck.burnin import priors
from healthcheck.burnin.explain import CauseMode, CauseSearch, Explanation, fails
from healthcheck.burnin.priors import ACQUIT, ENOUGH, FAILURE_MODES
from healthcheck.burnin.rounds import NodeGroup, NodePair
from healthcheck.burnin.weigh import CandidateCause, PairEvidence, PairOutcome, causes_of

_OWNER_KIND = {"out": "node", "inside": "uplinks"}


class Rival(NamedTuple):
    """The best explanation without (or with) a cause: its causes, and how much worse it is (log odds)."""

    causes: Mapping[CandidateCause, float]
    worse: float


class WeighedEvidence:
    """`best` is the best explanation: causes with their failure rates; `rivals` the best ones without each;
    `accused` the named causes with their log odds; `doubtful` those on which good explanations differ, each
    with the rival; `noise` the rate at which sound tests fail."""

    def __init__(self, evidence: PairEvidence) -> None:
        self.evidence = evidence
        self._failed = [at for at, test in enumerate(evidence.tests) if test.outcome is PairOutcome.FAIL]
        self.noise = min(priors.NOISE)
        self.best: dict[CandidateCause, float] = {}
        self.rivals: dict[CandidateCause, Rival] = {}
        self.accused: dict[CandidateCause, float] = {}
        self.doubtful: dict[CandidateCause, Rival] = {}
        self._near: list[_NoiseLevel] = []
        self._chances: dict[int, float] = {}    # by failed test, under the best explanation
        if not any(test.outcome is PairOutcome.PASS for test in evidence.tests):
            return      # without a pass all explanations are equally good
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
        """Groups that failed beside other causes and passed too seldom without them to be acquitted."""
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
        """The failed tests that none of these causes touches; by default the accused ones."""
        known = set(self.accused if causes is None else causes)
        return [at for at in self._failed if known.isdisjoint(self.evidence.causes[at])]

    def gain(self, cause: CandidateCause) -> float:
        """How much accusing this cause too improves the best explanation, or how much it needs it."""
        if cause in self.rivals:
            return self.rivals[cause].worse
        return self._beside(cause)[0]

    def chance(self, pair: NodePair, causes: Mapping[CandidateCause, float]) -> float:
        """How often a test of this pair would fail if these causes were the guilty ones."""
        well = 1 - self.noise
        for cause in causes_of(pair, self.evidence.sites):
            well *= 1 - causes.get(cause, 0.0)
        return 1 - well

    # ---- the problem in numbers

    def _beside(self, cause: CandidateCause) -> tuple[float, float]:
        """The gain of accusing it too, in its best failure mode, and the rate of that mode."""
        hits, passed = self.evidence.failed(cause), len(self.evidence.passed(cause))
        return max((self._alone(hits, passed, mode), mode.rate) for mode in FAILURE_MODES[cause.kind])

    def _alone(self, hits: Iterable[int], passed: int, mode: priors.FailureMode) -> float:
        gain = -priors.cost(mode.prior) - passed * priors.strength(mode.rate)
        for at in hits:
            had = self._chance_of(at)
            gain += math.log((1 - (1 - had) * (1 - mode.rate)) / had)
        return gain

    def _chance_of(self, at: int) -> float:
        """How often a test like this one fails under the best explanation."""
        if at not in self._chances:
            test = self.evidence.tests[at]
            well = 1 - (priors.NOISE_HARD if test.hard else self.noise)
            for cause in self.evidence.causes[at]:
                well *= 1 - self.best.get(cause, 0.0)
            self._chances[at] = 1 - well
        return self._chances[at]

    def _by_noise(self) -> dict[float, _NoiseLevel]:
        """The best explanation at each noise level that the passed tests leave any chance."""
        found: dict[float, _NoiseLevel] = {}
        passed = sum(test.outcome is PairOutcome.PASS for test in self.evidence.tests)
        hard = sum(self.evidence.tests[at].hard for at in self._failed)
        best = -math.inf
        for noise, prior in priors.NOISE.items():
            # As if all failures were explained at no cost.
            most = math.log(prior) + passed * math.log1p(-noise) - hard * math.log(priors.NOISE_HARD)
            if most > best - ENOUGH:
                found[noise] = _NoiseLevel(self.evidence, self._failed, noise)
                best = max(best, found[noise].score)
        return found


def _owner(cause: CandidateCause) -> tuple[str, str, str]:
    """One name for a node and its way out, and for a leaf's inside and its uplinks."""
    return _OWNER_KIND.get(cause.kind, cause.kind), cause.name, cause.other


class _NoiseLevel:
    """The best explanation at one noise level, its likelihood, and its independent problems."""

    def __init__(self, evidence: PairEvidence, failed: list[int], noise: float) -> None:
        self.noise = noise
        self.solved = [_SolvedProblem(*each) for each in _problems(evidence, failed, noise)]
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
        """Finds the best explanation without each cause of the best one."""
        for one in self.solved:
            one.doubt()

    def without(self, *causes: CandidateCause) -> tuple[float, dict[CandidateCause, float]]:
        """The best explanation without these causes: its score, and what it accuses."""
        rivals = [(one, one.without(causes)) for one in self.solved]
        return (self.score + sum(rival.score - one.best.score for one, rival in rivals),
                {cause: rate for one, rival in rivals for cause, rate in one.rates(rival).items()})


def _rival(cause: CandidateCause, best: _NoiseLevel, near: Sequence[_NoiseLevel]) -> Rival:
    score, causes = max((each.without(cause) for each in near), key=lambda item: item[0])
    return Rival(causes, best.score - score)


class _SolvedProblem:
    """One problem with its best explanation, and which cause and rate each of its parts is."""

    def __init__(self, problem: CauseSearch, parts: list[tuple[CandidateCause, float]]) -> None:
        self.problem, self.parts = problem, parts
        self.best = problem.best()
        self._without: dict[int, Explanation] = {}

    def doubt(self) -> None:
        """Finds the best explanation without each cause of the best one."""
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
        """What it accuses, with failure rates."""
        found: dict[CandidateCause, float] = {}
        for at in sorted(of.parts):
            cause, rate = self.parts[at]
            found[cause] = 1 - (1 - found.get(cause, 0.0)) * (1 - rate)
        return found


class _CausePart(NamedTuple):
    """A part as the evidence has it: its hits are tests of the evidence."""

    cause: CandidateCause
    rate: float
    part: CauseMode


def _problems(evidence: PairEvidence, failed: list[int],
              noise: float) -> Iterator[tuple[CauseSearch, list[tuple[CandidateCause, float]]]]:
    """The failed tests as problems without common causes; causes without any gain are left out."""
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
        for number, mode in enumerate(FAILURE_MODES[cause.kind]):
            strength = priors.strength(mode.rate)
            against = passed * strength
            lot_price = priors.cost(priors.LOT_MODES[number]) + against if cause.kind == "node" else math.inf
            start = number if cause.kind == "uplinks" else -1
            part = CauseMode(owner, strength, priors.cost(mode.prior) + against, tuple(tests),
                             lot_price=lot_price, start=start)
            found.append(_CausePart(cause, mode.rate, part))
    most = {each.part: sum(fails(base[at] + each.part.strength) - fails(base[at]) for at in each.part.hits)
            for each in found}
    lots = _lots(evidence, [each for each in found if most[each.part] > each.part.lot_price])
    leaf = evidence.sites.leaf
    kept = [each for each in found if most[each.part] > each.part.price
            or (each.cause.kind == "node" and leaf[each.cause.name] in lots
                and most[each.part] > each.part.lot_price)]
    yield from _parted(kept, base, lots, leaf)


def _lots(evidence: PairEvidence, found: Iterable[_CausePart]) -> dict[NodeGroup, float]:
    """What it costs to call a leaf's nodes a bad lot, for each leaf where that can pay off."""
    leaf = evidence.sites.leaf
    saved: dict[NodeGroup, dict[CandidateCause, float]] = {}
    for cause, _, part in found:
        of = saved.setdefault(leaf[cause.name], {})
        of[cause] = max(of.get(cause, 0.0), part.price - part.lot_price)
    sizes = Counter(leaf.values())
    costs = {group: priors.cost(priors.LOT) - sizes[group] * math.log(priors.LOT_NODE) for group in saved}
    return {group: value for group, value in costs.items() if sum(saved[group].values()) > value}


def _parted(
    found: Sequence[_CausePart], base: Mapping[int, float], lots: Mapping[NodeGroup, float],
    leaf: Mapping[str, NodeGroup],
) -> Iterator[tuple[CauseSearch, list[tuple[CandidateCause, float]]]]:
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
        counts = Counter((base[test], tuple(numbers)) for test, numbers in touching.items())
        hits: list[list[int]] = [[] for _ in some]
        for test, (_, numbers) in enumerate(counts):
            for number in numbers:
                hits[number].append(test)
        here = [lot for lot in lots if lot in {own[at] for at in some}]
        parts = [found[at].part._replace(hits=tuple(hits[number]),
                                         lot=here.index(lot) if (lot := own[at]) is not None else -1)
                 for number, at in enumerate(some)]
        yield (CauseSearch(parts, [of for of, _ in counts], list(counts.values()),
                           {at: lots[lot] for at, lot in enumerate(here)}),
               [(found[at].cause, found[at].rate) for at in some])
