"""A TCP relay on loopback that can be frozen: what is sent through it then is lost, and no one is told, as
when a machine loses power."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from tests.testbed.sshd import listener


class Relay:
    """Passes bytes both ways until `freeze`; `connections` counts those it took."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self.connections = 0
        self._to = port
        self._frozen = threading.Event()

    def freeze(self) -> None:
        """From now on the connections that are there carry nothing; new ones work."""
        self._frozen.set()
        self._frozen = threading.Event()

    def serve(self, near: socket.socket) -> None:
        self.connections += 1
        frozen = self._frozen
        with socket.create_connection(("127.0.0.1", self._to)) as far:
            back = threading.Thread(target=_pass, args=(far, near, frozen), daemon=True)
            back.start()
            _pass(near, far, frozen)
            back.join()


def _pass(source: socket.socket, sink: socket.socket, frozen: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            if not frozen.is_set():
                sink.sendall(data)
        if not frozen.is_set():
            sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def relay(port: int) -> Iterator[Relay]:
    made = Relay(port)
    with listener(made.serve) as at:
        made.port = at
        yield made
