"""When a certificate is to be shown again: another component, other firmware, a reboot, age;
and who is asked first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.certify.certificate import Certificate, CertificateManifest, Revoked, numbered
from healthcheck.certify.policyload import load_certificate_policy
from healthcheck.certify.requalify import (
    CertificateState,
    CertificateStatus,
    RequalifyReason,
    differences,
    due_at,
    queue,
    stand,
)
from healthcheck.config.rulesfolder import packaged
from healthcheck.model.hardware import Now
from inventory.errors import RulesError
from tests.healthcheck.certify.world import HARDWARE, NOW

POLICY = load_certificate_policy([packaged()])
DAY = 86400
ALL = frozenset({"gpu", "nic"})
HELD = numbered("n1", Certificate("standard", NOW, (), {}, {}, HARDWARE, "b1", "d"))


def seen(boot: str = "b1", whole: frozenset[str] = ALL, **changed: dict[str, str] | None) -> Now:
    parts = {name: part
             for name, part in {**HARDWARE, **{name.replace("_", " "): part
                                               for name, part in changed.items()}}.items() if part}
    return Now(parts, whole, boot, {})


def standing(
    now: Now | None, at: float = NOW + DAY, held: Certificate = HELD, **policy: str,
) -> CertificateStatus:
    return stand("n1", held, CertificateManifest("alpha", 1, NOW, {"n1": held}), now,
                 replace(POLICY, **policy), at)  # type: ignore[arg-type]


GPU, NIC = "gpu 0000:18:00.0", "nic 0000:1a:00.0"


def test_what_is_as_it_was_proven_stands() -> None:
    assert standing(seen()) == CertificateStatus(CertificateState.OK)
    assert standing(None) == CertificateStatus(CertificateState.OK)


@pytest.mark.parametrize(("name", "key"),
                         [(GPU, "serial"), (GPU, "uuid"), (NIC, "uuid"), ("board", "serial")])
def test_another_component_asks_for_the_standard_stage(name: str, key: str) -> None:
    found = standing(seen(**{name: {**HARDWARE[name], key: "another"}}))
    assert (found.kind, found.cause, found.asks) == (CertificateState.REQUALIFY, RequalifyReason.CHANGED,
                                                     "standard")
    assert f"{name} had {key} {HARDWARE[name][key]}, has another" in found.why


def test_another_machine_voids_the_certificate_whatever_the_policy_says_of_a_component() -> None:
    other = {name: {key: f"x{value}" for key, value in part.items()} for name, part in HARDWARE.items()}
    found = standing(Now(other, ALL, "b2", {}), component="none", rebooted="none", firmware="none")
    assert (found.kind, found.cause, found.asks) == (
        CertificateState.REVOKED, RequalifyReason.CHANGED, "standard")
    assert found.why.startswith("it is another machine than was proven: ")
    moved = {f"{name} at another place": part for name, part in HARDWARE.items()}
    assert standing(Now(moved, frozenset(), "b1", {})).kind is not CertificateState.REVOKED


def test_all_parts_of_one_kind_or_a_number_that_is_read_no_more_are_no_other_machine() -> None:
    eight = {f"gpu 0000:{n:02x}:00.0": {"serial": f"S{n}", "uuid": f"U{n}"} for n in range(8)}
    held = numbered("n1", replace(HELD, hardware={**HARDWARE, **eight}))
    others = {name: {"serial": f"T{name}", "uuid": f"V{name}"} for name in eight}
    assert standing(seen(**others), held=held).kind is CertificateState.REQUALIFY
    unread = {name: {"uuid": part["uuid"]} for name, part in eight.items()}
    known = {name: {key: value for key, value in part.items() if key != "serial"} or {"uuid": "none"}
             for name, part in HARDWARE.items()}
    assert standing(Now({**known, **unread}, frozenset(), "b1", {}), held=held).kind is not (
        CertificateState.REVOKED)


def test_other_firmware_asks_for_what_policy_says() -> None:
    other = seen(**{GPU: {**HARDWARE[GPU], "firmware": "97"}})
    assert (standing(other).cause, standing(other).asks) == (RequalifyReason.CHANGED, "standard")
    assert standing(other, firmware="quick").asks == "quick"
    assert standing(other, firmware="none").kind is CertificateState.OK


def test_a_component_that_is_gone_is_reported_only_where_all_of_its_kind_were_read() -> None:
    assert standing(seen(**{GPU: None})).why == f"another component than was proven: {GPU} was there"
    assert standing(seen(whole=frozenset(), **{GPU: None})).kind is CertificateState.OK
    assert standing(seen(**{"gpu 0000:99:00.0": {"serial": "7"}})).why.endswith(
        "gpu 0000:99:00.0 was not there")


def test_what_either_look_could_not_read_is_no_change() -> None:
    assert differences(HARDWARE, {GPU: {"firmware": HARDWARE[GPU]["firmware"]}}) == []
    assert differences({}, HARDWARE, whole=ALL) == []


def test_a_reboot_asks_for_the_quick_stage_until_something_was_shown_in_it() -> None:
    found = standing(seen(boot="b2"))
    assert (found.kind, found.cause, found.asks) == (CertificateState.REQUALIFY, RequalifyReason.REBOOTED,
                                                     "quick")
    assert standing(seen(boot="b2"),
                    held=replace(HELD, boot="b2", renewed=NOW + 5)).kind is CertificateState.OK
    assert standing(seen(boot="b2"), rebooted="none").kind is CertificateState.OK
    for known, read in (("b1", ""), ("", "b2"), ("", "")):      # a boot that no one read is not another one
        assert standing(seen(boot=read), held=replace(HELD, boot=known)).kind is CertificateState.OK
    # the graver of both
    assert standing(
        seen(boot="b2", **{GPU: {**HARDWARE[GPU], "serial": "9"}})).cause is RequalifyReason.CHANGED


def test_age_warns_and_asks_on_a_day_of_the_nodes_own() -> None:
    days = [(due_at(f"n{number}", HELD, POLICY) - NOW) / DAY for number in range(300)]
    assert 20 <= min(days) < 21.5 and 28.5 < max(days) <= 30
    assert len({round(day) for day in days}) == 11
    assert standing(seen(), NOW + 19.9 * DAY).kind is CertificateState.OK
    found = standing(seen(), NOW + 45 * DAY)
    assert (found.kind, found.cause, found.asks) == (CertificateState.REQUALIFY, RequalifyReason.AGE, "quick")
    assert found.why.endswith("45 days ago")
    assert standing(seen(), NOW + 45 * DAY, replace(HELD, renewed=NOW + 40 * DAY)).kind is CertificateState.OK
    assert standing(seen(), NOW + 45 * DAY, age="none").kind is CertificateState.OK


def test_a_revoked_one_is_revoked_whatever_else_holds() -> None:
    manifest = CertificateManifest("alpha", 1, NOW, {"n1": HELD},
                                   (Revoked(HELD.id, "n1", NOW, "a leak\x1b[2J", "root"),))
    found = stand("n1", HELD, manifest, seen(boot="b2"), POLICY, NOW)
    assert found.kind is CertificateState.REVOKED and found.asks is None
    assert "a leak\\x1b[2J (root" in found.why


def test_the_gravest_and_the_longest_unproven_are_asked_first_and_the_old_ones_a_few_at_a_time() -> None:
    stands = {f"old{number}": (replace(HELD, at=NOW + number),
                               CertificateStatus(CertificateState.REQUALIFY, RequalifyReason.AGE, "quick",
                                                 "old")) for number in range(9)}
    stands["boot"] = (HELD, CertificateStatus(CertificateState.REQUALIFY, RequalifyReason.REBOOTED, "quick",
                                              "booted"))
    stands["part"] = (HELD, CertificateStatus(CertificateState.REQUALIFY, RequalifyReason.CHANGED, "standard",
                                              "other"))
    stands["well"] = (HELD, CertificateStatus(CertificateState.OK))
    found = queue(stands, None, POLICY)
    assert [one.node for one in found] == ["part", "boot", "old0", "old1", "old2", "old3"]
    assert [one.node for one in queue(stands, {"old7", "boot", "well"}, POLICY)] == ["boot", "old7"]


@pytest.mark.parametrize(("text", "said"), [
    ("age: {days: 0}", "1:13: age: days: expected a number from 1 to 3660, got 0"),
    ("age: {jitter_days: 30}", "1:20: age: jitter_days: expected less than days, which is 30"),
    ("rebooted: {stage: long}",
     "1:19: rebooted: stage: expected one of quick, standard, soak, none, got 'long'"),
    ("reboot: {stage: quick}", "1:1: unknown key 'reboot'; did you mean 'rebooted'?"),
    ("changed: {component: quick, nic: quick}", "1:29: changed: unknown key 'nic'"),
    ("age: 30", "1:6: age: expected a map of days, jitter_days, at_once, stage; got 30"),
    ("- 1", "1:1: expected a map of age, rebooted, changed"),
])
def test_a_mistake_in_the_policy_is_one_line_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "certificate.yaml").write_text(f"{text}\n")
    with pytest.raises(RulesError) as caught:
        load_certificate_policy([packaged(), tmp_path])
    assert str(caught.value).startswith(f"{tmp_path}/certificate.yaml:{said}")


def test_a_site_lays_its_own_over_the_packaged_policy_key_by_key(tmp_path: Path) -> None:
    (tmp_path / "certificate.yaml").write_text("rebooted: {stage: none}\n")
    assert load_certificate_policy([packaged(), tmp_path]) == replace(POLICY, rebooted="none")
    with pytest.raises(RulesError, match="age: days is missing"):
        load_certificate_policy([tmp_path])
