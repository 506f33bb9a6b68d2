"""A file system whose every file hangs: it takes each request from the kernel and never answers.

A process that has touched it waits in state D, where no signal reaches it, because the kernel keeps a request
that was taken alive until it is answered or the connection ends (fs/fuse/dev.c, request_wait_answer).
"""

from __future__ import annotations

import array
import ctypes
import os
import select
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_INIT, _GETATTR, _ACCESS = 26, 3, 34
_ENOSYS = 38
_MNT_DETACH = 2
_MIN_READ = 1 << 17  # above FUSE_MIN_READ_BUFFER plus one write


def available() -> str | None:
    """Why there is no such file system to be had here, or None."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse is not there for us"
    if os.geteuid() and shutil.which("fusermount3") is None:
        return "fusermount3 is not installed"
    return None


@contextmanager
def hung(point: Path) -> Iterator[threading.Event]:
    """Mounts it on an existing folder. The event is set once a request was swallowed; at the end whoever
    waits is let go with an error, and the mount is gone."""
    device = _mount_as_root(point) if os.geteuid() == 0 else _mount_as_user(point)
    stop, stopper = os.pipe()
    swallowed = threading.Event()
    server = threading.Thread(target=_serve, args=(device, stop, swallowed), daemon=True)
    server.start()
    try:
        yield swallowed
    finally:
        _unmount(point)
        os.close(stopper)
        server.join()
        # The last descriptor: the kernel aborts the connection.
        os.close(device)
        os.close(stop)


def _serve(device: int, stop: int, swallowed: threading.Event) -> None:
    while True:
        ready, _, _ = select.select([device, stop], [], [])
        if stop in ready:
            return
        try:
            request = os.read(device, _MIN_READ)
        except OSError:
            return
        _, opcode, unique = struct.unpack_from("<IIQ", request)
        if opcode == _INIT:
            # fuse_init_out of protocol 7.31: major, minor, max_readahead, flags, background, congestion,
            # max_write, granularity.
            _reply(device, unique, struct.pack("<IIIIHHII32x", 7, 31, 0, 0, 12, 9, 4096, 1))
        elif opcode == _GETATTR and struct.unpack_from("<Q", request, 16)[0] == 1:
            # fuse_attr_out: valid for an hour; inode 1, a folder of root's with mode 0755.
            _reply(device, unique, struct.pack("<QII", 3600, 0, 0)
                   + struct.pack("<6Q3I7I", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 0, 0))
        elif opcode == _ACCESS:
            _reply(device, unique, b"", _ENOSYS)
        else:
            swallowed.set()


def _reply(device: int, unique: int, body: bytes, error: int = 0) -> None:
    os.write(device, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)


def _mount_as_root(point: Path) -> int:
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if ctypes.CDLL(None, use_errno=True).mount(b"muster-hung", os.fsencode(point), b"fuse", 0, options):
        error = ctypes.get_errno()
        os.close(device)
        raise OSError(error, os.strerror(error), str(point))
    return device


def _mount_as_user(point: Path) -> int:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        subprocess.run(["fusermount3", str(point)], env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())},
                       pass_fds=[theirs.fileno()], check=True)
        _, passed, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
        return array.array("i", passed[0][2])[0]


def _unmount(point: Path) -> None:
    if os.geteuid() == 0:
        ctypes.CDLL(None).umount2(os.fsencode(point), _MNT_DETACH)
    else:
        subprocess.run(["fusermount3", "-u", "-z", str(point)], check=False)
