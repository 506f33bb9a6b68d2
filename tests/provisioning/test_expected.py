"""The comparison of a report with what was planted: it must see what is missed, and who is accused falsely."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from provisioning.demo import expected, faults
from provisioning.demo.expected import EXPECTED, compare

NAMES = tuple(EXPECTED)


def result(rule: str, status: str, told: str) -> dict[str, Any]:
    findings = [{"subject": told, "observed": told, "expected": "otherwise"}] if status == "fail" else []
    return {"rule": rule, "check": rule, "status": status, "severity": "critical", "findings": findings,
            "reason": "" if findings else told, "origin": None, "remedy": ""}


def node(name: str, fault: str | None, *, later: bool = True) -> dict[str, Any]:
    """What a right sweep says of a node with this fault."""
    expectation = EXPECTED[fault] if fault else expected.HEALTHY
    if expectation.later and not later:
        expectation = expected.HEALTHY
    told: dict[tuple[str, str], str] = {}
    for said in expectation.said:
        told[said.rule, said.status] = f"{told.get((said.rule, said.status), '')} {said.about}"
    results = [result(rule, status, text) for (rule, status), text in told.items()]
    reason = f"{expectation.stage}: it is so" if expectation.stage else ""
    return {"node": name, "state": expectation.state, "reason": reason, "results": [*results, result("host-none", "pass", "")]}


def report(*nodes: dict[str, Any]) -> dict[str, Any]:
    return {"schema": "muster.check/1", "nodes": list(nodes)}


@pytest.mark.parametrize("fault", NAMES)
def test_a_right_report_is_right(fault: str) -> None:
    assert compare(report(node("gpu001", fault), node("gpu002", None)), {"gpu001": (fault,), "gpu002": ()}, later=True) == []


@pytest.mark.parametrize("fault", NAMES)
def test_a_fault_that_a_sweep_does_not_see_is_missed(fault: str) -> None:
    wrong = compare(report(node("gpu001", None)), {"gpu001": (fault,)}, later=True)
    assert any(line.startswith(f"gpu001 ({fault}): missed: ") for line in wrong)
    assert any(f"is called healthy, expected {EXPECTED[fault].state}" in line for line in wrong)


@pytest.mark.parametrize("fault", [name for name in NAMES if EXPECTED[name].said])
def test_a_fault_seen_for_another_reason_is_missed(fault: str) -> None:
    seen = node("gpu001", fault)
    for entry in seen["results"]:
        entry["reason"] = ""
        for finding in entry["findings"]:
            finding["subject"] = finding["observed"] = "something"
    wrong = compare(report(seen), {"gpu001": (fault,)}, later=True)
    assert len([line for line in wrong if "missed: " in line]) == len(EXPECTED[fault].said)


@pytest.mark.parametrize("fault", [name for name in NAMES if EXPECTED[name].stage])
def test_a_node_that_fails_at_another_stage_is_missed(fault: str) -> None:
    seen = node("gpu001", fault) | {"reason": "deadline: too late"}
    assert compare(report(seen), {"gpu001": (fault,)}) == [
        f"gpu001 ({fault}): missed: expected to fail at stage {EXPECTED[fault].stage}, reason is 'deadline: too late'",
    ]


@pytest.mark.parametrize("fault", [None, *NAMES])
def test_a_failure_that_nobody_planted_is_a_false_accusation(fault: str | None) -> None:
    seen = node("gpu001", fault)
    seen["results"].append(result("made-up", "fail", "GPU 9"))
    wrong = compare(report(seen), {"gpu001": (fault,) if fault else ()}, later=True)
    assert wrong == [f"gpu001 ({fault or 'healthy'}): false accusation: made-up fails: GPU 9: GPU 9"]


@pytest.mark.parametrize("state", ["unknown", "degraded", "unhealthy"])
def test_a_healthy_node_must_be_called_healthy(state: str) -> None:
    seen = node("gpu001", None) | {"state": state}
    seen["results"].append(result("gpu-count", "unknown", "NVML was not read"))
    assert compare(report(seen), {"gpu001": ()}) == [
        f"gpu001 (healthy): is called {state}, expected healthy: gpu-count unknown NVML was not read",
    ]


def test_a_node_must_be_reported_once_and_none_besides() -> None:
    wrong = compare(report(node("gpu001", None), node("gpu001", None), node("gpu003", None)), {"gpu001": (), "gpu002": ()})
    assert wrong == ["gpu001: reported twice", "gpu003: reported, but there is no such node", "gpu002 (healthy): not reported"]


def test_what_shows_later_must_not_show_before() -> None:
    planted = {"gpu001": ("link-flapping",)}
    assert compare(report(node("gpu001", "link-flapping", later=False)), planted) == []
    assert compare(report(node("gpu001", "link-flapping")), planted) != []


def test_there_is_an_expectation_for_every_fault_and_no_other() -> None:
    assert EXPECTED.keys() == faults.FAULTS.keys()


def test_who_plants_and_who_expects_know_nothing_of_each_other() -> None:
    for module in (expected, faults):
        source = Path(str(module.__file__)).read_text()
        imported = {name for found in ast.walk(ast.parse(source)) if isinstance(found, ast.ImportFrom)
                    for name in (found.module or "", *(alias.name for alias in found.names))}
        assert not imported & {"provisioning.demo.expected", "provisioning.demo.faults", "expected", "faults"}


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(KeyError):
        compare(report(), {"gpu001": ("no-such-fault",)})
