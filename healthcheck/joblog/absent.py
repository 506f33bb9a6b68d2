"""Who did not come: of the ranks of a process group, those that others waited for until their time was up.

A rank that waited is no culprit, however loud it is. Absent is one that the others name; else one that had
begun fewer collectives than the others waited in, or that was there and then said nothing; else one that had
finished fewer than all others. The second is what PyTorch's own analyser goes by
(torch/distributed/flight_recorder); PyTorch counts a collective as begun only when NCCL's call has returned,
so a rank that is stuck within it looks absent, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from healthcheck.joblog.model import JobEvent, JobEventKind, JobLog
from healthcheck.joblog.prefix import short

# a rank is silent only where at least so many wait for each that is; else it is its log that is not here
_SHARE = 3
_MOST_RANKS = 200_000
# Between two ranks: their numbers run apart in each, so that fewer of them tell nothing.
_PAIRS = ("SEND", "RECV", "RECVANYSOURCE", "UNKNOWN", "COALESCED")


@dataclass(frozen=True)
class AbsentRank:
    """One missing rank, or one node (`rank` None) without any output; `node` is "" if unknown. `waited` is
    how many did, `time` when the first said so, `why` says it in words; not `sure` where its log may not have
    been given."""

    rank: int | None
    node: str
    waited: int
    time: float | None
    why: str
    group: str = ""
    work: int | None = None
    op: str = ""
    last: int | None = None
    sure: bool = True


def absent(log: JobLog, nodes: Collection[str] = ()) -> list[AbsentRank]:
    """The missing ranks, furthest behind first; empty if unknown. Of the job's `nodes`, where some never
    joined, the one that nothing is heard of is it."""
    waits: dict[str, dict[int, JobEvent]] = defaultdict(dict)
    entered: dict[str, dict[int, JobEvent]] = defaultdict(dict)
    # Whose dump is there and cannot be read may have waited, too.
    spoke = (set(log.hosts) | set(range(min(log.world or 0, _MOST_RANKS)))) - log.unread
    unnamed: dict[int, JobEvent] = {}
    for event in log.events:
        if event.rank is None or event.work is None:
            continue
        if event.kind is JobEventKind.ENTERED:
            of = entered[event.group]
            if event.rank not in of or event.work > (of[event.rank].work or 0):
                of[event.rank] = event
        elif event.kind is JobEventKind.TIMEOUT and event.group:
            waits[event.group].setdefault(event.rank, event)
        elif event.kind is JobEventKind.TIMEOUT:
            unnamed.setdefault(event.rank, event)
    _name(unnamed, waits, entered)
    found: dict[int, AbsentRank] = {one.rank: one for one in _awaited(log) if one.rank is not None}
    for group, by_rank in waits.items():
        for one in _of_group(group, by_rank, entered[group],
                             spoke if group in ("0", "default_pg") else set(), log):
            if one.rank is not None:
                found.setdefault(one.rank, one)
    ranked = sorted(found.values(), key=lambda one: (one.last is not None, one.last or 0, one.rank or 0))
    return ranked or list(_never_joined(log, nodes)) or list(_silent(log)) or list(_quiet(log, waits, nodes))


def _name(
    unnamed: dict[int, JobEvent], waits: dict[str, dict[int, JobEvent]],
    entered: dict[str, dict[int, JobEvent]],
) -> None:
    """Watchdogs before PyTorch 2.6 do not name the group in the timeout's line; the rank's next line does."""
    for rank, event in unnamed.items():
        groups = [group for group, of in entered.items() if rank in of]
        waits[groups[0] if len(groups) == 1 else "0"].setdefault(rank, event)


def _of_group(
    group: str, waits: dict[int, JobEvent], entered: dict[int, JobEvent], spoke: set[int], log: JobLog,
) -> list[AbsentRank]:
    works = Counter(event.work for event in waits.values() if event.work is not None)
    work = max(works, key=lambda number: (works[number], number))
    waiting = [rank for rank, event in waits.items() if event.work == work]
    op = next(event.op for event in waits.values() if event.work == work)
    time = min((event.time for event in waits.values() if event.time is not None), default=None)
    what = f"{len(waiting)} ranks waited in {op or 'collective'} {work}"
    begun = {rank: event.work for rank, event in entered.items() if (event.work or 0) < work
             and rank not in waiting and op not in _PAIRS}
    missing = {rank: f"had begun {last} collectives while {what}" for rank, last in begun.items()}
    silent = {rank for rank in spoke if rank not in waits and rank not in entered}
    if len(silent) * _SHARE <= len(waiting):
        missing |= dict.fromkeys(silent, f"said nothing while {what}")
    if not missing and op not in _PAIRS:
        missing = _fewest(waits, entered)
    if len(missing) > len(waiting):
        return []
    return [AbsentRank(rank, log.hosts.get(rank, ""), len(waiting), time, f"rank {rank} {why}", group, work,
                       op, begun.get(rank)) for rank, why in missing.items()]


def _fewest(waits: dict[int, JobEvent], entered: dict[int, JobEvent]) -> dict[int, str]:
    """Where all had begun the same: the few that finished fewer than the others, all of equally many."""
    done = {rank: event.work - 1 for rank, event in waits.items() if event.work is not None}
    done |= {rank: event.done for rank, event in entered.items() if event.done is not None}
    if not done:
        return {}
    most, count = Counter(done.values()).most_common(1)[0]
    behind = {rank: number for rank, number in done.items() if number < most}
    if not behind or len(behind) + count < len(done) or len(behind) * _SHARE > count:
        return {}
    return {rank: f"had finished {number} collectives while {count} ranks had finished {most}"
            for rank, number in behind.items()}


def _awaited(log: JobLog) -> Iterator[AbsentRank]:
    """Ranks that others name as those that they waited for, and that did not wait themselves."""
    by: dict[int, list[JobEvent]] = defaultdict(list)
    waited = {event.rank for event in log.events if event.kind is JobEventKind.TIMEOUT}
    for event in log.events:
        for rank in event.awaited:
            by[rank].append(event)
    for rank, events in sorted(by.items()):
        if rank not in waited:
            ranks = {event.rank for event in events}
            time = min((event.time for event in events if event.time is not None), default=None)
            count = len(ranks)
            yield AbsentRank(rank, log.hosts.get(rank, ""), count, time,
                             f"{count} rank{'s' * (count != 1)} waited for rank {rank}, which did not join")


def _silent(log: JobLog) -> Iterator[AbsentRank]:
    """Of few of whom nothing is heard but their end, while all others waited or lost a peer, in collectives
    that have no number (gloo)."""
    waited = {event.rank: event for event in log.events if event.kind is JobEventKind.TIMEOUT
              and event.rank is not None}
    if not waited or any(event.work is not None for event in waited.values()):
        return
    others = {event.rank for event in log.events if event.kind is not JobEventKind.EXIT
              and event.rank is not None}
    silent = sorted(set(log.hosts) - others)
    if silent and len(silent) * _SHARE <= len(others):
        time = min((event.time for event in waited.values() if event.time is not None), default=None)
        for rank in silent:
            why = f"rank {rank} said nothing while {len(others)} ranks waited or lost a peer"
            yield AbsentRank(rank, log.hosts.get(rank, ""), len(others), time, why)


def _quiet(
    log: JobLog, waits: Mapping[str, Mapping[int, JobEvent]], nodes: Collection[str],
) -> Iterator[AbsentRank]:
    """The few nodes of which no rank waited, where those of all others did; less sure without any line."""
    group, by_rank = max(waits.items(), key=lambda item: len(item[1]), default=("", {}))
    of = {rank: event.node or log.hosts.get(rank, "") for rank, event in by_rank.items()}
    if not of or not all(of.values()):
        return
    waited = {short(node) for node in of.values()}
    heard = {short(node): node for node in log.heard}
    every = {**heard, **{short(node): node for node in nodes}}
    still = sorted(name for name in every if name not in waited)
    if not still or len(still) * _SHARE > len(of):
        return
    event = next(iter(by_rank.values()))
    time = min((event.time for event in by_rank.values() if event.time is not None), default=None)
    gaps = sorted(set(range(max(of))) - set(of)) if max(of) <= _MOST_RANKS else []
    rank = gaps[0] if len(gaps) == len(still) == 1 else None
    for name in still:
        said = "said nothing of it" if name in heard else "has no line in the logs"
        why = f"{every[name]} {said} while {len(of)} ranks waited in {event.op or 'collective'} {event.work}"
        yield AbsentRank(rank, every[name], len(of), time, why, group, event.work, event.op,
                         sure=name in heard)


def _never_joined(log: JobLog, nodes: Collection[str]) -> Iterator[AbsentRank]:
    """Of whom nothing is heard, where a line says that so many did not join."""
    event = next((event for event in log.events if event.joined is not None
                  and event.joined[0] < event.joined[1]), None)
    if event is None or event.joined is None:
        return
    came, whole = event.joined
    heard = {short(node) for node in log.heard}
    still = sorted(node for node in nodes if short(node) not in heard)
    ranks = {one.rank for one in log.events if one.rank is not None} | set(log.hosts)
    if (still and len(nodes) - len(still) >= len(still) and len(still) * max(1, whole // len(nodes)) == whole
        - came):
        for node in still:
            yield AbsentRank(None, node, came, event.time,
                             f"{came} of {whole} joined, and no line in the logs is of {node}")
    elif len(ranks) == came and whole <= _MOST_RANKS and whole - came <= came:
        for rank in sorted(set(range(whole)) - ranks):
            why = f"{came} of {whole} ranks joined, and no line in the logs is of rank {rank}"
            yield AbsentRank(rank, log.hosts.get(rank, ""), came, event.time, why)
