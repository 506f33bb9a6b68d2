"""What the windows of a job cannot show, so that no one takes what was not compared for sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from healthcheck.watch.hang import mute, mute_words
from healthcheck.watch.late import LEAST_PEERS, OwnBasis
from healthcheck.watch.track import RECENT_LATE

if TYPE_CHECKING:
    from healthcheck.watch.watcher import JobWatch


_MOST = 8       # ranks that are listed


def unjudged(watch: JobWatch) -> tuple[str, ...]:
    """A line each: whom others than its steps call slow, and what could not be compared."""
    named = {rank for one in watch.findings.values() for rank in one.ranks}
    low = [score for score in watch.scores.values() if score.low and score.rank not in named]
    found = [f"{score.words}{f' on {score.host}' if score.host else ''}, and its step times do not show it"
             for score in low[:_MOST]]
    if len(low) > _MOST:
        found.append(f"nvrx: {len(low) - _MOST} other ranks are slow, too")
    if not watch.windows or watch.last is None:
        return tuple(found)
    if not watch.judged:
        windows = f"{watch.most} window{'s' * (watch.most != 1)} of {watch.input.per} steps in a row"
        found.append(f"too few step times to say what slows it: {windows}, at least {RECENT_LATE} are needed")
    found += _unheard(watch)
    alone = len(watch.last.slots) - watch.last.judged
    if watch.ranks == (None,):
        found.append("the log speaks for the whole job: which rank it waits for is not known")
    elif watch.basis is OwnBasis.TOTALS:
        found.append("ranks time no phases: in synchronous training each waits for the slowest, which is not "
                     "known")
    elif alone > 0:
        found.append(f"{alone} rank{'s' * (alone != 1)} could not be compared: no phases, or fewer than "
                     f"{LEAST_PEERS} ranks of the same role")
    return tuple(found)


def _unheard(watch: JobWatch) -> list[str]:
    """A line of each of some ranks that report no more, and of those that never did."""
    progress = watch.progress
    newest = max(progress.values(), default=0)
    found = list(mute_words(mute(progress, watch.reach), watch.host_of, newest))
    known = {rank for rank in watch.ranks if rank is not None}
    earlier = len(known - progress.keys())
    if earlier:
        found.append(f"{earlier} rank{'s' * (earlier != 1)} of earlier attempts report"
                     f"{'s' * (earlier == 1)} nothing in this one")
    never = [rank for rank in range(max(known, default=-1)) if rank not in known]
    if never:
        more = f", nor of {len(never) - _MOST} others" if len(never) > _MOST else ""
        found.append(f"of rank {', '.join(map(str, never[:_MOST]))} no step time was read{more}")
    return found
