"""The values of an explanation: causes with their quotes, and what the file could not show; plain and frozen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from healthcheck.joblog.meaning import Sure
from healthcheck.model.outcome import Owner, Severity

MOST_QUOTES = 3
LONGEST_QUOTE = 300


class FileKind(Enum):
    """The kinds of files that are known; the value is how a person calls one."""

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
    """A line of the file, shown as it stands but bounded and escaped; `line` counts from 1, and is 0 where the file has no such lines."""

    line: int
    text: str


@dataclass(frozen=True)
class Cause:
    """One thing that is wrong: on what, in plain words, how sure, what to do, and who does it.

    `symptom` marks what follows from something else, such as a rank that waited: it stands behind every cause that is none. `job` marks
    what is no fault of a machine, and yet why a job ended. `count` is how often it was said, `by` what says so (a rule, a table's entry).
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
        """Whether the file is of something that went wrong by it, and not merely told of it."""
        return self.severity is not Severity.INFO or self.job


@dataclass(frozen=True)
class RawExplanation:
    """What the reader of one form makes of a file, before it is ranked: see `Explained`. `cannot_show` adds to what holds for the form."""

    causes: list[Cause]
    unread: list[str]
    about: str
    cannot_show: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explained:
    """What one file says. `looked_for` and `cannot_show` are what 'nothing found' means; `unread` is what of it could not be read."""

    name: str
    form: FileKind
    about: str
    causes: tuple[Cause, ...]
    looked_for: tuple[str, ...]
    cannot_show: tuple[str, ...]
    unread: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 where something is wrong, 3 where nothing was found in a file that was not wholly read, else 0 (DESIGN section 8)."""
        if any(cause.wrong for cause in self.causes):
            return 1
        return 3 if self.unread else 0


_WORST = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)
_SURE = tuple(Sure)


def ranked(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Worst first: causes before their symptoms, what is wrong before what is told, then by severity, certainty, what
    goes to the vendor before what a reset mends, what names a part before what does not, and by where it was said."""
    return tuple(sorted(causes, key=lambda cause: (
        not cause.wrong, cause.symptom, _WORST.index(cause.severity), _SURE.index(cause.sure),
        cause.owner is not Owner.VENDOR, not cause.subject,
        cause.quotes[0].line if cause.quotes else 0,
    )))
