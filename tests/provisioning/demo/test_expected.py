"""The comparison finds a missed fault and a false accusation, and both sides know the same faults."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.config import rulesfolder
from healthcheck.ruleset.ruleset import load_ruleset
from inventory.transport.base import Stage
from provisioning.demo import expected, faults
from provisioning.demo.expected import EXPECTED, compare
from provisioning.demo.faults import FAULTS, plan
from provisioning.demo.fleet import names

Report = dict[str, Any]


def result(rule: str, status: str, subject: str = "", observed: str = "", reason: str = "") -> dict[str, Any]:
    findings = [{"subject": subject, "observed": observed, "expected": ""}] if status == "fail" else []
    return {"rule": rule, "status": status, "findings": findings, "reason": reason}


def right_answer(planted: dict[str, tuple[str, ...]], *, later: bool) -> Report:
    """The report of a sweep that finds everything and accuses no one else."""
    nodes = []
    for name, planted_here in planted.items():
        wanted = EXPECTED[planted_here[0]] if planted_here else expected.HEALTHY
        if wanted.later and not later:
            wanted = expected.HEALTHY
        if wanted.stage is not None:
            nodes.append(
                {"node": name, "state": "unknown", "reason": f"{wanted.stage}: because", "results": []})
            continue
        told: dict[tuple[str, str], str] = {}
        for said in wanted.message:
            key = (said.rule, said.status)
            told[key] = f"{told[key]} {said.about}" if key in told else said.about
        results = [result("host-memory-bandwidth", "pass")]
        results += [result(rule, status, *about.split(": ", 1), reason=about) for (rule, status),
                    about in told.items()]
        nodes.append({"node": name, "state": wanted.state, "reason": "", "results": results})
    return {"nodes": nodes}


ALL = plan(names(32), 1)
SOME_NODE = {fault: name for name, planted in ALL.items() for fault in planted}
HEALTHY_NODE = next(name for name, planted in ALL.items() if not planted)


def node_of(report: Report, name: str) -> dict[str, Any]:
    return next(node for node in report["nodes"] if node["node"] == name)


def test_every_fault_that_can_be_planted_is_expected_and_no_other() -> None:
    assert set(EXPECTED) == set(FAULTS)


def test_what_expects_and_what_plants_do_not_import_each_other() -> None:
    for module, other in ((expected, "faults"), (faults, "expected")):
        tree = ast.parse(Path(module.__file__ or "").read_text())
        imported = {
            alias.name for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))
            for alias in node.names}
        imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not any(name.rpartition(".")[2] == other for name in imported)


def test_expectations_name_rules_and_stages_that_exist() -> None:
    rules = {rule.id: rule for rule in load_ruleset([rulesfolder.packaged()]).rules}
    for fault, expectation in EXPECTED.items():
        assert expectation.stage is None or Stage(expectation.stage), fault
        assert {said.rule for said in expectation.message} <= set(rules), fault
        severities = {
            rules[said.rule].severity.value for said in expectation.message if said.status == "fail"}
        if severities:
            assert expectation.state == ("unhealthy" if "critical" in severities else "degraded"), fault


@pytest.mark.parametrize("later", [False, True])
def test_a_right_answer_has_nothing_wrong(later: bool) -> None:
    assert compare(right_answer(ALL, later=later), ALL, later=later) == []


def test_what_takes_time_is_missed_by_a_second_look_that_does_not_say_it() -> None:
    name = SOME_NODE["link-flapping"]
    wrong = compare(right_answer(ALL, later=False), ALL, later=True)
    assert wrong
    assert all(line.startswith(f"{name} (link-flapping)") for line in wrong)


@pytest.mark.parametrize("fault", sorted(EXPECTED))
def test_a_sweep_that_calls_a_sick_node_healthy_is_found_out(fault: str) -> None:
    report = right_answer(ALL, later=True)
    sick = node_of(report, SOME_NODE[fault])
    sick.update({"state": "healthy", "reason": "", "results": [result("gpu-count", "pass")]})
    wrong = compare(report, ALL, later=True)
    assert len(wrong) >= 2
    assert all(line.startswith(f"{SOME_NODE[fault]} ({fault}): ") for line in wrong)


def _accuse_the_healthy(report: Report) -> str:
    node_of(report, HEALTHY_NODE)["results"].append(result("gpu-count", "fail", "GPUs on PCI", "7"))
    return f"{HEALTHY_NODE} (healthy): false accusation: gpu-count fails: GPUs on PCI: 7"


def _accuse_the_sick_of_something_else(report: Report) -> str:
    node_of(
        report, SOME_NODE["swap-on"])["results"].append(result("port-rate", "fail", "mlx5_0/1", "100 Gb/s"))
    return f"{SOME_NODE['swap-on']} (swap-on): false accusation: port-rate fails: mlx5_0/1: 100 Gb/s"


def _call_unknown(report: Report) -> str:
    node_of(report, HEALTHY_NODE)["state"] = "unknown"
    return f"{HEALTHY_NODE} (healthy): is called unknown, expected healthy"


def _forget_a_node(report: Report) -> str:
    report["nodes"].remove(node_of(report, HEALTHY_NODE))
    return f"{HEALTHY_NODE} (healthy): not reported"


def _report_twice(report: Report) -> str:
    report["nodes"].append(copy.deepcopy(node_of(report, HEALTHY_NODE)))
    return f"{HEALTHY_NODE}: reported twice"


def _invent_a_node(report: Report) -> str:
    report["nodes"].append({"node": "gpu999", "state": "healthy", "reason": "", "results": []})
    return "gpu999: reported, but there is no such node"


def _name_another_stage(report: Report) -> str:
    node_of(report, SOME_NODE["refused"])["reason"] = "auth: no key was accepted"
    return (f"{SOME_NODE['refused']} (refused): missed: expected to fail at stage connect, reason is 'auth: "
            "no key was accepted'")


def _name_another_gpu_count(report: Report) -> str:
    node_of(report, SOME_NODE["gpu-missing"])[
        "results"][-1]["findings"][0] = {"subject": "GPUs on PCI", "observed": 6, "expected": 8}
    node_of(report, SOME_NODE["gpu-missing"])["results"][-1]["reason"] = ""
    return f"{SOME_NODE['gpu-missing']} (gpu-missing): missed: expected gpu-count to be fail about '7'"


@pytest.mark.parametrize(
    "change",
    [_accuse_the_healthy, _accuse_the_sick_of_something_else, _call_unknown, _forget_a_node, _report_twice,
     _invent_a_node, _name_another_stage, _name_another_gpu_count])
def test_one_thing_that_is_wrong_is_one_line(change: Callable[[Report], str]) -> None:
    report = right_answer(ALL, later=True)
    line = change(report)
    assert compare(report, ALL, later=True) == [line]


@given(st.integers(0, 60), st.integers())
def test_any_plan_is_matched_by_its_right_answer(nodes: int, seed: int) -> None:
    planted = plan(names(nodes), seed)
    assert compare(right_answer(planted, later=True), planted, later=True) == []


@pytest.mark.parametrize("fault", sorted(name for name in EXPECTED if EXPECTED[name].message))
def test_a_fault_that_is_seen_for_another_reason_is_missed(fault: str) -> None:
    report = right_answer(ALL, later=True)
    for entry in node_of(report, SOME_NODE[fault])["results"]:
        entry["reason"] = ""
        for finding in entry["findings"]:
            finding["subject"] = finding["observed"] = "something"
    wrong = compare(report, ALL, later=True)
    assert len([line for line in wrong if "missed: " in line]) == len(EXPECTED[fault].message)


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(KeyError):
        compare({"nodes": []}, {"gpu001": ("no-such-fault",)})
