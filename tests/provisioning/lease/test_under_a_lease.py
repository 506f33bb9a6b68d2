"""A sweep under a lease: who is sent what, for how long, alone, and what is not believed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from healthcheck.model.lease import Lease
from healthcheck.model.outcome import Origin, Status
from healthcheck.model.probes import Effect, Probe, ProbeKind
from healthcheck.model.recording import Capture, Outcome
from healthcheck.report.progress import progress
from healthcheck.sweep import sweep
from healthcheck.sweep.assess import Assessment
from healthcheck.sweep.saved import load_manifest
from inventory.errors import UsageError
from inventory.model import Node
from inventory.transport.base import Failure, Limits, Program, Reply, Stage
from provisioning.lease.check import SweepLeases
from tests.healthcheck import machine
from tests.packagedrules import RULES
from tests.testbed.collector import collect

QUICK = RULES.select(["dcgm-diag-quick", "gpu-count"])
NODES = (Node("gpu001", sku="hgx-h100"), Node("gpu002", sku="hgx-h100"))


class Sent:
    """A transport that reaches no one, and remembers which probes went where."""

    def __init__(self) -> None:
        self.probes: dict[str, set[str]] = {}
        self.seconds: dict[str, float] = {}
        self.bounds: dict[str, Limits] = {}

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        packed = program.payload.partition(b"\n")[2]
        document = json.loads(zlib.decompress(packed).partition(b"\0")[2])
        for node in nodes:
            self.probes[node.name] = {probe["id"] for probe in document["probes"]}
            self.seconds[node.name] = document["seconds"]
            self.bounds[node.name] = limits
            yield Reply(node.name, None, Failure(Stage.CONNECT, "nobody"), 0, 0)


def test_a_node_that_the_lease_refuses_is_sent_what_is_passive_and_nothing_else() -> None:
    sent = Sent()
    plan = sweep.SweepPlan(NODES, QUICK)
    bounds, _ = sweep.leased_limits(plan, None, 64)
    lease = Lease(frozenset({"gpu001"}), "a test", {"gpu002": "a job is on it"})
    outcome = sweep.live(plan, sent, bounds, progress(0, "", quiet=True), lease=lease)
    assert "dcgm.diag_quick" in sent.probes["gpu001"] and "gpu.nvml" in sent.probes["gpu002"]
    disruptive = {probe.id for rule in RULES.rules for probe in rule.disruptive}
    assert not sent.probes["gpu002"] & disruptive and sent.bounds["gpu002"].node_s <= 105
    assert [report.node for report in outcome.assessed.reports] == ["gpu001", "gpu002"]


@pytest.mark.parametrize(("leased", "node_s", "seconds"), [
    (False, 60, 45), (False, 48, 43), (False, 20, 15), (False, 3, 1), (True, 600, 595), (True, 20, 15),
])
def test_the_collector_ends_early_enough_for_its_answer_to_come_back_before_its_node_is_given_up(
        leased: bool, node_s: float, seconds: float) -> None:
    sent, lease = Sent(), Lease(frozenset({"gpu001", "gpu002"}), "a test") if leased else None
    sweep.live(sweep.SweepPlan(NODES, QUICK), sent, replace(Limits(), node_s=node_s),
               progress(0, "", quiet=True), lease=lease)
    assert set(sent.seconds.values()) == {seconds}


def test_the_bounds_are_what_the_probes_may_take_one_after_another_and_a_deadline_goes_before() -> None:
    plan = sweep.SweepPlan(NODES, RULES.select(["dcgm-diag-quick", "container-all-gpus"]))
    bounds, probes = sweep.leased_limits(plan, None, 64)
    assert {probe.id for probe in probes} == {"dcgm.diag_quick", "container.run"}
    assert bounds.node_s == 105 + sum(
        probe.seconds for probe in probes) and bounds.sweep_s == 2 * bounds.node_s, "and a second try"
    assert sweep.leased_limits(plan, None, 1)[0].sweep_s == 3 * bounds.node_s
    assert sweep.leased_limits(plan, 90, 64)[0].sweep_s == sweep.leased_limits(plan, 90, 64)[0].node_s == 90
    assert sweep.leased_limits(sweep.SweepPlan(NODES, RULES.select(["gpu-count"])), None, 64)[1] == ()


def test_whoever_names_a_fleet_and_no_rule_is_asked_what_is_meant(tmp_path: Path) -> None:
    plan = sweep.SweepPlan(tuple(Node(f"gpu{number:03d}") for number in range(512)), RULES)
    with pytest.raises(
        UsageError, match=r"512 nodes, to be held for at most \d+ min .*: name fewer nodes, choose rules"
    ), SweepLeases(None, None, tmp_path, None, 64)(plan, Sent()):
        pass
    assert list(tmp_path.iterdir()) == []


def said(status: str) -> Capture:
    results = [
        {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": status} for gpu in range(8)]
    text = json.dumps({
        "DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [
            {"name": "memory", "results": results, "test_summary": {"status": status}}]}]},
        "entity_groups": [{"entity_group": "GPU", "entity_group_id": 1, "entities": [
            {"device_id": "2330", "entity_id": gpu, "serial_num": f"16{gpu}"} for gpu in range(8)]}],
        "metadata": {"Driver Version Detected": "550.54.15", "version": "4.2.3"},
    })
    return Capture(
        Outcome.DONE, exit=0 if status == "Pass" else 226, seconds=90.0, bytes=len(text), text=text)


@pytest.mark.parametrize("captured", [said("Pass"), said("Fail"), None])
def test_what_was_measured_without_a_lease_that_stood_is_unknown_and_nothing_else_is(
    captured: Capture | None,
) -> None:
    recording = machine.recording()
    held = recording.captures if captured is None else {**recording.captures, "dcgm.diag_quick": captured}
    assessment = Assessment((NODES[0],), RULES, sent=["dcgm.diag_quick"])
    assessment.add(replace(recording, captures=held))
    results = {
        each.rule: each
        for each in assessment.finish(withheld={"gpu001": "its lease was lost: gone"}).reports[0].results}
    quick = results["dcgm-diag-quick"]
    assert (quick.status, quick.origin, quick.reason, quick.findings) == (
        Status.UNKNOWN, Origin.MUSTER, "needs a lease: its lease was lost: gone", ())
    assert results["gpu-count"].status is Status.PASS


def test_a_rule_that_was_left_out_stays_left_out() -> None:
    assessment = Assessment((NODES[0],), QUICK, sent=["dcgm.diag_quick"])
    assessment.add(machine.recording())
    results = {
        each.rule: each
        for each in assessment.finish(withheld={"gpu001": "a job is on it"}).reports[0].results}
    assert (results["dcgm-diag-medium"].status is Status.SKIPPED
            and results["dcgm-diag-quick"].status is Status.UNKNOWN)


def test_a_saved_sweep_keeps_why_nothing_was_measured(tmp_path: Path) -> None:
    from healthcheck.sweep.saved import Saver

    plan = sweep.SweepPlan(NODES, QUICK)
    lease = Lease(frozenset({"gpu001"}), "a test", {"gpu002": "a job is on it"},
                  lambda: {"gpu001": "its lease was lost: \x1b[31mgone"})
    sweep.live(
        plan, Sent(), Limits(), progress(0, "", quiet=True), lease=lease, saver=Saver(tmp_path / "saved"))
    assert load_manifest(tmp_path / "saved").withheld == {
        "gpu001": "its lease was lost: \\x1b[31mgone", "gpu002": "a job is on it"}


class Alone(Probe):
    """What the collector is told of a disruptive probe, and no lease is needed to send."""

    def to_json(self) -> dict[str, Any]:
        return replace(Probe(self.id, self.kind, argv=self.argv), effect=Effect.DISRUPTIVE).to_json()


def test_of_what_is_disruptive_one_runs_at_a_time_and_after_all_else(tmp_path: Path) -> None:
    mark = tmp_path / "running"
    alone = f"test ! -e {mark} && touch {mark} && sleep 0.2 && rm {mark} && echo alone"
    probes = [Alone(f"a.disruptive_{n}", ProbeKind.COMMAND, argv=("/bin/sh", "-c", alone)) for n in range(3)]
    passive = [Probe(f"b.passive_{n}", ProbeKind.COMMAND,
                     argv=("/bin/sh", "-c", f"sleep 0.2; test ! -e {mark} && echo before")) for n in range(3)]
    captures = collect([*probes, *passive]).captures
    assert {name: (capture.outcome, capture.text) for name, capture in captures.items()} == {
        **{probe.id: (Outcome.DONE, "alone\n") for probe in probes},
        **{probe.id: (Outcome.DONE, "before\n") for probe in passive}}
