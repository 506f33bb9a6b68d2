"""What a look tells the store of components and counters."""

from __future__ import annotations

from typing import Any

import pytest

from healthcheck.recording import Capture, Outcome
from healthcheck.store.readings import Component, Readings, readings
from tests.healthcheck import machine


def of(**changes: Capture) -> Readings:
    return readings(machine.recording(**changes))


def test_gpus_and_drives_are_told_by_serial_number_and_slot() -> None:
    found = of()
    assert Component("gpu", "0000:18:00.0", "160", "GPU 0") in found.components
    assert [part.slot for part in found.components if part.kind == "nvme"][:2] == ["nvme0", "nvme1"]
    assert found.kinds == {"gpu", "nvme"} and len({part.serial for part in found.components}) == len(found.components)


@pytest.mark.parametrize("serial", [{"na": True}, {"ok": "0"}, {"ok": "N/A"}, {"ok": ""}])
def test_a_board_without_a_serial_number_is_known_by_its_uuid(serial: dict[str, Any]) -> None:
    found = of(gpu_nvml=machine.nvml(gpu3={"serial": serial, "uuid": {"ok": "GPU-5f"}}))
    assert [part.serial for part in found.components if part.name == "GPU 3"] == ["GPU-5f"] and "gpu" in found.kinds


def test_a_gpu_that_does_not_answer_leaves_its_kind_not_wholly_read() -> None:
    found = of(gpu_nvml=machine.nvml(gpu3={"error": [15, "GPU is lost"]}))
    assert "gpu" not in found.kinds and len([part for part in found.components if part.kind == "gpu"]) == 7


def test_counters_are_of_gpus_and_ports_and_what_could_not_be_read_is_not_among_them() -> None:
    changed = of(gpu_nvml=machine.nvml(gpu3={"pcie_replays": {"ok": 5}, "rows_corrected": {"error": [999, "Unknown"]}}))
    told = {(one.slot, one.name): one.value for one in changed.counters}
    assert told["0000:1b:00.0", "pcie_replays"] == 5 and ("0000:1b:00.0", "rows_corrected") not in told
    assert told["0000:1a:00.0", "rows_corrected"] == 0 and told["mlx5_0/1", "link_downed"] == 0


def test_of_a_node_that_said_nothing_nothing_is_told() -> None:
    nothing = {name.replace(".", "_", 1): Capture(Outcome.TIMEOUT) for name in machine.captures()}
    assert of(**nothing) == Readings((), (), frozenset())
