"""Slurm's own lines in a job's output: tasks that ended, processes killed for memory, nodes lost,
and why a job was cancelled.

    srun: error: gpu007: tasks 56-63: Out Of Memory
    slurmstepd: error: *** STEP 440575.0 ON gpu001 CANCELLED AT 2026-11-21T07:16:01 DUE TO TIME LIMIT ***
    srun: error: Node failure on gpu017

Formats: github.com/SchedMD/slurm src/slurmd/slurmstepd/req.c (_handle_signal_container),
src/slurmd/slurmstepd/mgr.c and src/plugins/task/cgroup (oom_kill), src/srun/libsrun/{launch,allocate}.c;
examples as seen at chrisknewman/tusas#149 and nebius/soperator#854.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence

from healthcheck.joblog.model import JobEvent, JobEventKind, LogClock
from inventory.errors import InventoryError
from inventory.nodeset import expand

_TASKS = re.compile(
    r"srun: error: (?P<nodes>[\w.\[\],-]{1,400}): tasks? (?P<tasks>[\d,-]{1,200}): (?P<text>[^\n]{1,200})")
_OOM = re.compile(
    r"slurmstepd(?:-(?P<node>[\w.-]{1,100}))?: error: [^\n]{0,80}?Detected \d{1,9} oom[_-]kill event")
_ENDED = re.compile(r"\*\*\* (?P<what>JOB|STEP) [\w.+]{1,40} ON (?P<node>[\w.-]{1,253}) "
                    r"(?:CANCELLED AT (?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)"
                    r"(?: DUE TO (?P<why>[A-Z ]{3,40}))?|FAILED \(|(?P<ume>UNCORRECTABLE MEMORY ERROR) AT "
                    r"(?P<at>\S{19}))")
_LOST = re.compile(r"(?:srun|salloc): error: Node failure on (?P<nodes>[\w.\[\],-]{1,400})")
_LAUNCH = re.compile(r"srun: error: (?:Task launch for \S{1,60} failed on node "
                     r"(?P<node>[\w.-]{1,253})|[^\n]{0,40}task \d+ launch failed)"
                     r"[^\n]{0,200}")
_WHY = {"TIME LIMIT": JobEventKind.TIME_LIMIT, "PREEMPTION": JobEventKind.PREEMPTED,
        "NODE FAILURE": JobEventKind.NODE_FAIL, "JOB REQUEUE": JobEventKind.REQUEUED}
_CODE = re.compile(r"Exited with exit code (\d{1,3})")
# strsignal's words, which srun prints of a task that a signal ended.
_SIGNALS = {"Killed": signal.SIGKILL, "Segmentation fault": signal.SIGSEGV, "Bus error": signal.SIGBUS,
            "Aborted": signal.SIGABRT, "Terminated": signal.SIGTERM,
            "Floating point exception": signal.SIGFPE, "Illegal instruction": signal.SIGILL}
_MOST_NODES = 64


class SlurmMessages:
    """What Slurm's lines of a job's output tell."""

    form = "Slurm"

    def __init__(self) -> None:
        self.seen = False
        self.hosts: dict[int, str] = {}

    def events(self, lines: Sequence[str], clock: LogClock) -> Iterator[JobEvent]:
        """How tasks and the job ended, in the order of the lines."""
        for number, line in enumerate(lines, 1):
            if "srun" not in line and "slurmstepd" not in line and "salloc" not in line:
                continue
            for event in self._message_events(line, number, clock):
                self.seen = True
                yield event

    def _message_events(self, line: str, number: int, clock: LogClock) -> Iterator[JobEvent]:
        if (tasks := _TASKS.search(line)) is not None:
            yield from self._tasks(tasks, number)
        elif (oom := _OOM.search(line)) is not None:
            yield JobEvent(JobEventKind.OOM, line.strip(), number, oom["node"] or "")
        elif (ended := _ENDED.search(line)) is not None:
            time = clock.iso(ended["time"]) if ended["time"] else None
            if ended["ume"]:
                yield JobEvent(JobEventKind.MEMORY_ERROR, ended["ume"], number, ended["node"])
            elif ended["time"]:
                kind = _WHY.get((ended["why"] or "").strip(),
                                JobEventKind.CANCELLED if ended["what"] == "JOB"
                                else JobEventKind.STEP_CANCELLED)
                # Who prints this is the step's first node; which node failed, it does not say.
                yield JobEvent(kind, line.strip(), number,
                               "" if kind is JobEventKind.NODE_FAIL else ended["node"], time=time)
        elif (lost := _LOST.search(line)) is not None:
            for node in _nodes(lost["nodes"]):
                yield JobEvent(JobEventKind.NODE_FAIL, line.strip(), number, node)
        elif (launch := _LAUNCH.search(line)) is not None:
            yield JobEvent(JobEventKind.LAUNCH, line.strip(), number, launch["node"] or "")

    def _tasks(self, match: re.Match[str], number: int) -> Iterator[JobEvent]:
        text, nodes = match["text"].strip(), _nodes(match["nodes"])
        if text.startswith("Out Of Memory"):
            yield from (JobEvent(JobEventKind.OOM, f"task {match['tasks']}: {text}", number, node)
                        for node in nodes)
            return
        code = _CODE.match(text)
        exit_code = (int(code[1]) if code is not None
                     else next((-value for word, value in _SIGNALS.items() if text.startswith(word)), None))
        if exit_code is None or exit_code == 0:
            return
        rank = int(match["tasks"]) if match["tasks"].isdecimal() and len(nodes) == 1 else None
        for node in nodes:
            if rank is not None:
                self.hosts.setdefault(rank, node)
            yield JobEvent(JobEventKind.EXIT, f"task {match['tasks']}: {text}", number, node, rank,
                           code=int(exit_code))


def _nodes(text: str) -> list[str]:
    """The nodes of a list as Slurm writes it, at most 64."""
    try:
        return list(expand(text))[:_MOST_NODES]
    except InventoryError:
        return [text]
