"""What nodes are expected to show is read from every form that people have it in, and from nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.errors import ConfigError, MusterError
from inventory.expect import console, read_expected
from inventory.hostkeys import fingerprint
from inventory.model import Node
from inventory.sshconfig import SshConfig
from inventory.sshtarget import target_for
from tests.inventory.test_pins import RSA, A, B, text
from tests.testbed.sshd import hashed, make_key, public

NODES = ("gpu1", "gpu2")


def expected(
    path: Path, name: str = "gpu1", nodes: tuple[str, ...] = NODES, **node: object,
) -> list[tuple[str, str | None]]:
    """(fingerprint, type) of what is expected of a node."""
    target = target_for(Node(name, **node), SshConfig.parse(""))  # type: ignore[arg-type]
    return [(each.fingerprint, each.type) for each in read_expected(path, nodes).about(name, target)]


def listed(folder: Path, content: str, name: str = "list") -> Path:
    file = folder / name
    file.write_text(content)
    return file


ED_A = (fingerprint(A), "ssh-ed25519")


@pytest.mark.parametrize("line", [
    f"gpu1 {text(A)}", f"GPU1,10.0.0.1 {text(A)} comment", f"{hashed('gpu1')} {text(A)}",
    f"{text(A)} root@gpu1", f"256 {fingerprint(A)} root@gpu1 (ED25519)",
    f"256 {fingerprint(A)} gpu1 (ED25519)", f"256 {fingerprint(A)} gpu1,10.0.0.1 (ED25519)",
    f"  256 {fingerprint(A)} gpu1 (ED25519)\r",
])
def test_a_line_about_a_node_is_found_for_it_and_not_for_another(tmp_path: Path, line: str) -> None:
    file = listed(tmp_path, f"# comment\n\n{line}\n")
    assert expected(file) == [ED_A]
    assert expected(file, "gpu2") == []


def test_a_name_and_a_fingerprint_say_no_type(tmp_path: Path) -> None:
    assert expected(listed(tmp_path, f"gpu1 {fingerprint(A)}\ngpu2 {fingerprint(B)}=\n")) == [
        (fingerprint(A), None)]


@pytest.mark.parametrize("line", [f"gpu1 {fingerprint(A)}", f"gpu1 {text(A)}"])
def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path, line: str) -> None:
    assert [each for each, _ in expected(listed(tmp_path, f"\ufeff{line}\r\n"))] == [fingerprint(A)]


def test_a_node_is_found_by_its_address_and_port(tmp_path: Path) -> None:
    assert expected(listed(tmp_path, f"[10.0.0.1]:2222 {text(A)}\n"), address="10.0.0.1", port=2222) == [ED_A]
    assert expected(listed(tmp_path, f"10.0.0.1 {fingerprint(A)}\n"), address="10.0.0.1",
                    port=2222) == [(fingerprint(A), None)]


def test_a_revoked_key_of_the_list_is_not_expected(tmp_path: Path) -> None:
    assert expected(listed(tmp_path, f"gpu1 {text(A)}\n@revoked * {text(A)}\n")) == []


@pytest.mark.parametrize("type_", ["ed25519", "ecdsa", "rsa"])
def test_what_ssh_keygen_prints_is_read_with_the_type_that_it_means(tmp_path: Path, type_: str) -> None:
    key = make_key(tmp_path / "key", type_)
    (tmp_path / "known").write_text(f"gpu1 {public(key)}\n")
    printed = subprocess.run(["ssh-keygen", "-l", "-f", str(tmp_path / "known")], capture_output=True,
                             text=True, check=True).stdout
    found = expected(listed(tmp_path, printed))
    assert found == expected(tmp_path / "known")
    assert found[0][1] == public(key).split()[0]


def test_a_line_without_a_name_is_about_the_only_node(tmp_path: Path) -> None:
    file = listed(tmp_path, f"256 {fingerprint(A)} no comment (ED25519)\n{text(RSA)}\n")
    assert expected(file, nodes=("gpu1",)) == [ED_A, (fingerprint(RSA), "ssh-rsa")]
    with pytest.raises(ConfigError, match="list:1: a key without a host name, but 2 nodes are chosen"):
        expected(file)


@pytest.mark.parametrize("line", [
    "garbage", "gpu1 SHA256:short", f"gpu1 {fingerprint(A)} more words", "gpu1 ssh-ed25519 AAAA",
    "256 MD5:aa:bb gpu1 (ED25519)", f"gpu1 ssh-rsa {text(A).split()[1]}", "gpu1 \x1b[31m x",
])
def test_a_line_that_cannot_be_read_is_an_error_with_its_place(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError) as error:
        expected(listed(tmp_path, f"gpu1 {text(A)}\n{line}\n"))
    assert "list:2: " in str(error.value)
    assert "expected a known_hosts line" in str(error.value)
    assert str(error.value).isprintable()


# console logs

def block(*keys: bytes, prefix: str = "<14>Apr  1 12:00:00 cloud-init: ", end: bool = True) -> str:
    lines = [*(f"256 {fingerprint(key)} root@ip-10-0-0-1 (ED25519)" for key in keys)]
    ends = ["-----END SSH HOST KEY FINGERPRINTS-----"] if end else []
    return "".join(f"{prefix}{line}\r\n"
                   for line in ["#####", "-----BEGIN SSH HOST KEY FINGERPRINTS-----", *lines, *ends])


def keys_block(*keys: bytes) -> str:
    return "-----BEGIN SSH HOST KEY KEYS-----\n" + "".join(
        f"{text(key)} root@x\n" for key in keys) + "-----END SSH HOST KEY KEYS-----\n"


def prints(log: str) -> list[str]:
    return [each.fingerprint for each in console(log, "log")]


def test_a_console_log_counts_by_its_blocks_only() -> None:
    log = f"[    0.1] Linux\n256 {fingerprint(B)} evil (ED25519)\n" + block(
        A) + f"login: {text(B)}\n" + keys_block(A, RSA) + "login:\n"
    assert prints(log) == [fingerprint(A), fingerprint(A), fingerprint(RSA)]


def test_the_last_boot_of_a_console_log_counts() -> None:
    assert prints(block(A) + keys_block(A, RSA) + "rebooting\n" + block(B)) == [fingerprint(B)]
    assert prints(keys_block(A) + keys_block(B)) == [fingerprint(B)]


def test_a_log_that_is_cut_or_interleaved_loses_lines_and_invents_none() -> None:
    assert prints(block(A, B, end=False)) == [fingerprint(A), fingerprint(B)]
    damaged = block(A, B).replace(fingerprint(B), fingerprint(B)[:20] + "[ 12.3] usb 1-1: new device")
    assert prints(damaged) == [fingerprint(A)]


@given(st.text(st.sampled_from(" \n\r\t[]().-\x1b\x00\xfc"), min_size=1, max_size=100), st.integers(0, 600),
       st.integers(0, 100))
def test_no_damage_to_a_log_makes_a_key_that_was_not_in_it(noise: str, at: int, cut: int) -> None:
    log = block(A) + keys_block(RSA)
    assert set(prints(log[:at] + noise + log[at + cut:])) <= {fingerprint(A), fingerprint(RSA)}


@given(st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(
    [b"gpu1", b"SHA256:" + b"A" * 43, b"ssh-ed25519", text(A).split()[1].encode(), b"256", b"(ED25519)",
     b"@revoked", b"\n", b"-----BEGIN SSH "
     b"HOST KEY KEYS-----", b"|1|a|b", b"\xff", b"no comment"]), max_size=12).map(b" ".join)))
def test_any_file_is_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: bytes,
) -> None:
    file = tmp_path_factory.getbasetemp() / "any"
    file.write_bytes(data)
    try:
        expected(file)
    except MusterError as error:
        assert "\n" not in str(error)


def test_a_folder_holds_a_log_for_each_node_and_others_are_not_read(tmp_path: Path) -> None:
    listed(tmp_path, block(A), "gpu1.log")
    listed(tmp_path, f"elsewhere {text(B)}\n", "gpu2.txt")
    listed(tmp_path, "garbage\n", "gpu3.log")
    assert expected(tmp_path) == [ED_A]
    assert expected(tmp_path, "gpu2") == [(fingerprint(B), "ssh-ed25519")]


LOG = "[    0.000000] Linux version 6.8.0\r\nUbuntu 24.04 gpu2 ttyS0\r\n\r\ngpu2 login: "


@pytest.mark.parametrize(("damaged", "why"), [
    (LOG, "gpu2.log:1: "), (LOG + f"\n{text(B)}\n", "gpu2.log:1: "),
    (LOG + block(end=False), "empty or damaged"), (LOG + block(B, end=False)[:-60], "empty or damaged"),
    ("256 MD5:aa:bb gpu2 (ED25519)\n", "an MD5 fingerprint"),
], ids=["none", "none and a stray key", "begun", "cut", "MD5"])
def test_a_log_without_keys_says_nothing_of_its_node_and_the_others_logs_count(
    tmp_path: Path, damaged: str, why: str,
) -> None:
    listed(tmp_path, block(A), "gpu1.log")
    listed(tmp_path, damaged, "gpu2.log")
    found = read_expected(tmp_path, NODES)
    about = {name: found.about(name, target_for(Node(name), SshConfig.parse(""))) for name in NODES}
    assert [each.fingerprint for each in about["gpu1"]] == [fingerprint(A)]
    assert about["gpu2"] == ()
    assert found.why_unreadable("gpu1") == ""
    assert f"{tmp_path / 'gpu2.log'} has no key of this node: " in found.why_unreadable("gpu2")
    assert why in found.why_unreadable("gpu2")
    assert found.why_unreadable("gpu2").isprintable()


def test_another_file_of_the_same_node_still_counts_beside_a_log_without_keys(tmp_path: Path) -> None:
    listed(tmp_path, LOG, "gpu1.log")
    listed(tmp_path, f"{text(A)}\n", "gpu1.txt")
    assert expected(tmp_path) == [ED_A]


def test_one_log_is_about_the_node_of_its_name_or_the_only_one(tmp_path: Path) -> None:
    assert expected(listed(tmp_path, block(A), "gpu1.log")) == [ED_A]
    assert expected(tmp_path / "gpu1.log", "gpu2") == []
    assert expected(listed(tmp_path, block(A), "boot.log"), nodes=("gpu1",)) == [ED_A]
    with pytest.raises(ConfigError, match="as NODE"):
        expected(tmp_path / "boot.log")
    with pytest.raises(ConfigError, match="empty or damaged"):
        expected(listed(tmp_path, block(), "gpu1.log"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MusterError, match=r"--expect .*nowhere: No such file"):
        expected(tmp_path / "nowhere")
