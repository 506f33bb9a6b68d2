"""Parses times as logs print them: seconds since boot, since the line before, or of a wall clock."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from functools import lru_cache

Clock = Callable[[str], float | None]

_MONTHS = {name: number for number, name in enumerate(
    ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1,
)}
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))? ?(?:([+-])(\d\d):?(\d\d))?", re.ASCII)
_NAMED = re.compile(r"([A-Z][a-z]{2}) {0,2}(\d{1,2}) (\d\d):(\d\d)(?::(\d\d))?(?:\.(\d{1,9}))?(?: (\d{4}))?$",
                    re.ASCII)
_NO_YEAR = 2000     # for stamps without one; a leap year, so that each day exists
_YEAR = 366 * 86400.0


def since_boot(stamp: str) -> float | None:
    """A number of seconds."""
    return float(stamp)


@lru_cache(maxsize=2048)
def wall(stamp: str) -> float | None:
    """Seconds of a wall clock, or None for an invalid time. Zones without a number count as UTC."""
    try:
        if found := _ISO.search(stamp):
            year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
            east = (int(found[9]) * 60 + int(found[10])) * (-60 if found[8] == "-" else 60) if found[8] else 0
            whole = year, month, day, hour, minute, second
            return calendar.timegm(whole) - east + float(f"0.{found[7] or 0}")
        if found := _NAMED.search(stamp):
            whole = (int(found[7] or _NO_YEAR), _MONTHS[found[1]], int(found[2]), int(found[3]),
                     int(found[4]), int(found[5] or 0))
            return calendar.timegm(whole) + float(f"0.{found[6] or 0}")
        return float(stamp)
    except (ValueError, KeyError, OverflowError):
        return None


class WallClock:
    """A wall clock read in order: without a year, December is followed by January."""

    def __init__(self) -> None:
        self._years = 0.0
        self._last: float | None = None

    def __call__(self, stamp: str) -> float | None:
        at = wall(stamp)
        if at is None:
            return None
        if self._last is not None and at + self._years < self._last - _YEAR / 2 and stamp[:1].isalpha():
            self._years += _YEAR
        self._last = at + self._years
        return self._last


class DeltaClock:
    """`dmesg --time-format delta` and `reltime`: seconds since the line before, added up. reltime prints the
    clock instead when its minute has changed; from there seconds are good to a minute."""

    def __init__(self) -> None:
        self._at = 0.0
        self._first: float | None = None

    def __call__(self, stamp: str) -> float | None:
        if ":" not in stamp:
            self._at += max(float(stamp), 0.0)
            return self._at
        clock = wall(stamp)
        if clock is not None:
            if self._first is None:
                self._first = clock - self._at
            if clock < self._first - _YEAR / 2:
                self._first -= _YEAR
            self._at = max(self._at, clock - self._first)
        return self._at
