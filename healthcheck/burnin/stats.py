"""Who is slow among equals: median, median absolute deviation, and the rule that burn-in judges by.

The rule, with recall and false alarms measured in simulation: a robust z below -3.5 AND less than 0.97 of the median. The mean and the
standard deviation cannot do it: among n values no z exceeds (n - 1) / sqrt(n), 2.47 for the 8 GPUs of a node, so "three sigma" never
fires there; and a hundred slow nodes of five hundred widen sigma until they hide in it. Either half alone accuses the innocent: where
values scatter little, a harmless 1% is far off by z; where they scatter much, 3% is nothing. Where more than half are slow every relative
rule is blind; so an absolute floor is judged beside it (`healthcheck.burnin.judge`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median as _median

# The median absolute deviation of a normal distribution is its standard deviation divided by this.
SIGMA = 1.4826
LEAST_Z = -3.5
LEAST_RATIO = 0.97
# Two slow ones of five leave the median with the good ones; of four they do not.
LEAST_EQUALS = 5
# A median absolute deviation below this share of the median is none: more than half of the values are the same.
_NONE = 1e-12


@dataclass(frozen=True)
class Compared:
    """One value beside its equals. `off` is whether it is an outlier on the bad side, None where that cannot be said: `why` says why.

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
    """The middle value, or the mean of the two. Raises ValueError where there is none, or where one is no number."""
    known = list(values)
    if not known or not all(map(math.isfinite, known)):
        raise ValueError("the median of nothing, or of what is no number")
    return _median(known)


def mad(values: Iterable[float]) -> float:
    """The median distance from the median; times `SIGMA` it is the standard deviation where values are normal."""
    known = list(values)
    middle = median(known)
    return _median(abs(value - middle) for value in known)


def robust_z(value: float, middle: float, deviation: float) -> float | None:
    """How many standard deviations from the median, by the median absolute deviation; None where that is nought."""
    if deviation <= _NONE * abs(middle):
        return None
    return (value - middle) / (SIGMA * deviation)


def slow(values: Mapping[str, float], *, least: int = LEAST_EQUALS, z: float = LEAST_Z, ratio: float = LEAST_RATIO) -> dict[str, Compared]:
    """Each of these, which have to be equals (same stage, power cap, hops, size), beside the median of all: rates, more is better.

    What is no positive finite number is not judged and counts for nobody's median; among fewer than `least` that are, nobody is judged.
    """
    return _beside(values, least, lambda far, share: share < ratio and (far is None or far < z))


def high(values: Mapping[str, float], *, least: int = LEAST_EQUALS, z: float = -LEAST_Z, ratio: float = 1.5) -> dict[str, Compared]:
    """The same where less is better, such as `jitter`: an outlier is above `z` and above `ratio` times the median of its equals."""
    return _beside(values, least, lambda far, share: share > ratio and (far is None or far > z))


def jitter(seconds_p50: float | None, seconds_p99: float | None) -> float | None:
    """How many times the median the 99th percentile takes; None where either was not measured, or cannot be."""
    if seconds_p50 is None or seconds_p99 is None or not (_measured(seconds_p50) and _measured(seconds_p99)) or seconds_p99 < seconds_p50:
        return None
    return seconds_p99 / seconds_p50


def _beside(values: Mapping[str, float], least: int, is_off: Callable[[float | None, float], bool]) -> dict[str, Compared]:
    known = {name: value for name, value in values.items() if _measured(value)}
    found = {name: Compared(value, None, why="not a figure that can be judged") for name, value in values.items() if name not in known}
    if not known:
        return found
    middle, deviation = median(known.values()), mad(known.values())
    for name, value in known.items():
        far, share = robust_z(value, middle, deviation), value / middle
        few = f"one of {len(known)} equals, fewer than the {least} that it takes to compare" if len(known) < least else ""
        found[name] = Compared(value, None if few else is_off(far, share), middle, share, far, len(known), few)
    return {name: found[name] for name in values}


def _measured(value: float) -> bool:
    return math.isfinite(value) and value > 0
