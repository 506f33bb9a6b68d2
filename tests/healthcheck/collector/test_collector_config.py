"""What the reader makes of configuration spaces: real binary files, whole, cut, looped, all ones, and read by
someone who is not root."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.collector.onnode.config import registers
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.pcie_config import CONFIG
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Capture, FileCapture, Outcome
from provisioning.demo.pciconfig import DOWNSTREAM, ENDPOINT, ROOT, UPSTREAM, space
from tests.testbed.collector import collect

GPU = space(ENDPOINT, "10DE:2330", 0x030200, read_request=4096)
PORT = space(DOWNSTREAM, "1000:C030", 0x060400, buses=(0x17, 0x18, 0x18), acs=0x1D)
TOP, SWITCH = "/sys/devices/pci0000:15/0000:15:01.0", "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0"
DOWN, DEVICE = f"{SWITCH}/0000:17:00.0", f"{SWITCH}/0000:17:00.0/0000:18:00.0"
TREE = {
    TOP: space(ROOT, "8086:352A", 0x060400, acs=0x1D), SWITCH: space(UPSTREAM, "1000:C030", 0x060400),
    DOWN: PORT, DEVICE: GPU,
}


def said(data: bytes) -> tuple[str, str]:
    """Outcome and words for a space that holds this; an error of the system is what the reader makes of
    it."""
    fd = os.memfd_create("space")
    try:
        os.write(fd, data)
        outcome, text = registers(fd)
        return outcome, text.decode()
    except PermissionError:
        return "denied", ""
    finally:
        os.close(fd)


def put(data: bytes, at: int, *values: int) -> bytes:
    return data[:at] + bytes(values) + data[at + len(values):]


@pytest.mark.parametrize(("data", "expected"), [
    (GPU, ("done", "flags 0002\ndevcap 00008022\ndevctl 515f\n")),
    (PORT, ("done", "flags 0062\ndevcap 00008022\ndevctl 215f\nacs 005f 001d\n")),
    (TREE[SWITCH], ("done", "flags 0052\ndevcap 00008022\ndevctl 215f\n")),
    # another capability there
    (put(PORT, 0x150, 0x0B), ("done", "flags 0062\ndevcap 00008022\ndevctl 215f\nacs 0000 0000\n")),
    # no room for extended ones
    (PORT[:256], ("done", "flags 0062\ndevcap 00008022\ndevctl 215f\nacs 0000 0000\n")),
    (put(GPU, 0x06, 0x00), ("done", "conventional\n")),
    (put(GPU, 0x40, 0x01, 0x00), ("done", "conventional\n")),
    (put(GPU, 0x41, 0x40), ("crashed", "the list of its capabilities has no end")),
    (put(PORT, 0x103, 0x10), ("crashed", "the list of its extended capabilities has no end")),
    (b"\xff" * 4096, ("crashed", "all ones: the device does not answer")),
    (put(PORT, 0x150, *[0xFF] * 4), ("crashed", "all ones: the device does not answer")),
    (GPU[:64], ("denied", "")), (GPU[:0x66], ("denied", "")), (PORT[:0x154], ("denied", "")),
    (GPU[:32], ("denied", "")),
])
def test_a_space_is_read_as_it_is_documented_or_not_at_all(data: bytes, expected: tuple[str, str]) -> None:
    assert said(data) == expected


def test_cut_at_any_byte_a_space_says_the_same_or_nothing_but_that_it_has_no_room() -> None:
    whole = said(PORT)
    cut = {end: said(PORT[:end]) for end in range(0x160)}
    assert {found for end, found in cut.items() if end > 0x100} == {("denied", ""), whole}
    assert {found[0] for end, found in cut.items() if end < 0x6C} == {"denied"}


@given(st.binary(max_size=4096), st.dictionaries(st.integers(0, 4095), st.integers(0, 255), max_size=40))
def test_any_bytes_are_words_denied_or_odd_and_end(data: bytes, changes: dict[int, int]) -> None:
    changed = bytearray(PORT)
    for at, value in changes.items():
        changed[at] = value
    for space_held in (data, bytes(changed)):
        outcome, text = said(space_held)
        assert outcome in ("done", "denied", "crashed") and len(text) < 80


def test_of_a_long_space_few_bytes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real: Callable[[int, int, int], bytes] = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: read.append(size) or real(fd, size, at))
    assert said(PORT)[0] == "done"
    assert sum(read) == 64 + 2 + 2 + 12 + 4 + 4 + 4


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    for folder, data in TREE.items():
        at = tmp_path / folder.lstrip("/")
        at.mkdir(parents=True, exist_ok=True)
        (at / "config").write_bytes(data)
    link(tmp_path, "nvidia", DEVICE)
    return tmp_path


def link(tree: Path, driver: str, folder: str) -> None:
    """A device in its driver's folder, beside what else sysfs keeps there."""
    at = tree / "sys/bus/pci/drivers" / driver
    at.mkdir(parents=True, exist_ok=True)
    (at / "bind").write_text("")
    (at / folder.rpartition("/")[2]).symlink_to(f"../../../..{folder.removeprefix('/sys')}")


def look(tree: Path) -> Capture:
    return collect([CONFIG], tree, seconds=20.0, mark=str(tree)).captures[CONFIG.id]


def test_a_device_and_every_port_above_it_are_read_under_the_paths_of_their_own_folders(tree: Path) -> None:
    capture = look(tree)
    assert capture.outcome is Outcome.DONE
    assert [(path, entry.outcome) for path, entry in capture.files.items()] == [
        (f"{folder}/config", Outcome.DONE) for folder in (TOP, SWITCH, DOWN, DEVICE)]
    assert capture.files[f"{DEVICE}/config"].text.startswith("driver nvidia\nflags 0002\n")
    assert capture.files[f"{DOWN}/config"].text.endswith("acs 005f 001d\n")


def test_a_port_above_two_devices_is_read_once(tree: Path) -> None:
    other = f"{SWITCH}/0000:17:01.0/0000:1b:00.0"
    (tree / other.lstrip("/")).mkdir(parents=True)
    for folder, data in ((other, GPU), (other.rpartition("/")[0], PORT)):
        (tree / folder.lstrip("/") / "config").write_bytes(data)
    link(tree, "mlx5_core", other)
    assert len(look(tree).files) == 6


def test_a_virtual_function_is_left_out(tree: Path) -> None:
    (tree / DEVICE.lstrip("/") / "physfn").symlink_to("../0000:18:00.1")
    assert look(tree).files == {}


def test_a_space_of_which_64_bytes_are_shown_is_denied_and_the_others_are_kept(tree: Path) -> None:
    (tree / DOWN.lstrip("/") / "config").write_bytes(PORT[:64])
    (tree / TOP.lstrip("/") / "config").unlink()
    files = look(tree).files
    assert files[f"{DOWN}/config"] == FileCapture(Outcome.DENIED)
    assert (files[f"{TOP}/config"].outcome is Outcome.MISSING
            and files[f"{DEVICE}/config"].outcome is Outcome.DONE)


def test_a_device_that_fell_off_the_bus_is_named_and_is_no_measurement(tree: Path) -> None:
    (tree / DEVICE.lstrip("/") / "config").write_bytes(b"\xff" * 4096)
    seen = collect([CONFIG], tree, seconds=20.0, mark=str(tree))
    fact = build_fact(FACTS["pcie_config"], Captures(seen))
    assert fact.reason == f"{DEVICE}/config: reading it failed (all ones: the device does not answer)"


def test_a_link_that_is_none_and_a_node_without_any_device_are_reported_apart(tree: Path) -> None:
    at = tree / "sys/bus/pci/drivers/nvidia/0000:18:00.0"
    at.unlink()
    assert look(tree).files == {}
    at.write_text("")
    assert [entry.outcome for entry in look(tree).files.values()] == [Outcome.CRASHED]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody who may not")
def test_this_machines_kernel_shows_its_devices_to_root_and_to_no_one_else() -> None:
    """Real spaces, where this machine has any whose list of capabilities is not empty."""
    devices = Probe("it", ProbeKind.CONFIG, paths=("/sys/bus/pci/devices/*:*",))
    spaces = [path for path in Path("/sys/bus/pci/devices").glob("*/config") if path.read_bytes()[6] & 0x10]
    if not spaces:
        pytest.skip("no PCI device with capabilities here")
    for before, outcome in ((), Outcome.DONE), (
            ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"), Outcome.DENIED):
        files = collect([devices], Path("/"), seconds=20.0, before=before).captures["it"].files
        found = {path.split("/")[-2]: entry.outcome for path, entry in files.items()}
        assert {found[space.parent.name] for space in spaces} == {outcome}
