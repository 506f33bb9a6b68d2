"""The server: what is answered where, and that no client keeps another, however slow, silent or many."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.exporter.admission import MOST, MOST_OF_PEER
from healthcheck.exporter.board import Board, HttpResponse
from healthcheck.exporter.connection import ClientLimits
from healthcheck.exporter.page import Page
from healthcheck.exporter.request import takes_gzip
from healthcheck.exporter.security import Security
from healthcheck.exporter.server import Server, serve
from healthcheck.exporter.source import FleetStatus, NodeNow
from healthcheck.exporter.tls import Tls
from inventory.errors import UsageError
from inventory.model import Node
from tests.healthcheck.exporter import made
from tests.healthcheck.exporter.certificates import certificate
from tests.testbed.sshd import wait_until


class Told:
    """A source that says what it was given, and counts how often it was asked;
    `wait` is done before it answers."""

    def __init__(self, fleet: FleetStatus) -> None:
        self.fleet = fleet
        self.asked = 0
        self.wait: Callable[[], object] = lambda: None

    def read(self, now: float) -> FleetStatus | None:
        self.asked += 1
        self.wait()
        return self.fleet if self.asked == 1 else None

    def close(self) -> None:
        """Nothing."""


def board(source: Told | None = None, inventory: list[Node] | None = None) -> Board:
    held = Board(source or Told(made.fleet(made.at())), Page(3600), lambda: made.PROCESS,
                 clock=lambda: made.NOW, inventory=(lambda: inventory) if inventory is not None else None,
                 port=9100 if inventory is not None else None)
    held.refresh()
    return held


@contextlib.contextmanager
def serving(
    held: Board | None = None, security: Security | None = None, *, most: int = MOST,
    most_of_peer: int = MOST_OF_PEER, **limits: float,
) -> Iterator[Server]:
    """A server on loopback; `limits` in seconds, as `ClientLimits` has them."""
    server = Server("127.0.0.1", 0, security, limits=ClientLimits(**{"request_s": 20.0, **limits}), most=most,
                    most_of_peer=most_of_peer)
    server.board = held or board()
    stop = serve(server)
    try:
        yield server
    finally:
        stop()


def get(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request(method, path,
                           headers={key.replace("_", "-"): value for key, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_the_page_is_served_plain_or_small_and_a_head_gets_none_of_it() -> None:
    with serving() as server:
        status, headers, body = get(server, "/metrics")
        assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert (b'muster_node_state{node="gpu001",state="healthy"} 1.0' in body
                and "content-encoding" not in headers)
        status, headers, small = get(server, "/metrics", Accept_Encoding="deflate, gzip;q=0.5")
        assert (status, headers["content-encoding"], gzip.decompress(small)) == (200, "gzip", body)
        status, headers, nothing = get(server, "/metrics", "HEAD")
        assert (status, headers["content-length"], nothing) == (200, str(len(body)), b"")
        assert "Python" not in headers["server"]


@pytest.mark.parametrize(("path", "status"),
                         [("/", 200), ("/nope", 404), ("/metrics/", 404), ("/healthz", 200), ("/readyz", 200),
                          ("//", 200), ("/sd", 404), ("/../etc/passwd", 404)])
def test_every_path_has_its_answer(path: str, status: int) -> None:
    with serving() as server:
        assert get(server, path)[0] == status
        assert get(server, path, "POST")[0] == 501


def test_it_lives_while_nothing_can_be_read_but_is_not_ready_and_says_why() -> None:
    source = Told(FleetStatus((NodeNow("gpu001", made.node(), None),), None,
                              "/var/lib/muster/muster.db: the disk is full"))
    with serving(board(source)) as server:
        assert get(server, "/healthz")[0] == 200
        assert get(server, "/readyz")[::2] == (503, b"/var/lib/muster/muster.db: the disk is full\n")
        assert b'state="unknown"} 1.0' in get(server, "/metrics")[2]


def test_the_inventory_is_given_as_prometheus_wants_it() -> None:
    nodes = [made.node("gpu001", address="fe80::1", leaf=("l1", "l2")), Node("gpu002")]
    with serving(board(inventory=nodes)) as server:
        status, headers, body = get(server, "/sd")
        assert (status, headers["content-type"]) == (200, "application/json")
        assert json.loads(body) == [{"targets": ["[fe80::1]:9100"],
                                     "labels": {"node": "gpu001", "rack": "r1", "leaf": "l1,l2",
                                                "sku": "hgx-h100", "lifecycle": "service"}},
                                    {"targets": ["gpu002:9100"],
                                     "labels": {"node": "gpu002", "lifecycle": "service"}}]
        assert json.loads(get(server, "/sd?port=9400")[2])[1]["targets"] == ["gpu002:9400"]
        assert [get(server, f"/sd?port={port}")[0]
                for port in ("0", "65536", "x", "9" * 90, "-1", "%D9%A3")] == [400] * 6


def connected(server: Server, said: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=30, source_address=(source, 0))
    sock.sendall(said)
    return sock


@pytest.mark.parametrize(("said", "got"), [
    (b"GET http://[ HTTP/1.0\r\n\r\n", b"HTTP/1.0 404"), (b"\x16\x03\x01\x00\xff\r\n", b"HTTP/1.0 400"),
    (b"\n", b"HTTP/1.0 400"), (b"GET /\r\n", b"HTTP/1.0 400"), (b"GET / HTTP/2.0\r\n", b"HTTP/1.0 505"),
    (b"PUT / HTTP/1.1\r\n", b"HTTP/1.0 501"), (b"GET /" + b"a" * 70000, b"HTTP/1.0 414"),
    (b"GET / HTTP/1.0\r\n" + b"A: b\r\n" * 200 + b"\r\n", b"HTTP/1.0 431"),
    (b"GET / HTTP/1.0\r\nA: " + b"a" * (1 << 20) + b"\r\n\r\n", b"HTTP/1.0 431"),
    (bytes(range(256)) * 4096, b"HTTP/1.0 400"),
], ids=lambda said: repr(said[:20]))
def test_what_is_no_request_is_refused_and_the_next_client_served(
    said: bytes, got: bytes, capsys: pytest.CaptureFixture[str],
) -> None:
    with serving() as server:
        with connected(server, said) as sock:
            assert sock.recv(12) == got
        assert get(server, "/healthz")[0] == 200
    assert capsys.readouterr().err == ""


def closed(sock: socket.socket) -> bool:
    """Whether the server closes the connection, within the socket's timeout, without a word."""
    with contextlib.suppress(ConnectionError):
        return sock.recv(1) == b""
    return True


def test_clients_that_say_nothing_or_half_a_line_keep_no_one_and_are_put_out() -> None:
    with serving(request_s=0.3) as server, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connected(server, said))
                for said in (b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nHost: ") * 4]
        assert get(server, "/metrics")[0] == 200
        assert all(closed(sock) for sock in slow)


def test_a_client_that_sends_a_little_now_and_then_is_put_out_when_its_time_is_over() -> None:
    with serving(request_s=0.5) as server, connected(server, b"GET /metrics HTTP/1.1\r\n") as sock:
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 20:
                sock.sendall(b"X-A: b\r\n")
                sock.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    if sock.recv(4096) == b"":
                        break
        assert time.monotonic() - began < 15
        assert get(server, "/healthz")[0] == 200


def scraped(server: Server) -> int:
    """The status of a scrape as Prometheus makes it; 0 if it was not answered whole."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        status, _, small = get(server, "/metrics", Accept_Encoding="gzip")
        return status if b"muster_node_state" in gzip.decompress(small) else 0
    return 0


@contextlib.contextmanager
def slow_clients(server: Server, count: int, said: bytes = b"GET /metrics HTTP/1.1\r\nX: ") -> Iterator[None]:
    """So many clients that send one byte after another, and connect again when they are put out."""
    over = threading.Event()
    socks = [connected(server) for _ in range(count)]

    def drip() -> None:
        at = 0
        while not over.wait(0.1):
            for number, sock in enumerate(socks):
                try:
                    sock.settimeout(0.001)
                    sock.sendall(said[at:at + 1] or b"x")
                    with contextlib.suppress(TimeoutError):
                        if sock.recv(1) == b"":
                            raise ConnectionResetError
                except OSError:
                    sock.close()
                    socks[number] = connected(server)
            at += 1

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for sock in socks:
            sock.close()


def test_beside_64_slow_clients_of_the_same_address_each_of_100_scrapes_is_answered() -> None:
    with serving(request_s=1.0) as server, slow_clients(server, 64):
        with ThreadPoolExecutor(25) as pool:
            assert [*pool.map(lambda _: scraped(server), range(100))] == [200] * 100
        assert server.counted == [0]


def test_more_clients_of_one_address_than_it_may_have_close_the_slowest_of_their_own() -> None:
    with serving(most_of_peer=32) as server, slow_clients(server, 64):
        assert [scraped(server) for _ in range(20)] == [200] * 20
        assert server.counted[0] > 0 and len(server.open) <= 33


@pytest.mark.parametrize("turns", range(6))
def test_who_connects_in_the_moment_it_ends_is_not_lost(turns: int) -> None:
    async def ended_after(server: Server) -> socket.socket:
        waiting = asyncio.create_task(server._next_client(asyncio.get_running_loop()))
        await asyncio.sleep(0)
        with connected(server):
            for _ in range(turns):
                await asyncio.sleep(0)
            waiting.cancel()
            (found,) = await asyncio.gather(waiting, return_exceptions=True)
            return (server._socket.accept() if isinstance(found, BaseException) else found)[0]

    server = Server("127.0.0.1", 0, None)
    with server._socket, asyncio.run(ended_after(server)):
        pass


def test_where_others_hold_every_place_the_scrape_of_another_address_is_answered() -> None:
    with serving(most=12) as server, contextlib.ExitStack() as stack:
        for number in range(30):
            stack.enter_context(connected(server, source=f"127.0.0.{2 + number % 3}"))
        wait_until(lambda: len(server.open) == 12, what="that all places are taken")
        assert [scraped(server) for _ in range(20)] == [200] * 20


def test_a_client_that_does_not_read_its_page_keeps_no_one() -> None:
    large = board(Told(made.fleet(*(made.at(f"n{number}") for number in range(300)))))
    with serving(large, quiet_s=0.5) as server, connected(server, b"GET /metrics HTTP/1.0\r\n\r\n"):
        assert get(server, "/metrics")[0] == 200
        wait_until(lambda: not server.open, 20, "that it is put out")


def test_a_client_that_reads_its_page_slowly_is_put_out_when_its_whole_time_is_over() -> None:
    large = board(Told(made.fleet(*(made.at(f"n{number}") for number in range(300)))))
    with serving(large, whole_s=0.5) as server, connected(server, b"GET /metrics HTTP/1.0\r\n\r\n") as sock:
        sock.recv(1)
        wait_until(lambda: not server.open, 20, "that it is put out")


def test_a_page_that_hangs_on_a_disk_keeps_no_scrape() -> None:
    hangs = threading.Event()

    def gate(query: str, small: bool) -> HttpResponse:
        hangs.wait(60)
        return HttpResponse(404, ())

    held = Board(Told(made.fleet(made.at())), Page(3600), lambda: made.PROCESS,
                 clock=lambda: made.NOW, gate=gate)
    held.refresh()
    with serving(held) as server, contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(connected(server, b"GET /gate HTTP/1.0\r\n\r\n"))
        wait_until(lambda: get(server, "/gate")[0] == 503, 20, "that no more wait for the disk")
        assert scraped(server) == 200
        hangs.set()
        wait_until(lambda: get(server, "/gate")[0] == 404, 20, "the disk")


@given(st.text(max_size=60))
def test_whatever_a_client_says_of_encodings_is_no_error(asked: str) -> None:
    assert takes_gzip(asked) in (True, False)


@pytest.mark.parametrize(("asked", "taken"), [
    ("gzip", True), ("", False), ("identity", False), ("gzip;q=0", False), ("gzip; q=0.000", False),
    ("GZIP;q=0.1", True), ("*", True), ("deflate, gzip;q=1.0", True), ("x-gzip", False),
])
def test_gzip_is_taken_where_it_was_asked_for(asked: str, taken: bool) -> None:
    assert takes_gzip(asked) is taken


# ---- TLS

def fetched(server: Server, trusted: Path, mine: tuple[Path, Path] | None = None) -> int:
    """The status of the page over TLS; raises ssl.SSLError where the one does not trust the other."""
    context = ssl.create_default_context(cafile=str(trusted))
    if mine is not None:
        context.load_cert_chain(*mine)
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=30, context=context)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def test_tls_is_served_and_a_renewed_certificate_counts_without_a_restart(tmp_path: Path) -> None:
    old, old_key = certificate(tmp_path, "old")
    new, new_key = certificate(tmp_path, "new")
    at, key_at = tmp_path / "at.pem", tmp_path / "at.key"
    at.write_bytes(old.read_bytes())
    key_at.write_bytes(old_key.read_bytes())
    with serving(security=Tls(at, key_at)) as server:
        assert fetched(server, old) == 200
        with pytest.raises(ssl.SSLError):
            fetched(server, new)
        (tmp_path / "next").write_bytes(new.read_bytes())
        (tmp_path / "next").replace(at)       # its key is not there yet: the old pair goes on
        assert fetched(server, old) == 200
        (tmp_path / "next").write_bytes(new_key.read_bytes())
        (tmp_path / "next").replace(key_at)
        assert fetched(server, new) == 200


def test_a_client_that_is_slow_at_the_handshake_keeps_no_one(tmp_path: Path) -> None:
    pair = certificate(tmp_path, "a")
    with (serving(security=Tls(*pair), request_s=0.5) as server, connected(server) as silent,
          connected(server, b"GET / HTTP/1.0\r\n\r\n") as plain):
        assert fetched(server, pair[0]) == 200
        assert closed(silent) and plain.recv(64)[:4] != b"HTTP"


def test_beside_64_clients_with_half_a_handshake_each_scrape_over_tls_is_answered(tmp_path: Path) -> None:
    pair = certificate(tmp_path, "a")
    hello = ssl.MemoryBIO()
    half = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="127.0.0.1")
    with contextlib.suppress(ssl.SSLWantReadError):
        half.do_handshake()
    said = hello.read()
    with serving(security=Tls(*pair), most_of_peer=80) as server, contextlib.ExitStack() as stack:
        for number in range(64):
            stack.enter_context(connected(server, said[:-5 if number % 2 else None]))
        with ThreadPoolExecutor(10) as pool:
            assert [*pool.map(lambda _: fetched(server, pair[0]), range(50))] == [200] * 50


def test_with_authorities_for_clients_no_one_else_is_served(tmp_path: Path) -> None:
    pair, client = certificate(tmp_path, "server"), certificate(tmp_path, "client")
    with serving(security=Tls(*pair, client[0])) as server:
        assert fetched(server, pair[0], client) == 200
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            fetched(server, pair[0])


@pytest.mark.parametrize("what", ["missing", "rubbish", "other key"])
def test_a_certificate_that_cannot_be_used_is_reported_in_a_line(tmp_path: Path, what: str) -> None:
    at, key_at = certificate(tmp_path, "a")
    if what == "missing":
        key_at.unlink()
    elif what == "rubbish":
        at.write_text("hello")
    else:
        key_at = certificate(tmp_path, "b")[1]
    with pytest.raises(UsageError, match="are not a certificate and its key"):
        Tls(at, key_at)
