"""Opens a file within bounds and recognises its kind by content, never by name."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from healthcheck.baseline.formats import read
from healthcheck.baseline.formats.unpack import MIB, MOST_BYTES, plain, unpack
from healthcheck.burnin.nccltests import formats as nccltests
from healthcheck.burnin.nccltests import jsonread
from healthcheck.explain.model import FileKind
from healthcheck.explain.quoting import LineIndex
from healthcheck.facts.dcgm import ROOTS
from healthcheck.joblog import flight
from healthcheck.joblog.messages import KnownMessage, find
from healthcheck.kernellog.model import BootLog
from inventory.errors import UsageError
from inventory.text import clean, short

MOST = 256 * MIB        # of a file, packed or not
_HEAD = 8192            # characters that identify a file
_SAMPLE = MIB           # bytes at each end of a long file that are examined first
_NO_FORM = "text"       # the kernel-log reader's name for lines in no kernel log format

# What only a job's program writes. NCCL: src/debug.cc; PyTorch:
# ProcessGroupNCCL.cpp and torch/distributed; Slurm: srun, slurmstepd.
_OF_JOBS = ("NCCL INFO ", "NCCL WARN ", "ProcessGroupNCCL.cpp:", "torch.distributed.Dist",
            "torch.distributed.elastic.", "torch.distributed.run", "torch/distributed/run.py",
            "torch/distributed/elastic/multiprocessing/", "ChildFailedError:",
            "Root Cause (first observed failure):\n", "srun: error: ", "slurmstepd: error: ",
            "Traceback (most recent call last):", "torch.cuda.OutOfMemoryError", "CUDA error: ",
            "CUDA out of memory", "ncclSystemError:", "ncclRemoteError:",
            "ncclUnhandledCudaError:", "ncclInternalError:", "ncclInvalidUsage:", "[rank0]:",
            "MPI_ABORT was invoked on rank ", " noticed that process rank ",
            "has lost communication with a remote daemon", "daemon has unexpectedly failed after launch",
            "was unable to reliably start one or more daemons", "more processes exited with non-zero status",
            "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", " UCX  ERROR ", "] ib_mlx5_log.c:")
_BUG_REPORT = "Start of NVIDIA bug report log file"
_QUERIED = "==============NVSMI LOG=============="
# Binary formats: a test, and the hint.
_BINARY: tuple[tuple[Callable[[bytes], bool], str], ...] = (
    (lambda data: data.startswith(b"PK\x03\x04"), "it is a zip archive; unpack it and give the file inside"),
    (lambda data: data[257:262] == b"ustar",
     "it is a tar archive; unpack it and give the files inside, one at a time"),
    (lambda data: data.startswith(b"\x7fELF"), "it is a program or a core dump"),
    (lambda data: data[:1] == b"\x80" and data[1:2] in b"\x02\x03\x04\x05" and not flight.looks_like(data),
     "it is a Python pickle, but no flight recorder's"),
)
# Common unsupported files, and what to give instead.
_NEAR: tuple[tuple[Callable[[str], bool], str], ...] = (
    (lambda text: "| NVIDIA-SMI " in text[:_HEAD],
     "it is nvidia-smi's short table; give what nvidia-smi -q or nvidia-smi -q -x prints"),
    (lambda text: bool(re.search(r"^CA '\w+'", text[:_HEAD], re.MULTILINE)),
     "it is ibstat's; muster check looks at ports itself"),
    (lambda text: '"schema": "muster.sweep/1"' in text[:_HEAD],
     "it is the manifest of a saved sweep; give the folder"),
)


@dataclass(frozen=True)
class Opened:
    """A file's bytes, unpacked, and its text with nothing that acts on a terminal.
    `caveats` name missing parts.

    `path` is None if it was piped or packed.
    """

    name: str
    data: bytes
    text: str
    caveats: tuple[str, ...] = ()
    path: Path | None = None

    @cached_property
    def lines(self) -> LineIndex:
        """Its text, by lines."""
        return LineIndex(self.text)

    @cached_property
    def document(self) -> Any:
        """Its JSON; None if it is not JSON."""
        if not self.text[:64].lstrip().startswith(("{", "[")) or len(self.text) > MOST_BYTES:
            return None
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None

    @cached_property
    def logs(self) -> tuple[BootLog, ...]:
        """The boots of its kernel log; none if no line is in a kernel log format.

        UsageError if it is longer than any kernel log.
        """
        # A bug report is long by the blobs after its kernel log.
        data = self.data[:MOST_BYTES] if _BUG_REPORT in self.text[:_HEAD] else self.data
        return tuple(log for log in read(data, self.name) if log.format != _NO_FORM)

    def kernel_lines(self) -> int:
        """How many lines of a kernel log it holds."""
        return sum(len(log.lines) for log in self.logs)

    def may_hold_kernel_lines(self) -> bool:
        """Whether its start or end has a kernel log line: a job's log may be longer than any kernel log."""
        parts = (self.data[:_SAMPLE], self.data[-_SAMPLE:]) if len(self.data) > 2 * _SAMPLE else (self.data,)
        return (len(self.data) <= MOST_BYTES
                and any(log.format != _NO_FORM for part in parts for log in read(part, self.name)))

    def job_lines(self) -> int:
        """How many signs of a job's log it has."""
        return sum(self.text.count(tell) for tell in _OF_JOBS)


def open_file(path: str) -> Opened:
    """The file at this path, `-` for standard input; UsageError where it cannot be read, is empty,
    or is longer than MOST."""
    name = "standard input" if path == "-" else Path(path).name
    try:
        if path == "-":
            packed = sys.stdin.buffer.read(MOST + 1)
        else:
            with Path(path).open("rb") as stream:
                packed = stream.read(MOST + 1)
    except OSError as error:
        raise UsageError(f"{short(path)} cannot be read: {error.strerror}") from None
    if len(packed) > MOST:
        raise UsageError(
            f"{short(path)} is longer than {MOST // MIB} MiB; give a part of it: tail -c {MOST} FILE")
    opened = opened_of(packed, name)
    return replace(opened, path=Path(path)) if path != "-" and opened.data is packed else opened


def opened_of(packed: bytes, name: str) -> Opened:
    """The same for bytes in memory."""
    data, caveats = unpack(packed, name, MOST)
    if not data.strip():
        raise UsageError(
            f"{short(name)} is empty: {caveats[0] if caveats else 'there is nothing to explain'}")
    return Opened(clean(name, 200), data, plain(data)[0], tuple(caveats))


def recognise(opened: Opened, messages: Sequence[KnownMessage] = ()) -> FileKind:
    """The kind of file, by its format or by a line that matches a pattern.

    UsageError for an unknown one, with the known kinds and the nearest guess.
    """
    head = opened.text[:_HEAD]
    if any(test(opened.data) for test, _ in _BINARY):
        raise UsageError(_unknown(opened))
    if _BUG_REPORT in head:
        return FileKind.BUG_REPORT
    if "<nvidia_smi_log" in head or _QUERIED in head:
        return FileKind.SMI
    if flight.looks_like(opened.data):
        return FileKind.FLIGHT
    document = opened.document
    if document is not None and (form := _of_json(document)) is not None:
        return form
    if any(f'"{root}"' in head for root in ROOTS):
        return FileKind.DCGM
    if nccltests.looks_like(opened.text):
        return FileKind.NCCL_TESTS
    jobs = opened.job_lines()
    kernel = opened.kernel_lines() if not jobs or opened.may_hold_kernel_lines() else 0
    if not jobs and not kernel and next(find(opened.text, messages), None) is not None:
        return FileKind.JOB
    if not jobs and not kernel:
        raise UsageError(_unknown(opened))
    return FileKind.JOB if jobs > kernel else FileKind.KERNEL


def _of_json(document: Any) -> FileKind | None:
    if not isinstance(document, Mapping):
        return None
    schema = document.get("schema")
    if schema == "muster.recording/1":
        return FileKind.RECORDING
    if schema in ("muster.check/2", "muster.check/1"):     # what failed is in both the same way
        return FileKind.CHECK
    if any(isinstance(document.get(root), Mapping) for root in ROOTS):
        return FileKind.DCGM
    if jsonread.is_ours(document):
        return FileKind.NCCL_TESTS
    return None


def _unknown(opened: Opened) -> str:
    known = ", ".join(form.value for form in FileKind)
    guess = next((said for test, said in _BINARY if test(opened.data)), "")
    guess = guess or next((said for test, said in _NEAR if test(opened.text)), "")
    if not guess and opened.text[:64].lstrip().startswith("{"):
        guess = ("it is JSON of none of these" if opened.document is not None
                 else "it is JSON that ends early or is broken")
    return f"{short(opened.name)} is not a kind of file that muster explains ({known})" + (
        f": {guess}" if guess else "")
