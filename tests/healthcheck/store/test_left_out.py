"""What is kept of nodes that a sweep left out by what their agents say: never a clean snapshot, for a
release, a certificate or the gate."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from healthcheck.blame.stored import _looks
from healthcheck.config.rulesfolder import packaged
from healthcheck.exporter.fleet import head
from healthcheck.exporter.stored import _head
from healthcheck.gate.entries import SnapshotEntries
from healthcheck.model.agentmetric import AgentBasis, AgentEvidence
from healthcheck.model.outcome import (
    Finding,
    NodeReport,
    NodeState,
    Origin,
    Result,
    Severity,
    Status,
    state_of,
)
from healthcheck.store.clock import newest_sweep
from healthcheck.store.file import Store
from healthcheck.store.hardware import newest_hardware
from healthcheck.store.history import prune
from healthcheck.store.leftout import KnownNode, known_to_head, left_out_nodes
from healthcheck.store.readings import readings
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.triage.gather import changes, gather
from healthcheck.triage.policy import TriagePolicy
from healthcheck.triage.policyload import load_policy
from healthcheck.triage.requalify import requalified
from inventory.model import Node
from tests.healthcheck import machine
from tests.packagedrules import RULES

NOW = 1_795_000_000.0
POLICY: TriagePolicy = load_policy([packaged()], RULES)
BASIS = AgentBasis("boot", "e", "timer", "r" * 64, "hgx-h100", "1.0")
LOOK = machine.recording("n1")
BOOT = LOOK.host.boot_id if LOOK.host is not None else ""


def sweep(store: Store, ago_minutes: float, report: NodeReport, *, selected: bool = False,
          boot: str = BOOT) -> None:
    """A sweep under the profile that may return nodes; what is visited is read as well."""
    at = NOW - 60 * ago_minutes
    record(store, SweepRecord(at, at + 5, False, "test", "digest", (POLICY.requalify.profile,), selected),
           [report],
           {} if report.agent is not None or report.stage else {"n1": replace(readings(LOOK), boot=boot)})


def visited(status: Status = Status.PASS) -> NodeReport:
    found = [Result("gpu-count", "gpu.count", status, Severity.CRITICAL,
                    (Finding(7, 8, "GPUs"),) if status is Status.FAIL else (),
                    "?" if status is Status.UNKNOWN else "",
                    Origin.NODE if status is Status.UNKNOWN else None)]
    return NodeReport("n1", state_of(found), "", tuple(found))


def by_agent(at: float = NOW - 60) -> NodeReport:
    return NodeReport("n1", NodeState.HEALTHY, "healthy, by its agent", (), sku="hgx-h100",
                      agent=AgentEvidence(at, BASIS, "node n1:9100"))


def everything(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """All rows that a sweep may write, but for the sweep's own and the agents'."""
    tables = [row[0] for row in store.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {table: [tuple(row) for row in store.rows(f"SELECT * FROM {table}")]  # noqa: S608
            for table in tables if table not in ("sweep", "left_out")}


@pytest.mark.parametrize("status", [Status.PASS, Status.FAIL, Status.UNKNOWN])
def test_what_an_agent_says_changes_nothing_that_the_head_has_seen(store: Store, status: Status) -> None:
    sweep(store, 60, visited(status))
    before = everything(store)
    for ago in (30, 20, 10):
        sweep(store, ago, by_agent())
    assert everything(store) == before
    assert (left_out_nodes(store)["n1"].swept == NOW - 600
            and left_out_nodes(store)["n1"].evidence == by_agent().agent)
    assert ([tuple(row) for row in store.rows("SELECT nodes, unreached FROM sweep ORDER BY id")]
            == [(1, 0), (0, 0), (0, 0), (0, 0)])


def test_it_stands_until_the_head_visits_the_node_or_fails_to(store: Store) -> None:
    for report in (visited(), visited(Status.FAIL),
                   NodeReport("n1", NodeState.UNKNOWN, "connect: no route", (), stage="connect")):
        sweep(store, 20, by_agent())
        assert set(left_out_nodes(store)) == {"n1"}
        sweep(store, 10, report)
        assert left_out_nodes(store) == {}
    sweep(store, 9, by_agent())
    prune(store, NOW - 60)
    assert left_out_nodes(store) == {}


def held(store: Store, ago_minutes: float) -> None:
    """Triage has isolated the node, and holds it."""
    at = NOW - 60 * ago_minutes
    with store.writing() as db:
        (node,) = db.execute("SELECT id FROM node WHERE name = 'n1'").fetchone()
        verdict = db.execute(
            "INSERT INTO verdict (node, fault, isolation, repair, owner, why, evidence, began, seen) "
            "VALUES (?, 'gpu-error', 'no-new-jobs', 'reboot', 'operator', '', '[]', ?, ?)",
            (node, at, at)).lastrowid
        action = db.execute(
            "INSERT INTO ledger (time, who, action, node, why, evidence, outcome) VALUES (?, 't', 'cordon', "
            "'n1', '', '', 'cordoned')",
          (at,)).lastrowid
        db.execute("INSERT INTO cordon (node, backend, why, who, state, began, line, verdict, store) VALUES "
                   "('n1', 'slurm', '', 't', 'held', ?, ?, ?, '7f3a')", (at, action, verdict))


def released(store: Store) -> bool:
    return requalified(gather(store, [Node("n1")], POLICY, NOW).nodes[0], POLICY, NOW)[0]


def test_no_number_of_an_agents_results_returns_a_node_that_the_heads_own_snapshots_do(store: Store) -> None:
    sweep(store, 300, visited(Status.FAIL))
    held(store, 299)
    sweep(store, 200, visited())
    for ago in (150, 100, 50):
        sweep(store, ago, by_agent(NOW - 60 * ago))
    assert not released(store)
    sweep(store, 20, visited())
    assert released(store)


def test_a_node_that_muster_holds_is_known_as_such_so_that_it_is_visited(store: Store) -> None:
    sweep(store, 300, visited())
    assert known_to_head(store)["n1"] == KnownNode(BOOT, NOW - 18000, healthy=True)
    held(store, 100)
    assert known_to_head(store)["n1"].held


def test_the_gate_and_certificates_go_by_the_heads_own_visit(store: Store) -> None:
    sweep(store, 200, visited())
    before = newest_hardware(store)
    sweep(store, 10, by_agent())
    assert before["n1"][0] == NOW - 12000 and newest_hardware(store) == before
    assert SnapshotEntries(store, NOW).entry(Node("n1"), [], None)["looked"] == int(NOW - 12000)


def test_a_node_that_no_sweep_ever_visited_stays_never_seen(store: Store) -> None:
    sweep(store, 10, by_agent())
    entry = SnapshotEntries(store, NOW).entry(Node("n1"), [], None)
    assert (entry["state"], entry["looked"]) == ("unknown", None) and known_to_head(store) == {}


def test_the_head_knows_a_boot_and_a_visit_by_its_own_sweeps_only(store: Store) -> None:
    assert newest_sweep(store, NOW) is None and known_to_head(store) == {}
    sweep(store, 60, visited(), selected=True)
    # A sweep of some rules is no visit, though it has met the boot.
    assert known_to_head(store) == {"n1": KnownNode(BOOT)}
    sweep(store, 50, visited(Status.FAIL))
    sweep(store, 48, visited(), selected=True, boot="later")
    # It was booted, and only some rules were judged since.
    assert known_to_head(store) == {"n1": KnownNode("later", None, healthy=False)}
    sweep(store, 46, visited(), boot="later")
    assert known_to_head(store) == {"n1": KnownNode("later", NOW - 2760, healthy=True)}
    sweep(store, 44, visited(Status.FAIL))
    assert known_to_head(store) == {"n1": KnownNode(BOOT, NOW - 2640, healthy=False)}
    sweep(store, 40, NodeReport("n1", NodeState.UNKNOWN, "connect: no route", (), stage="connect"))
    assert (known_to_head(store) == {"n1": KnownNode(BOOT, None, healthy=False)}
            and newest_sweep(store, NOW) == NOW - 2400)


def test_a_sweep_that_left_most_nodes_out_looked_at_most_of_them_for_what_a_change_brings(
        store: Store) -> None:
    reports = [NodeReport(f"n{number}", NodeState.HEALTHY, "", visited().results) for number in range(2, 12)]
    for ago in (90, 60, 30):
        at = NOW - 60 * ago
        left = [NodeReport(one.node, NodeState.HEALTHY, "", (), agent=by_agent().agent)
                for one in reports] if ago < 90 else reports
        record(store, SweepRecord(at, at + 5, False, "test", "digest"), [visited(), *left])
    with store.writing() as db:
        for began, digest in ((NOW - 6000, "old"), (NOW - 80 * 60, "new")):
            db.execute(
                "INSERT INTO version (kind, name, digest, who, began, seen) VALUES ('rule', 'gpu-count', ?, "
                "'t', ?, ?)", (digest, began, NOW))
    (change,) = changes(store, NOW - 86400, NOW)
    assert (change.digest, change.until) == ("new", NOW - 30 * 60)
    assert ([tuple(row) for row in store.rows("SELECT nodes, left_out FROM sweep ORDER BY id")]
            == [(11, 0), (1, 10), (1, 10)])


def test_blame_takes_no_sweep_for_a_visit_that_left_the_node_out(store: Store) -> None:
    for ago, report in ((50, visited()), (40, by_agent()), (30, by_agent()), (20, visited()),
                        (10, by_agent())):
        sweep(store, ago, report)
    window = SimpleNamespace(start=NOW - 2400, end=NOW - 600, nodes={"n1"})
    assert _looks(store, window) == {"n1": [NOW - 3000, NOW - 1200]}     # type: ignore[arg-type]


def test_the_exporter_says_how_many_nodes_the_newest_sweep_left_out(store: Store) -> None:
    sweep(store, 10, by_agent())
    page = {family.name: value for family, (value, _) in head(_head(store, NOW))}
    assert (page["muster_sweep_newest_left_out_nodes"], page["muster_sweep_newest_nodes"]) == (1, 0)
