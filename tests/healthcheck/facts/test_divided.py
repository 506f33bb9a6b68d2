"""A divided GPU (MIG): what it shows otherwise though nothing is wrong is UNKNOWN and no fault; what is wrong
with it is found all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from healthcheck.collector.onnode import nvml as reader
from healthcheck.facts import divided
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.values import UNSUPPORTED, reading
from healthcheck.model.outcome import Severity, Status
from healthcheck.model.recording import Capture
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import RULES, verdict
from tests.healthcheck.collector.test_collector_nvml import binding, fail

DOWN = machine.nvlinks(**{f"link{link}": [0, 7, -3, -3, -3, 0, 0, 0, 0, 0] for link in range(18)})
# As nvml.h has it of a divided GPU with instances: no load, no remapped rows; links down, and the rest
# follows.
MIG: dict[str, Any] = {
    "mig": {"ok": 1}, "mig_pending": {"ok": 1}, "nvlinks": DOWN, "utilization_percent": {"na": True},
    **{key: {"na": True} for key in ("rows_corrected", "rows_uncorrected", "rows_pending", "rows_failed")},
    "fabric_summary": {"ok": "limited_capacity"}, "fabric_health": {"ok": 0x1A9},
}


def of(gpu: int, **changes: Any) -> Capture:
    """Eight GPUs of which this one is divided, and reaches no other."""
    lines = {f"gpu{gpu}": {**MIG, "p2p": {"ok": [[5] * 6 for _ in range(gpu)]}, **changes}}
    for later in range(gpu + 1, 8):
        lines[f"gpu{later}"] = {"p2p": {"ok": [[5 if other == gpu else 0] * 6 for other in range(later)]}}
    return machine.nvml(**lines)


def built(name: str, capture: Capture) -> Any:
    return build_fact(FACTS[name], Captures(machine.recording(gpu_nvml=capture)))


CRITICAL = sorted(rule.id for rule in RULES.values() if rule.severity is Severity.CRITICAL
                  and {"gpus", "nvlinks", "gpu_links", "gpu_pairs"} & set(rule.fact_names)
                  and not rule.checked.fleet)


@pytest.mark.parametrize("rule", CRITICAL)
@pytest.mark.parametrize("gpu", [0, 3])
def test_no_critical_rule_accuses_a_gpu_for_being_divided(rule: str, gpu: int) -> None:
    assert verdict(rule, machine.recording(gpu_nvml=of(gpu))).status is not Status.FAIL


@pytest.mark.parametrize("rule",
                         ["nvlink-active", "nvlink-p2p", "nvlink-fabric-summary", "nvlink-fabric-health"])
def test_what_rests_on_the_links_of_a_divided_gpu_is_unknown_and_says_why(rule: str) -> None:
    result = verdict(rule, machine.recording(gpu_nvml=of(3)))
    assert result.status is Status.UNKNOWN and "MIG is on" in result.reason


def test_pairs_without_the_divided_gpu_are_measured_in_both_orders() -> None:
    pairs = {(pair.gpu, pair.peer): reading(pair, "read") for pair in built("gpu_pairs", of(3))}
    assert len(pairs) == 56
    assert {pairs[pair] for pair in pairs if 3 in pair} == {divided.PAIRS}
    assert {pairs[pair] for pair in pairs if 3 not in pair} == {"ok"}


def test_a_fabric_that_a_divided_gpu_shows_as_healthy_is_measured() -> None:
    (gpu, *_) = built("gpus", of(0, fabric_summary={"ok": "healthy"}, fabric_health={"ok": 0x1AA}))
    assert (gpu.fabric_state, gpu.fabric_summary, gpu.fabric_health) == ("completed", "healthy", 0x1AA)
    (gpu, *_) = built("gpus", of(0, fabric_summary={"na": True}, fabric_state={"ok": "not_started"}))
    assert reading(gpu, "fabric_summary") is UNSUPPORTED
    assert reading(gpu, "fabric_state") == reading(gpu, "fabric_health") == divided.FABRIC


@pytest.mark.parametrize(("rule", "changes"), [
    ("gpu-ecc-uncorrected", {"ecc_uncorrected": {"ok": 1}}),
    ("gpu-sram-threshold", {"sram_threshold_exceeded": {"ok": 1}}),
    ("gpu-recovery-action", {"recovery_action": {"ok": "gpu_reset"}}),
    ("gpu-pcie-width", {"pcie_width": {"ok": 8}}),
    ("gpu-slowdown-thermal", {"clock_reasons": {"ok": 0x40}}),
])
def test_what_is_wrong_with_the_whole_board_is_found_though_it_is_divided(rule: str,
                                                                          changes: dict[str, Any]) -> None:
    assert verdict(rule, machine.recording(gpu_nvml=of(3, **changes))).status is Status.FAIL


# The reader

def handle(gpu: Any, index: int) -> str:
    return f"part {index}" if index in (0, 2) else fail(6, "Not Found")()


@pytest.mark.parametrize(("count", "told"), [
    (lambda part, *_: 3 if part == "part 2" else 1, {"ok": 4}), (fail(3, "Not Supported"), {"na": True}),
    (fail(4, "Insufficient Permissions"), {"error": [4, "Insufficient Permissions"]})])
def test_errors_of_a_divided_gpu_are_those_of_its_instances(count: Any, told: dict[str, Any]) -> None:
    _, gpu = reader.lines(binding(
        nvmlDeviceGetMigMode=lambda gpu: [1, 1], nvmlDeviceGetTotalEccErrors=fail(3, "Not Supported"),
        nvmlDeviceGetMaxMigDeviceCount=lambda gpu: 7, nvmlDeviceGetMigDeviceHandleByIndex=handle,
        nvmlDeviceGetMemoryErrorCounter=count))
    assert gpu["ecc_uncorrected"] == gpu["sram_uncorrected"] == told
    assert gpu["ecc_uncorrected_lifetime"] == {"na": True}


def test_a_divided_gpu_without_instances_and_one_that_is_whole_have_no_errors_of_instances() -> None:
    for mig in (0, 1):
        _, gpu = reader.lines(binding(
            nvmlDeviceGetMigMode=lambda gpu, mig=mig: [mig, mig],
            nvmlDeviceGetTotalEccErrors=fail(3, "Not Supported"),
            nvmlDeviceGetMaxMigDeviceCount=lambda gpu: 7 if gpu == 0 else 0,
            nvmlDeviceGetMigDeviceHandleByIndex=fail(6, "Not Found")))
        assert gpu["ecc_uncorrected"] == {"na": True}


def test_the_help_says_what_a_divided_gpu_costs() -> None:
    page = (Path(reader.__file__).parents[2] / "help/gpu.md").read_text()
    table = page[page.index("## MIG"):page.index("## Disputed")]
    for word in ("uncorrectable", "remapped rows", "NVLinks", "P2P", "fabric", "utilization_percent"):
        assert word in table, word
