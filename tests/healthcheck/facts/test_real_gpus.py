"""Readings of real GPUs (tests/recordings/nvml: one H100 SXM and one H200 SXM, driver 580.159.04, NVLinks
disabled by the host)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from healthcheck.collector.onnode import nvml
from healthcheck.facts import smi
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.values import Unmeasured, readings
from tests.gpu.test_readings import ELSEWHERE, MOVING
from tests.healthcheck import machine
from tests.healthcheck.collector.test_collector_nvml import TIMES, Field, binding, fields

RECORDINGS = Path(__file__).parents[2] / "recordings"
REAL = ("h100", "h200")
Line = dict[str, Any]


def lines(model: str) -> list[Line]:
    return [json.loads(line)
            for line in (RECORDINGS / f"nvml/{model}-580.159.04.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("model", REAL)
def test_a_real_gpu_gives_every_fact_and_none_is_unmeasured(model: str) -> None:
    capture = machine.nvml()
    capture = replace(capture, text="".join(json.dumps(line) + "\n" for line in lines(model)))
    (gpu,) = build_fact(FACTS["gpus"], Captures(machine.recording(gpu_nvml=capture)))
    assert [name for name, value in readings(gpu).items() if isinstance(value, Unmeasured)] == []
    assert (gpu.ecc_uncorrected, gpu.recovery_action, gpu.rows_pending,
            gpu.sram_threshold_exceeded) == (0, "none", 0, 0)
    assert gpu.pcie_generation_max == 5 and gpu.power_limit_watts == 700


@pytest.mark.parametrize("model", REAL)
def test_both_sources_say_the_same_of_a_real_gpu(model: str) -> None:
    (ours,), (theirs,) = lines(model)[1:], smi.parse(
        (RECORDINGS / f"nvidia-smi/{model}-q-x-580.xml").read_text()).gpus
    differ = {name for name in set(ours) | set(theirs) if ours.get(name) != theirs.get(name)}
    assert differ <= MOVING | ELSEWHERE, {name: (ours.get(name), theirs.get(name))
                                          for name in differ - MOVING - ELSEWHERE}


@pytest.mark.parametrize("model", REAL)
def test_the_machine_of_the_tests_has_the_readings_of_a_real_gpu_and_each_of_its_kind(model: str) -> None:
    # There the host had disabled NVLinks, and there was no other GPU.
    elsewhere = {"nvlinks", "p2p", "processes", "fabric_state", "fabric_status", "fabric_clique",
                 "fabric_cluster", "fabric_health",
                 "fabric_summary"}
    real, made = lines(model)[1], json.loads(machine.nvml().text.splitlines()[1])
    assert set(real) == set(made)
    kinds = {name: (set(real[name]), set(made[name])) for name in real if isinstance(real[name], dict)
             and name not in elsewhere}
    # The machine's driver, 550.54, has no platform information and no inactive rows; C2C is a module's of
    # Grace, and the machine has none.
    assert {name: pair for name, pair in kinds.items() if pair[0] != pair[1]} == dict.fromkeys((
        "c2c_enabled", "host_id", "module_id", "peer_type", "rows_corrected_inactive",
        "rows_uncorrected_inactive"), ({"ok"}, {"na"}))


def test_a_real_driver_s_fields_have_the_times_of_slowdowns_in_the_later_numbering() -> None:
    told = json.loads((RECORDINGS / "nvml/h100-580.159.04-fields.json").read_text())
    assert all(told[str(number)] == ["ret", 3] for number in range(251, 269))
    assert all(told[str(number)][:2] == ["ok", 3] for number in nvml.LATER)
    answers = {f"f{number}": Field(int(answer[2]), kind=answer[1]) if answer[0] == "ok"
               else Field(0, code=answer[1])
               for number, answer in told.items()}
    read = nvml.field_readings(binding(nvmlDeviceGetFieldValues=fields(**answers)), 0)
    assert [read[key] for key in TIMES] == [{"ok": 0}] * 3
    assert read["slowdown_power_ns"] == {"ok": told["74"][2]} and told["74"][2] > 10**10
