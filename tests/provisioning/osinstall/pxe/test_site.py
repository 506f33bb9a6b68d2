"""What is served to whom: only armed machines are installed, and whoever lies changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory.model import Node
from provisioning.bmc.base import BootTarget
from provisioning.osinstall.base import OsBackend, OsError, OsState
from provisioning.osinstall.pxe import phonehome, record
from provisioning.osinstall.pxe.record import InstallationStage
from tests.provisioning.osinstall.pxe.pxesite import (
    KEY,
    OTHER_KEY,
    Place,
    home,
    mac,
    node,
    options,
    seed_path,
)
from tests.tries import tries

BOOT = f"/boot/{mac(1).replace(':', '-')}.ipxe"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "state")


def shown(place: Place, number: int = 1) -> OsState:
    return place.backend.state(node(number)).state


def sign(token: str, body: bytes) -> str:
    return phonehome.signed(token, body)


def test_the_back_end_is_one_and_drives_no_power(place: Place) -> None:
    backend: OsBackend = place.backend
    assert (backend.name, backend.target, backend.drives_power) == ("pxe", BootTarget.PXE, False)


def test_a_machine_goes_from_planned_to_installed_and_is_installed_once(place: Place) -> None:
    assert shown(place) is OsState.PLANNED and "kernel" not in place.ask(BOOT).text
    assert [line for line in place.backend.changes(node()) if "erases" in line]
    assert shown(place) is OsState.PLANNED
    armed = place.armed()
    assert shown(place) is OsState.INSTALLING
    script = place.ask(BOOT).text
    assert (f"/seed/gpu001/1/{armed.ticket}/" in script and script.startswith("#!ipxe\n")
            and armed.token not in script)
    assert "boot script" in place.backend.state(node()).message
    for name in ("user-data", "meta-data", "vendor-data"):
        answer = place.ask(seed_path(armed, name))
        assert answer.status == 200 and armed.token not in answer.text
        yaml.safe_load(answer.text)
    assert armed.token in place.ask(seed_path(armed, "firstboot")).text
    assert "seed" in place.backend.state(node()).message
    assert place.ask(seed_path(armed, "written")).status == 200
    # From here on a boot over the network, as firmware may do first, goes to the disk.
    assert "kernel" not in place.ask(BOOT).text and "sanboot" in place.ask(BOOT).text
    assert shown(place) is OsState.INSTALLING

    body = home(armed, host_keys=[f"{KEY} root@gpu001"])
    assert place.done(body, sign(armed.token, body)).status == 200
    found = place.backend.state(node())
    assert (found.state, found.image, found.host_keys) == (OsState.INSTALLED, "ubuntu", (KEY,))
    assert "kernel" not in place.ask(BOOT).text and place.ask(seed_path(armed, "firstboot")).status == 404
    held = place.record()
    assert ((held.token, held.ticket) == ("", "")
            and armed.token.encode() not in place.records.folder.joinpath("gpu001.json").read_bytes())


def test_asked_again_nothing_is_doubled_and_another_installation_has_other_secrets(place: Place) -> None:
    first = place.armed()
    assert place.armed() == first
    place.clock.now += 60
    assert place.armed() == first
    place.ask(seed_path(first, "failed?why=x"))
    second = place.armed()
    assert second.number == 2 and second.token != first.token and second.ticket != first.ticket
    assert len(second.token) == 64 and len(second.ticket) == 32


def test_records_are_the_owners_alone(place: Place) -> None:
    place.armed()
    assert (place.records.folder / "gpu001.json").stat().st_mode & 0o777 == 0o600
    assert place.records.folder.stat().st_mode & 0o777 == 0o700


def test_the_installer_that_was_killed_begins_anew_until_the_disk_is_written(place: Place) -> None:
    armed = place.armed()
    for _ in range(3):
        assert "kernel" in place.ask(BOOT).text
        assert place.ask(seed_path(armed, "user-data")).status == 200
        place.clock.now += 60
    assert place.record().number == 1 and place.record().stage is InstallationStage.SEED


def test_a_seed_that_is_fetched_once_more_after_the_disk_is_written_does_not_have_it_installed_again(
        place: Place) -> None:
    armed = place.armed()
    reach(place, armed, "written")
    for name in ("user-data", "firstboot", "written"):
        place.clock.now += 60
        assert place.ask(seed_path(armed, name)).status == 200
    assert place.record().stage is InstallationStage.WRITTEN and "kernel" not in place.ask(BOOT).text


@pytest.mark.parametrize("what", ["boot", "seed", "written", "failed", "done"])
def test_what_comes_while_the_machine_is_armed_anew_is_of_the_old_installation(
        place: Place, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record that a request has read is replaced before its change is written."""
    old = place.armed()
    place.records.change("gpu001", lambda one: one and record.forgotten(one, place.clock()))
    new = place.armed()
    monkeypatch.setattr(place.records, "by_mac", lambda mac, now: old)
    monkeypatch.setattr(place.site._records, "read", lambda name: old)
    monkeypatch.setattr(place.records, "change",
                        lambda name, how: Place(place.state, clock=place.clock).records.change(name, how))
    body = home(old)
    answer = {"boot": lambda: place.ask(BOOT), "seed": lambda: place.ask(seed_path(old, "user-data")),
              "written": lambda: place.ask(seed_path(old, "written")),
              "failed": lambda: place.ask(seed_path(old, "failed?why=x")),
              "done": lambda: place.done(body, sign(old.token, body))}[what]()
    assert answer.status in (200, 404, 410) and "kernel" not in answer.text and "accepted" not in answer.text
    assert place.record() == new


@pytest.mark.parametrize("before", ["armed", "boot", "seed", "written"])
def test_what_the_installer_reports_ends_the_installation_with_its_reason(place: Place, before: str) -> None:
    armed = place.armed()
    reach(place, armed, before)
    place.ask(seed_path(armed, "failed"), "POST", b"\x1b[31mline one\nE: no disk\x07\n" + b"\xff" * 3)
    found = place.backend.state(node())
    assert found.state is OsState.FAILED and "E: no disk" in found.message and found.message.isprintable()
    assert "muster os serve's log" in found.advice and "kernel" not in place.ask(BOOT).text
    body = home(armed)
    assert place.done(body, sign(armed.token, body)).status == 410
    assert shown(place) is OsState.FAILED


def reach(place: Place, armed: record.Installation, stage: str) -> None:
    if stage in ("boot", "seed", "written"):
        place.ask(BOOT)
    if stage in ("seed", "written"):
        place.ask(seed_path(armed, "user-data"))
    if stage == "written":
        place.ask(seed_path(armed, "written"))
    assert place.record().stage.value == stage


@pytest.mark.parametrize("stage", ["armed", "boot", "seed", "written"])
def test_a_time_that_is_over_is_a_failure_and_its_secrets_are_worth_nothing(place: Place, stage: str) -> None:
    armed = place.armed()
    reach(place, armed, stage)
    place.clock.now = armed.until
    found = place.backend.state(node())
    assert (found.state is OsState.FAILED
            and record.at_stage(armed.stage if stage == "armed" else place.record().stage) in found.message)
    body = home(armed)
    assert place.done(body, sign(armed.token, body)).status == 410
    assert place.ask(seed_path(armed, "firstboot")).status == 404 and "kernel" not in place.ask(BOOT).text
    (line,) = place.site.overdue()
    assert "time is over" in line and place.record().token == ""
    assert place.site.overdue() == () and place.backend.state(node()).message == found.message


def test_a_person_ends_an_installation(place: Place) -> None:
    armed = place.armed()
    place.records.change("gpu001", lambda old: old and record.disarmed(old, place.clock()))
    assert shown(place) is OsState.PLANNED and "kernel" not in place.ask(BOOT).text
    body = home(armed)
    assert place.done(body, sign(armed.token, body)).status == 410 and shown(place) is OsState.PLANNED


def test_a_machine_that_was_replaced_was_never_installed(place: Place) -> None:
    armed = place.armed()
    body = home(armed)
    place.done(body, sign(armed.token, body))
    other = replace(node(), boot_mac=(mac(77),))
    found = place.backend.state(other)
    assert found.state is OsState.PLANNED and found.host_keys == () and mac(1) in found.message
    place.backend.install(other)
    assert place.record().number == 2 and place.backend.state(other).state is OsState.INSTALLING
    assert place.backend.state(replace(node(), boot_mac=(mac(77), mac(78)))).state is OsState.INSTALLING


# ---- the phone-home

Change = Callable[[Place, record.Installation], tuple[bytes, str]]


def _with(**changes: Any) -> Change:
    """Signed as it should be, and says something else."""
    def made(place: Place, armed: record.Installation) -> tuple[bytes, str]:
        body = home(armed, **changes)
        return body, sign(armed.token, body)
    return made


def _without(key: str) -> Change:
    def made(place: Place, armed: record.Installation) -> tuple[bytes, str]:
        body = json.dumps({name: value
                           for name, value in json.loads(home(armed)).items() if name != key}).encode()
        return body, sign(armed.token, body)
    return made


def _other_token(place: Place, armed: record.Installation) -> tuple[bytes, str]:
    return home(armed), sign("ab" * 32, home(armed))


def _other_machines_token(place: Place, armed: record.Installation) -> tuple[bytes, str]:
    return home(armed), sign(place.armed(2).token, home(armed))


def _changed_afterwards(place: Place, armed: record.Installation) -> tuple[bytes, str]:
    return home(armed, host_keys=[OTHER_KEY]), sign(armed.token, home(armed))


def _raw(body: bytes) -> Change:
    return lambda place, armed: (body, sign(armed.token, body))


FORGED: dict[str, tuple[Change, int]] = {
    "another token": (_other_token, 403), "the token of another machine": (_other_machines_token, 403),
    "keys changed after signing": (_changed_afterwards, 403),
    "no signature": (lambda place, armed: (home(armed), ""), 403),
    "a signature in capitals": (lambda place, armed: (home(armed), sign(armed.token, home(armed)).upper()),
                                403),
    "another node": (_with(node="gpu002"), 400), "another number": (_with(number=2), 400),
    "number as text": (_with(number="1"), 400), "number true": (_with(number=True), 400),
    "another image": (_with(image="debian"), 400),
    "another machine's ports": (_with(macs=[mac(2)]), 400), "no ports": (_with(macs=[]), 400),
    "no host keys": (_with(host_keys=[]), 400), "host key cut": (_with(host_keys=[KEY[:-8]]), 400),
    "host key of another type": (_with(host_keys=[KEY.replace("ssh-ed25519", "ssh-rsa")]), 400),
    "host key with a marker": (_with(host_keys=[f"@cert-authority * {KEY}"]), 400),
    "host key and options": (_with(host_keys=["ssh-ed25519\nssh-ed25519 AAAA"]), 400),
    "host key of two lines": (_with(host_keys=[f"{KEY}\n* {OTHER_KEY}", 1]), 400),
    "too many host keys": (_with(host_keys=[KEY] * 9), 400), "a key more": (_with(sudo=True), 400),
    "a key less": (_without("macs"), 400),
    "another schema": (_with(schema="muster.phonehome/2"), 400), "no JSON": (_raw(b"{"), 400),
    "a list": (_raw(b"[]"), 400),
    "nothing": (_raw(b""), 400), "deep": (_raw(b"[" * 20000), 400),
    "not UTF-8": (_raw(b'{"schema": "\xff"}'), 400),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_phone_home_that_is_not_right_is_refused_and_changes_nothing(place: Place, what: str) -> None:
    armed = place.armed()
    reach(place, armed, "written")
    change, status = FORGED[what]
    body, signature = change(place, armed)
    before = place.records.folder.joinpath("gpu001.json").read_bytes()
    answer = place.done(body, signature)
    assert answer.status == status, answer
    assert (place.records.folder.joinpath("gpu001.json").read_bytes() == before
            and armed.token not in answer.text + answer.log)
    right = home(armed)
    assert place.done(right, sign(armed.token, right)).status == 200


def test_a_message_of_an_earlier_installation_is_worth_nothing(place: Place) -> None:
    first = place.armed()
    body = home(first)
    signature = sign(first.token, body)
    assert place.done(body, signature).status == 200
    second = place.armed()
    assert place.done(body, signature).status == 403 and shown(place) is OsState.INSTALLING
    assert place.done(home(second), sign(first.token, home(second))).status == 403


def test_the_same_message_whose_answer_was_lost_gets_it_again_and_another_one_does_not(place: Place) -> None:
    armed = place.armed()
    body = home(armed)
    assert place.done(body, sign(armed.token, body)).status == 200
    kept = place.record()
    place.clock.now += 30
    assert place.done(body, sign(armed.token, body)).text == "accepted already\n"
    other = home(armed, host_keys=[OTHER_KEY])
    assert place.done(other, sign(armed.token, other)).status == 410
    assert place.record() == kept and place.backend.state(node()).host_keys == (KEY,)


@pytest.mark.parametrize("name", ["none", "../../etc/passwd", "gpu001.json", "%00", "a" * 300, ""])
def test_a_machine_that_is_not_there_is_answered_like_a_wrong_signature(place: Place, name: str) -> None:
    place.armed()
    answer = place.ask(f"/done/{name}", "POST", b"{}")
    assert answer.status in (403, 404) and "none" not in answer.text


@given(body=st.binary(max_size=600) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["schema", "node", "number", "image", "macs", "host_keys", "x"]), inner, max_size=7),
    max_leaves=20).map(
        lambda value: json.dumps(value).encode()), right=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=tries(100), deadline=None)
def test_no_body_at_all_does_harm(tmp_path: Path, body: bytes, right: bool) -> None:
    place = Place(tmp_path / "state")
    armed = place.armed()
    kept = place.record()
    answer = place.done(body, sign(armed.token, body) if right else "0" * 64)
    assert answer.status == (400 if right else 403) and place.record() == kept and len(answer.text) < 200


@given(changes=st.dictionaries(st.sampled_from(["node", "number", "image", "macs", "host_keys", "schema"]),
                               st.none() | st.integers() | st.text(
                                   max_size=80) | st.lists(st.text(max_size=80) | st.integers() | st.none(),
                                                           max_size=10), min_size=1, max_size=6))
@settings(max_examples=tries(200), deadline=None)
def test_what_parses_is_what_it_says_and_nothing_else(changes: dict[str, Any]) -> None:
    armed = record.Installation("gpu001", 1, "ubuntu", (mac(1),), InstallationStage.SEED, 0, 0, 9, "t", "aa")
    try:
        found = phonehome.parse(home(armed, **changes))
    except ValueError as problem:
        assert str(problem).isascii() and len(str(problem)) < 200
        return
    for line in found.host_keys:
        assert len(line.split()) == 2 and line.isascii() and line.isprintable()


# ---- who else asks

def test_tickets_are_needed_and_of_this_installation_only(place: Place) -> None:
    one, two = place.armed(1), place.armed(2)
    for wrong in (replace(one, ticket=two.ticket), replace(one, number=2), replace(one, node="gpu002"),
                  replace(one, ticket=""),
                  replace(one, ticket=one.ticket[:-1]), replace(one, ticket=one.ticket.upper()),
                  replace(one, node="nothing"),
                  replace(one, ticket="\udcff")):
        for name in ("user-data", "firstboot", "written", "failed"):
            assert place.ask(seed_path(wrong, name)).status == 404
    assert place.record(1) == one and place.record(2) == two


def test_only_what_an_image_has_is_served(place: Place) -> None:
    armed = place.armed()
    for name in ("preseed.cfg", "seed", "boot.ipxe", "../firstboot", "user-data.j2", "", "x" * 1000):
        assert place.ask(seed_path(armed, name)).status == 404
    for method in ("POST", "PUT", "DELETE", "HEAD"):
        assert place.ask(seed_path(armed, "written"), method).status == 404
    assert place.ask(BOOT, "POST").status == 404 and place.record() == armed


def test_a_head_request_moves_nothing_on(place: Place) -> None:
    armed = place.armed()
    assert place.ask(BOOT, "HEAD").status == 200
    assert place.ask(seed_path(armed, "user-data"), "HEAD").status == 200
    assert place.record() == armed


def test_who_has_the_hardware_address_of_another_machine_gets_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path / "state", options(neighbours=True))
    seen: dict[str, str | None] = {"10.1.0.7": mac(1), "10.1.0.66": mac(66)}
    place.site._neighbour = seen.get
    armed = place.armed()
    for path in (BOOT, seed_path(armed, "user-data"), seed_path(armed, "firstboot"),
                 seed_path(armed, "failed"), seed_path(armed, "written")):
        answer = place.ask(path, peer="10.1.0.66")
        assert answer.status == 404 and mac(66) in answer.log and armed.ticket not in answer.log
    assert place.record() == armed
    assert "kernel" in place.ask(BOOT, peer="10.1.0.7").text
    # behind a router: the kernel knows no address
    assert "kernel" in place.ask(BOOT, peer="172.16.0.1").text


def test_a_hardware_address_that_two_machines_claim_is_no_ones(place: Place) -> None:
    place.armed(1)
    twin = Node("gpu009", boot_mac=(mac(1),))
    place.backend.install(twin)
    assert "kernel" not in place.ask(BOOT).text


@pytest.mark.parametrize("name", ["", "x.ipxe", "52-54-00-00-00-01", "52-54-00-00-00-01.ipxe.ipxe",
                                  "01-00-5e-00-00-01.ipxe", "..%2f..ipxe"])
def test_what_is_no_hardware_address_is_not_found(place: Place, name: str) -> None:
    assert place.ask(f"/boot/{name}").status == 404


def test_files_are_those_of_the_folder_and_no_others(tmp_path: Path) -> None:
    root = tmp_path / "files"
    (root / "noble").mkdir(parents=True)
    (root / "noble/vmlinuz").write_bytes(b"kernel")
    (root / ".secret").write_text("x")
    (tmp_path / "outside").write_text("x")
    (root / "link").symlink_to(tmp_path / "outside")
    place = Place(tmp_path / "state", options(files=root))
    assert place.ask("/files/noble/vmlinuz").file == root / "noble/vmlinuz"
    for path in ("link", ".secret", "noble", "", "../outside", "noble/../../outside", "/etc/passwd",
                 "noble//vmlinuz", "%2e%2e/outside", "nothing"):
        assert place.ask(f"/files/{path}").status == 404, path


def test_a_loader_for_http_boot_is_served_and_nothing_else_beside_it(tmp_path: Path) -> None:
    from tests.provisioning.osinstall.pxe.pxesite import dhcp

    (tmp_path / "boot").write_bytes(b"MZ")
    (tmp_path / "ipxe.efi").symlink_to("boot")      # as in Debian's package
    (tmp_path / "other").write_bytes(b"")
    place = Place(tmp_path / "state", options(dhcp=dhcp(tftp=str(tmp_path))))
    assert place.ask("/loader/ipxe.efi").file == tmp_path / "ipxe.efi"
    assert place.ask("/loader/other").status == place.ask("/loader/..").status == 404


# ---- what is broken

@pytest.mark.parametrize("text", ["", "{}", "[]", "nonsense", '{"schema": "muster.installation/1"}',
                                  "[" * 20000, "x" * 70000])
def test_a_record_that_cannot_be_read_is_unknown_and_never_installed(place: Place, text: str) -> None:
    place.armed()
    (place.records.folder / "gpu001.json").write_text(text)
    found = place.backend.state(node())
    assert (found.state is OsState.UNKNOWN and "gpu001.json" in found.message
            and "move it away" in found.message)
    with pytest.raises(OsError):
        place.backend.install(node())
    assert "kernel" not in place.ask(BOOT).text and place.ask("/done/gpu001", "POST", b"").status == 503


def test_the_record_of_another_machine_is_not_this_ones(place: Place) -> None:
    place.armed()
    (place.records.folder / "gpu002.json").write_bytes((place.records.folder / "gpu001.json").read_bytes())
    assert shown(place, 2) is OsState.UNKNOWN


@pytest.mark.parametrize(("changes", "said"), [
    ({"image": "none"}, "no image"), ({"templates": ()}, "no template"),
    ({"server": "http://x y"}, "script of iPXE")])
def test_what_cannot_be_rendered_is_not_armed(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    place = Place(tmp_path / "state", options(**changes))
    with pytest.raises(OsError, match=said):
        place.backend.changes(node())
    with pytest.raises(OsError, match=said):
        place.backend.install(node())
    assert shown(place) is OsState.PLANNED


def test_an_image_that_has_gone_is_no_answer_and_is_logged(place: Place) -> None:
    place.armed()
    place.site._options = options(images={}, image="x")
    answer = place.ask(BOOT)
    assert answer.status == 503 and "pxe.yaml does not have" in answer.log and "kernel" not in answer.text


@given(st.lists(st.sampled_from(["boot", "user-data", "firstboot", "written", "failed", "done", "arm",
                                 "disarm", "late"]), max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=tries(60), deadline=None)
def test_in_whatever_order_things_happen_what_is_written_is_not_installed_again(tmp_path: Path,
                                                                                events: list[str]) -> None:
    place = Place(tmp_path / "state")
    armed = place.armed()
    protected = False
    for event in events:
        now = place.record()
        if event == "boot":
            script = place.ask(BOOT).text
            assert ("kernel" in script) == (now.active(place.clock())
                                            and now.stage is not InstallationStage.WRITTEN)
            assert not (protected and "kernel" in script)
        elif event == "done":
            body = home(now)
            if now.token and place.done(body, sign(now.token, body)).status == 200:
                protected = True
        elif event == "arm":
            armed = place.armed()
            protected = protected and armed == now
        elif event == "disarm":
            place.records.change("gpu001", lambda old: old and record.disarmed(old, place.clock()))
        elif event == "late":
            place.clock.now += 3000
        elif now.ticket:
            answer = place.ask(seed_path(now, event))
            protected = protected or (event in ("written", "failed") and answer.status == 200)
        assert place.record().ended == (place.record().token == "")
