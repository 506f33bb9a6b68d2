"""Reads the logs of a running job as they grow: all files of a folder, by time, each from where it was left.

Files may appear, be cut and rotated. Old ones are read in slices of time over all files, so that ranks are
compared in the order in which they ran; memory is bounded by a piece of each file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from healthcheck.cli.watchclocks import HostClocks
from healthcheck.joblog import flight, rasread
from healthcheck.joblog.model import JobLog, LogClock
from healthcheck.joblog.read import merged, read_one
from healthcheck.watch.hang import HangSources
from healthcheck.watch.model import StepTime
from healthcheck.watch.nvrx import RankScore
from healthcheck.watch.steptexts import StepLog, rank_of_file
from healthcheck.watch.voices import Voices
from inventory.errors import UsageError
from inventory.text import clean, short

PIECE = 16 << 10            # bytes of a file that are read at once
MOST_FILES = 65_536
_DEPTH = 8
_OURS = b'{"schema":"muster.'
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")      # gzip, zstd, bzip2, xz
_NO_TEXT = (b"\x80", b"PK\x03\x04", b"\x7fELF", *_COMPRESSED)     # pickles, checkpoints, programs
_MOST_DUMP = 64 << 20
_TAIL = 1 << 20             # of a log, for what it says of a hang
_MOST_TAILS = 64
_CLOCKS_S = 5.0             # that clocks of file servers may be apart
_OLDER_S = 60.0              # that a line of a hang may be older than the newest step's end


class _Cursor:
    """One file: how far it was read, and the next of its lines."""

    __slots__ = ("_name", "_rest", "ahead", "inode", "lines", "log", "offset", "path", "pending", "skip",
                 "trouble", "written")

    def __init__(self, path: Path, log: StepLog) -> None:
        self.path, self._name, self.offset, self.inode = path, os.fspath(path), 0, -1
        self.log = log
        self._rest = b""
        self.lines: Iterator[StepTime] = iter(())
        self.pending: StepTime | None = None
        self.skip = False       # no text of a log: a dump, a checkpoint
        self.written = 0.0      # when what was read of it was, in epoch seconds
        self.trouble = ""       # why it cannot be read
        self.ahead: float | None = None     # seconds of its host's clock; None before its first line

    def fill(self, *, whole: bool) -> StepTime | None:
        """Makes `pending` the next step time, and gives it; None where there is none as yet. `whole` takes a
        last line without its end."""
        self.pending = None
        while self.pending is None and not self.skip:
            self.pending = next(self.lines, None)
            if self.pending is not None:
                break
            piece = self._read()
            if not piece and not (whole and self._rest):
                break
            self._take(piece, last=not piece)
        return self.pending

    def _read(self) -> bytes:
        try:
            # Thousands of files are opened again and again, as none is kept open: without Python's layers.
            file = os.open(self._name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                found = os.fstat(file)
                if found.st_ino != self.inode or found.st_size < self.offset:
                    # A new file of this name, or one that was cut, begins again.
                    self.inode, self.offset, self._rest = found.st_ino, 0, b""
                if found.st_size <= self.offset:
                    return b""
                piece = os.pread(file, PIECE, self.offset)
            finally:
                os.close(file)
        except OSError as error:
            self.trouble = error.strerror or "it cannot be read"
            return b""
        if self.offset == 0 and piece.startswith(_NO_TEXT):
            self.skip = True
            self.trouble = "it is compressed" if piece.startswith(_COMPRESSED) else ""
            return b""
        if self.offset == 0 and not piece.startswith(_OURS):
            self.log.begins(found.st_mtime - _lasts(self._name, piece, found.st_size))
        self.offset += len(piece)
        self.written = found.st_mtime
        return piece

    def _take(self, piece: bytes, *, last: bool) -> None:
        # A log that was cut while its writer went on begins with NUL bytes.
        # A progress bar ends no line: each of its drawings is one.
        text = self._rest + piece.replace(b"\0", b"").replace(b"\r", b"\n")
        whole, newline, self._rest = text.rpartition(b"\n")
        if last or len(self._rest) > 4 * PIECE:
            whole, newline, self._rest = text, b"\n", b""
        if newline:
            self.lines = self.log.read(whole.decode("utf-8", "replace").split("\n"))


def _lasts(name: str, head: bytes, size: int) -> float:
    """About how many seconds the steps of a log took, by those at its begin and its end. It was written last
    when the newest of them ended: that dates the lines of a log that has no times."""
    try:
        with open(name, "rb") as file:
            file.seek(max(len(head), size - PIECE))
            tail = file.read(PIECE)
    except OSError:
        tail = b""
    texts = [piece.replace(b"\r", b"\n").decode("utf-8", "replace") for piece in (head, tail)]
    lines = [line for text in texts for line in StepLog("", LogClock(0.0)).read(text.split("\n"))]
    seconds = sum(line.seconds * line.steps for line in lines) / max(1, len({line.rank for line in lines}))
    return seconds * size / max(1, len(head) + len(tail))


class JobLogs:
    """The files of some folders and single files. `job`: only its lines count, where they name one."""

    def __init__(self, places: Sequence[str], job: str, near: float) -> None:
        self._places, self._job, self._near = [Path(place) for place in places], job, near
        self._cursors: dict[Path, _Cursor] = {}
        self._voices = Voices()
        self._clocks = HostClocks()
        self._epochs: dict[int, int] = {}
        self._runs: set[Path] = set()       # folders of torchrun's attempts
        self.foreign = 0
        self.written = 0.0          # when the newest file with step times was
        self.named = job
        for path, place in zip(self._places, places, strict=True):
            if not place or not path.exists():
                raise UsageError(f"--log {short(str(path))}: there is no such file or folder")

    def scan(self) -> float:
        """Looks for new files; gives when the newest of all was written, in epoch seconds, 0 for none."""
        newest, new = 0.0, list[Path]()
        for place in self._places:
            for path, found in _files(place, _DEPTH):
                newest = max(newest, found.st_mtime)
                if path not in self._cursors:
                    new.append(path)
                    self._runs |= {path.parents[at] for at in _attempt_at(path)}
        for path in new[:MOST_FILES - len(self._cursors)]:
            self._cursors[path] = _Cursor(path, self._log_of(path))
        return newest

    def _log_of(self, path: Path) -> StepLog:
        """The reader of a file, which knows what its path tells: FOLDER/attempt_0/3/stdout.log of torchrun is
        local rank 3, which is the job's where there is one such folder, that of one node."""
        rank, attempt = rank_of_file(path.name), None
        for at in _attempt_at(path):
            attempt, inner = int(path.parents[at - 1].name[8:]), path.parts[len(path.parts) - at:]
            if rank is None and len(inner) > 1 and inner[0].isdecimal() and len(self._runs) == 1:
                rank = int(inner[0][:7])
        return StepLog(self._job, LogClock(self._near), rank=rank, attempt=attempt, epochs=self._epochs)

    def slices(self, seconds: float, *, whole: bool) -> Iterator[list[StepTime]]:
        """All step times that there are and were not read, in slices of time; `whole`: the logs grow no
        more."""
        while True:
            ready = [(first, cursor) for cursor in self._cursors.values()
                     if (first := cursor.pending or cursor.fill(whole=whole)) is not None]
            if not ready:
                return
            self.written = max(self.written, *(cursor.written for _, cursor in ready))
            self._begun([cursor for _, cursor in ready if cursor.ahead is None], seconds)
            until = min([first.time - (cursor.ahead or 0.0) for first, cursor in ready]) + seconds
            found: list[StepTime] = []
            for first, cursor in ready:
                line: StepTime | None = first
                ours = cursor.log.forms == {"muster"}       # each rank names itself, once
                ahead, begin = cursor.ahead or 0.0, len(found)
                last = until + ahead
                while line is not None and line.time <= last:
                    if ours or self._voices.counts(cursor.path, line):
                        found.append(line)
                    line = next(cursor.lines, None) or cursor.fill(whole=whole)
                cursor.pending = line
                if ahead:
                    found[begin:] = [one._replace(time=one.time - ahead) for one in found[begin:]]
            yield self._ours(found)

    def _begun(self, cursors: Sequence[_Cursor], least: float) -> None:
        """Compares the clocks behind logs of which the first line was read."""
        ours = [(cursor.pending, cursor.path) for cursor in cursors
                if cursor.pending is not None and cursor.log.forms == {"muster"}]
        ahead = dict(zip((path for _, path in ours), self._clocks.begun(ours, least), strict=True))
        for cursor in cursors:
            cursor.ahead = ahead.get(cursor.path, 0.0)

    def finish(self) -> list[StepTime]:
        """What the ends of the logs complete."""
        return self._ours([line for cursor in self._cursors.values() for line in cursor.log.finish()])

    def scores(self) -> list[RankScore]:
        """What nvrx said of ranks since the last call."""
        return [score for cursor in self._cursors.values() for score in cursor.log.scores()]

    @property
    def forms(self) -> tuple[str, ...]:
        """What was recognised."""
        return tuple(sorted({form for cursor in self._cursors.values() for form in cursor.log.forms}))

    def caveats(self) -> tuple[str, ...]:
        """What could not be read, a line each."""
        bad = [cursor for cursor in self._cursors.values() if cursor.log.unread]
        found = [f"{clean(cursor.path.name, 100)}: {cursor.log.unread} lines of step times could not be "
                 f"read; the first: {cursor.log.why}" for cursor in bad[:4]]
        if len(bad) > 4:
            found.append(f"{len(bad) - 4} other files have lines that could not be read, too")
        shut = [cursor for cursor in self._cursors.values() if cursor.trouble]
        found += [f"{clean(cursor.path.name, 100)}: {cursor.trouble}" for cursor in shut[:4]]
        if len(shut) > 4:
            found.append(f"{len(shut) - 4} other files cannot be read, either")
        if self._cursors and not any(cursor.log.forms for cursor in self._cursors.values()):
            files = f"{len(self._cursors)} file{'s' * (len(self._cursors) != 1)}"
            found.append(f"no line of {files} is of step times: muster help watch shows the forms")
        if self.foreign:
            found.append(f"{self.foreign} lines are of other jobs than {clean(self.named, 80)}")
        if apart := self._clocks.apart:
            host, seconds = max(apart.items(), key=lambda one: abs(one[1]))
            more = f", and those of {len(apart) - 1} other hosts differ, too" if len(apart) > 1 else ""
            which = "ahead of" if seconds > 0 else "behind"
            found.append(f"the clock of {clean(host, 100)} is {abs(seconds):.0f} s {which} that of most "
                         f"ranks{more}; their steps are compared all the same (see: timedatectl)")
        if len(self._cursors) >= MOST_FILES:
            found.append(f"only {MOST_FILES} files are read")
        return tuple(found)

    def of_hang(self, near: float, since: float = 0.0) -> HangSources:
        """What dumps of the flight recorder, the ends of the logs, and the newest answer of NCCL's RAS say of
        who did not come. What was written before `since` is of a job that still moved."""
        logs, tails, answered, answer = [], 0, since - _CLOCKS_S, None
        for path in list(self._cursors):
            try:
                found = path.stat()
                size = found.st_size
                with path.open("rb") as file:
                    head = file.read(4096)
                    if head[:1] == b"{" or head[:1] == b"\x80":
                        data = head + file.read(_MOST_DUMP) if size <= _MOST_DUMP else b""
                        if data and flight.looks_like(data):
                            if found.st_mtime >= since - _CLOCKS_S:
                                logs.append(read_one(path.name, data, LogClock(near)))
                            continue
                    if rasread.looks_like(head):
                        if found.st_mtime >= answered and size <= rasread.MOST_BYTES:
                            answer, answered = rasread.parse(head + file.read()), found.st_mtime
                        continue
                    if tails < _MOST_TAILS and b"muster.step/" not in head:
                        tails += 1
                        file.seek(max(0, size - _TAIL))
                        tail = read_one(path.name, file.read(_TAIL), LogClock(near))
                        logs.append(_later(tail, since - _OLDER_S))
            except (OSError, rasread.NoRas):
                continue
        return HangSources(merged(logs), answer, answered=answered)

    def _ours(self, lines: list[StepTime]) -> list[StepTime]:
        """Those of our job: the one that is asked for, or the first that a line names."""
        if not self.named:
            self.named = next((line.job for line in lines if line.job), "")
        named = self.named
        kept = [line for line in lines if line[0] == named or not line[0]]
        self.foreign += len(lines) - len(kept)
        return kept


def _later(log: JobLog, since: float) -> JobLog:
    """The log without what it says of an earlier attempt."""
    return replace(log, events=tuple(one for one in log.events if one.time is None or one.time >= since))


def _attempt_at(path: Path) -> tuple[int, ...]:
    """How far above the file torchrun's folder is, in parents; empty where it is in none."""
    return tuple(at + 1 for at, folder in enumerate(path.parents) if folder.name.startswith("attempt_")
                 and folder.name[8:].isdecimal() and len(folder.name) < 17)[:1]


def _files(place: Path, depth: int) -> Iterator[tuple[Path, os.stat_result]]:
    """The plain files below a folder, links to files included; a single file itself."""
    try:
        found = place.stat()
        if stat.S_ISREG(found.st_mode):
            yield place, found
        elif stat.S_ISDIR(found.st_mode) and depth:
            with os.scandir(place) as entries:
                for entry in sorted(entries, key=lambda one: one.name):
                    if entry.is_file():
                        yield Path(entry.path), entry.stat()
                    elif entry.is_dir(follow_symlinks=False):
                        yield from _files(Path(entry.path), depth - 1)
    except OSError:
        return
