"""Asking UFM: whatever it does, there is an answer within its bounds or one clear line, and its secret goes
nowhere else."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.subnet.readers import ufm as readers
from healthcheck.sweep import ufmoutput, ufmrest, ufmwire
from healthcheck.sweep.ufmrest import AUTH, UfmLogin, UfmRest, login_of
from healthcheck.sweep.ufmwire import UfmAnswer, UfmError, UfmPlace, place_of, trust_of
from inventory.errors import UsageError
from inventory.transport.httponce import HttpDeadline, HttpTrust
from tests.command import muster
from tests.testbed.ibfabric import two_tiers
from tests.testbed.ports import free_port
from tests.testbed.ufm import PASSWORD, TOKEN, USER, Ufm, serving

PLAN = two_tiers(8, 4, 2, uplinks=2)
PORTS = "/resources/ports"


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Ufm]:
    with serving(Ufm(PLAN), tmp_path) as made:
        yield made


def rest(bed: Ufm, secret: str = f"{USER}:{PASSWORD}", **more: Any) -> UfmRest:
    return replace(UfmRest(place_of(bed.url), HttpTrust(str(bed.authority)), UfmLogin(secret)), **more)


def message_of(bed: Ufm, **more: Any) -> str:
    """Why nothing was read of UFM."""
    with pytest.raises(UfmError) as error:
        ufmoutput.ask([rest(bed, **more)])
    line = str(error.value)
    assert line.startswith(bed.url) and line.isprintable() and "\n" not in line and PASSWORD not in line
    return line


def test_a_password_goes_to_one_path_and_a_token_to_the_other(bed: Ufm) -> None:
    (by_password,) = ufmoutput.ask([rest(bed)])
    (by_token,) = ufmoutput.ask([rest(bed, TOKEN)])
    assert by_password.outputs == by_token.outputs and not by_password.missing
    subnet = by_password.subnet()
    assert (len(subnet.links) == len(PLAN.cables) and len(subnet.devices) == len(PLAN.devices)
            and not subnet.partial and subnet.unhealthy == {})


def test_pages_give_the_rows_that_a_list_gives(bed: Ufm) -> None:
    deadline = rest(bed).deadline()
    paged = json.loads(rest(bed, page_rows=3).rows(PORTS, deadline))
    assert len([one for one in bed.seen if one[1] == PORTS]) == -(-len(bed.rows) // 3)
    bed.listed = True
    assert json.loads(rest(bed).rows(PORTS, deadline)) == paged and len(paged) == len(bed.rows)


def test_pages_that_change_meanwhile_are_read_again_and_at_last_refused(bed: Ufm) -> None:
    asked = 0

    def grows(method: str, path: str) -> None:
        nonlocal asked
        asked += 1
        if asked == 2:
            bed.events.append({"id": asked})

    bed.events = [{"id": 0}, {"id": 1}, {"id": 2}]
    bed.faults = grows
    assert len(json.loads(rest(bed, page_rows=2).rows("/app/events", rest(bed).deadline()))) == 4
    first = json.dumps({"data": [{"id": 1}], "num_of_pages": 2, "first_index": 1,
                        "filtered_resources": 2}).encode()
    bed.faults = lambda method, path: first         # the first page, whichever was asked for
    with pytest.raises(UfmError, match="changed 3 times while its pages were read"):
        rest(bed, page_rows=1).rows("/app/events", rest(bed).deadline())


def cut(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[{\"name\"")


def drips(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    ended = threading.Event()
    with suppress(OSError):
        while not ended.wait(0.05):     # until the client has gone
            handler.wfile.write(b"x")


def moved(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(
        b"HTTP/1.1 302 Found\r\nLocation: https://elsewhere.example/\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize(("fault", "words"), [
    (401, "it refuses the login (401); see --ufm-auth FILE, or MUSTER_UFM_AUTH"),
    (403, "this login may not use /ufmRest/resources/ports (403)"),
    (404, "it has no /ufmRest/resources/ports (404): an older UFM, or one in another mode"),
    (500, "/ufmRest/resources/ports: status 500"),
    (b"<html><body>\x1b[2J",
     "/ufmRest/resources/ports is a web page and no JSON: is this the address of a UFM?"),
    (b'[{"name": "a', "/ufmRest/resources/ports is no JSON, or ends early"),
    (b"", "/ufmRest/resources/ports is no JSON, or ends early"),
    (b"[" * 100_000, "/ufmRest/resources/ports is no JSON"),
    (b"7", "/ufmRest/resources/ports is no list of objects"),
    (b'{"data": 7}', "/ufmRest/resources/ports is no list of objects"),
    (b'{"data": [], "num_of_pages": 100000}', "is over the limit of 1000 pages"),
    ("drop", "it closed the connection before it had answered"),
    (cut, "it closed the connection before it had answered"),
    (moved, "is redirected (302), which is not followed"),
    (lambda handler: handler.wfile.write(b"SSH-2.0-x\r\n"), "its answer is not HTTP"),
])
def test_what_goes_wrong_is_one_line(bed: Ufm, fault: Any, words: str) -> None:
    bed.faults = lambda method, path: fault
    assert words in message_of(bed)
    assert len(bed.seen) == 1       # a password that is refused is not tried again


def test_a_wrong_password_is_refused_once_and_shown_nowhere(bed: Ufm) -> None:
    assert "it refuses the login (401)" in message_of(bed, secret=f"{USER}:wrong") and len(bed.seen) == 1


def test_a_server_that_repeats_the_secret_in_its_error_does_not_have_it_printed(bed: Ufm) -> None:
    repeated = (f'{{"error": "{USER}:{PASSWORD} '
                f'{UfmLogin(f"{USER}:{PASSWORD}").header()}\\u001b[2J"}}').encode()

    def echo(handler: Any) -> None:
        handler.say(422, repeated)

    bed.faults = lambda method, path: echo
    line = message_of(bed)
    assert ("status 422" in line and UfmLogin(f"{USER}:{PASSWORD}").header()[6:] not in line
            and line.count("(not shown)") == 2)


def test_who_drips_bytes_is_left_when_the_time_is_over(bed: Ufm) -> None:
    bed.faults = lambda method, path: drips
    assert "no whole answer within 0.5 s" in message_of(bed, seconds=0.5)


def test_an_answer_beyond_the_limit_is_refused(bed: Ufm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ufmwire, "MOST_BYTES", 1000)
    assert "over the limit of" in message_of(bed)


def test_what_else_it_does_not_give_is_missing_and_the_rest_is_read(bed: Ufm) -> None:
    bed.faults = lambda method, path: 404 if path in ("/resources/links", "/app/unhealthy_ports") else None
    (output,) = ufmoutput.ask([rest(bed)])
    assert (set(output.outputs) == {"ufm-ports.json", "ufm-systems.json"} and len(output.missing) == 2
            and all("(404)" in line for line in output.missing))
    assert output.subnet().unhealthy is None and set(output.missing) <= set(output.subnet().unread)


def test_where_no_one_listens_or_no_tls_is_spoken_is_said(tmp_path: Path) -> None:
    nobody = UfmRest(UfmPlace(True, "127.0.0.1", free_port()), HttpTrust(), UfmLogin("a:b"))
    with pytest.raises(UfmError, match="cannot be reached: Connection refused"):
        nobody.document("/app/ufm_version", nobody.deadline())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def plain() -> None:
            found, _ = listener.accept()
            with found:
                found.recv(1000)
                found.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=plain, daemon=True)
        thread.start()
        deaf = replace(nobody, place=UfmPlace(True, "127.0.0.1", listener.getsockname()[1]))
        with pytest.raises(UfmError, match="no TLS connection"):
            deaf.document("/app/ufm_version", deaf.deadline())
        thread.join(10)


@pytest.mark.parametrize(("trust", "words"), [
    (HttpTrust(), "its certificate is not trusted: "),
    (HttpTrust(pins=("0" * 64,)), "shows another certificate than the one that is pinned: sha256:"),
    (HttpTrust("/nonexistent"), "/nonexistent cannot be read as a file of authorities: No such file")])
def test_a_certificate_that_is_not_believed_gets_no_password(bed: Ufm, trust: HttpTrust, words: str) -> None:
    assert words in message_of(bed, trust=trust) and bed.seen == []


def test_a_fingerprint_is_believed_as_openssl_prints_it(bed: Ufm) -> None:
    colons = ":".join(bed.fingerprint[at:at + 2] for at in range(0, 64, 2)).upper()
    assert trust_of(f"SHA256:{colons},sha256:{'0' * 64}").pins == (bed.fingerprint, "0" * 64)
    (output,) = ufmoutput.ask([rest(bed, trust=trust_of(f"sha256:{colons}"))])
    assert not output.missing
    with pytest.raises(UsageError, match="expected verify, a file, or sha256:"):
        trust_of("sha256:12")


def test_a_login_comes_from_a_file_of_the_users_own_or_once_from_the_environment(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "auth"
    file.write_text(f"{TOKEN}\n")
    with pytest.raises(UsageError, match=r"--ufm-auth .* others may read it"):
        file.chmod(0o644)
        login_of(str(file))
    file.chmod(0o600)
    monkeypatch.setenv(AUTH, "user:word")
    login = login_of(str(file))
    assert (login.prefix, login.header()) == ("/ufmRestV3", f"Basic {TOKEN}") and TOKEN not in repr(login)
    monkeypatch.setenv(AUTH, "user:word")
    assert login_of(None).prefix == "/ufmRest"
    with pytest.raises(UsageError, match="--ufm needs a login"):
        login_of(None)      # taken out with the first reading, so that no child has it
    for text in ("", "user:", "short", "a b c d e f g h", "a:\x1b"):
        file.write_text(text)
        with pytest.raises(UsageError, match="expected one line, USER:PASSWORD or an access token") as error:
            login_of(str(file))
        assert not text or text not in str(error.value)


@pytest.mark.parametrize(("url", "words"), [
    ("ufm.example", "expected https://HOST"), ("https://ufm.example/ufmRest", "expected https://HOST"),
    ("https://ufm.example:x", "expected https://HOST"),
    ("http://ufm.example", "in clear text; use https://"),
    ("https://a:secret@ufm.example", "can be read in the list of processes"),
    ("https://ufm.exa mple", "expected https://HOST")])
def test_what_is_no_address_is_one_line_without_its_password(url: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        place_of(url)
    assert words in str(error.value) and "secret@" not in str(error.value)
    assert (str(place_of("https://ufm.example:443")) == "https://ufm.example"
            and str(place_of("http://[::1]:8000")) == "http://[::1]:8000")


_JSON = st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10)),
                     lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                         st.sampled_from(("data", "num_of_pages", "filtered_resources", "first_index", "name",
                                          "Condition", "UnhealthyGUID")), inner, max_size=4),
                     max_leaves=12)


@given(st.lists(st.one_of(_JSON.map(lambda found: json.dumps(found).encode()), st.binary(max_size=40)),
                min_size=1, max_size=4))
def test_any_answers_give_a_list_that_readers_take_or_one_clean_line(answers: list[bytes]) -> None:
    left = iter(answers)

    def ask(*given: object) -> UfmAnswer:
        return UfmAnswer(200, "application/json", "", next(left, answers[-1]))

    one = UfmRest(UfmPlace(True, "h", 443), HttpTrust(), UfmLogin("u:p"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ufmrest, "ask", ask)
        try:
            text = one.rows(PORTS, HttpDeadline(10.0))
        except UfmError as error:
            assert str(error).isprintable()
            return
    assert isinstance(json.loads(text), list)
    for reader in (readers.read_ports, readers.read_links, readers.read_systems, readers.read_unhealthy):
        assert all(line.isprintable() for line in reader(text).unread)


def test_the_secret_is_in_no_file_message_or_process_of_a_check(bed: Ufm, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    done = muster("fabric", "check", "--ufm", bed.url, "--ufm-tls", str(bed.authority), "--save", "kept",
                  home=tmp_path / "home",
                  **{AUTH: f"{USER}:{PASSWORD}"})
    assert done.returncode in (0, 1, 3), done.stderr
    kept = [path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file()]
    hidden = (PASSWORD, UfmLogin(f"{USER}:{PASSWORD}").header()[6:])
    assert len(kept) >= 5 and not any(secret in text for secret in hidden
                                      for text in (done.stdout, done.stderr))
    assert not any(secret.encode() in data for secret in hidden for data in kept)


