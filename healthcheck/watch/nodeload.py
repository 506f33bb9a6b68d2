"""How loaded a node is, by the kernel's own counters: what each file says at one time.

Pressure: Documentation/accounting/psi.rst (total in microseconds since boot); /proc/stat, /proc/vmstat,
/proc/diskstats: proc(5) and Documentation/admin-guide/iostats.rst; /proc/net/snmp: net/ipv4/proc.c; cpu.stat:
Documentation/admin-guide/cgroup-v2.rst (throttled_usec) and cgroup-v1 (throttled_time in nanoseconds).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from healthcheck.model.probes import KIB, Probe, ProbeKind

_PRESSURE = "/proc/pressure/"
_STAT, _VMSTAT, _DISKS, _SNMP = "/proc/stat", "/proc/vmstat", "/proc/diskstats", "/proc/net/snmp"
LOAD = Probe(
    "watch.load", ProbeKind.FILES, limit=512 * KIB,
    paths=(f"{_PRESSURE}cpu", f"{_PRESSURE}memory", f"{_PRESSURE}io", _STAT, _VMSTAT, _DISKS, _SNMP,
           "/sys/fs/cgroup/system.slice/*slurmstepd.scope/job_*/cpu.stat",
           "/sys/fs/cgroup/cpu/slurm*/uid_*/job_*/cpu.stat"))

_SOME = re.compile(r"^some .{0,80}\btotal=(\d{1,19})$", re.MULTILINE)
# Partitions and stacked devices count their disk's requests again.
_DISK = re.compile(r"(?:sd[a-z]{1,3}|vd[a-z]{1,3}|xvd[a-z]{1,3}|nvme\d{1,3}n\d{1,3})")
_WORD = re.compile(r"^(pswpin|pgmajfault) (\d{1,19})$", re.MULTILINE)
_THROTTLED = re.compile(r"^(throttled_usec|throttled_time) (\d{1,19})$", re.MULTILINE)


@dataclass(frozen=True)
class NodeLoad:
    """Counters since boot; None or empty where not given. Seconds, except `steal` and `cpu` (ticks: stolen,
    and all), `swapped_in` (pages), `sent` and `sent_again` (segments). `pressure_s` is by resource, `disks`
    by name: requests and the seconds that they took, `throttled_s` by control group."""

    pressure_s: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    steal: int | None = None
    cpu: int | None = None
    swapped_in: int | None = None
    disks: Mapping[str, tuple[int, float]] = field(default_factory=lambda: MappingProxyType({}))
    sent: int | None = None
    sent_again: int | None = None
    throttled_s: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


def load_of(paths: Iterable[str], text: Callable[[str], str | None]) -> NodeLoad:
    """What these files say; `text` gives one's content, None where it was not read."""
    pressure: dict[str, float] = {}
    throttled: dict[str, float] = {}
    values: dict[str, int] = {}
    disks: Mapping[str, tuple[int, float]] = {}
    for path in paths:
        content = text(path)
        if content is None:
            continue
        if path.startswith(_PRESSURE) and (found := _SOME.search(content)) is not None:
            pressure[path.removeprefix(_PRESSURE)] = int(found[1]) / 1e6
        elif path == _STAT:
            values |= _ticks(content)
        elif path == _VMSTAT:
            values |= {name: int(value) for name, value in _WORD.findall(content)}
        elif path == _DISKS:
            disks = _disks(content)
        elif path == _SNMP:
            values |= _tcp(content)
        elif path.endswith("/cpu.stat") and (found := _THROTTLED.search(content)) is not None:
            throttled[path] = int(found[2]) / (1e6 if found[1] == "throttled_usec" else 1e9)
    return NodeLoad(pressure, values.get("steal"), values.get("cpu"), values.get("pswpin"), disks,
                    values.get("OutSegs"), values.get("RetransSegs"), throttled)


def _ticks(text: str) -> dict[str, int]:
    words = text.partition("\n")[0].split()
    if len(words) < 9 or words[0] != "cpu" or not "".join(words[1:9]).isdecimal() or len(text) > 1 << 20:
        return {}
    # Guest time is counted in user time, too.
    ticks = [int(word[:19]) for word in words[1:9]]
    return {"cpu": sum(ticks), "steal": ticks[7]}


def _disks(text: str) -> dict[str, tuple[int, float]]:
    found: dict[str, tuple[int, float]] = {}
    for line in text.splitlines()[:4096]:
        words = line.split()
        if len(words) < 11 or _DISK.fullmatch(words[2]) is None \
                or not all(word.isdecimal() and len(word) < 20 for word in words[3:11]):
            continue
        reads, read_ms, writes, write_ms = (int(words[place]) for place in (3, 6, 7, 10))
        found[words[2]] = (reads + writes, (read_ms + write_ms) / 1000)
    return found


def _tcp(text: str) -> dict[str, int]:
    lines = [line.split() for line in text.splitlines() if line.startswith("Tcp:")]
    if len(lines) != 2 or len(lines[0]) != len(lines[1]):
        return {}
    named = dict(zip(lines[0], lines[1], strict=True))
    return {name: int(named[name]) for name in ("OutSegs", "RetransSegs")
            if named.get(name, "").isdecimal() and len(named[name]) < 20}
