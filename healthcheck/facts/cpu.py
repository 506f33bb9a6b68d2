"""CPU facts from sysfs, which is cheaper than /proc/cpuinfo by far
(Documentation/ABI/testing/sysfs-devices-system-cpu, Documentation/admin-guide/pm/cpufreq.rst; throttle
counters: arch/x86/kernel/cpu/mce/therm_throt.c)."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.limits import CPUS
from healthcheck.facts.parsing import matched, whole
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured
from healthcheck.model.probes import Probe, ProbeKind

CPU = "/sys/devices/system/cpu"
# Every fifth CPU is read for its package: however CPUs are numbered, each package has one of them.
SOME = f"{CPU}/cpu*[05]"
TOPOLOGY = Probe("cpu.topology", ProbeKind.FILES,
                 paths=(f"{CPU}/present", f"{CPU}/online", f"{CPU}/smt/control"))
GOVERNORS = Probe("cpu.governor", ProbeKind.FILES, paths=(f"{CPU}/cpufreq/policy*/scaling_governor",))
THROTTLE = Probe("cpu.throttle", ProbeKind.FILES, paths=(
    f"{CPU}/online", f"{SOME}/topology/physical_package_id",
    f"{SOME}/thermal_throttle/package_throttle_count",
))
MICROCODE = Probe("cpu.microcode", ProbeKind.FILES, paths=(f"{CPU}/online", f"{CPU}/cpu0/microcode/version"))

_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
_PACKAGE = re.compile(re.escape(CPU) + r"/cpu(\d{1,5})/topology/physical_package_id")


class Cpus(Fact):
    """How many CPUs (hardware threads) are present and online, and which are offline.

    `smt` is the kernel's state of hardware threads: on, off, forceoff, notsupported, notimplemented; with
    `off` the second threads are offline on purpose.
    """

    name: str
    present: int
    online: int
    offline: tuple[int, ...]
    smt: str


class Governors(Fact):
    """How many frequency policies have each governor, by name, sorted; UNSUPPORTED where the kernel scales no
    frequency (most VMs)."""

    name: str
    governors: tuple[tuple[str, int], ...]


class Package(Fact):
    """One CPU package ("CPU package 0"): how often it was throttled for heat or by the board (PROCHOT) since
    boot.

    UNSUPPORTED where the CPU has no such counter: AMD's and Arm's, and virtual ones.
    """

    name: str
    throttled: int


class Microcode(Fact):
    """The microcode revision that CPU 0 runs, as "0x2b000571"; UNSUPPORTED where the kernel loads none (Arm,
    most VMs)."""

    name: str
    revision: str


def cpu_list(text: str) -> tuple[int, ...]:
    """The numbers of "0-3,8"; an empty text is an empty list. Raises ValueError."""
    found: list[int] = []
    for part in text.split(",") if text else ():
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(text)
        first, last = int(match[1]), int(match[2] or match[1])
        if not (found[-1] if found else -1) < first <= last < CPUS:
            raise ValueError(text)
        found += range(first, last + 1)
    return tuple(found)


def _some(text: str) -> tuple[int, ...]:
    found = cpu_list(text)
    if not found:
        raise ValueError(text)
    return found


_WORD = re.compile(r"[a-z_]{1,32}")


def _word(text: str) -> str:
    return matched(_WORD, text)[0]


@fact("cpus", TOPOLOGY)
def cpus(captures: Captures) -> Cpus:
    """CPUs that the firmware presents, and those that run."""
    files = captures.files(TOPOLOGY)
    present: Any = files.read(f"{CPU}/present", _some)
    online: Any = files.read(f"{CPU}/online", _some)
    unread = next((value for value in (present, online) if isinstance(value, Unmeasured)), None)
    control = f"{CPU}/smt/control"
    offline: Any = unread or tuple(sorted(set(present) - set(online)))
    smt = files.read(control, _word) if files.has(control) else "notimplemented"
    found: Any
    running: Any
    found, running = (value if isinstance(value, Unmeasured) else len(value) for value in (present, online))
    return Cpus("CPUs", found, running, offline, smt)


@fact("governors", GOVERNORS)
def governors(captures: Captures) -> Governors:
    """The governor of each frequency policy."""
    files = captures.files(GOVERNORS)
    names: list[Any] = [files.read(path, _word) for path in files]
    unread = next((value for value in names if isinstance(value, Unmeasured)), None)
    counted: Any = unread or (tuple(sorted(Counter(names).items())) if names else UNSUPPORTED)
    return Governors("CPU frequency", counted)


@fact("packages", THROTTLE, each="package")
def packages(captures: Captures) -> tuple[Package, ...]:
    """Every package, by its number; where the kernel names none, one whose counter is not supported."""
    files = captures.files(THROTTLE)
    files.text(f"{CPU}/online")
    found: dict[str, Any] = {}
    none: Any = UNSUPPORTED
    for path in files:
        match = _PACKAGE.fullmatch(path)
        if match is None:
            continue
        number = files.read(path, whole)
        name = f"CPU package {number}" if isinstance(number, int) else f"CPU {match[1]}"
        if name not in found:
            found[name] = number if isinstance(number, Unmeasured) else _throttled(files, match[1])
    return (tuple(Package(name, value) for name, value in sorted(found.items()))
            or (Package("CPU package 0", none),))


def _throttled(files: CapturedFiles, cpu: str) -> Any:
    path = f"{CPU}/cpu{cpu}/thermal_throttle/package_throttle_count"
    return files.optional(path, whole)


@fact("microcode", MICROCODE)
def microcode(captures: Captures) -> Microcode:
    """The revision of CPU 0; the kernel loads the same on all CPUs."""
    files = captures.files(MICROCODE)
    files.text(f"{CPU}/online")
    path = f"{CPU}/cpu0/microcode/version"
    revision: Any = files.optional(path, _revision)
    return Microcode("microcode", revision)


def _revision(text: str) -> str:
    if re.fullmatch(r"0x[0-9a-f]{1,16}", text) is None:
        raise ValueError(text)
    return text
