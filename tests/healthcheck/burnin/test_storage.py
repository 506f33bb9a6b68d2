"""Storage: data is read back past the page cache and verified; nothing is left, filled or followed."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin.onnode import storage
from tests.healthcheck.burnin.workers import RankPart
from tests.testbed.mounts import WHY_NOT, can_mount, ext4
from tests.testbed.require import require

MIB = 1 << 20


class Part(RankPart):
    """What a rank is to its work."""

    def __init__(self, path: Path | str, **params: Any) -> None:
        super().__init__("storage",
                         {"path": str(path), "bytes": 9 * MIB + 4096, "leave_share": 0.0, **params})


@pytest.fixture
def mount() -> Iterator[Path]:
    """A folder on a disk that is said to be a mount point; what is on it is real."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        kind = subprocess.run(["stat", "--file-system", "--format=%T", name], capture_output=True, text=True,
                              check=True).stdout.strip()
        require(kind not in ("tmpfs", "ramfs"), "/var/tmp is in memory")
        found = Path(name, "scratch")
        found.mkdir()
        Path(name, "mountinfo").write_text(f"30 1 8:1 / {found} rw shared:1 - ext4 /dev/nvme0n1p1 rw\n")
        yield found


def run(part: Part) -> Part:
    torch = pytest.importorskip("torch")
    storage.storage_speed(part, SimpleNamespace(torch=torch),
                          str(Path(part.params["path"]).parent / "mountinfo"))
    return part


def planted(monkeypatch: pytest.MonkeyPatch,
            change: Callable[[Callable[..., int], int, Any, int], int]) -> None:
    real = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, views, offset: change(real, fd, views, offset))


def test_what_was_written_is_read_back_right_and_nothing_is_left(mount: Path) -> None:
    part = run(Part(mount))
    assert (part.wrong == 0 and part.figures["verified"] == 1.0
            and part.figures["size_bytes"] == 9 * MIB + 4096), part.facts
    assert part.figures["storage_write_gb_s"] > 0 and part.figures["storage_read_gb_s"] > 0
    assert part.facts["mount_type"] == "ext4" and part.facts["storage"] == "O_DIRECT, 2 threads"
    assert list(mount.iterdir()) == []


def test_while_it_works_its_file_has_no_name_so_that_a_kill_leaves_none(mount: Path) -> None:
    seen: list[list[Path]] = []
    part = Part(mount)
    part.then = lambda phase: seen.append([path for path in mount.rglob("*") if not path.is_dir()])
    run(part)
    assert len(seen) > 4 and not any(seen)


def test_without_o_direct_it_is_synced_and_dropped_and_says_so(
    mount: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = os.open

    def refuses(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_DIRECT:
            raise OSError(22, "Invalid argument")
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", refuses)
    part = run(Part(mount))
    assert (part.facts["storage"] == "page cache, synced and dropped, 2 threads"
            and part.figures["storage_read_gb_s"] > 0)


def test_what_stayed_in_the_page_cache_is_no_measurement_of_storage() -> None:
    part = Part("/dev/shm")
    storage.storage_speed(part, SimpleNamespace(torch=pytest.importorskip("torch")))
    assert (part.facts["not_measured"].startswith("100 % of what was written stayed in the page cache")
            and part.facts["mount_type"] == "tmpfs")
    assert "storage_read_gb_s" not in part.figures and part.wrong == 0


def test_a_flipped_bit_is_reported_with_its_place(mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flips(real: Callable[..., int], fd: int, views: Any, offset: int) -> int:
        count = real(fd, views, offset)
        if offset == 4 * MIB:
            views[0][800] ^= 4
        return count

    planted(monkeypatch, flips)
    part = run(Part(mount))
    assert part.wrong == 1 and part.facts["wrong_in"] == f"byte {4 * MIB + 800} of {mount}, bits 0x4"


def test_a_block_from_another_place_is_wrong_in_every_word(mount: Path,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, lambda real, fd, views, offset: real(fd, views, 0 if offset == 4 * MIB else offset))
    assert run(Part(mount)).wrong == 4 * MIB // 8


def test_transfers_that_end_early_are_gone_on_with_and_a_file_that_does_is_wrong(
    mount: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    planted(monkeypatch, lambda real, fd, views, offset: real(fd, [views[0][:4096 * 300]], offset))
    assert run(Part(mount)).wrong == 0
    planted(monkeypatch, lambda real, fd, views, offset: 0 if offset >= 8 * MIB else real(fd, views, offset))
    assert run(Part(mount)).wrong == (MIB + 4096) // 8


def test_a_file_system_is_not_filled(mount: Path) -> None:
    part = run(Part(mount, leave_share=1.0))
    assert "would be left" in part.facts["not_measured"] and list(mount.iterdir()) == []
    # What all nodes need together counts where they may share it.
    assert run(Part(mount, nodes=10**12)).figures["storage_read_gb_s"] > 0
    shared = (mount.parent / "mountinfo").read_text().replace("ext4", "nfs4")
    (mount.parent / "mountinfo").write_text(shared)
    assert "would be left" in run(Part(mount, nodes=10**12)).facts["not_measured"]


def test_one_that_others_fill_meanwhile_is_not_measured_and_what_was_written_is_gone(tmp_path: Path) -> None:
    require(can_mount(), WHY_NOT)
    with ext4(tmp_path / "scratch", 64 * MIB) as mount:
        part = Part(mount, bytes=40 * MIB)

        def fill(phase: str) -> None:
            if not (mount / "others").exists():
                (mount / "others").write_bytes(bytes(30 * MIB))

        part.then = fill
        storage.storage_speed(part, SimpleNamespace(torch=pytest.importorskip("torch")))
        said = part.facts["not_measured"]
        assert "would be left" in said or "no space left" in said, said
        assert ([path.name for path in mount.iterdir() if path.name != "lost+found"] == ["others"]
                and "storage_read_gb_s" not in part.figures)


def test_it_ends_when_its_time_is_over(mount: Path) -> None:
    part = run(Part(mount, bytes=200 * MIB, run_s=1e-6))
    assert part.figures["storage_read_gb_s"] > 0 and part.iteration == 1     # a round each way


@pytest.mark.parametrize(("make", "said"), [
    (lambda path: None, "scratch: No such file or directory"),
    (lambda path: path.write_text(""), "scratch: Not a directory"),
    (lambda path: path.mkdir(), "scratch is no mount point: nothing is mounted there"),
    (lambda path: path.symlink_to("/dev/shm"), "scratch: Not a directory"),
])
def test_a_mount_that_is_not_there_is_an_error_of_its_node(tmp_path: Path, make: Callable[[Path], None],
                                                           said: str) -> None:
    make(tmp_path / "scratch")
    (tmp_path / "mountinfo").write_text("30 1 8:1 / /raid rw - ext4 /dev/x rw\n"
                                        f"31 1 0:9 / {tmp_path / 'scratch'} rw - autofs systemd-1 rw\n")
    with pytest.raises(ValueError, match=said):
        run(Part(tmp_path / "scratch"))


def test_a_path_through_a_link_and_a_folder_that_is_not_ours_are_refused(mount: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(mount.parent)
    with pytest.raises(ValueError, match="contains a symbolic link"):
        run(Part(tmp_path / "link" / "scratch"))
    own = mount / f"{storage.OWN_FOLDER}{os.geteuid()}"
    own.symlink_to(tmp_path)
    assert "is no folder" in run(Part(mount)).facts["not_measured"] and own.is_symlink()
    own.unlink()
    own.mkdir()
    own.chmod(0o777)
    assert "not private to this user" in run(Part(mount)).facts["not_measured"]


def test_a_folder_below_the_mount_is_written_in_and_nothing_of_it_is_followed_or_left(mount: Path) -> None:
    inner = mount / "admin" / "burn in"
    inner.mkdir(parents=True)
    seen: list[bool] = []
    part = Part(mount, folder="admin/burn in")
    part.then = lambda phase: seen.append(any(inner.iterdir()) and list(mount.iterdir()) == [mount / "admin"])
    run(part)
    assert part.figures["verified"] == 1.0 and seen and all(seen) and not any(inner.iterdir()), part.facts
    (mount / "link").symlink_to(inner)
    for folder, said in (("admin/none", "No such file"), ("link", "Not a directory|symbolic links")):
        with pytest.raises(ValueError, match=f"the folder {folder} below the mount: .*({said})"):
            run(Part(mount, folder=folder))
    assert not any(inner.iterdir())


def test_what_a_server_keeps_as_another_s_that_this_user_makes_is_this_user_s(
    mount: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    require(os.geteuid() == 0, "only root can make what is nobody's")
    make = os.mkdir

    def squashed(path: str, mode: int = 0o777, *, dir_fd: int) -> None:
        make(path, mode, dir_fd=dir_fd)
        os.chown(path, 65534, 65534, dir_fd=dir_fd)

    own = mount / f"{storage.OWN_FOLDER}0"
    own.mkdir(0o700)
    os.chown(own, 65534, 65534)
    assert "not private to this user" in run(Part(mount)).facts["not_measured"]
    monkeypatch.setattr(os, "mkdir", squashed)
    part = run(Part(mount))
    assert part.figures["verified"] == 1.0 and not any(mount.iterdir()), part.facts


def test_what_a_dead_run_left_is_removed_and_no_one_else_s(mount: Path) -> None:
    own = mount / f"{storage.OWN_FOLDER}{os.geteuid()}"
    own.mkdir(0o700)
    name = storage.own_name()
    parts = name.split(".")
    stay = [name, ".".join(["otherhost", *parts[1:]]),
            ".".join([*parts[:2], "4026539999", *parts[3:4], "1", parts[5]]), "data", "a.b.c.d.e.f"]
    gone = [".".join([*parts[:4], "1", "dead0001"]), ".".join([parts[0], "0" * 32, *parts[2:]])]
    for each in (*stay, *gone):
        (own / each).mkdir()
        (own / each / "data").write_text("x")
    full = ".".join([*parts[:4], "2", "dead0002"])
    (own / full).mkdir()
    (own / full / "somebody's").write_text("x")
    run(Part(mount))
    assert {path.name for path in own.iterdir()} == {*stay, full} and (own / full / "somebody's").exists()


def test_mountinfo_s_octal_names_and_the_last_of_several_mounts_count(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(
        "1 0 0:1 / /a\\040b rw - autofs systemd-1 rw\nbroken\n"
        "2 1 0:2 / /a\\040b rw shared:2 master:1 - nfs4 files:/x\\040y rw\n")
    assert storage.mounted_at("/a b", str(tmp_path / "mountinfo")) == ("nfs4", "files:/x y")


@given(st.text(max_size=60) | st.lists(st.text(max_size=8), min_size=6, max_size=6).map(".".join))
def test_whatever_a_folder_is_called_it_is_dead_only_by_this_machine_s_word(name: str) -> None:
    assert not storage.is_dead(name) or name.startswith(os.uname().nodename.replace(".", "-") + ".")
