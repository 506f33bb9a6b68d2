"""What a look tells the store of components and counters."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from healthcheck.model.recording import Capture, FileCapture, Outcome
from healthcheck.store.readings import Component, NodeReadings, readings
from tests.healthcheck import machine


def of(**changes: Capture) -> NodeReadings:
    return readings(machine.recording(**changes))


def test_gpus_and_drives_are_told_by_serial_number_and_slot() -> None:
    found = of()
    assert Component("gpu", "0000:18:00.0", "160", "GPU 0") in found.components
    assert [part.slot for part in found.components if part.kind == "nvme"][:2] == ["nvme0", "nvme1"]
    assert (found.kinds == {"gpu", "nvme", "hca", "disk"} and len({part.serial for part in found.components})
            == len(found.components))


def parts(found: NodeReadings, kind: str) -> list[tuple[str, str]]:
    return [(part.slot, part.serial) for part in found.components if part.kind == kind]


def test_an_adapter_is_known_by_its_guid_and_one_without_leaves_its_kind_not_wholly_read() -> None:
    assert parts(of(), "hca")[:2] == [("0000:40:00.0", "a088:c203:0000:0000"),
                                      ("0000:41:00.0", "a088:c203:0000:0001")]
    empty = "0000:0000:0000:0000:0000:0000:0000:0000\n"
    found = of(port_sysfs=machine.ports(**{"mlx5_3.0": empty}))
    assert "0000:43:00.0" not in dict(parts(found, "hca")) and "hca" not in found.kinds


def _modules(*modules: tuple[str, str, str]) -> Capture:
    blocks = [f"Memory Device\n\tLocator: {slot}\n\tBank Locator: {bank}\n\tSize: 64 GB\n"
              f"\tSerial Number: {serial}" for slot, bank, serial in modules]
    return Capture(Outcome.DONE, exit=0, text="\n\n".join(blocks) + "\n")


def test_memory_modules_are_known_by_their_slots_of_equal_names_by_bank() -> None:
    found = of(host_dimms=_modules(("A1", "P0", "80CE01"), ("B1", "P0", "80CE02"), ("B1", "P1", "80CE03")))
    assert parts(found, "dimm") == [("A1", "80CE01"), ("B1 P0", "80CE02"), ("B1 P1", "80CE03")]
    assert "dimm" in found.kinds
    found = of(host_dimms=_modules(("A1", "P0", "Not Specified"), ("B1", "P0", "80CE02")))
    assert parts(found, "dimm") == [("B1", "80CE02")] and "dimm" not in found.kinds


def test_board_and_chassis_are_told_apart_where_root_reads_them() -> None:
    found = of(host_firmware=machine.done(**{"/sys/class/dmi/id/product_serial": "C12\n",
                                             "/sys/class/dmi/id/board_serial": "B7\n"}))
    assert parts(found, "chassis") == [("chassis", "C12")] and parts(found, "board") == [("board", "B7")]
    found = of(host_firmware=machine.done(**{"/sys/class/dmi/id/product_serial": "C12\n"}))
    assert parts(found, "board") == [] and "board" not in found.kinds


def test_drives_that_are_no_nvme_are_known_by_smartctl() -> None:
    def said(serial: str) -> FileCapture:
        document = {"device": {"name": "/dev/sda", "type": "sat", "protocol": "ATA"}, "serial_number": serial,
                    "smart_status": {"passed": True}}
        return FileCapture(Outcome.DONE, f"exit 0\n{json.dumps(document)}")

    shown = machine.smart()
    found = of(disk_smart=replace(shown, files={**shown.files, "/sys/block/sda": said("Z1")}))
    assert parts(found, "disk") == [("sda", "Z1")] and "disk" in found.kinds
    found = of(disk_smart=replace(shown, files={**shown.files, "/sys/block/sda": said("")}))
    assert parts(found, "disk") == [] and "disk" not in found.kinds


@pytest.mark.parametrize("serial", [{"na": True}, {"ok": "0"}, {"ok": "N/A"}, {"ok": ""}])
def test_a_board_without_a_serial_number_is_known_by_its_uuid(serial: dict[str, Any]) -> None:
    found = of(gpu_nvml=machine.nvml(gpu3={"serial": serial, "uuid": {"ok": "GPU-5f"}}))
    assert ([part.serial for part in found.components if part.name == "GPU 3"] == ["GPU-5f"]
            and "gpu" in found.kinds)


def test_a_gpu_that_does_not_answer_leaves_its_kind_not_wholly_read() -> None:
    found = of(gpu_nvml=machine.nvml(gpu3={"error": [15, "GPU is lost"]}))
    assert "gpu" not in found.kinds and len([part for part in found.components if part.kind == "gpu"]) == 7


def test_counters_are_of_gpus_and_ports_and_what_could_not_be_read_is_not_among_them() -> None:
    changed = of(gpu_nvml=machine.nvml(
        gpu3={"pcie_replays": {"ok": 5}, "rows_corrected": {"error": [999, "Unknown"]}}))
    told = {(one.slot, one.name): one.value for one in changed.counters}
    assert told["0000:1b:00.0", "pcie_replays"] == 5 and ("0000:1b:00.0", "rows_corrected") not in told
    assert told["0000:1a:00.0", "rows_corrected"] == 0 and told["mlx5_0/1", "link_downed"] == 0


def test_of_a_node_that_said_nothing_nothing_is_reported() -> None:
    nothing = {name.replace(".", "_", 1): Capture(Outcome.TIMEOUT) for name in machine.captures()}
    found = of(**nothing)
    assert (found.components, found.counters, found.kinds) == ((), (), frozenset())
    assert (found.shown.gpus, found.shown.ports, found.shown.xids, found.shown.driver) == ((), (), None, "")
    assert {outcome for _, outcome, _ in found.shown.probes} == {"timeout"}


def test_what_a_look_shows_is_reported_beside_and_what_could_not_be_read_is_none() -> None:
    shown = of(gpu_nvml=machine.nvml(gpu3={"temperature_c": {"error": [999, "Unknown"]},
                                           "slowdown_hw_thermal_ns": {"ok": 2_000_000_000}})).shown
    third = shown.gpus[3]
    assert (third.pci, third.id, third.temperature, third.watts, third.counts["slow_thermal"]) == (
        "0000:1b:00.0", "GPU-3", None, 72.0, 2.0)
    assert (shown.gpus[0].temperature == 31.0
            and (shown.driver, shown.boot, shown.xids) == ("550.54.15", "b00t", ()))
    assert next((port.name, port.pci, port.link_downed) for port in shown.ports) == (
        "mlx5_0/1", "0000:40:00.0", 0.0)
    assert ("gpu.nvml", "done", 0.3) in shown.probes


def test_a_counter_of_which_one_part_was_not_read_is_not_told_as_if_it_were_whole() -> None:
    shown = of(gpu_nvml=machine.nvml(gpu0={"slowdown_sw_thermal_ns": {"error": [999, "Unknown"]}})).shown
    assert "slow_thermal" not in shown.gpus[0].counts and shown.gpus[0].counts["ecc_uncorrected"] == 0
