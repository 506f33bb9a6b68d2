"""NVLinks whose common other end is at fault are the switch tray's, and those of other links stay their
GPU's."""

from __future__ import annotations

from typing import Any

import pytest

from healthcheck.facts.nvlink import GpuLinks
from healthcheck.facts.values import Partial, Unmeasured
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.judge.switchblame import COUNT, LINK, SWITCH, blame_switch
from healthcheck.model.outcome import Finding, Owner, Repair, Result, Severity, Status

TRAY = Result("fleet-nvlink-switch", SWITCH, Status.FAIL, Severity.CRITICAL,
              (Finding("down on 8 GPUs", "up", "NVLink 3, 4 of all GPUs"),),
              remedy="Look at the switch tray.", owner=Owner.VENDOR)
GPUS = (GpuLinks("GPU 0", 0, 18, 16, (3, 4)), GpuLinks("GPU 1", 1, 18, 15, (3, 4, 9)),
        GpuLinks("GPU 2", 2, 18, 0, Unmeasured("hung")))  # type: ignore[arg-type]


def failed(check: str, *subjects: str, status: Status = Status.FAIL) -> Result:
    """Findings of a rule whose own remedy is the GPU's."""
    return Result("r", check, status, Severity.CRITICAL,
                  tuple(Finding("down", "up", one) for one in subjects),
                  remedy="Reset the GPU.", owner=Owner.OPERATOR)


def blamed(result: Result, gpus: Any = GPUS, switch: Result = TRAY) -> list[str]:
    """The subjects for which the switch tray is to be inspected."""
    found = blame_switch({"fleet-nvlink-switch": switch, "r": result}, NodeFacts({"gpu_links": gpus}))
    for finding in found.get("r", result).findings:
        moved = (finding.remedy, finding.owner, finding.repair) == (TRAY.remedy, TRAY.owner, Repair.INSPECT)
        assert moved or (finding.remedy, finding.owner, finding.repair) == ("", None, None)
    assert "fleet-nvlink-switch" not in found
    return [finding.subject
            for finding in found.get("r", result).findings if finding.repair is Repair.INSPECT]


def test_a_link_of_the_common_numbers_is_the_switchs_and_no_other() -> None:
    assert blamed(failed(LINK, "GPU 0 NVLink 3", "GPU 0 NVLink 9", "GPU 1 NVLink 4",
                         "NVLink 3")) == ["GPU 0 NVLink 3", "GPU 1 NVLink 4"]


@pytest.mark.parametrize("gpus", [GPUS, Partial(GPUS, "cut")])
def test_a_gpu_is_the_switchs_where_all_that_it_lost_is_common(gpus: Any) -> None:
    assert blamed(failed(COUNT, "GPU 0", "GPU 1", "GPU 2", "GPU 7", "node", "GPU 0, GPU 1"),
                  gpus) == ["GPU 0"]
    assert blamed(failed(COUNT, "GPU 0"), Unmeasured("denied")) == []
    assert blamed(failed(COUNT, "GPU 0"), None) == []


def test_other_rules_and_what_passed_stay_as_they_are() -> None:
    assert blamed(failed("gpu.ecc", "GPU 0")) == []
    assert blamed(failed(LINK, "GPU 0 NVLink 3", status=Status.PASS)) == []


def test_without_a_finding_of_the_switch_nothing_changes() -> None:
    passed = failed(SWITCH, "NVLink 3 of all GPUs", status=Status.PASS)
    assert blame_switch({"a": failed(LINK, "GPU 0 NVLink 3")}, NodeFacts({})) == {}
    assert blame_switch({"a": failed(LINK, "GPU 0 NVLink 3"), "s": TRAY}, NodeFacts({})).keys() == {"a"}
    assert blame_switch({"s": passed, "a": failed(LINK, "GPU 0 NVLink 3")},
                        NodeFacts({"gpu_links": GPUS})) == {}
