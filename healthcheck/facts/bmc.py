"""What the node's own management controller says in band, through ipmitool(1): its event log, how full that is, and its sensors.

Nothing is ever cleared or written. Forms: ipmitool's lib/ipmi_sel.c (`id | date | time | sensor | event | direction`, `Pre-Init` and a
counter for what happened before the controller knew the time, OEM records shorter) and lib/ipmi_sdr.c (`name | number | status | entity |
reading`; status ok, ns, and nc, cr, nr with l or u in front).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from healthcheck.facts.base import UNSUPPORTED, Captures, Fact, Unmeasured, Unread, fact
from healthcheck.probes import Kind, Probe
from healthcheck.recording import Outcome
from inventory.text import clean

# A controller answers a record in some milliseconds: the last ones are what is new.
LOG = Probe("bmc.log", Kind.COMMAND, argv=("ipmitool", "sel", "elist", "last", "100"), seconds=15.0, root=True)
LOG_INFO = Probe("bmc.log-info", Kind.COMMAND, argv=("ipmitool", "sel", "info"), seconds=8.0, root=True)
SENSORS = Probe("bmc.sensors", Kind.COMMAND, argv=("ipmitool", "sdr", "elist", "full"), seconds=15.0, root=True)

_ABSENT = re.compile(r"Could not open device at /dev/ipmi\S*( or /dev/ipmi\S*)*.*: No such file or directory")
_DATES = ("%m/%d/%Y %H:%M:%S", "%m/%d/%y %H:%M:%S", "%Y-%m-%d %H:%M:%S")
_PERCENT = re.compile(r"^Percent Used\s*: (\d{1,3})%$", re.MULTILINE)
_ROW = re.compile(r"[0-9a-fA-F]{1,4}")
_STATUS = re.compile(r"ok|ns|us|na|[lu]?(?:nc|cr|nr)|disabled", re.IGNORECASE)


@dataclass(frozen=True)
class Event:
    """One event that was asserted and not taken back since; `time` is epoch seconds by the controller's clock, None before it knew it."""

    sensor: str
    text: str
    time: float | None

    @property
    def shown(self) -> str:
        """As a person would say it, with its day."""
        when = "undated" if self.time is None else f"{datetime.fromtimestamp(self.time, timezone.utc):%Y-%m-%d %H:%M}"
        return f"{self.text} ({when})"


@dataclass(frozen=True)
class BmcLog(Fact):
    """The last events of the controller's log that still hold. `now` is the node's clock. UNSUPPORTED without ipmitool or a controller."""

    name: str
    events: tuple[Event, ...]
    now: float


@dataclass(frozen=True)
class BmcLogUse(Fact):
    """How full the log is, in per cent. UNSUPPORTED as for the log, or where the controller does not say."""

    name: str
    used_percent: int


@dataclass(frozen=True)
class Sensor:
    """One sensor: its state in ipmitool's word, and what it reads."""

    name: str
    state: str
    reading: str

    @property
    def critical(self) -> bool:
        """Beyond its critical threshold, or the one after."""
        return self.state.endswith(("cr", "nr"))


@dataclass(frozen=True)
class BmcSensors(Fact):
    """The sensors that have thresholds. UNSUPPORTED as for the log."""

    name: str
    sensors: tuple[Sensor, ...]


def _there(captures: Captures, probe: Probe) -> bool:
    """Whether the node has ipmitool, and a controller that it could ask; raises Unread where that is not known."""
    capture = captures.capture(probe)
    if capture is None:
        return True
    if capture.outcome is Outcome.MISSING:
        return False
    return not (capture.outcome is Outcome.DONE and capture.exit and _ABSENT.search(capture.stderr))


def _time(date: str, clock: str) -> float | None:
    for form in _DATES:
        try:
            return datetime.strptime(f"{date} {clock[:8]}", form).replace(tzinfo=timezone.utc).timestamp()
        except ValueError:
            continue
    return None


def events(text: str) -> tuple[Event, ...]:
    """The events that were asserted and not taken back later; raises ValueError for a line that is no record.

    A maker's own records (OEM) have no meaning that is known, and are left out.
    """
    held: dict[tuple[str, str], Event] = {}
    for line in text.splitlines():
        columns = [column.strip() for column in line.split("|")]
        if not line.strip() or line.startswith("SEL has no entries"):
            continue
        if len(columns) < 3 or _ROW.fullmatch(columns[0]) is None:
            raise ValueError(line)
        if len(columns) < 6 or columns[3].startswith("OEM record"):
            continue
        key = columns[3], columns[4]
        if columns[5] == "Deasserted":
            held.pop(key, None)
        else:
            held.pop(key, None)
            held[key] = Event(clean(columns[3], 60), clean(columns[4], 80), _time(columns[1], columns[2]))
    return tuple(held.values())


def sensors(text: str) -> tuple[Sensor, ...]:
    """The sensors of `sdr elist`; raises ValueError for a line that is none, or for no sensor at all."""
    found = []
    for line in text.splitlines():
        columns = [column.strip() for column in line.split("|")]
        if len(columns) != 5 or _STATUS.fullmatch(columns[2]) is None:
            raise ValueError(line)
        found.append(Sensor(clean(columns[0], 40), columns[2].lower(), clean(columns[4], 40)))
    if not found:
        raise ValueError("no sensor")
    return tuple(found)


def _parsed(captures: Captures, probe: Probe, parse: Any, what: str) -> Any:
    if not _there(captures, probe):
        return UNSUPPORTED
    text = captures.text(probe)
    try:
        return parse(text)
    except ValueError:
        raise Unread(f"ipmitool's {what} is not of its form") from None


@fact("bmc_log", LOG)
def bmc_log(captures: Captures) -> BmcLog:
    """The controller's last 100 events, less those that were taken back."""
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
