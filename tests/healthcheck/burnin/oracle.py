"""An oracle for small burn-ins: tries every explanation of up to three causes, with the solver's priors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from healthcheck.burnin import priors
from healthcheck.burnin.weigh import CandidateCause, PairEvidence, PairOutcome

MOST = 3        # causes of an explanation
_OWNER_KIND = {"out": "node", "inside": "uplinks"}


class _Way(NamedTuple):
    cause: CandidateCause
    good: float             # the chance that a test passes though it touches the cause
    price: float
    failed: frozenset[int]


class Verdict(NamedTuple):
    """The best explanation, and those of its causes without which every explanation is worse by ENOUGH."""

    best: frozenset[CandidateCause]
    named: frozenset[CandidateCause]


def owner(cause: CandidateCause) -> tuple[str, str, str]:
    """What has one name: a node or its way out, the inside of a leaf or what leads out of it."""
    return _OWNER_KIND.get(cause.kind, cause.kind), cause.name, cause.other


def asked(evidence: PairEvidence) -> Verdict:
    """What every explanation of at most MOST causes says of these tests."""
    scores: dict[frozenset[CandidateCause], float] = {}
    for noise in priors.NOISE:
        for score, causes in _all(evidence, noise):
            scores[causes] = max(score, scores.get(causes, -math.inf))
    best = max(scores, key=scores.__getitem__)
    named = []
    for cause in best:
        rival = max(score for causes, score in scores.items() if owner(cause) not in map(owner, causes))
        named += [cause] if scores[best] - rival >= priors.ENOUGH else []
    return Verdict(best, frozenset(named))


def _all(evidence: PairEvidence, noise: float) -> Iterator[tuple[float, frozenset[CandidateCause]]]:
    """Every explanation beside this noise, with the logarithm of its prior and of what it makes of every
    test.
    """
    failed = [at for at, test in enumerate(evidence.tests) if test.outcome is PairOutcome.FAIL]
    passes = sum(test.outcome is PairOutcome.PASS for test in evidence.tests)
    alone = math.log(priors.NOISE[noise]) + passes * math.log(1 - noise)
    leaves = sorted(set(evidence.sites.leaf.values()))
    for lots in itertools.chain.from_iterable(itertools.combinations(leaves, count) for count in (0, 1)):
        members = sum(leaf in lots for leaf in evidence.sites.leaf.values())
        start = alone + len(lots) * math.log(priors.LOT) + members * math.log(priors.LOT_NODE)
        # Beside others a cause explains no more than alone: one that gains nothing by itself is in no best
        # explanation.
        modes = [mode for mode in _ways(evidence, failed, lots)
                if len(mode.failed) * math.log((1 - mode.good * (1 - noise)) / noise) > mode.price]
        for count in range(MOST + 1):
            for some in itertools.combinations(modes, count):
                score = start - sum(mode.price for mode in some)
                for at in failed:
                    good = 1 - noise
                    for mode in some:
                        good *= mode.good if at in mode.failed else 1
                    score += math.log(1 - good)
                yield score, frozenset(mode.cause for mode in some)


def _ways(evidence: PairEvidence, failed: list[int], lots: tuple[object, ...]) -> Iterator[_Way]:
    for cause in dict.fromkeys(cause for at in failed for cause in evidence.causes[at]):
        for number, mode in enumerate(priors.FAILURE_MODES[cause.kind]):
            in_lot = cause.kind == "node" and evidence.sites.leaf[cause.name] in lots
            prior = priors.LOT_MODES[number] if in_lot else mode.prior
            against = -len(evidence.passed(cause)) * math.log(1 - mode.rate)
            yield _Way(cause, 1 - mode.rate, against - math.log(prior), frozenset(evidence.failed(cause)))
