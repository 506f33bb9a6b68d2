"""Statistics of chance: the confidence of a rate from few failures (Garwood's interval, Biometrika 28, 1936,
exact for a Poisson count and conservative), and how uneven failures are among equal nodes."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, lgamma, log, sqrt

SURE = 0.95
_NEGLIGIBLE = 1e-17


def interval(count: int, sure: float = SURE) -> tuple[float, float]:
    """Between which bounds the expected number lies, where `count` were seen; the lower is 0 for none."""
    tail = (1 - sure) / 2
    most = count + 10 * sqrt(count + 1) + 20
    low = _solved(lambda mean: _at_least(count, mean) - tail, 0.0, float(count)) if count else 0.0
    return low, _solved(lambda mean: tail - _at_most(count, mean), float(count), most)


def share_of_worst(failures: int, nodes: int, worst: int) -> float:
    """The share of so many failures that the `worst` nodes of so many have if each failure meets any node
    with equal chance (large numbers assumed)."""
    if not failures or not nodes:
        return 0.0
    mean = failures / nodes
    left, taken = worst / nodes, 0.0
    chances: list[float] = []
    while not chances or len(chances) <= mean or chances[-1] > _NEGLIGIBLE:
        chances.append(_term(len(chances), mean))
    for number in range(len(chances) - 1, 0, -1):
        part = min(left, chances[number])
        taken += part * number
        left -= part
    return min(1.0, taken / mean)


def _solved(rises: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that rises is 0."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if rises(middle) > 0 else (middle, high)
    return (low + high) / 2


def _term(number: int, mean: float) -> float:
    return exp(number * log(mean) - mean - lgamma(number + 1)) if mean > 0 else float(number == 0)


def _at_least(count: int, mean: float) -> float:
    """P(X >= count), for a mean of at most count."""
    total = term = _term(count, mean)
    number = count
    while term > total * _NEGLIGIBLE:
        number += 1
        term *= mean / number
        total += term
    return total


def _at_most(count: int, mean: float) -> float:
    """P(X <= count), for a mean of at least count."""
    total = term = _term(count, mean)
    for number in range(count, 0, -1):
        term *= number / mean
        total += term
        if term <= total * _NEGLIGIBLE:
            break
    return total
