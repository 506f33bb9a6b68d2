"""known_hosts files are read as OpenSSH reads them, and trust no one by mistake."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.hostkeys import KnownHost, KnownHosts, RevokedKeys, fingerprint, key_type
from tests.testbed.require import require
from tests.testbed.sshd import hashed


def blob(type_: str = "ssh-ed25519", seed: bytes = b"\0" * 32) -> bytes:
    return len(type_).to_bytes(4, "big") + type_.encode() + len(seed).to_bytes(4, "big") + seed


def text(key: bytes) -> str:
    return f"{key_type(key)} {base64.b64encode(key).decode()}"


A, B, C, RSA = blob(seed=b"a" * 32), blob(seed=b"b" * 32), blob(seed=b"c" * 32), blob("ssh-rsa", b"r" * 64)


def known(
    folder: Path, content: str, host: str = "gpu1", port: int = 22, alias: str | None = None,
) -> KnownHost:
    file = folder / "known_hosts"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    return KnownHosts([str(file)]).about(host, port, alias)


def blobs(found: KnownHost) -> list[bytes]:
    return [key.blob for key in found.keys]


@pytest.mark.parametrize(("line", "host", "port", "found"), [
    (f"gpu1 {text(A)}", "gpu1", 22, True),
    (f"gpu1 {text(A)} a comment of several words", "GPU1", 22, True),
    (f"GPU1 {text(A)}", "gpu1", 22, True),
    (f"other,gpu1,10.0.0.1 {text(A)}", "10.0.0.1", 22, True),
    (f"gpu1 {text(A)}", "gpu11", 22, False),
    (f"gpu1 {text(A)}", "gpu1", 2222, False),
    (f"[gpu1]:2222 {text(A)}", "gpu1", 2222, True),
    (f"[gpu1]:2222 {text(A)}", "gpu1", 22, False),
    (f"[gpu1]:2222 {text(A)}", "gpu1", 2223, False),
    (f"gpu* {text(A)}", "gpu17", 22, True),
    (f"gpu? {text(A)}", "gpu17", 22, False),
    (f"gpu*,!gpu13 {text(A)}", "gpu13", 22, False),
    (f"!gpu13,gpu* {text(A)}", "gpu12", 22, True),
    (f"!gpu13 {text(A)}", "gpu12", 22, False),
    (f"[gpu*]:2222 {text(A)}", "gpu7", 2222, True),
    (f"[gpu*]:2222 {text(A)}", "g", 22, False),
    (f"[fe80::1]:2222 {text(A)}", "fe80::1", 2222, True),
    (f"   \tgpu1\t{text(A)}\r", "gpu1", 22, True),
    (f"# gpu1 {text(A)}", "gpu1", 22, False),
    (f"gpu1{text(A)}", "gpu1", 22, False),
])
def test_a_line_matches_as_in_openssh(tmp_path: Path, line: str, host: str, port: int, found: bool) -> None:
    assert (blobs(known(tmp_path, line + "\n", host, port)) == [A]) is found


def test_hashed_lines_are_found_by_name_and_by_name_with_port(tmp_path: Path) -> None:
    lines = f"{hashed('gpu1')} {text(A)}\n{hashed('[gpu1]:2222')} {text(B)}\n{hashed('gpu1')} {text(RSA)}\n"
    assert blobs(known(tmp_path, lines)) == [A, RSA]
    assert blobs(known(tmp_path, lines, "gpu1", 2222)) == [B]
    assert blobs(known(tmp_path, lines, "gpu2")) == []


def test_asking_again_and_in_any_order_gives_the_same(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text("".join(f"{hashed(f'n{number}')} {text(blob(seed=bytes([number]) * 32))}\n"
                            for number in range(20)))
    files = KnownHosts([str(file)])
    for _ in range(2):
        for number in (7, 3, 19, 7):
            assert blobs(files.about(f"n{number}", 22)) == [blob(seed=bytes([number]) * 32)]


def test_keys_under_the_bare_name_are_told_apart_from_those_under_the_port(tmp_path: Path) -> None:
    found = known(tmp_path, f"gpu1 {text(A)}\n[gpu1]:2222 {text(B)}\n", "gpu1", 2222)
    assert [key.blob for key in found.keys] == [B]
    assert [key.blob for key in found.portless] == [A]
    assert found.types == ("ssh-ed25519",)


def test_an_alias_is_looked_up_instead_and_without_a_port(tmp_path: Path) -> None:
    found = known(tmp_path, f"[gpu1]:2222 {text(A)}\ngpu1 {text(A)}\nshared {text(B)}\n", "gpu1", 2222,
                  "Shared")
    assert (blobs(found), found.portless, found.name) == ([B], (), "shared")


@pytest.mark.parametrize("name", ["gpu1", "[gpu1]:2222", "gpu*"])
def test_a_key_that_is_revoked_under_the_bare_name_is_revoked_at_another_port_too(
    tmp_path: Path, name: str,
) -> None:
    found = known(tmp_path, f"@revoked {name} {text(A)}\n[gpu1]:2222 {text(A)}\n", "gpu1", 2222)
    assert [key.blob for key in found.revoked] == [A]


def test_revoked_keys_and_authorities_are_never_trusted(tmp_path: Path) -> None:
    found = known(tmp_path, f"@revoked * {text(A)}\n@cert-authority gpu* {text(B)}\ngpu1 {text(C)}\n@new "
                            f"gpu1 {text(RSA)}\n")
    assert blobs(found) == [C]
    assert [key.blob for key in found.revoked] == [A]
    assert [key.blob for key in found.authorities] == [B]
    assert found.authorities[0].where.endswith("known_hosts:2")


def test_a_bad_line_is_set_aside_with_its_reason_and_the_others_hold(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    lines = ["gpu1", "gpu1 ssh-ed25519", "gpu1 ssh-ed25519 !!!!", f"gpu1 ssh-rsa {text(A).split()[1]}",
             "gpu1 1024 35 12345", "|1|x ssh-ed25519 AAAA", f"|2|eA==|eA== {text(A)}", f"|1|e|eA== {text(A)}",
             "gpu1 ssh-ed25519 AAAA", f"gpu1 {text(A)}"]
    file.write_text("\n".join(lines))
    files = KnownHosts([str(file)])
    assert blobs(files.about("gpu1", 22)) == [A]
    assert [where.rpartition(":")[2] for where, _ in files.ignored] == [
        str(number) for number in range(1, 10)]


def test_a_missing_file_is_empty_and_an_unreadable_one_is_named(tmp_path: Path) -> None:
    files = KnownHosts([str(tmp_path / "none"), str(tmp_path)])
    assert files.about("gpu1", 22) == KnownHost("gpu1")
    assert [where for where, _ in files.ignored] == [str(tmp_path)]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert KnownHosts([str(tmp_path / "pipe")]).ignored == [
        (str(tmp_path / "pipe"), "a pipe, which may never be written to")]
    assert "is a pipe" in str(RevokedKeys(str(tmp_path / "pipe")).problem)


def test_ten_thousand_entries_are_read_and_asked_quickly(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text("".join(f"n{number},10.0.{number // 256}.{number % 256} {text(A)}\n"
                            for number in range(10_000)))
    began = time.process_time()
    files = KnownHosts([str(file)])
    assert all(files.about(f"n{number}", 22).keys for number in range(0, 10_000, 10))
    assert time.process_time() - began < 1


@given(st.lists(st.binary(max_size=80) | st.sampled_from([b"\n", b"gpu1 ", b"@revoked ", b"@cert-authority ",
                                                          b"|1|", text(A).encode(), b" ssh-rsa ", b"*", b"!",
                                                          b"[", b"\r\n"]), max_size=30))
def test_any_bytes_are_read_without_an_error_and_trust_only_whole_keys(
        tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz_known_hosts"
    file.write_bytes(b"".join(parts))
    files = KnownHosts([str(file)])
    for name, port in (("gpu1", 22), ("gpu1", 2222), ("*", 22), ("", 22)):
        found = files.about(name, port)
        assert all(key_type(key.blob) == key.type
                   for key in (*found.keys, *found.revoked, *found.authorities, *found.portless))


def test_ssh_keygen_agrees_on_fingerprints_and_on_hashed_files(tmp_path: Path) -> None:
    require(shutil.which("ssh-keygen"), "no ssh-keygen on this machine: apt-get install -y openssh-client")
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    public = " ".join(Path(f"{key}.pub").read_text().split()[:2])
    said = subprocess.run(["ssh-keygen", "-lf", f"{key}.pub"], check=True, capture_output=True,
                          text=True).stdout
    assert fingerprint(base64.b64decode(public.split()[1])) == said.split()[1]
    file = tmp_path / "known_hosts"
    file.write_text(f"gpu1,gpu2 {public}\n[gpu3]:2222 {public}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)
    assert "gpu" not in file.read_text()
    files = KnownHosts([str(file)])
    assert files.about("gpu2", 22).keys
    assert files.about("gpu3", 2222).keys
    assert not files.about("gpu3", 22).keys


def test_an_unreadable_file_by_permission_is_named(tmp_path: Path) -> None:
    if os.getuid() == 0:
        pytest.skip("root may read everything")
    file = tmp_path / "known_hosts"
    file.write_text(f"gpu1 {text(A)}\n")
    file.chmod(0)
    assert KnownHosts([str(file)]).ignored == [(str(file), "Permission denied")]
