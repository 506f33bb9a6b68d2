"""Times and durations as tables and pages show them. It imports nothing of ours: what prints a page begins
with it."""

from __future__ import annotations

import datetime as dt


def ago(seconds: float) -> str:
    """A duration in one unit."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def utc(seconds: float) -> str:
    """A time as tickets and tables show it, to the minute."""
    return dt.datetime.fromtimestamp(seconds, dt.timezone.utc).strftime("%Y-%m-%dT%H:%MZ")
