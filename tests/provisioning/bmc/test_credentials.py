"""Passwords of controllers: from a file, a variable or a command, only when needed, and shown nowhere."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
import traceback
from pathlib import Path

import pytest

from inventory.model import Bmc, Node, Secret, SecretFrom
from provisioning.bmc import credentials
from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.credentials import Hidden, login, secret
from tests.testbed.planted import private

PASSWORD = "c0rrect-horse-Battery"


def from_file(path: Path | str) -> Secret:
    return Secret(SecretFrom.FILE, (str(path),))


def refused(where: Secret, node: str = "gpu001") -> str:
    with pytest.raises(BmcError) as caught:
        secret(where, node)
    assert caught.value.wrong is BmcErrorReason.NO_SECRET
    assert PASSWORD not in str(caught.value)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))
    return caught.value.message


def test_the_first_line_of_a_file_is_the_password(tmp_path: Path) -> None:
    private(tmp_path / "gpu001.password", f"{PASSWORD}\nanother line\n")
    assert secret(from_file(tmp_path / "{node}.password"), "gpu001").text == PASSWORD


def test_a_byte_order_mark_and_the_end_of_the_line_are_no_part_of_the_password(tmp_path: Path) -> None:
    private(tmp_path / "password", f"\ufeff{PASSWORD}\r\n")
    assert secret(from_file(tmp_path / "password"), "gpu001").text == PASSWORD


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620])
def test_a_file_that_others_may_touch_is_refused_with_the_command_that_mends_it(
    tmp_path: Path, mode: int,
) -> None:
    path = tmp_path / "password"
    path.write_text(PASSWORD)
    path.chmod(mode)
    assert refused(
        from_file(path)) == f"{path} may be read by others (mode {mode:04o}); change that: chmod 600 {path}"


def test_a_file_that_is_missing_empty_a_folder_a_fifo_or_no_text_is_one_line(tmp_path: Path) -> None:
    assert "No such file" in refused(from_file(tmp_path / "none"))
    tmp_path.chmod(0o700)
    assert "not a regular file" in refused(from_file(tmp_path))
    os.mkfifo(tmp_path / "fifo", 0o600)
    assert "not a regular file" in refused(from_file(tmp_path / "fifo"))
    for data, said in (
        (b"", "gives no password"), (b"\n\n", "gives no password"), (b"\xff\xfe\n", "not UTF-8"),
        (b"a\x1bb", "cannot be a password"), (b"x" * 5000, "cannot be a password")):
        path = tmp_path / "data"
        path.write_bytes(data)
        path.chmod(0o600)
        assert said in refused(from_file(path))


def test_a_variable_is_taken_out_of_the_environment_that_children_get(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BMC_gpu_01_rack", PASSWORD)
    where = Secret(SecretFrom.ENV, ("BMC_{node}",))
    assert secret(where, "gpu-01.rack").text == PASSWORD
    assert secret(where, "gpu-01.rack").text == PASSWORD       # and is still known
    assert PASSWORD not in subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
    assert refused(
        Secret(SecretFrom.ENV, ("BMC_NOT_THERE",))) == "the variable BMC_NOT_THERE gives no password"


def test_a_command_gives_the_first_line_that_it_prints_and_goes_through_no_shell(tmp_path: Path) -> None:
    program = "import sys; print(sys.argv[1]); print('second')"
    where = Secret(SecretFrom.COMMAND, (sys.executable, "-c", program, "{node};$(id)"))
    assert secret(where, "gpu001").text == "gpu001;$(id)"


def test_a_command_that_fails_is_missing_or_says_nothing_shows_nothing_of_what_it_printed() -> None:
    leaks = f"import sys; print('{PASSWORD}'); print('{PASSWORD}', file=sys.stderr); sys.exit(3)"
    said = refused(Secret(SecretFrom.COMMAND, (sys.executable, "-c", leaks)))
    assert said.endswith("gave no password: it ended with exit code 3; run it by hand to see why")
    assert "cannot be started" in refused(Secret(SecretFrom.COMMAND, ("/nowhere/at-all",)))
    assert "gives no password" in refused(Secret(SecretFrom.COMMAND, ("true",)))


def test_a_command_that_hangs_is_ended_with_its_children() -> None:
    began = time.monotonic()
    with pytest.raises(BmcError, match=r"gave no password within 0\.3 s"):
        credentials._command(("sh", "-c", "sleep 60 & sleep 60"), 0.3)
    assert time.monotonic() - began < 5


def test_hidden_text_shows_itself_in_no_way() -> None:
    hidden = Hidden(PASSWORD)
    for shown in (
        repr(hidden), str(hidden), f"{hidden}", f"{hidden:>10}", repr([hidden]), repr({"a": hidden})):
        assert PASSWORD not in shown
    with pytest.raises(TypeError):
        pickle.dumps(hidden)


def test_a_node_without_user_or_password_says_what_to_write() -> None:
    for bmc, said in ((None, "names no user"), (Bmc("x"), "names no user"),
                      (Bmc("x", "root"), "does not say where the password")):
        with pytest.raises(BmcError, match=said):
            login(Node("gpu001", bmc=bmc))
