"""Who keeps the others waiting, by the times of an all-reduce alone, without a common clock. Pure.

A rank that is late with its own work has the largest compute time and the smallest collective time, as it
finds all others waiting. A slow link makes the collective equally long on all ranks, so no rank's times show
whose link it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from healthcheck.burnin.faults import SLOW_COMPUTE
from healthcheck.burnin.model import Accusation, Object, RankReport, Task, TaskKind

SHARE = 0.05        # of an iteration: less does not matter
LEAST_S = 0.001     # noise of a busy scheduler
SHARE_OF_FEW = 0.15     # where ranks are too few for a median
FEW = 4
Z = 3.5
RATIO = 1 / 0.97
AGREES = 0.5        # share of its delay by which others must have waited longer


def late(task: Task, reports: Sequence[RankReport]) -> tuple[Accusation, ...]:
    """The GPUs that were late with their own work in a whole all-reduce or training; () without times."""
    computes, collectives = _times(task, reports)
    # A late rank is late in nearly every step; one on a busy CPU is not.
    least = [report.figures.get("compute_p10", own) for report, own in zip(reports, computes, strict=False)]
    few = len(computes) < FEW
    share = SHARE_OF_FEW if few else SHARE
    found = []
    middle, spread = _spread(computes)
    for rank, (own, waited) in enumerate(zip(computes, collectives, strict=True)):
        if own < max(computes) if few else own <= RATIO * middle:
            continue
        usual, others_waited = median(_without(computes, rank)), median(_without(collectives, rank))
        extra, spared = own - usual, others_waited - waited
        enough = max(LEAST_S, share * (usual + others_waited))
        if min(extra, least[rank] - usual) < enough or least[rank] < RATIO * usual or spared < AGREES * extra:
            continue
        # If more than half are equal, the MAD is 0 and the ratio decides; of few ranks a median shows little.
        if not few and spread > 0 and (own - middle) / spread <= Z:
            continue
        why = (f"its own work took {_ms(own)} an iteration, that of the others {_ms(usual)} (median), and "
               f"its collective {_ms(waited)}, "
               f"theirs {_ms(others_waited)}: they waited for it")
        found.append(Accusation(Object.GPU, str(task.seats[rank]), SLOW_COMPUTE, why, tests_for=(task.id,)))
    return tuple(found)


def _times(task: Task, reports: Sequence[RankReport]) -> tuple[list[float], list[float]]:
    """The compute and collective times of every rank; empty lists unless all ranks report both."""
    times = [(report.figures.get("compute_p50"), report.figures.get("seconds_p50")) for report in reports]
    whole = [(own, waited) for own, waited in times if own is not None and waited is not None]
    if (task.kind not in (TaskKind.ALLREDUCE, TaskKind.TRAIN) or len(whole) != len(task.seats)
            or len(whole) < 2):
        return [], []
    return [own for own, _ in whole], [waited for _, waited in whole]


def _spread(values: Sequence[float]) -> tuple[float, float]:
    """Median, and the MAD as a standard deviation."""
    middle = median(values) if values else 0.0
    return middle, 1.4826 * median(abs(each - middle) for each in values) if values else 0.0


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds >= 0.1 else f"{seconds * 1e3:.3g} ms"


def _without(values: Sequence[float], index: int) -> list[float]:
    return [*values[:index], *values[index + 1:]]
