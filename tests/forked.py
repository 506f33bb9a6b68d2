"""Runs `muster` in a fork of a process that has imported all of it and read the packaged rules, which saves
each command of a test a quarter of a second of imports and a tenth of reading; and one that installs an agent
a third, of reading what it sends.

All else is as when it is started: a process of its own, with its own environment, folder and descriptors, the
`main` of the installed command, and its exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests import packagedrules

_MOST = 1 << 18         # bytes of a request
_MOST_OPEN = 1024       # descriptors below it are closed in a command, as subprocess does with all
_KILLED = -signal.SIGKILL
# Of the server: 140 MB in huge pages are forked, and given back, in a third of the time.
_HUGE_PAGES = {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
# What commands import where they use it, and takes long.
_LATE = ("rich.console", "rich.table", "rich.text", "rich.progress", "rich.live", "rich.markdown",
         "ClusterShell.NodeSet",
         "cryptography.hazmat.primitives.asymmetric.ed25519", "cryptography.hazmat.primitives.serialization",
         "kubernetes.client",
         "kubernetes.config", "sushy", "urllib3")


def run(
    argv: Sequence[str], *, cwd: Path, env: dict[str, str], timeout: float, merged: bool = False,
) -> subprocess.CompletedProcess[str]:
    """The finished command, with its output as text; `merged`: standard error stands in standard output, in
    the order of writing.

    Raises subprocess.TimeoutExpired, after the command has been killed.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)     # pid and exit code stay apart
    (out, out_end), (err, err_end) = os.pipe(), os.pipe()
    request = {"argv": list(argv), "cwd": str(cwd), "env": env}
    with theirs, open(os.devnull, "rb") as nothing:
        socket.send_fds(server(), [json.dumps(request).encode()],
                        [nothing.fileno(), out_end, out_end if merged else err_end, theirs.fileno()])
    os.close(out_end)
    os.close(err_end)
    read, code = {out: b"", err: b""}, _KILLED
    with ours, os.fdopen(out, "rb"), os.fdopen(err, "rb"), selectors.DefaultSelector() as selector:
        pid = int(ours.recv(20))        # the first comes when all is imported
        until = time.monotonic() + timeout
        for each in (out, err, ours):
            selector.register(each, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, until - time.monotonic()))
            if not ready:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(argv), timeout, read[out], read[err])
            for key, _ in ready:
                if key.fileobj is ours:
                    code = int(ours.recv(20))
                elif piece := os.read(key.fd, 1 << 16):
                    read[key.fd] += piece
                    continue
                selector.unregister(key.fileobj)
    return subprocess.CompletedProcess(list(argv), code, read[out].decode(), read[err].decode())


@functools.cache
def server() -> socket.socket:
    """What a server for this process and its forks reads its requests from; it leaves with the last of them,
    however they end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _MOST)
    with theirs:
        server = subprocess.Popen([sys.executable, __file__, str(theirs.fileno())],
                                  pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                                  env={**os.environ, **_HUGE_PAGES,
                                       "PYTHONPATH": str(Path(__file__).parents[1])})
    atexit.register(server.wait)
    atexit.register(ours.close)     # before that
    return ours


def import_all() -> None:
    """All that a command may import."""
    main = importlib.import_module("healthcheck.cli.main")
    names = [place.partition(":")[0] for place, _ in main.COMMANDS.values()]
    for package in ("inventory", "healthcheck", "provisioning"):
        names += [module.name for module in pkgutil.walk_packages(importlib.import_module(package).__path__,
                                                                  f"{package}.")
                  if ".onnode." not in module.name]
    for name in (*names, *_LATE):
        with contextlib.suppress(ImportError):      # what is optional and not installed
            importlib.import_module(name)


def _serve(requests: socket.socket) -> None:
    """Forks a command for each request, and answers with its pid, and later with its exit code."""
    import_all()
    packagedrules.keep()
    packagedrules.read_all()
    importlib.import_module("provisioning.agent.bundle").code()     # which installing an agent sends
    gc.collect()
    gc.freeze()
    running: dict[int, tuple[int, int]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is requests:
                    request, files, _, _ = socket.recv_fds(requests, _MOST, 4)
                    if not request:
                        return
                    pid = os.fork()
                    if pid == 0:
                        become(json.loads(request), files)
                    ended = os.pidfd_open(pid)
                    running[ended] = pid, files.pop()
                    os.write(running[ended][1], b"%d" % pid)
                    selector.register(ended, selectors.EVENT_READ)
                    for file in files:
                        os.close(file)
                else:
                    pid, answer = running.pop(key.fd)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    _, status = os.waitpid(pid, 0)
                    with contextlib.suppress(OSError):      # no one waits any more
                        os.write(answer, b"%d" % os.waitstatus_to_exitcode(status))
                    os.close(answer)


def become(request: dict[str, Any], files: list[int]) -> None:
    """This process is the command, and does not return."""
    try:
        for number, file in enumerate(files[:3]):
            os.dup2(file, number)
        os.closerange(3, _MOST_OPEN)
        os.environ.clear()
        os.environ.update(request["env"])
        time.tzset()
        os.chdir(request["cwd"])
        sys.argv = request["argv"]
        sys.stdin, sys.stdout = os.fdopen(0, encoding="utf-8"), os.fdopen(1, "w", encoding="utf-8")
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)
        importlib.import_module("healthcheck.cli.main").main()
    except BaseException:  # noqa: BLE001  (printed, as Python would)
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _requests:
        _serve(_requests)
