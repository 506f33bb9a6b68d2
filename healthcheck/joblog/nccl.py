"""NCCL's own lines: who is which rank on which node, and its warnings.

    node7:812:934 [3] NCCL INFO comm 0x55f0 rank 59 nranks 64 cudaDev 3 nvmlDev 3 busId 9b000 ...
        commId 0x5ae7 - Init COMPLETE
    [2026-11-21 10:00:00] node7:812:934 [3] transport/net_ib.cc:1295 NCCL WARN NET/IB :
        Got completion from peer 10.0.0.8<51159> with ...

Host, process, thread and CUDA device come first (src/debug.cc; a time before them since 2.26,
NCCL_DEBUG_TIMESTAMP_FORMAT); launchers put words of their own before that. Formats: github.com/NVIDIA/nccl
src/debug.cc, src/init.cc, src/transport/net_ib, src/misc/socket.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from healthcheck.joblog import cuda
from healthcheck.joblog.model import JobEvent, JobEventKind, LogClock

_LINE = re.compile(
    r"(?:(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?)\]? "
    r")?(?<![\w.-])(?P<host>[A-Za-z0-9][\w.-]{0,252}):\d{1,10}:\d{1,10} "
    r"\[(?P<device>-?\d{1,3})\] (?P<place>[\w./-]{1,120}:\d{1,6} )?NCCL (?P<level>WARN|INFO) (?P<text>.*)")
_COMM = re.compile(r"\bcomm 0x[0-9a-f]+ rank (\d{1,7}) n[rR]anks (\d{1,7}) ")
# A peer by its socket's address, or by the GID of its adapter where that is all that a line names.
_PEER = re.compile(r"\b(?:peer|from|to) \[?([\w.:%-]{1,80}?)(?:\]:\d{1,5}|<\d{1,5}>)")
_GIDS = re.compile(
    r"local ?G(?:ID|id) ([0-9a-fA-F:.]{3,45})[ ,]{1,3}remote ?G(?:ID|id)s? ?([0-9a-fA-F:.]{3,45})")
_ADAPTER = re.compile(r"\bhca '?([\w.:-]{1,40})|NET/IB ?: ?(\w{1,40}:\d{1,3})\b|\bdev (\w{1,40}:\d{1,3})\b"
                      r"|for HCA \d{1,3} '([\w.:-]{1,40})'")
# Bootstrap: Using eth0:10.0.0.17<0>; NET/Socket : Using [0]eth0:10.0.0.17<0>; NET/IB : Using ...;
# OOB eth0:10.0.0.17<0>.
_ADDRESS = re.compile(r"(?:Using|OOB) [^\n]{0,400}?\b[\w.-]{1,20}:([0-9a-fA-F.:]{3,40})<\d{1,5}>")
_NETWORK = re.compile(r"NET/IB\w{0,8} ?(?:/GIN)?: ?(?:\w{1,40}:\d{1,3} )?(?:Got completion|[^\n]{0,80}async)"
                      r"|[Gg]ot async event|NET/IB[^\n]{0,120}(?:timed? ?out|error)"
                      r"|ibv_\w+ failed|Call to connect[^\n]{0,80}(?:timed out|No route to "
                      r"host|unreachable|refused)|No route to host")
_CLOSED = re.compile(
    r"[Cc]onnection (?:closed|reset) by (?:remote )?peer|Connection reset|Socket recv failed|Broken pipe"
    r"|remote process exited")
_SETUP = re.compile(r"[Nn]o socket interface|Bootstrap : no|Mismatched NCCL version|NCCL version mismatch|No "
                    r"(?:IB|RDMA) device"
                    r"|not found in|Failed to open libibverbs|[Cc]ould not find|no device found|No such "
                    r"device")


class Nccl:
    """What the NCCL lines of a log tell: events as they come, and the ranks that were named on the way."""

    form = "NCCL"

    def __init__(self) -> None:
        self.seen = False
        self._comms: dict[int, dict[int, str]] = {}
        self.ranks: dict[tuple[str, int], int] = {}
        self.heard: set[str] = set()
        self._at: dict[str, str] = {}
        self._far: dict[str, str] = {}

    def events(self, lines: Sequence[str], clock: LogClock) -> Iterator[JobEvent]:
        """Warnings, in the order of the lines."""
        for number, line in enumerate(lines, 1):
            if "NCCL " not in line:
                continue
            match = _LINE.search(line)
            if match is None:
                continue
            self.seen = True
            host, device, text = match["host"], int(match["device"]), match["text"]
            self.heard.add(host)
            if match["level"] == "INFO":
                if (comm := _COMM.search(text)) is not None:
                    rank, size = int(comm[1]), int(comm[2])
                    of = self._comms.setdefault(size, {})
                    of.setdefault(rank, host)
                    if size == max(self._comms):
                        self.ranks[host, device] = rank
                elif "Using " in text and (own := _ADDRESS.search(text)) is not None:
                    self._at.setdefault(own[1], host)
                continue
            time = clock.iso(match["time"]) if match["time"] else None
            far = _address(text)
            if (gids := _GIDS.search(text)) is not None:
                self._at.setdefault(gids[1], host)
                if far:
                    self._far.setdefault(far, gids[2])
                far = far or gids[2]
            part = _ADAPTER.search(text)
            yield JobEvent(_kind(text), text, number, host, self.ranks.get((host, device)), time,
                           device if device >= 0 else None, far,
                           part=next(filter(None, part.groups())) if part is not None else "")

    @property
    def world(self) -> int | None:
        """How many ranks the largest communicator has."""
        return max(self._comms, default=None)

    @property
    def hosts(self) -> dict[int, str]:
        """The host of each rank of the largest communicator."""
        return self._comms[max(self._comms)] if self._comms else {}

    @property
    def addresses(self) -> dict[str, str]:
        """The host of each address and GID, as far as lines tell:
        of a peer by the GID that it itself names as its own."""
        return {**{address: self._at[gid] for address, gid in self._far.items() if gid in self._at},
                **self._at}


def far_end(text: str) -> str:
    """The peer's address or GID in NCCL's words, which PyTorch and JAX repeat; empty where not named."""
    gids = _GIDS.search(text)
    return _address(text) or (gids[2] if gids is not None else "")


def _address(text: str) -> str:
    peer = _PEER.search(text)
    return peer[1] if peer is not None else ""


def _kind(text: str) -> JobEventKind:
    found = cuda.said(text)
    if found is not None:
        return found[0]
    if _CLOSED.search(text):
        return JobEventKind.PEER
    if _NETWORK.search(text):
        return JobEventKind.NETWORK
    return JobEventKind.SETUP if _SETUP.search(text) else JobEventKind.NCCL
