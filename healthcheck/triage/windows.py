"""Change windows: times in which nothing is isolated but for the worst faults, once or every week. Pure:
what time it is, is given."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WEEKLY = re.compile(r"([A-Z][a-z]{2}) ([01][0-9]|2[0-3]):([0-5][0-9]) ([A-Za-z][A-Za-z0-9_+/-]{0,59})")
_ONCE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True)
class Weekly:
    """A time of the week in a named timezone; `day` 0 is Monday."""

    day: int
    hour: int
    minute: int
    zone: str

    def __str__(self) -> str:
        return f"{_DAYS[self.day]} {self.hour:02}:{self.minute:02} {self.zone}"

    @property
    def of_week(self) -> tuple[int, int, int]:
        """Its place in the week."""
        return self.day, self.hour, self.minute

    def near(self, time: float, weeks: int) -> float:
        """The one so many weeks after that of the week in which `time` is, by the clocks of the zone."""
        zone = ZoneInfo(self.zone)
        local = dt.datetime.fromtimestamp(time, zone)
        day = local.date() + dt.timedelta(days=self.day - local.weekday() + 7 * weeks)
        return dt.datetime.combine(day, dt.time(self.hour, self.minute), zone).timestamp()


@dataclass(frozen=True)
class ChangeWindow:
    """From then until then: both one time (epoch seconds), or both weekly, in one timezone. `but` are the
    faults that isolate all the same."""

    begins: float | Weekly
    ends: float | Weekly
    why: str
    but: frozenset[str]

    def until(self, now: float) -> float | None:
        """When the window ends in which `now` is; None where it is in none."""
        if isinstance(self.begins, Weekly) and isinstance(self.ends, Weekly):
            later = self.ends.of_week <= self.begins.of_week
            # By the clocks of the zone: an hour that a clock leaves out in spring makes a window shorter,
            # and never a week longer.
            spans = ((self.begins.near(now, week), self.ends.near(now, week + later)) for week in (0, -1))
            return next((ends for began, ends in spans if began <= now < ends), None)
        if isinstance(self.begins, Weekly) or isinstance(self.ends, Weekly):
            return None
        return self.ends if self.begins <= now < self.ends else None


def moment(text: str) -> float | Weekly:
    """A time in a policy: 2026-11-28T22:00Z (or with an offset), or Sat 22:00 Europe/Berlin.
    Raises ValueError."""
    if (found := _WEEKLY.fullmatch(text)) is not None and found[1] in _DAYS:
        try:
            ZoneInfo(found[4])
        except (ZoneInfoNotFoundError, OSError):
            raise ValueError(f"no such timezone: {found[4]}") from None
        return Weekly(_DAYS.index(found[1]), int(found[2]), int(found[3]), found[4])
    if _ONCE.fullmatch(text) is None:
        raise ValueError(text)
    return dt.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
