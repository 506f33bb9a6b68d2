"""The head's keys: made private, never shown, taken over one by another,
and refused where others could have used them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from healthcheck.certify.keys import KeyRing, load_keys, retire_key, signer_of, use_key
from healthcheck.certify.manifest import issue, load_manifest, sign_again
from healthcheck.certify.sshsig import trusted_keys
from inventory.errors import CertificateError
from tests.healthcheck.certify.world import HARDWARE, NOW, Head, dying, head, passed


@pytest.fixture
def made(tmp_path: Path) -> Head:
    return head(tmp_path / "state")


def test_the_first_key_signs_and_no_one_else_may_read_it(made: Head) -> None:
    keys = load_keys(made.state)
    assert (keys.cluster, keys.signing, [key.id for key in keys.trusted]) == ("alpha", "key1", ["key1"])
    assert stat.S_IMODE((made.state / "keys").stat().st_mode) == 0o700
    assert stat.S_IMODE((made.state / "keys/key1.key").stat().st_mode) == 0o600
    assert b"OPENSSH PRIVATE KEY" in (made.state / "keys/key1.key").read_bytes()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_key_that_others_may_read_signs_nothing(made: Head, mode: int) -> None:
    (made.state / "keys/key1.key").chmod(mode)
    with pytest.raises(CertificateError, match=rf"key1\.key is readable by others \(mode 0{mode:o}\).*muster "
                                               r"certificate key new"):
        made.publish()
    with pytest.raises(CertificateError, match="is readable by others"):
        made.certify("n1")
    assert not (made.state / "gate/gate.json").exists()


def test_a_new_key_takes_over_and_the_old_one_goes(made: Head) -> None:
    made.certify("n1")
    assert made.key() == "key2"
    assert load_keys(made.state).signing == "key1"
    with pytest.raises(CertificateError, match="key1 is the signing key"):
        retire_key(made.state, "key1", NOW)
    use_key(made.state, "key2")
    sign_again(made.state, NOW + 5)
    retire_key(made.state, "key1", NOW + 6)
    assert [key.id for key in load_keys(made.state).trusted] == ["key2"]
    assert not (made.state / "keys/key1.key").exists()
    # What the old key signed has been signed anew, and so the certificates still hold.
    assert list(load_manifest(made.state).nodes) == ["n1"]
    with pytest.raises(CertificateError, match="key1 is retired"):
        use_key(made.state, "key1")


def test_a_manifest_that_only_a_retired_key_has_signed_does_not_hold(made: Head) -> None:
    made.certify("n1")
    made.key()
    use_key(made.state, "key2")
    retire_key(made.state, "key1", NOW)
    with pytest.raises(CertificateError, match="not signed by a key trusted"):
        load_manifest(made.state)


def test_a_key_that_is_another_or_none_is_reported_in_one_line(made: Head, tmp_path: Path) -> None:
    path = made.state / "keys/key1.key"
    other = head(tmp_path / "other").state / "keys/key1.key"
    for data, match in ((other.read_bytes(), "not the private key of key1"),
                        (b"nothing", "not a private key"), (b"", "not a private key")):
        path.write_bytes(data)
        with pytest.raises(CertificateError, match=match):
            signer_of(made.state, load_keys(made.state))
    path.unlink()
    with pytest.raises(CertificateError, match="No such file"):
        made.publish()
    with pytest.raises(CertificateError, match="there is no key yet; muster certificate key new"):
        load_keys(tmp_path / "nowhere")
    with pytest.raises(CertificateError, match="'key9': no such key; there are key1"):
        use_key(made.state, "key9")


def test_a_damaged_list_of_keys_is_one_line_and_never_none_at_all(made: Head) -> None:
    path = made.state / "keys/keys.json"
    whole = path.read_bytes()
    for at in range(0, len(whole) - 2, 7):
        path.write_bytes(whole[:at])
        with pytest.raises(CertificateError):
            load_keys(made.state)
        with pytest.raises(CertificateError):       # a new one in its place would be trusted by no one
            made.key()


def test_killed_anywhere_making_a_key_leaves_the_keys_that_there_were_or_one_more(made: Head) -> None:
    for after in range(200):
        before = load_keys(made.state)
        with dying(after) as dead:
            made.key()
        keys: KeyRing = load_keys(made.state)
        assert len(keys.keys) - len(before.keys) in (0, 1)
        assert signer_of(made.state, keys).public == keys.named("key1").public
        if not dead():
            break
    else:
        raise AssertionError("it never came to an end")
    assert len(trusted_keys(made.trusted(), "muster-gate")) == len(keys.trusted)
    issue(made.state, [passed()], {"n1": HARDWARE}, NOW)
