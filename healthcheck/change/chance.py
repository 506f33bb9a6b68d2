"""How often chance alone does something: Student's t and the binomial tail, exact, without a library.

A judgement calls a change that does nothing `worse` in at most `ALPHA` of all cases. That share is divided
among the kinds of evidence, and within a kind among all that is compared (Bonferroni), so it holds however
they depend on each other.
"""

from __future__ import annotations

import math
from functools import cache

from healthcheck.change.model import FIGURES, LOG, RESULTS

ALPHA = 0.01
SHARES = {FIGURES: 0.004, LOG: 0.003, RESULTS: 0.003}
# Beyond so many degrees of freedom, t is normal for our purposes.
_MOST_FREE = 400


def t_inside(t: float, free: int) -> float:
    """The probability that |T| < t, for so many degrees of freedom (Abramowitz and Stegun, Handbook of
    Mathematical Functions, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(free))
    cosine, sine = math.cos(angle), math.sin(angle)
    total, term = 0.0, cosine if free % 2 else 1.0
    for at in range(1 if free % 2 else 0, free - 1, 2):
        total += term
        term *= cosine * cosine * (at + 1) / (at + 2)
    return 2 / math.pi * (angle + sine * total) if free % 2 else sine * total


@cache
def t_bound(beyond: float, free: int) -> float:
    """The t that chance exceeds on one side with this probability, for `free` (>= 1) degrees of freedom."""
    free = min(free, _MOST_FREE)
    low, high = 0.0, 1.0
    while (1 - t_inside(high, free)) / 2 > beyond:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        if (1 - t_inside(middle, free)) / 2 > beyond:
            low = middle
        else:
            high = middle
    return high


def at_least(hits: int, of: int, rate: float) -> float:
    """The probability of so many hits or more among `of` tries, each a hit at this rate (0 to 1)."""
    if hits <= 0:
        return 1.0
    return min(1.0, sum(math.comb(of, each) * rate**each * (1 - rate)**(of - each)
                        for each in range(hits, of + 1)))


def one_sided(hits: int, of: int, control_hits: int, controls: int) -> float:
    """Fisher's exact test: the probability that the canary has so many hits or more, if hits fall on canary
    and controls by chance."""
    everyone, every = of + controls, hits + control_hits
    whole = math.comb(everyone, every)
    return sum(math.comb(of, each) * math.comb(controls, every - each)
               for each in range(hits, min(of, every) + 1)) / whole
