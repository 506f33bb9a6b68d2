"""Runs one piece of work per node, a bounded number at a time,
and yields each reply on time even if the work hangs.

Work runs in daemon threads, because a thread in getaddrinfo(3) or on a dead mount cannot be interrupted. When
its time is over, the node gets a failure, its connections are closed, and the next node takes its place.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from inventory.model import Node
from inventory.transport.base import Failure, Limits, Reply, Stage
from inventory.transport.session import one_line
from inventory.transport.switchinterval import longer_switch_interval

_LONGEST_REASON = 1500

Overdue: TypeAlias = "Callable[[float], Failure]"


class TaskFailed(Exception):
    """Work ends here, with this failure."""

    def __init__(self, stage: Stage, reason: str) -> None:
        super().__init__(reason)
        self.failure = Failure(stage, reason)


class Expired(Exception):
    """The task's time is over and its reply is sent; the work only has to stop."""


class WatchedTask:
    """One piece of work with a deadline (`end`, by time.monotonic) and, within it,
    one step after another, each with a limit.

    When a step is overdue, the watchdog aborts the task:
    sets `failure` and calls everything given to `on_abort`.
    """

    def __init__(self, watch: Watchdog, end: float, answer: Callable[[Failure], None] | None = None) -> None:
        self.end = end
        self.until = end
        self.failure: Failure | None = None
        self._watch = watch
        self._answer = answer
        self._since = time.monotonic()
        self._overdue: Overdue = lambda seconds: Failure(Stage.DEADLINE,
                                                         f"not finished after {seconds:.3g} s")
        self._before: Failure | None = None
        self._closers: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def step(self, seconds: float, overdue: Overdue) -> None:
        """From now until `seconds` have passed, or the task's end;
        then `overdue(seconds waited)` says what failed. Raises Expired."""
        self._since = time.monotonic()
        self._overdue = overdue
        self.until = min(self._since + seconds, self.end)
        self._watch.sooner(self.until)
        self.check()

    def check(self) -> None:
        """Raises Expired when the task has been aborted."""
        if self.failure is not None:
            raise Expired

    def left(self) -> float:
        """Seconds left of the current step, never negative."""
        return max(0.0, self.until - time.monotonic())

    def on_abort(self, close: Callable[[], None]) -> None:
        """`close` must return at once; it is called when the task is aborted, or now if it has been.
        Raises Expired then."""
        with self._lock:
            if self.failure is None:
                self._closers.append(close)
                return
        close()
        raise Expired

    def again(self, failure: Failure) -> None:
        """Restarts the work after `failure`, which stays the answer when the task's end cuts the new attempt
        short on its way to the node: the rest of the time says nothing about how long a resolver or a
        connection takes. Raises Expired."""
        self._before = failure
        self.step(self.end - time.monotonic(), lambda _: failure)

    def overdue(self) -> Failure:
        """The failure of the current step if its time were over now."""
        failure = self._overdue(time.monotonic() - self._since)
        cut = self.until >= self.end and failure.stage in (Stage.RESOLVE, Stage.CONNECT)
        return self._before if self._before is not None and cut else failure

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
    """One node's work in progress: its task, and what its reply contains besides the outcome."""

    def __init__(
        self, node: Node, watch: Watchdog, end: float,
        answer: Callable[[NodeJob, bytes | None, Failure | None], None],
    ) -> None:
        self.node = node
        self.started = time.time()
        self.attempts = 0
        self.sent = 0
        self.received = 0
        self.python: str | None = None
        self.answered = False
        self.task = WatchedTask(watch, end, lambda failure: answer(self, None, failure))
        watch.add(self.task)

    def reply(self, body: bytes | None, failure: Failure | None) -> Reply:
        if failure is not None:
            # A reason may quote a node, a file or a name: clean it before it reaches a terminal.
            failure = Failure(failure.stage, one_line(failure.reason, _LONGEST_REASON))
        return Reply(self.node.name, body, failure, self.started, time.time(), sent_bytes=self.sent,
                     received_bytes=self.received, attempts=max(1, self.attempts), python=self.python)


Work: TypeAlias = Callable[[NodeJob], "bytes | Failure"]


def fan_out(nodes: Iterable[Node], limits: Limits, work: Work, watch: Watchdog) -> Iterator[Reply]:
    """Yields one reply per node as each is known, all by `limits.sweep_s`. Closing
    the iterator aborts the work in progress.

    `watch` is stopped at the end. An unexpected exception in `work` becomes that node's failure,
    not the sweep's.
    """
    workers = _Workers(nodes, limits, work, watch)
    if limits.halt is not None:
        limits.halt.follow(workers.halt)
    try:
        with longer_switch_interval():
            yield from workers.replies()
    finally:
        workers.stop()


class _Workers:
    def __init__(self, nodes: Iterable[Node], limits: Limits, work: Work, watch: Watchdog) -> None:
        self._waiting = deque(nodes)
        self._total = len(self._waiting)
        self._limits = limits
        self._work = work
        self._watch = watch
        self._end = time.monotonic() + limits.sweep_s
        self._done: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self._jobs: set[NodeJob] = set()
        self._lock = threading.Lock()
        self._over = False

    def replies(self) -> Iterator[Reply]:
        sweep = WatchedTask(self._watch, self._end,
                            lambda _: self._abort_all(f"the sweep's {self._limits.sweep_s:g} s were over"))
        self._watch.add(sweep)
        for _ in range(min(self._limits.fanout, self._total)):
            self._next()
        for _ in range(self._total):
            yield self._done.get()
        sweep.finish()

    def stop(self) -> None:
        with self._lock:
            self._over = True
            self._waiting.clear()
        self._watch.stop(Failure(Stage.DEADLINE, "interrupted"))

    def _next(self) -> None:
        while (job := self._take()) is not None:
            try:
                threading.Thread(target=self._run, args=(job,), name=f"muster-{job.node.name}",
                                 daemon=True).start()
            except RuntimeError:
                self._complete(job, None,
                               Failure(Stage.CONNECT, "this machine cannot start another thread (ulimit "
                                                      "-u?); try a smaller --fanout"))
            else:
                return

    def _take(self) -> NodeJob | None:
        with self._lock:
            if self._over or not self._waiting:
                return None
            job = NodeJob(self._waiting.popleft(), self._watch, time.monotonic() + self._limits.node_s,
                          self._answer)
            self._jobs.add(job)
            return job

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
            return Failure(job.task.overdue().stage,
                           f"unexpected {type(error).__name__}: {ascii(str(error))[:150]}")

    def _answer(self, job: NodeJob, body: bytes | None, failure: Failure | None) -> None:
        if self._complete(job, body, failure):
            self._next()

    def _complete(self, job: NodeJob, body: bytes | None, failure: Failure | None) -> bool:
        with self._lock:
            if job.answered:
                return False
            job.answered = True
            self._jobs.discard(job)
        job.task.finish()
        self._done.put(job.reply(body, failure))
        return True

    def halt(self) -> None:
        """Fails every unfinished node."""
        self._abort_all("the run was stopped")

    def _abort_all(self, what: str) -> None:
        with self._lock:
            self._over = True
            waiting, jobs = list(self._waiting), list(self._jobs)
            self._waiting.clear()
        for job in jobs:
            now_at = job.task.overdue()
            # It waits for a jump host, and nothing is known of the node.
            job.task.abort(Failure(Stage.JUMP, f"{now_at.reason}, when {what}") if now_at.stage is Stage.JUMP
                           else Failure(Stage.DEADLINE, f"{what} while: {now_at.reason}"))
        now = time.time()
        for node in waiting:
            reason = f"{what} before its turn; allow more time (--timeout) or more at once (--fanout)"
            self._done.put(Reply(node.name, None, Failure(Stage.TURN, reason), now, now, attempts=0))
