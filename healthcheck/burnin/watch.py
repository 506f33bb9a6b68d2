"""Who is guilty when a task fails: by joins, progress, ends, and the states of processes. Pure.

Consequences of a fault accuse no one: once one rank is dead or stuck, every other fails or waits in the
collective. So the watch lets ends settle, and ranks them by what they prove: a node that disconnected before
a signal, a signal before an error in a rank's own work. An error in the collective or of a connection is
shared by ranks and proves nothing. A rank hangs if it has not moved for a stated time, in its own work, while
others wait for it. A rank that waits in the collective may not be the one that is waited for, and a task that
moves past its time is slow. Times are in seconds of the head's clock.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from healthcheck.burnin import faults
from healthcheck.burnin.errororigin import is_connection_error, is_own_error
from healthcheck.burnin.model import Accusation, Object, RankProgress, Seat, Task, TaskKind
from healthcheck.burnin.wire import PHASES

# A process's own signals when others are gone: NCCL's watchdog aborts.
_OF_ITSELF = (signal.SIGABRT, signal.SIGTRAP)
# Signals from outside: each is a fault of its own, however many there are.
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU)
_SHARED = ("send",)     # phases in which an error may be any rank's
_TOGETHER = ("setup", *_SHARED)     # in which a rank waits for others
_STOPPED = ("T", "t")
NOWHERE = RankProgress()


@dataclass(frozen=True)
class Patience:
    """How long, in seconds, until something is a failure.

    A stall is `stall` seconds, or `iterations` of the task's own; of a mount `storage`, as a file system may
    take that long to fail over. `setup` (of an inventory: `burnin: {setup_s: 300}`) is for a process group's
    start and first iteration, `setup_each` more for every rank: each connects through the head's one store.
    """

    settle: float = 0.5
    stale: float = 1.5
    join: float = 60.0
    stall: float = 5.0
    iterations: float = 5.0
    setup: float = 60.0
    setup_each: float = 0.1
    silent: float = 3.0
    storage: float = 30.0

    def start(self, ranks: int) -> float:
        """The seconds for so many ranks to set up their group and begin."""
        return self.setup + self.setup_each * ranks


@dataclass(frozen=True)
class RankState:
    """One rank as the head knows it. `heard` is its agent's last message about it; `ended` when its process
    ended, with waitpid's `code` or `signal`, and the `last_line` that it printed; `raised` is the error it
    reported, `done` whether it reported success; `lost` is when its node's agent disconnected."""

    seat: Seat
    joined: float | None = None
    heard: float | None = None
    progress: RankProgress = NOWHERE
    reported: float | None = None
    done: bool = False
    raised: str | None = None
    ended: float | None = None
    code: int | None = None
    signal: int | None = None
    last_line: str = ""
    lost: float | None = None
    lost_why: str = ""

    @property
    def failed(self) -> float | None:
        """When it ended otherwise than done; None where it has not."""
        if self.done:
            return None
        return min((at for at in (self.reported, self.ended, self.lost) if at is not None), default=None)

    @property
    def place(self) -> tuple[int, int]:
        """Its progress; a rank that is done is ahead of all."""
        if self.done:
            return (1 << 62, 0)
        phase = self.progress.phase
        return (self.progress.iteration, PHASES.index(phase) if phase in PHASES else -1)


@dataclass(frozen=True)
class StopReason:
    """Why to stop the task, and who is accused; `since` is when the trouble began, as far as known."""

    accusations: tuple[Accusation, ...]
    since: float


def trouble(task: Task, ranks: Sequence[RankState], sent: float, went: float | None, now: float,
            patience: Patience) -> StopReason | None:
    """Why to stop a task that began at `sent` and was released at `went` (None: not yet); None: go on."""
    if all(seen.done for seen in ranks):
        return None
    failures = [seen.failed for seen in ranks if seen.failed is not None]
    if failures:
        first = min(failures)
        return StopReason(_ends(task, ranks, first), first) if now - first >= patience.settle else None
    if went is None:
        if now - sent < patience.join:
            return None
        absent = [rank for rank, seen in enumerate(ranks) if seen.joined is None]
        why = f"did not join within {patience.join:.3g} s"
        return StopReason(_accused(task, dict.fromkeys(absent, (faults.ABSENT, why))), sent)
    stalled = _stalled if task.kind.together else _unanswered if task.kind is TaskKind.STORAGE else None
    found = _stopped(task, ranks, now, patience)
    return found if found or stalled is None else stalled(task, ranks, went, now, patience)


def overdue(task: Task, ranks: Sequence[RankState], over: float, went: float | None, now: float,
            patience: Patience) -> StopReason | None:
    """The same for a task whose time was over at `over`; None while it may be slow or hung: a move after that
    time shows that it is slow; without one, `trouble` names who hangs."""
    why = f"not done after the task's {task.seconds:.3g} s"
    if went is None:
        absent = {rank: (faults.ABSENT, why) for rank, seen in enumerate(ranks) if seen.joined is None}
        return StopReason(_accused(task, absent), over)
    if not task.kind.together:
        return _overdue_alone(task, ranks, over, now, patience, why)
    if _moved(ranks, went) > over:
        at = max((seen for seen in ranks if not seen.done), key=lambda seen: seen.place)
        return StopReason((_unexplained(task, faults.SLOW, f"{why}, and it went on: {_where(at)}"),), over)
    if now - over <= patience.start(len(ranks)):
        return None
    return StopReason((_unexplained(task, faults.HUNG, why),), over)


def _overdue_alone(task: Task, ranks: Sequence[RankState], over: float, now: float, patience: Patience,
                   why: str) -> StopReason:
    """Ranks that work alone: one that still moves is slow, if most others were done in time."""
    late = {rank: seen for rank, seen in enumerate(ranks) if not seen.done}
    named = {}
    for rank, seen in late.items():
        fault, how = _state(seen, patience)
        still = now - (seen.progress.moved or 0.0)
        if still >= patience.stall or fault != faults.HUNG:
            named[rank] = (fault, f"{why}: {how}, and has made no progress for "
                           f"{min(still, now - over + task.seconds):.1f} s, {_where(seen)}")
        elif 2 * len(late) <= len(ranks):
            named[rank] = (faults.SLOW,
                           f"{why}, as {len(ranks) - len(late)} of {len(ranks)} ranks were: {_where(seen)}")
    if named:
        return StopReason(_accused(task, named), min(ranks[rank].progress.moved or over for rank in named))
    # All of several equals are too slow, or the only one is: its time limit may be wrong.
    return StopReason(
        (_unexplained(task, faults.SLOW, f"{len(late)} of {len(ranks)} ranks were {why}, and go on"),), over)


def _ends(task: Task, ranks: Sequence[RankState], first: float) -> tuple[Accusation, ...]:
    failed = {rank: seen for rank, seen in enumerate(ranks) if seen.failed is not None}
    lost = {rank: seen for rank, seen in failed.items() if seen.lost is not None and seen.ended is None
            and seen.reported is None}
    if lost:
        nodes = {seen.seat.node for seen in lost.values()}
        if len(nodes) == len(task.nodes) > 1:
            return (_unexplained(task, faults.LOST,
                                 "every node disconnected at once: it may be the head, or its network"),)
        whys = {seen.seat.node: seen.lost_why for seen in lost.values()}
        return tuple(_lost(task, node, f"its agent disconnected: {whys[node]}") for node in task.nodes
                     if node in nodes)
    several = task.kind.together and len(ranks) > 1
    # A rank without a report may have ended of the same connection errors as the others.
    shared = (_TOGETHER if several
              and sum(seen.progress.phase == "setup" for seen in failed.values()) > 1 else _SHARED)
    tests: tuple[tuple[str, Callable[[RankState], bool], bool], ...] = (
        (faults.DEAD, lambda seen: seen.signal is not None and seen.signal in _FROM_OUTSIDE, True),
        (faults.DEAD, lambda seen: seen.signal is not None and seen.signal not in _OF_ITSELF, False),
        (faults.RAISED, lambda seen: seen.raised is not None and _by_itself(seen, several), False),
        (faults.DEAD, lambda seen: seen.raised is None and seen.progress.phase not in shared, False),
    )
    for fault, test, each in tests:
        if found := {rank: seen for rank, seen in failed.items() if test(seen)}:
            if not each:
                # Errors follow one another at once, and the first is the cause; it is the node's if all its
                # ranks have it.
                earliest = min(found.values(), key=lambda seen: seen.failed or 0.0)
                together = {rank: seen for rank, seen in found.items()
                            if seen.seat.node == earliest.seat.node}
                whole = len(together) == sum(seat.node == earliest.seat.node for seat in task.seats) < len(
                    task.seats)
                found = (together if whole and len(together) > 1
                         else {rank: seen for rank, seen in found.items() if seen is earliest})
            return _accused(task, {rank: (fault, _end(seen)) for rank, seen in found.items()})
    messages = [f"{seen.seat} said: {seen.raised}"
            for seen in sorted(failed.values(), key=lambda seen: seen.failed or 0.0) if seen.raised]
    in_setup = any(seen.progress.phase == "setup" for seen in failed.values())
    where = "while setting up the group" if several and in_setup else "in the collective"
    why = f"{len(failed)} of {len(ranks)} ranks failed {where}, which they share; pair tests can tell"
    return (_unexplained(task, faults.RAISED, f"{why}; first, {messages[0]}" if messages else why),)


def _by_itself(seen: RankState, several: bool) -> bool:
    """Whether its error is its own: in setup, where connections are made, only if certain."""
    phase, error = seen.progress.phase, seen.raised or ""
    if not several or (phase not in _TOGETHER and not is_connection_error(error)):
        return phase not in _SHARED
    return phase == "setup" and is_own_error(error)


def _end(seen: RankState) -> str:
    where = _where(seen)
    if seen.signal is not None:
        return f"its process was ended by signal {_signal(seen.signal)}, {where}"
    if seen.raised is not None:
        return f"it failed, {where}: {seen.raised or 'and gave no reason'}"
    return (f"its process ended with exit {seen.code}, without a report, "
            f"{where}{': ' if seen.last_line else ''}{seen.last_line}")


def _stopped(task: Task, ranks: Sequence[RankState], now: float, patience: Patience) -> StopReason | None:
    """Ranks whose processes are stopped, or whose helper threads stand still unlike those of others."""
    waiting = [(rank, seen) for rank, seen in enumerate(ranks) if not seen.done and seen.heard is not None]
    ages = {rank: _age(seen) for rank, seen in waiting}
    # On an overloaded machine all ranks are late.
    usual = median_low(ages.values()) if len(ages) > 1 else 0.0
    found = {}
    for rank, seen in waiting:
        if ages[rank] >= patience.stale and (seen.progress.state in _STOPPED
                                             or (ages[rank] > 3 * usual and _still(seen, patience))):
            found[rank] = (faults.STOPPED, _state(seen, patience)[1] + f", {_where(seen)}")
    if not found or (2 * len(found) > len(ranks)
                     and not all(ranks[rank].progress.state in _STOPPED for rank in found)):
        return None
    return StopReason(_accused(task, found), min(ranks[rank].progress.alive or now for rank in found))


def _stalled(task: Task, ranks: Sequence[RankState], went: float, now: float,
             patience: Patience) -> StopReason | None:
    """Those furthest behind, where no rank has moved for too long and they do not wait for others."""
    moved = _moved(ranks, went)
    farthest = max(seen.progress.iteration for seen in ranks)
    begun = any(seen.done for seen in ranks) or farthest >= 1
    limit = (max(patience.stall, patience.iterations * (moved - went) / max(1, farthest + 1))
             if begun else patience.start(len(ranks)))
    if now - moved <= limit:
        return None
    unheard = now - patience.silent
    silent = {seen.seat.node for seen in ranks if not seen.done
              and (went if seen.heard is None else seen.heard) < unheard}
    if silent and 2 * len(silent) <= len(task.nodes):
        why = f"it sent nothing for {patience.silent:.3g} s while the others waited"
        return StopReason(tuple(_lost(task, node, why) for node in task.nodes if node in silent), moved)
    behind = _behind(ranks)
    if 2 * len(behind) > len(ranks):
        why = (f"{len(behind)} of {len(ranks)} ranks wait {_where(ranks[behind[0]])}, and no one is behind "
               "them; pair tests can tell")
        return StopReason((_unexplained(task, faults.HUNG, why),), moved)
    since = min(ranks[rank].progress.moved or moved for rank in behind)
    named = {}
    for rank in behind:
        fault, how = _state(ranks[rank], patience)
        if fault == faults.HUNG and ranks[rank].progress.phase in _TOGETHER:
            continue
        named[rank] = (fault, f"{how}, and has made no progress for "
                       f"{now - (ranks[rank].progress.moved or since):.1f} s, {_where(ranks[rank])}; "
                       f"{_ahead(ranks, behind)}")
    if not named:
        waiting = (", ".join(str(ranks[rank].seat) for rank in behind[:8])
                   + (" ..." if len(behind) > 8 else ""))
        why = (f"{waiting}: waiting {_where(ranks[behind[0]])}, but for whom is unknown; "
               f"{_ahead(ranks, behind)}; pair tests can tell")
        return StopReason((_unexplained(task, faults.HUNG, why),), since)
    return StopReason(_accused(task, named), since)


def _unanswered(task: Task, ranks: Sequence[RankState], went: float, now: float,
                patience: Patience) -> StopReason | None:
    """Ranks whose mount does not answer: each transfer is a move."""
    since = {rank: max(went, seen.progress.moved or went) for rank, seen in enumerate(ranks) if not seen.done}
    stuck = {rank: at for rank, at in since.items() if now - at > patience.storage}
    named = {rank: (faults.HUNG, f"it has not answered for {now - at:.1f} s, {_where(ranks[rank])}; "
                    f"{_state(ranks[rank], patience)[1]}") for rank, at in stuck.items()}
    return StopReason(_accused(task, named), min(stuck.values())) if stuck else None


def _moved(ranks: Sequence[RankState], went: float) -> float:
    """When any rank last moved or reported, not before the go."""
    moves = (at for seen in ranks for at in (seen.progress.moved, seen.reported) if at is not None)
    return max((went, *moves))


def _behind(ranks: Sequence[RankState]) -> list[int]:
    least = min(seen.place for seen in ranks)
    return [rank for rank, seen in enumerate(ranks) if seen.place == least and not seen.done]


def _ahead(ranks: Sequence[RankState], behind: Collection[int]) -> str:
    others = [seen for rank, seen in enumerate(ranks) if rank not in behind]
    if all(seen.done for seen in others):
        return "the others are done"
    return ("the others are ahead: "
            + _where(max((seen for seen in others if not seen.done), key=lambda seen: seen.place)))


def _age(seen: RankState) -> float:
    """How old its last sign of life was at its agent's last message, so that network delays do not count."""
    if seen.heard is None or seen.progress.alive is None:
        return 0.0
    return seen.heard - seen.progress.alive


def _still(seen: RankState, patience: Patience) -> bool:
    return (seen.heard is not None and seen.progress.moved is not None
            and seen.heard - seen.progress.moved >= patience.stale)


def _state(seen: RankState, patience: Patience) -> tuple[str, str]:
    """The fault that the state of the process shows, and its description."""
    state = seen.progress.state
    if state in _STOPPED:
        return faults.STOPPED, f"its process is stopped (state {state})"
    if state in ("Z", "X"):
        return faults.DEAD, f"its process is dead (state {state})"
    if _age(seen) >= patience.stale:
        return (faults.STOPPED,
                f"its process has not responded for {_age(seen):.1f} s (state {state or 'unknown'})")
    return faults.HUNG, f"its process is alive{' and sleeps in the kernel (state D)' if state == 'D' else ''}"


def _where(seen: RankState) -> str:
    phase = seen.progress.phase or "start"
    return (f"in {phase} of iteration {seen.progress.iteration}"
            if seen.progress.iteration >= 0 else f"in {phase}")


def _accused(task: Task, named: Mapping[int, tuple[str, str]]) -> tuple[Accusation, ...]:
    """Accuses a GPU for each rank, or its node where the fault is common to all ranks of that node only."""
    found = []
    for node in task.nodes:
        own = [rank for rank, seat in enumerate(task.seats) if seat.node == node]
        mine = [rank for rank in own if rank in named]
        kinds = {named[rank][0] for rank in mine}
        if task.part:
            found += [Accusation(Object.NODE, node, fault, f"{task.part}: {why}", tests_for=(task.id,))
                      for fault, why in (named[rank] for rank in mine)]
            continue
        if len(mine) == len(own) > 1 and len(kinds) == 1 and len(task.nodes) > 1:
            found.append(Accusation(Object.NODE, node, kinds.pop(),
                                    f"all its {len(own)} ranks: {named[mine[0]][1]}", tests_for=(task.id,)))
        else:
            found += [Accusation(Object.GPU, str(task.seats[rank]), named[rank][0], named[rank][1],
                                 tests_for=(task.id,)) for rank in mine]
    return tuple(found)


def _lost(task: Task, node: str, why: str) -> Accusation:
    return Accusation(Object.NODE, node, faults.LOST, why, tests_for=(task.id,))


def _unexplained(task: Task, fault: str, why: str) -> Accusation:
    return Accusation(Object.UNEXPLAINED, task.id, fault, f"{task.part}: {why}" if task.part else why,
                      tests_for=(task.id,))


def _signal(number: int) -> str:
    names = {int(each): each.name for each in signal.Signals}
    return f"{number} ({names[number]})" if number in names else str(number)
