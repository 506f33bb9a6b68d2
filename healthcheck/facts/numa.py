"""NUMA facts from sysfs: nodes with their CPUs and memory, and the node of each device
(Documentation/ABI/stable/sysfs-devices-node, Documentation/ABI/testing/sysfs-bus-pci)."""

from __future__ import annotations

import re
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.cpu import cpu_list
from healthcheck.facts.parsing import matched, nonempty
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread, partial_if
from healthcheck.model.probes import Probe, ProbeKind

BASE = "/sys/devices/system/node"
DRIVERS = ("nvidia", "mlx5_core")
NODES = Probe("numa.nodes", ProbeKind.FILES,
              paths=(f"{BASE}/online", f"{BASE}/node*/cpulist", f"{BASE}/node*/meminfo"))
DEVICES = Probe("numa.devices", ProbeKind.FILES, paths=(
    f"{BASE}/online", *(f"/sys/bus/pci/drivers/{driver}/*:*/numa_node" for driver in DRIVERS),
))

_DEVICE = re.compile(r"/sys/bus/pci/drivers/(\w+)/([0-9a-f:.]{1,20})/numa_node")
_LINE = re.compile(r"^Node [0-9]{1,5} ([A-Za-z()]{1,40}):\s+([0-9]{1,15}) kB$", re.MULTILINE)
_AVAILABLE = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")


class NumaNode(Fact):
    """One NUMA node ("NUMA node 0"): its number of CPUs and bytes of memory, and how many bytes a program on
    it could get there: free ones, the cache of files, and what the kernel gives back when asked. The memory
    of a Grace superchip's GPU is a node without CPUs."""

    name: str
    cpus: int
    memory_bytes: int
    available_bytes: int


class Affinity(Fact):
    """The number of NUMA nodes, and the GPUs and mlx5 adapters ("nvidia 0000:1b:00.0") with their node, -1
    where firmware gives none.

    `devices` is UNSUPPORTED where no driver has any.
    """

    name: str
    nodes: int
    devices: tuple[tuple[str, int], ...]


def _lines(text: str) -> dict[str, int]:
    return {match[1]: int(match[2]) * 1024 for match in _LINE.finditer(text)}


def _total(text: str) -> int:
    return _lines(text)["MemTotal"]


def _available(text: str) -> Any:
    """UNSUPPORTED where the kernel tells nothing but the total; raises KeyError where a part is not there."""
    found = _lines(text)
    return sum(found[name] for name in _AVAILABLE) if found.keys() & set(_AVAILABLE) else UNSUPPORTED


_NODE = re.compile(r"-1|[0-9]{1,5}")


def _node(text: str) -> int:
    return int(matched(_NODE, text)[0])


@fact("numa_nodes", NODES, each="numa_node")
def numa_nodes(captures: Captures) -> tuple[NumaNode, ...]:
    """Every online node, by number; raises Unread for a kernel without NUMA."""
    files = captures.files(NODES)
    try:
        numbers = cpu_list(files.text(f"{BASE}/online"))
    except ValueError:
        raise Unread(f"{BASE}/online is not in the documented format") from None
    return tuple(NumaNode(f"NUMA node {number}",
                          cpus=files.read(f"{BASE}/node{number}/cpulist", lambda text: len(cpu_list(text))),
                          memory_bytes=files.read(f"{BASE}/node{number}/meminfo", _total),
                          available_bytes=files.read(f"{BASE}/node{number}/meminfo", _available))
                 for number in numbers)


@fact("affinity", DEVICES)
def affinity(captures: Captures) -> Any:
    """The nodes of the devices that move a job's data; Partial where one device's cannot be read."""
    files = captures.files(DEVICES)
    nodes = files.read(f"{BASE}/online", lambda text: len(cpu_list(nonempty(text))))
    found: list[tuple[str, Any]] = []
    for path in files:
        if match := _DEVICE.fullmatch(path):
            found.append((f"{match[1]} {match[2]}", files.read(path, _node)))
    unread = (next((value.reason for _, value in found if isinstance(value, Unmeasured)), None)
              or files.unreadable())
    devices: Any = tuple([one for one in found if not isinstance(one[1], Unmeasured)])
    if not found:
        devices = Unmeasured(unread) if unread else UNSUPPORTED
    return partial_if(Affinity("NUMA", nodes=nodes, devices=devices), unread)
