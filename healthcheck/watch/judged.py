"""What the windows of a job cannot show, so that no one takes what was not compared for sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from healthcheck.watch.late import LEAST_PEERS, OwnBasis
from healthcheck.watch.track import RECENT_LATE

if TYPE_CHECKING:
    from healthcheck.watch.watcher import JobWatch


def unjudged(watch: JobWatch) -> tuple[str, ...]:
    """A line each; of a job of which nothing is known, nothing."""
    if not watch.windows or watch.last is None:
        return ()
    found = []
    if not watch.judged:
        found.append(f"too few step times to say what slows it: {watch.most} windows of {watch.input.per} "
                     f"steps in a row, at least {RECENT_LATE} are needed")
    alone = sum(rank is not None for rank in watch.ranks) - watch.last.judged
    if watch.ranks == (None,):
        found.append("the log speaks for the whole job: which rank it waits for is not known")
    elif watch.basis is OwnBasis.TOTALS:
        found.append("ranks time no phases: in synchronous training each waits for the slowest, which is not "
                     "known")
    elif alone > 0:
        found.append(f"{alone} rank{'s' * (alone != 1)} could not be compared: no phases, or fewer than "
                     f"{LEAST_PEERS} ranks of the same role")
    return tuple(found)
