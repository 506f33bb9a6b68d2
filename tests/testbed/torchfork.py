"""A Python that has imported PyTorch already, which saves two seconds of CPU: `[python, "-IS", torchfork.py,
ADDRESS]` in place of `[python]`, before a script or `-c`.

What it runs is a fork of the server at ADDRESS, with the starter's environment, folder and standard files.
Its exit code is the starter's, and a starter that is killed takes it along. As in a container, its parent and
its /proc/PID/environ are others than the starter's.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

_MOST = 1 << 17         # bytes of a request
_MOST_OPEN = 1024
# the server's descriptors: what it is asked at, and what ends when no one needs it
LISTENER, NEEDED = 0, 1


def start(address: str, words: list[str]) -> NoReturn:
    """Hands over to a fork, and ends as it does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect("\0" + address)
        socket.send_fds(server, [json.dumps([words, dict(os.environ), str(Path.cwd())]).encode()], [0, 1, 2])
        code = int(server.recv(20) or b"1")
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


def serve() -> None:
    """Forks for each who asks."""
    import gc
    import selectors
    gc.disable()
    import torch.distributed  # noqa: F401
    gc.enable()
    gc.freeze()
    with selectors.DefaultSelector() as selector, socket.socket(fileno=LISTENER) as listener:
        for each in (LISTENER, NEEDED):
            selector.register(each, selectors.EVENT_READ)
        while (key := selector.select()[0][0]).fd != NEEDED:
            if key.fd == LISTENER:
                starter, _ = listener.accept()
                request, files, _, _ = socket.recv_fds(starter, _MOST, 3)
                pid = os.fork()
                if pid == 0:
                    _become(files, *json.loads(request))
                for file in files:
                    os.close(file)
                ended = os.pidfd_open(pid)
                for each in (starter.fileno(), ended):
                    selector.register(each, selectors.EVENT_READ, (pid, starter, ended))
                continue
            pid, starter, ended = key.data
            for kill in (os.kill, os.killpg):
                with suppress(ProcessLookupError):
                    kill(pid, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with suppress(OSError):     # the starter has gone
                starter.send(b"%d" % code)
            for each in (starter.fileno(), ended):
                selector.unregister(each)
            starter.close()
            os.close(ended)


def _become(files: list[int], words: list[str], environment: dict[str, str], folder: str) -> NoReturn:
    """This process is what the starter would have been."""
    import runpy
    code: Any = 1
    try:
        os.setsid()
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.closerange(3, _MOST_OPEN)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        first, *sys.argv = words[words[0] == "-I":]
        if first == "-c":
            sys.path[0] = ""
            exec(sys.argv[0], {"__name__": "__main__"})  # noqa: S102  (as Python would)
        else:
            sys.path[0], sys.argv = str(Path(first).parent), [first, *sys.argv]
            runpy.run_path(first, run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:  # noqa: BLE001  (printed, as Python would)
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        start(sys.argv[1], sys.argv[2:])
    serve()
