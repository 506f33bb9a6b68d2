"""A time span on the command line: 30, 30s, 5m, 2h, 14d, 2w; and a past moment."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable

import click

from inventory.errors import UsageError
from inventory.text import short

_SPAN = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(s|m|h|d|w)?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def span(least: float, most: float) -> Callable[[click.Context, click.Parameter, str | None], float | None]:
    """A callback for a click option: seconds between bounds (in seconds), or what was expected."""

    def seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
        if value is None:
            return None
        match = _SPAN.fullmatch(value)
        if match is None:
            raise click.BadParameter(f"{value!r} is not a time span, expected one such as 30s, 5m or 2h",
                                     ctx, param)
        found = float(match[1]) * _SECONDS[match[2] or "s"]
        if not least <= found <= most:
            raise click.BadParameter(
                f"{value!r} is out of bounds, expected {_spelt(least)} to {_spelt(most)}", ctx, param)
        return found

    return seconds


def moment(value: str, option: str, now: float) -> float:
    """Epoch seconds of a past time: 2026-11-27T09:55Z, or how long ago: 2h, 3d. Raises UsageError."""
    if (match := _SPAN.fullmatch(value)) is not None:
        return now - float(match[1]) * _SECONDS[match[2] or "s"]
    try:
        found = dt.datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise UsageError(f"{option}: {short(value)} is no time, expected one such as 2026-11-27T09:55Z, or "
                         "how long ago: 2h, 3d")
    if found.timestamp() > now:
        raise UsageError(f"{option}: {short(value)} is in the future")
    return found.timestamp()


def _spelt(seconds: float) -> str:
    """As typed, in the largest unit that gives a whole number."""
    unit, size = next(((unit, size) for unit, size in reversed(_SECONDS.items()) if seconds % size == 0
                       and unit != "w"), ("s", 1))
    return f"{seconds / size:g}{unit}"
