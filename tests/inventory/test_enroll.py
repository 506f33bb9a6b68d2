"""Which keys are pinned, and which hosts refused, by what was shown, known and expected alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from inventory.enroll import Decision, EnrolmentOutcome, decide, shared
from inventory.expect import Expected
from inventory.hostkeys import KnownHosts, RevokedKeys, fingerprint, key_type
from inventory.model import Via
from tests.inventory.test_pins import RSA, A, B, blob, text
from tests.testbed.sshd import hashed

RSA2, ECDSA = blob(b"s" * 64, "ssh-rsa"), blob(b"e" * 64, "ecdsa-sha2-nistp256")


def decision(
    content: str, *keys: bytes, port: int = 22, ours: tuple[str, ...] = ("kh",), **given: object,
) -> Decision:
    known = KnownHosts.parse(content.encode(), "kh").about("gpu1", port)
    return decide(keys, known, ours, **given)  # type: ignore[arg-type]


def named(*keys: bytes, typed: bool = True) -> list[Expected]:
    return [Expected(fingerprint(key), key_type(key) if typed else None, "list:1") for key in keys]


def test_an_unknown_host_is_pinned_with_all_its_keys_once_somebody_approves() -> None:
    assert decision("", A, RSA) == Decision(EnrolmentOutcome.PIN, (A, RSA))
    assert decision(f"gpu2 {text(A)}\n", A).outcome is EnrolmentOutcome.PIN


@pytest.mark.parametrize("line", [f"gpu1 {text(A)}", f"gpu* {text(A)}", f"{hashed('gpu1')} {text(A)}",
                                  f"gpu1 {text(B)}\ngpu1 {text(A)}"])
def test_a_host_of_which_all_keys_are_known_needs_nothing(line: str) -> None:
    assert decision(f"{line}\n", A) == Decision(EnrolmentOutcome.KNOWN)


def test_a_key_known_under_the_bare_name_is_known_on_another_port() -> None:
    assert decision(f"gpu1 {text(A)}\n", A, port=2222).outcome is EnrolmentOutcome.KNOWN
    assert decision(f"gpu1 {text(B)}\n", A, port=2222).outcome is EnrolmentOutcome.PIN


def test_further_keys_are_offered_only_by_a_host_that_has_proven_a_known_one_and_are_not_vouched_for_by_it(
) -> None:
    assert decision(f"gpu1 {text(A)}\n", A, RSA) == Decision(EnrolmentOutcome.ADD, (RSA,))
    found = decision(f"gpu1 {text(A)}\n", RSA)
    assert found.outcome is EnrolmentOutcome.CHANGED
    assert "kh:1" in found.reason
    assert fingerprint(A) in found.reason


def test_another_key_of_a_known_type_is_refused_with_both_fingerprints_even_beside_one_that_is_known(
) -> None:
    for keys in ((B,), (B, RSA)):
        found = decision(f"# x\ngpu1 {text(A)}\ngpu1 {text(RSA)}\n", *keys)
        assert found.outcome is EnrolmentOutcome.CHANGED
        assert all(part in found.reason for part in ("kh:2", fingerprint(A), fingerprint(B)))
        assert found.add == ()


def test_only_where_it_is_asked_for_a_changed_key_replaces_all_that_the_host_no_longer_shows() -> None:
    content = f"gpu1 {text(A)}\ngpu1 {text(RSA2)}\ngpu1 {text(ECDSA)}\n"
    found = decision(content, B, ECDSA, replace=True)
    assert found.outcome is EnrolmentOutcome.REPLACE
    assert found.add == (B,)
    assert [key.blob for key in found.drop] == [A, RSA2]
    assert decision(content, A, RSA2, ECDSA, replace=True).outcome is EnrolmentOutcome.KNOWN


def test_an_old_key_in_a_file_that_is_not_written_is_named_and_the_new_one_pinned() -> None:
    found = decision(f"gpu1 {text(A)}\n", B, replace=True, ours=("other",))
    assert (found.outcome, found.add, found.drop) == (EnrolmentOutcome.REPLACE, (B,), ())
    assert [key.where for key in found.elsewhere] == ["kh:1"]


def test_an_old_key_is_removed_though_the_new_one_is_known_already_and_nothing_is_asked_for_that() -> None:
    content = f"gpu1 {text(A)}\ngpu1 {text(B)}\n"
    assert decision(content, B) == Decision(EnrolmentOutcome.KNOWN)
    found = decision(content, B, replace=True)
    assert (found.outcome, found.add, [key.blob for key in found.drop]) == (
        EnrolmentOutcome.REPLACE, (), [A])
    assert found.vouched
    found = decision(content, B, replace=True, ours=())
    assert (found.outcome, [key.where for key in found.elsewhere]) == (EnrolmentOutcome.KNOWN, ["kh:1"])


@pytest.mark.parametrize("replace", [False, True])
def test_a_revoked_key_is_refused_whatever_else_is_said(tmp_path: Path, replace: bool) -> None:
    content = f"gpu1 {text(A)}\n@revoked * {text(RSA)}\n"
    for expected in (None, named(A, RSA)):
        found = decision(content, A, RSA, expected=expected, replace=replace)
        assert found.outcome is EnrolmentOutcome.REVOKED
        assert "kh:2" in found.reason
    file = tmp_path / "revoked"
    file.write_text(f"{text(A)}\n")
    assert decision("", A, revoked=RevokedKeys(str(file))).outcome is EnrolmentOutcome.REVOKED
    assert decision("", B, revoked=RevokedKeys(str(file))).outcome is EnrolmentOutcome.PIN
    assert decision("", B, revoked=RevokedKeys(str(tmp_path / "none"))).outcome is EnrolmentOutcome.REVOKED


# authorities

def test_a_host_with_a_certificate_and_a_known_authority_has_nothing_to_pin_where_openssh_checks_it() -> None:
    content = f"@cert-authority * {text(B)}\n"
    assert decision(content, A, certified=True, via=Via.OPENSSH).outcome is EnrolmentOutcome.AUTHORITY
    for given in ({"certified": True, "via": Via.PARAMIKO}, {"certified": False, "via": Via.OPENSSH}):
        found = decision(content, A, **given)
        assert found.outcome is EnrolmentOutcome.PIN
        assert "authority in kh:1" in found.reason


# expectations

def test_expected_keys_are_pinned_unasked_and_those_of_types_that_no_one_named_are_left_out() -> None:
    assert decision("", A, RSA, expected=named(A, RSA)) == Decision(
        EnrolmentOutcome.PIN, (A, RSA), vouched=True)
    assert decision("", A, RSA, expected=named(A)) == Decision(EnrolmentOutcome.PIN, (A,), left_out=(RSA,),
                                                               vouched=True)
    assert decision("", A, RSA, expected=named(RSA, typed=False)) == Decision(
        EnrolmentOutcome.PIN, (RSA,), left_out=(A,), vouched=True)


@pytest.mark.parametrize(("keys", "expected"), [
    ((A,), named(B)), ((A,), named(B, typed=False)), ((A, RSA), named(B, RSA)), ((A, RSA), named(A, RSA2)),
    ((A,), named(RSA)),
])
@pytest.mark.parametrize("content", ["", f"gpu1 {text(A)}\n"])
def test_one_key_that_is_not_as_expected_refuses_the_host_even_one_that_is_known(
        keys: tuple[bytes, ...], expected: list[Expected], content: str) -> None:
    found = decision(content, *keys, expected=expected)
    assert found.outcome is EnrolmentOutcome.MISMATCH
    assert "list:1" in found.reason


def test_a_host_of_which_the_list_says_nothing_is_not_pinned() -> None:
    assert decision("", A, expected=[]).outcome is EnrolmentOutcome.UNLISTED
    assert decision(f"gpu1 {text(A)}\n", A, expected=[]).outcome is EnrolmentOutcome.KNOWN
    assert decision(f"gpu1 {text(A)}\n", A, RSA, expected=[]) == Decision(
        EnrolmentOutcome.KNOWN, left_out=(RSA,))


def test_a_changed_key_is_replaced_only_when_it_is_asked_for_and_expected() -> None:
    content = f"gpu1 {text(A)}\n"
    assert decision(content, B, expected=named(B)).outcome is EnrolmentOutcome.CHANGED
    assert decision(content, B, expected=named(A), replace=True).outcome is EnrolmentOutcome.MISMATCH
    assert decision(content, B, expected=[], replace=True).outcome is EnrolmentOutcome.UNLISTED
    assert decision(f"{content}gpu1 {text(RSA2)}\n", A, RSA, expected=named(A),
                    replace=True).outcome is EnrolmentOutcome.UNLISTED
    found = decision(content, B, expected=named(B), replace=True)
    assert (found.outcome, found.add, found.vouched) == (EnrolmentOutcome.REPLACE, (B,), True)


@pytest.mark.parametrize("outcome", EnrolmentOutcome)
def test_no_outcome_both_writes_and_refuses(outcome: EnrolmentOutcome) -> None:
    assert not (outcome.writes and outcome.refused)


# clones

def test_hosts_that_show_one_key_are_named_together_and_two_names_of_one_host_are_not() -> None:
    assert shared([("n1", "gpu1", (A, RSA)), ("n2", "gpu2", (A, B)), ("n3", "gpu1", (A,))]) == {
        A: ("n1", "n2")}
    assert shared([("n1", "gpu1", (A,)), ("n2", "gpu1", (A,))]) == {}
