"""The simulated node's tree, read by the facts that read real nodes."""

from __future__ import annotations

import json
import random
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from healthcheck.facts import docker, filesystem, gpu, host, kernel, port
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.values import reading
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Capture, FileCapture, Host, Outcome, Recording
from provisioning.demo import h100, machine
from provisioning.demo.machine import RDONLY, DemoMachine

PROBES = (gpu.PCI, port.SYSFS, filesystem.MOUNTS, kernel.LOG, host.MEMORY, host.SWAP, host.VERSIONS)
PROGRAMS = {"cat": "/bin/cat", "sleep": "/bin/sleep"}


def healthy(seed: int = 1) -> DemoMachine:
    return h100.healthy("gpu001", random.Random(seed))


def files(tree: Path, probe: Probe) -> dict[str, FileCapture]:
    paths = {
        f"/{path.relative_to(tree)}": path for pattern in probe.paths
            for path in tree.glob(pattern.lstrip("/"))}
    return {
        name: FileCapture(Outcome.DONE, path.read_text("utf-8", "surrogateescape"))
            for name, path in sorted(paths.items())}


def mounts(tree: Path) -> dict[str, FileCapture]:
    table = (line.split(" ", 1) for line in (tree / ".muster/statvfs").read_text().splitlines())
    found = {point: FileCapture(Outcome.DONE, figures) for point, figures in table}
    return {
        **found, filesystem.MOUNTINFO: FileCapture(Outcome.DONE, (tree / "proc/self/mountinfo").read_text())}


def look(tree: Path) -> dict[str, Any]:
    """The facts of a tree, as far as plain reading brings them."""
    captures = {
        probe.id: Capture(
            Outcome.DONE, files=mounts(tree) if probe.kind is ProbeKind.MOUNTS else files(tree, probe))
        for probe in PROBES}
    tool = subprocess.run([tree / "usr/bin/docker", *docker.INFO.argv[1:]], capture_output=True, text=True,
                          check=False, env={"MUSTER_ROOT": str(tree), "PATH": f"{tree}/usr/bin"})
    captures[
        docker.INFO.id] = Capture(Outcome.DONE, exit=tool.returncode, text=tool.stdout, stderr=tool.stderr)
    seen = Captures(
        Recording("gpu001", 0.0, Host("gpu001", "", 0.0, 0, "3.11", "x86_64", 0.0), None, captures))
    facts = {
        name: build_fact(FACTS[name], seen) for name in FACTS
            if name not in ("gpus", "gpu_presence", "clock")}
    bus = seen.files(gpu.PCI)
    return {**facts,
            "pci_gpus": [path.split("/")[-2] for path in bus if gpu.is_gpu(gpu.uevent(bus.text(path)))]}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    tree = tmp_path_factory.mktemp("node") / "root"
    machine.write(healthy(), tree, PROGRAMS)
    yield tree, look(tree)


def test_every_port_is_active_at_the_full_rate(seen: tuple[Path, dict[str, Any]]) -> None:
    ports = seen[1]["ports"]
    assert [found.name.split()[0] for found in ports] == [f"mlx5_{index}/1" for index in range(8)]
    said = {(found.state, found.phys_state, found.rate_gbps, found.link_layer) for found in ports}
    assert said == {("ACTIVE", "LinkUp", 400.0, "InfiniBand")}
    assert [found.pci for found in ports] == list(h100.HCAS) == list(h100.rails())
    assert all(isinstance(found.link_downed, int) for found in ports)


def test_sysfs_links_lead_from_class_and_bus_to_the_same_device(seen: tuple[Path, dict[str, Any]]) -> None:
    tree, _ = seen
    for index, address in enumerate(h100.HCAS):
        by_class = (tree / f"sys/class/infiniband/mlx5_{index}/device").resolve()
        by_bus = (tree / f"sys/bus/pci/devices/{address}").resolve()
        assert by_class == by_bus
        assert by_class.is_relative_to(tree.resolve() / "sys/devices")


def test_eight_gpus_are_on_the_bus_and_the_scenario_has_the_same(seen: tuple[Path, dict[str, Any]]) -> None:
    made = healthy()
    assert sorted(seen[1]["pci_gpus"]) == sorted(h100.GPUS)
    assert [made.scenario[f"gpu.{index}.pci"] for index in range(8)] == list(h100.GPUS)


def test_every_file_system_is_read_and_none_is_near_its_limit(seen: tuple[Path, dict[str, Any]]) -> None:
    found = {fs.name: fs for fs in seen[1]["filesystems"]}
    assert {"/", "/raid", "/boot/efi", "/mnt/home", "/dev/shm", "/run"} <= found.keys()
    assert {fs.fstype for fs in found.values()} >= {"ext4", "xfs", "vfat", "tmpfs", "nfs4", "overlay"}
    for fs in found.values():
        assert 0 <= fs.used_percent < 80, fs
        assert not fs.read_only, fs
    assert not isinstance(reading(found["/boot/efi"], "inodes_used_percent"), float)
    assert found["/"].size_bytes > 1.5e12


def test_the_log_is_made_of_records_with_rising_numbers_and_times(seen: tuple[Path, dict[str, Any]]) -> None:
    log = seen[1]["kernel_log"]
    lines = [line for line in log.records() if line.seconds is not None]
    assert 280 <= len(lines) <= 340
    assert log.caveat == ""
    times = [line.seconds for line in lines]
    assert times == sorted(times)
    assert lines[0].text.startswith("Linux version 6.5.0-1007-nvidia ")


def test_host_facts_are_those_of_the_machine(seen: tuple[Path, dict[str, Any]]) -> None:
    facts = seen[1]
    assert 2010 < facts["memory"].total_bytes / 2**30 < 2048
    assert facts["swap"].total_bytes == 0
    assert (facts["versions"].kernel, facts["versions"].driver) == (h100.KERNEL, h100.DRIVER)
    assert (facts["docker"].answers, facts["docker"].version, facts["docker"].storage_driver) == (
        True, "24.0.7", "overlay2")


def test_meminfo_has_the_kernels_columns() -> None:
    lines = h100.meminfo(h100.MEMORY_KB, random.Random(1)).splitlines()
    assert lines[0] == "MemTotal:       2113409204 kB"
    assert lines[3] == "Buffers:         1482112 kB"
    assert "HugePages_Total:       0" in lines
    assert "Hugepagesize:       2048 kB" in lines
    values = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    assert values["MemFree"] < values["MemAvailable"] < values["MemTotal"]


def test_nodes_differ_in_what_identifies_them_and_in_nothing_that_is_compared() -> None:
    first, second = healthy(1), healthy(2)
    for path in ("/proc/sys/kernel/random/boot_id", f"{h100.hca_folder(0)}/node_guid", "/proc/meminfo"):
        assert first.files[path] != second.files[path]
    assert first.scenario["gpu.0.uuid"] != second.scenario["gpu.0.uuid"]
    assert first.scenario["gpu.0.serial"] != second.scenario["gpu.0.serial"]
    for path in ("/proc/sys/kernel/osrelease", "/sys/module/nvidia/version", f"{h100.hca_folder(0)}/fw_ver"):
        assert first.files[path] == second.files[path]
    assert uuid.UUID(first.files["/proc/sys/kernel/random/boot_id"].strip()).version == 4


def test_the_same_seed_gives_the_same_node() -> None:
    assert healthy(7) == healthy(7)


def test_a_read_only_mount_says_so_twice() -> None:
    root = healthy().mount("/").read_only()
    assert root.line.endswith(" - ext4 /dev/nvme0n1p2 ro,errors=remount-ro")
    assert root.figures[8] & RDONLY


def test_a_mount_can_be_filled_without_touching_its_inodes() -> None:
    before = healthy().mount("/")
    full = before.used(space=0.997)
    assert full.figures[4] == 0
    assert full.figures[3] == pytest.approx(before.figures[2] * 0.003, rel=0.01)
    assert full.figures[5:] == before.figures[5:]


def test_a_record_that_is_added_comes_last_and_later() -> None:
    made = healthy()
    last = made.log[-1].split(b",")
    made.say("something", 3)
    added = made.log[-1].split(b",")
    assert added[0] == b"3"
    assert int(added[1]) == int(last[1]) + 1
    assert int(added[2]) > int(last[2])
    assert made.log[-1].endswith(b",-;something\n")


def test_the_docker_tool_prints_one_json_object(seen: tuple[Path, dict[str, Any]]) -> None:
    tree, _ = seen
    printed = subprocess.run([tree / "usr/bin/docker", "info"], capture_output=True, text=True, check=True,
                             env={"MUSTER_ROOT": str(tree), "PATH": f"{tree}/usr/bin"}).stdout
    assert json.loads(printed)["Name"] == "gpu001"
    wrong = subprocess.run([tree / "usr/bin/docker", "run"], capture_output=True, text=True, check=False,
                           env={"PATH": f"{tree}/usr/bin"})
    assert wrong.returncode == 1
    assert "is not a docker command" in wrong.stderr
