"""Stores a document and its signature together in a folder,
so that readers always get a matching pair. Python 3.8.

    FOLDER/7/NAME, FOLDER/7/NAME.sig    one issue of it, by its serial number
    FOLDER/current -> 7                 switched by a rename; the previous issue stays for readers
    FOLDER/NAME -> current/NAME         so that people and ssh-keygen find them; NAME.sig likewise
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import typing

from healthcheck.config.synced import sync_folder

CURRENT = "current"
SIGNATURE = ".sig"
MOST_PAIR = 64 << 20        # bytes of the document
_MOST_SIG = 4096


class NoPair(Exception):
    """There is no readable pair; one line."""


def read_pair(folder: str, name: str) -> tuple[bytes, bytes]:
    """The document and its signature; raises NoPair. Two plain files are accepted, too."""
    for at in (os.path.join(folder, CURRENT), folder):
        try:
            place = os.open(at, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENOENT and at != folder:
                continue
            raise NoPair(f"{at}: {error.strerror}") from None
        try:
            # Read both through one folder, which a switch in between does not change.
            return _read_in(place, name, MOST_PAIR), _read_in(place, name + SIGNATURE, _MOST_SIG)
        except OSError as error:
            # A folder is named by its number once it is open.
            named = error.filename if isinstance(error.filename, str) else name
            raise NoPair(f"{os.path.join(at, named)}: {error.strerror}") from None
        finally:
            os.close(place)
    raise NoPair(f"{folder}: no such folder")


def _read_in(place: int, name: str, most: int) -> bytes:
    # Do not block on a pipe or a device.
    with open(os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=place), "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is over {most} bytes", name)
    return data


def write_pair(folder: str, name: str, serial: int, data: bytes, signature: bytes, mode: int = 0o644) -> None:
    """Writes this pair durably, under the caller's `lock_folder`; on OSError the previous pair stays."""
    import shutil  # not for readers: it loads three compressors


    new, there = os.path.join(folder, f".new-{serial}"), os.path.join(folder, str(serial))
    shutil.rmtree(new, ignore_errors=True)
    os.mkdir(new, 0o755 if mode & 0o044 else 0o700)
    try:
        for each, content in ((name, data), (name + SIGNATURE, signature)):
            write_synced(os.path.join(new, each), content, mode)
        os.chmod(new, 0o755 if mode & 0o044 else 0o700)
        sync_folder(new)
        # A killed run may have left one of this number.
        shutil.rmtree(there, ignore_errors=True)
        os.rename(new, there)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    before = _points_to(folder, CURRENT)
    _point_at(folder, CURRENT, str(serial))
    for each in (name, name + SIGNATURE):
        if _points_to(folder, each) != f"{CURRENT}/{each}":
            _point_at(folder, each, f"{CURRENT}/{each}")
    sync_folder(folder)
    for each in os.listdir(folder):
        if (each.isdigit() and each not in (before, str(serial))) or each.startswith(".new-"):
            shutil.rmtree(os.path.join(folder, each), ignore_errors=True)


def write_synced(path: str, data: bytes, mode: int) -> None:
    """Creates a new file; raises OSError."""
    made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(made, "wb") as file:
        os.fchmod(made, mode)
        file.write(data)
        file.flush()
        os.fsync(made)


def replace_synced(path: str, data: bytes, mode: int) -> None:
    """Replaces the file atomically. Raises OSError."""
    new = f"{path}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    try:
        write_synced(new, data, mode)
        os.rename(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise
    sync_folder(os.path.dirname(path))


@contextlib.contextmanager
def lock_folder(folder: str) -> typing.Iterator[None]:
    """One writer at a time; raises OSError."""
    held = os.open(os.path.join(folder, ".lock"),
                   os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _points_to(folder: str, name: str) -> str | None:
    try:
        return os.readlink(os.path.join(folder, name))
    except OSError:
        return None


def _point_at(folder: str, name: str, target: str) -> None:
    new = os.path.join(folder, f".{name}.new")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    os.symlink(target, new)
    os.rename(new, os.path.join(folder, name))
