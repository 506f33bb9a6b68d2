"""Raises the interpreter's thread switch interval during sweeps."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 0.02


class _SwitchInterval:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sweeps = 0
        self._before = 0.0

    def begin(self) -> None:
        with self._lock:
            if not self._sweeps:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(max(self._before, SECONDS))
            self._sweeps += 1

    def end(self) -> None:
        with self._lock:
            self._sweeps -= 1
            if not self._sweeps:
                sys.setswitchinterval(self._before)


_INTERVAL = _SwitchInterval()


@contextmanager
def longer_switch_interval() -> Iterator[None]:
    """Meanwhile a waiting thread asks for the interpreter every 20 ms, not 5: on a busy machine its holder
    may be off its core for longer, and dozens would wake in vain."""
    _INTERVAL.begin()
    try:
        yield
    finally:
        _INTERVAL.end()
