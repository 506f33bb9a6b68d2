"""Times of kernel lines in the words of findings, by the clock: seconds after boot are no one's clock, and an
age is true only while it is new. Pure."""

from __future__ import annotations

import re

from healthcheck.model.outcome import LogEvidence, LogView
from inventory.times import minute

_SPAN = r"\d{1,9} (?:s|min|h|d)"
_TIMES = re.compile(
    rf"\b{_SPAN} after boot(?:, ({_SPAN} ago))?(?:( and the last ){_SPAN} after boot(?:, ({_SPAN} ago))?)?")
_LONGEST_UP = 10 * 366 * 86400.0     # seconds since a line, beyond which a node's clock is no clock


def by_clock(
    text: str, log: LogView | None, evidence: LogEvidence | None, now: float | None, *, ages: bool,
) -> str:
    """The text of a finding with the times of its first and last line by the clock; `now` is when the
    snapshot was taken (epoch seconds). With `ages` also how long ago that was then, which is all that is left
    where the clock is not known. Without them a time that is not known stays as it is."""
    match = _TIMES.search(text)
    if match is None:
        return text
    age, several, last_age = match.groups()
    clocks = [_clock(seconds, log, now) for seconds in (
        (evidence.first, evidence.last) if evidence is not None else (None, None))]
    shown = [", ".join(part for part in (clock, when if ages else "") if part)
             for clock, when in zip(clocks, (age, last_age), strict=True)]
    if not shown[0] or (several and not shown[1]):
        return text
    return f"{text[:match.start()]}{several.join(shown) if several else shown[0]}{text[match.end():]}"


def _clock(seconds: float | None, log: LogView | None, now: float | None) -> str:
    if seconds is None or log is None or now is None or not 0 <= log.now - seconds < _LONGEST_UP:
        return ""
    return minute(now - (log.now - seconds))
