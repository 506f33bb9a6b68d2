"""How likely chance alone is to put so many of what fails into one place: tails of two distributions,
as natural logarithms. Pure.

The hypergeometric tail is Fisher's exact test, one-sided (R. A. Fisher, The Design of Experiments, 1935,
chapter II; SciPy's reference of `scipy.stats.hypergeom`). Logarithms, as 512 of 512 nodes make a number that
no float holds.
"""

from __future__ import annotations

from math import exp, lgamma, log, log1p

# The largest odds that are said: beyond them the model of independent failures is what is wrong,
# not the number.
MOST = 1e12
_NEGLIGIBLE = 1e-17


def hypergeometric(fleet: int, with_it: int, inside: int, hits: int) -> float:
    """ln P(at least `hits` of the `inside` nodes of a place have it) where `with_it` of `fleet` have it,
    and each is as likely to."""
    if hits <= max(0, inside + with_it - fleet):
        return 0.0
    most = min(inside, with_it)
    if hits > most:
        return float("-inf")
    first = _chosen(inside, hits) + _chosen(fleet - inside, with_it - hits) - _chosen(fleet, with_it)
    total = term = 1.0
    for k in range(hits, most):
        term *= (inside - k) * (with_it - k) / ((k + 1) * (fleet - inside - with_it + k + 1))
        total += term
        if term < total * _NEGLIGIBLE:
            break
    return min(0.0, first + log(total))


def binomial(trials: int, chance: float, hits: int) -> float:
    """ln P(at least `hits` of so many trials come out), each with this chance."""
    if hits > trials or (hits > 0 and chance <= 0):
        return float("-inf")
    if hits <= 0 or chance >= 1:
        return 0.0
    first = _chosen(trials, hits) + hits * log(chance) + (trials - hits) * log1p(-chance)
    total = term = 1.0
    for k in range(hits, trials):
        term *= (trials - k) / (k + 1) * chance / (1 - chance)
        total += term
        if term < total * _NEGLIGIBLE:
            break
    return min(0.0, first + log(total))


def odds(tail: float, tried: int) -> float:
    """Chance does this once in so many fleets like this one: 1 over the tail,
    corrected for the places that were tried (Bonferroni)."""
    corrected = tail + log(max(1, tried))
    return MOST if corrected <= -log(MOST) else exp(-min(0.0, corrected))


def words(once_in: float) -> str:
    """The odds as people say them, to one figure."""
    if once_in >= MOST:
        return "chance would do this less than once in 10^12 times"
    if once_in >= 1e6:
        power = int(f"{once_in:.0e}".partition("e")[2])
        return f"chance would do this once in {once_in / 10**power:.0f} x 10^{power} times"
    return f"chance would do this once in {float(f'{once_in:.1g}'):,.0f} times"


def _chosen(of: int, some: int) -> float:
    """ln of the number of ways to choose."""
    return lgamma(of + 1) - lgamma(some + 1) - lgamma(of - some + 1)
