"""Who is slow among equals: median, median absolute deviation, and the rule of burn-in.

The rule: below 0.97 of the median, AND further below it than sound equals scatter. The mean and the standard
deviation cannot decide that. Among n values no z exceeds (n - 1) / sqrt(n), 2.47 for the 8 GPUs of a node, so
"three sigma" never fires there; and a hundred slow nodes of five hundred widen sigma until they hide in it.
Either half alone accuses the innocent: where values scatter little, a harmless 1 % is far off by z; where
they scatter much, 3 % is nothing.

The scatter of equals is estimated by their own deviation, worse for fewer equals: of 8 the median absolute
deviation is sometimes a tenth of the right one. So the number of deviations (`deviations`) grows as equals
get fewer: one group of `GROUPS` accuses an innocent, at any noise. Where that is more than noise of `NOISE`
can cause, and no more noise is seen, the effect of `NOISE` is the limit. Where few equals show somewhat more
than that, who is beyond this limit is unknown, and slow if the noise that they may have does not explain it
either. scripts/bench/falsealarms shows the rates at 8, 512 and 4,096 nodes.

A relative rule is blind where more than half are slow, so an absolute floor is judged as well
(`healthcheck.burnin.judge`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from statistics import median as _median
from typing import TypeVar

K = TypeVar("K")

# The median absolute deviation of a normal distribution is its standard deviation divided by this.
SIGMA = 1.4826
LEAST_RATIO = 0.97
# Who is below this share of what the ratio leaves of the best quarter of equals (0.82 of these for 0.97) is
# not known to be sound, however much they scatter: it may be of the slow half of a fleet, or far behind a few
# with noise. Sound equals with a standard deviation of 4 % are not that far behind.
_FAR = 0.85
# With two slow ones of five the median is a good one; of four it is not.
LEAST_EQUALS = 5
# One wrong accusation in so many groups of equals: ten thousand burn-ins of forty groups (by figure, stage
# and kind of node).
GROUPS = 400_000
# The largest standard deviation of sound equals, as a share of the median.
NOISE = 0.01
# By number of equals: the deviations (1.4826 MAD) below the median of the least of so many normal values in
# one of GROUPS groups. Simulated with 1,000,000 to 2,000,000 groups down to one of 40,000, and extrapolated
# by the law of their tail.
_FEW = ((5, 840.0), (6, 172.0), (8, 65.0), (10, 37.0), (12, 26.0), (16, 20.0), (24, 12.0))
_MANY = 32
# A MAD below this share of the median counts as 0: more than half of the values are equal.
_NONE = 1e-12


@dataclass(frozen=True)
class PeerComparison:
    """One value beside its equals. `off`: whether it is an outlier on the bad side, None where unknown
    (`why`). `behind`: whether it would be one if their noise was at most NOISE, which one of several tests
    may be judged by. `z` is None where the equals do not scatter; then the ratio decides alone."""

    value: float
    off: bool | None
    median: float | None = None
    ratio: float | None = None
    z: float | None = None
    equals: int = 0
    why: str = ""
    behind: bool = False


def median(values: Iterable[float]) -> float:
    """The middle value, or the mean of the two; ValueError where there is none, or one is no number."""
    known = list(values)
    if not known or not all(map(math.isfinite, known)):
        raise ValueError("the median of nothing, or of what is no number")
    return _median(known)


def mad(values: Iterable[float]) -> float:
    """The median distance from the median; times `SIGMA` it is the standard deviation of normal values."""
    known = list(values)
    middle = median(known)
    return _median(abs(value - middle) for value in known)


def robust_z(value: float, middle: float, deviation: float) -> float | None:
    """How many robust standard deviations from the median; None where the deviation is nought."""
    if deviation <= _NONE * abs(middle):
        return None
    return (value - middle) / (SIGMA * deviation)


def normal(equals: int) -> float:
    """The deviation below which the least of so many normal values lies in one of GROUPS groups."""
    return -NormalDist().inv_cdf(1 / GROUPS / equals)


def deviations(equals: int) -> float:
    """The same where the standard deviation is only known by the MAD of these values themselves."""
    if equals >= _MANY:
        return normal(equals) * (1 + 5.5 / math.sqrt(equals))
    return next(far for least, far in reversed(_FEW) if equals >= least or least == _FEW[0][0])


def slow(values: Mapping[K, float], *, least: int = LEAST_EQUALS,
         ratio: float = LEAST_RATIO) -> dict[K, PeerComparison]:
    """Compares equals (same stage, power cap, hops, size) with their median; these are rates, more is better.
    Values that are not positive and finite do not count; with fewer than `least` others none is judged, nor
    is one far below the best quarter of them whom their scatter keeps from being accused."""
    known = {name: value for name, value in values.items() if _measured(value)}
    found = {name: PeerComparison(value, None, why="not a figure that can be judged")
             for name, value in values.items() if name not in known}
    if known:
        found.update(_beside_equals(known, least, ratio))
    return {name: found[name] for name in values}


def _beside_equals(known: Mapping[K, float], least: int, ratio: float) -> dict[K, PeerComparison]:
    equals, middle, deviation = len(known), median(known.values()), mad(known.values())
    best, least_known = best_quarter(known.values()), known_sound(known.values(), ratio)
    # Below the first an equal is slow if their noise is at most NOISE, below the second at any they may have.
    suspected = least_share(equals, deviation / middle, ratio)
    accused = min(suspected, 1 - _at_most(equals, SIGMA * deviation / middle))
    too_few = (f"one of {equals} equals, fewer than the {least} that it takes to compare"
               if equals < least else "")
    unclear = (f"the best quarter of {equals} equals reach {best:.4g} or more, and they differ too much to "
               "tell who is slow")
    found = {}
    for name, value in known.items():
        share = value / middle
        off = share < accused
        why = too_few or (unclear if not off and (share < suspected or value < least_known) else "")
        found[name] = PeerComparison(value, None if why else off, middle, share,
                                     robust_z(value, middle, deviation), equals, why,
                                     behind=share < suspected and not too_few)
    return found


def best_quarter(values: Iterable[float]) -> float:
    """What at least a quarter of some values reach."""
    known = sorted(values)
    return known[3 * len(known) // 4]


def known_sound(values: Iterable[float], ratio: float = LEAST_RATIO) -> float:
    """What an equal has to reach to be known as sound beside the best of these."""
    return _FAR * ratio * best_quarter(values)


def least_share(equals: int, deviation: float, ratio: float = LEAST_RATIO) -> float:
    """The share of the median below which one of so many equals is slow; `deviation`: MAD as a share."""
    return min(ratio, 1 - _scatter(equals, SIGMA * deviation))


def sound(values: Iterable[float], judged: int) -> float:
    """The floor that so many more sound machines with such values (scattered by `NOISE`) all reach."""
    known = list(values)
    middle, sigma = median(known), SIGMA * mad(known)
    sigma = sigma * (1 + 4 / math.sqrt(len(known))) if len(known) >= _MANY else max(sigma, NOISE * middle)
    return max(0.0, min(LEAST_RATIO * middle, middle - normal(judged) * sigma))


def _scatter(equals: int, sigma: float) -> float:
    """How far below the median (as a share) sound equals of this deviation may be."""
    seen = deviations(equals) * sigma
    # Few values may look noisier than they are.
    return min(seen, normal(equals) * NOISE) if sigma <= _noise(equals, 4) else seen


def _at_most(equals: int, sigma: float) -> float:
    """The same for a few that look noisier than NOISE, and may have more noise than they look."""
    if equals >= _MANY or not _noise(equals, 0.5) < sigma <= _noise(equals, 4):
        return 0.0
    return min(deviations(equals) * sigma, normal(equals) * sigma * (1 + 4 / math.sqrt(equals)))


def _noise(equals: int, beyond: float) -> float:
    """What so many equals with a standard deviation of NOISE seem to have, or somewhat more than that."""
    return NOISE * (1 + beyond / math.sqrt(equals))


def _measured(value: float) -> bool:
    return math.isfinite(value) and value > 0
