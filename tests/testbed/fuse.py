"""A file system that takes every request and never answers: whoever touches it is in state D and cannot be killed.

The kernel lets a process that was killed give up on a request only until the server has read it (fs/fuse/dev.c,
request_wait_answer); after that it waits for the answer, come what may. Ours reads each at once. Closing the server's end of
/dev/fuse aborts the connection, and every waiting process gets its error and may die.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import socket
import struct
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_INIT = 26              # linux/fuse.h: FUSE_INIT
_VERSION = (7, 31)      # old enough for every kernel since 5.4, new enough for the long form of the answer
_BIGGEST = 1 << 17
_MNT_DETACH = 2
_NOSUID_NODEV = 2 | 4


def usable() -> str:
    """Why there is no FUSE here, or nothing."""
    if not Path("/dev/fuse").exists():
        return "no /dev/fuse"
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        return "neither root nor fusermount3"
    return ""


class Hung:
    """Mounted on `folder` while the context lasts. `taken` counts the requests that are being kept waiting."""

    def __init__(self, folder: Path, *, by_root: bool | None = None) -> None:
        self.folder = folder
        self.taken = 0
        self._by_root = os.geteuid() == 0 if by_root is None else by_root
        self._changed = threading.Condition()
        self._fd = -1
        self._stop = -1

    def __enter__(self) -> Hung:
        self._fd = _mount(self.folder) if self._by_root else _fusermount(self.folder)
        os.set_blocking(self._fd, False)
        stopped, self._stop = os.pipe()
        self._server = threading.Thread(target=self._serve, args=(self._fd, stopped), name="fuse", daemon=True)
        self._server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.abort()

    def abort(self) -> None:
        """Unmounts, and lets go of everybody who waits. Doing it again does nothing."""
        if self._fd < 0:
            return
        os.close(self._stop)
        self._server.join()
        if self._by_root:
            _libc().umount2(os.fsencode(self.folder), _MNT_DETACH)
        else:
            subprocess.run(["fusermount3", "-u", "-z", "--", str(self.folder)], check=False, capture_output=True)
        os.close(self._fd)
        self._fd = -1

    def await_taken(self, count: int = 1, timeout: float = 10.0) -> None:
        """Waits until so many requests have been taken: as many processes are then unkillable."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.taken >= count, timeout), f"{self.taken} requests instead of {count}"

    def _serve(self, fd: int, stopped: int) -> None:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.register(stopped, select.POLLIN)
        while not any(ready == stopped for ready, _ in poll.poll()):
            with suppress(BlockingIOError, InterruptedError):
                request = os.read(fd, _BIGGEST)
                _length, opcode, unique = struct.unpack_from("=IIQ", request)
                if opcode == _INIT:
                    os.write(fd, _initialised(request, unique))
                else:
                    with self._changed:
                        self.taken += 1
                        self._changed.notify_all()
        os.close(stopped)


def _initialised(request: bytes, unique: int) -> bytes:
    """fuse_out_header and fuse_init_out: no feature is asked for."""
    _major, _minor, readahead = struct.unpack_from("=III", request, 40)
    body = struct.pack("=IIIIHHIIHHI28x", *_VERSION, readahead, 0, 16, 12, 4096, 1, 1, 0, 0)
    return struct.pack("=IiQ", 16 + len(body), 0, unique) + body


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _mount(folder: Path) -> int:
    fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={fd},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    if _libc().mount(b"muster-hung", os.fsencode(folder), b"fuse", _NOSUID_NODEV, options.encode()) != 0:
        number = ctypes.get_errno()
        os.close(fd)
        raise OSError(number, os.strerror(number), str(folder))
    return fd


def _fusermount(folder: Path) -> int:
    """fusermount3(1) mounts for an ordinary user and passes the descriptor back over a socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        subprocess.run(
            ["fusermount3", "-o", "rw,nosuid,nodev,fsname=muster-hung", "--", str(folder)], check=True, capture_output=True,
            env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())}, pass_fds=[theirs.fileno()],
        )
        _data, fds, _flags, _address = socket.recv_fds(ours, 1, 1)
    return fds[0]
