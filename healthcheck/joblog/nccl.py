"""NCCL's own lines: who is which rank on which node, and its warnings.

    node7:812:934 [3] NCCL INFO comm 0x55f0 rank 59 nranks 64 cudaDev 3 nvmlDev 3 busId 9b000 commId 0x5ae7 - Init COMPLETE
    [2026-11-21 10:00:00] node7:812:934 [3] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.8<51159> with ...

Host, process, thread and CUDA device come first (src/debug.cc; a time before them since 2.26, NCCL_DEBUG_TIMESTAMP_FORMAT); launchers put
words of their own before that. Formats: github.com/NVIDIA/nccl src/debug.cc, src/init.cc, src/transport/net_ib, src/misc/socket.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from healthcheck.joblog import cuda
from healthcheck.joblog.model import Clock, JobEvent, Kind

_LINE = re.compile(
    r"(?:(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?)\]? )?(?<![\w.-])(?P<host>[A-Za-z0-9][\w.-]{0,252}):\d{1,10}:\d{1,10} "
    r"\[(?P<device>-?\d{1,3})\] (?P<place>[\w./-]{1,120}:\d{1,6} )?NCCL (?P<level>WARN|INFO) (?P<text>.*)")
_COMM = re.compile(r"\bcomm 0x[0-9a-f]+ rank (\d{1,7}) n[rR]anks (\d{1,7}) ")
_PEER = re.compile(r"peer ([\w.:%\[\]-]{1,80}?)<\d{1,5}>")
_NETWORK = re.compile(r"NET/IB ?(?:/GIN)?: ?(?:Got completion|[^\n]{0,80}async)|[Gg]ot async event|NET/IB[^\n]{0,120}(?:timed? ?out|error)"
                      r"|ibv_\w+ failed|Call to connect[^\n]{0,80}(?:timed out|No route to host|unreachable|refused)|No route to host")
_CLOSED = re.compile(r"[Cc]onnection (?:closed|reset) by (?:remote )?peer|Connection reset|Socket recv failed|Broken pipe"
                     r"|remote process exited")
_SETUP = re.compile(r"[Nn]o socket interface|Bootstrap : no|Mismatched NCCL version|NCCL version mismatch|No (?:IB|RDMA) device"
                    r"|not found in|Failed to open libibverbs|[Cc]ould not find|no device found|No such device")


class Nccl:
    """What the NCCL lines of a log tell: events as they come, and the ranks that were named on the way."""

    form = "NCCL"

    def __init__(self) -> None:
        self.seen = False
        self._comms: dict[int, dict[int, str]] = {}

    def events(self, lines: Sequence[str], clock: Clock) -> Iterator[JobEvent]:
        """Warnings, in the order of the lines."""
        ranks: dict[tuple[str, str], int] = {}
        for number, line in enumerate(lines, 1):
            if "NCCL " not in line:
                continue
            match = _LINE.search(line)
            if match is None:
                continue
            self.seen = True
            host, device, text = match["host"], match["device"], match["text"]
            if match["level"] == "INFO":
                if (comm := _COMM.search(text)) is not None:
                    rank, size = int(comm[1]), int(comm[2])
                    of = self._comms.setdefault(size, {})
                    of.setdefault(rank, host)
                    if size == max(self._comms):
                        ranks[host, device] = rank
                continue
            time = clock.iso(match["time"]) if match["time"] else None
            peer = _PEER.search(text)
            yield JobEvent(_kind(text), text, number, host, ranks.get((host, device)), time, int(device) if device[0] != "-" else None,
                           peer[1] if peer is not None else "")

    @property
    def world(self) -> int | None:
        """How many ranks the largest communicator has."""
        return max(self._comms, default=None)

    @property
    def hosts(self) -> dict[int, str]:
        """The host of each rank of the largest communicator."""
        return self._comms[max(self._comms)] if self._comms else {}


def _kind(text: str) -> Kind:
    found = cuda.said(text)
    if found is not None:
        return found[0]
    if _CLOSED.search(text):
        return Kind.PEER
    if _NETWORK.search(text):
        return Kind.NETWORK
    return Kind.SETUP if _SETUP.search(text) else Kind.NCCL
