"""Runs one piece of work per node, a bounded number at a time,
and yields each reply on time even if the work hangs.

Work runs in daemon threads, because a thread in getaddrinfo(3) or on a dead mount cannot be interrupted. When
its time is over, the node gets a failure, its connections are closed, and the next node takes its place.

How many at a time: `Limits.fanout` nodes are in work, of which at most eight per core of this machine are on
their way to the program. A login that has taken two seconds no longer counts among these: it waits for the
other side, and not for our cores. So many slow or hung logins hold back no others below the fan-out, while a
busy machine begins no more logins than it can carry on.

Who got stuck on the way (`Failure.stuck`) has a second try when all others have been answered for. The first
never ran our program, so no node runs it twice.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from inventory.errors import LACKING
from inventory.model import Node
from inventory.transport.base import BUSY, Failure, Limits, Reply, Stage
from inventory.transport.session import one_line
from inventory.transport.switchinterval import longer_switch_interval

_LONGEST_REASON = 1500
# A login costs a slow core 6 to 18 ms, and 30 more where the nodes are on this machine, so that these take
# it half a second.
LOGINS_PER_CORE = 8
PATIENT_S = 2.0
NO_THREAD = "this machine cannot start another thread (ulimit -u?); try a smaller --fanout"

Overdue: TypeAlias = "Callable[[float], Failure]"


class TaskFailed(Exception):
    """Work ends here, with this failure; `stuck` and `algorithms` as in it."""

    def __init__(
        self, stage: Stage, reason: str, *, stuck: Stage | None = None, algorithms: bool = False,
    ) -> None:
        super().__init__(reason)
        self.failure = Failure(stage, reason, stuck, algorithms)


def shortage(error: Exception) -> Failure | None:
    """The failure where this machine lacked something that it may have again: descriptors, memory, threads.
    None for another error."""
    if isinstance(error, OSError) and error.errno in LACKING:
        return Failure(Stage.HEAD, f"this machine lacks what it takes ({error.strerror}); try a smaller "
                                   "--fanout", Stage.CONNECT)
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return Failure(Stage.HEAD, NO_THREAD, Stage.CONNECT)
    return None


class Expired(Exception):
    """The task's time is over and its reply is sent; the work only has to stop."""


class WatchedTask:
    """One piece of work with a deadline (`end`, time.monotonic) and, within it, steps with limits. When one
    is overdue, the watchdog sets `failure` and calls what was given to `on_abort`."""

    def __init__(self, watch: Watchdog, end: float, answer: Callable[[Failure], None] | None = None) -> None:
        self.end = end
        self.until = end
        self.failure: Failure | None = None
        self._watch = watch
        self._answer = answer
        self._began = self._since = time.monotonic()
        self._overdue: Overdue = lambda seconds: Failure(Stage.DEADLINE,
                                                         f"not finished after {seconds:.3g} s")
        self.before: Failure | None = None      # of the try before this one
        self._lost = 0.0        # seconds that the tries before this one took
        self.final = False      # what ran may not run again, so that no failure from now on is `stuck`
        self._closers: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def step(self, seconds: float, overdue: Overdue) -> None:
        """Until `seconds` have passed, or the task's end; then `overdue(seconds)`. Raises Expired."""
        self._since = time.monotonic()
        self._overdue = overdue
        self.until = min(self._since + seconds, self.end)
        self._watch.sooner(self.until)
        self.check()

    def check(self) -> None:
        """Raises Expired when the task has been aborted."""
        if self.failure is not None:
            raise Expired

    def extend(self, seconds: float) -> None:
        """Puts the task's end off, before its steps begin: for the machines on the way."""
        self.end += seconds

    def left(self) -> float:
        """Seconds left of the current step, never negative."""
        return max(0.0, self.until - time.monotonic())

    def on_abort(self, close: Callable[[], None]) -> None:
        """`close` must return at once; called on abort, or now if that was. Raises Expired then."""
        with self._lock:
            if self.failure is None:
                self._closers.append(close)
                return
        close()
        raise Expired

    def again(self, failure: Failure, pause: float = 0.0) -> None:
        """Restarts the work, in `pause` seconds, after `failure`, which stays the answer when an end cuts the
        new attempt short (`overdue`). Raises Expired."""
        self.before = failure
        self._lost = time.monotonic() + pause - self._began
        self.step(self.end - time.monotonic(), lambda _: failure)

    @property
    def stage(self) -> Stage:
        """That of the current step."""
        return self._overdue(0.0).stage

    def overdue(self) -> Failure:
        """The failure of the current step if its time were over now; where that is not by the step's own
        limit, what failed before may count more (`_cut_short`)."""
        now = time.monotonic()
        taken = now - self._since
        failure = self._overdue(taken)
        if failure.stage in BUSY:
            failure = replace(failure, stuck=None if self.final else failure.stage)
        by_its_limit = self.until <= now and self.until < self.end
        if self.before is None or by_its_limit:
            return failure
        return _cut_short(failure, self.before, enough=taken >= self._lost)

    def abort(self, failure: Failure) -> None:
        """Ends the task from outside; the first failure stays."""
        with self._lock:
            if self.failure is not None:
                return
            self.failure = failure
            closers, self._closers = self._closers, []
        try:
            for close in closers:
                # A failing one (no free thread,
                # for example) must not stop the others or the watchdog's thread.
                with contextlib.suppress(Exception):
                    close()
        finally:
            if self._answer is not None:
                self._answer(failure)

    def finish(self) -> None:
        """Removes finished work from the watchdog."""
        self._watch.remove(self)


class Watchdog:
    """One thread that aborts overdue tasks. It sleeps until the nearest deadline; nothing polls."""

    def __init__(self) -> None:
        self._tasks: set[WatchedTask] = set()
        self._changed = threading.Condition()
        self._waking = 0.0
        self._over = False
        threading.Thread(target=self._run, name="muster-watch", daemon=True).start()

    def add(self, task: WatchedTask) -> None:
        with self._changed:
            self._tasks.add(task)
        self.sooner(task.until)

    def remove(self, task: WatchedTask) -> None:
        with self._changed:
            self._tasks.discard(task)

    def sooner(self, until: float) -> None:
        """Wakes the watchdog if it would sleep past `until`."""
        if until < self._waking:
            with self._changed:
                self._changed.notify()

    def stop(self, failure: Failure) -> None:
        """Aborts every task with `failure` and ends the thread."""
        with self._changed:
            self._over = True
            tasks = list(self._tasks)
            self._changed.notify()
        for task in tasks:
            task.abort(failure)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._over:
                    return
                now = time.monotonic()
                late = [task for task in self._tasks if task.until <= now]
                if not late:
                    # Set before reading the tasks again:
                    # a thread that shortens a deadline after this sees it and wakes us.
                    self._waking = float("inf")
                    self._waking = min((task.until for task in self._tasks), default=now + 3600)
                    self._changed.wait(max(0.0, self._waking - now))
                    continue
                self._tasks.difference_update(late)
            for task in late:
                task.abort(task.overdue())


class NodeJob:
    """One node's work: its task, and what its reply holds besides the outcome; `first` is the first try's."""

    def __init__(
        self, node: Node, watch: Watchdog, end: float,
        answer: Callable[[NodeJob, bytes | None, Failure | None], None],
        begun: Callable[[NodeJob], None] = lambda _: None, first: Reply | None = None,
    ) -> None:
        self.node = node
        self.first = first
        self.started = time.time()
        self.attempts = 0
        self.sent = 0
        self.received = 0
        self.python: str | None = None
        self.answered = False
        self.cut = ""       # what ended the whole run
        self.task = WatchedTask(watch, end, lambda failure: answer(self, None, failure))
        self._begun = begun
        self._patience = WatchedTask(watch, time.monotonic() + PATIENT_S, lambda _: begun(self))
        watch.add(self.task)
        watch.add(self._patience)

    def begun(self) -> None:
        """The program runs: the next node may log in."""
        self._patience.finish()
        self._begun(self)

    def finish(self) -> None:
        """Removes finished work from the watchdog."""
        self.task.finish()
        self._patience.finish()

    def reply(self, body: bytes | None, failure: Failure | None) -> Reply:
        """The node's reply; a second try's holds what both have cost."""
        first, before = self.first, None if self.first is None else self.first.failure
        if failure is not None and before is not None:
            failure = _of_both(before, failure, self.cut)
        if failure is not None:
            # A reason may quote a node, a file or a name: clean it before it reaches a terminal.
            failure = replace(failure, reason=one_line(failure.reason, _LONGEST_REASON))
        return Reply(
            self.node.name, body, failure, self.started, time.time(),
            sent_bytes=self.sent + (0 if first is None else first.sent_bytes),
            received_bytes=self.received + (0 if first is None else first.received_bytes),
            attempts=max(1, self.attempts) + (0 if first is None else first.attempts), python=self.python,
            first=before)


def _cut_short(failure: Failure, before: Failure, *, enough: bool) -> Failure:
    """What is said of a task whose end cut its second try short: `failure` is of the step that it was in, and
    `before` of the try before. The rest of the time says nothing about a resolver or a connection, nor of
    what comes after them unless it is `enough`: as much as the tries before took."""
    if failure.stage in (Stage.RESOLVE, Stage.CONNECT):
        return before
    if enough:
        return failure
    if failure.stage in BUSY:
        return before
    # Our program is at work, so this is no try that did not get so far.
    if before.stage is Stage.JUMP:
        return replace(before, stuck=None)
    return replace(failure, reason=f"{failure.reason}; before that: {before.reason}")


def _of_both(first: Failure, second: Failure, cut: str) -> Failure:
    """How a node failed twice; what `cut` a second try short says nothing about the node."""
    if cut:
        return replace(first, reason=f"{first.reason}; {cut} during a second try")
    if first.stage is second.stage:
        return replace(second, reason=f"{second.reason}; tried twice")
    return replace(second, reason=f"{second.reason}; a first try failed at {first.stage.value}: "
                                  f"{first.reason}")


Work: TypeAlias = Callable[[NodeJob], "bytes | Failure"]


def logins_at_once(limits: Limits) -> int:
    """How many nodes may be on their way to the program."""
    return LOGINS_PER_CORE * len(os.sched_getaffinity(0)) if limits.logins is None else limits.logins


def fan_out(
    nodes: Iterable[Node], limits: Limits, work: Work, watch: Watchdog,
    again: Callable[[], None] = lambda: None, once: Collection[str] = (),
) -> Iterator[Reply]:
    """Yields one reply per node, all by `limits.sweep_s`; closing it aborts the work. `watch` is stopped at
    the end; `again` is called before the second tries, which the nodes in `once` do not have. An unexpected
    exception in `work` is that node's failure, not the sweep's."""
    workers = _Workers(nodes, limits, work, watch, again, once)
    if limits.halt is not None:
        limits.halt.follow(workers.halt)
    try:
        with longer_switch_interval():
            yield from workers.replies()
    finally:
        workers.stop()


class _Workers:
    def __init__(
        self, nodes: Iterable[Node], limits: Limits, work: Work, watch: Watchdog, again: Callable[[], None],
        once: Collection[str],
    ) -> None:
        self._waiting: deque[tuple[Node, Reply | None]] = deque((node, None) for node in nodes)
        self._total = len(self._waiting)
        self._limits = limits
        self._logins = logins_at_once(limits)
        self._work = work
        self._watch = watch
        self._again = again
        self._once = once
        self._end = time.monotonic() + limits.sweep_s
        self._done: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self._jobs: set[NodeJob] = set()
        self._entering: set[NodeJob] = set()        # of these, those on their way to the program
        self._stuck: list[tuple[Node, Reply]] = []     # for a second try
        self._lock = threading.Lock()
        self._over = False

    def replies(self) -> Iterator[Reply]:
        sweep = WatchedTask(self._watch, self._end,
                            lambda _: self._abort_all(f"the sweep's {self._limits.sweep_s:g} s were over"))
        self._watch.add(sweep)
        self._fill()
        for _ in range(self._total):
            yield self._done.get()
        sweep.finish()

    def stop(self) -> None:
        with self._lock:
            self._over = True
            self._waiting.clear()
            self._stuck.clear()
        self._watch.stop(Failure(Stage.DEADLINE, "interrupted"))

    def _fill(self) -> None:
        """Starts as many nodes as may be."""
        while (job := self._take()) is not None:
            try:
                threading.Thread(target=self._run, args=(job,), name=f"muster-{job.node.name}",
                                 daemon=True).start()
            except RuntimeError:
                self._complete(job, None, Failure(Stage.HEAD, NO_THREAD, Stage.CONNECT))

    def _take(self) -> NodeJob | None:
        with self._lock:
            if (self._over or not self._waiting or len(self._jobs) >= self._limits.fanout
                or len(self._entering) >= self._logins):
                return None
            if (at := self._next()) is None:
                return None
            node, first = self._waiting[at]
            del self._waiting[at]
            if self._limits.turns is not None:
                self._limits.turns.begins(node)
            job = NodeJob(node, self._watch, time.monotonic() + self._limits.of(node).node_s, self._answer,
                          self._begun, first)
            self._jobs.add(job)
            self._entering.add(job)
            return job

    def _next(self) -> int | None:
        """Which of the waiting is next; None where all must wait. Where none is in work there is one."""
        turns = self._limits.turns
        if turns is None or not self._jobs:
            return 0
        return next((at for at, (node, _) in enumerate(self._waiting) if turns.may_begin(node)), None)

    def _begun(self, job: NodeJob) -> None:
        with self._lock:
            if job not in self._entering:
                return
            self._entering.discard(job)
        self._fill()

    def _run(self, job: NodeJob | None) -> None:
        """Runs job after job, until another thread has replied for one and taken over its place."""
        while job is not None:
            outcome = self._outcome(job)
            if outcome is None:
                return
            if not (self._complete(job, None, outcome) if isinstance(outcome, Failure)
                    else self._complete(job, outcome, None)):
                return
            job = self._take()

    def _outcome(self, job: NodeJob) -> bytes | Failure | None:
        try:
            return self._work(job)
        except Expired:
            return None
        except TaskFailed as refused:
            return refused.failure
        except Exception as error:  # noqa: BLE001  (a defect of ours costs one node its answer, not the sweep its end)
            if (lacking := shortage(error)) is not None:
                return lacking if job.python is None else replace(lacking, stuck=None)
            return Failure(Stage.HEAD, f"unexpected {type(error).__name__} at {job.task.stage.value}: "
                                       f"{ascii(str(error))[:150]}")

    def _answer(self, job: NodeJob, body: bytes | None, failure: Failure | None) -> None:
        if self._complete(job, body, failure):
            self._fill()

    def _complete(self, job: NodeJob, body: bytes | None, failure: Failure | None) -> bool:
        with self._lock:
            if job.answered:
                return False
            job.answered = True
            self._jobs.discard(job)
            self._entering.discard(job)
            if self._limits.turns is not None:
                self._limits.turns.ends(job.node)
            reply = job.reply(body, failure)
            withheld = (self._limits.twice and not self._over and job.first is None
                        and reply.failure is not None and reply.failure.stuck is not None
                        and job.node.name not in self._once)
            if withheld:
                self._stuck.append((job.node, reply))
            all_tried = bool(self._stuck) and not self._over and not self._waiting and not self._jobs
        job.finish()
        if not withheld:
            self._done.put(reply)
        if all_tried:
            self._try_again()
        return True

    def _try_again(self) -> None:
        self._again()
        with self._lock:
            self._waiting.extend(self._stuck)
            self._stuck.clear()
        self._fill()

    def halt(self) -> None:
        """Fails every unfinished node."""
        self._abort_all("the run was stopped")

    def _abort_all(self, what: str) -> None:
        with self._lock:
            self._over = True
            waiting, jobs = [*self._waiting, *self._stuck], list(self._jobs)
            self._waiting.clear()
            self._stuck.clear()
        for job in jobs:
            job.cut = what
            now_at = job.task.overdue()
            # Where it waits for a jump host, nothing is known of the node.
            job.task.abort(
                Failure(Stage.JUMP, f"{now_at.reason}, when {what}", now_at.stuck)
                if now_at.stage is Stage.JUMP
                else Failure(Stage.DEADLINE, f"{what} while: {now_at.reason}", now_at.stuck))
        now = time.time()
        for node, first in waiting:
            if first is not None and (failure := first.failure) is not None:
                reason = one_line(f"{failure.reason}; {what} before a second try", _LONGEST_REASON)
                self._done.put(replace(first, failure=replace(failure, reason=reason)))
                continue
            reason = f"{what} before its turn; allow more time (--timeout) or more at once (--fanout)"
            self._done.put(Reply(node.name, None, Failure(Stage.TURN, reason), now, now, attempts=0))
