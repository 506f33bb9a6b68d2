"""Network devices of which the inventory says that nothing is to be read: no file of theirs is opened, and
every result says so."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.counter import COUNTERS
from healthcheck.facts.netdev import NETDEV
from healthcheck.facts.optics import HWMON, MLXLINK
from healthcheck.facts.port import SYSFS
from healthcheck.facts.roce import ETHTOOL
from healthcheck.judge.leftout import addresses, left_out
from healthcheck.model.outcome import Result, Status
from healthcheck.model.recording import Capture, Outcome, Recording
from inventory.model import Node, PortPlan, Privilege
from inventory.transport.base import Program
from inventory.transport.frame import shell_command
from tests.healthcheck import machine
from tests.healthcheck.assessing import by_rule
from tests.testbed import collector

PROBES = (COUNTERS, SYSFS, NETDEV, HWMON, MLXLINK, ETHTOOL)
IN_OPEN = 0x20
ADAPTERS = {"mlx5_0": "0000:18:00.0", "mlx5_4": "0000:05:00.0", "mlx5_5": "0000:05:00.1"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Three adapters with an interface each, as sysfs shows them: links into the folders of their PCI
    devices."""
    for number, (name, address) in enumerate(ADAPTERS.items()):
        device = tmp_path / "sys/devices/pci0000:00" / address
        for path, text in {
            "uevent": f"DRIVER=mlx5_core\nPCI_ID=15B3:1021\nPCI_SLOT_NAME={address}\n",
            f"infiniband/{name}/ports/1/state": "4: ACTIVE\n",
            f"infiniband/{name}/ports/1/counters/symbol_error": "0\n",
            f"infiniband/{name}/ports/1/counters/link_downed": "0\n",
            f"net/eth{number}/speed": "400000\n", f"net/eth{number}/mtu": "4200\n",
            "hwmon/hwmon1/temp1_input": "51000\n",
        }.items():
            (device / path).parent.mkdir(parents=True, exist_ok=True)
            (device / path).write_text(text)
        (device / f"infiniband/{name}/device").symlink_to("../..")
        (device / f"net/eth{number}/device").symlink_to("../..")
        for kind, of in (("infiniband", name), ("net", f"eth{number}")):
            (tmp_path / "sys/class" / kind).mkdir(parents=True, exist_ok=True)
            (tmp_path / "sys/class" / kind / of).symlink_to(f"../../devices/pci0000:00/{address}/{kind}/{of}")
    (tmp_path / "usr/bin").mkdir(parents=True)
    for name in ("mlxlink", "ethtool"):
        path = tmp_path / "usr/bin" / name
        path.write_text(f"#!/bin/sh\necho \"$@\" >>{tmp_path}/asked\n")
        path.chmod(0o755)
    return tmp_path


@contextmanager
def watching(folder: Path) -> Iterator[list[str]]:
    """Afterwards the list holds every file below this folder that anybody has opened meanwhile
    (inotify(7))."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_NONBLOCK)
    watched = {libc.inotify_add_watch(fd, bytes(path), IN_OPEN): path for path in folder.rglob("*")
               if path.is_file()}
    assert watched and -1 not in watched
    opened: list[str] = []
    try:
        yield opened
        while True:
            try:
                data = os.read(fd, 4096)
            except BlockingIOError:
                break
            while data:
                number, length = int.from_bytes(data[:4], "little"), int.from_bytes(data[12:16], "little")
                opened.append(watched[number].name)
                data = data[16 + length:]
    finally:
        os.close(fd)


def snapshot(tree: Path, *patterns: str) -> Recording:
    return collector.collect(PROBES, tree, after=[f"without={pattern}" for pattern in patterns])


@pytest.mark.parametrize("pattern", ["0000:05:00.0", "*:05:00.0", "mlx5_4"])
def test_no_file_of_a_device_that_is_left_out_is_opened_and_its_commands_are_not_run(
    tree: Path, pattern: str,
) -> None:
    with watching(tree / "sys/devices/pci0000:00/0000:05:00.0/infiniband") as opened:
        seen = snapshot(tree, pattern)
    assert opened == []
    assert not [path for capture in seen.captures.values() for path in capture.files if "mlx5_4" in path]
    assert ([path for path in seen.captures[COUNTERS.id].files if "mlx5_5" in path]
            and "mlx5_4" not in (tree / "asked").read_text())
    for probe in (COUNTERS, SYSFS, HWMON, MLXLINK):
        assert seen.captures[probe.id].note == "left out: mlx5_4 (0000:05:00.0)"


def test_an_address_leaves_out_the_interface_too_and_a_name_only_what_is_called_so(tree: Path) -> None:
    by_address = snapshot(tree, "0000:05:00.*")
    assert {path.split("/")[4] for path in by_address.captures[NETDEV.id].files
            if path.startswith("/sys/class/net/")} == {"eth0"}
    assert left_out(by_address.captures)[NETDEV.id] == ("eth1 (0000:05:00.0)", "eth2 (0000:05:00.1)")
    by_name = snapshot(tree, "eth1")
    assert (left_out(by_name.captures)[NETDEV.id] == ("eth1 (0000:05:00.0)",)
            and COUNTERS.id not in left_out(by_name.captures))
    assert "/sys/class/infiniband/mlx5_4/device/net/eth1" not in by_name.captures[ETHTOOL.id].files


def test_without_the_word_the_same_files_are_opened(tree: Path) -> None:
    with watching(tree / "sys/devices/pci0000:00/0000:05:00.0/infiniband") as opened:
        seen = snapshot(tree)
    assert "symbol_error" in opened and not left_out(seen.captures)


# ---- what is said of it

def judged(seen: Recording, **more: object) -> Mapping[str, Result]:
    return by_rule(seen, nodes=[replace(Node(name="gpu001", sku="hgx-h100"),
                                        **more)])  # type: ignore[arg-type]


def without(device: str, address: str) -> Recording:
    """The healthy machine, looked at without one of its adapters."""
    seen = machine.recording()
    captures = dict(seen.captures)
    for name in ("port.sysfs", "port.counters", "hca.sysfs"):
        held = captures[name]
        files = {path: entry for path, entry in held.files.items() if f"/{device}/" not in path}
        captures[name] = replace(held, files=files, note=f"left out: {device} ({address})")
    return replace(seen, captures=captures)


def address_of(device: str) -> str:
    text = machine.captures()["port.sysfs"].files[f"/sys/class/infiniband/{device}/device/uevent"].text
    return text.partition("PCI_SLOT_NAME=")[2].split()[0]


def test_a_pass_over_what_was_left_is_no_silent_one() -> None:
    results = judged(without("mlx5_7", address_of("mlx5_7")))
    findings_of = f"not read, as the inventory says: mlx5_7 ({address_of('mlx5_7')})"
    for rule in ("port-state", "port-rate"):
        assert (results[rule].status, results[rule].reason) == (Status.PASS, findings_of)
    assert findings_of not in results["gpu-count"].reason


def test_a_port_that_was_not_read_is_not_called_missing_and_not_called_there() -> None:
    seen = without("mlx5_7", address_of("mlx5_7"))
    result = judged(seen)["port-count"]
    assert result.status is Status.UNKNOWN and "7 ports found, 1 adapter not read" in result.reason
    plans = {address_of(f"mlx5_{number}"): PortPlan("compute", number) for number in range(8)}
    assert judged(seen, ports=plans)["port-count"].status is Status.PASS
    gone = {**plans, "0000:ff:00.0": PortPlan("compute", 8)}
    assert judged(seen, ports=gone)["port-count"].status is Status.FAIL


@given(st.text())
def test_whatever_a_note_holds_it_names_devices_or_none(note: str) -> None:
    for text in (note, f"left out: {note}"):
        found = left_out({"port.counters": Capture(Outcome.DONE, note=text)})
        assert all(name == "port.counters" for name in found) and all(address for address in addresses(found))


# ---- how the node is told

def test_the_words_for_one_node_stand_at_the_end_of_its_command_line_alone() -> None:
    node = Node(name="gpu001", privilege=Privilege.HELPER, unread=("mlx5_4", "0000:05:00.*"))
    assert (node.words == ("helper", "without=mlx5_4", "without=0000:05:00.*")
            and Node(name="gpu002").words == ())
    line = shell_command(Program("n0nce", "loader", b""), "python3", become=False, words=node.words)
    assert line.endswith("n0nce helper without=mlx5_4 'without=0000:05:00.*'")


def test_a_helper_that_cannot_be_told_is_not_asked_about_network_devices(tree: Path) -> None:
    seen = collector.collect([MLXLINK], tree, after=["helper", "without=mlx5_4"], before=unprivileged())
    assert seen.captures[MLXLINK.id].outcome is Outcome.DENIED
    assert seen.captures[MLXLINK.id].note == "the root-owned helper cannot leave out devices"


def unprivileged() -> list[str]:
    """Words that make root somebody else; the helper is for those who are not root."""
    if os.geteuid():
        return []
    return ["setpriv", "--reuid=65534", "--clear-groups"]
