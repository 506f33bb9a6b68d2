"""What judged nodes have in common is kept once, and that changes no result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.nvlink import NvLinkErrors
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, readings
from healthcheck.model.outcome import Finding, NodeReport, Origin, Result, Severity, Status
from healthcheck.sweep.sharing import SharedParts
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
    monkeypatch.setattr(SharedParts, "results", lambda self, found: dict(found))
    monkeypatch.setattr(SharedParts, "result", lambda self, result: result)
    monkeypatch.setattr(SharedParts, "whole", lambda self, results: results)
    monkeypatch.setattr(SharedParts, "facts", lambda self, facts: dict(facts))
    assert reports() == shared
    assert {report.state.value for report in shared} > {"healthy"}


def test_equal_nodes_have_one_tuple_of_results() -> None:
    healthy = [report for report in reports() if report.node not in ("gpu002", "gpu003")]
    assert len({id(report.results) for report in healthy}) == 1


def links(*replays: Any) -> Mapping[str, Any]:
    return {"nvlink_errors": tuple(NvLinkErrors(f"link {number}", 0, number, replay, 0, 0, 0, 0)
                                   for number, replay in enumerate(replays))}


VALUES = st.one_of(st.integers(0, 2), st.booleans(), st.sampled_from([0.0, 1.0]), st.just(UNSUPPORTED),
                   st.builds(Unmeasured, st.sampled_from(["denied", "hung"]), st.sampled_from(Origin)))


def exactly(value: Any) -> Any:
    """Told apart by type as well: 1, 1.0 and True are equal."""
    if isinstance(value, tuple):
        return tuple(map(exactly, value))
    if isinstance(value, Fact):
        return type(value), tuple(map(exactly, readings(value).values()))
    return type(value), value


@given(st.lists(st.lists(VALUES, max_size=4), max_size=6))
def test_facts_stay_exactly_what_they_are(nodes: list[list[Any]]) -> None:
    parts = SharedParts()
    for replays in nodes:
        given_ = links(*replays)
        assert exactly(parts.facts(given_)["nvlink_errors"]) == exactly(given_["nvlink_errors"])


def test_equal_collections_and_equal_members_are_kept_once() -> None:
    parts = SharedParts()
    one, two, three = (parts.facts(links(*replays))["nvlink_errors"] for replays in ((0, 0), (0, 0), (0, 7)))
    assert one is two and one is not three and one[0] is three[0] and three[1].replay == 7


def test_a_fact_that_cannot_be_pickled_is_its_nodes_own() -> None:
    odd = {"nvlink_errors": lambda: None}
    assert SharedParts().facts(odd) == odd


STATUSES = st.sampled_from(Status)
RESULTS = st.lists(st.tuples(STATUSES, st.sampled_from(["", "why", "other"]),
                             st.sampled_from([None, *Origin])), max_size=5)


@given(st.lists(RESULTS, max_size=6))
def test_results_stay_what_they_are(nodes: list[list[tuple[Status, str, Origin | None]]]) -> None:
    parts = SharedParts()
    for found in nodes:
        results = {f"r{number}": Result(f"r{number}", "c", status, Severity.INFO,
                                        (Finding(1, 2, "s"),) if status is Status.FAIL else (),
                                        reason, origin)
                   for number, (status, reason, origin) in enumerate(found)}
        kept = parts.results(results)
        assert dict(kept) == results and list(kept) == list(results)
        kept["r0"] = Result("r0", "c", Status.UNKNOWN, Severity.INFO, reason="changed")
        assert parts.whole(tuple(results.values())) == tuple(results.values())
