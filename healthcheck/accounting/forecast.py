"""How often a job of so many nodes is interrupted, by the fleet's own failures, and how often it should
write a checkpoint then. Pure.

A job of N nodes meets N times the failures of one node (Poisson, nodes equal and independent). The interval
between checkpoints is that of J. W. Young, "A first order approximation to the optimum checkpoint interval",
Communications of the ACM 17(9), 1974, and of J. T. Daly, "A higher order estimate of the optimum checkpoint
interval for restart dumps", Future Generation Computer Systems 22(3), 2006.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from healthcheck.accounting.summary import Rate

DAY = 86400.0
FEW = 10            # failures, below which the interval spans more than a factor of three


@dataclass(frozen=True)
class CheckpointInterval:
    """Seconds of work between checkpoints at one rate of interruptions, and the share of time that
    checkpoints and repeated work then cost to first order (without restarts), at most 1."""

    young_s: float
    daly_s: float
    lost: float


@dataclass(frozen=True)
class InterruptionForecast:
    """Interruptions a day of a job of `nodes`, from `failures` in `node_days`: `per_day` is None where none
    was seen (`high` then is all that is known), all three are None without any time; `low` and `high` are the
    exact 95% interval. `checkpoint_s` is what one checkpoint costs, in seconds; `usual`, `shortest` (at
    `high`) and `longest` (at `low`, None where that is 0) are the intervals that follow, None where its cost
    is not known."""

    nodes: int
    failures: int
    node_days: float
    per_day: float | None
    low: float | None
    high: float | None
    checkpoint_s: float | None = None
    usual: CheckpointInterval | None = None
    shortest: CheckpointInterval | None = None
    longest: CheckpointInterval | None = None

    @property
    def few(self) -> bool:
        """Whether there are so few failures that the expected number says little without its interval."""
        return self.failures < FEW


def forecast(rate: Rate, nodes: int, checkpoint_s: float | None = None) -> InterruptionForecast:
    """Of a fleet's rate of failures, for a job of so many nodes; `checkpoint_s` is above 0."""
    days = rate.node_weeks * 7
    if rate.low is None or rate.high is None or rate.per_100_week is None:
        return InterruptionForecast(nodes, rate.failures, days, None, None, None, checkpoint_s)
    low, high = (each / 100 / 7 * nodes for each in (rate.low, rate.high))
    per_day = rate.per_100_week / 100 / 7 * nodes if rate.failures else None
    found = [checkpoints(checkpoint_s, DAY / each) if checkpoint_s is not None and each else None
             for each in (per_day, high, low)]
    return InterruptionForecast(nodes, rate.failures, days, per_day, low, high, checkpoint_s, *found)


def checkpoints(cost_s: float, between_s: float) -> CheckpointInterval:
    """The interval where a checkpoint costs `cost_s`, and interruptions are `between_s` apart on average;
    both in seconds, above 0."""
    young = sqrt(2 * cost_s * between_s)
    if cost_s < 2 * between_s:
        part = cost_s / (2 * between_s)
        daly = young * (1 + sqrt(part) / 3 + part / 9) - cost_s
    else:
        daly = between_s
    whole = daly + cost_s
    return CheckpointInterval(young, daly, min(1.0, cost_s / whole + whole / (2 * between_s)))
