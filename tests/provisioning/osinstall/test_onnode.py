"""What runs on a machine to report its signs: mount tables, command lines and status files as they may be."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.hostkeys import key_type
from provisioning.base.onnode.answer import LocalHost
from provisioning.osinstall.hostkeylines import blob_of, blobs, kept, line_of
from provisioning.osinstall.onnode.signs import CLOUD_INIT, cloud_init, program, root_of, running, systemd

CASPER = "25 1 0:25 / / rw,relatime shared:1 - overlay /cow rw,lowerdir=/a"
DISK = "30 1 259:2 / / rw,relatime shared:1 master:2 - ext4 /dev/nvme0n1p2 rw"
HOME = "31 30 259:3 / /home rw,relatime shared:2 - xfs /dev/nvme0n1p3 rw"


def test_the_root_file_system_is_what_was_mounted_last_at_the_root() -> None:
    assert root_of(f"{DISK}\n{HOME}\n") == ["ext4", "/dev/nvme0n1p2", "259:2"]
    assert root_of(f"1 1 0:2 / / rw - rootfs rootfs rw\n{CASPER}\n{HOME}\n") == ["overlay", "/cow", "0:25"]
    assert root_of(HOME) == root_of("") == root_of("30 1 259:2 / /") == root_of("30 1 259:2 / / rw -") == []


@given(st.text())
def test_any_mount_table_is_read(text: str) -> None:
    assert len(root_of(text)) in (0, 3)


@pytest.mark.parametrize(("words", "name"), [
    ("/usr/bin/python3.10 -m subiquity.cmd.server", "subiquity"),
    ("/usr/bin/python3 /usr/sbin/anaconda --kickstart x", "anaconda"),
    ("/bin/sh /sbin/debian-installer", "debian-installer"), ("/usr/bin/main-menu", "main-menu"),
    ("python3 -m curtin install", "curtin"),
    ("less /usr/sbin/anaconda", "less"), ("vim anaconda-ks.cfg", "vim"), ("bash", ""), ("", "")])
def test_a_process_goes_by_its_program_or_by_the_script_that_its_interpreter_runs(words: str,
                                                                                  name: str) -> None:
    assert program(words.split()) == name


@given(st.lists(st.text(), max_size=5))
def test_any_command_line_has_a_name(words: list[str]) -> None:
    assert isinstance(program(words), str)


def test_only_wanted_programs_are_reported_and_kernel_threads_have_none(tmp_path: Path) -> None:
    for pid, text in enumerate((b"", b"/usr/sbin/sshd\0-D\0", b"python3\0-m\0curtin\0install\0",
                                b"\xff\xfe\0"), 1):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/cmdline").write_bytes(text)
    assert running(LocalHost(str(tmp_path)), ["curtin", "anaconda"]) == ["curtin"]


@pytest.mark.parametrize(("text", "stage"), [
    ('{"v1": {"stage": "init-local"}}', "init-local"), ('{"v1": {"stage": null}}', ""), ("{", ""), ("[]", ""),
    ('{"v1": 3}', ""), ("", "")])
def test_cloud_init_runs_where_its_status_names_a_stage(tmp_path: Path, text: str, stage: str) -> None:
    (tmp_path / CLOUD_INIT[1:]).parent.mkdir(parents=True)
    (tmp_path / CLOUD_INIT[1:]).write_text(text)
    assert cloud_init(LocalHost(str(tmp_path))) == stage


def test_cloud_init_that_is_not_there_does_not_run(tmp_path: Path) -> None:
    assert cloud_init(LocalHost(str(tmp_path))) == ""


def test_a_machine_without_systemctl_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert systemd(LocalHost()) == ": No such file or directory"
    (tmp_path / "systemctl").write_text("#!/bin/sh\necho degraded\nexit 1\n")
    (tmp_path / "systemctl").chmod(0o755)
    assert systemd(LocalHost()) == "degraded"


@given(st.text())
def test_any_text_that_was_kept_is_read_and_what_is_no_key_is_left_out(text: str) -> None:
    assert all(key_type(blob) for blob in blobs(text))


@given(st.lists(st.binary(max_size=64), max_size=4))
def test_host_keys_come_back_from_the_store_as_they_were(bodies: list[bytes]) -> None:
    keys = [b"\x00\x00\x00\x0bssh-ed25519" + len(body).to_bytes(4, "big") + body for body in bodies]
    assert blobs(kept(map(line_of, keys))) == tuple(keys)
    assert [blob_of(f"{line_of(key)} a comment") for key in keys] == keys
