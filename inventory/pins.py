"""Edits known_hosts files: pins keys, removes old ones, and leaves all other lines as they are. A file is
replaced whole, under a lock that other enrolments respect; a kill in the middle leaves the old one."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hmac
import os
import re
import stat
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from inventory.errors import MusterError
from inventory.hostkeys import KnownHosts, fingerprint, key_type
from inventory.lock import locked, sync_folder
from inventory.text import short

MAX_BYTES = 64 * 1024 * 1024     # what inventory/hostkeys.py reads
OLD = ".old"                     # where ssh-keygen -R leaves the file as it was

_NAME = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9_.:%\[\]-]{0,300}")
_WORDS = re.compile(r"\s*(?!@)(\S+)\s+(\S+)\s+(\S+)")


@dataclass(frozen=True)
class PinChange:
    """Keys (in wire form) to add under a name, and keys to remove from it."""

    name: str
    add: tuple[bytes, ...]
    drop: tuple[bytes, ...] = ()


def read(path: str) -> bytes:
    """The file's content, empty if there is none. Raises MusterError for one that cannot be written."""
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise MusterError(f"{path} is not a regular file, so no host key can be kept there")
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise MusterError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise MusterError(f"{path} is larger than 64 MiB")
    return data


def has_hashed_names(data: bytes) -> bool:
    """Whether any entry hashes its host's name, so that new ones should too."""
    return any(line.lstrip().startswith(b"|1|") for line in data.split(b"\n"))


def forgotten(data: bytes, changes: Iterable[PinChange]) -> bytes:
    """The file without the keys that the changes drop. Other names on the line keep them; patterns (they
    cover other hosts too), markers, comments and other lines stay."""
    dropped: dict[bytes, list[str]] = {}
    for change in changes:
        for blob in change.drop:
            dropped.setdefault(blob, []).append(change.name.lower())
    if not dropped:
        return data
    kept = []
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        match = _WORDS.match(line)
        names = [] if match is None or match[1].startswith("#") else dropped.get(_decoded(match[3]), [])
        if match is None or not names or key_type(_decoded(match[3])) != match[2]:
            kept.append(line)
        elif match[1].startswith("|"):
            if not any(_hash_fits(match[1], name) for name in names):
                kept.append(line)
        else:
            listed = match[1].split(",")
            others = [each for each in listed if each.lower() not in names]
            if len(others) == len(listed):
                kept.append(line)
            elif any(each and not each.startswith("!") for each in others):
                kept.append(line[:match.start(1)] + ",".join(others) + line[match.end(1):])
    return "\n".join(kept).encode("utf-8", "surrogateescape")


def pinned(data: bytes, keys: Iterable[tuple[str, bytes]], *, hash_names: bool) -> bytes:
    """The file with these keys, each with its name, added at its end, each on a line of its own."""
    lines = []
    for name, blob in keys:
        shown = _hashed(name) if hash_names else name.lower()
        lines.append(f"{shown} {key_type(blob)} {base64.b64encode(blob).decode()}\n".encode())
    gap = b"" if not lines or not data or data.endswith(b"\n") else b"\n"
    return data + gap + b"".join(lines)


def obstacles(data: bytes, file: str, changes: Collection[PinChange]) -> dict[str, str]:
    """By name, why a change cannot be made to a file that holds `data`."""
    found = {change.name: f"{short(change.name)} is not a valid name for known_hosts"
             for change in changes if not _NAME.fullmatch(change.name)}
    if any(change.drop for change in changes):
        left = KnownHosts.parse(forgotten(data, changes), file)
        left.prepare(("", 22, change.name) for change in changes)
        for change in changes:
            still = [key for key in left.about("", 22, change.name).keys if key.blob in change.drop]
            if still:
                found[change.name] = (f"the old key {still[0].type} {fingerprint(still[0].blob)} of "
                                      f"{change.name} stands in {file} under a pattern, which covers other "
                                      "hosts too; remove that line by hand")
    return found


def write(path: str, changes: Collection[PinChange], *, hash_names: bool) -> None:
    """Makes all changes or none; where keys are dropped, the old file is kept as FILE.old. A key that is
    already there is not added again. Raises MusterError when another key for a name was added meanwhile, or
    the file cannot be written."""
    real = Path(os.path.realpath(path))
    try:
        with contextlib.suppress(FileExistsError):
            real.parent.mkdir(mode=0o700)
        with locked(real, make=True) as status:
            before = read(path)
            after = _changed(before, path, changes, hash_names=hash_names)
            if after != before:
                if any(change.drop for change in changes):
                    _replace(real.with_name(real.name + OLD), before, status)
                _replace(real, after, status)
    except OSError as error:
        raise MusterError(f"{path} cannot be written: {error.strerror}") from None


def _changed(data: bytes, path: str, changes: Collection[PinChange], *, hash_names: bool) -> bytes:
    known_hosts = KnownHosts.parse(data, path)
    known_hosts.prepare(("", 22, change.name) for change in changes)
    new: list[tuple[str, bytes]] = []
    for change in changes:
        known = known_hosts.about("", 22, change.name)
        types = [key_type(blob) for blob in change.add]
        rivals = [key for key in known.keys if key.type in types
                  and key.blob not in (*change.drop, *change.add)]
        if rivals or any(key.blob in change.add for key in known.revoked):
            raise MusterError(f"{path} got another key of {change.name} while this command ran; "
                              "nothing changed; run it again")
        held = {key.blob for key in known.keys}
        new += [(change.name, blob) for blob in change.add if blob not in held]
    return pinned(forgotten(data, changes), dict.fromkeys(new), hash_names=hash_names)


def _replace(path: Path, data: bytes, like: os.stat_result) -> None:
    """Puts `data` in the place of the file, with the mode and, where we may, the owner of `like`."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            with contextlib.suppress(OSError):
                os.fchown(file.fileno(), like.st_uid, like.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    sync_folder(path.parent)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _hash_fits(field: str, name: str) -> bool:
    parts = field.split("|")
    if len(parts) != 4 or parts[1] != "1":
        return False
    return hmac.digest(_decoded(parts[2]), name.lower().encode("utf-8", "surrogateescape"),
                       "sha1") == _decoded(parts[3])


def _hashed(name: str) -> str:
    salt = os.urandom(20)
    digest = hmac.digest(salt, name.lower().encode(), "sha1")
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"
