"""torchrun's failure table and what PyTorch says for each rank: watchdog timeouts,
how far a rank had come, CUDA errors, exceptions.

    Root Cause (first observed failure):
    [0]:
      time      : 2026-11-21_10:03:12
      host      : gpu017
      rank      : 131 (local_rank: 3)
      exitcode  : -9 (pid: 14750)

    [rank4]:[E1121 02:07:08.414640780 ProcessGroupNCCL.cpp:607] [Rank 4]
        Watchdog caught collective operation timeout: WorkNCCL(SeqNum=...
    [rank4]:[E1121 02:07:08.5 ProcessGroupNCCL.cpp:1664] [PG ID 0 PG GUID 0(default_pg) Rank 4] ...
        last enqueued NCCL work: 1582, last ...

Formats: github.com/pytorch/pytorch torch/distributed/elastic/multiprocessing/errors/__init__.py
(ChildFailedError.format_msg), torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp (checkTimeout, logPrefix;
NumelIn since 2.1, 'PG ID' since 2.6). Every agent prints a table of its own, and each has its own 'root
cause'.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from healthcheck.joblog import cuda
from healthcheck.joblog.model import JobEvent, JobEventKind, LogClock

# One of these stands in every line that says something.
_WORDS = ("atchdog", "ast enqueued", "CUDA", "Cuda", " by peer", "remote peer", "imed out", "imeout", "oined",
          "Barrier", "ncclUniqueId", "Error", "Exception", "Interrupt")
_TABLE = re.compile(r"(?:^|\s)(Failures:|Root Cause \(first observed failure\):)\s*$")
_FIELD = re.compile(r"(?:^|\s)(time|host|rank|exitcode|error_file|traceback)\s{1,12}: (\S[^\n]{0,2000})")
_RANK = re.compile(r"^(\d{1,7})(?: \(local_rank: (\d{1,4})\))?")
_CODE = re.compile(r"^(-?\d{1,6})\b")
_WHEN = re.compile(r"^\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d$")
_WATCHDOG = re.compile(
    r"Watchdog caught collective operation timeout: Work\w{1,12}\(SeqNum=(\d{1,15}), OpType=(\w{1,40})")
_PLACE = re.compile(
    r"[Ll]ast enqueued (?:NCCL )?work: (-?\d{1,15}), last completed (?:NCCL )?work: (-?\d{1,20})")
_GROUP = re.compile(r"\[PG (?:ID )?(\d{1,6})(?: PG GUID [^\]\s]{1,120})? Rank (\d{1,7})\]")
_OF_RANK = re.compile(r"\[rank(\d{1,7})\]:|\[Rank (\d{1,7})\]")
_STAMP = re.compile(r"\b[EWIF](\d{1,2})(\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,9})?)")
_EXCEPTION = re.compile(r"^(?:\[rank(\d{1,7})\]:? ?)?"
                        r"((?:[A-Za-z_]\w{0,60}\.){0,8}[A-Za-z_]\w{0,60}(?:Error|Exception|Interrupt)): "
                        r"?(.*)")
# What these say is that another rank, the network, or a process of this one failed.
_ECHOES = ("ChildFailedError", "DistBackendError", "DistNetworkError", "DistStoreError", "DistError",
           "RendezvousConnectionError", "RendezvousTimeoutError", "RendezvousClosedError",
           "RendezvousStateError", "BrokenPipeError", "ConnectionResetError",
           "ConnectionRefusedError", "ConnectionAbortedError", "SignalException", "KeyboardInterrupt",
           "CalledProcessError", "ActorDiedError", "ActorUnavailableError", "NodeDiedError",
           "WorkerCrashedError", "CUDAError", "AcceleratorError")
_ECHO = re.compile(r"(?i:nccl)|ProcessGroup|\bc10d\b|\bgloo\b|process "
                   r"group|monitoredBarrier|store->|TCPStore|[Ss]ocket [Tt]imeout"
                   r"|Broken pipe|[Cc]onnection (?:reset|closed|refused|aborted)|DataLoader "
                   r"worker|collective operation")
_WAITED = re.compile(r"Timed out waiting \d{1,12}ms for|wait timeout after \d{1,12}ms|Timed out after "
                     r"\d{1,9} seconds waiting for"
                     r"|failed to pass monitoredBarrier|retrieving ncclUniqueId from \[\d{1,7}\] via c10d "
                     r"[^\n]{0,200}(?i:time(?:d )?out)")
# Of whom a rank that waited says that he did not come: gloo's key ends in a rank,
# NCCL's id comes from the group's first.
_AWAITED = re.compile(r"\bRanks? (\d{1,7}(?:, ?\d{1,7}){0,2000}) failed to pass monitoredBarrier|keys: "
                      r"\S{0,200}//cpu//\d{1,7}/(\d{1,7})\b"
                      r"|retrieving ncclUniqueId from \[(\d{1,7})\] via")
_JOINED = re.compile(r"\b(\d{1,7})/(\d{1,7}) (?:clients|ranks|workers|nodes) (?:have )?joined"
                     r"|\b(?:clients|ranks|workers|nodes) joined:? (\d{1,7})/(\d{1,7})")
_PEER_GONE = re.compile(r"Connection (?:closed|reset) by (?:remote )?peer(?: \[([^\]\n]{1,80})\])?")
_FAR = re.compile(r"remote=\[([^\]\n]{1,80})\]:\d{1,5}\)")


class Torchrun:
    """What torchrun's and PyTorch's lines of a log tell."""

    form = "torchrun"

    def __init__(self) -> None:
        self.seen = False
        self.hosts: dict[int, str] = {}

    def events(self, lines: Sequence[str], clock: LogClock) -> Iterator[JobEvent]:
        """Failures, timeouts and errors, in the order of the lines."""
        table: str | None = None
        row: dict[str, str] = {}
        for number, line in enumerate(lines, 1):
            heading = _TABLE.search(line)
            if heading is not None:
                table, row, self.seen = heading[1], {}, True
                continue
            if table is not None and (field := _FIELD.search(line)) is not None:
                row[field[1]] = field[2].strip()
                if field[1] == "traceback":
                    yield from self._failure(row, table.startswith("Root"), number, clock)
                    row = {}
                continue
            if table is not None and line.strip().startswith("==="):
                table = None
            yield from self._message_events(line, number, clock)

    def _failure(self, row: dict[str, str], first: bool, line: int, clock: LogClock) -> Iterator[JobEvent]:
        rank, code = _RANK.match(row.get("rank", "")), _CODE.match(row.get("exitcode", ""))
        if rank is None or code is None:
            return
        host = row.get("host", "")
        self.hosts.setdefault(int(rank[1]), host)
        when = row.get("time", "")
        time = clock.iso(when) if _WHEN.match(when) else None
        text = f"rank {rank[1]} on {host}: exitcode {row['exitcode']}, {row.get('traceback', '')}"
        yield JobEvent(JobEventKind.EXIT, text, line, host, int(rank[1]), time,
                       int(rank[2]) if rank[2] else None, code=int(code[1]), first=first)

    def _message_events(self, line: str, number: int, clock: LogClock) -> Iterator[JobEvent]:
        if not any(word in line for word in _WORDS):
            return
        named = _OF_RANK.search(line)
        rank = int(named[1] or named[2]) if named is not None else None
        stamp = _STAMP.search(line)
        time = clock.at(None, int(stamp[1]), int(stamp[2]), stamp[3]) if stamp is not None else None
        place, group = _PLACE.search(line), _GROUP.search(line)
        name = group[1] if group is not None else "0"
        # The rank of a line's own prefix is that of the job; the one behind PG counts within its group.
        if rank is None and group is not None and name == "0":
            rank = int(group[2])
        watchdog = _WATCHDOG.search(line)
        if watchdog is not None and "terminated with exception" not in line:
            self.seen = True
            yield JobEvent(JobEventKind.TIMEOUT, line.strip(), number, "", rank, time,
                           group=name if group is not None else "", work=int(watchdog[1]), op=watchdog[2])
        if place is not None:
            self.seen = True
            yield JobEvent(JobEventKind.ENTERED, line.strip(), number, "", rank, time, group=name,
                           work=int(place[1]), done=done if 0 <= (done := int(place[2])) <= int(place[1])
                           else None)
        if watchdog is not None or place is not None or "NCCL WARN" in line:
            return
        found = cuda.said(line)
        if found is not None:
            yield JobEvent(found[0], found[1], number, "", rank, time)
        elif (joined := _JOINED.search(line)) is not None or _WAITED.search(line) is not None:
            counts = (tuple(int(one) for one in joined.groups() if one is not None) if joined is not None
                      else ())
            yield JobEvent(JobEventKind.TIMEOUT, line.strip(), number, "", rank, time, awaited=_awaited(line),
                           joined=(counts[0], counts[1]) if counts else None)
        elif (gone := _PEER_GONE.search(line)) is not None:
            far = gone[1] or (match[1] if (match := _FAR.search(line)) is not None else "")
            yield JobEvent(JobEventKind.PEER, line.strip(), number, "", rank, time, peer=far)
        elif (raised := _EXCEPTION.match(line.strip())) is not None:
            name = raised[2].rpartition(".")[2]
            # a web server is no rank
            echo = _ECHO.search(raised[3]) is not None and "HTTP" not in raised[3]
            if name not in _ECHOES and not name.startswith("nccl") and not echo:
                yield JobEvent(JobEventKind.EXCEPTION, f"{raised[2]}: {raised[3]}", number, "",
                               int(raised[1]) if raised[1] else rank, time)


def _awaited(line: str) -> tuple[int, ...]:
    match = _AWAITED.search(line)
    if match is None:
        return ()
    named = next(filter(None, match.groups()))
    return tuple(dict.fromkeys(int(one) for one in re.findall(r"\d+", named)))
