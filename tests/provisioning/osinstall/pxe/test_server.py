"""The real server over real sockets: many machines at once, and clients that mean harm."""

from __future__ import annotations

import contextlib
import http.client
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from inventory.errors import UsageError
from provisioning.osinstall.base import OsState
from provisioning.osinstall.pxe import phonehome, server
from provisioning.osinstall.pxe.server import Log, tls_context
from tests.provisioning.osinstall.pxe.pxesite import (
    Place,
    fetched,
    home,
    mac,
    node,
    options,
    seed_path,
    serving,
)
from tests.testbed.require import require


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "files").mkdir()
    (tmp_path / "files/image").write_bytes(bytes(range(256)) * 4096)
    return Place(tmp_path / "state", options(files=tmp_path / "files"))


@pytest.fixture
def at(place: Place) -> Iterator[str]:
    with serving(place) as address:
        yield address


def raw(address: str, data: bytes, seconds: float = 10.0) -> bytes:
    """What comes back for these bytes, until the server closes."""
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), timeout=seconds) as sock:
        sock.sendall(data)
        found = b""
        while piece := sock.recv(65536):
            found += piece
        return found


def test_sixteen_machines_are_installed_at_once(place: Place, at: str) -> None:
    numbers = range(1, 17)
    for number in numbers:
        place.armed(number)

    def asked(number: int, path: str, body: bytes | None = None, **headers: str) -> tuple[int, str]:
        parts = urlsplit(at)
        line = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30,
                                          source_address=(f"127.0.1.{number}", 0))
        line.request("GET" if body is None else "POST", path, body, headers)
        answer = line.getresponse()
        found = answer.status, answer.read().decode()
        line.close()
        return found

    together = threading.Barrier(len(numbers))

    def install(number: int) -> None:
        together.wait(30)
        code, script = asked(number, f"/boot/{mac(number).replace(':', '-')}.ipxe")
        assert code == 200 and f"/seed/{node(number).name}/1/" in script
        held = place.record(number)
        for name in ("user-data", "meta-data", "vendor-data", "firstboot", "written"):
            assert asked(number, seed_path(held, name))[0] == 200
        body = home(held)
        for _ in range(2):
            assert asked(number, f"/done/{held.node}", body,
                         **{phonehome.HEADER: phonehome.signed(held.token, body)})[0] == 200

    with ThreadPoolExecutor(len(numbers)) as pool:
        list(pool.map(install, numbers))
    assert {place.backend.state(node(number)).state for number in numbers} == {OsState.INSTALLED}
    assert len({place.record(number).digest for number in numbers}) == 16


def test_two_messages_at_the_same_moment_are_accepted_once(place: Place, at: str) -> None:
    held = place.armed()
    bodies = [home(held, image="ubuntu", macs=[mac(1), mac(100 + n)]) for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda body: fetched(
            f"{at}/done/gpu001", body, **{phonehome.HEADER: phonehome.signed(held.token, body)})[0], bodies))
    assert codes.count(200) == 1 and codes.count(410) == 7


@pytest.mark.parametrize(("sent", "status"), [
    (b"POST /done/gpu001 HTTP/1.1\r\n\r\n", b"411"),
    (b"POST /done/gpu001 HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"411"),
    (b"POST /done/gpu001 HTTP/1.1\r\nContent-Length: 1e3\r\n\r\n", b"411"),
    (b"POST /done/gpu001 HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", b"413"),
    (b"POST /done/gpu001 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
    (b"GET /" + b"a" * 3000 + b" HTTP/1.1\r\n\r\n", b"414"),
    (b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n", b"414"),
    (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", b"431"),
    (b"DELETE /boot.ipxe HTTP/1.1\r\n\r\n", b"501"),
    (b"GET /files/image HTTP/1.1\r\nRange: bytes=9999999999-\r\n\r\n", b"416"),
    (b"GET http://elsewhere/boot.ipxe HTTP/1.1\r\n\r\n", b"404"),
    (b"GET /\x00\xff\x1b[31m HTTP/1.1\r\n\r\n", b"404"),
])
def test_what_is_no_right_request_is_refused(place: Place, at: str, sent: bytes, status: bytes) -> None:
    kept = place.armed()
    found = raw(at, sent)
    assert found.split(b" ", 2)[1:2] == [status], found[:80]
    assert b"\x1b" not in found and place.record() == kept and fetched(f"{at}/boot.ipxe")[0] == 200


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02", b"nonsense\r\n\r\n", b"GET", b"\r\n" * 50])
def test_what_is_no_http_ends_by_itself(place: Place, at: str, sent: bytes) -> None:
    parts = urlsplit(at)
    with socket.create_connection((parts.hostname, parts.port), timeout=5) as sock:
        sock.sendall(sent)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(4096):
            pass
    assert fetched(f"{at}/boot.ipxe")[0] == 200


def test_who_sends_a_byte_now_and_then_is_cut_off(place: Place) -> None:
    with serving(place, request_s=0.6) as at:
        parts = urlsplit(at)
        began = time.monotonic()
        with socket.create_connection((parts.hostname, parts.port),
                                      timeout=10) as sock, pytest.raises(OSError):
            while time.monotonic() - began < 10:
                sock.sendall(b"G" if time.monotonic() - began < 0.1 else b"x")
                if not recv_nothing(sock):
                    raise ConnectionResetError
        assert time.monotonic() - began < 5
        assert fetched(f"{at}/boot.ipxe")[0] == 200


def recv_nothing(sock: socket.socket) -> bool:
    """Whether the connection still stands after a tenth of a second."""
    sock.settimeout(0.1)
    try:
        return sock.recv(1) != b""
    except TimeoutError:
        return True


def test_one_peer_has_its_share_of_connections_and_others_are_served(place: Place, at: str) -> None:
    parts = urlsplit(at)
    held = [socket.create_connection((parts.hostname, parts.port), timeout=5)
            for _ in range(server.MOST_OF_PEER)]
    try:
        with socket.create_connection((parts.hostname, parts.port), timeout=5) as more:
            more.sendall(b"GET /boot.ipxe HTTP/1.0\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert more.recv(100) == b""
        with socket.create_connection((parts.hostname, parts.port), timeout=5,
                                      source_address=("127.0.0.9", 0)) as other:
            other.sendall(b"GET /boot.ipxe HTTP/1.0\r\n\r\n")
            assert b"200" in other.recv(100)
    finally:
        for sock in held:
            sock.close()
    end = time.monotonic() + 10
    while fetched_or_closed(at) != 200:
        assert time.monotonic() < end
        threading.Event().wait(0.05)


def fetched_or_closed(at: str) -> int:
    try:
        return fetched(f"{at}/boot.ipxe")[0]
    except OSError:
        return 0


def test_a_file_comes_whole_and_in_parts(place: Place, at: str) -> None:
    whole = bytes(range(256)) * 4096
    assert raw(at, b"GET /files/image HTTP/1.0\r\n\r\n").partition(b"\r\n\r\n")[2] == whole
    for asked, first, last in ((b"0-", 0, len(whole) - 1), (b"100-199", 100, 199),
                               (b"1048000-9999999", 1048000, len(whole) - 1)):
        head, _, body = raw(at, b"GET /files/image HTTP/1.1\r\nRange: bytes=" + asked
                            + b"\r\n\r\n").partition(b"\r\n\r\n")
        assert (body == whole[first:last + 1] and f"bytes {first}-{last}/{len(whole)}".encode() in head
                and b" 206 " in head)
    head = raw(at, b"HEAD /files/image HTTP/1.1\r\n\r\n")
    assert b"Content-Length: 1048576\r\n" in head and head.endswith(b"\r\n\r\n")


def test_over_tls_it_is_the_same(tmp_path: Path) -> None:
    require(shutil.which("openssl"), "no openssl on this machine: apt-get install -y openssl")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-nodes", "-days", "2", "-subj", "/CN=head",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(tmp_path / "key"), "-out",
                    str(tmp_path / "cert")],
                   check=True, capture_output=True)
    place = Place(tmp_path / "state")
    with serving(place, tls=tls_context(str(tmp_path / "cert"), str(tmp_path / "key")), request_s=2.0) as at:
        parts = urlsplit(at)
        context = ssl.create_default_context(cafile=str(tmp_path / "cert"))
        # whose handshake never comes
        silent = socket.create_connection((parts.hostname, parts.port), timeout=5)
        with socket.create_connection((parts.hostname, parts.port), timeout=5) as sock, context.wrap_socket(
                sock, server_hostname="127.0.0.1") as tls:
            tls.sendall(b"GET /boot.ipxe HTTP/1.0\r\n\r\n")
            assert b"200" in tls.recv(1000)
        silent.close()


@pytest.mark.parametrize(("certificate", "key"),
                         [("cert", None), (None, "key"), ("none", "none"), ("text", "text")])
def test_a_certificate_that_is_none_is_one_line(tmp_path: Path, certificate: str | None,
                                                key: str | None) -> None:
    (tmp_path / "text").write_text("x")
    with pytest.raises(UsageError) as caught:
        tls_context(certificate and str(tmp_path / certificate), key and str(tmp_path / key))
    assert "\n" not in str(caught.value)


def test_a_flood_of_lines_is_counted_and_cleaned() -> None:
    now, lines = [0.0], list[str]()
    log = Log(lines.append, lambda: now[0])
    for number in range(1000):
        log.line(f"{number} \x1b[31m\n")
    assert len(lines) == 50 and all(line.isprintable() for line in lines)
    now[0] = 60.0
    log.line("later")
    assert lines[-2:] == ["(950 more lines are left out)", "later"]


def test_a_log_that_cannot_be_written_keeps_no_machine_waiting(place: Place) -> None:
    def full(line: str) -> None:
        raise OSError(28, "No space left on device")

    with serving(place, log=Log(full)) as at:
        held = place.armed()
        assert (fetched(f"{at}/boot/{mac(1)}.ipxe")[0]
                == fetched(f"{at}{seed_path(held, 'written')}")[0] == 200)
