"""Services of ours behind TLS, each at a loopback address of its own, in threads of the test's process."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.testbed.bmc.certificates import Authority
from tests.testbed.ports import free_port
from tests.testbed.redfish.service import Service
from tests.testbed.webserver import Answers, Server


class _Handler(Answers):
    protocol_version = "HTTP/1.1"
    service: Service

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._do
        raise AttributeError(name)

    def _do(self) -> None:
        length = self.headers.get("Content-Length", "0")
        body = self.rfile.read(int(length)) if length.isdecimal() else b""
        path, _, query = self.path.partition("?")
        said = self.service.answer(self.command, path, query,
                                   {name.lower(): value for name, value in self.headers.items()}, body)
        data = json.dumps(said.body).encode() if said.body is not None else b""
        self.send_response(said.status)
        for name, value in said.headers.items():
            self.send_header(name, value)
        if said.status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class _Server(Server):
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], service: Service, context: ssl.SSLContext) -> None:
        super().__init__(address, type("Handler", (_Handler,), {"service": service}))
        self._context = context

    def finish_request(self, request: Any, client_address: Any) -> None:
        with contextlib.suppress(OSError):
            request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            request.settimeout(60)
            with self._context.wrap_socket(request, server_side=True) as wrapped:
                super().finish_request(wrapped, client_address)


@contextlib.contextmanager
def served(folder: Path, services: Mapping[str, Service]) -> Iterator[dict[str, tuple[str, int, str]]]:
    """These services by name, while they are served: the address, the port and the path of the authority that
    signed their certificates."""
    authority = Authority(folder / "ca.pem")
    block = f"127.{64 + secrets.randbelow(128)}.{secrets.randbelow(256)}"
    places: dict[str, tuple[str, int, str]] = {}
    servers = []
    for at, (name, service) in enumerate(services.items(), 1):
        address = f"{block}.{at}"
        path, _ = authority.certificate(folder / f"{name}.pem", address)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        port = free_port(address)
        servers.append(_Server((address, port), service, context))
        threading.Thread(target=servers[-1].serve_forever, args=(0.05,), daemon=True).start()
        places[name] = address, port, str(folder / "ca.pem")
    try:
        yield places
    finally:
        for one in servers:
            one.shutdown()
            one.server_close()
