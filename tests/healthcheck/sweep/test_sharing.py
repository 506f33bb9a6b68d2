"""Equal results of judged nodes are kept once, and that changes no report."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.model.outcome import Finding, NodeReport, Origin, Result, Severity, Status, Unjudged
from healthcheck.sweep.sharing import SharedResults
from inventory.model import Node
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed
from tests.healthcheck.checks.verdicts import after

NODES = [Node(name=f"gpu{number:03d}", sku="hgx-h100") for number in range(1, 9)]


def reports() -> tuple[NodeReport, ...]:
    odd = {"gpu002": machine.recording("gpu002",
                                       gpu_nvml=machine.nvml(gpu3={"vbios": {"ok": "x"},
                                                                   "ecc_corrected": {"error": [999, "x"]}})),
           "gpu003": machine.recording("gpu003", gpu_nvml=machine.nvml(7), gpu_pci=machine.pci(7))}
    seen = [odd.get(node.name) or machine.recording(node.name) for node in NODES]
    return assessed(*seen, nodes=NODES,
                    before={node.name: after(machine.recording(node.name), -60) for node in NODES}).reports


def test_reports_are_the_same_as_without_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = reports()
    monkeypatch.setattr(SharedResults, "once", lambda self, results: list(results))
    assert reports() == shared
    assert {report.state.value for report in shared} > {"healthy"}


def test_nodes_with_equal_results_hold_the_same_ones() -> None:
    healthy = [report for report in reports() if report.node not in ("gpu002", "gpu003")]
    same = zip(*(report.results for report in healthy), strict=True)
    assert {len(set(map(id, results))) for results in same} == {1}
    assert any(result.reason for result in healthy[0].results)


STATUSES = st.sampled_from(Status)
RESULTS = st.lists(st.tuples(STATUSES, st.sampled_from(["", "why", "other"]),
                             st.sampled_from([None, *Origin])), max_size=5)


@given(st.lists(RESULTS, max_size=6))
def test_results_stay_what_they_are(nodes: list[list[tuple[Status, str, Origin | None]]]) -> None:
    shared = SharedResults()
    for found in nodes:
        results = [Result(f"r{number}", "c", status, Severity.INFO,
                          (Finding(1, 2, "s"),) if status is Status.FAIL else (), reason, origin)
                   for number, (status, reason, origin) in enumerate(found)]
        assert shared.once(results) == results


def test_results_that_differ_in_their_parts_alone_stay_apart() -> None:
    one, other = (Result("r", "c", Status.UNKNOWN, Severity.INFO, reason="why",
                         unjudged=(Unjudged("x", (gpu,)),)) for gpu in ("GPU 0", "GPU 1"))
    assert SharedResults().once((one, other, replace(one))) == [one, other, one]
