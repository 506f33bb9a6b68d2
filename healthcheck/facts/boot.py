"""The boot before this one, from earlier snapshots of the node. The sweep passes it in; no machine is read
for it.

Each snapshot in the state folder has one more capture, BOOT_CAPTURE: the node's lifecycle at that time, and
when its previous boot was last seen. So a reboot stays known after newer snapshots have replaced the one that
first saw it, and a saved sweep holds what its replay needs.
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
    """The node's boot before this one. Times are epoch seconds by the head's clock.

    `known`: there is an earlier snapshot. `looked` is the time of the last snapshot in the boot before this
    one, 0 where all known snapshots are of this boot; `now` is that of the present one. `out` is the
    lifecycle ("maintenance") where the node was out of service at the last snapshot before the reboot or at
    one after it, else empty.
    """

    name: str
    known: bool
    looked: float
    now: float
    out: str


@dataclass(frozen=True)
class _Kept:
    """The members of BOOT_CAPTURE: lifecycle and time of the newest snapshot, and the fact's `looked` and
    `out`."""

    state: str = _IN_SERVICE
    last: float = 0.0
    looked: float = 0.0
    out: str = ""


def boot_capture(recording: Recording, previous: Recording | None, state: LifecycleState) -> Capture:
    """The capture that is stored with this snapshot: what the earlier snapshot had, updated by this one."""
    found = _since(recording, previous, state)
    text = json.dumps({"state": state.value, "last": recording.received, "looked": found.looked,
                       "out": found.out})
    return Capture(Outcome.DONE, bytes=len(text), text=text)


def earlier_boot(recording: Recording, previous: Recording | None, state: LifecycleState) -> Any:
    """The fact for a reached node. `previous` is the newest snapshot before this one, of any boot."""
    if recording.host is None or not recording.host.boot_id:
        return Unmeasured("the node reports no boot_id")
    found = _since(recording, previous, state)
    return EarlierBoot("node", previous is not None and previous.host is not None, found.looked,
                       recording.received, found.out)


def _since(recording: Recording, previous: Recording | None, state: LifecycleState) -> _Kept:
    """The boot before this one, updated by the present snapshot's lifecycle."""
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
    """A missing or damaged capture counts as a node in service without a known earlier boot."""
    if capture is None:
        return _Kept()
    try:
        document = json.loads(capture.text)
        return _Kept(_word(document["state"]), _time(document["last"]), _time(document["looked"]),
                     _word(document["out"]))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return _Kept()


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return clean(value, 40)


def _time(value: Any) -> float:
    """Up to the year 9999."""
    if not 0 <= value < 253_402_300_800:
        raise ValueError
    return float(value)


def utc(seconds: float) -> str:
    """Epoch seconds as UTC to the minute, "2026-11-21T06:00Z", without a clock module.

    H. Hinnant's civil_from_days makes days a date; its year begins in March.
    """
    minutes = int(seconds // 60)
    days, minute = minutes // 1440 + 719_468, minutes % 1440
    era, of_era = days // 146_097, days % 146_097
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    year, month = (year + era * 400 + 1, month - 9) if month >= 10 else (year + era * 400, month + 3)
    return f"{year:04d}-{month:02d}-{day:02d}T{minute // 60:02d}:{minute % 60:02d}Z"
