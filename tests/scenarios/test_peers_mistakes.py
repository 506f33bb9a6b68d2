"""Mistakes that published health checks made, as regressions: each docstring names the project and where it
was seen. Those of single rules are among the rules' own tests (test_dcgm.py, test_gpu_memory.py,
test_xid.py).

The projects were read at the state of 2026-08; the notes with files and lines are not part of this
repository.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from healthcheck.facts.gpu import NVML
from healthcheck.model.outcome import NodeReport, NodeState, Origin, Result, Status
from healthcheck.model.recording import Capture, Outcome
from healthcheck.ruleset.ruleset import Ruleset
from inventory.transport.base import Failure, Stage
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed
from tests.healthcheck.servers import SITE, with_site
from tests.scenarios import node as simulated
from tests.scenarios.kinds import of_probe


def report(rules: Ruleset, sku: str | None = SITE, **changes: Capture) -> NodeReport:
    """The healthy node with these captures instead."""
    before = {"gpu001": simulated.earlier(machine.recording())}
    return assessed(machine.recording(**changes), sku=sku, rules=with_site(rules), before=before).reports[0]


def of(rule: str, told: NodeReport) -> Result:
    return next(result for result in told.results if result.rule == rule)


def test_a_reading_that_was_never_asked_for_passes_nowhere() -> None:
    """The same defect, from its other end: for each reading of a GPU, some rule stops passing when it is not
    in the answer."""
    about_gpus = of_probe(NVML.id)
    whole = report(about_gpus)
    lines = machine.nvml().text.splitlines()
    line = json.loads(lines[3])
    judged_by: dict[str, set[str]] = {}
    for key in line:
        left = {name: value for name, value in line.items() if name != key}
        text = "\n".join([*lines[:3], json.dumps(left), *lines[4:]]) + "\n"
        told = report(about_gpus, gpu_nvml=replace(machine.nvml(), text=text))
        judged_by[key] = {result.rule for result, full in zip(told.results, whole.results, strict=True)
                          if full.status is Status.PASS and result.status is not Status.PASS}
        assert not {result.rule for result in told.results if result.status is Status.FAIL}, key
    for key, rule in (("rows_uncorrected", "gpu-row-remap-count"), ("ecc_mode", "gpu-ecc-enabled"),
                      ("ecc_uncorrected", "gpu-ecc-uncorrected"),
                      ("rows_failed", "gpu-row-remap-failed"), ("pcie_width", "gpu-pcie-width"),
                      ("recovery_action", "gpu-recovery-action"),
                      ("fabric_state", "nvlink-fabric-state"), ("mig", "gpu-mig"),
                      ("persistence", "gpu-persistence")):
        assert rule in judged_by[key]


@pytest.mark.parametrize(("tool", "rule"), [("docker_info", "docker-answers"), ("gpu_nvml", "gpu-answers"),
                                            ("gpu_nvml", "gpu-count")])
def test_a_missing_tool_is_neither_sick_nor_healthy(tool: str, rule: str) -> None:
    """az-hop, issues 1796 and 1797: a missing tool (status 127) marked every GPU node bad. gpud: without
    NVML, healthy."""
    told = report(simulated.rules(), **{tool: Capture(Outcome.MISSING)})
    assert of(rule, told).status is Status.UNKNOWN
    assert told.state is NodeState.UNKNOWN


def test_a_node_that_was_not_reached_is_unknown() -> None:
    """imbue's host-health-checks loses the status of ssh in a pipe: an unreachable node is listed under OK;
    seen by running it."""
    seen = replace(machine.recording(), host=None, captures={},
                   failure=Failure(Stage.CONNECT, "connection refused"))
    assert assessed(seen, rules=simulated.rules()).reports[0].state is NodeState.UNKNOWN


def test_a_node_of_no_known_hardware_does_not_pass_for_that() -> None:
    """azurehpc-health-checks says 'not supported' of a SKU that it does not know, and exits with 0."""
    result = of("gpu-count", report(simulated.rules(), sku=None, gpu_nvml=machine.nvml(),
                                    docker_info=Capture(Outcome.MISSING)))
    assert (result.status, result.origin) == (Status.UNKNOWN, Origin.MUSTER)
