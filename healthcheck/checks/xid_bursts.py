"""Repeated Xids: the bursts of one GPU that mean more than a single report."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from healthcheck.checks.base import listed
from healthcheck.checks.xid_events import entry_of
from healthcheck.facts.xid import Xid
from healthcheck.xid.xidtable import Action, XidRepeat, XidTable


class OtherGpus:
    """Whether another GPU reported one of the same numbers at about the same time."""

    def __init__(self, events: Iterable[Xid]) -> None:
        self._times: dict[int, list[float]] = {}
        self._gpus: dict[int, list[str]] = {}
        self._change: dict[int, list[int]] = {}
        for event in sorted(events, key=lambda event: event.seconds):
            self._times.setdefault(event.number, []).append(event.seconds)
            self._gpus.setdefault(event.number, []).append(event.pci)
        for number, gpus in self._gpus.items():
            change = [len(gpus)] * len(gpus)
            for at in range(len(gpus) - 2, -1, -1):
                change[at] = change[at + 1] if gpus[at] == gpus[at + 1] else at + 1
            self._change[number] = change

    def beside(self, burst: Sequence[Xid], seconds: float) -> bool:
        """Whether there is one within so many seconds of the burst."""
        for number in {event.number for event in burst}:
            first = bisect_left(self._times[number], burst[0].seconds - seconds)
            past = bisect_right(self._times[number], burst[-1].seconds + seconds)
            if first < past and (self._gpus[number][first] != burst[0].pci
                                 or self._change[number][first] < past):
                return True
        return False


def counted(repeat: XidRepeat, events: Sequence[Xid], others: OtherGpus, table: XidTable) -> list[list[Xid]]:
    """The bursts that count: those of Xids that no job causes, and those that follow the GPU from job to
    job."""
    found: list[list[Xid]] = []
    of_jobs: list[list[Xid]] = []
    for burst in _bursts(repeat, events):
        if not all(entry_of(event, table).action is Action.APP for event in burst):
            found.append(burst)
        elif not others.beside(burst, repeat.alone_seconds):
            of_jobs.append(burst)
    if _jobs(of_jobs, repeat.apart_seconds) >= repeat.jobs:
        found += of_jobs
    return sorted(found, key=lambda burst: burst[0].seconds)


def _jobs(bursts: Iterable[Sequence[Xid]], apart_seconds: float) -> int:
    """The least number of jobs behind the bursts: another job comes some time after the last and has other
    processes."""
    jobs, last = 0, 0.0
    pids: set[str] = set()
    for burst in bursts:
        own = {event.pid for event in burst if event.pid}
        if not jobs or (burst[0].seconds - last >= apart_seconds and not own & pids):
            jobs, pids = jobs + 1, set()
        pids |= own
        last = burst[-1].seconds
    return jobs


def processes(bursts: Iterable[Sequence[Xid]]) -> str:
    """Of which processes the bursts are, in brackets; empty where none is named."""
    named = dict.fromkeys(f"{event.process or 'process'} {event.pid}" for burst in bursts for event in burst
                          if event.pid)
    return f" ({listed(list(named))})" if named else ""


def _bursts(repeat: XidRepeat, events: Sequence[Xid]) -> list[list[Xid]]:
    bursts: list[list[Xid]] = []
    last = sticky = float("-inf")
    for event in sorted(events, key=lambda event: event.seconds):
        stuck = event.number in repeat.sticky and event.seconds - sticky <= repeat.sticky_hours * 3600
        if bursts and (event.seconds - last < repeat.gap_seconds or stuck):
            bursts[-1].append(event)
        else:
            bursts.append([event])
        last = event.seconds
        if event.number in repeat.sticky:
            sticky = event.seconds
    return bursts
