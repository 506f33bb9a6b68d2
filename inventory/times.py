"""Times and durations as pages show them. Imports nothing of ours: what prints begins with it."""

from __future__ import annotations

import datetime as dt


def ago(seconds: float) -> str:
    """A duration in one unit."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def day(seconds: float) -> str:
    """A day in UTC, of epoch seconds as all of these."""
    return _utc(seconds).strftime("%Y-%m-%d")


def minute(seconds: float) -> str:
    """A time in UTC as tickets and tables show it."""
    return _utc(seconds).strftime("%Y-%m-%dT%H:%MZ")


def second(seconds: float) -> str:
    """A time in UTC, to the second."""
    return _utc(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def iso(seconds: float) -> str:
    """A time in UTC as documents have it, to the second."""
    return _utc(seconds).isoformat(timespec="seconds")


def millisecond(seconds: float) -> str:
    """A time in UTC, to the millisecond."""
    return _utc(seconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _utc(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.timezone.utc)
