"""What the scheduler knows of one job: nodes, times and end,
from `sacct`, or from `scontrol show job` without accounting.

Formats: sacct(1) of Slurm 22.05 (-P; times by SLURM_TIME_FORMAT, in UTC as `inventory.discover` asks; job
states; ExitCode is code:signal) and scontrol(1) show job, which forgets a job MinJobAge (300 s) after its
end. Of an exit code above 128, as a shell gives a signal, sacct takes 128 off.
"""

from __future__ import annotations

import calendar
import re
import shutil
import time
from dataclasses import dataclass
from itertools import zip_longest

from inventory.discover import Run, output
from inventory.errors import InventoryError, UsageError
from inventory.nodeset import expand
from inventory.text import clean, short

_FIELDS = ("JobID", "State", "ExitCode", "Submit", "Start", "End", "User", "NodeList")
_FAILED = "FailedNode"
_ID = re.compile(r"[0-9]{1,10}(?:_[0-9]{1,10})?(?:\+[0-9]{1,4})?")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_SHOWN = re.compile(r"^(?:   )?(JobState|UserId|Requeue|SubmitTime|StartTime|NodeList|FailedNode)=",
                    re.MULTILINE)
_OUTPUT = re.compile(r"^   Std(?:Out|Err)=([^\n]{1,4096})$", re.MULTILINE)
_WORD = re.compile(r"(?:^|\s)(JobState|Reason|UserId|Restarts|ExitCode|SubmitTime|StartTime|EndTime|NodeList|"
                   r"FailedNode)=(\S*)")


@dataclass(frozen=True)
class JobStep:
    """One step of a job: its name within it ("0", "batch"), state, exit code and signal, and nodes."""

    name: str
    state: str
    code: int
    signal: int
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Job:
    """One job, or of a job that was requeued its last run. Times are epoch seconds or None. `state` is
    Slurm's name (COMPLETED, FAILED, NODE_FAIL ...), `by` who cancelled it, `failed` the nodes that the
    scheduler itself lost, `requeues` the runs before this one, `source` the command that was asked."""

    id: str
    state: str
    code: int
    signal: int
    submitted: float | None
    started: float | None
    ended: float | None
    user: str
    nodes: tuple[str, ...]
    failed: tuple[str, ...] = ()
    by: str = ""
    requeues: int = 0
    steps: tuple[JobStep, ...] = ()
    source: str = "sacct"


def job(number: str, run: Run | None = None) -> Job:
    """The record of a job. Raises UsageError, one line with the next step, where there is none."""
    if _ID.fullmatch(number) is None:
        raise UsageError(f"{short(number)} is not a job id, expected one such as 4711 or 4711_3")
    if run is None and shutil.which("sacct") is None:
        raise UsageError("sacct was not found; run this where Slurm's commands are, or name the nodes: "
                         "muster blame --nodes 'gpu[001-016]' --since T --until T")
    try:
        return by_sacct(number, run)
    except UsageError as first:
        try:
            return by_scontrol(number, run)
        except UsageError as second:
            raise UsageError(f"job {number} is unknown: {_why(first)}; {_why(second)}; without a record: "
                             "muster blame --nodes N --since T --until T") from None


def _why(problem: UsageError) -> str:
    return str(problem).partition("; see: ")[0]


def by_sacct(number: str, run: Run | None = None) -> Job:
    """The record that slurmdbd keeps."""
    try:
        text = _sacct((*_FIELDS, _FAILED), number, run)
    except UsageError as problem:
        if _FAILED not in str(problem):
            raise
        text = _sacct(_FIELDS, number, run)     # Slurm 22.05 has no such field
    return parse_sacct(text, number)


def _sacct(fields: tuple[str, ...], number: str, run: Run | None) -> str:
    # --duplicates: a job that was requeued is several records, of which the last is its last run.
    asked = ("sacct", "-P", "--duplicates", "-j", number, f"--format={','.join(fields)}")
    return output(asked, run).decode("utf-8", "backslashreplace")


def parse_sacct(text: str, number: str) -> Job:
    """The job in what `sacct -P` printed, with its header."""
    lines = [line.split("|") for line in text.split("\n") if line.strip()]
    header = lines[0] if lines else []
    rows = [dict(zip_longest(header, line[:len(header)], fillvalue="")) for line in lines[1:]]
    if not set(_FIELDS) <= set(header):
        raise UsageError(f"sacct printed {short(text[:60])}, expected lines of {'|'.join(_FIELDS)}")
    runs = [at for at, row in enumerate(rows) if "." not in row["JobID"]]
    if not runs:
        raise UsageError(
            f"sacct has no job {number} (it may hide other users' jobs; try: sacct --allusers -j {number})")
    row = rows[runs[-1]]
    state, by = _state(row["State"])
    code, signal = _exit(row["ExitCode"])
    steps = tuple(_step(one) for one in rows[runs[-1] + 1:])
    return Job(number, state, code, signal, _time(row["Submit"]), _time(row["Start"]), _time(row["End"]),
               clean(row["User"], 64), _nodes(row["NodeList"]), _nodes(row.get(_FAILED, "")), by,
               len(runs) - 1, steps)


def _step(row: dict[str, str]) -> JobStep:
    code, signal = _exit(row["ExitCode"])
    return JobStep(clean(row["JobID"].partition(".")[2], 40), _state(row["State"])[0], code, signal,
                   _nodes(row["NodeList"]))


def by_scontrol(number: str, run: Run | None = None) -> Job:
    """What slurmctld still remembers."""
    return parse_scontrol(
        output(("scontrol", "show", "job", number), run).decode("utf-8", "backslashreplace"), number)


def parse_scontrol(text: str, number: str) -> Job:
    """The job that `scontrol show job` printed; lines begin with Slurm's words: no job's name forges one."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        if _SHOWN.match(line) is not None:
            for word in _WORD.finditer(line):
                found.setdefault(word[1], word[2])
    if "JobState" not in found:
        raise UsageError(
            f"scontrol shows no job {number}: slurmctld forgets a job some minutes after its end")
    code, signal = _exit(found.get("ExitCode", ""))
    user = found.get("UserId", "").partition("(")[0]
    restarts = found.get("Restarts", "")
    return Job(number, clean(found["JobState"], 40), code, signal, _time(found.get("SubmitTime", "")),
               _time(found.get("StartTime", "")), _time(found.get("EndTime", "")), clean(user, 64),
               _nodes(found.get("NodeList", "")), _nodes(found.get("FailedNode", "")), "",
               int(restarts) if restarts.isdecimal() else 0, (), "scontrol show job")


def output_files(number: str, run: Run | None = None) -> tuple[str, ...]:
    """Where a running job writes what it prints, by `scontrol show job`; empty where it does not say. Raises
    UsageError where slurmctld knows no such job."""
    if _ID.fullmatch(number) is None:
        raise UsageError(f"{short(number)} is not a job id, expected one such as 4711 or 4711_3")
    text = output(("scontrol", "show", "job", number), run).decode("utf-8", "backslashreplace")
    found = (match[1].strip() for match in _OUTPUT.finditer(text))
    return tuple(dict.fromkeys(path for path in found if path.startswith("/") and path != "/dev/null"))


def _state(text: str) -> tuple[str, str]:
    """sacct writes CANCELLED by 1000."""
    word, _, by = text.partition(" by ")
    return clean(word.rstrip("+").strip(), 40), clean(by, 64)


def _exit(text: str) -> tuple[int, int]:
    code, _, signal = text.partition(":")
    return int(code) if code.isdecimal() else 0, int(signal) if signal.isdecimal() else 0


def _time(text: str) -> float | None:
    if _TIME.fullmatch(text) is None:
        return None     # Unknown, None
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return None


def _nodes(text: str) -> tuple[str, ...]:
    if text in ("", "None assigned", "(null)", "None", "Unknown", "n/a"):
        return ()
    try:
        return expand(text)
    except InventoryError:
        raise UsageError(f"Slurm names the nodes {short(text)}, which is not a node set") from None
