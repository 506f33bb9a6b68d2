"""Binds a rank to cores and memory of its GPU's NUMA node: far memory copies slowly. Python 3.8.

Documentation/ABI: /sys/bus/pci/devices/*/numa_node, /sys/devices/system/node/node*/cpulist; set_mempolicy(2).
It was not run with a GPU on a machine of several NUMA nodes.
"""

from __future__ import annotations

import ctypes
import glob
import os

MPOL_BIND = 2
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}     # numbers of the system call
NOT_BOUND = "not bound: "


def numa_bound(address: str, root: str = "/sys") -> str:
    """Binds this thread, and all it starts, to the PCI device's NUMA node; the result for the report. Where
    memory's policy may not be set (no CAP_SYS_NICE), memory is near the cores which touch it first."""
    cores = {int(path.rpartition("node")[2]): cpus_of(first_line(path + "/cpulist"))
             for path in glob.glob(root + "/devices/system/node/node[0-9]*")}
    if sum(bool(cpus) for cpus in cores.values()) < 2:
        return "one node"
    if not address:
        return NOT_BOUND + "PyTorch does not report the GPU's PCI address"
    text = first_line("%s/bus/pci/devices/%s/numa_node" % (root, address))
    if not text.isdecimal() or not cores.get(int(text)):
        return NOT_BOUND + "the kernel reports no NUMA node of %s (%s)" % (address, text or "nothing")
    node = int(text)
    usable = cores[node] & os.sched_getaffinity(0)
    if not usable:
        return NOT_BOUND + "this process may use none of the cores of node %d" % node
    os.sched_setaffinity(0, usable)
    trouble = memory_bound(node)
    return "node %d%s" % (node, ", by its cores only: %s" % trouble if trouble else "")


def memory_bound(node: int) -> str:
    """Binds the calling thread's memory to this node; why it failed, or ""."""
    number = SET_MEMPOLICY.get(os.uname().machine)
    if number is None:
        return "the system call is not known here"
    words = (ctypes.c_ulong * (node // 64 + 1))()
    words[node // 64] = 1 << node % 64
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(number), ctypes.c_int(MPOL_BIND), words,
                    ctypes.c_ulong(64 * len(words) + 1)):
        return os.strerror(ctypes.get_errno())
    return ""


def cpus_of(text: str) -> set[int]:
    """The numbers of a list such as 0-27,56-83; none for any other text."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal() and int(last or first) < 1 << 16:
            found.update(range(int(first), int(last or first) + 1))
    return found


def first_line(path: str) -> str:
    """Of a file of the kernel; "" where it cannot be read."""
    try:
        with open(path) as file:
            return file.readline(65536).strip()
    except OSError:
        return ""
