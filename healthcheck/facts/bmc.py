"""The node's management controller, read in band through ipmitool(1): its event log, how full the log is, and
its sensors.

The log is never cleared. (ipmitool itself rebuilds an empty sensor repository: lib/ipmi_sdr.c.) Formats:
ipmitool's lib/ipmi_sel.c (`id | date | time | sensor | event | direction`, `Pre-Init` and a counter for what
happened before the controller knew the time, OEM records shorter) and lib/ipmi_sdr.c (`name | number | status
| entity | reading`; status ok, ns, and nc, cr, nr with l or u in front).
"""

from __future__ import annotations

import re
from calendar import monthrange, timegm
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Outcome
from inventory.text import clean

# A controller returns a record in some milliseconds, so only the newest are read.
LOG = Probe("bmc.log", ProbeKind.COMMAND, argv=("ipmitool", "sel", "elist", "last", "100"), seconds=15.0,
            root=True)
LOG_INFO = Probe("bmc.log-info", ProbeKind.COMMAND, argv=("ipmitool", "sel", "info"), seconds=8.0, root=True)
SENSORS = Probe("bmc.sensors", ProbeKind.COMMAND, argv=("ipmitool", "sdr", "elist", "full"), seconds=15.0,
                root=True)

_ABSENT = re.compile(r"Could not open device at /dev/ipmi\S*( or /dev/ipmi\S*)*.*: No such file or directory")
# Month first, of two digits or four the year; newer versions write 2026-11-20, and add a time zone, which is
# left aside.
_DATE = re.compile(r"(?P<m>\d\d)/(?P<d>\d\d)/(?P<y>\d{4}|\d\d)|(?P<y2>\d{4})-(?P<m2>\d\d)-(?P<d2>\d\d)",
                   re.ASCII)
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d):([0-5]\d)\b.*", re.ASCII)
_PERCENT = re.compile(r"^Percent Used\s*: ([0-9]{1,3})%$", re.MULTILINE)
_ROW = re.compile(r"[0-9a-fA-F]{1,4}")
_REDUNDANCY = re.compile(r"redundan", re.IGNORECASE)
_STATUS = re.compile(r"ok|ns|us|na|[lu]?(?:nc|cr|nr)|disabled", re.IGNORECASE)


@dataclass(frozen=True)
class BmcEvent:
    """An event that was asserted and not deasserted since. `time` is epoch seconds by the controller's clock,
    None before the clock was set; `when` is the same for people."""

    sensor: str
    text: str
    time: float | None
    when: str

    @property
    def description(self) -> str:
        """The event and its day, for people."""
        return f"{self.text} ({self.when})"


class BmcLog(Fact):
    """The last events of the controller's log that still hold. `now` is the node's clock. UNSUPPORTED without
    ipmitool or a controller."""

    name: str
    events: tuple[BmcEvent, ...]
    now: float


class BmcLogUse(Fact):
    """How full the log is, in per cent. UNSUPPORTED as for the log, or where the controller does not say."""

    name: str
    used_percent: int


@dataclass(frozen=True)
class BmcSensor:
    """One sensor: its state in ipmitool's word, and what it reads."""

    name: str
    state: str
    reading: str

    @property
    def critical(self) -> bool:
        """Beyond its critical threshold, or the one after."""
        return self.state.endswith(("cr", "nr"))


class BmcSensors(Fact):
    """The sensors that have thresholds. UNSUPPORTED as for the log."""

    name: str
    sensors: tuple[BmcSensor, ...]


def _there(captures: Captures, probe: Probe) -> bool:
    """Whether the node has ipmitool and a controller."""
    capture = captures.capture(probe)
    if capture is None:
        return True
    if capture.outcome is Outcome.MISSING:
        return False
    return not (capture.outcome is Outcome.DONE and capture.exit and _ABSENT.search(capture.stderr))


def _time(date: str, clock: str) -> tuple[float | None, str]:
    day, at = _DATE.fullmatch(date), _CLOCK.fullmatch(clock)
    if day is None or at is None:
        return None, "undated"
    year, month, number = (int(day[name] or day[name + "2"]) for name in "ymd")
    year += 2000 if year < 100 else 0
    if not (year >= 1970 and 1 <= month <= 12 and 1 <= number <= monthrange(year, month)[1]):
        return None, "undated"
    seconds = timegm((year, month, number, int(at[1]), int(at[2]), int(at[3])))
    return float(seconds), f"{year}-{month:02}-{number:02} {at[1]}:{at[2]}"


def events(text: str) -> tuple[BmcEvent, ...]:
    """The events that were asserted and not deasserted later; raises ValueError for a line that is no record.
    Of a redundancy ("Redundancy Lost", "Fully Redundant") the newest counts, as one of its states ends the
    others (IPMI 2.0, table 42-2, type 0Bh), and some controllers deassert none.

    OEM records are left out: their meaning is not documented.
    """
    held: dict[tuple[str, str], BmcEvent] = {}
    for line in text.splitlines():
        columns = [column.strip() for column in line.split("|")]
        if not line.strip() or line.startswith("SEL has no entries"):
            continue
        if len(columns) < 3 or _ROW.fullmatch(columns[0]) is None:
            raise ValueError(line)
        if len(columns) < 6 or columns[3].startswith("OEM record"):
            continue
        key = columns[3], columns[4]
        held.pop(key, None)
        if columns[5] != "Deasserted" and _REDUNDANCY.search(columns[4]):
            held = {other: event for other, event in held.items()
                    if other[0] != columns[3] or not _REDUNDANCY.search(other[1])}
        if columns[5] != "Deasserted":
            held[key] = BmcEvent(clean(columns[3], 60), clean(columns[4], 80), *_time(columns[1], columns[2]))
    return tuple(held.values())


def records(text: str) -> int:
    """How many records a log of `sel elist` has."""
    return sum(_ROW.fullmatch(line.partition("|")[0].strip()) is not None for line in text.splitlines())


def oldest_record(text: str) -> float | None:
    """When the first record that has a date was made, in epoch seconds; None where none has."""
    for line in text.splitlines():
        columns = [column.strip() for column in line.split("|")]
        if len(columns) >= 3 and (found := _time(columns[1], columns[2])[0]) is not None:
            return found
    return None


def sensors(text: str) -> tuple[BmcSensor, ...]:
    """The sensors of `sdr elist`; raises ValueError for a line that is none, or for no sensor at all."""
    found = tuple(map(_sensor, text.splitlines()))
    if not found:
        raise ValueError("no sensor")
    return found


def _sensor(line: str) -> BmcSensor:
    columns = [column.strip() for column in line.split("|")]
    if len(columns) != 5 or _STATUS.fullmatch(columns[2]) is None:
        raise ValueError(line)
    return BmcSensor(clean(columns[0], 40), columns[2].lower(), clean(columns[4], 40))


def _parsed(captures: Captures, probe: Probe, parse: Any, what: str) -> Any:
    if not _there(captures, probe):
        return UNSUPPORTED
    text = captures.text(probe)
    try:
        return parse(text)
    except ValueError:
        raise Unread(f"ipmitool's {what} is not in its format") from None


@fact("bmc_log", LOG, of_snapshot=True)
def bmc_log(captures: Captures) -> BmcLog:
    """The controller's last 100 events, without those that were deasserted."""
    return BmcLog("BMC", events=_parsed(captures, LOG, events, "event log"), now=captures.host.time)


@fact("bmc_log_use", LOG_INFO)
def bmc_log_use(captures: Captures) -> BmcLogUse:
    """`Percent Used` of `sel info`."""
    def percent(text: str) -> Any:
        match = _PERCENT.search(text)
        return int(match[1]) if match else Unmeasured("ipmitool sel info gives no Percent Used")
    return BmcLogUse("BMC", used_percent=_parsed(captures, LOG_INFO, percent, "log information"))


@fact("bmc_sensors", SENSORS)
def bmc_sensors(captures: Captures) -> BmcSensors:
    """The sensors and their states."""
    return BmcSensors("BMC", sensors=_parsed(captures, SENSORS, sensors, "list of sensors"))
