"""Who keeps the others waiting, by the times of an all-reduce alone: no clocks need agree. Pure.

A rank that is late with its own work has the largest compute time and the smallest collective time, because
it finds all others waiting; a slow link makes the collective of all ranks take alike long, and then no rank's
times tell whose it is. Both are the notes' measurement.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from healthcheck.burnin.faults import SLOW_COMPUTE, SLOW_LINK
from healthcheck.burnin.model import Accusation, Object, RankReport, Task, TaskKind

SHARE = 0.05        # of an iteration: less is not worth a name
LEAST_S = 0.001     # what a busy scheduler makes of nothing
SHARE_OF_FEW = 0.15     # where there are too few ranks for a median of them to say much
FEW = 4
Z = 3.5
RATIO = 1 / 0.97
AGREES = 0.5        # of what it was late by, that the others must have waited longer than it did


def late(task: Task, reports: Sequence[RankReport]) -> tuple[Accusation, ...]:
    """The GPUs that were late with their own work in a whole all-reduce or training; () where there is none,
    or where times are missing.
    """
    computes, collectives = _times(task, reports)
    # Who is late with nearly every step is so by itself; who shares a busy CPU has some in which it is not.
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
        # Where more than half are equal there is no MAD, and the ratio decides; of a few no median says much.
        if not few and spread > 0 and (own - middle) / spread <= Z:
            continue
        why = (f"its own work took {_ms(own)} an iteration, that of the others {_ms(usual)} (median), and "
               f"its collective {_ms(waited)}, "
               f"theirs {_ms(others_waited)}: they waited for it")
        found.append(Accusation(Object.GPU, str(task.seats[rank]), SLOW_COMPUTE, why, tests_for=(task.id,)))
    return tuple(found)


def slow(task: Task, reports: Sequence[RankReport]) -> tuple[Accusation, ...]:
    """Why an all-reduce that is known to be too slow is so: those who were late, or, where nobody was, that
    nobody can be named by it.
    """
    found = late(task, reports)
    times = [report.figures["seconds_p50"] for report in reports if "seconds_p50" in report.figures]
    if found or not times:
        return found
    why = (f"the collective took every rank alike long ({_ms(min(times))} to {_ms(max(times))}), as a slow "
           f"link or NIC "
           "makes it; pairs tell whose")
    return (Accusation(Object.UNEXPLAINED, task.id, SLOW_LINK, why, tests_for=(task.id,)),)


def _times(task: Task, reports: Sequence[RankReport]) -> tuple[list[float], list[float]]:
    """Of every rank, its own work and its collective; nothing unless all said both."""
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
