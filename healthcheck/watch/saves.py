"""Who is slow at checkpoints. They come now and then, so that windows in a row say nothing of them: only
windows that hold one are compared, with each other and between ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from healthcheck.watch.jobwide import JobSeries
from healthcheck.watch.late import EFFECT, LEAST_PEERS, SIGMAS, LateWindow
from healthcheck.watch.model import NOT_MEASURED, PHASES, StepPhase
from healthcheck.watch.robust import measured, median_of, spread
from healthcheck.watch.track import Tracker
from healthcheck.watch.windows import RankValues

_PLACE = PHASES.index(StepPhase.CHECKPOINT)
_LONGER = 0.25          # of a checkpoint: what is less is not worth an accusation
_NONE = (NOT_MEASURED,) * len(PHASES)


@dataclass(frozen=True)
class SlowSave:
    """A rank (its slot), or with None the whole job, is slow at checkpoints since the window of number
    `since`, in `windows` of them: one takes `took` seconds and not `usual`, which costs `lost` seconds a step
    on average."""

    slot: int | None
    since: int
    windows: int
    took: float
    usual: float
    lost: float


@dataclass
class Saves:
    """The windows with a checkpoint of one attempt."""

    _tracker: Tracker[int] = field(default_factory=Tracker)
    _series: JobSeries = field(default_factory=JobSeries)
    _sums: dict[int, tuple[float, float]] = field(default_factory=dict)     # by slot, its time and its peers'

    def clear(self) -> None:
        """Forgets all, at a restart."""
        self._tracker.clear()
        self._series.clear()
        self._sums.clear()

    def window(self, number: int, values: RankValues, seen: LateWindow) -> list[SlowSave] | None:
        """Who is slow as of this window; None where it holds no checkpoint of most ranks."""
        column, steps = values.phases[_PLACE], values.last - values.first + 1
        ordered = measured([column[slot] for slot in seen.slots])
        middle = median_of(ordered)
        if len(ordered) < LEAST_PEERS or 2 * len(ordered) <= len(seen.slots) or not middle > 0:
            return None
        limit = max(EFFECT * seen.seconds, _LONGER * middle, SIGMAS * spread(ordered, middle))
        late = {slot: column[slot] - middle for slot in seen.slots if column[slot] - middle > limit}
        self._tracker.window(number, late)
        self._series.add(number, middle * steps, _NONE, NOT_MEASURED)
        for slot in late:
            took, usual = self._sums.get(slot, (0.0, 0.0))
            self._sums[slot] = took + column[slot] * steps, usual + middle * steps
        for slot in self._sums.keys() - self._tracker.runs.keys():
            del self._sums[slot]
        return list(self._found(number, steps))

    def _found(self, number: int, steps: int) -> Iterator[SlowSave]:
        for slot, run in self._tracker.runs.items():
            if run.accused:
                took, usual = self._sums[slot]
                yield SlowSave(slot, run.since, run.windows, took / run.windows, usual / run.windows,
                               (took - usual) / (steps * (number - run.since + 1)))
        speed = self._series.speed()
        if speed is not None:
            windows = self._series.since(speed.since)
            yield SlowSave(None, speed.since, windows, speed.usual_s + speed.lost_s, speed.usual_s,
                           windows * speed.lost_s / (steps * (number - speed.since + 1)))
