"""Edits of known_hosts files: nothing but what was asked for changes, whatever else happens."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.errors import MusterError
from inventory.hostkeys import KnownHosts, key_type
from inventory.pins import PinChange, forgotten, has_hashed_names, obstacles, pinned, write
from tests.testbed.sshd import hashed


def blob(seed: bytes, type_: str = "ssh-ed25519") -> bytes:
    return len(type_).to_bytes(4, "big") + type_.encode() + len(seed).to_bytes(4, "big") + seed


def text(key: bytes) -> str:
    return f"{key_type(key)} {base64.b64encode(key).decode()}"


A, B, RSA = blob(b"a" * 32), blob(b"b" * 32), blob(b"r" * 64, "ssh-rsa")
DROP_A = PinChange("gpu1", (), (A,))


def forget(content: str, *changes: PinChange) -> str:
    return forgotten(content.encode(), changes or (DROP_A,)).decode()


@pytest.mark.parametrize(("before", "after"), [
    (f"gpu1 {text(A)}\n", ""),
    (f"# one\ngpu1 {text(A)} a comment\n# two\n", "# one\n# two\n"),
    (f"gpu1,10.0.0.1 {text(A)} a  comment\n", f"10.0.0.1 {text(A)} a  comment\n"),
    (f"10.0.0.1,GPU1,gpu2\t{text(A)}\r\n", f"10.0.0.1,gpu2\t{text(A)}\r\n"),
    (f"  gpu1,gpu2 {text(A)}", f"  gpu2 {text(A)}"),
    (f"gpu1,!gpu2 {text(A)}\n", ""),
    *[(line, line) for line in (
        f"gpu1 {text(B)}\n", f"gpu11 {text(A)}\n", f"[gpu1]:2222 {text(A)}\n", f"@revoked gpu1 {text(A)}\n",
        f"@cert-authority gpu1 {text(A)}\n", f"#gpu1 {text(A)}\n", f"# gpu1 {text(A)}\n",
        "gpu1 ssh-ed25519\n", "gpu1 x y\n", "\n\n", "", f"gpu1 ssh-rsa {text(A).split()[1]}\n",
        f"gpu* {text(A)}\n",
    )],
])
def test_a_name_forgets_a_key_and_all_else_stays_to_the_byte(before: str, after: str) -> None:
    assert forget(before) == after


def test_a_hashed_line_is_taken_out_and_those_of_other_hosts_stay() -> None:
    other = f"{hashed('gpu2')} {text(A)}\n"
    assert forget(f"{hashed('gpu1')} {text(A)}\n{other}") == other


@given(st.lists(st.one_of(
    st.binary(max_size=60).map(lambda data: data.replace(b"\n", b" ")),
    st.sampled_from([f"gpu2,gpu3 {text(A)}", f"@revoked gpu1 {text(A)}", f"gpu1 {text(B)}", "# gpu1",
                     f"* {text(A)} \udcff"]).map(
                         lambda line: line.encode("utf-8", "surrogateescape")),
), max_size=8))
def test_lines_of_others_are_kept_byte_for_byte_around_one_that_goes(lines: list[bytes]) -> None:
    old = f"gpu1 {text(A)} x".encode()
    assert forgotten(b"\n".join([*lines, old, *lines]), (DROP_A,)) == b"\n".join([*lines, *lines])
    added = pinned(b"\n".join(lines), [("gpu1", A)], hash_names=False)
    assert added.startswith(b"\n".join(lines))
    assert added.endswith(f"gpu1 {text(A)}\n".encode())


@given(st.binary(max_size=300))
def test_any_bytes_can_be_edited_and_the_new_key_is_then_known(data: bytes) -> None:
    after = pinned(forgotten(data, (DROP_A,)), [("gpu1", B)], hash_names=True)
    assert B in [key.blob for key in KnownHosts.parse(after, "f").about("gpu1", 22).keys]


def test_a_last_line_without_an_end_is_not_run_into_the_new_one() -> None:
    assert pinned(b"gpu2 x y", [("gpu1", A)], hash_names=False) == f"gpu2 x y\ngpu1 {text(A)}\n".encode()
    assert pinned(b"gpu2 x y", [], hash_names=False) == b"gpu2 x y"


def test_a_pattern_that_covers_other_hosts_stands_in_the_way_of_replacing() -> None:
    found = obstacles(f"gpu* {text(A)}\n".encode(), "file", [PinChange("gpu1", (B,), (A,))])
    assert "pattern" in found["gpu1"]
    assert obstacles(f"gpu1,gpu2 {text(A)}\n".encode(), "file", [PinChange("gpu1", (B,), (A,))]) == {}


@pytest.mark.parametrize("name", ["a b", "a,b", "gpu*", "#gpu", "@revoked", "|1|x", "a\nb", "", "!x",
                                  "g\u00fc"])
def test_a_name_that_would_say_something_else_in_the_file_is_refused(name: str) -> None:
    assert name in obstacles(b"", "file", [PinChange(name, (A,))])


def test_names_are_hashed_where_they_are_so_far() -> None:
    assert has_hashed_names(f"# x\n{hashed('gpu1')} {text(A)}\n".encode())
    assert not has_hashed_names(f"gpu1 {text(A)} |1|\n# |1|\n".encode())


# the file itself

def test_a_file_and_its_folder_are_made_where_there_are_none(tmp_path: Path) -> None:
    file = tmp_path / "ssh" / "known_hosts"
    write(str(file), [PinChange("gpu1", (A, RSA))], hash_names=False)
    assert file.read_text() == f"gpu1 {text(A)}\ngpu1 {text(RSA)}\n"
    assert file.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664])
def test_mode_and_symbolic_link_stay_and_no_temporary_file_is_left(tmp_path: Path, mode: int) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("# mine\n")
    real.chmod(mode)
    link.symlink_to("real")
    write(str(link), [PinChange("gpu1", (A,))], hash_names=False)
    assert link.is_symlink()
    assert real.read_text() == f"# mine\ngpu1 {text(A)}\n"
    assert real.stat().st_mode & 0o777 == mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_only_when_keys_are_dropped_the_file_before_is_kept_beside_it(tmp_path: Path) -> None:
    file, old = tmp_path / "known_hosts", tmp_path / "known_hosts.old"
    write(str(file), [PinChange("gpu1", (A,))], hash_names=False)
    assert not old.exists()
    before = file.read_bytes()
    write(str(file), [PinChange("gpu1", (B,), (A,))], hash_names=False)
    assert file.read_text() == f"gpu1 {text(B)}\n"
    assert old.read_bytes() == before


def test_a_key_that_is_there_already_is_not_written_twice(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    for _ in range(2):
        write(str(file), [PinChange("gpu1", (A,)), PinChange("gpu1", (A,))], hash_names=True)
    assert len(file.read_text().splitlines()) == 1


@pytest.mark.parametrize("line", [f"gpu1 {text(B)}\n", f"@revoked * {text(A)}\n"])
def test_what_another_has_written_meanwhile_is_not_contradicted(tmp_path: Path, line: str) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(line)
    with pytest.raises(MusterError, match="run it again"):
        write(str(file), [PinChange("gpu1", (A,))], hash_names=False)
    assert file.read_text() == line


def test_what_is_no_regular_file_is_not_written_to(tmp_path: Path) -> None:
    with pytest.raises(MusterError, match="not a regular file"):
        write("/dev/null", [PinChange("gpu1", (A,))], hash_names=False)
    with pytest.raises(MusterError, match="cannot be written"):
        write(str(tmp_path / "a" / "b" / "c"), [PinChange("gpu1", (A,))], hash_names=False)


def test_enrolments_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    keys = {f"gpu{number}": blob(bytes([number]) * 32) for number in range(24)}
    threads = [threading.Thread(target=write, args=(str(file), [PinChange(name, (key,))]),
                                kwargs={"hash_names": False}) for name, key in keys.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(file.read_text().splitlines()) == sorted(f"{name} {text(key)}"
                                                           for name, key in keys.items())


_KILLED = """
import os, signal, sys
from inventory import pins
def die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
{patch}
pins.write(sys.argv[1], [pins.PinChange("gpu1", (bytes.fromhex(sys.argv[2]),), (bytes.fromhex(sys.argv[3]),))], hash_names=False)
"""  # noqa: E501


@pytest.mark.parametrize("patch", ["os.fsync = die", "os.fchmod = die", "pins.Path.replace = die",
                                   "pins._changed = die"])
def test_a_kill_in_the_middle_leaves_the_old_file_and_no_lock(tmp_path: Path, patch: str) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"gpu1 {text(A)}\n")
    done = subprocess.run([sys.executable, "-c", _KILLED.format(patch=patch), str(file), B.hex(), A.hex()],
                          check=False, cwd=Path(__file__).parents[2],
                          env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})
    assert done.returncode == -9
    assert file.read_text() == f"gpu1 {text(A)}\n"
    write(str(file), [PinChange("gpu1", (B,), (A,))], hash_names=False)
    assert file.read_text() == f"gpu1 {text(B)}\n"
