"""Retries when a server drops a connection before the login, as sshd's MaxStartups does under load."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from inventory.transport.base import Failure
from inventory.transport.watch import NodeJob, TaskFailed, WatchedTask
from inventory.transport.wire import ConnectionDropped

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
# Against sshd's default of 10:30:100 with 64 at once, 9 tries were the most that any
# of 2048 logins needed; this is about 20.
RETRY_SECONDS = 30.0

T = TypeVar("T")


def with_retries(task: WatchedTask, attempt: Callable[[], T], job: NodeJob | None = None) -> T:
    """What `attempt` returns; retries after growing pauses while it raises ConnectionDropped, once or for
    30 s, until the task's end at most. Raises TaskFailed then, Expired, and what else `attempt` raises."""
    end = min(task.end, time.monotonic() + RETRY_SECONDS)
    tried = 0
    while True:
        tried += 1
        if job is not None:
            job.attempts = tried
        try:
            return attempt()
        except ConnectionDropped as dropped:
            task.check()
            pause = min(FIRST_PAUSE * 2 ** min(tried - 1, 10), LONGEST_PAUSE) * random.uniform(0.5, 1.5)  # noqa: S311  (jitter)
            reason = f"{dropped.reason}; tried {tried} times"
            # A second try there is in any case: to look at slow jump hosts may take longer than all others.
            if time.monotonic() + pause > (task.end if tried == 1 else end):
                raise TaskFailed(dropped.stage, reason, stuck=dropped.stage) from None
            task.again(Failure(dropped.stage, reason, dropped.stage), pause)
            time.sleep(pause)
