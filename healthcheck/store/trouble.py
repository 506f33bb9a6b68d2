"""Why the store cannot be used: full, read-only, locked, damaged or another user's, each with what to do."""

from __future__ import annotations

import errno
import os
import pwd
import sqlite3
import tempfile
from contextlib import suppress
from enum import Enum
from pathlib import Path


class StoreTrouble(Enum):
    """Why the store cannot be used."""

    LOCKED = "locked"
    FULL = "full"
    READ_ONLY = "read-only"
    DENIED = "denied"
    DAMAGED = "damaged"
    OTHER = "other"


_OF_ERRNO = {errno.ENOSPC: StoreTrouble.FULL, errno.EDQUOT: StoreTrouble.FULL,
             errno.EROFS: StoreTrouble.READ_ONLY, errno.EACCES: StoreTrouble.DENIED,
             errno.EPERM: StoreTrouble.DENIED}


def kind_of(error: sqlite3.Error | OSError, path: Path) -> StoreTrouble:
    """The kind of an error; SQLite says 'disk I/O error' and 'unable to open' of several, of which a small
    file in the same folder shows which it is."""
    if isinstance(error, OSError):
        return _OF_ERRNO.get(error.errno or 0, StoreTrouble.OTHER)
    said = str(error)
    if "locked" in said or "busy" in said:
        return StoreTrouble.LOCKED
    if "is full" in said:
        return StoreTrouble.FULL
    if "malformed" in said or "not a database" in said:
        return StoreTrouble.DAMAGED
    if not any(word in said for word in ("I/O", "unable to open", "readonly")):
        return StoreTrouble.OTHER if isinstance(error, sqlite3.OperationalError) else StoreTrouble.DAMAGED
    try:
        with tempfile.TemporaryFile(dir=path.parent) as probe:
            probe.write(bytes(1 << 16))     # more than the index of an empty journal
        with open(path, "r+b"):
            return StoreTrouble.OTHER
    except OSError as found:
        return _OF_ERRNO.get(found.errno or 0, StoreTrouble.OTHER)


def words(error: sqlite3.Error | OSError, path: Path, waited_s: float) -> str:
    """What is wrong with the store at `path`, and what to do, in one line. `waited_s`: how long others were
    waited for."""
    kind = kind_of(error, path)
    said = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    if kind is StoreTrouble.LOCKED:
        return f"another muster has been writing to it for more than {waited_s:g} s (see: fuser {path})"
    if kind is StoreTrouble.FULL:
        return ("the disk is full; nothing was changed, and what was stored is whole. Make room (see: df -h "
                f"{path.parent}), then repeat")
    if kind is StoreTrouble.READ_ONLY:
        return ("its file system is read-only, so that nothing can be written: see findmnt -T "
                f"{path.parent} and dmesg; then mount -o remount,rw, or use another folder with --state")
    if kind is StoreTrouble.DENIED:
        return (f"may not be written by you ({_user()}; it belongs to {_owner(path)}): run this as its "
                "owner, or use another folder with --state")
    if kind is StoreTrouble.DAMAGED:
        return (f"is damaged ({said}); put a copy of `muster store backup` back: muster store restore FILE "
                "--replace, which keeps this one aside")
    return said


def _user() -> str:
    return _named(os.geteuid())


def _owner(path: Path) -> str:
    for place in (path, path.parent):
        with suppress(OSError):
            return _named(place.stat().st_uid)
    return "another user"


def _named(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
