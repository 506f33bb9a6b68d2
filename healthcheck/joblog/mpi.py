"""What launchers other than srun and torchrun say of processes that ended: Open MPI with ORTE or PRRTE,
MPICH's Hydra, pdsh and clush.

    MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
    mpirun noticed that process rank 2 with PID 4711 on node gpu003 exited on signal 9 (Killed).
    ORTE has lost communication with a remote daemon.
      Remote daemon: [[59124,0],2] on node gpu003

Open MPI 5 (PRRTE) says the same in its own name, and breaks lines elsewhere. Formats: open-mpi/ompi 4.1
orte/tools/orterun/ help-orterun.txt, orte/mca/errmgr/base/help-errmgr-base.txt, ompi/mpi/help-mpi-api.txt
(recorded: tests/recordings/blame); openpmix/prrte src/docs/show-help-files and src/mca/errmgr/base; MPICH
src/pm/hydra; pdsh src/common/wcoll and dsh.c; ClusterShell clush.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from healthcheck.joblog.model import JobEvent, JobEventKind, LogClock

_WORDS = ("MPI_ABORT", "MPI_Abort", "noticed that process", "exited with non-zero status",
          "lost communication with a remote", "daemon has unexpectedly failed", "unable to reliably start",
          "YOUR APPLICATION TERMINATED", "APPLICATION TERMINATED WITH", "exited with exit code",
          "application called MPI_Abort", "KILLED BY SIGNAL")
_ABORT = re.compile(r"MPI_ABORT was invoked on rank (\d{1,7}) in communicator"
                    r"|application called MPI_Abort\([^\n)]{1,60}\) - process (\d{1,7})")
_CODE = re.compile(
    r"(?:with errorcode |Errorcode: |Exit code: {1,8}|EXIT CODE: {1,4}|EXIT STRING: {1,4})(-?\d{1,10})")
_NOTICED = re.compile(r"noticed that process (?:rank )?(?:\[[^\]\s]{1,200},)?(\d{1,7})\]? with PID \d{1,10} "
                      r"on node ([\w.-]{1,253}) "
                      r"exited on signal (\d{1,3})")
_NONZERO = "exited with non-zero status"
_NAMED = re.compile(r"Process name: {1,8}\[(?:\[\d{1,10},\d{1,10}\]|[\w.@-]{1,200}),(\d{1,7})\]")
_LOST = re.compile(r"(?:ORTE|PRT?E|PRRTE) has lost communication with a remote daemon")
_REMOTE = re.compile(r"Remote daemon: {1,4}\S{1,200} on node ([\w.-]{1,253})")
_FAILED = re.compile(r"An? (?:ORTE|PRT?E|PRRTE|prted|orted) daemon has unexpectedly failed"
                     r"|was unable to reliably start one or more daemons")
_HYDRA_AT = re.compile(
    r"RANK (\d{1,7}) PID \d{1,10} RUNNING AT ([\w.-]{1,253})|PID \d{1,10} RUNNING AT ([\w.-]{1,253})")
_HYDRA_SIGNAL = re.compile(r"KILLED BY SIGNAL: (\d{1,3})")
_SHELL = re.compile(r"^(?:pdsh@[\w.-]{1,253}: (?P<pdsh>[\w.-]{1,253}): ssh|clush: "
                    r"(?P<clush>[\w.,\[\]-]{1,253}):) exited with exit code "
                    r"(?P<code>\d{1,3})")
_NEAR = 12              # lines that belong to one notice


class Mpi:
    """What launchers say of how processes ended, in the order of the lines."""

    form = "MPI launcher"

    def __init__(self) -> None:
        self.seen = False
        self.hosts: dict[int, str] = {}

    def events(self, lines: Sequence[str], clock: LogClock) -> Iterator[JobEvent]:
        """One event for each notice."""
        for number, line in enumerate(lines, 1):
            if any(word in line for word in _WORDS) or "RUNNING AT" in line:
                for event in self._message_events(line, lines[number:number + _NEAR], number):
                    self.seen = True
                    if event.rank is not None and event.node:
                        self.hosts.setdefault(event.rank, event.node)
                    yield event

    def _message_events(self, line: str, after: Sequence[str], number: int) -> Iterator[JobEvent]:
        # PRRTE breaks this line in two.
        joined = f"{line.strip()} {after[0].strip()}" if after else line.strip()
        if (abort := _ABORT.search(line)) is not None:
            code = _CODE.search(" ".join(after[:4]))
            rank = int(abort[1] or abort[2])
            yield JobEvent(JobEventKind.ABORT, line.strip(), number, "", rank,
                           code=int(code[1]) if code is not None else None)
        elif (noticed := _NOTICED.search(joined)) is not None:
            yield JobEvent(JobEventKind.EXIT, joined if noticed.end() > len(line.strip()) else line.strip(),
                           number, noticed[2], int(noticed[1]), code=-int(noticed[3]), first=True)
        elif _NONZERO in line:
            block = "\n".join(after)
            name, code = _NAMED.search(block), _CODE.search(block)
            if name is not None and code is not None:
                yield JobEvent(JobEventKind.EXIT, f"rank {name[1]}: exit code {code[1]}", number, "",
                               int(name[1]), code=int(code[1]), first=True)
        elif _LOST.search(line) is not None:
            remote = next((match for row in after if (match := _REMOTE.search(row)) is not None), None)
            yield JobEvent(JobEventKind.DAEMON,
                           f"{line.strip()} {remote[0] if remote is not None else ''}".strip(), number,
                           remote[1] if remote is not None else "")
        elif _FAILED.search(line) is not None:
            yield JobEvent(JobEventKind.DAEMON_START, line.strip(), number)
        elif (at := _HYDRA_AT.search(line)) is not None:
            block = "\n".join(after)
            signal, code = _HYDRA_SIGNAL.search(line + block), _CODE.search(block)
            ended = -int(signal[1]) if signal is not None else int(code[1]) if code is not None else None
            if ended is not None:
                yield JobEvent(JobEventKind.EXIT, line.strip(" ="), number, at[2] or at[3],
                               int(at[1]) if at[1] else None, code=ended, first=True)
        elif (shell := _SHELL.match(line)) is not None and shell["code"] != "0":
            yield JobEvent(JobEventKind.EXIT, line.strip(), number, shell["pdsh"] or shell["clush"],
                           code=int(shell["code"]))
