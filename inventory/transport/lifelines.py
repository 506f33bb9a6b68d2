"""Connections that nodes hold to the head; what runs there ends when we close them, or end ourselves.

A peer that says nothing is let go: else whoever reaches the port could hold all our descriptors.
"""

from __future__ import annotations

import secrets
import selectors
import socket
import threading
import time
from contextlib import suppress

from inventory.errors import LACKING

_GREETING = 64
_GREETING_S = 10.0  # what it takes is one packet, sent at once
_PAUSE_S = 0.2      # for a descriptor to be free again


class Lifelines:
    """Listens on a port of every address; a peer without the token is dropped. `close_one` ends one task's
    connection, `close` all, as the kernel does when this process ends."""

    def __init__(self) -> None:
        """Raises OSError without a free port or descriptor."""
        self.token = secrets.token_hex(16)
        self._listener = _listen()
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._lines: dict[tuple[str, int], socket.socket] = {}
        self._over: set[tuple[str, int]] = set()
        self._silent: dict[socket.socket, float] = {}       # until when each may say who it is, in order
        self._closed = False
        self._waker, self._wake = socket.socketpair()
        threading.Thread(target=self._serve, name="muster-lifelines", daemon=True).start()

    def greeting(self, step: str) -> str:
        """What the tasks of this step send first, before their number."""
        return f"{self.token}-{step}"

    def close_one(self, step: str, task: int) -> None:
        """Ends the lifeline of a task, now or as soon as it is there."""
        with self._lock:
            self._over.add((step, task))
            line = self._lines.pop((step, task), None)
        if line is not None:
            _close(line)

    def close(self) -> None:
        """Ends all."""
        with self._lock:
            self._closed = True
            lines, self._lines = list(self._lines.values()), {}
        for line in lines:
            _close(line)
        _close(self._listener)
        with suppress(OSError):
            self._wake.send(b"!")

    def _serve(self) -> None:
        with selectors.DefaultSelector() as ready, suppress(OSError, ValueError):
            ready.register(self._listener, selectors.EVENT_READ)
            ready.register(self._waker, selectors.EVENT_READ)
            while not self._closed:
                for key, _ in ready.select(self._patience()):
                    if key.fileobj is self._listener:
                        self._accept(ready)
                    elif key.fileobj is not self._waker:
                        assert isinstance(key.fileobj, socket.socket)  # noqa: S101  (narrowing)
                        ready.unregister(key.fileobj)
                        del self._silent[key.fileobj]
                        self._greet(key.fileobj)
                while self._silent and self._patience() == 0:
                    line = next(iter(self._silent))
                    ready.unregister(line)
                    del self._silent[line]
                    _close(line)
        for line in self._silent:
            _close(line)
        _close(self._waker)
        _close(self._wake)

    def _patience(self) -> float | None:
        """Seconds until the first peer has been silent for too long; None where all have spoken."""
        until = next(iter(self._silent.values()), None)
        return None if until is None else max(0.0, until - time.monotonic())

    def _accept(self, ready: selectors.BaseSelector) -> None:
        try:
            line, _ = self._listener.accept()
        except OSError as error:
            if error.errno in LACKING:
                time.sleep(_PAUSE_S)    # who waits to be accepted keeps the listener ready
            return
        try:
            line.setblocking(False)
            ready.register(line, selectors.EVENT_READ)
            self._silent[line] = time.monotonic() + _GREETING_S
        except OSError:
            _close(line)        # the others are served on

    def _greet(self, line: socket.socket) -> None:
        try:
            word, _, number = line.recv(_GREETING + 32).strip().decode("ascii").partition(" ")
            token, _, step = word.partition("-")
            key = step, int(number)
        except (OSError, ValueError):
            _close(line)
            return
        with self._lock:
            known = (secrets.compare_digest(token, self.token) and not self._closed
                     and key not in self._over and key not in self._lines)
            if known:
                self._lines[key] = line
        if not known:
            _close(line)


def _listen() -> socket.socket:
    if socket.has_dualstack_ipv6():
        with suppress(OSError):
            return socket.create_server(("", 0), family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True)
    return socket.create_server(("", 0), backlog=1024)


def _close(line: socket.socket) -> None:
    with suppress(OSError):
        line.close()
