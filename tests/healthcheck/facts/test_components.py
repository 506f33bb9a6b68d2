"""What a look tells of components for certificates, and what the store remembers of it from look to look."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.certify.requalify import differences
from healthcheck.facts.components import hardware_of
from healthcheck.model.hardware import Now
from healthcheck.model.outcome import NodeReport, Result, Severity, Status, state_of
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from healthcheck.store.file import opened
from healthcheck.store.hardware import newest_hardware
from healthcheck.store.readings import readings
from healthcheck.store.sweeps import SweepRecord, record
from inventory.text import clean
from tests.healthcheck import machine

GPU, NIC = "gpu 0000:18:00.0", "nic 0000:40:00.0"


def snapshot(boot: str = "b1", **changed: Capture) -> Recording:
    found = machine.recording("n1", **{name.replace("__", "."): capture for name, capture in changed.items()})
    return machine.on_host(found, boot_id=boot)


def test_gpus_adapters_board_and_versions_are_told_by_what_tells_them_apart() -> None:
    now = hardware_of(snapshot(host__firmware=machine.done(**{
        "/sys/class/dmi/id/bios_version": "1.4\n", "/sys/class/dmi/id/product_serial": "C12\n"})))
    gpus = [name for name in now.hardware if name.startswith("gpu ")]
    assert len(gpus) == 8 and all({"uuid", "firmware"} <= set(now.hardware[name]) for name in gpus)
    assert len({now.hardware[name]["uuid"] for name in gpus}) == 8
    assert now.hardware[NIC] == {"firmware": "28.39.1002", "uuid": "a088:c203:0000:0000",
                                 "guid": "a088c20300000000",
                                 "device": "mlx5_0", "layer": "InfiniBand"}
    assert now.hardware["board"] == {"serial": "C12", "firmware": "1.4"}
    assert (now.whole, now.boot, now.versions) == (frozenset({"gpu", "nic"}), "b1",
                                                   {"driver": "550.54.15", "kernel": "6.5.0-1019"})


def test_an_adapter_says_which_network_it_is_for_by_any_of_its_ports() -> None:
    at = "/sys/class/infiniband/mlx5_0/ports/{}/link_layer"
    held = machine.ports(**{"mlx5_0.link_layer": "Ethernet\n"})
    two = replace(held, files={**held.files, at.format(2): FileCapture(Outcome.DONE, "InfiniBand\n")})
    unread = replace(held, files={**held.files, at.format(1): FileCapture(Outcome.DENIED)})
    assert [hardware_of(snapshot(port__sysfs=ports)).hardware[NIC].get("layer")
            for ports in (held, two, unread)] == ["Ethernet", "InfiniBand", None]
    odd = machine.ports(**{"mlx5_0.link_layer": "\x1b" + "x" * 30 + "\n"})
    assert hardware_of(snapshot(port__sysfs=odd)).hardware[NIC]["layer"] == clean("\x1b" + "x" * 30, 20)


def test_what_makers_leave_where_a_number_should_be_is_none() -> None:
    for empty in ("To Be Filled By O.E.M.", "00000000", "N/A", "Default string", "None", "..."):
        now = hardware_of(
            snapshot(host__firmware=machine.done(**{"/sys/class/dmi/id/product_serial": f"{empty}\n"})))
        assert "board" not in now.hardware, empty


def test_a_look_that_could_not_read_a_kind_does_not_say_that_it_is_gone() -> None:
    broken = Capture(Outcome.TIMEOUT, seconds=9.0)
    now = hardware_of(snapshot(gpu__nvml=broken))
    assert "gpu" not in now.whole
    assert not [one for one in differences(hardware_of(snapshot()).hardware, now.hardware, whole=now.whole)
                if one.startswith("gpu")]


def stored(folder: Path, *snapshots: Recording) -> Now:
    result = Result("r", "c", Status.PASS, Severity.CRITICAL, ())
    with opened(folder, make=True) as store:
        for at, one in enumerate(snapshots):
            record(store, SweepRecord(100.0 + at, 101.0 + at, False, "test", "d"),
                   [NodeReport("n1", state_of([result]), "", (result,))], {"n1": readings(one)})
        ((time, now),) = newest_hardware(store).values()
    assert time == 99.0 + len(snapshots)
    return now


def test_the_store_holds_the_newest_of_each_component_and_loses_nothing_to_a_look_that_could_not_read_it(
    tmp_path: Path,
) -> None:
    broken = Capture(Outcome.TIMEOUT, seconds=9.0)
    first = hardware_of(snapshot())
    now = stored(tmp_path, snapshot(), snapshot("b2", gpu__nvml=broken))
    assert now.hardware == first.hardware and now.boot == "b2" and now.versions == first.versions
    other = machine.nvml(gpu0={"uuid": machine.reading("GPU-other")})
    now = stored(tmp_path / "again", snapshot(), snapshot("b2", gpu__nvml=broken),
                 snapshot("b2", gpu__nvml=other))
    assert [one.split(", has ")[1] for one in differences(first.hardware, now.hardware,
                                                          whole=now.whole)] == ["GPU-other"]


def test_a_gpu_that_is_gone_is_seen_to_be_gone(tmp_path: Path) -> None:
    now = stored(tmp_path, snapshot(), snapshot(gpu__nvml=machine.nvml(7), gpu__pci=machine.pci(7)))
    (gone,) = differences(hardware_of(snapshot()).hardware, now.hardware, whole=now.whole)
    assert gone.endswith("was there")


def test_a_kind_is_whole_only_where_each_of_it_has_its_place() -> None:
    now = hardware_of(snapshot(gpu__nvml=machine.nvml(gpu3={"pci": {"na": True}})))
    assert now.whole == {"nic"} and len([name for name in now.hardware if name.startswith("gpu ")]) == 7
    none = hardware_of(snapshot(gpu__nvml=machine.nvml(0), gpu__pci=machine.pci(0)))
    assert none.whole == {"nic"}


@pytest.mark.parametrize("gid", ["fe80:0000:0000:0000:0000:0000:0000:0000", "fe80::1", ""])
def test_a_port_without_a_guid_of_its_own_tells_none(gid: str) -> None:
    now = hardware_of(snapshot(port__sysfs=machine.ports(**{"mlx5_0.0": gid})))
    assert "uuid" not in now.hardware[NIC] and "uuid" in now.hardware["nic 0000:41:00.0"]


def test_long_words_are_cut() -> None:
    now = hardware_of(snapshot("b" * 65, host__firmware=machine.done(**{
        "/sys/class/dmi/id/product_serial": "s" * 81, "/sys/class/dmi/id/bios_version": "v" * 80})))
    assert (now.boot, now.hardware["board"]) == ("b" * 63 + "…",
                                                 {"serial": "s" * 79 + "…", "firmware": "v" * 80})
