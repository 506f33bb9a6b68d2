"""The items that ask systemd and the kernel, on a host whose systemd says what it is told to."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioning.base.desired import ITEMS, BaseSettings
from provisioning.base.onnode import system
from provisioning.base.onnode.answer import LocalHost, Unseen, plain
from provisioning.base.onnode.devices import BLACKLIST, UNIT, persistence
from provisioning.base.onnode.item import BaseItem
from provisioning.base.onnode.operations import looked
from provisioning.base.onnode.settings import LIMITS, SYSCTL
from provisioning.base.onnode.system import time_service

RUNS = {"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled"}


class Told(LocalHost):
    """A host with these units, which keeps what systemctl is asked to do."""

    def __init__(self, root: Path, **units: Mapping[str, str]) -> None:
        super().__init__(str(root))
        self.all = {f"{name.replace('_', '-')}.service": dict(unit) for name, unit in units.items()}
        self.asked: list[str] = []

    def systemd(self) -> bool:
        return True

    def units(self, *names: str) -> dict[str, dict[str, str]]:
        return {name: unit for name, unit in self.all.items() if name in names}

    def systemctl(self, *words: str) -> str:
        self.asked.append(" ".join(words))
        return ""


@pytest.fixture
def gpu(tmp_path: Path) -> Path:
    (tmp_path / "proc/driver/nvidia/gpus/0").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text("NVRM\n")
    return tmp_path


def done(item: BaseItem) -> BaseItem:
    for do in item.doing:
        do()
    return item


def test_persistence_runs_and_comes_again_with_the_machine(gpu: Path) -> None:
    assert persistence(Told(gpu, nvidia_persistenced=RUNS)).state == "so"
    # Ubuntu's, started by udev
    assert persistence(Told(gpu, nvidia_persistenced={**RUNS, "UnitFileState": "static"})).state == "so"
    host = Told(gpu, nvidia_persistenced={**RUNS, "UnitFileState": "disabled", "ActiveState": "inactive"})
    assert done(persistence(host)).change == [
        f"{UNIT} is enabled, so that it starts with the machine", f"{UNIT} is started"]
    assert host.asked == [f"--quiet enable {UNIT}", f"--quiet start {UNIT}"]


def test_persistence_that_is_missing_or_masked_is_trouble(gpu: Path) -> None:
    assert "is not installed" in persistence(Told(gpu)).message
    masked = persistence(
        Told(gpu,
             nvidia_persistenced={
                 "LoadState": "masked", "ActiveState": "inactive", "UnitFileState": "masked"}))
    assert (masked.state, masked.doing) == ("trouble", [])
    assert "yours says that nvidia-persistenced.service is masked" in masked.message


@pytest.mark.parametrize(("set_", "state"), [(True, "so"), (False, "wait")])
def test_a_clock_that_the_service_has_not_set_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_: bool, state: str,
) -> None:
    monkeypatch.setattr(system, "disciplined", lambda: set_)
    assert time_service(Told(tmp_path, chronyd=RUNS), True).state == state
    assert time_service(Told(tmp_path, chronyd=RUNS), False).state == "so"


def test_of_several_time_services_one_is_chosen_and_a_masked_one_is_not(tmp_path: Path) -> None:
    off = {"LoadState": "loaded", "ActiveState": "inactive", "UnitFileState": "disabled"}
    host = Told(tmp_path, systemd_timesyncd=off, chronyd=off)
    assert done(time_service(host, True)).state == "differs"
    assert host.asked == ["--quiet enable chronyd.service", "--quiet start chronyd.service"]
    masked = time_service(Told(tmp_path, chronyd={**off, "LoadState": "masked"}), True)
    assert masked.state == "trouble"
    assert "no time service is installed; chronyd.service is masked" in masked.message
    # One that runs and does not come again, beside one that would.
    host = Told(tmp_path, systemd_timesyncd={**off, "ActiveState": "active"}, chronyd=off)
    assert done(time_service(host, True)).change == [
        "systemd-timesyncd.service is enabled, so that it starts with the machine"]


def test_the_kernel_says_whether_its_clock_is_set() -> None:
    try:
        assert system.disciplined() in (True, False)
    except Unseen as error:
        assert str(error).startswith("adjtimex: ")


def test_comments_are_no_settings() -> None:
    assert plain("# a\n; b\n  c = 1 # d\ne=#f\n\n g\t;h\n") == ["c = 1", "e=#f", "g"]


FOREIGN = (
    "etc/security/limits.conf", "etc/sysctl.d/x.conf", "etc/modprobe.d/x.conf", "etc/modules-load.d/x.conf",
    "proc/cmdline", "etc/hostname", "proc/sys/kernel/hostname", "proc/sys/kernel/numa_balancing",
    "proc/sys/kernel/osrelease", SYSCTL[1:], LIMITS[1:], BLACKLIST[1:])
words = (st.sampled_from((b"*", b"-", b"hard", b"memlock", b"64", b"kernel.numa_balancing", b"=", b"1",
                          b"blacklist", b"nouveau", b"#", b"\n", b" ", b"install", b"/", b"[", b"..",
                          b"# Made by muster\n", b"modprobe.blacklist=")) | st.binary(max_size=4))
texts = st.lists(words, max_size=12).map(b" ".join)


@given(st.dictionaries(st.sampled_from(FOREIGN), texts))
def test_whatever_stands_in_files_each_item_stands_somehow_and_nothing_is_changed(
    files: dict[str, bytes],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "proc/driver/nvidia/gpus/0").mkdir(parents=True)
        (root / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
        (root / "sys/module/nvidia_peermem").mkdir(parents=True)
        (root / "proc/driver/nvidia/version").touch()
        for path, data in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        items = looked(
            LocalHost(folder), BaseSettings(sysctl={"kernel.numa_balancing": "0"}).document, "gpu001", True)
        assert [item.name for item in items] == list(ITEMS)
        for item in items:
            report = json.loads(json.dumps(item.report()))
            assert report["stand"] in ("so", "differs", "trouble", "absent", "unseen")
            assert (report["stand"] == "differs") == bool(report["change"])
            # What is so of a file is so in it: no other's word is taken for ours.
            if item.name == "sysctl" and report["stand"] == "so":
                assert files["proc/sys/kernel/numa_balancing"].split() == [b"0"]
        assert {
            str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*")
            if path.is_file() and path.stat().st_size} == {path: data for path, data in files.items() if data}
