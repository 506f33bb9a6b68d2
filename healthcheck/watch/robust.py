"""Medians, deviations and slopes that a few wild values do not move."""

from __future__ import annotations

import math
from collections.abc import Sequence

# The MAD of a normal distribution times this is its standard deviation (Rousseeuw and Croux 1993).
TO_SIGMA = 1.4826


def measured(values: Sequence[float]) -> list[float]:
    """The values that are there, in order of size."""
    return sorted([value for value in values if value == value])


def median_of(ordered: Sequence[float]) -> float:
    """The median of values in order of size; NaN of none."""
    count = len(ordered)
    if not count:
        return math.nan
    middle = count // 2
    return ordered[middle] if count % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def median(values: Sequence[float]) -> float:
    """The median of those that are there; NaN of none."""
    return median_of(measured(values))


def spread(ordered: Sequence[float], middle: float) -> float:
    """The standard deviation by the median absolute deviation, in the unit of the values; 0 of none."""
    return TO_SIGMA * median_of(sorted(abs(value - middle) for value in ordered)) if ordered else 0.0


def slope(values: Sequence[float]) -> float:
    """Theil and Sen's slope: the median of those between all pairs, for each place in the row; 0 of fewer
    than three. NaN values are left out."""
    points = [(place, value) for place, value in enumerate(values) if value == value]
    if len(points) < 3:
        return 0.0
    found = sorted((later - value) / (place - at) for number, (at, value) in enumerate(points)
                   for place, later in points[number + 1:])
    return median_of(found)
