"""Shows on a terminal how far the search among hashed host names is, if it takes long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from inventory.text import clean

_QUIET_S = 1.0      # most searches are over sooner
_EACH_S = 0.5


def on_terminal(file: str, names: int) -> Callable[[int, int], None] | None:
    """Shows how many of a file's hashed lines were tried with so many names; None without a terminal."""
    if not sys.stderr.isatty():
        return None
    due, shown = time.monotonic() + _QUIET_S, False

    def progress(done: int, total: int) -> None:
        nonlocal due, shown
        if time.monotonic() >= due:
            due, shown = time.monotonic() + _EACH_S, True
            _show(f"\rmuster: {done} of {total} hashed lines of {clean(file)} tried with {names} names")
        if shown and done == total:
            _show("\r\x1b[K")

    return progress


def _show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
