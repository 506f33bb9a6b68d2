"""Host facts: memory, swap, the kernel's clock, its uptime, and the versions that a fleet should share."""

from __future__ import annotations

import json
import re
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.parsing import decimal, line, matching, searched, whole
from healthcheck.facts.values import Fact, Unread
from healthcheck.model.probes import Probe, ProbeKind

MEMINFO = "/proc/meminfo"
SWAPS = "/proc/swaps"
OSRELEASE = "/proc/sys/kernel/osrelease"
UPTIME_FILE = "/proc/uptime"
NVIDIA_MODULE = "/sys/module/nvidia/version"

BUDDYINFO = "/proc/buddyinfo"
HUGE_PAGES = "/sys/kernel/mm/hugepages/hugepages"
MEMORY = Probe("host.memory", ProbeKind.FILES, paths=(
    MEMINFO, BUDDYINFO, *(f"{HUGE_PAGES}-*/{name}_hugepages" for name in ("nr", "free", "resv"))))
SWAP = Probe("host.swap", ProbeKind.FILES, paths=(SWAPS,))
VERSIONS = Probe("host.versions", ProbeKind.FILES, paths=(OSRELEASE, NVIDIA_MODULE))
CLOCK = Probe("host.clock", ProbeKind.CLOCK)
SOURCE = "/sys/devices/system/clocksource/clocksource0"
CLOCK_SOURCE = Probe("host.clock-source", ProbeKind.FILES,
                     paths=tuple(f"{SOURCE}/{name}_clocksource" for name in ("current", "available")))
UPTIME = Probe("host.uptime", ProbeKind.FILES, paths=(UPTIME_FILE,))

# adjtimex(2): the clock state TIME_ERROR, and the status bit STA_UNSYNC.
_TIME_ERROR = 5
_STA_UNSYNC = 0x0040


class Memory(Fact):
    """Main memory that the kernel manages, in bytes: somewhat less than what is installed."""

    name: str
    total_bytes: int


class Swap(Fact):
    """Swap space in use by the kernel, in bytes over all areas, and the areas' names."""

    name: str
    total_bytes: int
    areas: tuple[str, ...]


class Clock(Fact):
    """The kernel's clock: whether a time service disciplines it."""

    name: str
    synchronised: bool


class ClockSource(Fact):
    """What the kernel reads the time from ("tsc"), and what it could besides, the best first."""

    name: str
    current: str
    available: tuple[str, ...]


class Versions(Fact):
    """Versions that nodes of one kind should share. `driver` is UNSUPPORTED where no NVIDIA module is
    loaded."""

    name: str
    kernel: str
    driver: str


class Uptime(Fact):
    """For how long the kernel has been up."""

    name: str
    hours: float


_MEMTOTAL = re.compile(r"^MemTotal:\s+([0-9]{1,15}) kB$", re.MULTILINE)


@fact("memory", MEMORY)
def memory(captures: Captures) -> Memory:
    """MemTotal of /proc/meminfo (proc(5)); the file counts in KiB and calls them kB."""
    return Memory("memory", captures.files(MEMORY).read(
        MEMINFO, lambda text: int(searched(_MEMTOTAL, text)[1]) * 1024))


@fact("swap", SWAP)
def swap(captures: Captures) -> Swap:
    """The areas of /proc/swaps (proc(5)), which has a heading even when it lists none."""
    heading, *lines = captures.files(SWAP).text(SWAPS).splitlines() or [""]
    if not heading.startswith("Filename"):
        raise Unread(f"{SWAPS} is not in the documented format")
    try:
        areas = [(line.split()[0], whole(line.split()[2])) for line in lines]
    except (IndexError, ValueError):
        raise Unread(f"{SWAPS} is not in the documented format") from None
    return Swap("swap", total_bytes=sum(size for _, size in areas) * 1024,
                areas=tuple(name for name, _ in areas))


@fact("clock", CLOCK)
def clock(captures: Captures) -> Clock:
    """The clock state of adjtimex(2), which does not depend on the time service in use."""
    document = json.loads(captures.text(CLOCK))
    state, status = document["state"], document["status"]
    if type(state) is not int or type(status) is not int or not 0 <= state <= _TIME_ERROR:
        raise Unread("adjtimex gave an answer that is not in the documented format")
    return Clock("clock", synchronised=state != _TIME_ERROR and not status & _STA_UNSYNC)


@fact("clock_source", CLOCK_SOURCE)
def clock_source(captures: Captures) -> ClockSource:
    """Documentation/ABI/stable/sysfs-devices-system-clocksource; the list begins with the best."""
    files = captures.files(CLOCK_SOURCE)
    return ClockSource("clock source", files.read(f"{SOURCE}/current_clocksource", _source),
                       files.read(f"{SOURCE}/available_clocksource", lambda text: tuple(
                           _source(word) for word in text.split())))


_source = matching(r"[A-Za-z0-9_.-]{1,40}")


@fact("versions", VERSIONS)
def versions(captures: Captures) -> Versions:
    """The running kernel's release, and the loaded NVIDIA module's version."""
    kernel, driver = running(captures)
    return Versions("versions", kernel=kernel, driver=driver)


def running(captures: Captures) -> tuple[Any, Any]:
    """Kernel and driver version, either of which may be absent; raises Unread where neither was captured."""
    files = captures.files(VERSIONS)
    return files.read(OSRELEASE, _line), files.optional(NVIDIA_MODULE, _line)


@fact("uptime", UPTIME)
def uptime(captures: Captures) -> Uptime:
    """The first figure of /proc/uptime (proc(5)), in seconds there."""
    return Uptime("uptime", hours=uptime_hours(captures))


def uptime_hours(captures: Captures) -> Any:
    """The hours, which may be absent; raises Unread where they were not captured."""
    return captures.files(UPTIME).read(UPTIME_FILE, lambda text: decimal(text.split()[0]) / 3600)


def _line(text: str) -> str:
    return line(text)[:200]
