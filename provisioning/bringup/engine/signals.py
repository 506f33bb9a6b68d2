"""Ctrl-C, SIGTERM and a closed terminal: the first signal asks the run to end, the second ends it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_signals(tell: Callable[[], None]) -> Iterator[None]:
    """The first of these signals calls `tell`, the second is KeyboardInterrupt; in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = 0

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal before
        before += 1
        if before > 1:
            raise KeyboardInterrupt
        tell()

    # Under nohup a hang-up is to be ignored, and stays so.
    kept = {
        number: signal.getsignal(number) for number in _ENDS if signal.getsignal(number) is not signal.SIG_IGN
    }
    for number in kept:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in kept.items():
            signal.signal(number, old)
