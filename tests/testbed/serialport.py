"""A machine's serial port as a TCP server: what it writes, whoever is connected gets."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from tests.testbed.sshd import wait_until


class SerialPort:
    """`device` is how OpenIPMI's ipmi_sim names it."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self._there: list[socket.socket] = []
        self.device = f"tcp:127.0.0.1:{server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._there.append(self._server.accept()[0])

    def write(self, text: str | bytes) -> None:
        """The machine writes this, once its controller is connected."""
        wait_until(lambda: bool(self._there), what="the controller at the serial port")
        self._there[-1].sendall(text.encode() if isinstance(text, str) else text)

    def close(self) -> None:
        """Lets go of every controller that was connected."""
        for controller in self._there:
            controller.close()


@contextlib.contextmanager
def serial_port() -> Iterator[SerialPort]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = SerialPort(server)
        try:
            yield port
        finally:
            port.close()
