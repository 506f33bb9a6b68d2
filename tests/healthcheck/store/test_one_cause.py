"""A lost GPU in the store: one problem, one alert, and no fault forgotten that it keeps from being
measured."""

from __future__ import annotations

import json

import pytest

from healthcheck.exporter.nodes import NOT_PASSED, RESULTS, rows
from healthcheck.exporter.source import NodeNow
from healthcheck.model.outcome import NodeReport
from healthcheck.model.recording import Capture
from healthcheck.store import newest
from healthcheck.store.file import Store
from healthcheck.store.readings import NodeReadings
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.store.telemetry import Telemetry
from inventory.model import Node
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed

NODE = Node(name="gpu001", sku="hgx-h100")


def report(capture: Capture) -> NodeReport:
    return assessed(machine.recording(NODE.name, gpu_nvml=capture), nodes=[NODE]).reports[0]


@pytest.fixture(scope="module")
def blind() -> NodeReport:
    return report(machine.lost_gpus(5))


def swept(store: Store, of: NodeReport, time: float = 1.0) -> newest.Newest:
    shown = {NODE.name: NodeReadings((), (), frozenset(), shown=Telemetry())}
    record(store, SweepRecord(time, time + 1, False, "test", "digest"), [of], shown)
    (row,) = newest.rows(store)
    return newest.decoded(*row)


def open_problems(store: Store) -> dict[str, tuple[str, str, str]]:
    return {rule: (subject, status, observed) for rule, subject, status, observed in store.rows(
        "SELECT rule, subject, status, observed FROM problem WHERE ended IS NULL AND severity != 'info'")}


def test_what_triage_and_tickets_read_is_the_cause_alone_with_the_number_of_rules(
    store: Store, blind: NodeReport,
) -> None:
    swept(store, blind)
    rules = sum(any(part.cause for part in result.unjudged) for result in blind.results)
    assert open_problems(store) == {"gpu-answers": (
        "GPU 5", "fail", f"GPU is lost (NVML 15); {rules} rules cannot be judged for it")}


def test_the_metrics_count_the_cause_and_say_how_many_rules_it_explains(store: Store,
                                                                        blind: NodeReport) -> None:
    held = swept(store, blind)
    assert [one.rule for one in held.not_passed if one.severity != "info"] == ["gpu-answers"]
    page = rows(NodeNow(NODE.name, NODE, held, ()), 2.0, 600.0)
    text = "\n".join(str(row) for family in page.of for row in family)
    assert held.statuses["explained"] > 17 and sum(held.statuses.values()) == len(blind.results)
    assert "explained" in text and RESULTS.labels[-1] == "status" and NOT_PASSED.labels[2] == "rule"


def test_a_fault_that_a_lost_gpu_keeps_from_being_measured_is_not_forgotten(
    store: Store, blind: NodeReport,
) -> None:
    swept(store, report(machine.nvml(gpu5={"ecc_uncorrected": {"ok": 12}})))
    for time in (2.0, 3.0):
        held = swept(store, blind, time)
        assert "gpu-ecc-uncorrected" in open_problems(store)
        assert {one.rule: one.status for one in held.not_passed if one.severity != "info"} == {
            "gpu-answers": "fail", "gpu-ecc-uncorrected": "unknown"}
    held = swept(store, report(machine.nvml()), 4.0)
    assert open_problems(store) == {} and all(one.severity == "info" for one in held.not_passed)


def test_an_unknown_of_before_ends_where_its_cause_is_known_now(store: Store, blind: NodeReport) -> None:
    unread = json.loads(machine.nvml().text.splitlines()[6])
    unread["ecc_mode"] = {"error": [4, "Insufficient Permissions"]}
    swept(store, report(machine.nvml(gpu5=unread)))
    assert open_problems(store)["gpu-ecc-enabled"][1] == "unknown"
    swept(store, blind, 2.0)
    assert open_problems(store).keys() == {"gpu-answers"}
