"""Runs what would keep the server's thread in threads of its own, of which a hanging disk may keep some."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Beside:
    """Runs at most so many functions at a time, in daemon threads: the process can end while one hangs."""

    def __init__(self, most: int) -> None:
        self._most, self._running = most, 0

    @property
    def full(self) -> bool:
        """Whether none more may run now."""
        return self._running >= self._most

    async def run(self, function: Callable[[], T]) -> T:
        """What the function returns, or raises. For the event loop's thread."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()

        def done(outcome: _Outcome[T]) -> None:
            self._running -= 1
            if result.cancelled():
                return
            if outcome.error is not None:
                result.set_exception(outcome.error)
            else:
                result.set_result(outcome.value)  # type: ignore[arg-type]

        def work() -> None:
            try:
                outcome = _Outcome(function(), None)
            except Exception as error:  # noqa: BLE001  (raised again where it is awaited)
                outcome = _Outcome(None, error)
            with contextlib.suppress(RuntimeError):     # the loop has ended
                loop.call_soon_threadsafe(done, outcome)

        self._running += 1
        try:
            threading.Thread(target=work, daemon=True).start()
        except RuntimeError:        # no free thread
            self._running -= 1
            raise
        return await result


class _Outcome(Generic[T]):
    """A value or an error."""

    def __init__(self, value: T | None, error: Exception | None) -> None:
        self.value, self.error = value, error
