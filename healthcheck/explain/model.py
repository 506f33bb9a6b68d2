"""The values of an explanation: causes with quotes, and what the file could not show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from healthcheck.joblog.meaning import Sure
from healthcheck.model.outcome import Owner, Severity

MOST_QUOTES = 3
LONGEST_QUOTE = 300


class FileKind(Enum):
    """The known kinds of files; the value is the name for people."""

    KERNEL = "kernel log"
    BUG_REPORT = "NVIDIA bug report"
    SMI = "nvidia-smi log"
    JOB = "job log"
    NCCL_TESTS = "nccl-tests output"
    FLIGHT = "PyTorch flight recorder dump"
    DCGM = "dcgmi diag result"
    RECORDING = "muster recording"
    CHECK = "muster check result"


@dataclass(frozen=True)
class Quote:
    """A line of the file, bounded and escaped; `line` counts from 1,
    and is 0 if the file has no such lines."""

    line: int
    text: str


@dataclass(frozen=True)
class Cause:
    """One thing that is wrong: on what, in plain words, how sure, what to do, and who does it.

    `symptom` marks an effect of something else, such as a rank that waited; it sorts after real causes. `job`
    marks the reason for a job's end that is no machine's fault. `count` is how often it appeared, `by` its
    source (a rule, a table's entry).
    """

    subject: str
    meaning: str
    sure: Sure
    severity: Severity
    owner: Owner
    remedy: str
    by: str
    quotes: tuple[Quote, ...] = ()
    count: int = 1
    symptom: bool = False
    job: bool = False

    @property
    def wrong(self) -> bool:
        """Whether this is something wrong, and not merely information."""
        return self.severity is not Severity.INFO or self.job


@dataclass(frozen=True)
class RawExplanation:
    """A reader's result before ranking: see `Explained`. `cannot_show` adds to the kind's own."""

    causes: list[Cause]
    unread: list[str]
    about: str
    cannot_show: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explained:
    """The explanation of one file. `looked_for` and `cannot_show` qualify 'nothing found';
    `unread` are unreadable parts."""

    name: str
    form: FileKind
    about: str
    causes: tuple[Cause, ...]
    looked_for: tuple[str, ...]
    cannot_show: tuple[str, ...]
    unread: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 where something is wrong, 3 where nothing was found in a file that was not wholly read,
        else 0 (healthcheck/help/results.md, Exit codes)."""
        if any(cause.wrong for cause in self.causes):
            return 1
        return 3 if self.unread else 0


_WORST = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)
_SURE = tuple(Sure)


def ranked(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Worst first: causes before symptoms, wrong before informative, then by severity, certainty, what goes
    to the vendor before what a reset repairs, what names a part before what does not, and by place in the
    file."""
    return tuple(sorted(causes, key=lambda cause: (
        not cause.wrong, cause.symptom, _WORST.index(cause.severity), _SURE.index(cause.sure),
        cause.owner is not Owner.VENDOR, not cause.subject,
        cause.quotes[0].line if cause.quotes else 0,
    )))
