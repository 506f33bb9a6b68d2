"""Readings of a real GPU: ours by NVML against NVIDIA's own nvidia-smi, and a check of this machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from healthcheck.facts import smi
from tests.command import muster

pytestmark = pytest.mark.gpu

# Change from one moment to the next.
MOVING = {"temperature_c", "temperature_margin_c", "temperature_memory_c", "power_mw", "clock_sm_mhz",
          "clock_memory_mhz", "clock_reasons",
          "utilization_percent", "memory_used_bytes", "slowdown_power_ns", "pcie_generation", "pcie_width"}
# nvidia-smi prints margins (T.Limit) alone from Ada on, and no platform where there is no fabric; the rest it
# prints nowhere.
ELSEWHERE = {"temperature_gpu_max_c", "temperature_memory_max_c", "temperature_shutdown_c",
             "temperature_slowdown_c", "host_id", "peer_type",
             "nvlinks", "p2p", "processes", "slowdown_thermal_ns"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory,
             nvidia_smi: str) -> tuple[list[dict[str, Any]], smi.SmiLog]:
    """(NVML's lines by our collector, nvidia-smi's log of the same moment)."""
    home = tmp_path_factory.mktemp("gpu")
    done = muster("record", "--local", "--raw", "-o", "node.json", "--sku", "single-gpu", home=home)
    assert done.returncode == 0, done.stderr
    log = subprocess.run([nvidia_smi, "-q", "-x"], capture_output=True, text=True, check=True,
                         timeout=60).stdout
    capture = json.loads((home / "node.json").read_text())["captures"]["gpu.nvml"]
    assert capture["outcome"] == "done", capture
    return [json.loads(line) for line in capture["text"].splitlines()], smi.parse(log)


def test_no_reading_of_a_sound_gpu_fails(recorded: tuple[list[dict[str, Any]], smi.SmiLog]) -> None:
    lines, _ = recorded
    assert lines[0]["count"] == {"ok": len(lines) - 1}
    failed = {name: value for line in lines
              for name, value in line.items() if isinstance(value, dict) and "error" in value}
    assert failed == {}


def test_nvml_and_nvidia_smi_agree_in_every_reading(recorded: tuple[list[dict[str, Any]],
                                                                    smi.SmiLog]) -> None:
    lines, log = recorded
    assert len(log.gpus) == len(lines) - 1
    for ours, theirs in zip(lines[1:], log.gpus, strict=True):
        names = (set(ours) | set(theirs)) - MOVING - ELSEWHERE
        assert len(names) > 60
        assert {name: (ours.get(name), theirs.get(name))
                for name in names if ours.get(name) != theirs.get(name)} == {}


def test_a_sound_gpu_has_no_finding_and_its_rules_are_judged(tmp_path: Path, nvidia_smi: str) -> None:
    done = muster("check", "--local", "--sku", "single-gpu", "--only", "gpu-*", "--only", "driver-*",
                  "--format", "json", "--full", home=tmp_path)
    found = {(result["rule"], result["status"]) for node in json.loads(done.stdout)["nodes"]
             for result in node["results"]}
    assert [rule for rule, status in found if status == "fail"] == []
    assert [rule for rule, status in found if status == "unknown"] == []
    assert {"gpu-count", "gpu-answers", "gpu-ecc-uncorrected", "driver-loads"} <= {
        rule for rule, status in found if status == "pass"}
