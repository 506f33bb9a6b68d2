"""What triage is told of the fleet by the store: history follows a component to where it sits,
and leaves with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.outcome import Finding, NodeReport, NodeState, Result, Severity, Status, state_of
from healthcheck.store.cordons import CordonState, mean
from healthcheck.store.cordons import settle as settle_cordon
from healthcheck.store.file import Store, opened
from healthcheck.store.hardware import machine_identity, same_machine
from healthcheck.store.readings import Component, NodeReadings
from healthcheck.store.rmas import begin, give_back, outcome, settle
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.store.verdicts import close_breaker
from healthcheck.triage.gather import gather
from healthcheck.triage.past import NodeHistory
from healthcheck.triage.plan import make
from healthcheck.triage.policyload import load_policy
from inventory.model import Node
from tests.packagedrules import RULES
from tests.testbed.olderstore import use_version

HOUR = 3600.0
POLICY = load_policy([packaged()], RULES)
NODES = (Node("n1"), Node("n2"))


def swept(store: Store, hour: float, seats: dict[str, dict[str, str]], bad: str = "") -> None:
    """A sweep of both nodes; `seats` gives the serial numbers by slot,
    `bad` is the node whose GPU 0 fails."""
    reports, read = [], {}
    for node in NODES:
        failed = node.name == bad
        found = Result("gpu-ecc-uncorrected", "gpu.ecc_uncorrected", Status.FAIL if failed else Status.PASS,
                       Severity.CRITICAL, (Finding(7, 0, "GPU 0"),) if failed else ())
        reports.append(NodeReport(node.name, state_of([found]), "", (found,)))
        parts = tuple(Component("chassis" if slot == "chassis" else "gpu", slot, serial,
                                f"GPU {slot}" if slot != "chassis" else slot)
                      for slot, serial in seats[node.name].items())
        read[node.name] = NodeReadings(parts, (), frozenset({"gpu", "chassis"}))
    record(store, SweepRecord(hour * HOUR, hour * HOUR + 9, False, "test", "digest"), reports, read)


def known(store: Store, hour: float) -> dict[str, NodeHistory]:
    return {past.node: past for past in gather(store, NODES, POLICY, hour * HOUR).nodes}


def test_a_failure_goes_with_its_component_to_the_node_where_that_sits_now(store: Store) -> None:
    swept(store, 1, {"n1": {"0": "A"}, "n2": {"0": "B"}}, bad="n1")
    assert [problem.serial for problem in known(store, 2)["n1"].problems] == ["A"]
    swept(store, 2, {"n1": {"0": "B"}, "n2": {"0": "A"}})
    past = known(store, 3)
    assert past["n1"].over == () and past["n1"].moved == ()
    assert [(problem.node, problem.serial) for problem in past["n2"].moved] == [("n1", "A")]


def test_a_component_that_left_takes_its_failures_along_and_one_that_stayed_keeps_them(
    store: Store,
) -> None:
    swept(store, 1, {"n1": {"0": "A"}, "n2": {"0": "B"}}, bad="n1")
    swept(store, 2, {"n1": {"0": "A"}, "n2": {"0": "B"}})
    assert [problem.serial for problem in known(store, 3)["n1"].over] == ["A"]
    assert known(store, 3)["n1"].left == 0
    swept(store, 3, {"n1": {"0": "C"}, "n2": {"0": "B"}})
    assert (known(store, 4)["n1"].over, known(store, 4)["n1"].left) == ((), 2 * HOUR)


def test_a_node_is_known_to_have_its_chassis_since_the_first_sweep_that_met_it(store: Store) -> None:
    for hour, serial in enumerate(("X", "X", "Y", "Y"), 1):
        swept(store, hour, {"n1": {"chassis": serial}, "n2": {}})
    past = known(store, 5)
    assert (past["n1"].chassis_since, past["n2"].chassis_since) == (3 * HOUR, 0.0)


def test_only_the_window_that_the_policy_looks_back_on_is_read(tmp_path: Path) -> None:
    days = max(POLICY.repeat.days, POLICY.climb.days, POLICY.flap.hours / 24)
    with opened(tmp_path, make=True) as store:
        swept(store, 1, {"n1": {"0": "A"}, "n2": {}}, bad="n1")
        swept(store, 2, {"n1": {"0": "A"}, "n2": {}})
        assert len(known(store, 2 + days * 24)["n1"].over) == 1
        assert known(store, 3 + days * 24)["n1"].over == ()


def test_a_part_that_came_back_is_a_repair_unless_it_is_the_board_that_was_to_be_exchanged(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, make=True) as store:
        swept(store, 1, {"n1": {"0": "A"}, "n2": {"0": "B"}})
        for node, serial in (("n1", "A"), ("n2", "B")):
            sent, line = begin(store, node, "0", "gpu", serial, "worn", "us", "", "", 2 * HOUR)
            settle(store, line, "done", 2 * HOUR)
            if node == "n1":
                assert known(store, 3)[node].away == "RMA 1 is open: worn"
            settle(store, give_back(store, sent, outcome(same=False, new=""), "us", 4 * HOUR), "done",
                   4 * HOUR)
        swept(store, 5, {"n1": {"0": "A"}, "n2": {"0": "C"}})
        found = known(store, 6)
    assert "the SAME gpu came back" in found["n1"].away and found["n1"].repaired == ()
    assert (found["n2"].away == "" and [(done.time, done.slot) for done in found["n2"].repaired]
            == [(4 * HOUR, "0")])


def test_an_isolation_that_may_have_been_done_takes_room_in_the_breaker_and_one_that_failed_takes_none(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, make=True) as store:
        with store.writing() as db:
            db.execute("INSERT INTO node (name) VALUES ('n1')")
            db.execute("INSERT INTO verdict (node, fault, isolation, repair, owner, why, evidence, began, "
                       "seen) VALUES (1, 'x', 'evict', 'reboot', 'operator', '', '[]', 0, 0)")
        for node, outcome in (("n1", "not done: the controller is away"), ("n2", "not done; found so later")):
            meant = mean(store, node, "slurm", "why", "triage", 9 * HOUR, 1)
            assert meant is not None
            settle_cordon(store, meant, CordonState.VOID, outcome, 9 * HOUR)
        fleet = gather(store, NODES, POLICY, 9.5 * HOUR)
    assert [one.node for one in fleet.isolated] == ["n2"]


def isolated(store: Store, node: str, hour: float) -> None:
    """Triage isolates a node."""
    meant = mean(store, node, "slurm", "why", "triage", hour * HOUR, 1)
    assert meant is not None
    settle_cordon(store, meant, CordonState.HELD, "cordoned", hour * HOUR)


def test_who_closes_the_breaker_has_seen_what_was_isolated_until_then_and_no_more_whatever_their_clock_said(
    store: Store,
) -> None:
    with store.writing() as db:
        db.execute("INSERT INTO node (name) VALUES ('n1')")
        db.execute("INSERT INTO verdict (node, fault, isolation, repair, owner, why, evidence, began, "
                   "seen) VALUES (1, 'x', 'evict', 'reboot', 'operator', '', '[]', 0, 0)")
        db.execute("INSERT INTO breaker (opened, why) VALUES (0, 'many')")
    isolated(store, "n1", 30)
    with store.writing() as db:
        assert close_breaker(db, 30 * HOUR, "a person", "the feed is back")
    assert gather(store, NODES, POLICY, 30 * HOUR).isolated == ()
    isolated(store, "n2", 4)        # the clock was a day ahead, and is right now
    assert [one.node for one in gather(store, NODES, POLICY, 4.5 * HOUR).isolated] == ["n2"]


def test_a_store_of_before_keeps_what_the_person_who_closed_its_breaker_had_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as older:
        use_version(older, 3)
        with opened(tmp_path, make=True) as store, store.writing() as db:
            db.execute("INSERT INTO node (name) VALUES ('n1')")
            db.execute("INSERT INTO verdict (node, fault, isolation, repair, owner, why, evidence, began, "
                       "seen) VALUES (1, 'x', 'evict', 'reboot', 'operator', '', '[]', 0, 0)")
            db.execute("INSERT INTO breaker (opened, why, closed, who, reason) "
                       "VALUES (0, 'many', ?, 'a person', 'x')", (9.2 * HOUR,))
            for node, hour in (("n1", 9), ("n2", 9.4)):
                line = db.execute("INSERT INTO ledger (time, who, action, node, why, evidence, outcome) "
                                  "VALUES (?, 't', 'cordon', ?, '', '', 'cordoned')",
                                  (hour * HOUR, node)).lastrowid
                db.execute("INSERT INTO cordon (node, backend, why, who, state, began, line, verdict) "
                           "VALUES (?, 'slurm', '', 't', 'held', ?, ?, 1)", (node, hour * HOUR, line))
    with opened(tmp_path) as store:
        assert [one.node for one in gather(store, NODES, POLICY, 9.5 * HOUR).isolated] == ["n2"]


def test_a_node_that_was_installed_anew_or_got_another_chassis_is_a_new_one_since_then(
    tmp_path: Path,
) -> None:
    def look(hour: float, machine: str = "m1", chassis: str = "c1", other: str = "m2") -> None:
        found = Result("r", "c", Status.PASS, Severity.CRITICAL)
        parts = (Component("chassis", "chassis", chassis, "chassis"),) if chassis else ()
        read = {"n1": NodeReadings(parts, (), frozenset({"chassis"} if chassis else ()), machine=machine),
                "n2": NodeReadings((), (), frozenset(), machine=other)}
        record(store, SweepRecord(hour * HOUR, hour * HOUR + 9, False, "test", "digest"),
               [NodeReport(name, state_of([found]), "", (found,)) for name in read], read)

    def since() -> float:
        return known(store, 100)["n1"].new_since / HOUR

    with opened(tmp_path, make=True) as store:
        look(1)
        before = machine_identity(store, "n1")
        assert since() == 0 and "m1" in before and "c1" not in before
        look(2, machine="")
        look(3, chassis="")
        assert since() == 0 and machine_identity(store, "n1") == before
        # the same as n2's: it came with an image, and tells nothing
        look(4, machine="m2")
        assert since() == 0
        look(5, machine="m3")
        assert since() == 5 and not same_machine(before, machine_identity(store, "n1"))
        look(6, machine="m3", chassis="c2")
        assert since() == 6
        assert (same_machine(before, "") and same_machine("machine=m1", "chassis=x")
                and not same_machine("machine=a", "chassis=x machine=b"))


def test_a_look_says_which_of_the_rules_that_ever_failed_it_measured(tmp_path: Path) -> None:
    def look(hour: float, status: Status, reason: str = "", more: Status = Status.PASS) -> None:
        one = Result("gpu-ecc-uncorrected", "c", status, Severity.CRITICAL,
                     (Finding(7, 0, "GPU 0"),) if status is Status.FAIL else (), reason)
        two = Result("port-state", "c", more, Severity.CRITICAL)
        record(store, SweepRecord(hour * HOUR, hour * HOUR + 9, False, "test", "digest", ("bringup",)),
               [NodeReport("n1", state_of([one, two]), "", (one, two))])

    with opened(tmp_path, make=True) as store:
        look(1, Status.FAIL)
        look(2, Status.PASS)
        look(3, Status.SKIPPED, "not selected")
        look(4, Status.UNKNOWN, "timeout")
        look(5, Status.SKIPPED, "disabled in rules/site.yaml")
        found = [look.measured for look in known(store, 6)["n1"].snapshots]
        # the newest four are kept
        assert found == [{"gpu-ecc-uncorrected"}, set(), set(), {"gpu-ecc-uncorrected"}]


def test_no_statement_looks_through_all_rows_once_for_each_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, int]] = []
    real = Store.rows

    def rows(self: Store, sql: str, *values: object) -> object:
        asked.append((sql, len(values)))
        return real(self, sql, *values)

    with opened(tmp_path, make=True) as store:
        monkeypatch.setattr(Store, "rows", rows)
        gather(store, NODES, POLICY, HOUR)
        monkeypatch.undo()
        plans = {sql: [str(row[3]) for row in store.rows(f"EXPLAIN QUERY PLAN {sql}", *[0] * count)]
                 for sql, count in asked if sql.startswith("SELECT")}
    assert len(plans) > 5
    for sql, steps in plans.items():
        inner = steps[next((at for at, step in enumerate(steps) if step.startswith("CORRELATED")),
                           len(steps)):]
        assert not any(step.startswith("SCAN") for step in inner), sql


@pytest.mark.parametrize("stage", ["jump host", "head"])
def test_a_dead_jump_host_makes_no_fault_of_the_nodes_behind_it_however_long_it_lasts(
    tmp_path: Path, stage: str,
) -> None:
    nodes = [Node(f"n{number}") for number in range(3)]
    with opened(tmp_path, make=True) as store:
        for hour in range(50):
            record(store, SweepRecord(hour * HOUR, hour * HOUR + 9, False, "test", "digest"),
                   [NodeReport(node.name, NodeState.UNKNOWN, f"{stage}: one: refused", (), stage=stage)
                    for node in nodes])
        known = gather(store, nodes, POLICY, 50 * HOUR)
    made = make(known, POLICY)
    assert made.steps == ()
    assert made.verdicts == ()
    assert made.incidents == ()
