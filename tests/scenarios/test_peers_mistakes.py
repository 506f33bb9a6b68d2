"""Mistakes that published health checks made, as regressions: each docstring names the project and where it was seen.

The projects were read at the state of 2026-08; the notes with files and lines are not part of this repository.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from healthcheck.facts.dcgm import DIAGNOSTICS
from healthcheck.model.outcome import NodeReport, NodeState, Origin, Result, Status
from healthcheck.model.recording import Capture, Outcome
from inventory.transport.base import Failure, Stage
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed
from tests.healthcheck.checks import test_dcgm as dcgm
from tests.healthcheck.servers import SITE, with_site
from tests.scenarios import node as simulated


def report(sku: str | None = SITE, before: Capture | None = None, **changes: Capture) -> NodeReport:
    """The healthy node with these captures instead; `before` is NVML's answer ten minutes earlier."""
    earlier = simulated.earlier(machine.recording(**({} if before is None else {"gpu_nvml": before})))
    return assessed(machine.recording(**changes), sku=sku, rules=with_site(simulated.rules()), before={"gpu001": earlier}).reports[0]


def of(rule: str, told: NodeReport) -> Result:
    return next(result for result in told.results if result.rule == rule)


def one(gpu: int, **raw: Any) -> Capture:
    """NVML's answer in which one GPU's readings differ."""
    return machine.nvml(**{f"gpu{gpu}": {key: value if isinstance(value, dict) else {"ok": value} for key, value in raw.items()}})


@pytest.mark.parametrize("gpu", range(8))
@pytest.mark.parametrize("level", DIAGNOSTICS)
def test_every_gpu_of_a_diagnostic_is_read(level: str, gpu: int) -> None:
    """gcm (`check_dcgmi` diag) reads results[0] of each test, so that a failure on GPU 1 to 7 passes; seen by running it."""
    result = dcgm.judged(dcgm.printed(dcgm.four({"memory": {gpu: "Fail"}}), 226), level)
    assert result.status is Status.FAIL
    assert [finding.subject for finding in result.findings] == [f"GPU {gpu} memory"]


@pytest.mark.parametrize("level", DIAGNOSTICS)
def test_a_diagnostic_of_either_form_is_a_verdict_and_that_of_a_crash_is_none(level: str) -> None:
    """gcm knows the heading of DCGM 3 only, and turns that of DCGM 4, and a crash, into a warning."""
    assert [dcgm.judged(dcgm.printed(form), level).status for form in (dcgm.three(), dcgm.four())] == [Status.PASS, Status.PASS]
    crashed = Capture(Outcome.CRASHED, exit=-11, seconds=1.0, bytes=0)
    assert dcgm.judged(crashed, level).status is Status.UNKNOWN


def test_a_limit_applies_to_what_was_asked_for() -> None:
    """azurehpc-health-checks tests the fourth column of a query of three, so that its limit of 512 remapped rows can never fire."""
    assert of("gpu-row-remap-count", report(gpu_nvml=one(5, rows_uncorrected=511))).status is Status.PASS
    assert of("gpu-row-remap-count", report(gpu_nvml=one(5, rows_uncorrected=512))).status is Status.FAIL


def test_a_reading_that_was_never_asked_for_passes_nowhere() -> None:
    """The same defect, from its other end: for each reading of a GPU, some rule stops passing when it is not in the answer."""
    whole = report()
    lines = machine.nvml().text.splitlines()
    line = json.loads(lines[3])
    judged_by: dict[str, set[str]] = {}
    for key in line:
        left = {name: value for name, value in line.items() if name != key}
        text = "\n".join([*lines[:3], json.dumps(left), *lines[4:]]) + "\n"
        told = report(gpu_nvml=replace(machine.nvml(), text=text))
        judged_by[key] = {result.rule for result, full in zip(told.results, whole.results, strict=True)
                          if full.status is Status.PASS and result.status is not Status.PASS}
        assert not {result.rule for result in told.results if result.status is Status.FAIL}, key
    for key, rule in (("rows_uncorrected", "gpu-row-remap-count"), ("ecc_mode", "gpu-ecc-enabled"), ("ecc_uncorrected", "gpu-ecc-uncorrected"),
                      ("rows_failed", "gpu-row-remap-failed"), ("pcie_width", "gpu-pcie-width"), ("recovery_action", "gpu-recovery-action"),
                      ("fabric_state", "nvlink-fabric-state"), ("mig", "gpu-mig"), ("persistence", "gpu-persistence")):
        assert rule in judged_by[key]


@pytest.mark.parametrize(("tool", "rule"), [("docker_info", "docker-answers"), ("gpu_nvml", "gpu-answers"), ("gpu_nvml", "gpu-count")])
def test_a_missing_tool_is_neither_sick_nor_healthy(tool: str, rule: str) -> None:
    """az-hop, issues 1796 and 1797: a missing tool (status 127) marked every GPU node bad. gpud: without NVML, healthy."""
    told = report(**{tool: Capture(Outcome.MISSING)})
    assert of(rule, told).status is Status.UNKNOWN
    assert told.state is NodeState.UNKNOWN


def test_a_node_that_was_not_reached_is_unknown() -> None:
    """imbue's host-health-checks loses the status of ssh in a pipe: an unreachable node is listed under OK; seen by running it."""
    seen = replace(machine.recording(), host=None, captures={}, failure=Failure(Stage.CONNECT, "connection refused"))
    assert assessed(seen, rules=simulated.rules()).reports[0].state is NodeState.UNKNOWN


def test_a_node_of_no_known_hardware_does_not_pass_for_that() -> None:
    """azurehpc-health-checks says 'not supported' of a SKU that it does not know, and exits with 0."""
    result = of("gpu-count", report(sku=None, gpu_nvml=machine.nvml(), docker_info=Capture(Outcome.MISSING)))
    assert (result.status, result.origin) == (Status.UNKNOWN, Origin.MUSTER)


def test_uncorrectable_errors_are_not_judged_by_the_limit_of_corrected_ones() -> None:
    """azurehpc-health-checks lets uncorrectable errors of DRAM share the limit of 20 million of corrected ones."""
    assert of("gpu-ecc-uncorrected", report(gpu_nvml=one(2, ecc_uncorrected=1))).status is Status.FAIL
    assert of("gpu-ecc-corrected", report(gpu_nvml=one(2, ecc_corrected=1))).status is Status.PASS


def test_ecc_that_the_gpu_does_not_have_is_not_ecc_that_is_on() -> None:
    """Checks that look for the word Disabled pass [N/A]; imbue's compares with Enabled, but passes where nvidia-smi prints no row."""
    assert of("gpu-ecc-enabled", report(gpu_nvml=one(1, ecc_mode={"na": True}))).status is Status.FAIL
    assert of("gpu-ecc-enabled", report(gpu_nvml=machine.nvml(0))).status is Status.UNKNOWN


def test_an_older_xid_is_told_beside_a_newer_one() -> None:
    """dcgm-exporter's DCGM_FI_DEV_XID_ERRORS holds the last Xid only (DCGM issues 112, 235, 277): a harmless one hides a grave one."""
    text = machine.KMSG + "".join(
        f"4,{100 + n},{(100 + n) * 1_000_000},-;NVRM: Xid (PCI:0000:1a:00): {xid}, pid=1, name=python3, {words}\n"
        for n, (xid, words) in enumerate(((79, "GPU has fallen off the bus."), (31, "MMU Fault"), (43, "Ch 00000010")))
    )
    told = report(kernel_log=machine.done(**{"/dev/kmsg": text}))
    assert [finding.subject for finding in of("kernel-xid", told).findings] == ["GPU at PCI 0000:1a:00, Xid 79"]
    assert {finding.subject[-6:] for finding in of("kernel-xid-job", told).findings} == {"Xid 31", "Xid 43"}


def test_many_corrected_errors_in_a_short_time_are_told() -> None:
    """NVSentinel, issue 1748: 4,647 to 17,657 corrected errors a second on one memory were never reported."""
    now = one(4, ecc_corrected=4_647 * int(simulated.BETWEEN_S))
    assert of("gpu-ecc-corrected-rate", report(gpu_nvml=now, before=machine.nvml())).status is Status.FAIL
