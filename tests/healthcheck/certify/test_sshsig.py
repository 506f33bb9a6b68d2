"""OpenSSH's signature format, against the real ssh-keygen in both directions,
and against everything that is not a signature."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from healthcheck.certify.keys import load_keys, new_key, signer_of
from healthcheck.certify.sshsig import BadSignature, PublicKey, armored, public_key, trusted_keys, verified
from tests.healthcheck.certify.world import NOW, Head, head
from tests.testbed.require import require
from tests.tries import tries

KEYGEN = Path("/usr/bin/ssh-keygen")
DATA = b'{"nodes":{}}\n'


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Head:
    return head(tmp_path_factory.mktemp("head"))


def signed(of: Head, data: bytes = DATA, namespace: str = "muster-gate") -> bytes:
    return signer_of(of.state, load_keys(of.state)).signed(data, namespace)


def keygen(*words: object, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    require(KEYGEN.exists(), "no ssh-keygen on this machine: apt-get install -y openssh-client")
    return subprocess.run([KEYGEN, *map(str, words)], input=data, capture_output=True, check=False,
                          timeout=30)


def test_ssh_keygen_verifies_what_we_sign_and_refuses_what_was_altered(signing: Head, tmp_path: Path) -> None:
    (tmp_path / "allowed").write_bytes(signing.trusted())
    (tmp_path / "sig").write_bytes(signed(signing))
    words = ("-Y", "verify", "-f", tmp_path / "allowed", "-I", "muster", "-s", tmp_path / "sig", "-n")
    good = keygen(*words, "muster-gate", data=DATA)
    assert good.returncode == 0, good.stderr
    assert load_keys(signing.state).keys[0].public.fingerprint.encode() in good.stdout
    assert keygen(*words, "muster-gate", data=DATA + b"\n").returncode != 0
    assert keygen(*words, "muster-certificate", data=DATA).returncode != 0


def test_we_verify_what_ssh_keygen_signs_with_our_private_key(signing: Head, tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_bytes(DATA)
    done = keygen("-Y", "sign", "-f", signing.state / "keys/key1.key", "-n", "muster-gate",
                  tmp_path / "gate.json")
    assert done.returncode == 0, done.stderr
    keys = trusted_keys(signing.trusted(), "muster-gate")
    assert (verified(DATA, (tmp_path / "gate.json.sig").read_bytes(), "muster-gate", keys).fingerprint
            == keys[0].fingerprint)
    # Both wrap alike, so that the same key makes the same file of the same data.
    assert (tmp_path / "gate.json.sig").read_bytes() == signed(signing)


def test_we_verify_a_key_and_a_signature_that_are_ssh_keygens_alone(tmp_path: Path) -> None:
    assert keygen("-q", "-t", "ed25519", "-N", "", "-C", "somebody's own", "-f",
                  tmp_path / "key").returncode == 0
    (tmp_path / "data").write_bytes(DATA)
    assert keygen("-Y", "sign", "-f", tmp_path / "key", "-n", "muster-gate",
                  tmp_path / "data").returncode == 0
    key = public_key((tmp_path / "key.pub").read_text())
    assert key.comment == "somebody's own"
    assert key.fingerprint.encode() in keygen("-lf", tmp_path / "key.pub").stdout
    assert verified(DATA, (tmp_path / "data.sig").read_bytes(), "muster-gate", [key]) == key


def test_a_signature_of_another_key_algorithm_is_refused(tmp_path: Path) -> None:
    assert keygen("-q", "-t", "ecdsa", "-N", "", "-f", tmp_path / "key").returncode == 0
    (tmp_path / "data").write_bytes(DATA)
    assert keygen("-Y", "sign", "-f", tmp_path / "key", "-n", "muster-gate",
                  tmp_path / "data").returncode == 0
    with pytest.raises(BadSignature, match="not an ed25519 signature"):
        verified(DATA, (tmp_path / "data.sig").read_bytes(), "muster-gate", [PublicKey(bytes(32))])


def test_each_way_in_which_a_signature_does_not_hold_is_reported(signing: Head, tmp_path: Path) -> None:
    keys = trusted_keys(signing.trusted(), "muster-gate")
    foreign = head(tmp_path / "other")
    for data, signature, match in (
            (DATA + b" ", signed(signing), "altered or forged"),
            (DATA, signed(foreign), "not signed by a key trusted"),
            (DATA, signed(signing, namespace="muster-certificate"), "another purpose"),
            (DATA, b"", "incomplete"), (DATA, signed(signing).replace(b"-----BEGIN", b"-----BEGIN "),
                                       "incomplete"),
            (DATA, armored(keys[0], "muster-gate", b"short"), "altered")):
        with pytest.raises(BadSignature, match=match):
            verified(data, signature, "muster-gate", keys)
    with pytest.raises(BadSignature, match="not signed by a key trusted"):
        verified(DATA, signed(signing), "muster-gate", [])


def test_a_signature_cut_anywhere_or_with_any_bit_flipped_never_holds_for_anything_else(
    signing: Head,
) -> None:
    keys, whole = trusted_keys(signing.trusted(), "muster-gate"), signed(signing)
    for at in range(len(whole)):
        with pytest.raises(BadSignature):
            verified(DATA, whole[:at], "muster-gate", keys)
    blob = bytearray(base64.b64decode(b"".join(whole.split(b"\n")[1:-2])))
    for at in range(len(blob)):
        blob[at] ^= 1 << at % 8
        text = b"-----BEGIN SSH SIGNATURE-----\n" + base64.b64encode(
            blob) + b"\n-----END SSH SIGNATURE-----\n"
        with pytest.raises(BadSignature):
            verified(DATA, text, "muster-gate", keys)
        blob[at] ^= 1 << at % 8


@given(st.binary(max_size=300), st.booleans())
@settings(max_examples=tries(60))
def test_no_bytes_are_a_signature_by_chance_and_none_is_a_traceback(noise: bytes, wrapped: bool) -> None:
    text = b"-----BEGIN SSH SIGNATURE-----\n" + base64.b64encode(
        b"SSHSIG\0\0\0\1" + noise) + b"\n-----END SSH SIGNATURE-----\n"
    with pytest.raises(BadSignature):
        verified(DATA, text if wrapped else noise, "muster-gate", [PublicKey(bytes(32))])


LINE = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOw36bRb5BRkBAUrW7R/Yw8dgQL7ClpsmuwOjaSGueva"


@pytest.mark.parametrize(("line", "count"), [
    (f"muster {LINE}", 1), (f"muster {LINE} a comment", 1), (f'muster namespaces="muster-gate" {LINE}', 1),
    (f'muster namespaces="a,muster-gate" {LINE}\r', 1), (f"other,muster {LINE}", 1),
    # Of whom, for what, or how long is not what we were asked, or not what we understand: no one is trusted
    # for it.
    (f"other {LINE}", 0), (f'muster namespaces="muster-certificate" {LINE}', 0),
    (f'muster namespaces="muster-gate {LINE}', 0),
    (f'muster namespaces="muster-gate",valid-before="20200101" {LINE}', 0),
    (f"muster cert-authority {LINE}", 0), (f"# muster {LINE}", 0),
    ("muster ssh-ed25519 AAAA", 0), ("muster ssh-rsa AAAAB3NzaC1yc2E=", 0), ("muster", 0), ("", 0),
])
def test_a_line_trusts_a_key_for_us_and_this_purpose_or_none(line: str, count: int) -> None:
    assert len(trusted_keys(f"{line}\n".encode(), "muster-gate")) == count


@given(st.binary(max_size=400))
@example(b'muster namespaces="')
def test_any_bytes_at_all_are_no_keys(data: bytes) -> None:
    assert trusted_keys(data, "muster-gate") == [] or b"ssh-ed25519" in data


def test_one_wrong_line_does_not_take_the_others_away(signing: Head, tmp_path: Path) -> None:
    new_key(tmp_path, "beta", "test", NOW)
    lines = b"what is this\n" + signing.trusted() + b"\xff\xfe\n" + Head(tmp_path).trusted()
    assert len(trusted_keys(lines, "muster-gate")) == 2
