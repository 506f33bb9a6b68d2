"""Asking Prometheus: whatever it does, there is an answer within its bounds or one clear line; and what it
knows is read as it scraped it."""

from __future__ import annotations

import random
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.model.agentmetric import PERIOD, AgentBasis, samples
from healthcheck.model.exposition import text_of
from healthcheck.store.leftout import KnownNode
from healthcheck.sweep.agentseries import QUERY, claims
from healthcheck.sweep.fromagents import HeadBasis, SweepChoice, Visit, WantedNode, choose
from healthcheck.sweep.prometheus import AUTH, PrometheusError, ask, login_of, url_of
from inventory.errors import UsageError
from tests.command import muster
from tests.testbed.ports import free_port
from tests.testbed.prometheus import monitoring, require_prometheus
from tests.testbed.sshd import wait_until
from tests.testbed.textfiles import scrape_config, serving

EMPTY = b'{"status":"success","data":{"resultType":"vector","result":[]}}'


@contextmanager
def server(answer: Callable[[socket.socket], None],
           tls: ssl.SSLContext | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """A server that reads a request and then does what `answer` does; gives its port and the requests."""
    listener = socket.create_server(("127.0.0.1", 0))
    asked: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                found, _ = listener.accept()
            except OSError:
                return
            try:
                with tls.wrap_socket(found, server_side=True) if tls is not None else found as connection:
                    asked.append(connection.recv(65536))
                    answer(connection)
            except OSError:
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], asked
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def http(body: bytes, status: str = "200 OK", head: str = "") -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(
        f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{head}Connection: close\r\n\r\n".encode()
        + body)


def why(answer: Callable[[socket.socket], None], seconds: float = 10.0, most: int = 1 << 20) -> str:
    """Why there is no answer that counts."""
    with server(answer) as (port, _), pytest.raises(PrometheusError) as found:
        claims(ask(url_of(f"http://127.0.0.1:{port}"), QUERY, None, seconds, most), {"gpu001"})
    text = str(found.value)
    assert text.isprintable() and len(text) < 400
    return text


@pytest.mark.parametrize(("body", "expected"), [
    (b"<!DOCTYPE html><html>\x1b[2J", "not JSON; it begins: '<!DOCTYPE html>"), (b"", "not JSON"),
    (b"\xff\xfe", "not JSON"),
    (b"[" * 100_000, "not JSON"), (b"7" * 5000, "not JSON"), (b"[]", "not Prometheus'"),
    (b'{"status":"ok"}', "not Prometheus'"),
    (b'{"status":"error","errorType":"timeout","error":"query timed out"}',
     "reports an error: query timed out"),
    (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', "no vector"),
    (b'{"status":"success","data":{"resultType":"vector","result":{}}}', "no vector"),
    (b'{"status":"success"}', "no vector"),
    (EMPTY[:-1] + b',"warnings":["no StoreAPIs matched for this query"]}',
     "may be partial; it warns: no StoreAPIs"),
    (EMPTY[:-1] + b',"isPartial":true}', "is partial"), (EMPTY[:-9], "not JSON"),
])
def test_what_is_no_whole_answer_is_one_line(body: bytes, expected: str) -> None:
    assert expected in why(http(body))


@pytest.mark.parametrize(("status", "body", "expected"), [
    ("401 Unauthorized", b"<html>", "refuses the login (401)"),
    ("403 Forbidden", b"", "refuses the login (403)"),
    ("302 Found", b"", "a redirect (302), which is not followed"),
    ("503 Unavailable", b"\x1b]0;x\x07", "it answered 503"),
    ("422 X", b'{"status":"error","error":"query processing would load too many samples"}',
     "422: query processing would load too many"),
    ("500 X", b"[" * 70000, "it answered 500"),
])
def test_another_status_is_one_line_and_no_redirect_is_followed(status: str, body: bytes,
                                                                expected: str) -> None:
    assert expected in why(http(body, status, "Location: http://127.0.0.1:1/\r\n"))


def test_an_answer_that_is_too_large_is_not_read_to_its_end() -> None:
    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            connection.sendall(b" " * 65536)

    assert "over 1 MiB" in why(endless)
    assert "over 1 MiB" in why(
        lambda one: one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"))


def test_one_that_is_silent_or_drips_is_given_up_in_time() -> None:
    def drips(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            connection.sendall(b"x")
            time.sleep(0.05)

    for slow in (drips, lambda connection: connection.recv(1)):
        began = time.monotonic()
        # Which of the two limits comes first is chance: the connection's or the whole request's.
        assert why(slow, seconds=1.0) in ("it did not answer within 1 s", "no answer: timed out")
        assert time.monotonic() - began < 8
    port = free_port()
    with pytest.raises(PrometheusError, match="Connection refused"):
        ask(url_of(f"http://127.0.0.1:{port}"), QUERY, None, 5.0)
    with pytest.raises(PrometheusError, match="no answer: "):
        ask(url_of("http://prometheus.invalid:9090"), QUERY, None, 5.0)


def test_a_certificate_that_no_authority_signed_gets_no_password(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj",
                    "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost", "-keyout", tmp_path / "key", "-out", tmp_path / "cert"],
                   check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    monkeypatch.setenv(AUTH, "head:secret")
    with server(http(EMPTY), context) as (port, asked):
        url = url_of(f"https://localhost:{port}/prom/")
        login = login_of(None, url)
        with pytest.raises(PrometheusError, match=r"certificate is not valid: self.signed"):
            ask(url, QUERY, login, 10.0)
        assert asked == []
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))
        assert ask(url, QUERY, login, 10.0) == EMPTY
    assert (asked[0].startswith(b"GET /prom/api/v1/query?query=")
            and b"Authorization: Basic aGVhZDpzZWNyZXQ=\r\n" in asked[0])


def test_a_login_is_read_from_a_file_of_the_users_own_or_from_the_environment_once(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "auth"
    file.write_text("head:from file\n")
    here = url_of("http://127.0.0.1:9090")
    with pytest.raises(UsageError, match=r"others may read it .* chmod 600"):
        file.chmod(0o644)
        login_of(str(file), here)
    file.chmod(0o600)
    monkeypatch.setenv(AUTH, "head:from env")
    found, other = login_of(str(file), here), login_of(None, here)
    assert found is not None and found.header() == "Basic aGVhZDpmcm9tIGZpbGU=" and "from" not in repr(found)
    assert other is None    # taken out with the first reading, so that no child has it
    for text in ("", "no colon\n", "a:\x1b\n"):
        file.write_text(text)
        with pytest.raises(UsageError, match="USER:PASSWORD"):
            login_of(str(file), here)
    file.write_text("a:b")
    with pytest.raises(UsageError, match="in clear text; use https"):
        login_of(str(file), url_of("http://prometheus.example:9090"))
    assert login_of(str(file), url_of("https://prometheus.example")) is not None
    with pytest.raises(UsageError, match="No such file"):
        login_of(str(tmp_path / "none"), here)


@pytest.mark.parametrize(("text", "expected"), [
    ("http://u:secret@h:9090", "list of processes"), ("ftp://h", "expected http"),
    ("h:9090", "expected http"), ("http://", "expected http"),
    ("http://h:99999", "out of range"), ("http://h:x", "--from-prometheus"), ("http://h/?q=1", "no query"),
    ("http://h/\n", "--from-prometheus"),
    ("http://[::1", "--from-prometheus"), ("", "expected http"),
])
def test_a_url_that_is_none_is_one_line_without_the_password(text: str, expected: str) -> None:
    with pytest.raises(UsageError) as found:
        url_of(text)
    assert (expected in str(found.value) and "secret" not in str(found.value)
            and str(found.value).isprintable())


def test_urls_are_taken_apart() -> None:
    assert str(url_of("http://h:9090/prom/")) == "http://h:9090/prom" and url_of("https://h").port == 443
    assert str(url_of("http://[::1]")) == "http://[::1]:80"


@pytest.mark.parametrize("words", [
    ("--local",), ("--from-agent",), ("--disruptive",), ("--only", "gpu-*"), ("--skip", "gpu-*"),
    ("--save", "kept"), ("--profile", "gate", "--profile", "timer"),
])
def test_what_does_not_go_with_it_is_a_mistake_of_usage(words: tuple[str, ...], tmp_path: Path) -> None:
    done = muster("check", "n1", "--from-prometheus", "http://127.0.0.1:1", *words, home=tmp_path)
    assert done.returncode == 2 and "--from-prometheus" in done.stderr and done.stderr.count("\n") == 1


NAMES = [f"n{number}" for number in range(1, 13)]
NOW_BASIS = AgentBasis("", "e", "timer", "r" * 64, "hgx-h100", "1.0")


def text(name: str, claimed: str | None = None, healthy: float = 1, ago: float = 1.0, period: str = "300.0",
         **changes: str) -> str:
    node, basis = claimed or name, replace(NOW_BASIS, boot_id=f"boot-{name}", **changes)
    made = samples(node, bool(healthy), time.time() - ago, basis)
    return text_of([(PERIOD, [PERIOD.sample(float(period), node)]),
                    *((family, [row]) for family, row in made)])


def test_a_real_prometheus_shows_who_may_be_left_out(tmp_path: Path) -> None:
    require_prometheus()
    texts = {name: text(name) for name in NAMES}
    texts["n2"] = text("n2", healthy=0)
    texts["n3"] = text("n3", ago=700)
    texts["n4"] = text("n4", ago=-60)
    texts["n5"] = text("n5", claimed="n1")          # its agent is another node's
    texts["n6"] = texts["n6"].replace('muster_agent_healthy{node="n6"} 1.0',
                                      'muster_agent_healthy{node="n6"} NaN')
    texts["n7"] = text("n7", version="0.9")
    texts["n8"] = text("n8", period="NaN")
    texts["n9"] = texts["n9"].replace("muster_agent_run_timestamp", "other")
    for name, said in texts.items():
        (tmp_path / "text" / name).mkdir(parents=True)
        (tmp_path / "text" / name / "muster.prom").write_text(said)
    with serving(tmp_path / "text") as address:
        # Two Prometheus jobs scrape n10; n11's target is named as another node, n12's as itself.
        scrape = [scrape_config(address, NAMES[:10]), scrape_config(address, ["n10"], "again"),
                  scrape_config(address, ["n11"], "sd1", node="n99", sku="cpu-only"),
                  scrape_config(address, ["n12"], "sd2", node="n12", sku="cpu-only")]
        with monitoring(tmp_path, scrape, []) as bed:
            def found() -> SweepChoice:
                body = ask(url_of(bed.url), QUERY, None, 10.0)
                nodes = [WantedNode(name, "hgx-h100", "e") for name in NAMES]
                now = time.time()
                known = {name: KnownNode(f"boot-{name}", now - 600, healthy=True) for name in NAMES}
                return choose(nodes, claims(body, set(NAMES)), known,
                              HeadBasis("1.0", "r" * 64, "timer", now), NoSample())

            wait_until(lambda: len({one["metric"].get("instance") for one in bed.query(QUERY)}) == 12
                       and len(bed.query(QUERY)) == 51, 60, "all series")
            choice = found()
            assert choice.visits == {
                "n1": Visit.CLAIMED, "n2": Visit.SICK, "n3": Visit.STALE, "n4": Visit.FUTURE,
                "n5": Visit.NO_AGENT, "n6": Visit.NO_NUMBER,
                "n7": Visit.VERSION, "n8": Visit.NO_NUMBER, "n9": Visit.INCOMPLETE, "n10": Visit.CLAIMED,
                "n11": Visit.MISPLACED}
            assert {name: (one.target, one.basis.sku)
                    for name, one in choice.left_out.items()} == {"n12": ("sd2 n12:9100", "hgx-h100")}
            # An agent that is gone, or a target that no longer answers, is no evidence.
            (tmp_path / "text/n12/muster.prom").unlink()
            wait_until(lambda: "n12" not in found().left_out, 30, "that n12 is visited")
            assert found().visits["n12"] is Visit.NO_AGENT


class NoSample(random.Random):
    """Draws no one."""

    def sample(self, population: object, k: int, *,
               counts: object = None) -> list[object]:  # type: ignore[override]
        return []
