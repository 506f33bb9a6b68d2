"""CPU facts from sysfs, which is cheaper than /proc/cpuinfo by far
(Documentation/ABI/testing/sysfs-devices-system-cpu, Documentation/admin-guide/pm/cpufreq.rst; throttle
counters: arch/x86/kernel/cpu/mce/therm_throt.c; temperatures: Documentation/hwmon/k10temp.rst, coretemp.rst).

Only Intel's CPUs count how often they were throttled. What AMD's and Arm's show without model-specific
registers is their temperature and the frequencies that they may use, and do use.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from statistics import median_low
from types import MappingProxyType
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.limits import CPUS
from healthcheck.facts.parsing import decimal, flag, matched, matching, milli, whole
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, first_unread, partial_if, readings
from healthcheck.model.probes import Probe, ProbeKind

CPU = "/sys/devices/system/cpu"
# Every fifth CPU is read for its package: however CPUs are numbered, each package has one of them.
SOME = f"{CPU}/cpu*[05]"
TOPOLOGY = Probe("cpu.topology", ProbeKind.FILES,
                 paths=(f"{CPU}/present", f"{CPU}/online", f"{CPU}/smt/control"))
DRIVER = f"{CPU}/cpufreq/policy0/scaling_driver"
GOVERNORS = Probe("cpu.governor", ProbeKind.FILES,
                  paths=(f"{CPU}/cpufreq/policy*/scaling_governor", DRIVER))
# What shows that a CPU is throttled, in one probe. Sensors are found by their drivers and not in
# /sys/class/hwmon: there every sensor of the node would have to be asked for its name, and some (DIMMs, NVMe)
# answer over slow buses. temp1 is the package: Tctl on AMD, "Package id N" on Intel. Frequencies are those of
# some policies: the limits of every fifth, the present one of every tenth, as reading that wakes its CPU.
AMD_SENSOR = "/sys/bus/pci/drivers/k10temp/*:*/hwmon/hwmon*/temp1_"
INTEL_SENSOR = "/sys/bus/platform/drivers/coretemp/coretemp.*/hwmon/hwmon*/temp1_"
BASE, NOMINAL = f"{CPU}/cpufreq/policy0/base_frequency", f"{CPU}/cpu0/acpi_cppc/nominal_freq"
LOADAVG = "/proc/loadavg"
# Turbo: Intel's driver says that it is off, the others that it is on.
NO_TURBO, BOOST = f"{CPU}/intel_pstate/no_turbo", f"{CPU}/cpufreq/boost"
MOST_PERCENT = f"{CPU}/intel_pstate/max_perf_pct"
THROTTLE = Probe("cpu.throttle", ProbeKind.FILES, paths=(
    f"{CPU}/online", f"{SOME}/topology/physical_package_id",
    f"{SOME}/thermal_throttle/package_throttle_count",
    *(f"{sensor}{name}" for sensor in (AMD_SENSOR, INTEL_SENSOR) for name in ("input", "crit")),
    *(f"{CPU}/cpufreq/policy*[05]/{name}" for name in ("scaling_max_freq", "bios_limit", "cpuinfo_max_freq")),
    f"{CPU}/cpufreq/policy*0/scaling_cur_freq", BASE, NOMINAL, LOADAVG, NO_TURBO, BOOST, MOST_PERCENT,
    DRIVER,
))
# Of every CPU, which is too much to read every few minutes.
CORES = Probe("cpu.cores", ProbeKind.FILES, paths=(
    f"{CPU}/online", f"{CPU}/cpu[0-9]*/thermal_throttle/core_throttle_count",
    f"{CPU}/cpu[0-9]*/topology/physical_package_id"))
MICROCODE = Probe("cpu.microcode", ProbeKind.FILES, paths=(f"{CPU}/online", f"{CPU}/cpu0/microcode/version"))

_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_PACKAGE = re.compile(re.escape(CPU) + r"/cpu([0-9]{1,5})/topology/physical_package_id")
_SENSOR = re.compile(
    r"/(?:k10temp/[0-9a-f]{4,8}:[0-9a-f]{2}:(?P<amd>[0-9a-f]{2})\.[0-9]|coretemp/coretemp\.(?P<intel>[0-9]{1,4}))"
    r"/hwmon/hwmon[0-9]{1,6}/temp1_input$")
_CORE = re.compile(re.escape(CPU) + r"/cpu([0-9]{1,5})/thermal_throttle/core_throttle_count")
_LIMIT = re.compile(re.escape(CPU) + r"/cpufreq/policy([0-9]{1,5})/(scaling_max_freq|bios_limit)")
_HIGHEST = re.compile(re.escape(CPU) + r"/cpufreq/policy([0-9]{1,5})/cpuinfo_max_freq")
# The data fabric of AMD's first package is PCI device 18h, that of the second 19h (its function 3: k10temp).
_FIRST_AMD = 0x18


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
    frequency (most VMs). `driver` is what scales it ("intel_pstate", "acpi-cpufreq"); UNSUPPORTED where the
    kernel names none."""

    name: str
    governors: tuple[tuple[str, int], ...]
    driver: str


class Package(Fact):
    """One CPU package ("CPU package 0"): how often it was throttled for heat or by the board (PROCHOT) since
    boot.

    UNSUPPORTED where the CPU has no such counter: AMD's and Arm's, and virtual ones.
    """

    name: str
    throttled: int


class Cores(Fact):
    """How often each CPU (hardware thread) of one package ("CPU package 0") was throttled for the heat of its
    own core since boot, by number; and the package as a whole, which counts on its own.

    UNSUPPORTED as for `Package`.
    """

    name: str
    throttled: Mapping[int, int]
    package_throttled: int


class CpuTemperature(Fact):
    """The temperature of one CPU package ("CPU package 0"), on AMD the control value Tctl: from `limit_c` on
    the CPU throttles itself, which is 0 where the driver names no such limit (k10temp on Zen).

    UNSUPPORTED where neither k10temp nor coretemp has a sensor: Arm's CPUs, and virtual ones.
    """

    name: str
    celsius: float
    limit_c: float


class CpuFrequency(Fact):
    """What the CPUs may run at, and do, as far as sampled. `allowed` holds for each policy its number, its
    highest frequency in MHz and the file that says so: scaling_max_freq (the system's setting), or bios_limit
    (the firmware's) where that is less. `base_mhz` is the frequency that the CPU is sold with, `current_mhz`
    the median of what the sampled CPUs run at, `load` the 1-minute load for each online CPU.

    UNSUPPORTED where the kernel scales no frequency, or nothing tells the base.
    """

    name: str
    base_mhz: float
    allowed: tuple[tuple[int, float, str], ...]
    current_mhz: float
    load: float


class CpuCeiling(Fact):
    """What the system lets the CPUs run at, as far as sampled: for each policy its number, the highest
    frequency that is set (scaling_max_freq), the highest that can be, and the highest that the CPU has as it
    is configured (cpuinfo_max_freq, which is the base with turbo off), in MHz. `percent` is the share of its
    performance that intel_pstate uses at most (max_perf_pct), 100 with other drivers. `base_mhz` as in
    `CpuFrequency`, 0 where nothing tells it.

    UNSUPPORTED where the kernel scales no frequency.
    """

    name: str
    policies: tuple[tuple[int, float, float, float], ...]
    percent: int
    base_mhz: float


class Turbo(Fact):
    """Whether the CPUs may run above their base frequency (turbo, boost), the file that says so, and the
    driver that scales the frequency, "" where the kernel names none.

    UNSUPPORTED where the driver has no such switch: virtual machines, CPUs without it, and acpi-cpufreq where
    the firmware has switched it off.
    """

    name: str
    enabled: bool
    file: str
    driver: str


class Microcode(Fact):
    """The microcode revision that CPU 0 runs, as "0x2b000571"; UNSUPPORTED where the kernel loads none (Arm,
    most VMs)."""

    name: str
    revision: str


def cpu_list(text: str) -> tuple[int, ...]:
    """The numbers of "0-3,8"; an empty text is an empty list. Raises ValueError."""
    found: list[int] = []
    least = 0
    for part in text.split(",") if text else ():
        match = matched(_RANGE, part)
        first, last = int(match[1]), int(match[2] or match[1])
        if not least <= first <= last < CPUS:
            raise ValueError(text)
        least = last + 1
        found += range(first, least)
    return tuple(found)


def _some(text: str) -> tuple[int, ...]:
    found = cpu_list(text)
    if not found:
        raise ValueError(text)
    return found


_word, _driver = matching(r"[a-z_]{1,32}"), matching(r"[A-Za-z0-9_-]{1,32}")
_revision = matching(r"0x[0-9a-f]{1,16}")


@fact("cpus", TOPOLOGY)
def cpus(captures: Captures) -> Cpus:
    """CPUs that the firmware presents, and those that run."""
    files = captures.files(TOPOLOGY)
    present: Any = files.read(f"{CPU}/present", _some)
    online: Any = files.read(f"{CPU}/online", _some)
    control = f"{CPU}/smt/control"
    offline: Any = first_unread((present, online)) or tuple(sorted(set(present) - set(online)))
    smt = files.read(control, _word) if files.has(control) else "notimplemented"
    found: Any
    running: Any
    found, running = (value if isinstance(value, Unmeasured) else len(value) for value in (present, online))
    return Cpus("CPUs", found, running, offline, smt)


@fact("governors", GOVERNORS)
def governors(captures: Captures) -> Governors:
    """The governor of each frequency policy."""
    files = captures.files(GOVERNORS)
    driver = files.optional(DRIVER, _driver)
    names: list[Any] = [files.read(path, _word) for path in files if path.endswith("/scaling_governor")]
    counted: Any = first_unread(names) or tuple(sorted(Counter(names).items())) or _none(files)
    return Governors("CPU frequency", counted, driver)


def _of(captures: Captures, *kinds: str) -> CapturedFiles:
    """The throttle probe's files; what was not read of another kind does not spoil these."""
    files = captures.files(THROTTLE)
    files.text(f"{CPU}/online")
    for kind, paths in captures.once(_by_kind).items():
        if kind and kind not in kinds:
            files.ignore(paths)
    return files


def _by_kind(captures: Captures) -> Mapping[str, list[str]]:
    """The paths of each kind of the throttle probe's files."""
    found: dict[str, list[str]] = {}
    for path in captures.files(THROTTLE):
        found.setdefault(_kind(path), []).append(path)
    return found


_KINDS = {
    NO_TURBO: "turbo", BOOST: "turbo", MOST_PERCENT: "ceiling", DRIVER: "ceiling", NOMINAL: "frequencies",
    BASE: "frequencies", LOADAVG: "frequencies", f"{CPU}/online": ""}
_NAMED_KINDS = {
    "cpuinfo_max_freq": "ceiling", "scaling_max_freq": "frequencies", "bios_limit": "frequencies",
    "scaling_cur_freq": "frequencies"}


def _kind(path: str) -> str:
    if path.startswith("/sys/bus/"):
        return "sensors"
    folder = "folders" if path.startswith(f"{CPU}/cpufreq") else "counters"
    return _KINDS.get(path, _NAMED_KINDS.get(path.rpartition("/")[2], folder))


@fact("packages", THROTTLE, each="package")
def packages(captures: Captures) -> tuple[Package, ...]:
    """Every package, by its number; where the kernel names none, one whose counter is not supported."""
    files = _of(captures, "counters")
    found: dict[str, Any] = {}
    for path in files:
        match = _PACKAGE.fullmatch(path)
        if match is None:
            continue
        number = files.read(path, whole)
        name = f"CPU package {number}" if isinstance(number, int) else f"CPU {match[1]}"
        if name not in found:
            counter = f"{CPU}/cpu{match[1]}/thermal_throttle/package_throttle_count"
            found[name] = number if isinstance(number, Unmeasured) else files.optional(counter, whole)
    return (tuple(Package(name, value) for name, value in sorted(found.items()))
            or (Package.absent("CPU package 0", _none(files)),))


@fact("core_throttling", CORES, THROTTLE, each="cores")
def core_throttling(captures: Captures) -> Any:
    """Every package whose CPUs count, by its number; where none does, one that is not supported."""
    files = captures.files(CORES)
    files.text(f"{CPU}/online")
    # Some older CPUs count for cores alone.
    of_package = {package.name: 0 if count is UNSUPPORTED else count for package in captures.once(packages)
                  for count in (readings(package)["throttled"],)}
    found: dict[str, Any] = {}
    counters = {path: match[1] for path in files if (match := _CORE.fullmatch(path))}
    for path, cpu in counters.items():
        number: Any = files.read(f"{CPU}/cpu{cpu}/topology/physical_package_id", whole)
        count: Any = number if isinstance(number, Unmeasured) else files.read(path, whole)
        if isinstance(count, Unmeasured):
            found[f"CPU {cpu}"] = count         # it stands for itself, and costs the others nothing
        else:
            found.setdefault(f"CPU package {number}", {})[int(cpu)] = count
    counting = set(counters.values())
    for path in files if counting else ():
        if (match := _PACKAGE.fullmatch(path)) and match[1] not in counting:
            found[f"CPU {match[1]}"] = Unmeasured(f"CPU {match[1]} has no counter, and others have")
    files.ignore(counters)
    files.ignore([path for path in files if path.endswith("/physical_package_id")])
    unread: Any = Unmeasured("the counter of the package was not read")
    return partial_if(tuple(
        Cores(name, MappingProxyType(counts) if isinstance(counts, dict) else counts,
              of_package.get(name, unread)) for name, counts in sorted(found.items())
    ) or (Cores.absent("CPU package 0"),), files.unreadable())


def _mhz(text: str) -> float:
    """Of cpufreq's kHz."""
    return whole(text) / 1000


@fact("cpu_temperatures", THROTTLE, each="cpu_temperature")
def cpu_temperatures(captures: Captures) -> Any:
    """Every package with a sensor, by its number; where there is none, one that is not supported. Partial
    where a folder of sensors could not be listed."""
    files = _of(captures, "sensors")
    found: dict[int, CpuTemperature] = {}
    for path in files:
        if (match := _SENSOR.search(path)) is None:
            continue
        number = int(match["intel"]) if match["intel"] else int(match["amd"], 16) - _FIRST_AMD
        limit: Any = files.optional(path.replace("_input", "_crit"), milli)
        found[number] = CpuTemperature(f"CPU package {number}", files.read(path, milli),
                                       0.0 if limit is UNSUPPORTED else limit)
    return partial_if(tuple(found[number] for number in sorted(found))
                      or (CpuTemperature.absent("CPU package 0", _none(files)),), files.unreadable())


@fact("cpu_frequency", THROTTLE)
def cpu_frequency(captures: Captures) -> CpuFrequency:
    """The sampled policies; the load is over all CPUs that are online."""
    files = _of(captures, "frequencies", "folders")
    online: Any = files.read(f"{CPU}/online", _some)
    base = _base(files)
    current = [files.read(path, _mhz) for path in files if path.endswith("/scaling_cur_freq")]
    now: Any = first_unread(current) or (median_low(current) if current else _none(files))
    load: Any = files.read(LOADAVG, lambda text: decimal(text.split()[0]))
    share: Any = first_unread((online, load)) or load / len(online)
    return CpuFrequency("CPU frequency", base, _allowed(files), now, share)


def _allowed(files: CapturedFiles) -> Any:
    """The lower limit of each sampled policy."""
    found: dict[int, tuple[float, str]] = {}
    for path in files:
        if (match := _LIMIT.fullmatch(path)) is not None:
            value: Any = files.read(path, _mhz)
            if isinstance(value, Unmeasured):
                return value
            number = int(match[1])
            found[number] = min((value, match[2]), found.get(number, (value, match[2])))
    return tuple((number, *found[number]) for number in sorted(found)) or _none(files)


def _none(files: CapturedFiles) -> Any:
    """Where nothing was found: there is none, or it could not be listed."""
    unreadable = files.unreadable()
    return Unmeasured(unreadable) if unreadable else UNSUPPORTED


def _base(files: CapturedFiles) -> Any:
    """The frequency that the CPU is sold with, in MHz; Arm's firmware may say 0 for not known."""
    base: Any = files.optional(BASE, _mhz)
    if base is UNSUPPORTED:
        base = files.optional(NOMINAL, lambda text: float(whole(text))) or UNSUPPORTED
    return base


@fact("cpu_ceiling", THROTTLE)
def cpu_ceiling(captures: Captures) -> CpuCeiling:
    """The sampled policies that have both files.

    acpi-cpufreq reaches turbo from the base frequency, so that is the highest that must be set: from Linux
    5.12 to 5.17 it shows the base as scaling_max_freq beside a cpuinfo_max_freq with turbo. So does
    intel_pstate in some versions where turbo is off.
    """
    files = _of(captures, "ceiling", "folders", "turbo")
    base, driver = _base(files), files.optional(DRIVER, _driver)
    to_base = driver == "acpi-cpufreq" or files.optional(NO_TURBO, str) == "1"
    found: list[tuple[int, Any, Any, Any]] = []
    for path in files:
        if (match := _HIGHEST.fullmatch(path)) is not None:
            highest = files.read(path, _mhz)
            own = files.read(path.replace("cpuinfo_max_freq", "scaling_max_freq"), _mhz)
            found.append((int(match[1]), own, base if to_base else highest, highest))
    unread = first_unread(value for row in found for value in row)
    policies: Any = unread or tuple(sorted(found)) or _none(files)
    if isinstance(driver, Unmeasured):
        policies = driver
    elif policies is not unread and any(UNSUPPORTED in row for row in found):
        policies = UNSUPPORTED
    percent = files.optional(MOST_PERCENT, _percent)
    return CpuCeiling("CPU frequency", policies, 100 if percent is UNSUPPORTED else percent,
                      0.0 if base is UNSUPPORTED else base)


def _percent(text: str) -> int:
    value = whole(text)
    if value > 100:
        raise ValueError(text)
    return value


@fact("turbo", THROTTLE)
def turbo(captures: Captures) -> Turbo:
    """What Intel's driver says where it is in use, else what cpufreq says."""
    files = _of(captures, "turbo", "ceiling")
    for file, on in ((NO_TURBO, False), (BOOST, True)):
        if files.has(file):
            enabled: Any = files.read(file, lambda text: flag(text) is on)  # noqa: B023  (called at once)
            driver: Any = files.optional(DRIVER, _driver)
            return Turbo("CPU turbo", enabled, file.rpartition("/")[2],
                         "" if driver is UNSUPPORTED else driver)
    return Turbo.absent("CPU turbo")


@fact("microcode", MICROCODE)
def microcode(captures: Captures) -> Microcode:
    """The revision of CPU 0; the kernel loads the same on all CPUs."""
    files = captures.files(MICROCODE)
    files.text(f"{CPU}/online")
    return Microcode("microcode", files.optional(f"{CPU}/cpu0/microcode/version", _revision))
