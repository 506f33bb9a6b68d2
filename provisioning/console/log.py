"""The captured console of one machine as files: NODE.log and, before it, NODE.1.log, of bounded size and
0600.

A line is `2026-11-28T01:02:03Z | text` for what the machine wrote, and `... # kind: text` for what muster
says of the capture; no text of a machine can look like the latter. Lines are appended whole: of a killed
writer the last may be torn, and is ended before the next is written.
"""

from __future__ import annotations

import calendar
import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from healthcheck.config.files import make_folder
from inventory.text import clean
from inventory.times import second
from provisioning.console.lines import LONGEST

FOLDER = "console"
MOST_BYTES = 512 << 10      # of a file; a machine has two
_TAIL_BYTES = 128 << 10
_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) (\||#) (.{0,4000})", re.ASCII | re.DOTALL)
_MARK = re.compile(r"([a-z]{1,12}): (.*)", re.DOTALL)


class CaptureMark(Enum):
    """What muster says of a capture."""

    BEGUN = "begun"         # and by which way
    GAP = "gap"             # nothing was captured from here on, and why
    AGAIN = "again"         # it is captured again
    MISSING = "missing"     # it cannot be captured, and why
    CUT = "cut"             # the machine wrote more than is kept
    ENDED = "ended"


@dataclass(frozen=True)
class ConsoleLine:
    """One line: when it was captured (epoch seconds of this head), what, and None or what kind of mark."""

    time: float
    text: str
    mark: CaptureMark | None = None


class ConsoleLog:
    """The writer. While it is open no other writes for this machine."""

    def __init__(self, folder: Path, node: str) -> None:
        """Raises UsageError for a folder that cannot be made, OSError for a file that cannot be opened, and
        BlockingIOError where another process captures this machine."""
        make_folder(folder / FOLDER, "captured consoles")
        self._path = folder / FOLDER / f"{node}.log"
        self._lock = os.open(folder / FOLDER / f"{node}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file = self._opened()
        except OSError:
            os.close(self._lock)
            raise

    def write(self, lines: Iterable[str], now: float) -> None:
        """Appends what the machine wrote."""
        self._append("".join(f"{second(now)} | {clean(line, LONGEST)}\n" for line in lines))

    def mark(self, mark: CaptureMark, text: str, now: float) -> None:
        """Appends what is to be said of the capture."""
        self._append(f"{second(now)} # {mark.value}: {clean(text, 300)}\n")

    def close(self) -> None:
        """Lets others write."""
        os.close(self._file)
        os.close(self._lock)

    def _opened(self) -> int:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            os.write(file, b"\n")
        return file

    def _append(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        if data and os.fstat(self._file).st_size + len(data) > MOST_BYTES:
            os.close(self._file)
            self._path.replace(self._path.with_name(f"{self._path.stem}.1.log"))
            self._file = self._opened()
        while data:
            data = data[os.write(self._file, data):]


def captured(folder: Path, node: str) -> bool:
    """Whether a process captures this machine now."""
    try:
        lock = os.open(folder / FOLDER / f"{node}.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def tail(folder: Path, node: str, since: float = 0.0, most: int = 2000) -> list[ConsoleLine]:
    """The newest lines, oldest first, captured at `since` or later; none where nothing was ever captured.
    Raises no error: what cannot be read is not there."""
    path, found = folder / FOLDER / f"{node}.log", b""
    for one in (path, path.with_name(f"{node}.1.log")):
        with contextlib.suppress(OSError):
            found = _end(one, _TAIL_BYTES - len(found)) + found
        if len(found) >= _TAIL_BYTES:
            break
    lines = [line for row in found.decode("utf-8", "replace").split("\n") if (line := _read(row)) is not None]
    return [line for line in lines if line.time >= since - 1.0][-most:]


class ConsoleFollow:
    """The lines that are saved of a machine from now on, each once, over changes of files."""

    def __init__(self, folder: Path, node: str) -> None:
        self._path = folder / FOLDER / f"{node}.log"
        self._torn = b""
        self._file = self._opened()
        if self._file is not None:
            self._file.seek(0, os.SEEK_END)

    def new(self) -> list[ConsoleLine]:
        """Those since the last look. Raises no error: what cannot be read is not there."""
        data = self._read()
        if self._moved():
            data += self._read()        # what was written before it was set aside
            self.close()
            self._file = self._opened()
            data += self._read()
        *rows, self._torn = (self._torn + data).split(b"\n")
        return [line for row in rows if (line := _read(row.decode("utf-8", "replace"))) is not None]

    def close(self) -> None:
        """Ends it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> BinaryIO | None:
        try:
            return self._path.open("rb")
        except OSError:
            return None

    def _read(self) -> bytes:
        try:
            return self._file.read(MOST_BYTES) if self._file is not None else b""
        except OSError:
            return b""

    def _moved(self) -> bool:
        """Whether another file has the name now."""
        try:
            there = self._path.stat()
            return self._file is None or not os.path.samestat(os.fstat(self._file.fileno()), there)
        except OSError:
            return False


def _end(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - most))
        data = file.read(most)
    return data.partition(b"\n")[2] if size > most else data


def _read(row: str) -> ConsoleLine | None:
    found = _LINE.fullmatch(row)
    if found is None:
        return None
    when, kind, text = found.groups()
    try:
        seconds = float(calendar.timegm(time.strptime(when, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return None
    if kind == "|":
        return ConsoleLine(seconds, clean(text, LONGEST))
    mark = _MARK.fullmatch(text)
    if mark is None or mark[1] not in {one.value for one in CaptureMark}:
        return None
    return ConsoleLine(seconds, clean(mark[2], LONGEST), CaptureMark(mark[1]))
