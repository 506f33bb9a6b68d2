"""Until all nodes were judged, only what fleet rules read of the facts is kept: that changes no result."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from healthcheck.checks.base import CHECKS
from healthcheck.facts.gpu import Gpu
from healthcheck.facts.nvme import Nvme
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, narrowed, reading, readings
from healthcheck.model.outcome import NodeReport, Origin, Status
from healthcheck.sweep import assess, judgednode
from inventory.model import Node
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed
from tests.healthcheck.checks.verdicts import after
from tests.packagedrules import RULES

NODES = [Node(name=f"gpu{number:03d}", sku="hgx-h100") for number in range(1, 9)]
READERS = [name for name, check in CHECKS.items() if check.fleet and check.reads]
# One node for each: another version, a quantity far off, a counter that grew, fell, or cannot be read.
ODD: tuple[dict[str, Any], ...] = (
    {"vbios": {"ok": "x"}, "name": {"ok": "NVIDIA A100"}, "inforom": {"ok": "y"},
     "gsp_firmware": {"ok": "z"}},
    {"part_number": {"ok": "p"}, "pcie_width": {"ok": 8}, "temperature_c": {"ok": 91},
     "power_mw": {"ok": 400_000}},
    {"ecc_corrected": {"ok": 90_000}, "pcie_replays": {"ok": 70_000}},
    {"ecc_corrected": {"error": [999, "Unknown Error"]}, "vbios": {"na": True},
     "utilization_percent": {"error": [999, "x"]}},
)


def reports() -> tuple[NodeReport, ...]:
    seen = [machine.recording(node.name,
                              **({"gpu_nvml": machine.nvml(gpu3=ODD[number])} if number < len(ODD) else {}))
            for number, node in enumerate(NODES)]
    return assessed(*seen, nodes=NODES, rules=RULES.select(only=("fleet-*",)),
                    before={node.name: after(machine.recording(node.name), -3600) for node in NODES}).reports


@cache
def as_they_are() -> tuple[NodeReport, ...]:
    return reports()


def test_reports_are_those_of_whole_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = as_they_are()
    monkeypatch.setattr(assess, "narrowed_for_fleet", lambda facts, view: dict(facts))
    assert found == reports()
    failed = {result.rule for report in found for result in report.results if result.status is Status.FAIL}
    assert {"fleet-vbios", "fleet-pcie", "fleet-board", "fleet-ecc-corrected", "fleet-pcie-replays"} <= failed


@pytest.mark.parametrize("name", READERS)
def test_a_check_names_each_field_that_it_reads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check = CHECKS[name]
    whole = {report.node: results(report, name) for report in as_they_are()}
    monkeypatch.setattr(assess, "narrowed_for_fleet", lambda facts, view: {
        fact: judgednode.with_fields(value, frozenset(check.reads)) if fact == check.subject else value
        for fact, value in facts.items()})
    assert {report.node: results(report, name) for report in reports()} == whole


def results(report: NodeReport, check: str) -> list[Any]:
    return [result for result in report.results if result.check == check]


def test_there_are_checks_that_say_what_they_read_and_all_their_fields_exist() -> None:
    assert len(READERS) > 8
    fields = {"gpus": Gpu.FIELDS, "nvmes": Nvme.FIELDS}
    assert not [field for name in READERS
                for field in CHECKS[name].reads if field not in fields[CHECKS[name].subject]]


def test_a_field_that_was_not_kept_is_no_value_and_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assess, "narrowed_for_fleet", lambda facts, view: {
        fact: judgednode.with_fields(value, frozenset(("index",))) if fact == "gpus" else value
        for fact, value in facts.items()})
    (result,) = results(reports()[-1], "fleet.vbios")
    assert (result.status, result.origin) == (Status.UNKNOWN,
                                              Origin.MUSTER) and "Gpu.vbios was not kept" in result.reason


def test_a_narrowed_fact_refuses_what_the_whole_one_refused() -> None:
    class Thing(Fact):
        name: str
        size: int
        weight: int

    fact = narrowed(Thing("a", Unmeasured("hung"), UNSUPPORTED), ("name", "size"))
    assert readings(fact) == {"name": "a", "size": Unmeasured("hung")}
    assert reading(fact, "size") == Unmeasured("hung") and fact == narrowed(fact, ("name", "size"))
    with pytest.raises(AttributeError, match=r"Thing\.weight was not kept"):
        _ = fact.weight
