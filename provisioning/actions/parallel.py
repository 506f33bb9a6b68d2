"""Does many calls to a back end several at a time, and reports how far they are while they take long."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from provisioning.actions.base import ActionError, no_check

T = TypeVar("T")
WIDTH = 8           # calls at a time
EVERY_S = 5.0       # between two reports


def in_parallel(
    work: Mapping[str, Callable[[], T]], report: Callable[[str], None], what: str,
    before: Callable[[str], None] = no_check, every: float = EVERY_S,
) -> dict[str, T | ActionError]:
    """By name what each call gave, or the ActionError that it or its `before` raised; any other exception
    ends it all. `before` is called with its name just before each, in this thread. `report` gets a line that
    begins with `what` every so many seconds. An interrupt leaves at once: threads are daemons, and what was
    on its way may still be done."""
    todo: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    ended: queue.SimpleQueue[tuple[str, T | BaseException]] = queue.SimpleQueue()

    def serve() -> None:
        while (name := todo.get()) is not None:
            try:
                ended.put((name, work[name]()))
            except BaseException as error:  # noqa: BLE001  (raised again by whoever waits)
                ended.put((name, error))

    width = min(WIDTH, len(work))
    for _ in range(width):
        threading.Thread(target=serve, name="muster-call", daemon=True).start()
    found: dict[str, T | ActionError] = {}
    left, busy = iter(work), 0
    began = reported = time.monotonic()
    try:
        while len(found) < len(work):
            while busy < width and (next_one := next(left, None)) is not None:
                try:
                    before(next_one)
                except ActionError as error:
                    found[next_one] = error
                else:
                    todo.put(next_one)
                    busy += 1
            if not busy:
                continue
            try:
                name, given = ended.get(timeout=max(reported + every - time.monotonic(), 0.01))
            except queue.Empty:
                pass
            else:
                busy -= 1
                if isinstance(given, BaseException) and not isinstance(given, ActionError):
                    raise given
                found[name] = given
            if (now := time.monotonic()) >= reported + every and len(found) < len(work):
                reported = now
                report(f"{what}: {len(found)} of {len(work)} answered after {now - began:.0f} s")
    finally:
        for _ in range(width):
            todo.put(None)
    return {name: found[name] for name in work}
