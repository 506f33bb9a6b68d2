"""A lock in the state folder: one process acts at a time, and its file says who, where, since when. It is a
flock, which goes with its process."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from inventory.cli.chosen import who
from inventory.errors import UsageError
from inventory.text import clean
from inventory.times import minute
from provisioning.lease.holder import me, pid_of

_MOST_BYTES = 4096
_LATEST = 253_402_300_800.0         # the year 10000, in epoch seconds


@dataclass(frozen=True)
class LockHolder:
    """Who is at work: person, machine, process (`lease.holder`), since when (epoch seconds), and with which
    command, empty where that is not known."""

    who: str
    host: str
    holder: str
    began: float
    command: str = ""

    def words(self, now: float) -> str:
        """In words."""
        pid = pid_of(self.holder)
        process = f", process {pid}" if pid is not None else ""
        since = minute(self.began)
        return (f"{clean(self.who, 80)} on {clean(self.host, 80)}{process}, for {age(now - self.began)} "
                f"(since {since})")


def here() -> str:
    """This machine's name."""
    return clean(os.uname().nodename, 80)


def age(seconds: float) -> str:
    """Seconds as a person says them."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


@contextmanager
def alone(folder: Path, lock: str, what: str, by: str = "") -> Iterator[None]:
    """One process of this machine (and of others, if the file system has locks) acts in a state folder under
    this lock; UsageError says who is at work. The lock goes with the process. `by` is the command that takes
    it, where that is another than `what` with --apply."""
    path = folder / lock
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; muster {what} --apply needs it as a lock") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(taken(path, what)) from None
        except OSError as error:
            raise UsageError(f"{path}: cannot be locked: {error.strerror}; keep the state folder on a file "
                             "system that has locks") from None
        own = {"who": who(), "host": here(), "holder": me(), "began": time.time(),
               "command": by or f"{what} --apply"}
        with suppress(OSError):     # on a full disk the lock holds as well, and does not say whose it is
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(own).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def taken(path: Path, what: str) -> str:
    """That someone else has the lock, and who."""
    owner = _owner(path)
    message = f": {owner.words(time.time())}" if owner is not None else ""
    command = owner.command if owner is not None else ""
    return f"another muster {command or f'{what} --apply'} is running{message}; wait until it has ended"


def locked(path: Path) -> bool | None:
    """Whether a living process holds this lock; None where that cannot be asked."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        # Shared, so that two who ask do not see each other; and given back at once.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


def _owner(path: Path) -> LockHolder | None:
    """What the lock's file says; None where it says nothing yet."""
    try:
        with path.open("rb") as file:
            said = json.loads(file.read(_MOST_BYTES))
        began = float(said["began"])
        if not 0 <= began < _LATEST:        # NaN is neither
            return None
        return LockHolder(str(said["who"]), str(said["host"]), str(said["holder"]), began,
                          clean(str(said.get("command", "")), 80))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
