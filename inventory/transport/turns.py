"""How long the threads of a sweep let each other have the interpreter before one that waits asks for it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 0.02


class _Turns:
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


_TURNS = _Turns()


@contextmanager
def long_turns() -> Iterator[None]:
    """Meanwhile a thread that waits for the interpreter wakes up to ask for it every 20 ms; by default it does so every 5 ms.

    On a busy machine the thread that has it may be off its core for longer than that, and dozens of others wake again and again in vain.
    """
    _TURNS.begin()
    try:
        yield
    finally:
        _TURNS.end()
