"""Who did not come: of the ranks of a process group, those that others waited for in a collective that ran out of time.

A rank that waited is no culprit, however loud it is. Absent is one that had begun fewer collectives than the others waited in, or that
was there and then said nothing. The first is what PyTorch's own analyser goes by (torch/distributed/flight_recorder); PyTorch counts a
collective as begun only when NCCL's call has returned, so a rank that is stuck within it looks absent, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from healthcheck.joblog.model import JobEvent, JobLog, Kind

_SHARE = 3          # a rank is silent only where at least so many wait for each that is; else it is its log that is not here
_MOST_RANKS = 200_000


@dataclass(frozen=True)
class Absent:
    """One rank that did not come; `node` is empty where no line tells it. `waited` is how many did, `time` when the first said so."""

    rank: int
    node: str
    group: str
    work: int
    op: str
    last: int | None
    waited: int
    time: float | None

    @property
    def why(self) -> str:
        """In words."""
        what = f"{self.op or 'collective'} {self.work}"
        if self.last is None:
            return f"rank {self.rank} said nothing while {self.waited} ranks waited in {what}"
        return f"rank {self.rank} had begun {self.last} collectives while {self.waited} ranks waited in {what}"


def absent(log: JobLog) -> list[Absent]:
    """The ranks that did not come, the ones that were furthest behind first; empty where that cannot be told."""
    waits: dict[str, dict[int, JobEvent]] = defaultdict(dict)
    entered: dict[str, dict[int, int]] = defaultdict(dict)
    spoke = set(log.hosts) | set(range(min(log.world or 0, _MOST_RANKS)))
    unnamed: dict[int, JobEvent] = {}
    for event in log.events:
        if event.rank is None or event.work is None:
            continue
        if event.kind is Kind.ENTERED:
            of = entered[event.group]
            of[event.rank] = max(event.work, of.get(event.rank, event.work))
        elif event.kind is Kind.TIMEOUT and event.group:
            waits[event.group].setdefault(event.rank, event)
        elif event.kind is Kind.TIMEOUT:
            unnamed.setdefault(event.rank, event)
    _name(unnamed, waits, entered)
    found: dict[int, Absent] = {}
    for group, by_rank in waits.items():
        for one in _of_group(group, by_rank, entered[group], spoke if group in ("0", "default_pg") else set(), log):
            found.setdefault(one.rank, one)
    return sorted(found.values(), key=lambda one: (one.last is not None, one.last or 0, one.rank))


def _name(unnamed: dict[int, JobEvent], waits: dict[str, dict[int, JobEvent]], entered: dict[str, dict[int, int]]) -> None:
    """Watchdogs before PyTorch 2.6 do not name the group in the line of the timeout; the same rank's next line does."""
    for rank, event in unnamed.items():
        groups = [group for group, of in entered.items() if rank in of]
        waits[groups[0] if len(groups) == 1 else "0"].setdefault(rank, event)


def _of_group(group: str, waits: dict[int, JobEvent], entered: dict[int, int], spoke: set[int], log: JobLog) -> list[Absent]:
    works = Counter(event.work for event in waits.values() if event.work is not None)
    work = max(works, key=lambda number: (works[number], number))
    waiting = [rank for rank, event in waits.items() if event.work == work]
    op = next(event.op for event in waits.values() if event.work == work)
    time = min((event.time for event in waits.values() if event.time is not None), default=None)
    behind = {rank: last for rank, last in entered.items() if last < work and rank not in waiting}
    missing: dict[int, int | None] = dict(behind)
    silent = {rank for rank in spoke if rank not in waits and rank not in entered}
    if len(silent) * _SHARE <= len(waiting):
        missing |= dict.fromkeys(silent)
    if len(missing) > len(waiting):
        return []
    return [Absent(rank, log.hosts.get(rank, ""), group, work, op, last, len(waiting), time) for rank, last in missing.items()]
