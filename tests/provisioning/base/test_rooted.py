"""Base configuration by the program that nodes get, run for real on a root folder of its own."""

from __future__ import annotations

import ast
import dataclasses
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from healthcheck.collector import joined
from healthcheck.collector.loader import LOADER, payload
from inventory.model import Node
from inventory.transport.base import Reply
from inventory.transport.local import LocalTransport
from provisioning.base import send
from provisioning.base.desired import ITEMS, BaseSettings
from provisioning.base.onnode.item import HEADER
from provisioning.base.report import BaseReport, ItemState, read
from tests.healthcheck.agent.world import python
from tests.testbed.heldanswer import at_its_answer, is_free
from tests.testbed.require import require

NODE = Node("gpu001", python=sys.executable)
WISH = BaseSettings(sysctl={"kernel.numa_balancing": "0"})
LIMITS, SYSCTL = "etc/security/limits.d/muster.conf", "etc/sysctl.d/90-muster.conf"
NOUVEAU, PEERMEM = "etc/modprobe.d/muster-nouveau.conf", "etc/modules-load.d/muster.conf"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A GPU machine with a driver and RDMA, and no systemd."""
    top = tmp_path / "root"
    for path, text in {
        "proc/sys/kernel/hostname": "ubuntu\n", "proc/sys/kernel/numa_balancing": "1\n",
        "proc/sys/kernel/osrelease": "6.8.0\n", "proc/driver/nvidia/version": "NVRM\n",
        "proc/driver/nvidia/gpus/0000:18:00.0/information": "\n", "proc/cmdline": "ro quiet\n",
        "lib/modules/6.8.0/modules.dep": "updates/dkms/nvidia-peermem.ko.zst: x\nkernel/nvidia.ko:\n",
        "etc/hostname": "ubuntu\n",
        "etc/security/limits.conf": "# * soft memlock 64\n@students hard memlock 64\n",
        "sys/class/infiniband/mlx5_0/name": "\n", "sys/module/nvidia_peermem/initstate": "live\n",
        "run/lock": ""}.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text)
    return top


def look(root: Path, desired: BaseSettings = WISH, node: Node = NODE) -> BaseReport:
    (report,) = send.look([node], LocalTransport(), desired, root=str(root))
    return report


def make(root: Path, desired: BaseSettings = WISH, **more: object) -> BaseReport:
    (report,) = send.make([NODE], LocalTransport(), desired, root=str(root), **more)  # type: ignore[arg-type]
    return report


def hows(report: BaseReport) -> dict[str, ItemState]:
    assert report.answered, report.message
    return {item.name: item.how for item in report.items}


def said(report: BaseReport, name: str) -> str:
    return next(item.message for item in report.items if item.name == name)


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_look_tells_the_whole_diff_and_changes_nothing(root: Path) -> None:
    before = files(root)
    report = look(root)
    assert hows(report) == {
        "time": ItemState.ABSENT, "clock": ItemState.SO, "host_name": ItemState.DIFFERS,
        "memlock": ItemState.DIFFERS, "persistence": ItemState.ABSENT, "nouveau": ItemState.DIFFERS,
        "peermem": ItemState.DIFFERS, "sysctl": ItemState.DIFFERS}
    assert report.change == (
        "host_name: /etc/hostname", "host_name: - ubuntu", "host_name: + gpu001", "host_name: the kernel's",
        "host_name: - ubuntu", "host_name: + gpu001", "memlock: /etc/security/limits.d/muster.conf (new)",
        "memlock: + * - memlock unlimited", "memlock: + root - memlock unlimited",
        "nouveau: /etc/modprobe.d/muster-nouveau.conf (new)", "nouveau: + blacklist nouveau",
        "nouveau: + options nouveau modeset=0", "peermem: /etc/modules-load.d/muster.conf (new)",
        "peermem: + nvidia_peermem", "sysctl: /etc/sysctl.d/90-muster.conf (new)",
        "sysctl: + kernel.numa_balancing = 0", "sysctl: kernel.numa_balancing", "sysctl: - 1", "sysctl: + 0")
    assert files(root) == before
    assert not report.done


def test_what_was_made_so_is_so_at_the_next_look_and_nothing_is_written_twice(root: Path) -> None:
    first = make(root)
    assert first.changed == ("host_name", "memlock", "nouveau", "peermem", "sysctl")
    assert first.done
    assert first.failed == {}
    assert (root / "etc/hostname").read_text() == "gpu001\n"
    assert (root / "proc/sys/kernel/numa_balancing").read_text() == "0\n"
    assert (root / SYSCTL).read_text() == HEADER + "kernel.numa_balancing = 0\n"
    times = {path: (root / path).stat().st_mtime_ns for path in files(root)}
    assert look(root).done
    again = make(root)
    assert again.done
    assert again.changed == ()
    assert {path: (root / path).stat().st_mtime_ns for path in files(root)} == times


@pytest.mark.parametrize(
    ("path", "text", "item", "says"),
    [("etc/security/limits.d/site.conf", "* hard memlock 65536\n", "memlock",
      "yours says `* hard memlock 65536`"),
     ("etc/security/limits.conf", "root soft memlock 64 # old\n", "memlock",
      "yours says `root soft memlock 64`"),
     (LIMITS, "# ours\n* - memlock 1024\n", "memlock", "is not muster's; yours says: * - memlock 1024"),
     ("etc/sysctl.d/10-site.conf", "kernel/numa_balancing=1\n", "sysctl",
      "yours says `kernel.numa_balancing = 1`"),
     ("etc/sysctl.conf", "-kernel.numa_* = 2\n", "sysctl", "yours says `kernel.numa_* = 2`"),
     ("usr/lib/sysctl.d/99-late.conf", "kernel.numa_balancing = 1\n", "sysctl", "yours says"),
     (SYSCTL, "kernel.numa_balancing = 1\n", "sysctl", "is not muster's"),
     (NOUVEAU, "options nouveau modeset=1\n", "nouveau", "is not muster's"),
     (PEERMEM, "ib_umad\n", "peermem", "is not muster's")])
def test_what_somebody_else_says_otherwise_is_trouble_and_is_left_as_it_is(
    root: Path, path: str, text: str, item: str, says: str,
) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)
    report = look(root)
    assert hows(report)[item] is ItemState.TROUBLE
    assert says in said(report, item)
    assert "base: in muster's rules" in said(report, item)
    made = make(root)
    assert (root / path).read_text() == text
    assert item not in made.changed
    assert not made.done
    # And the others were made so anyway.
    assert len(made.changed) == 4


@pytest.mark.parametrize(("path", "text", "item"), [
    (LIMITS, "* - memlock unlimited\nroot - memlock unlimited\n", "memlock"),
    ("etc/modprobe.d/blacklist.conf", "blacklist nouveau\n", "nouveau"),
    ("usr/lib/modprobe.d/nvidia.conf", "install nouveau /bin/false\n", "nouveau"),
    ("proc/cmdline", "ro modprobe.blacklist=foo,nouveau quiet\n", "nouveau"),
    ("etc/modules-load.d/nvidia.conf", "nvidia-peermem\n", "peermem"),
])
def test_what_somebody_else_says_alike_is_so(root: Path, path: str, text: str, item: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)
    assert hows(look(root))[item] is ItemState.SO


@pytest.mark.parametrize(("path", "text"),
                         [("usr/lib/sysctl.d/50-default.conf", "kernel.numa_balancing = 1\n"),
                          ("etc/security/limits.d/x.conf", "jane hard memlock 64\n"),
                          ("etc/security/limits.d/x.conf", "* hard nofile 64\n"),
                          ("etc/sysctl.d/10-site.conf", "kernel.numa_balancing_scan = 1\n")])
def test_a_packages_default_before_ours_or_another_matter_is_no_trouble(
    root: Path, path: str, text: str,
) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)
    assert make(root).done


def test_a_link_in_place_of_our_file_is_not_written_through(root: Path) -> None:
    (root / SYSCTL).parent.mkdir(parents=True)
    (root / "victim").write_text("precious\n")
    (root / SYSCTL).symlink_to(root / "victim")
    assert hows(make(root))["sysctl"] is ItemState.TROUBLE
    assert (root / "victim").read_text() == "precious\n"


def test_our_own_file_is_brought_up_to_date_and_its_diff_shown(root: Path) -> None:
    make(root, BaseSettings(sysctl={"kernel.numa_balancing": "1"}))
    report = look(root)
    assert [line for line in report.change if line.startswith("sysctl")][:3] == [
        "sysctl: /etc/sysctl.d/90-muster.conf", "sysctl: - kernel.numa_balancing = 1",
        "sysctl: + kernel.numa_balancing = 0"]
    assert make(root).done
    (root / SYSCTL).chmod(0o600)
    assert look(root).change == ("sysctl: /etc/sysctl.d/90-muster.conf", "sysctl: written anew")


def test_what_does_not_apply_or_is_left_out_is_said_and_not_passed(root: Path) -> None:
    (root / "proc/driver/nvidia/gpus/0000:18:00.0/information").unlink()
    (root / "proc/driver/nvidia/gpus/0000:18:00.0").rmdir()
    report = look(root, BaseSettings(memlock=False, clock_seconds=None, sysctl={"kernel.nothing": "1"}))
    found = hows(report)
    assert (found["memlock"], found["clock"]) == (ItemState.OUT, ItemState.OUT)
    assert found["sysctl"] is ItemState.ABSENT
    assert said(report, "sysctl") == "this kernel has no kernel.nothing"
    assert (found["persistence"], found["peermem"]) == (ItemState.ABSENT, ItemState.ABSENT)
    assert said(report, "peermem") == "no NVIDIA GPU here"
    assert not [
        item for item in report.items if item.how in (ItemState.ABSENT, ItemState.OUT) and not item.message]


def test_a_gpu_without_a_driver_is_trouble(root: Path) -> None:
    (root / "proc/driver/nvidia/version").unlink()
    (root / "sys/bus/pci/devices/0000:18:00.0").mkdir(parents=True)
    (root / "sys/bus/pci/devices/0000:18:00.0/vendor").write_text("0x10de\n")
    (root / "sys/bus/pci/devices/0000:18:00.0/class").write_text("0x030200\n")
    assert "no NVIDIA driver is loaded" in said(look(root), "persistence")


def test_nouveau_that_is_loaded_is_trouble_even_when_it_is_kept_out_from_now_on(root: Path) -> None:
    (root / "sys/module/nouveau").mkdir(parents=True)
    report = make(root)
    assert "nouveau" in report.changed
    assert hows(report)["nouveau"] is ItemState.TROUBLE
    assert "initramfs" in said(report, "nouveau")


def test_a_name_with_a_domain_is_its_name_and_one_in_service_is_not_renamed(root: Path) -> None:
    report = make(root, fixed=["gpu001"])
    assert "muster inventory lifecycle gpu001 bringup" in said(report, "host_name")
    assert (root / "etc/hostname").read_text() == "ubuntu\n"
    for path in ("etc/hostname", "proc/sys/kernel/hostname"):
        (root / path).write_text("GPU001.cluster.example\n")
    assert hows(look(root))["host_name"] is ItemState.SO


def test_a_container_has_its_hosts_clock_and_kernel(root: Path) -> None:
    (root / "run/systemd").mkdir()
    (root / "run/systemd/container").write_text("systemd-nspawn\n")
    found = hows(look(root))
    assert (found["time"], found["sysctl"]) == (ItemState.ABSENT, ItemState.ABSENT)


def test_what_cannot_be_read_is_not_seen(root: Path) -> None:
    (root / "etc/sysctl.d/90-x.conf").mkdir(parents=True)
    report = look(root)
    assert hows(report)["sysctl"] is ItemState.UNSEEN
    assert said(report, "sysctl") == "/etc/sysctl.d/90-x.conf: Is a directory"
    (root / "etc/sysctl.d/90-x.conf").rmdir()
    (root / "etc/sysctl.d/90-x.conf").write_bytes(b"#" * (1 << 20) + b"##")
    assert "over" in said(look(root), "sysctl")


def test_neither_a_fifo_nor_a_pattern_without_end_in_a_folder_of_settings_holds_the_look_up(
    root: Path,
) -> None:
    (root / "etc/sysctl.d").mkdir(exist_ok=True)
    (root / "etc/sysctl.d/50-x.conf").write_text("[" * 100_000 + " = 1\n")
    assert hows(look(root))["sysctl"] is ItemState.DIFFERS
    os.mkfifo(root / "etc/sysctl.d/60-x.conf")
    assert said(look(root), "sysctl") == "/etc/sysctl.d/60-x.conf is a FIFO"


def test_one_item_that_cannot_be_made_so_does_not_keep_the_others(root: Path) -> None:
    (root / "etc/modprobe.d").write_text("a file where a folder should be\n")
    report = make(root)
    assert list(report.failed) == ["nouveau"]
    assert report.changed == ("host_name", "memlock", "peermem", "sysctl")
    assert not report.done


def test_a_clock_that_is_off_is_seen_however_long_the_answer_took(root: Path) -> None:
    class Off(LocalTransport):
        def __init__(self, received: float, took: float) -> None:
            self.received, self.took = received, took

        def run(self, nodes, program, limits):  # type: ignore[no-untyped-def]
            for reply in super().run(nodes, program, limits):
                now = time.time() + self.received
                yield dataclasses.replace(reply, started=now - self.took, received=now)

    def clock(received: float, took: float) -> tuple[ItemState, str]:
        (report,) = send.look([NODE], Off(received, took), WISH, root=str(root))
        return hows(report)["clock"], said(report, "clock")

    assert clock(3, 1)[0] is ItemState.SO
    assert clock(300, 299)[0] is ItemState.SO          # a slow way explains it
    how, why = clock(300, 2)
    assert how is ItemState.TROUBLE
    assert why.startswith("298 s behind the head's, and 5 s are allowed")
    assert clock(-60, 2)[1].startswith("60 s ahead of the head's")


def test_killed_anywhere_it_leaves_whole_files_and_doing_it_again_ends_it(root: Path) -> None:
    whole = {
        LIMITS: HEADER + "* - memlock unlimited\nroot - memlock unlimited\n",
        SYSCTL: HEADER + "kernel.numa_balancing = 0\n", PEERMEM: HEADER + "nvidia_peermem\n",
        "etc/hostname": "gpu001\n"}
    sent = payload(joined.joined(send._CHECK_PARTS).encode(),
                   json.dumps({"make": True, "root": str(root), "desired": WISH.document}).encode())
    # A rename is what makes a file appear: killed before the first, the second and so on, each on a machine
    # of the state before.
    for kill_at in range(1, 6):
        loader = ("import os,signal;n=[0];r=os.rename\n"
                  "def rename(a,b):\n"
                  " n[0]+=1\n"
                  f" n[0]=={kill_at} and os.kill(os.getpid(),9)\n"
                  " r(a,b)\n"
                  "os.rename=rename\n"
                  f"{LOADER}")
        done = subprocess.run([sys.executable, "-I", "-S", "-c", loader, "nonce", "free", "gpu001"],
                              input=sent, capture_output=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        for path, text in whole.items():
            if (root / path).exists():
                assert (root / path).read_text() in (text, "ubuntu\n")
        assert len(list(root.rglob(".*.new"))) == 1
        make(root)
        assert look(root).done
        assert not list(root.rglob(".*.new"))
        for path in (LIMITS, SYSCTL, PEERMEM, NOUVEAU):
            (root / path).unlink()
        (root / "etc/hostname").write_text("ubuntu\n")
        (root / "proc/sys/kernel/hostname").write_text("ubuntu\n")


def test_two_at_once_are_not_at_work_on_one_machine(root: Path) -> None:
    lock = os.open(root / "run/muster-base", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    report = make(root)
    assert not report.ok
    assert "at work here" in report.message
    assert hows(report)["sysctl"] is ItemState.DIFFERS
    os.close(lock)
    assert make(root).done


def test_whoever_has_the_answer_may_begin_the_next_at_once(root: Path) -> None:
    with at_its_answer(lambda transport: send.make([NODE], transport, WISH, root=str(root))):
        assert (root / SYSCTL).exists() and is_free(root / "run/muster-base")


def test_without_root_it_looks_and_says_that_making_needs_root() -> None:
    # Imported before: where this Python lies no one else may read.
    become = (f"import __future__, {', '.join(sorted(imported(send._CHECK_PARTS)))};os.geteuid() or "
              f"os.setuid(65534);")
    asked = {"make": True, "root": "", "desired": BaseSettings(time=False, memlock=False).document}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", become + LOADER, "nonce", "free", "gpu001"], capture_output=True,
        check=False, input=payload(joined.joined(send._CHECK_PARTS).encode(), json.dumps(asked).encode()))
    body = done.stdout.partition(b"frame ")[2].partition(b"\n")[2]
    report = read(Reply("n", body, None, time.time() - 60, time.time()), 5.0)
    assert report.answered, done
    assert "needs root here" in report.message
    assert not report.done
    assert tuple(item.name for item in report.items if item.name != "clock") == ITEMS


def test_the_programs_are_python_3_8_and_of_the_standard_library() -> None:
    for parts in (send._CHECK_PARTS, send._WHO):
        assert imported(parts) <= set(sys.stdlib_module_names)
        tree = ast.parse(joined.joined(parts), feature_version=(3, 8))
        assert not [node for node in ast.walk(tree)
                    if isinstance(node, ast.ImportFrom) and node.module != "__future__"]


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_old_and_new_pythons_make_it_so(root: Path, version: str) -> None:
    found = python(version)
    require(found is not None, f"no Python {version} on this machine")
    node = dataclasses.replace(NODE, python=str(found))
    (report,) = send.make([node], LocalTransport(), WISH, root=str(root))
    assert report.done, report
    (met,) = send.identify([node], LocalTransport())
    assert met.failure is None
    assert met.boot


def imported(parts: tuple[Path, ...]) -> set[str]:
    """The modules that a program imports."""
    tree = ast.parse(joined.joined(parts))
    return {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
