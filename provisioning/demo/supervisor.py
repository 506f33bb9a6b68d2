"""The process that holds a demo fleet: listens for its nodes, runs sshd for every connection, and leaves nothing behind.

    python -I -S supervisor.py FOLDER [remove]

Standard input first brings one line of JSON, [[access, [command ...]], ...], one pair for each node; the answer is one line with
the ports on 127.0.0.1. Then it is a lifeline: when it ends, because the demo closed it or died in whatever way, every process that
came from here is killed, also those that left their session, and FOLDER is removed if that was asked for.

sshd runs as from inetd (`sshd -i`), with the connection as its standard input: the ports are bound here, once, so no two nodes can
race for one, and no server is left over when this process dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36    # prctl(2)
_PATIENCE_S = 5.0
_BACKLOG = 512
# sshd hands a part of its own environment on; nothing of this machine's user belongs on a node.
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


def main() -> None:
    """Serves until standard input ends or a signal asks to stop, then cleans up."""
    folder, remove = sys.argv[1], "remove" in sys.argv[2:]
    # Orphans of our children become our children, so that none can get away.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    stop: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: stop.append(number))
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    try:
        line = sys.stdin.buffer.readline()
        if line.endswith(b"\n"):
            _serve(json.loads(line), wake, stop)
    finally:
        _kill_descendants()
        if remove:
            shutil.rmtree(folder, ignore_errors=True)


def _serve(nodes: list[tuple[str, list[str]]], wake: int, stop: list[int]) -> None:
    poll = select.poll()
    poll.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
    poll.register(wake, select.POLLIN)
    servers: dict[int, tuple[socket.socket, list[str]]] = {}
    bound: list[socket.socket] = []
    for access, command in nodes:
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        server.bind(("127.0.0.1", 0))
        bound.append(server)
        # A port that is bound and not listened on refuses, and nobody else can take it. One that is listened on and never
        # accepted from is silent.
        if access != "refused":
            server.listen(_BACKLOG)
        if access == "sshd":
            server.setblocking(False)
            servers[server.fileno()] = server, command
            poll.register(server, select.POLLIN)
    print(json.dumps([server.getsockname()[1] for server in bound]), flush=True)  # noqa: T201
    while not stop:
        for fd, _ in poll.poll():
            if fd == sys.stdin.fileno():
                return
            if fd == wake:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 4096)
                _reap()
            else:
                _accept(*servers[fd])


def _accept(server: socket.socket, command: list[str]) -> None:
    try:
        connection, _ = server.accept()
    except OSError:
        return
    with connection, open(os.devnull, "wb") as null:
        connection.setblocking(True)
        actions = [(os.POSIX_SPAWN_DUP2, connection.fileno(), fd) for fd in (0, 1)]
        actions.append((os.POSIX_SPAWN_DUP2, null.fileno(), 2))
        # Python ignores these; a child must meet them as it would anywhere.
        default = (signal.SIGPIPE, signal.SIGXFSZ)
        with contextlib.suppress(OSError):
            os.posix_spawn(command[0], command, _ENVIRONMENT, file_actions=actions, setsigdef=default)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _kill_descendants() -> None:
    """Kills until there is nobody left; a process that forks while we look is found the next time. One that cannot be killed
    (an uninterruptible wait) is given up after 5 s."""
    until = time.monotonic() + _PATIENCE_S
    while (pids := _descendants()) and time.monotonic() < until:
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        select.select([], [], [], 0.01)


def _descendants() -> list[int]:
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[1-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            parents[int(folder.name)] = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[1])
    ours = {os.getpid()}
    found: list[int] = []
    while fresh := [pid for pid, parent in parents.items() if parent in ours and pid not in ours]:
        ours.update(fresh)
        found.extend(fresh)
    return found


if __name__ == "__main__":
    main()
