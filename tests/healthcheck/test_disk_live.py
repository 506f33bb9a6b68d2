"""Disks and mounts that are really sick: full, given up by the kernel, silent, or without their server.

Here are ext4 on a loop device and FUSE. An NFS server that dies, md arrays and NVMe drives need kernels and
hardware that such machines lack: of those the forms that their authors document are judged
(checks/test_disk.py, the scenarios).
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.command import muster
from tests.testbed import fuse
from tests.testbed.require import require

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")]

_DETACH = 2


@contextmanager
def ext4(folder: Path) -> Iterator[Path]:
    """A small ext4 on a loop device, told to go read-only when it meets an error, as distributions do."""
    require(shutil.which("mkfs.ext4"), "no mkfs.ext4 on this machine: apt-get install -y e2fsprogs")
    require(Path("/dev/loop-control").exists(), "no loop devices on this machine")
    image, point = folder / "disk.img", folder / "disk"
    point.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop,errors=remount-ro", str(image), str(point)], check=True)
    try:
        yield point
    finally:
        ctypes.CDLL(None).umount2(os.fsencode(point), _DETACH)


def asked(home: Path, *rules: str) -> dict[str, dict[str, Any]]:
    """What these rules say of this machine."""
    chosen = [word for rule in rules for word in ("--only", rule)]
    done = muster("check", "--local", "--sku", "cpu-only", *chosen, "--rules", site(home), "--format", "json",
                  "--full", home=home, timeout=90)
    (node,) = json.loads(done.stdout)["nodes"]
    return {result["rule"]: result for result in node["results"]}


def site(home: Path) -> str:
    """Site rules that judge loop devices, too."""
    folder = home / "site"
    folder.mkdir(exist_ok=True)
    (folder / "disk.yaml").write_text("- {id: disk-log-filesystem, with: {ignore: []}}\n")
    return str(folder)


def about(result: dict[str, Any], point: Path) -> str:
    """What the result says of this mount point."""
    return "; ".join(found["observed"]
                     for found in result.get("findings", ()) if found["subject"] == str(point))


def newest(told: dict[str, dict[str, Any]], device: str) -> float:
    """When the kernel last reported damage of this device's file system, 0 if never. Its log is the
    machine's: earlier runs are in it, and a full one has lost its oldest lines."""
    return max((found["log"]["last_s"] for found in told["disk-log-filesystem"]["findings"]
                if found["subject"] == device), default=0.0)


def test_a_full_disk_is_named_and_is_well_again_once_there_is_room(tmp_path: Path) -> None:
    with ext4(tmp_path) as disk:
        assert about(asked(tmp_path, "filesystem-space")["filesystem-space"], disk) == ""
        with suppress(OSError), (disk / "checkpoint").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))
        assert about(asked(tmp_path, "filesystem-space")["filesystem-space"],
                     disk) == "100.0% used, 0.0 GiB left"
        (disk / "checkpoint").unlink()
        assert about(asked(tmp_path, "filesystem-space")["filesystem-space"], disk) == ""


def test_a_file_system_that_the_kernel_made_read_only_is_reported_from_one_that_somebody_mounted_so(
        tmp_path: Path) -> None:
    rules = ("filesystem-read-only", "disk-log-filesystem")
    with ext4(tmp_path) as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert about(asked(tmp_path, *rules)["filesystem-read-only"], disk) == ""
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        device = Path(subprocess.run(["findmnt", "-no", "SOURCE", str(disk)], check=True, capture_output=True,
                                     text=True).stdout.strip())
        trigger = Path(f"/sys/fs/ext4/{device.name}/trigger_fs_error")
        require(trigger.exists(), "this kernel cannot be told to meet an error of ext4")
        earlier = newest(asked(tmp_path, *rules), device.name)
        trigger.write_text("muster")
        (disk / "touch").exists()
        told = asked(tmp_path, *rules)
        assert about(told["filesystem-read-only"], disk) == f"read-only (ext4 on {device})"
        assert newest(told, device.name) > earlier


def test_a_mount_that_never_answers_is_unknown_at_first_and_a_fault_at_the_second_look(
        tmp_path: Path) -> None:
    require(fuse.available() is None, fuse.available() or "")
    rules = ("filesystem-answers", "filesystem-hung", "filesystem-space")
    point = tmp_path / "silent"
    point.mkdir()
    with fuse.hung(point):
        told = asked(tmp_path, *rules)
        # Other mounts of this machine may hang, too: another test's.
        assert told["filesystem-answers"]["status"] != "pass" and told["filesystem-hung"]["status"] != "pass"
        assert not any(str(point) in found["subject"] for rule in rules for found in told[rule]["findings"])
        assert (f"statvfs of {point} (fuse of muster-hung) did not return in time"
                in told["filesystem-answers"]["reason"])
        told = asked(tmp_path, *rules)
        assert about(told["filesystem-hung"], point).startswith("no answer, now and in the earlier snapshot")
        assert about(told["filesystem-answers"],
                     point).startswith("no answer: an earlier reader still waits for it")
        assert told["filesystem-space"]["status"] != "unknown"
    told = asked(tmp_path, *rules)
    assert str(point) not in str([told[rule] for rule in rules])


def test_a_mount_whose_server_is_gone_fails_with_the_systems_word(tmp_path: Path) -> None:
    require(fuse.available() is None, fuse.available() or "")
    point = tmp_path / "gone"
    point.mkdir()
    os.close(fuse._mount_as_root(point))
    try:
        assert about(asked(tmp_path, "filesystem-answers")["filesystem-answers"],
                     point) == "error ENOTCONN (fuse of muster-hung)"
    finally:
        ctypes.CDLL(None).umount2(os.fsencode(point), _DETACH)
