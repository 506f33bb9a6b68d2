"""What a MAAS, or what stands in its place, may do to whoever asks it; and that the API key and the passwords
are nowhere."""

from __future__ import annotations

import io
import logging
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inventory.model import Node, Secret, SecretFrom
from provisioning.bmc.credentials import Hidden
from provisioning.osinstall.base import OsError, OsState
from provisioning.osinstall.maas import wire
from provisioning.osinstall.maas.oauth import api_key, authorization
from provisioning.osinstall.maas.wire import place
from tests.provisioning.osinstall.maassite import NODE, Site, key_file
from tests.testbed import maas
from tests.testbed.maas import KEY, POWER_PASSWORD, Maas, serving

ROOT = Path(__file__).resolve().parents[3]
SECRETS = (*KEY.split(":"), POWER_PASSWORD)


def refused(ask: Callable[[], Any]) -> str:
    """The one line of the error, in which and around which there is no secret."""
    with pytest.raises(OsError) as caught:
        ask()
    text = str(caught.value)
    shown = "".join(traceback.format_exception(caught.value))
    assert "\n" not in text and len(text) < 1500 and text.isprintable()
    assert not [secret for secret in SECRETS if secret in text or secret in shown]
    return text


def test_the_header_is_oauths_with_the_plain_secret_as_signature_and_odd_letters_are_spelt_out() -> None:
    header = authorization(api_key(Hidden("con:to:s e&c\"ret")), "n1", 1700000000)
    assert (header
            == ('OAuth oauth_consumer_key="con", oauth_token="to", oauth_signature_method="PLAINTEXT", '
                'oauth_signature="%26s%2520e%2526c%2522ret", '
                'oauth_timestamp="1700000000", oauth_nonce="n1", oauth_version="1.0"'))


@pytest.mark.parametrize("text", ["", "one", "a:b", "a:b:c:d", "a::c", "a:b:ç"])
def test_a_key_of_another_form_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(OsError) as caught:
        api_key(Hidden(text))
    assert ("consumer:token:secret" in str(caught.value)
            and (len(text) < 2 or text not in str(caught.value).replace("consumer:token:secret", "")))


@pytest.mark.parametrize("key", ["nobodyC:nobodyT:nobodyS", f"{KEY.rpartition(':')[0]}:wr0ngSECRET"])
def test_a_wrong_key_is_refused_once_and_the_server_cannot_make_us_show_it(site: Site, key: str) -> None:
    site.machine(maas.READY)
    site.options()
    backend = site.backend(key=key_file(site.folder / "other" if (site.folder / "other").mkdir() is None
                                        else site.folder, key))
    text = refused(lambda: backend.state(NODE))
    assert "does not accept the API key (401)" in text and not [part
                                                                for part in key.split(":") if part in text]
    assert len(site.bed.seen) == 1 and site.paused == []


@pytest.mark.parametrize(("change", "said"), [
    (lambda path: path.unlink(), "No such file"), (lambda path: path.chmod(0o644), "may be read by others"),
    (lambda path: path.write_text("not-a-key\n"), "consumer:token:secret"),
    (lambda path: path.write_bytes(b"\xff\xfe:a:b\n"), "not UTF-8"),
])
def test_a_key_that_cannot_be_used_is_said_before_anything_is_asked(site: Site, change: Callable[[Path], Any],
                                                                    said: str) -> None:
    backend = site.backend()
    change(site.folder / "maas.key")
    assert said in refused(lambda: backend.state(NODE)) and site.bed.seen == []


def test_the_key_may_come_from_a_command(site: Site) -> None:
    site.machine(maas.READY)
    where = Secret(SecretFrom.COMMAND, ("cat", str(site.folder / "maas.key")))
    assert site.backend(key=where).state(NODE).state is OsState.PLANNED
    assert "ended with exit code 1" in refused(
        lambda: site.backend(key=Secret(SecretFrom.COMMAND, ("cat", "/nowhere"))).state(NODE))


def test_a_key_that_may_not_read_power_parameters_still_finds_machines_by_the_rest(site: Site) -> None:
    site.machine(maas.READY)
    other = site.folder / "other"
    other.mkdir()
    assert site.backend(key=key_file(other, maas.OTHER_KEY)).state(NODE).state is OsState.PLANNED


def test_a_certificate_of_no_known_authority_gets_no_key(site: Site) -> None:
    assert "its certificate is not trusted" in refused(lambda: site.backend(tls="verify").state(NODE))
    assert site.bed.seen == []
    assert "cannot be read as a file of authorities" in refused(
        lambda: site.backend(tls="/nowhere").state(NODE))


def test_over_http_the_key_goes_only_where_that_was_said(tmp_path: Path) -> None:
    with serving(Maas()) as bed:
        site = Site(bed, tmp_path)
        site.machine(maas.READY)
        assert site.backend().state(NODE).state is OsState.PLANNED      # loopback
    with pytest.raises(OsError, match="cleartext: true"):
        place("http://10.0.0.1:5240/MAAS")
    assert place("http://10.0.0.1:5240/MAAS/",
                 cleartext=True).path == place("https://m/MAAS/api/2.0").path == "/MAAS/api/2.0/"
    assert str(place("https://[fd00::1]/MAAS")) == "https://[fd00::1]:443"


def raw(text: bytes) -> Callable[[Any], None]:
    def answers(handler: Any) -> None:
        handler.wfile.write(text)
    return answers


@pytest.mark.parametrize(("fault", "said"), [
    (raw(b"SSH-2.0-OpenSSH_9.6\r\n"), "is not HTTP"),
    (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[]"), "closed the connection"),
    (raw(b"HTTP/1.1 302 Found\r\nLocation: https://evil.example/\r\nContent-Length: 0\r\n\r\n"),
     "sends elsewhere (302)"),
    (raw(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 120 + b"\r\n"), "is not HTTP"),
    (b"<html>\x1b[2J</html>", "answered no JSON"), (b"[" * 100_000, "answered no JSON"),
    (b'{"a": 1}', "no list of machines"),
    (raw(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\n\x1b[31m\x00\n\xff\xfe"), "\\x1b[31m"),
    (raw(b"HTTP/1.1 400 Bad\r\nContent-Length: 27\r\n\r\n<html><body>secret</body></"),
     "does not accept it (400)"), ("drop", "closed the connection"),
])
def test_whatever_it_answers_is_one_clean_line(site: Site, fault: Any, said: str) -> None:
    site.bed.faults = lambda method, path, op: fault
    assert said in refused(lambda: site.backend().state(NODE))


def test_an_answer_that_does_not_end_is_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MOST_BYTES", 4 * 1024 * 1024)

    def floods(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(200):
            handler.wfile.write(b"20000\r\n" + b" " * 0x20000 + b"\r\n")
    site.bed.faults = lambda method, path, op: floods
    assert "is over the limit of 4 MiB" in refused(lambda: site.backend().state(NODE))


def test_an_answer_letter_by_letter_ends_with_the_time_that_there_is(site: Site) -> None:
    def drips(handler: Any) -> None:
        for _ in range(200):
            handler.wfile.write(b"H")
            handler.wfile.flush()
            time.sleep(0.05)
    site.bed.faults = lambda method, path, op: drips
    began = time.monotonic()
    assert "no whole answer within 1 s" in refused(lambda: site.backend(seconds=1.0).state(NODE))
    assert time.monotonic() - began < 8


def test_a_server_that_is_not_there_is_said_so(site: Site) -> None:
    backend = site.backend(url="https://127.0.0.1:9/MAAS")
    assert "cannot be reached: Connection refused" in refused(lambda: backend.state(NODE))


def test_a_server_that_does_not_answer_costs_many_nodes_the_time_of_one_question(site: Site) -> None:
    site.bed.faults = lambda method, path, op: "drop"
    backend = site.backend()
    first = refused(lambda: backend.state(NODE))
    asked = len(site.bed.seen)
    for number in range(20):
        assert (refused(lambda number=number: backend.state(Node(f"n{number}")))
                == f"{first}; not asked again for 10 s")   # type: ignore[misc]
    assert len(site.bed.seen) == asked == 5


def test_a_server_that_lies_about_which_machine_it_answers_is_not_believed(site: Site) -> None:
    site.machine(maas.READY)
    backend = site.backend()
    assert backend.state(NODE).state is OsState.PLANNED
    other = site.bed.enlist("zzz999", "gpu002", maas.Hardware("SN0002"), maas.DEPLOYED)
    site.bed.faults = lambda method, path, op: other if path == "machines/abc123/" else None
    assert "was asked for abc123 and answered gpu002 (zzz999)" in refused(lambda: backend.state(NODE))
    assert "now says otherwise" in refused(lambda: site.backend().state(NODE))


def test_a_board_that_was_changed_under_its_name_is_not_installed(site: Site) -> None:
    site.machine(maas.READY)
    backend = site.backend()
    backend.state(NODE)
    site.bed.machines["abc123"]["hardware_info"]["system_serial"] = "SN7777"
    for ask in (backend.state, backend.install):
        assert "SN7777" in refused(lambda ask=ask: ask(NODE))   # type: ignore[misc]
    assert site.asked() == []


def test_a_machine_that_was_deleted_and_came_back_is_found_again(site: Site) -> None:
    site.machine(maas.READY)
    backend = site.backend()
    backend.state(NODE)
    del site.bed.machines["abc123"]
    site.bed.enlist("new456", "gpu001", maas.Hardware("SN0001"), maas.READY)
    backend._clock = lambda: time.monotonic() + 60      # the list is old by now
    assert "new456" in backend.state(NODE).message


PROGRAM = """
import logging, sys
logging.basicConfig(level=logging.DEBUG)
from tests.provisioning.osinstall.maassite import NODE
from provisioning.osinstall.maas.backend import maas_backend
from provisioning.osinstall.maas.options import MaasOptions
from inventory.model import Secret, SecretFrom
url, key, tls = sys.argv[1:]
backend = maas_backend(MaasOptions(url, Secret(SecretFrom.COMMAND, ("sh", "-c", "cat $0", key)), "ubuntu", "jammy", tls=tls))
print(backend.state(NODE), backend.changes(NODE))
backend.install(NODE)
print(backend.state(NODE), backend.found(NODE), vars(backend), vars(backend._client), backend._client._key)
"""  # noqa: E501


def test_no_credential_is_in_any_process_environment_output_or_log_while_it_runs(site: Site) -> None:
    site.machine(maas.READY)
    seen = io.BytesIO()
    looked = 0

    def looks(method: str, path: str, op: str) -> None:
        nonlocal looked
        looked += 1
        for name in ("cmdline", "environ"):
            for file in Path("/proc").glob(f"[0-9]*/{name}"):
                try:
                    seen.write(file.read_bytes() + b"\n")
                except OSError:
                    continue
    key = site.options().key.words[0]
    site.bed.faults = looks
    done = subprocess.run([sys.executable, "-c", PROGRAM, site.bed.url, key, str(site.bed.authority)],
                          cwd=ROOT, text=True, capture_output=True,
                          timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert looked > 8 and str(site.bed.url).encode() in seen.getvalue()     # it looked at this very program
    assert "INSTALLING" in done.stdout and "Hidden" in done.stdout
    for secret in SECRETS:
        assert secret.encode() not in seen.getvalue() and secret not in done.stdout + done.stderr, secret


def test_nothing_is_logged_with_a_secret(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.machine(maas.NEW)
    caplog.set_level(logging.DEBUG)
    site.backend().install(NODE)
    assert not [secret for secret in SECRETS if secret in caplog.text]
    assert not re.search("Authorization", caplog.text)


def test_many_threads_share_one_list_and_one_key(site: Site) -> None:
    from concurrent.futures import ThreadPoolExecutor
    nodes = [Node(f"n{number:03}", labels={"serial": f"S{number}"}) for number in range(16)]
    for number, node in enumerate(nodes):
        site.bed.enlist(f"id{number}", node.name, maas.Hardware(f"S{number}"), maas.READY)
    backend = site.backend()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(backend.install, nodes))
    assert len(site.bed.deployed) == 16 and [(path, op)
                                             for _, path, op in site.bed.seen].count(("machines/", "")) == 1
