"""The connection to a controller ends in time, and sends nothing to whom no certificate proves."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.credentials import Hidden
from provisioning.bmc.redfish import wire
from provisioning.bmc.redfish.session import Session
from provisioning.bmc.redfish.wire import (
    Deadline,
    RedfishConnection,
    RedfishConnectionDropped,
    RedfishEndpoint,
)
from tests.testbed.bmc.certificates import Authority

ROOT = b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'
Answering = Callable[[ssl.SSLSocket, bytes], None]


class Peer:
    """A TLS server whose connections a function answers; `heard` is what was said, `visits` counts."""

    def __init__(self, folder: Path, answer: Answering) -> None:
        authority = Authority(folder / "ca.pem")
        certificate, self.fingerprint = authority.certificate(folder / "peer.pem", "127.0.0.1")
        self.ca = folder / "ca.pem"
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.heard = b""
        self.visits = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def place(self, tls: str = "pin", pin: str | None = None) -> RedfishEndpoint:
        return RedfishEndpoint(
            "gpu001", "127.0.0.1", self.port, tls, self.fingerprint if pin is None else pin)

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            self.visits += 1
            threading.Thread(target=self._one, args=(plain,), daemon=True).start()

    def _one(self, plain: socket.socket) -> None:
        with contextlib.suppress(OSError), plain:
            plain.settimeout(20)
            connection = self._context.wrap_socket(plain, server_side=True)
            with connection:
                while (request := _request(connection)) and not self._over.is_set():
                    self.heard += request
                    self._answer(connection, request)

    def trickle(self, connection: ssl.SSLSocket, data: bytes) -> None:
        for at in range(len(data)):
            connection.sendall(data[at:at + 1])
            if self._over.wait(0.05):
                return

    def close(self) -> None:
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)       # or accept() goes on waiting
        self._listener.close()
        self._thread.join(5)


def _request(connection: ssl.SSLSocket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        got = connection.recv(65536)
        if not got:
            return b""
        data += got
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n")
                   if line.lower().startswith(b"content-length")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


Peers = Callable[[Answering], Peer]


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peers]:
    made: list[Peer] = []

    def make(answer: Answering) -> Peer:
        made.append(Peer(tmp_path, answer))
        return made[-1]

    yield make
    for one in made:
        one.close()


def says(data: bytes) -> Answering:
    return lambda connection, request: connection.sendall(data)


def ask(peer: Peer, seconds: float = 1.0, method: str = "GET", place: RedfishEndpoint | None = None) -> bytes:
    line = RedfishConnection(place or peer.place())
    try:
        return line.ask(method, "/redfish/v1/", {}, None, Deadline(seconds)).body
    finally:
        line.close()


def wrong(
    peer: Peer, seconds: float = 1.0, method: str = "GET", place: RedfishEndpoint | None = None,
) -> BmcError:
    began = time.monotonic()
    with pytest.raises(BmcError) as caught:
        ask(peer, seconds, method, place)
    assert time.monotonic() - began < seconds + 6
    assert str(caught.value).isprintable()
    return caught.value


def test_a_pinned_certificate_is_believed_and_no_other(peer: Peers) -> None:
    there = peer(says(ROOT))
    assert ask(there) == b"{}"
    assert wrong(there, place=there.place(pin="0" * 64)).wrong is BmcErrorReason.TLS
    assert wrong(there, place=there.place(pin="")).wrong is BmcErrorReason.TLS
    assert there.heard.count(b"GET") == 1       # to the others not a byte went


def test_without_a_pin_no_one_is_connected_to_and_the_command_is_named(peer: Peers) -> None:
    there = peer(says(ROOT))
    found = wrong(there, place=RedfishEndpoint("gpu001", "127.0.0.1", there.port, "pin", None))
    assert (
        found.wrong, found.message.rpartition(": ")[2]) == (BmcErrorReason.TLS, "muster bmc enroll gpu001")
    assert there.visits == 0


def test_an_authority_is_believed_where_it_is_named_and_the_systems_do_not_know_it(
    peer: Peers, tmp_path: Path,
) -> None:
    there = peer(says(ROOT))
    assert ask(there, place=there.place(str(there.ca))) == b"{}"
    for tls in ("verify", str(tmp_path / "none.pem"), str(tmp_path / "peer.pem")):
        assert wrong(there, place=there.place(tls)).wrong is BmcErrorReason.TLS
    assert there.heard.count(b"GET") == 1


def test_a_password_is_sent_to_no_one_whose_certificate_is_another(peer: Peers) -> None:
    there = peer(says(ROOT))
    calls: list[int] = []
    session = Session(there.place(pin="0" * 64), lambda: (calls.append(1), ("root", Hidden("calvin")))[1],
                      1.0)  # type: ignore[func-returns-value]
    for _ in range(2):
        with session.call(), pytest.raises(BmcError) as caught:
            session.get("/redfish/v1/Systems")
        assert caught.value.wrong is BmcErrorReason.TLS
    assert (calls, there.heard) == ([], b"")


@pytest.mark.parametrize("data",
                         [b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n" + b" " * 200,
                          b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200, b"HTTP/1.1 100 Continue\r\n\r\n" * 20,
                          b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\n{\r\n" * 40])
def test_an_answer_a_byte_now_and_then_ends_with_the_deadline(peer: Peers, data: bytes) -> None:
    made: list[Peer] = []
    made.append(peer(lambda connection, request: made[0].trickle(connection, data)))
    found = wrong(made[0], 0.6)
    assert (found.wrong, found.done) == (BmcErrorReason.TIMEOUT, False)


@pytest.mark.parametrize(
    ("data", "kind"),
    [(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n" + b"x" * (wire.MOST_BYTES + 10),
      BmcErrorReason.BROKEN),
     (b"HTTP/1.1 200 OK\r\n" + b"".join(b"H%d: x\r\n" % at for at in range(3000)) + b"\r\n",
      BmcErrorReason.BROKEN),
     (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", BmcErrorReason.BROKEN),
     (b"SSH-2.0-OpenSSH_9.2\r\n", BmcErrorReason.BROKEN), (b"HTTP/1.1 abc\r\n\r\n", BmcErrorReason.BROKEN),
     (b"\x00" * 100 + b"\r\n", BmcErrorReason.BROKEN),
     (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", BmcErrorReason.UNREACHABLE),
     (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", BmcErrorReason.BROKEN)])
def test_an_answer_that_is_too_much_or_none_is_one_line(
    peer: Peers, data: bytes, kind: BmcErrorReason,
) -> None:
    assert wrong(peer(says(data)), 10.0).wrong is kind


def test_a_small_body_that_unpacks_to_a_huge_one_is_refused(peer: Peers) -> None:
    import gzip

    body = gzip.compress(b" " * (wire.MOST_BYTES * 4))
    assert len(body) < 100_000
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    assert "over the limit" in wrong(peer(says(head + body)), 10.0).message


def test_an_answer_in_gzip_is_read(peer: Peers) -> None:
    import gzip

    body = gzip.compress(b'{"a": 1}')
    assert ask(
        peer(says(f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                  + body))) == b'{"a": 1}'


def close(connection: ssl.SSLSocket, request: bytes) -> None:
    connection.shutdown(socket.SHUT_RDWR)


def test_of_a_change_whose_answer_was_lost_no_one_knows_whether_it_was_made(peer: Peers) -> None:
    there = peer(close)
    found = wrong(there, method="POST")
    assert isinstance(found, RedfishConnectionDropped)
    assert found.done is None
    assert wrong(there, method="GET").done is False


def test_of_a_change_that_could_not_be_sent_it_is_known_that_it_was_not_made() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        place = RedfishEndpoint("gpu001", "127.0.0.1", nobody.getsockname()[1], "pin", "0" * 64)
        with pytest.raises(BmcError) as caught:
            RedfishConnection(place).ask("POST", "/redfish/v1/", {}, b"{}", Deadline(1.0))
    assert (caught.value.wrong, caught.value.done) == (BmcErrorReason.UNREACHABLE, False)


def test_a_controller_that_knows_only_how_older_ones_exchange_keys_is_spoken_to(
    peer: Peers, tmp_path: Path,
) -> None:
    there = peer(says(ROOT))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "old")])
    key = rsa.generate_private_key(65537, 2048)
    now = dt.datetime.now(dt.timezone.utc)
    made = x509.CertificateBuilder().subject_name(
        name).issuer_name(name).public_key(key.public_key()).serial_number(
        1).not_valid_before(now).not_valid_after(now + dt.timedelta(days=1)).sign(key, hashes.SHA256())
    (tmp_path / "old.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
                                       + made.public_bytes(Encoding.PEM))
    there._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    there._context.load_cert_chain(tmp_path / "old.pem")
    there._context.maximum_version = ssl.TLSVersion.TLSv1_2
    there._context.set_ciphers("AES256-GCM-SHA384")
    assert ask(there, place=there.place(pin=made.fingerprint(hashes.SHA256()).hex())) == b"{}"


def test_what_is_no_tls_at_all_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def plain() -> None:
            with listener.accept()[0] as one:
                one.recv(4096)
                one.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=plain, daemon=True)
        thread.start()
        with pytest.raises(BmcError) as caught:
            RedfishConnection(
                RedfishEndpoint("gpu001", "127.0.0.1", listener.getsockname()[1], "pin",
                                "0" * 64)).ask("GET", "/", {}, None, Deadline(2.0))
        thread.join(5)
    assert caught.value.wrong is BmcErrorReason.TLS


# sessions

def scripted(**answers: bytes) -> tuple[Answering, list[str]]:
    """Answers by method and last word of the path; keeps what was asked."""
    seen: list[str] = []

    def answer(connection: ssl.SSLSocket, request: bytes) -> None:
        method, path = request.split(b" ", 2)[:2]
        word = f"{method.decode()}_{path.decode().rstrip('/').rpartition('/')[2]}"
        seen.append(word)
        connection.sendall(answers.get(word, reply(404)))

    return answer, seen


def reply(status: int, body: str = "{}", *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers, "", body]).encode()


WITH_SESSIONS = reply(200, '{"Links": {"Sessions": {"@odata.id": "/redfish/v1/SessionService/Sessions"}}}')
OPENED = reply(201, "{}", "X-Auth-Token: t0ken", "Location: /redfish/v1/SessionService/Sessions/9")


Sessions = Callable[..., Session]


@pytest.fixture
def session() -> Iterator[Sessions]:
    made: list[Session] = []

    def make(there: Peer, sleep: Callable[[float], None] = time.sleep) -> Session:
        made.append(Session(there.place(), lambda: ("root", Hidden("calvin-0penSesame")), 5.0, sleep))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_session_is_made_once_used_and_ended(peer: Peers, session: Sessions) -> None:
    answer, seen = scripted(GET_v1=WITH_SESSIONS, POST_Sessions=OPENED, GET_Systems=reply(200),
                            GET_Chassis=reply(200), DELETE_9=reply(204, ""))
    there = peer(answer)
    one = session(there)
    with one.call():
        one.get("/redfish/v1/Systems")
        one.get("/redfish/v1/Systems")
    with one.call():
        one.get("/redfish/v1/Chassis")
    one.close()
    assert seen == ["GET_v1", "POST_Sessions", "GET_Systems", "GET_Chassis", "DELETE_9"]
    assert there.heard.count(b"calvin-0penSesame") == 1
    assert there.heard.count(b"X-Auth-Token: t0ken") == 3
    assert there.visits == 1


def test_a_service_without_sessions_is_told_who_asks_each_time(peer: Peers, session: Sessions) -> None:
    for root in (reply(200), WITH_SESSIONS, reply(401)):
        answer, seen = scripted(GET_v1=root, GET_Systems=reply(200))
        there = peer(answer)
        one = session(there)
        if root == reply(401):
            with one.call(), pytest.raises(BmcError):
                one.get("/redfish/v1/Systems")
        else:
            with one.call():
                one.get("/redfish/v1/Systems")
            assert seen[-1] == "GET_Systems"
        assert b"Authorization: Basic " in there.heard
        one.close()


def test_a_password_that_was_refused_is_not_sent_again(peer: Peers, session: Sessions) -> None:
    answer, seen = scripted(GET_v1=WITH_SESSIONS, POST_Sessions=reply(401))
    one = session(peer(answer))
    for _ in range(3):
        with one.call(), pytest.raises(BmcError) as caught:
            one.get("/redfish/v1/Systems")
        assert caught.value.wrong is BmcErrorReason.CREDENTIALS
    assert seen == ["GET_v1", "POST_Sessions"]


def test_a_service_with_no_room_for_a_session_is_busy_and_not_a_wrong_password(
    peer: Peers, session: Sessions,
) -> None:
    full = ('{"error": {"@Message.ExtendedInfo": [{"MessageId": "Base.1.0.SessionLimitExceeded", "Message": '
            '"too many"}]}}')
    answer, _ = scripted(GET_v1=WITH_SESSIONS, POST_Sessions=reply(400, full))
    one = session(peer(answer))
    with one.call(), pytest.raises(BmcError) as caught:
        one.get("/redfish/v1/Systems")
    assert caught.value.wrong is BmcErrorReason.BUSY


@pytest.mark.parametrize("sessions", [True, False])
def test_what_a_service_repeats_of_the_password_is_not_shown(
    peer: Peers, session: Sessions, sessions: bool,
) -> None:
    answer, _ = scripted(GET_v1=WITH_SESSIONS)

    def repeats(connection: ssl.SSLSocket, request: bytes) -> None:
        if b"calvin" not in request and b"Authorization" not in request:
            return answer(connection, request)
        if not sessions and request.startswith(b"POST"):
            return connection.sendall(reply(404))
        line = next(
            line for line in request.decode().splitlines() if "calvin" in line or "Authorization" in line)
        return connection.sendall(reply(500, json.dumps({"error": {"message": f"cannot read {line}"}})))

    one = session(peer(repeats))
    with one.call(), pytest.raises(BmcError) as caught:
        one.get("/redfish/v1/Systems")
    assert "cannot read" in caught.value.message and "(not shown)" in caught.value.message
    for secret in ("calvin-0penSesame", base64.b64encode(b"root:calvin-0penSesame").decode()):
        assert secret not in caught.value.message


def test_a_session_that_ended_is_made_anew_once(peer: Peers, session: Sessions) -> None:
    answers = {"GET_v1": WITH_SESSIONS, "POST_Sessions": OPENED, "GET_Systems": reply(200)}
    answer, seen = scripted(**answers)
    lapsed = [reply(401)]
    there = peer(lambda connection,
                 request: connection.sendall(lapsed.pop()) if b"/Chassis" in request and lapsed
                     else answer(connection, request))
    one = session(there)
    with one.call():
        one.get("/redfish/v1/Systems")
    with one.call(), pytest.raises(BmcError) as caught:
        one.get("/redfish/v1/Chassis")
    assert caught.value.wrong is BmcErrorReason.UNSUPPORTED       # the 404 of the second time
    assert seen.count("POST_Sessions") == 2


def test_a_read_is_tried_once_more_when_the_line_drops_and_a_change_is_not(
    peer: Peers, session: Sessions,
) -> None:
    count = [0]

    def drops_first(connection: ssl.SSLSocket, request: bytes) -> None:
        count[0] += 1
        if count[0] in (1, 4):
            connection.shutdown(socket.SHUT_RDWR)
        else:
            connection.sendall(reply(200))

    one = session(peer(drops_first))
    with one.call():
        one.get("/redfish/v1/Systems")      # 1 is dropped, 2 the root, 3 the systems
        with pytest.raises(BmcError) as caught:
            one.change("POST", "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset", {"ResetType": "On"})
    assert (count[0], caught.value.done) == (4, None)


DATE = "Fri, 27 Nov 2026 10:00:{:02} GMT"


@pytest.mark.parametrize(("headers", "waits"), [
    (("Retry-After: 2",), [2.0] * 4), (("Retry-After: 90",), []), ((), [1.0, 2.0, 4.0]),
    # A date is by the service's own clock, which may be years off.
    ((f"Retry-After: {DATE.format(3)}", f"Date: {DATE.format(0)}"), [3.0] * 4),
    ((f"Retry-After: {DATE.format(0)}", f"Date: {DATE.format(3)}"), [0.0] * 4),
    (("Retry-After: tomorrow",), [1.0, 2.0, 4.0]), ((f"Retry-After: {DATE.format(3)}",), [1.0, 2.0, 4.0])],
    ids=["seconds", "too-long", "none", "date", "past", "rubbish", "no-clock"])
def test_a_read_waits_as_a_busy_service_asks_as_long_as_its_time_goes(
    peer: Peers, session: Sessions, headers: tuple[str, ...], waits: list[float],
) -> None:
    slept: list[float] = []
    answer, seen = scripted(GET_v1=reply(200), GET_Systems=reply(503, "{}", *headers))
    one = session(peer(answer), slept.append)
    with one.call(), pytest.raises(BmcError) as caught:
        one.get("/redfish/v1/Systems")
    assert (caught.value.wrong, slept, seen.count("GET_Systems")) == (
        BmcErrorReason.BUSY, waits, len(waits) + 1)


def test_a_change_of_a_busy_service_is_sent_once(peer: Peers, session: Sessions) -> None:
    slept: list[float] = []
    answer, seen = scripted(GET_v1=reply(200), POST_Reset=reply(503, "{}", "Retry-After: 2"))
    one = session(peer(answer), slept.append)
    with one.call(), pytest.raises(BmcError) as caught:
        one.change("POST", "/redfish/v1/Reset")
    assert (caught.value.wrong, caught.value.done, seen.count("POST_Reset"), slept) == (
        BmcErrorReason.BUSY, False, 1, [])


CHANGE = ('{"error": {"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.PasswordChangeRequired", "Message": '
          '"The password provided must be changed"}]}}')


@pytest.mark.parametrize("answers", [
    {"POST_Sessions": reply(401, CHANGE)}, {"POST_Sessions": reply(403, CHANGE)},
    {"POST_Sessions": reply(201, CHANGE, "X-Auth-Token: t0ken",
                            "Location: /redfish/v1/SessionService/Sessions/9")},
    {"POST_Sessions": OPENED, "GET_Systems": reply(403, CHANGE)},
    {"GET_v1": reply(200), "GET_Systems": reply(401, CHANGE)}],
    ids=["login-401", "login-403", "session", "read", "basic"])
def test_an_account_that_has_to_set_a_new_password_is_no_wrong_password_and_no_lack_of_rights(
    peer: Peers, session: Sessions, answers: dict[str, bytes],
) -> None:
    answer, seen = scripted(**{"GET_v1": WITH_SESSIONS, "DELETE_9": reply(204, ""), **answers})
    one = session(peer(answer))
    with one.call(), pytest.raises(BmcError) as caught:
        one.get("/redfish/v1/Systems")
    assert caught.value.wrong is BmcErrorReason.PASSWORD
    assert "password" in caught.value.message
    one.close()
    assert seen.count("DELETE_9") == (reply(201, "{}")[:12] in answers.get("POST_Sessions", b""))


@pytest.mark.parametrize(("status", "kind", "done"),
                         [(403, BmcErrorReason.DENIED, False), (500, BmcErrorReason.BROKEN, None),
                          (502, BmcErrorReason.BROKEN, None), (501, BmcErrorReason.UNSUPPORTED, False),
                          (302, BmcErrorReason.BROKEN, False)])
def test_of_a_change_each_answer_says_what_is_known(
    peer: Peers, session: Sessions, status: int, kind: BmcErrorReason, done: bool | None,
) -> None:
    body = '{"error": {"@Message.ExtendedInfo": [{"Message": "because\\u001b[2J"}]}}'
    answer, _ = scripted(
        GET_v1=reply(200), POST_Reset=reply(status, body, "Location: https://evil.example/redfish/v1"))
    one = session(peer(answer))
    with one.call(), pytest.raises(BmcError) as caught:
        one.change("POST", "/redfish/v1/Reset")
    assert (caught.value.wrong, caught.value.done) == (kind, done)
    assert str(caught.value).isprintable()


def test_only_a_slash_at_the_end_of_the_same_path_is_followed(peer: Peers, session: Sessions) -> None:
    answer, seen = scripted(GET_v1=reply(200), GET_Away=reply(308, "", "Location: /redfish/v1/Elsewhere/"))
    def slash(connection: ssl.SSLSocket, request: bytes) -> None:
        if request.startswith(b"GET /redfish/v1/Systems "):
            connection.sendall(reply(308, "", "Location: https://127.0.0.1/redfish/v1/Systems/"))
        elif request.startswith(b"GET /redfish/v1/Systems/ "):
            connection.sendall(reply(200, '{"Id": "1"}'))
        else:
            answer(connection, request)
    one = session(peer(slash))
    with one.call():
        assert one.get("/redfish/v1/Systems") == {"Id": "1"}
        with pytest.raises(BmcError, match="is not followed"):
            one.get("/redfish/v1/Away")
    assert "GET_Elsewhere" not in seen
