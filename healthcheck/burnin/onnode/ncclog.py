"""Reads NCCL's log (in an unnamed file): transports, network, algorithm and protocol. Python 3.8.

NCCL opens the path that NCCL_DEBUG_FILE names, which here leads to memory of this process. A channel's line
says how it goes: "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA", or P2P and SHM within a node
(src/transport/*.cc). That NET/IB is named elsewhere says nothing ("NET/IB : No device found"). With the
subsystem TUNING its first rank logs a line for each collective, "AllReduce: 64 Bytes -> Algo RING proto LL
channel{Lo..Hi}={0..0}" or, before 2.22, with numbers and without the collective's name, "64 Bytes -> Algo 1
proto 0 time 9.6" (src/enqueue.cc, src/include/nccl_common.h).
"""

from __future__ import annotations

import collections
import os
import re
from typing import Any

MOST_LOG = 4 << 20
MOST_CHOICES = 256 << 10    # bytes of log that are read for one size
MOST_TRANSPORTS = 6
# The number of the device is left out: a node has many.
VIA = re.compile(rb" via ((?:NET|P2P|SHM|COLLNET|COLL)/[A-Za-z][A-Za-z ._-]{0,30})")
CHOICE = re.compile(rb"(?:AllReduce|NCCL INFO)[: ] *(\d{1,15}) Bytes -> Algo (\w{1,24}) proto (\w{1,12})")
ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
PROTOCOLS = ("LL", "LL128", "SIMPLE")


class NcclLog:
    """Reads NCCL's log; without NCCL_DEBUG, or where the site writes it elsewhere, there is none."""

    def __init__(self, environment: Any) -> None:
        self.file = -1
        if "NCCL_DEBUG" in environment and "NCCL_DEBUG_FILE" not in environment:
            self.file = os.memfd_create("nccl")
            environment["NCCL_DEBUG_FILE"] = "/proc/self/fd/%d" % self.file

    def facts(self) -> dict[str, str]:
        """What the log shows; {} without one."""
        return shown(os.pread(self.file, MOST_LOG, 0)) if self.file >= 0 else {}

    def length(self) -> int:
        """The bytes logged so far."""
        return os.fstat(self.file).st_size if self.file >= 0 else 0

    def chosen(self, size: int, since: int) -> str:
        """Algorithm and protocol of all-reduces of this size, logged since: "RING/LL"; "": unknown."""
        return choice(os.pread(self.file, MOST_CHOICES, since), size) if self.file >= 0 else ""


def shown(log: bytes) -> dict[str, str]:
    """The channels' transports with their number, how many of them reach GPU memory by RDMA, and NVLS."""
    if not log:
        return {"nccl_log": "nothing was logged"}
    lines = log.split(b"\n")
    via = collections.Counter(kind.decode("ascii").rstrip() for kind in VIA.findall(log))
    often = sorted(via.most_common(MOST_TRANSPORTS))
    return {"nccl_via": ", ".join("%s %d" % pair for pair in often) or "none",
            "nccl_gdrdma": str(sum(b"/GDRDMA" in line for line in lines)),
            "nccl_nvls": str(sum(b"NVLS" in line for line in lines))}


def choice(log: bytes, size: int) -> str:
    """The algorithm and protocol that these lines name most often for a size ("" for none): at 8 bytes they
    include our own agreements, which are fewer than the timed ones."""
    found = collections.Counter((algorithm, protocol) for of, algorithm, protocol in CHOICE.findall(log)
                    if int(of) == size)
    if not found:
        return ""
    ((algorithm, protocol), _), = found.most_common(1)
    return "%s/%s" % (named(algorithm, ALGORITHMS), named(protocol, PROTOCOLS))


def named(word: bytes, names: Any) -> str:
    """NCCL's name in capitals; an unknown number stays a number."""
    text = word.decode("ascii", "replace")
    return names[int(text)] if text.isdigit() and int(text) < len(names) else text.upper()
