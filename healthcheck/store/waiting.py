"""What was done while the store could not be opened, until it can take it in: a file of whole lines beside
it.

Where the state folder takes no file either (its disk is full or read-only), the file lies in the folder for
what lives until the next boot. Each line is on the disk before what it is of is done; whoever opens the store
next takes all of it in, in one transaction, and removes the file.
"""

from __future__ import annotations

import base64
import errno
import fcntl
import hashlib
import json
import os
import sqlite3
import stat
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from healthcheck.config.synced import sync_folder
from healthcheck.model.outcome import NodeReport
from healthcheck.store import ledger
from healthcheck.store.marks import CordonMark, mark_of
from healthcheck.store.plain import plain, typed
from healthcheck.store.rows import insert
from inventory.errors import StoreError
from inventory.times import minute

if TYPE_CHECKING:
    from healthcheck.store.file import Store
    from healthcheck.store.readings import NodeReadings
    from healthcheck.store.sweeps import SweepRecord

FILE = "muster.waiting.jsonl"
SCHEMA = "muster.waiting/1"
RUN = Path("/run")
# The action in the ledger of a sweep that waited for the store for too long.
NOT_STORED = "sweep left out"
# Of one file: some thousand sweeps of a hundred nodes.
LARGEST = 64 << 20


@dataclass(frozen=True)
class WaitingCordon:
    """A cordon that no store knows yet. `held` is None where it was cut short, `message` what came of it;
    `user` and `since` are those of the back end, `file` is which one it is, if it is one. Times are epoch
    seconds."""

    mark: CordonMark
    node: str
    backend: str
    why: str
    who: str
    began: float
    identity: str = ""
    held: bool | None = None
    message: str = ""
    user: str = ""
    since: float | None = None
    file: str = ""


def begin(folder: Path, cordon: WaitingCordon) -> Path:
    """Writes down that a node is about to be cordoned; gives the file. Raises StoreError where no place
    takes it."""
    return _append(folder, {"kind": "cordon", **vars(cordon), "mark": str(cordon.mark)})


def finish(folder: Path, cordon: WaitingCordon) -> None:
    """Writes down what came of it. Raises StoreError."""
    _append(folder, {"kind": "outcome", "mark": str(cordon.mark), "held": cordon.held,
                     "message": cordon.message, "user": cordon.user, "since": cordon.since})


def keep_sweep(
    folder: Path, sweep: SweepRecord, reports: Sequence[NodeReport], readings: Mapping[str, NodeReadings],
) -> Path:
    """Keeps a sweep that the store could not take; gives the file. Raises StoreError."""
    data = {"sweep": plain(sweep), "reports": plain(reports), "readings": plain(readings)}
    packed = zlib.compress(json.dumps(data, separators=(",", ":")).encode())
    return _append(folder, {"kind": "sweep", "data": base64.b64encode(packed).decode()})


def waiting_cordons(folder: Path) -> list[WaitingCordon]:
    """Cordons that wait for the store, in order; those that were not done are left out."""
    found: list[WaitingCordon] = []
    for place in _places(folder):
        with suppress(OSError):
            found += _cordons(_lines(place.read_bytes()))
    return [one for one in found if one.held is not False]


def take_in(store: Store, folder: Path) -> None:
    """Afterwards the store knows what was done without it. What cannot be written now waits for the next
    time."""
    found: list[dict[str, Any]] = []
    places: list[Path] = []
    with suppress(OSError, StoreError), ExitStack() as held:
        for place in _places(folder):
            if not place.exists():
                continue
            with suppress(OSError):
                descriptor = held.enter_context(_locked(place, os.O_RDONLY))
                with open(descriptor, "rb", closefd=False) as file:
                    found += _lines(file.read())
                places.append(place)
        if not places:
            return
        with store.writing() as db:
            for cordon in _cordons(found):
                _take_cordon(db, cordon)
        _take_sweeps(store, found)
        for place in places:
            place.unlink()
            sync_folder(str(place.parent))


def _take_cordon(db: sqlite3.Connection, one: WaitingCordon) -> None:
    if db.execute("SELECT 1 FROM cordon WHERE store = ? AND number = ?",
                  (one.mark.store, one.mark.number)).fetchone():
        return      # taken in before, by a process that was killed before it removed the file
    if one.held is not False:
        db.execute("UPDATE cordon SET state = 'void', ended = ? WHERE node = ? AND backend = ? "
                   "AND file IN ('', ?) AND ended IS NULL", (one.began, one.node, one.backend, one.file))
    line = ledger.begin(db, one.began, one.who, "cordon", one.node, one.why, one.backend)
    if one.held is not None:
        ledger.finish(db, line, f"{'' if one.held else 'not done: '}{one.message}; the store could not be "
                                "opened then", one.began)
    state = {None: "meant", True: "held", False: "void"}[one.held]
    insert(db, "cordon", node=one.node, backend=one.backend, why=one.why, who=one.who, state=state,
           began=one.began, ended=one.began if one.held is False else None, line=line, store=one.mark.store,
           number=one.mark.number, identity=one.identity, user=one.user, stamp=one.since, file=one.file,
           asked=1)


@dataclass(frozen=True)
class _WaitingSweep:
    sweep: SweepRecord
    reports: Sequence[NodeReport]
    readings: Mapping[str, NodeReadings]


def _take_sweeps(store: Store, found: Iterable[Mapping[str, Any]]) -> None:
    """Stores the sweeps in the order of their time, first those that a clock dated later than now, which the
    next one puts right. One that is there is left out, and so is one that is older than the newest: it must
    not stand for that, and a line of the ledger says that it was left out."""
    from healthcheck.store.clock import in_future, newest_sweep
    from healthcheck.store.sweeps import record

    now = time.time()
    sweeps = [one for line in found if line.get("kind") == "sweep" and (one := _read_sweep(line)) is not None]
    for one in sorted(sweeps, key=lambda each: (not in_future(each.sweep.started, now), each.sweep.started)):
        started = one.sweep.started
        if store.rows("SELECT 1 FROM sweep WHERE started = ? AND finished = ? LIMIT 1", started,
                      one.sweep.finished):
            continue
        newest = newest_sweep(store, now)
        if newest is None or started > newest:
            record(store, one.sweep, one.reports, one.readings)
        else:
            _left_out(store, one.sweep, newest, now)


def _left_out(store: Store, sweep: SweepRecord, newest: float, now: float) -> None:
    """Once, also after a kill before the file was removed."""
    why = (f"the sweep of {minute(sweep.started)}, which waited for the store, is older than its newest, of "
           f"{minute(newest)}")
    if store.rows("SELECT 1 FROM ledger WHERE action = ? AND time = ?", NOT_STORED, sweep.started):
        return
    with store.writing() as db:
        line = ledger.begin(db, sweep.started, sweep.who, NOT_STORED, "", why)
        ledger.finish(db, line, "not stored, so that it does not stand for the newest", now)
    sys.stderr.write(f"muster: {why}: it is not stored\n")


def _read_sweep(line: Mapping[str, Any]) -> _WaitingSweep | None:
    """The sweep of a line; None where it is none."""
    from healthcheck.store.readings import NodeReadings
    from healthcheck.store.sweeps import SweepRecord

    try:
        data = json.loads(zlib.decompress(base64.b64decode(line["data"])))
        sweep = cast("SweepRecord", typed(SweepRecord, data["sweep"]))
        reports = [cast("NodeReport", typed(NodeReport, one)) for one in data["reports"]]
        readings = {str(node): cast("NodeReadings", typed(NodeReadings, one))
                    for node, one in data["readings"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, zlib.error):
        return None
    return _WaitingSweep(sweep, reports, readings)


def _cordons(lines: Iterable[Mapping[str, Any]]) -> list[WaitingCordon]:
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        mark = str(line.get("mark"))
        if line.get("kind") == "cordon":
            found.setdefault(mark, dict(line))
        elif line.get("kind") == "outcome" and mark in found:
            found[mark].update(line)
    made = []
    for text, line in found.items():
        read = mark_of(f"{text}:")
        with suppress(ValueError, TypeError, KeyError):
            if read is not None and read.store:
                made.append(cast("WaitingCordon", typed(WaitingCordon, {**line, "mark": plain(read)})))
    return made


def _lines(data: bytes) -> Iterator[dict[str, Any]]:
    """The whole lines; the last one may have been cut short by a kill, and so was never acted on."""
    for line in data.split(b"\n")[:-1]:
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and found.get("schema") == SCHEMA:
                yield found


def _places(folder: Path) -> list[Path]:
    """Where it may lie: a timer may have another environment than the person who typed the command."""
    of = hashlib.sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:16]
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    folders = [Path(given) if given else None, RUN / "user" / str(os.geteuid()),
               RUN if os.geteuid() == 0 else None]
    return [folder / FILE, *dict.fromkeys(
        one / "muster" / f"{of}.{FILE}" for one in folders if one is not None and one.is_dir())]


def _append(folder: Path, line: Mapping[str, Any]) -> Path:
    data = json.dumps({"schema": SCHEMA, **line}, separators=(",", ":")).encode() + b"\n"
    trouble = "there is no folder for it"
    for place in _places(folder):
        try:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(place, data)
        except OSError as error:
            trouble = f"{place}: {error.strerror}"
            continue
        return place
    raise StoreError(f"it could not be written down either: {trouble}")


def _write(place: Path, data: bytes) -> None:
    """The line stands whole at the end of the file, on the disk, or not at all; raises OSError."""
    with _locked(place, os.O_RDWR | os.O_CREAT) as descriptor:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        if size + len(data) > LARGEST:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
        try:
            left = memoryview((b"\n" if torn else b"") + data)
            while left:
                left = left[os.write(descriptor, left):]
            os.fsync(descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, size)
            raise
    sync_folder(str(place.parent))


@contextmanager
def _locked(place: Path, flags: int) -> Iterator[int]:
    """The file, which no one else reads or writes meanwhile. Raises OSError, also where it is not our own."""
    descriptor = _opened(place, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _opened(place: Path, flags: int) -> int:
    """Open and locked; whoever held it before may have taken it in and removed it: then it is the next."""
    while True:
        descriptor = os.open(place, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()):
                raise PermissionError(errno.EPERM, "belongs to another user", str(place))
            if found.st_nlink:
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
