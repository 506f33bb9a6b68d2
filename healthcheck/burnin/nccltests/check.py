"""Checks whether a run of nccl-tests counts: its ranks, its arithmetic and wrong values.

algbw = S/t, and busbw = algbw times a factor of the number of ranks (github.com/NVIDIA/nccl-tests,
doc/PERFORMANCE.md). The average over all sizes is not used, nor NCCL_TESTS_MIN_BW: it passes from 0.9 of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from healthcheck.burnin.nccltests.model import Half, NcclRow, NcclRun

OFF = 0.005             # share of algbw beyond rounding
_RATED = 1 << 20        # bytes from which rates are precise enough
_MOST_RANKS = 1 << 20

# busbw/algbw by the number of ranks, and back.
_TWICE = (lambda n: 2 * (n - 1) / n, lambda ratio: 2 / (2 - ratio) if ratio < 2 else math.inf)
_ONCE = (lambda n: (n - 1) / n, lambda ratio: 1 / (1 - ratio) if ratio < 1 else math.inf)
_FACTORS: Mapping[str, tuple[Callable[[int], float], Callable[[float], float]]] = MappingProxyType({
    "all_reduce": _TWICE, "all_gather": _ONCE, "reduce_scatter": _ONCE, "alltoall": _ONCE, "gather": _ONCE,
    "scatter": _ONCE,
})
# Programs of nccl-tests; RCCL-tests write AllReduce. The longer names first.
_NAMES = ("all_reduce", "all_gather", "reduce_scatter", "alltoallv", "alltoall", "broadcast", "reduce",
          "sendrecv", "gather", "scatter", "hypercube")
# Programs that move another size than the column shows.
_OTHER_SIZE = ("hypercube", "alltoallv")


def collective(run: NcclRun) -> str:
    """The collective, by the program's name, else an all-reduce where rates exceed algbw, else ""."""
    letters = re.sub(r"[^a-z]", "", run.test.lower())
    named = next((name for name in _NAMES if letters.startswith(name.replace("_", ""))), None)
    if named is not None:
        return named
    return ("all_reduce"
            if any(half.busbw - half.blur[2] > half.algbw + half.blur[1] for half in _rated(run)) else "")


def ranks(run: NcclRun) -> tuple[int, int] | None:
    """The numbers of ranks (least, most; least > most: they disagree) by its figures; None: not shown."""
    factor = _FACTORS.get(collective(run))
    if factor is None:
        return None
    least, most = 1, _MOST_RANKS
    found = False
    for half in _rated(run):
        low = (half.busbw - half.blur[2]) / (half.algbw + half.blur[1])
        high = (half.busbw + half.blur[2]) / (half.algbw - half.blur[1])
        found = True
        least = max(least, math.ceil(min(factor[1](max(low, 0.0)), _MOST_RANKS + 1) - 1e-6))
        most = min(most, math.floor(min(factor[1](high), _MOST_RANKS) + 1e-6))
    return (least, most) if found else None


def slips(run: NcclRun) -> tuple[NcclRow, ...]:
    """Rows whose algbw is not size over time: someone took one column for another."""
    # With -C the time is the processor's, and rates are the device's.
    if run.cpu_time or collective(run) in _OTHER_SIZE:
        return ()
    return tuple(row for row in run.rows if any(_slips(row.size, half) for half in row.halves))


def _slips(size: int, half: Half) -> bool:
    time, algbw, _ = half.blur
    # Bytes a microsecond are 1e6 bytes a second.
    least, most = size / (half.time_us + time) / 1e3, size / max(half.time_us - time, 1e-9) / 1e3
    return half.time_us > 0 and not least * (1 - OFF) - algbw <= half.algbw <= most * (1 + OFF) + algbw


def wrong(run: NcclRun) -> int:
    """How many elements were wrong; where only the footer counts them, how many sizes."""
    return (sum(half.wrong or 0 for row in run.rows for half in row.halves)
            or (run.bounds.count if run.bounds is not None else 0))


def verified(run: NcclRun) -> bool:
    """Whether values were compared at all (-c), which the footer's OK does not show."""
    if "validation" in run.config:
        return run.config["validation"] > 0
    return any(half.wrong is not None for row in run.rows for half in row.halves)


def problems(run: NcclRun, launched: int | None = None) -> tuple[str, ...]:
    """Why the run does not count, a line each; `launched` counts the started ranks (None: as listed)."""
    return tuple(_problems(run, launched or run.ranks))


def _problems(run: NcclRun, launched: int) -> Iterator[str]:
    if run.failures:
        yield f"it failed: {run.failures[0].text}"
    if run.endless:
        yield "this format has no footer, so whether the run completed is unknown"
    elif not run.complete:
        yield ("it has no footer: its table stops "
               f"{f'after size {run.rows[-1].size}' if run.rows else 'before its first size'}")
    if wrong(run) or (run.bounds is not None and not run.bounds.okay):
        yield f"data came out wrong: {wrong(run)} elements"
    if run.rows and not verified(run):
        yield "no value was verified (-c 0)"
    if run.copies > 1:
        yield (f"rank 0 is listed {run.copies} times: several runs, not one (nccl-tests without MPI under a "
               "launcher)")
    if run.ranks and launched and run.ranks != launched:
        yield f"it lists {run.ranks} ranks, and {launched} were started"
    allowed = ranks(run)
    if allowed is not None and launched and not allowed[0] <= launched <= allowed[1]:
        yield f"its figures are of {ranks_text(allowed)}, and {launched} were started"
    for row in slips(run)[:3]:
        yield f"at size {row.size} algbw is not size over time"
    if run.broken:
        yield (f"{len(run.broken)} lines of its table could not be read; the first is line "
               f"{run.broken[0].line}")


def ranks_text(allowed: tuple[int, int]) -> str:
    """Numbers of ranks for people."""
    least, most = allowed
    if least > most:
        return "no number of ranks"
    if most >= _MOST_RANKS:
        return f"{least} ranks or more"
    return f"{least} rank{'s' * (least != 1)}" if least == most else f"{least} to {most} ranks"


def _rated(run: NcclRun) -> list[Half]:
    return [half for row in run.rows if row.size >= _RATED for half in row.halves
            if half.algbw > 4 * half.blur[1] and half.algbw > 0.05]
