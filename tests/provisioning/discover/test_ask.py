"""Addresses are asked at a bounded rate, and what answers costs its own time; over real sockets."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provisioning.discover.ask import ScanSettings, ask, sweep
from provisioning.discover.model import FoundController
from tests.testbed.bmc.certificates import Authority
from tests.testbed.ports import free_port
from tests.testbed.sshd import wait_until

ROOT = {
    "RedfishVersion": "1.15.0", "Vendor": "Con\x1b[31mtoso\n", "Product": "\u202eX" * 500, "UUID": "no uuid",
    "Oem": {"Dell": {"ServiceTag": "t1"}}}


class Server:
    """A TLS server at its own loopback address that answers with `answer`; remembers when each came."""

    def __init__(
        self, folder: Path, answer: Callable[[ssl.SSLSocket], None] | None, address: str, port: int,
    ) -> None:
        self.address, self.port = address, port
        self.came: list[float] = []
        self._answer = answer
        path, self.fingerprint = Authority(folder / "ca.pem").certificate(folder / f"{address}.pem", address)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(path)
        self._listener = socket.create_server((address, port))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            self.came.append(time.monotonic())
            threading.Thread(target=self._one, args=(link,), daemon=True).start()

    def _one(self, link: socket.socket) -> None:
        with contextlib.suppress(OSError), link:
            if self._answer is None:        # no TLS: whatever comes is echoed
                link.sendall(link.recv(100))
                return
            with self._context.wrap_socket(link, server_side=True) as secured:
                secured.recv(4096)
                self._answer(secured)

    def close(self) -> None:
        """No one is answered any more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    started: list[Server] = []
    port = free_port()
    block = f"127.{64 + secrets.randbelow(128)}.{secrets.randbelow(256)}"

    def start(answer: Callable[[ssl.SSLSocket], None] | None) -> Server:
        started.append(Server(tmp_path, answer, f"{block}.{len(started) + 1}", port))
        return started[-1]

    yield start
    for server in started:
        server.close()


def how(server: Server, answer_s: float = 5.0) -> ScanSettings:
    return ScanSettings(server.port, server.port, connect_s=1.0, answer_s=answer_s, ipmi_s=0.2)


def whole(link: ssl.SSLSocket) -> None:
    body = json.dumps(ROOT).encode()
    link.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    time.sleep(3)       # a server that keeps its connection open is not waited for


def drip(link: ssl.SSLSocket) -> None:
    while True:
        link.sendall(b"H")
        time.sleep(0.05)


def flood(link: ssl.SSLSocket) -> None:
    link.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        link.sendall(b"[" * 65536)


def headers(link: ssl.SSLSocket) -> None:
    link.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        link.sendall(b"x: \x1b[2J\r\n" * 1000)


def test_what_a_service_root_says_is_shown_without_what_a_terminal_would_act_on(
    serve: Callable[..., Server],
) -> None:
    server = serve(whole)
    began = time.monotonic()
    found = ask(server.address, how(server))
    assert time.monotonic() - began < 10
    assert found is not None and found.speaks == ("redfish",)
    assert found.vendor == "Con\\x1b[31mtoso\\n" and len(
        found.product) <= 80 and "\u202e" not in found.product
    assert (found.serial, found.uuid, found.fingerprint) == ("T1", "", server.fingerprint)


@pytest.mark.parametrize(
    ("answer", "said", "most"),
    [(drip, "no whole answer within 1 s", 2.5), (flood, "answers with over 262144 bytes", 5.0),
     (headers, "answers with over 262144 bytes", 5.0),
     (lambda link: link.sendall(b"HTTP/1.1 302 Found\r\nLocation: https://10.9.9.9/\x1b]0;x\x07\r\n\r\n"),
      "redirects to https://10.9.9.9/", 2.5), (lambda link: None, "the answer is no whole HTTP", 2.5),
     (None, "no TLS at port", 2.5)])
def test_a_hostile_answer_is_bounded_in_time_and_size_and_its_kind_is_said(
    serve: Callable[..., Server], answer: Callable[[ssl.SSLSocket], None] | None, said: str, most: float,
) -> None:
    server = serve(answer)
    elsewhere = serve(whole)
    began = time.monotonic()
    found = ask(server.address, how(server, answer_s=1.0 if answer is drip else 5.0))
    assert time.monotonic() - began < most
    assert found is not None and found.speaks == () and said in found.said
    assert found.said.isprintable() and "\x1b" not in found.said
    assert not elsewhere.came


def test_a_handshake_that_never_comes_ends_in_its_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        began = time.monotonic()
        found = ask("127.0.0.1", ScanSettings(port, port, connect_s=1.0, answer_s=0.5, ipmi_s=0.1))
        assert time.monotonic() - began < 10
    assert found is not None and "no whole answer" in found.said


def test_no_more_addresses_are_begun_in_a_second_than_the_rate_allows(serve: Callable[..., Server]) -> None:
    servers = [serve(whole) for _ in range(30)]
    found = list(sweep([server.address for server in servers], 20.0, how(servers[0])))
    assert [one.address for one in found] == [server.address for server in servers]
    came = sorted(at for server in servers for at in server.came)
    assert len(came) == 30                                      # one connection each
    for at in range(len(came) - 11):
        # eleven more take 0.55 s; a late thread may make up for some of it
        assert came[at + 11] - came[at] > 0.5 - 0.2


def test_254_addresses_where_no_one_is_take_seconds() -> None:
    port = free_port()
    began = time.monotonic()
    # 127.0.0.0/8 refuses at once; to drop what comes needs a firewall, and how long each may then take is
    # How's.
    assert not list(
        sweep([f"127.3.7.{at}" for at in range(1, 255)], 200.0, ScanSettings(port, port, ipmi_s=0.3)))
    assert time.monotonic() - began < 6


def test_addresses_that_swallow_everything_cost_their_time_side_by_side() -> None:
    def swallow(address: str, how: ScanSettings) -> FoundController | None:
        time.sleep(how.connect_s)
        return None

    began = time.monotonic()
    assert not list(sweep([str(at) for at in range(254)], 500.0, ScanSettings(connect_s=0.5), one=swallow))
    assert time.monotonic() - began < 20


def test_whoever_stops_listening_stops_the_asking() -> None:
    asked: list[str] = []

    def one(address: str, how: ScanSettings) -> FoundController | None:
        asked.append(address)
        return FoundController(address, ("redfish",))

    def told(begun: int) -> None:
        if begun == 10:
            raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        list(sweep([str(at) for at in range(1000)], 1000.0, ScanSettings(), told, one=one))
    wait_until(lambda: threading.active_count() <= before, what="the end of the threads")
    assert len(asked) <= 11
