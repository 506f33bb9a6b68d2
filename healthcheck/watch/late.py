"""Which ranks are late in one window.

In synchronous training all ranks' steps take equally long, as each waits for the slowest. What tells them
apart is a rank's own time: the step without its communication, in which it waits. The straggler's is long,
and it waits least. A rank is late where its own time exceeds the median of its peers (ranks of its role) by
more than EFFECT of the job's step and by more than SIGMAS deviations, by the median absolute deviation. With
step times alone a rank is late only where its step itself is longer, which in synchronous training it is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from healthcheck.watch.model import COMMUNICATION, NOT_MEASURED, PHASES, StepPhase
from healthcheck.watch.robust import measured, median_of, spread
from healthcheck.watch.windows import RankValues

EFFECT = 0.05       # of the job's step: what is less is not worth an accusation
SIGMAS = 6.0
LEAST_PEERS = 3     # of fewer ranks the median is no measure of the others
# A deviation below this share of the step is below what ranks' timers and schedulers add.
_FLOOR = 0.005
_NAMED = 0.5        # share of the excess that must be in one phase, for the phase to be named


class OwnBasis(Enum):
    """What a rank's own time is made of."""

    WAITS = "step time without communication"
    PHASES = "the phases that are timed"
    TOTALS = "step times alone"


@dataclass(frozen=True)
class LateRank:
    """A rank that is late in a window: by so many seconds a step and so many deviations. `waits` is its
    communication less the median of its peers, in seconds (NOT_MEASURED without). `of_gc`, `of_delay` are the
    parts of `excess` that it spends in garbage collection and waiting for a CPU beyond its peers; `faults`
    its major page faults a step beyond theirs, `of_cpu` the seconds that it runs on a CPU beyond them."""

    slot: int
    excess: float
    sigmas: float
    phase: StepPhase | None
    waits: float = NOT_MEASURED
    of_gc: float = NOT_MEASURED
    of_delay: float = NOT_MEASURED
    faults: float = NOT_MEASURED
    of_cpu: float = NOT_MEASURED


@dataclass(frozen=True)
class LateWindow:
    """What a window says: the medians over ranks (seconds a step), each slot's excess of own time over its
    peers, and who is late. `slots` are the ranks that reported, `judged` those with enough peers."""

    basis: OwnBasis
    seconds: float
    own: float
    phases: tuple[float, ...]
    gc: float
    slots: tuple[int, ...]
    judged: int
    excess: Sequence[float]
    late: tuple[LateRank, ...] = ()
    worst: float = 0.0
    own_times: Sequence[float] = field(default_factory=tuple)


def own_times(values: RankValues, slots: Sequence[int]) -> tuple[OwnBasis, list[float]]:
    """Each slot's own time, in seconds a step; NOT_MEASURED of those that did not report."""
    phases = values.phases
    with_waits = sum(phases[COMMUNICATION][slot] == phases[COMMUNICATION][slot] for slot in slots)
    if 2 * with_waits > len(slots):
        return OwnBasis.WAITS, [seconds - waits for seconds, waits
                                in zip(values.seconds, phases[COMMUNICATION], strict=True)]
    timed = [column for place, column in enumerate(phases) if place != COMMUNICATION
             and 2 * sum(column[slot] == column[slot] for slot in slots) > len(slots)]
    if timed:
        return OwnBasis.PHASES, [sum(row) for row in zip(*timed, strict=True)]
    return OwnBasis.TOTALS, list(values.seconds)


def late_ranks(values: RankValues, effect: float = EFFECT, sigmas: float = SIGMAS) -> LateWindow:
    """Judges one window."""
    slots = tuple(slot for slot, seconds in enumerate(values.seconds) if seconds == seconds
                  and values.ranks[slot] is not None)
    everyone = slots or tuple(slot for slot, seconds in enumerate(values.seconds) if seconds == seconds)
    seconds = median_of(sorted(values.seconds[slot] for slot in everyone))
    medians = tuple(median_of(measured([column[slot] for slot in everyone])) for column in values.phases)
    basis, own = own_times(values, slots)
    middle_own = median_of(measured([own[slot] for slot in slots]))
    excess = [NOT_MEASURED] * len(values.ranks)
    late: list[LateRank] = []
    judged = 0
    for peers in _peers(values.roles, slots):
        ordered = measured([own[slot] for slot in peers])
        if len(ordered) < LEAST_PEERS:
            continue
        judged += len(ordered)
        middle = median_of(ordered)
        sigma = max(spread(ordered, middle), _FLOOR * seconds)
        limit = max(effect * seconds, sigmas * sigma)
        found = []
        for slot in peers:
            beyond = excess[slot] = own[slot] - middle
            if beyond > limit:
                found.append(slot)
        if found:
            late += _described(values, peers, found, excess, sigma)
    worst = max((value for value in excess if value == value), default=0.0)
    gc = median_of(measured([values.gc[slot] for slot in everyone]))
    return LateWindow(basis, seconds, middle_own, medians, gc, slots, judged, excess, tuple(late), worst, own)


def _peers(roles: Sequence[str], slots: Sequence[int]) -> list[list[int]]:
    """The slots of each role."""
    by_role: dict[str, list[int]] = defaultdict(list)
    for slot in slots:
        by_role[roles[slot]].append(slot)
    return list(by_role.values())


def _described(values: RankValues, peers: Sequence[int], late: Sequence[int], excess: Sequence[float],
               sigma: float) -> list[LateRank]:
    columns = (*values.phases, values.gc, values.delay, values.faults, values.cpu)
    usual = [median_of(measured([column[slot] for slot in peers])) for column in columns]
    found = []
    for slot in late:
        beyond = [column[slot] - middle for column, middle in zip(columns, usual, strict=True)]
        by_phase = [(value, PHASES[place]) for place, value in enumerate(beyond[:len(PHASES)])
                    if place != COMMUNICATION and value == value]
        most, phase = max(by_phase, key=lambda one: one[0], default=(0.0, None))
        found.append(LateRank(slot, excess[slot], excess[slot] / sigma,
                              phase if most >= _NAMED * excess[slot] else None, beyond[COMMUNICATION],
                              *beyond[len(PHASES):]))
    return found
