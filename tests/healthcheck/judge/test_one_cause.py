"""A lost GPU is one line in whatever people and alerts read, and UNKNOWN in each rule's own result."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from healthcheck.cli.gatequick import _reason
from healthcheck.explain.judging import unjudged
from healthcheck.judge.nodereport import summary_line
from healthcheck.model.outcome import NodeReport, NodeState, Result, Severity, Status, exit_code
from healthcheck.model.recording import Capture, Outcome
from healthcheck.report.document import document
from healthcheck.report.table import Heading
from healthcheck.sweep.assess import Assessed
from inventory.model import Node
from tests.documents import validate
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed, page_of
from tests.packagedrules import RULES

NODES = [Node(name=f"gpu{number:03d}", sku="hgx-h100") for number in range(1, 5)]
WHEN: dict[str, Any] = {"started": "", "finished": "", "partial": False}
LOST = [15, "GPU is lost"]


def sweep(**changes: Capture) -> Assessed:
    return assessed(*(machine.recording(node.name, **(changes if node is NODES[0] else {}))
                      for node in NODES), nodes=NODES)


def page(of: Assessed) -> str:
    return page_of(of, RULES.rules, width=80, heading=Heading("x", 1.0, False, len(RULES.rules)))


def about(of: NodeReport, subject: str) -> list[Result]:
    """The results that name this subject among what they could not judge."""
    return [result for result in of.results if result.status in (Status.UNKNOWN, Status.FAIL)
            and subject in result.reason]


@pytest.fixture(scope="module")
def one() -> Assessed:
    return sweep(gpu_nvml=machine.lost_gpus(5))


def test_the_table_has_one_line_for_it_with_the_remedy(one: Assessed) -> None:
    rules = len(about(one.reports[0], "GPU 5"))
    assert rules > 17
    lines = page(one).splitlines()
    at = lines.index(f"    gpu001  GPU 5 is lost (NVML 15); {rules} rules cannot be judged for it")
    assert (lines[at - 1] == "CRITICAL  gpu-answers"
            and lines[at + 1].startswith("    remedy (operator): Drain"))
    assert [line for line in lines if "UNKNOWN" in line or "GPU is lost" in line] == []


def test_each_result_stays_unknown_and_points_to_its_cause(one: Assessed) -> None:
    told = document(one.reports, **WHEN)
    validate(told, "check-2")
    (node, *_) = told["nodes"]
    (cause,) = node["causes"]
    blind = [result for result in node["results"] if result["status"] == "unknown" and "because" in result]
    assert {result["rule"] for result in blind} == set(cause["rules"])
    assert all(result["because"] == [{"rule": "gpu-answers", "subject": "GPU 5"}] for result in blind)
    assert node["counts"]["unknown"] >= len(blind) == len(cause["rules"])
    assert cause["text"] == f"GPU 5 is lost (NVML 15); {len(blind)} rules cannot be judged for it"
    assert cause["remedy"].startswith("Drain and reboot the node") and cause["owner"] == "operator"
    assert "causes" not in told["nodes"][1]


def test_the_node_is_as_unhealthy_as_before(one: Assessed) -> None:
    (node, *others) = one.reports
    assert (node.state, exit_code(one.reports)) == (NodeState.UNHEALTHY, 1)
    assert {other.state for other in others} == {NodeState.HEALTHY}


def test_its_reason_its_line_the_gate_and_explain_name_the_cause_once(one: Assessed) -> None:
    node = one.reports[0]
    rules = len(about(node, "GPU 5"))
    words = f"GPU 5 is lost (NVML 15); {rules} rules cannot be judged for it"
    assert node.reason == f"gpu-answers: {words}"
    line = summary_line(node, 500)
    assert (line.startswith(f"unhealthy: gpu-answers: {words} (1 failed, ")
            and line.endswith(f" {rules} explained)"))
    assert _reason(node) == f"fails gpu-answers now: {words}"
    assert unjudged(node) == []


def test_two_lost_gpus_are_two_lines_each_with_its_own_number() -> None:
    of = sweep(gpu_nvml=machine.lost_gpus(2, 5))
    told = [line.strip() for line in page(of).splitlines()
            if "cannot be judged for it" in line and not line.startswith("1. ")]
    assert [line.partition(" is lost")[0] for line in told] == ["GPU 2", "GPU 5"]
    (node, *_) = document(of.reports, **WHEN)["nodes"]
    for line, cause in zip(told, node["causes"], strict=True):
        mine = [result["rule"] for result in node["results"]
                if {"rule": "gpu-answers", "subject": cause["subject"]} in result.get("because", [])]
        assert line == cause["text"] and cause["rules"] == mine and f" {len(mine)} rules" in line
    assert all(line in of.reports[0].reason for line in told)


def test_what_is_unknown_for_another_reason_is_shown_beside_it() -> None:
    of = sweep(gpu_nvml=machine.lost_gpus(5), docker_info=Capture(Outcome.TIMEOUT))
    text = page(of)
    assert "GPU 5 is lost (NVML 15)" in text and "docker: docker did not answer within" in text


def test_a_rule_that_is_unknown_for_two_reasons_shows_the_other_one() -> None:
    denied = json.loads(machine.lost_gpus(5).text.splitlines()[2])
    denied["serial"] = denied["ecc_mode"] = {"error": [4, "Insufficient Permissions"]}
    lines = machine.lost_gpus(5).text.splitlines()
    lines[2] = json.dumps(denied)
    of = sweep(gpu_nvml=dataclasses.replace(machine.nvml(), text="\n".join(lines) + "\n"))
    found = page(of).splitlines()
    line = found[found.index("UNKNOWN  gpu-ecc-enabled") + 1]
    assert "GPU 1: NVML: ecc_mode: Insufficient Permissions (error 4)" in line and "GPU 5" not in line
    assert "gpu-ecc-enabled" in document(of.reports, **WHEN)["nodes"][0]["causes"][0]["rules"]


def test_a_failing_rule_that_could_not_judge_the_lost_gpu_still_fails() -> None:
    lines = [json.loads(line) for line in machine.lost_gpus(5).text.splitlines()]
    lines[2]["ecc_uncorrected"] = {"ok": 12}
    of = sweep(gpu_nvml=dataclasses.replace(machine.nvml(), text="\n".join(map(json.dumps, lines)) + "\n"))
    text = page(of)
    assert "GPU 1: 12, expected at most 0" in text and "not judged: GPU 5" not in text
    assert "gpu-ecc-uncorrected" in document(of.reports, **WHEN)["nodes"][0]["causes"][0]["rules"]


def test_where_the_rule_that_names_the_cause_is_left_out_every_unknown_is_shown() -> None:
    rules = RULES.select((), ("gpu-answers",))
    (node,) = assessed(machine.recording(NODES[0].name, gpu_nvml=machine.lost_gpus(5)), nodes=NODES[:1],
                       rules=rules).reports
    assert node.state is NodeState.UNKNOWN
    assert "GPU 5: NVML: GPU is lost (error 15)" in node.reason and "explained" not in summary_line(node, 500)


def test_where_no_gpu_answers_the_driver_is_the_one_cause() -> None:
    of = sweep(gpu_nvml=machine.lost_gpus(*range(8), error=[999, "Unknown Error"]))
    line, again = [line for line in page(of).splitlines() if "cannot be judged for it" in line]
    assert again.startswith("1. gpu001  driver-loads: driver: ")
    assert line.startswith(
        "    gpu001  driver: the driver lists 8 GPUs, and none answers: Unknown Error (NVML 999); ")
    assert [one.rule for one in of.reports[0].results if one.status is Status.FAIL] == ["driver-loads"]


def test_a_driver_that_is_not_loaded_is_one_line() -> None:
    text = json.dumps({"error": [9, "Driver Not Loaded"]}) + "\n"
    refused = Capture(Outcome.DONE, seconds=0.1, bytes=1, text=text)
    failed = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    for second in (Capture(Outcome.MISSING), Capture(Outcome.DONE, exit=9, text=failed)):
        of = sweep(gpu_nvml=refused, gpu_smi=second)
        line, again = [line for line in page(of).splitlines() if "cannot be judged for it" in line]
        assert again.startswith("1. gpu001  driver-loads: driver: ")
        assert line.startswith("    gpu001  driver: NVML: Driver Not Loaded; ")
        assert [line for line in page(of).splitlines() if "UNKNOWN" in line] == []


def test_what_a_node_calls_its_error_is_bounded_and_escaped_wherever_it_is_shown() -> None:
    of = sweep(gpu_nvml=machine.lost_gpus(5, error=[15, "\x1b[2J\n\u202e[bold]" + "x" * 5000]))
    node = of.reports[0]
    for text in (page(of), node.reason, summary_line(node, 500), json.dumps(document(of.reports, **WHEN))):
        assert "\x1b" not in text and "\u202e" not in text
        assert "x" * 200 not in text and "rules cannot be judged for it" in text


def test_the_rules_that_name_causes_are_critical() -> None:
    critical = {rule.id for rule in RULES.rules if rule.checked.answers
                and rule.severity is Severity.CRITICAL}
    assert {"gpu-answers", "driver-loads", "filesystem-answers", "docker-answers",
            "disk-nvme-state"} <= critical
