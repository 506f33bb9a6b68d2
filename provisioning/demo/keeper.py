"""A process of its own that holds the demo fleet's sockets, starts sshd for each connection, and clears up
when its owner is gone.

It is run as a program. Standard input is its lifeline: one line of JSON says which nodes there are, and the
end of file, however it comes about (a clean end, an exception, KILL), ends everything. Standard output
answers with one line of JSON twice: the folder that it made, then the nodes' ports.

It does inetd's work itself for three reasons: a port that was taken cannot be lost again between looking and
listening; a fleet is up as soon as its files are; and, as the reaper of its descendants, it finds every
process that a node ever started, whatever session or group that process moved to.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

_PR_SET_CHILD_SUBREAPER = 36    # linux/prctl.h
_BACKLOG = 128
_PATIENCE_S = 5.0               # for processes that were killed and do not go


class _Ended(Exception):
    """Someone asked us to end."""


def main(prefix: str, base: str | None) -> None:
    """Serves until standard input ends or a signal comes; then nothing of the fleet is left."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end)
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
    try:
        _print({"folder": str(folder)})
        line = sys.stdin.buffer.readline()
        if line.endswith(b"\n"):
            _serve(json.loads(line))
    except (_Ended, BrokenPipeError):
        pass
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _kill_descendants()
        _remove(folder)


def _end(number: int, frame: FrameType | None) -> None:
    raise _Ended


def _print(document: object) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _serve(order: dict[str, Any]) -> None:
    wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        ports, held = {}, []
        for name, node in order["nodes"].items():
            listener = socket.socket()
            held.append(listener)
            listener.bind(("127.0.0.1", 0))
            ports[name] = listener.getsockname()[1]
            # A socket that is bound but does not listen refuses, and no one else can have its port meanwhile.
            if node["access"] != "refused":
                listener.listen(_BACKLOG)
            if node["access"] == "sshd":
                listener.setblocking(False)
                selector.register(listener, selectors.EVENT_READ, node["argv"])
        _print({"ports": ports})
        while True:
            for key, _ in selector.select():
                if key.fileobj == wake:
                    os.read(wake, 4096)
                    _reap()
                elif isinstance(key.fileobj, socket.socket):
                    _accept(key.fileobj, key.data)
                elif not os.read(sys.stdin.fileno(), 4096):
                    return


def _accept(listener: socket.socket, argv: list[str]) -> None:
    try:
        connection, _ = listener.accept()
    except OSError:
        return
    with connection:
        fd = connection.fileno()
        os.posix_spawn(
            argv[0], argv, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, 0), (os.POSIX_SPAWN_DUP2, fd, 1),
                          (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)],
            setsigdef=[signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD])


def _reap() -> bool:
    """Collects those that have ended; whether any child is left."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return True
        except ChildProcessError:
            return False


def _kill_descendants() -> None:
    """All processes that come from us are gone, or were sent KILL and do not go."""
    until = time.monotonic() + _PATIENCE_S
    while _reap() and time.monotonic() < until:
        for pid in _descendants(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _descendants(ancestor: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[1-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            parent = int(stat.read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    todo = [ancestor]
    while todo:
        found = children.get(todo.pop(), [])
        yield from found
        todo.extend(found)


def _remove(folder: Path) -> None:
    """The folder is gone, also if its owner's last thread was still writing to it."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
