"""Who is slow among equals: median, median absolute deviation, and the rule that burn-in judges by.

The rule: less than 0.97 of the median, AND further below it than equals without a fault scatter. The mean and
the standard deviation cannot say that: among n values no z exceeds (n - 1) / sqrt(n), 2.47 for the 8 GPUs of
a node, so "three sigma" never fires there; and a hundred slow nodes of five hundred widen sigma until they
hide in it. Either half alone accuses the innocent: where values scatter little, a harmless 1% is far off by
z; where they scatter much, 3% is nothing.

How far equals scatter is known from their own deviation, the worse the fewer they are: of 8 the median
absolute deviation is now and then a tenth of what it should be. So the number of deviations that is asked for
(`deviations`) grows as they get fewer: one group of `GROUPS` accuses an innocent, whatever the noise. Where
that asks for more than noise of `NOISE` could do, and no more noise than that is seen, what it could do is
enough. The rates at 8, 512 and 4,096 nodes are those of scripts/bench/falsealarms.

Where more than half are slow every relative rule is blind; so an absolute floor is judged beside it
(`healthcheck.burnin.judge`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from statistics import median as _median

# The median absolute deviation of a normal distribution is its standard deviation divided by this.
SIGMA = 1.4826
LEAST_RATIO = 0.97
# Two slow ones of five leave the median with the good ones; of four they do not.
LEAST_EQUALS = 5
# One wrong accusation in so many groups of equals: ten thousand burn-ins of forty groups (by figure, stage
# and kind of node).
GROUPS = 400_000
# The standard deviation, as a share of the median, that figures of sound equals have at most.
NOISE = 0.01
# By the number of equals, after how many deviations below the median (1.4826 MAD) the least of so many normal
# values is found in one of GROUPS groups: simulated with 1,000,000 to 2,000,000 groups down to one of 40,000,
# and carried on from there by the law of their tail.
_FEW = ((5, 840.0), (6, 172.0), (8, 65.0), (10, 37.0), (12, 26.0), (16, 20.0), (24, 12.0))
_MANY = 32
# A median absolute deviation below this share of the median is none: more than half of the values are the
# same.
_NONE = 1e-12


@dataclass(frozen=True)
class PeerComparison:
    """One value beside its equals.

    `off` is whether it is an outlier on the bad side, None where that cannot be said: `why` says why.

    `z` is None where the equals do not scatter at all, and then only the ratio decided.
    """

    value: float
    off: bool | None
    median: float | None = None
    ratio: float | None = None
    z: float | None = None
    equals: int = 0
    why: str = ""


def median(values: Iterable[float]) -> float:
    """The middle value, or the mean of the two.

    Raises ValueError where there is none, or where one is no number.
    """
    known = list(values)
    if not known or not all(map(math.isfinite, known)):
        raise ValueError("the median of nothing, or of what is no number")
    return _median(known)


def mad(values: Iterable[float]) -> float:
    """The median distance from the median; times `SIGMA` it is the standard deviation where values are
    normal.
    """
    known = list(values)
    middle = median(known)
    return _median(abs(value - middle) for value in known)


def robust_z(value: float, middle: float, deviation: float) -> float | None:
    """How many standard deviations from the median, by the median absolute deviation; None where that is
    nought.
    """
    if deviation <= _NONE * abs(middle):
        return None
    return (value - middle) / (SIGMA * deviation)


def normal(equals: int) -> float:
    """Below how many standard deviations the least of so many normal values is, in one of GROUPS groups."""
    return -NormalDist().inv_cdf(1 / GROUPS / equals)


def deviations(equals: int) -> float:
    """The same where the standard deviation is only known by the median absolute deviation of these values
    themselves.
    """
    if equals >= _MANY:
        return normal(equals) * (1 + 5.5 / math.sqrt(equals))
    return next(far for least, far in reversed(_FEW) if equals >= least or least == _FEW[0][0])


def slow(values: Mapping[str, float], *, least: int = LEAST_EQUALS,
         ratio: float = LEAST_RATIO) -> dict[str, PeerComparison]:
    """Each of these, which have to be equals (same stage, power cap, hops, size), beside the median of all:
    rates, more is better.

    What is no positive finite number is not judged and counts for nobody's median; among fewer than `least`
    that are, nobody is judged.
    """
    known = {name: value for name, value in values.items() if _measured(value)}
    found = {name: PeerComparison(value, None, why="not a figure that can be judged") for name,
             value in values.items() if name not in known}
    if not known:
        return found
    middle, deviation = median(known.values()), mad(known.values())
    few = (f"one of {len(known)} equals, fewer than the {least} that it takes to compare"
           if len(known) < least else "")
    allowed = least_share(len(known), deviation / middle, ratio)
    for name, value in known.items():
        far, share = robust_z(value, middle, deviation), value / middle
        found[name] = PeerComparison(value, None if few else share < allowed, middle, share, far, len(known),
                                     few)
    return {name: found[name] for name in values}


def least_share(equals: int, deviation: float, ratio: float = LEAST_RATIO) -> float:
    """Below which share of the median one is slow among so many equals with this median absolute deviation,
    as a share of the median.
    """
    return min(ratio, 1 - _scatter(equals, SIGMA * deviation))


def sound(values: Iterable[float], judged: int) -> float:
    """The floor that so many more all reach that are as these values, which are sound.

    Few are taken to scatter by `NOISE` at least.
    """
    known = list(values)
    middle, sigma = median(known), SIGMA * mad(known)
    sigma = sigma * (1 + 4 / math.sqrt(len(known))) if len(known) >= _MANY else max(sigma, NOISE * middle)
    return max(0.0, min(LEAST_RATIO * middle, middle - normal(judged) * sigma))


def _scatter(equals: int, sigma: float) -> float:
    """How far below the median, as a share of it, sound equals may be that scatter so much by their own
    deviation.
    """
    seen = deviations(equals) * sigma
    # Of few values it may look like more noise than there is.
    return min(seen, normal(equals) * NOISE) if sigma <= NOISE * (1 + 4 / math.sqrt(equals)) else seen


def _measured(value: float) -> bool:
    return math.isfinite(value) and value > 0
