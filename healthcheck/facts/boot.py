"""The boot before this one, as looks at the node tell: read from no machine, handed in by the sweep.

Each look that is kept in the state folder carries one more capture, KEPT, which says what the node was meant for then, and when the
boot before it was last seen. So a reboot is still known when the look that first met it has been replaced by newer ones, and a
saved sweep holds what its replay needs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from healthcheck.facts.values import Fact, Unmeasured
from healthcheck.model.recording import Capture, Outcome, Recording
from inventory.model import LifecycleState
from inventory.text import clean

EARLIER_BOOT = "earlier_boot"
BOOT_CAPTURE = "muster.boots"
_IN_SERVICE = LifecycleState.SERVICE.value


class EarlierBoot(Fact):
    """What is known of the node's boot before this one. Times are epoch seconds by the head's clock.

    `known` says that there was an earlier look at all. `looked` is the last look in the boot before this one, 0 where every look that is
    known was in this boot; `now` is the present look. `out` is the lifecycle's word where the node was out of service at the last look
    before the reboot or at one after it ("maintenance"), empty where it was in service at all of them.
    """

    name: str
    known: bool
    looked: float
    now: float
    out: str


@dataclass(frozen=True)
class _Kept:
    """The members of the capture KEPT: lifecycle and time of the newest look, and of the boot before this one what the fact holds."""

    state: str = _IN_SERVICE
    last: float = 0.0
    looked: float = 0.0
    out: str = ""


def boot_capture(recording: Recording, previous: Recording | None, state: LifecycleState) -> Capture:
    """What this look is to be kept with: what the earlier look told, and what this one adds."""
    found = _since(recording, previous, state)
    text = json.dumps({"state": state.value, "last": recording.received, "looked": found.looked, "out": found.out})
    return Capture(Outcome.DONE, bytes=len(text), text=text)


def earlier_boot(recording: Recording, previous: Recording | None, state: LifecycleState) -> Any:
    """The fact, of a node that was reached. `previous` is the newest look before this one, of whatever boot."""
    if recording.host is None or not recording.host.boot_id:
        return Unmeasured("the node says no boot_id")
    found = _since(recording, previous, state)
    return EarlierBoot("node", previous is not None and previous.host is not None, found.looked, recording.received, found.out)


def _since(recording: Recording, previous: Recording | None, state: LifecycleState) -> _Kept:
    """The boot before this one, with the present look's lifecycle taken in."""
    known = _Kept()
    if previous is not None and previous.host is not None and recording.host is not None:
        known = _read(previous.captures.get(BOOT_CAPTURE))
        if previous.host.boot_id != recording.host.boot_id and previous.host.boot_id:
            out = "" if known.state == _IN_SERVICE else known.state
            known = replace(known, looked=known.last or previous.received, out=out)
    if known.looked and not known.out and state is not LifecycleState.SERVICE:
        known = replace(known, out=state.value)
    return known


def _read(capture: Capture | None) -> _Kept:
    """A look that was kept without these words, or with others, is one of a node in service of which no earlier boot is known."""
    if capture is None:
        return _Kept()
    try:
        document = json.loads(capture.text)
        return _Kept(_word(document["state"]), _time(document["last"]), _time(document["looked"]), _word(document["out"]))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return _Kept()


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return clean(value, 40)


def _time(value: object) -> float:
    """Up to the year 9999."""
    if not isinstance(value, (int, float)) or not 0 <= value < 253_402_300_800:
        raise ValueError
    return float(value)


def utc(seconds: float) -> str:
    """Epoch seconds as UTC to the minute, "2026-11-21T06:00Z": by arithmetic, for nothing here may ask a clock.

    Days are made into a date by H. Hinnant's civil_from_days, in which a year begins in March.
    """
    minutes = int(seconds // 60)
    days, minute = minutes // 1440 + 719_468, minutes % 1440
    era, of_era = days // 146_097, days % 146_097
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    late = month >= 10
    return f"{year + era * 400 + late:04d}-{month - 9 if late else month + 3:02d}-{day:02d}T{minute // 60:02d}:{minute % 60:02d}Z"
