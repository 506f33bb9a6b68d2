"""The server: what is answered where, and that no client keeps another, however slow, silent or many."""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.exporter.board import Board
from healthcheck.exporter.page import Page
from healthcheck.exporter.server import MOST, Server, serve, takes_gzip
from healthcheck.exporter.source import FleetStatus, NodeNow
from healthcheck.exporter.tls import Tls
from inventory.errors import UsageError
from inventory.model import Node
from tests.healthcheck.exporter import made
from tests.testbed.sshd import wait_until


class Told:
    """A source that says what it was given, and counts how often it was asked;
    `wait` is done before it answers."""

    def __init__(self, fleet: FleetStatus) -> None:
        self.fleet = fleet
        self.asked = 0
        self.wait: Callable[[], object] = lambda: None

    def read(self, now: float) -> FleetStatus | None:
        """What is known, the first time."""
        self.asked += 1
        self.wait()
        return self.fleet if self.asked == 1 else None

    def close(self) -> None:
        """Nothing."""


def board(source: Told | None = None, inventory: list[Node] | None = None) -> Board:
    """A board over one healthy node."""
    held = Board(source or Told(made.fleet(made.at())), Page(3600), lambda: made.PROCESS,
                 clock=lambda: made.NOW, inventory=(lambda: inventory) if inventory is not None else None,
                 port=9100 if inventory is not None else None)
    held.refresh()
    return held


@contextlib.contextmanager
def serving(
    held: Board | None = None, tls: Tls | None = None, quiet_s: float = 5.0, whole_s: float = 30.0,
) -> Iterator[Server]:
    """A server on loopback."""
    server = Server("127.0.0.1", 0, tls, quiet_s=quiet_s, whole_s=whole_s)
    server.board = held or board()
    stop = serve(server)
    try:
        yield server
    finally:
        stop()


def get(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
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


def connected(server: Server, said: bytes = b"") -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", server.server_port), timeout=30)
    sock.sendall(said)
    return sock


@pytest.mark.parametrize(("said", "got"), [
    (b"GET http://[ HTTP/1.0\r\n\r\n", b"HTTP/1.0 404"), (b"\x16\x03\x01\x00\xff\r\n", b"<!DOCTYPE HTML"),
    (b"GET /" + b"a" * 70000, b"HTTP/1.0 414"),
    (b"GET / HTTP/1.0\r\n" + b"A: b\r\n" * 200 + b"\r\n", b"HTTP/1.0 431"),
])
def test_what_is_no_request_is_refused_and_the_next_client_served(
    said: bytes, got: bytes, capsys: pytest.CaptureFixture[str],
) -> None:
    with serving() as server:
        with connected(server, said) as sock:
            assert sock.recv(12) == got[:12]
        assert get(server, "/healthz")[0] == 200
    assert capsys.readouterr().err == ""


def test_clients_that_say_nothing_or_half_a_line_keep_nobody_and_are_put_out() -> None:
    with serving(quiet_s=0.3) as server, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connected(server, said))
                for said in (b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nHost: ") * 4]
        assert get(server, "/metrics")[0] == 200
        assert [sock.recv(1) for sock in slow] == [b""] * len(slow)


def test_a_client_that_sends_a_little_now_and_then_is_put_out_when_its_whole_time_is_over() -> None:
    with serving(quiet_s=5, whole_s=0.5) as server, connected(server, b"GET /metrics HTTP/1.1\r\n") as sock:
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


def test_a_client_that_does_not_read_its_page_keeps_nobody() -> None:
    large = board(Told(made.fleet(*(made.at(f"n{number}") for number in range(300)))))
    with serving(large, quiet_s=0.5) as server, connected(server, b"GET /metrics HTTP/1.0\r\n\r\n"):
        assert get(server, "/metrics")[0] == 200
        wait_until(lambda: not server._open, 20, "that it is put out")


def test_of_too_many_clients_some_are_refused_at_once_and_counted() -> None:
    with serving(quiet_s=20) as server, contextlib.ExitStack() as stack:
        held = [stack.enter_context(connected(server)) for _ in range(MOST)]
        wait_until(lambda: len(server._open) == MOST, what="that all are served")
        with connected(server) as one_more:
            assert one_more.recv(1) == b"" and server.counted == [1]
        held.pop().close()
        wait_until(lambda: len(server._open) < MOST, what="room")
        assert get(server, "/healthz")[0] == 200


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

def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signed itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.timezone.utc)
    made_ = (x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
             .serial_number(x509.random_serial_number()).not_valid_before(
                 now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=9))
             .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]),
                            critical=False)
             .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(
                 key, hashes.SHA256()))
    at, key_at = folder / f"{name}.pem", folder / f"{name}.key"
    at.write_bytes(made_.public_bytes(serialization.Encoding.PEM))
    key_at.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                         serialization.NoEncryption()))
    return at, key_at


def fetched(server: Server, trusted: Path, mine: tuple[Path, Path] | None = None) -> int:
    """The status of the page over TLS; raises ssl.SSLError where the one does not trust the other."""
    context = ssl.create_default_context(cafile=str(trusted))
    if mine is not None:
        context.load_cert_chain(*mine)
    connection = http.client.HTTPSConnection("127.0.0.1", server.server_port, timeout=30, context=context)
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
    with serving(tls=Tls(at, key_at)) as server:
        assert fetched(server, old) == 200
        with pytest.raises(ssl.SSLError):
            fetched(server, new)
        (tmp_path / "next").write_bytes(new.read_bytes())
        (tmp_path / "next").replace(at)       # its key is not there yet: the old pair goes on
        assert fetched(server, old) == 200
        (tmp_path / "next").write_bytes(new_key.read_bytes())
        (tmp_path / "next").replace(key_at)
        assert fetched(server, new) == 200


def test_a_client_that_is_slow_at_the_handshake_keeps_nobody(tmp_path: Path) -> None:
    pair = certificate(tmp_path, "a")
    with (serving(tls=Tls(*pair), quiet_s=0.5) as server, connected(server) as silent,
          connected(server, b"GET / HTTP/1.0\r\n\r\n") as plain):
        assert fetched(server, pair[0]) == 200
        assert silent.recv(1) == b"" and plain.recv(64)[:4] != b"HTTP"


def test_with_authorities_for_clients_nobody_else_is_served(tmp_path: Path) -> None:
    pair, client = certificate(tmp_path, "server"), certificate(tmp_path, "client")
    with serving(tls=Tls(*pair, client[0])) as server:
        assert fetched(server, pair[0], client) == 200
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            fetched(server, pair[0])


@pytest.mark.parametrize("what", ["missing", "rubbish", "other key"])
def test_a_certificate_that_cannot_be_used_is_told_in_a_line(tmp_path: Path, what: str) -> None:
    at, key_at = certificate(tmp_path, "a")
    if what == "missing":
        key_at.unlink()
    elif what == "rubbish":
        at.write_text("hello")
    else:
        key_at = certificate(tmp_path, "b")[1]
    with pytest.raises(UsageError, match="are not a certificate and its key"):
        Tls(at, key_at)
