"""Each fault changes what it says it changes, and nothing else; the plan is fair and repeatable."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioning.demo import faults, h100, machine
from provisioning.demo.machine import Access, DemoMachine, HostKey

NAMES = tuple(faults.FAULTS)


def healthy() -> DemoMachine:
    return h100.healthy("gpu001", random.Random(1))


def broken(name: str) -> DemoMachine:
    made = healthy()
    faults.plant(made, (name,), random.Random(2))
    return made


def changed_files(name: str) -> dict[str, str | None]:
    """What differs in files, by path; None for a file that is gone."""
    before, after = healthy().files, broken(name).files
    return {
        path: after.get(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def changed_scenario(name: str) -> dict[str, str | None]:
    before, after = healthy().scenario, broken(name).scenario
    return {key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


CHANGES: dict[str, Callable[[DemoMachine], object]] = {
    "refused": lambda made: made.access is Access.REFUSED,
    "silent": lambda made: made.access is Access.SILENT,
    "host-key-changed": lambda made: made.host_key is HostKey.CHANGED,
    "host-key-unknown": lambda made: made.host_key is HostKey.UNKNOWN,
    "login-hangs": lambda made: made.login == "exec sleep 86400",
    "python-missing": lambda made: "python3" not in made.programs,
    "ecc-uncorrectable": lambda made: [key[6:] for key in changed_scenario("ecc-uncorrectable")]
        == ["ecc.volatile.uncorrected"],
    "gpu-lost": lambda made: list(changed_scenario("gpu-lost").values()) == ["15"],
    "port-down": lambda made: {
        path.rpartition("/")[2]: text for path, text in changed_files("port-down").items()}
        == {"state": "1: DOWN\n", "phys_state": "3: Disabled\n", "rate": "10 Gb/sec (4X SDR)\n"},
    "port-slow": lambda made: list(changed_files("port-slow").values()) == ["200 Gb/sec (4X HDR)\n"],
    "link-flapping": lambda made: made == healthy(),
    "disk-full": lambda made: made.mount("/").figures[4] == 0,
    "inodes-full": lambda made: made.mount("/raid").figures[6] < 0.01 * made.mount("/raid").figures[5],
    "read-only": lambda made: made.mount("/").figures[8] & 1,
    "xid": lambda made: b": 79, pid=" in made.log[-2],
    "hardware-error": lambda made: b"[Hardware Error]: CPU " in made.log[-3],
    "kernel-drift": lambda made: changed_files("kernel-drift")
        == {"/proc/sys/kernel/osrelease": "6.5.0-1014-nvidia\n"},
    "driver-drift": lambda made: changed_scenario("driver-drift")["driver.version"] == "550.54.15",
    "clock-unsynchronised": lambda made: made.clock["state"] == 5 and made.clock["status"] & 0x40,
    "swap-on": lambda made: changed_files("swap-on").keys() == {"/proc/swaps", "/proc/meminfo"},
    "memory-missing": lambda made: "MemTotal:       2046300340 kB\n" in made.files["/proc/meminfo"],
    "docker-down": lambda made: "Cannot connect to the Docker daemon" in made.tools["docker"],
    "docker-hangs": lambda made: "sleep" in made.tools["docker"],
    "hostile-bytes": lambda made: b"\x1b[2J" in b"".join(made.log) and b"\x00" in b"".join(made.log)
        and made.login.startswith("printf"), "gpu-missing": lambda made: made.scenario["gpu.count"] == "7"}


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_breaks_what_it_names(name: str) -> None:
    assert CHANGES[name](broken(name))


PARTS = ("files", "links", "tools", "mounts", "scenario", "clock", "log", "programs", "login", "access",
         "host_key")
TOUCHES = {
    "refused": {"access"}, "silent": {"access"}, "host-key-changed": {"host_key"},
    "host-key-unknown": {"host_key"}, "login-hangs": {"login"}, "python-missing": {"programs"},
    "ecc-uncorrectable": {"scenario"}, "gpu-lost": {"scenario"},
    "gpu-missing": {"files", "links", "scenario"}, "port-down": {"files"}, "port-slow": {"files"},
    "link-flapping": set(), "disk-full": {"mounts"}, "inodes-full": {"mounts"}, "read-only": {"mounts"},
    "xid": {"log"}, "hardware-error": {"log"}, "kernel-drift": {"files"},
    "driver-drift": {"files", "scenario"}, "clock-unsynchronised": {"clock"}, "swap-on": {"files"},
    "memory-missing": {"files"}, "docker-down": {"tools"}, "docker-hangs": {"tools"},
    "hostile-bytes": {"log", "login", "tools"}}


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_leaves_everything_else_alone(name: str) -> None:
    before, after = healthy(), broken(name)
    assert {part for part in PARTS if getattr(before, part) != getattr(after, part)} == TOUCHES[name]


def test_a_missing_gpu_is_gone_from_bus_and_driver_alike() -> None:
    made = broken("gpu-missing")
    on_bus = sorted({path.rpartition("/")[2] for path in made.links} & set(h100.GPUS))
    assert len(on_bus) == 7
    assert [made.scenario[f"gpu.{index}.pci"] for index in range(7)] == on_bus
    assert not any(key.startswith("gpu.7.") for key in made.scenario)


def test_every_fault_says_what_it_breaks() -> None:
    assert all(fault.__doc__ for fault in faults.FAULTS.values())


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(KeyError):
        faults.plant(healthy(), ("no-such-fault",), random.Random(1))


def test_a_flapping_link_shows_only_as_time_passes(tmp_path: Path) -> None:
    machine.write(broken("link-flapping"), tmp_path / "root", {})
    counter = tmp_path / "root/sys/class/infiniband/mlx5_4/ports/1/counters/link_downed"
    before = {
        path: path.read_bytes() for path in (tmp_path / "root").rglob("*")
            if path.is_file() and not path.is_symlink()}
    faults.advance(tmp_path / "root", ())
    assert all(path.read_bytes() == content for path, content in before.items())
    faults.advance(tmp_path / "root", ("link-flapping",))
    assert int(counter.read_text()) == int(before[counter.resolve()]) + 3
    assert [path for path, content in before.items() if path.read_bytes() != content] == [counter.resolve()]


def names(count: int) -> list[str]:
    return [f"gpu{number:03}" for number in range(1, count + 1)]


@pytest.mark.parametrize("seed", range(4))
def test_thirty_two_nodes_get_every_fault_once(seed: int) -> None:
    plan = faults.plan(names(32), seed)
    assert sorted(fault for planted in plan.values() for fault in planted) == sorted(NAMES)
    assert max(len(planted) for planted in plan.values()) == 1


@given(st.integers(0, 31), st.integers())
def test_a_smaller_fleet_keeps_at_least_half_of_its_nodes_healthy(count: int, seed: int) -> None:
    plan = faults.plan(names(count), seed)
    planted = Counter(fault for found in plan.values() for fault in found)
    assert list(plan) == names(count)
    assert sum(planted.values()) == count // 2
    assert all(times == 1 for times in planted.values())


@given(st.integers(1, 64), st.integers())
def test_the_same_seed_gives_the_same_plan(count: int, seed: int) -> None:
    assert faults.plan(names(count), seed) == faults.plan(names(count), seed)


def test_another_seed_gives_other_nodes() -> None:
    assert len({tuple(faults.plan(names(32), seed).items()) for seed in range(10)}) == 10


@pytest.mark.parametrize("seed", range(20))
def test_drift_is_planted_only_where_there_is_a_majority_to_differ_from(seed: int) -> None:
    planted = {fault for found in faults.plan(names(5), seed).values() for fault in found}
    assert not planted & {"kernel-drift", "driver-drift"}
