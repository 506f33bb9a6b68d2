"""Incidents from the first sweep to the last node back: in store, cordons and commands."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from healthcheck.accounting.read import read as accounted
from healthcheck.accounting.summary import summary
from healthcheck.config.rulesfolder import packaged
from healthcheck.model.outcome import Finding, NodeReport, NodeState, Result, Severity, Status, state_of
from healthcheck.model.verdict import StoredIncident
from healthcheck.replay.record import read
from healthcheck.replay.run import run
from healthcheck.store.file import Store, opened
from healthcheck.store.incidents import close, incidents
from healthcheck.store.readings import NodeReadings
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.store.telemetry import Telemetry
from healthcheck.store.versions import Version
from healthcheck.triage.gather import gather
from healthcheck.triage.plan import TriagePlan, make
from healthcheck.triage.policy import BreakerPolicy, TriagePolicy
from healthcheck.triage.policyload import load_policy
from inventory.model import Lifecycle, LifecycleState, Node
from provisioning.actions.cordon import cordon
from provisioning.triage import apply as doing
from tests.packagedrules import RULES
from tests.provisioning.triage.triageworld import HOUR, Memory

PACKAGED = load_policy([packaged()], RULES)
# Room enough for a rack: what the breaker's own numbers do to an incident has tests of its own.
POLICY = replace(PACKAGED, breaker=BreakerPolicy(number=40, percent=50, hours=1, reserve=0, least=2))
ROW, BIG = 8, 128


class World:
    """Nodes in racks of 8, leaves of 16 and power domains of 32; what fails on each, by rule."""

    def __init__(self, folder: Path, policy: TriagePolicy = POLICY) -> None:
        self.folder, self.policy = folder, policy
        self.names = [f"n{number:03d}" for number in range(BIG)]
        self.nodes = {
            name: Node(name, rack=f"r{at // 8}", leaf=(f"leaf-{at // 16}",), power=f"p{at // 32}")
                for at, name in enumerate(self.names)}
        self.wrong: dict[str, dict[str, Severity]] = {name: {} for name in self.names}
        self.dead: set[str] = set()
        self.now = 1_800_000_000.0
        self.back = Memory()
        self.rules = ("gpu-count", "port-state", "kernel-novel", "disk-state")
        self.sweep()

    def rack(self, number: int, most: int = 8) -> list[str]:
        return self.names[number * 8:number * 8 + most]

    def breaks(
        self, nodes: Collection[str], rule: str = "port-state", severity: Severity = Severity.CRITICAL,
    ) -> None:
        for node in nodes:
            self.wrong[node][rule] = severity

    def heals(self, nodes: Collection[str], rule: str = "port-state") -> None:
        for node in nodes:
            self.wrong[node].pop(rule, None)

    def sweep(self, times: int = 1, minutes: float = 5, only: Collection[str] | None = None) -> None:
        for _ in range(times):
            self.now += minutes * 60
            reports = [self.report(name) for name in (only or self.names)]
            shown = {
                report.node: NodeReadings(
                    (), (), frozenset(), "boot", Telemetry(driver="570.1", kernel="6.8"))
                for report in reports if report.results}
            with opened(self.folder, make=True) as store:
                record(store, SweepRecord(self.now, self.now + 1, False, "test", "digest"), reports, shown)

    def report(self, name: str) -> NodeReport:
        if name in self.dead:
            return NodeReport(name, NodeState.UNKNOWN, "connect: refused", (), True, "connect")
        found = []
        for rule in self.rules:
            bad = self.wrong[name].get(rule)
            finding = (
                Finding("down", "up", "new words" if rule == "kernel-novel" else "mlx5_0"),) if bad else ()
            found.append(Result(rule, rule.replace("-", "."), Status.FAIL if bad else Status.PASS,
                                bad or Severity.CRITICAL, finding))
        return NodeReport(name, state_of(found), "", tuple(found))

    def plan(self, store: Store) -> TriagePlan:
        seen = doing.shown(store, self.back, self.nodes)
        return make(gather(store, self.nodes.values(), self.policy, self.now,
                           lost=doing.lost(seen, self.back.name), others=doing.others(seen)), self.policy)

    def triage(self) -> TriagePlan:
        self.now += 1
        with self.store() as store:
            doing.settle(store, self.back, "triage", lambda: self.now)
            plan = self.plan(store)
            done = doing.apply(store, self.back, plan, "triage", lambda: self.now, lambda _: None)
            assert not any(one.failed for one in done), done
            again = self.plan(store)
            assert not again.steps and not again.ends, (again.steps, again.ends)
            assert [one.id for one in again.incidents] == [one.id for one in plan.incidents]
        return plan

    def broken(self, *what: Any) -> TriagePlan:
        """What triage makes of it two looks after this breaks."""
        self.breaks(*what)
        self.sweep(2)
        return self.triage()

    def healed(self, *what: Any) -> TriagePlan:
        """What triage makes of it when this has been well for long enough."""
        self.heals(*what)
        self.sweep(4, minutes=20)
        return self.triage()

    @contextmanager
    def store(self) -> Iterator[Store]:
        with opened(self.folder) as store:
            yield store

    def known(self) -> list[StoredIncident]:
        with self.store() as store:
            return incidents(store)

    def held(self) -> dict[str, str]:
        return dict(self.back.holds)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def acts(plan: TriagePlan) -> list[tuple[str, str]]:
    return sorted((step.act.value, step.node) for step in plan.steps)


def test_a_rack_that_fails_is_one_incident_isolated_in_its_name_and_comes_back_with_it_after_one_clean_sweep(
    world: World,
) -> None:
    rack = world.rack(3)
    plan = world.broken(rack)
    (one,) = plan.incidents
    assert (one.id, one.kind, one.cause, one.owner.value, list(one.nodes)) == (
        1, "rack", "r3", "datacentre", rack)
    assert (one.why == ("rack r3: port-state on 8 of its 8 nodes in service, of 8 with it among 128, since "
                        "2027-01-15T08:10Z; chance would do this once in 5 x 10^10 times")
            and one.likelihood == pytest.approx(4.77e10, rel=0.01))
    assert acts(plan) == [("isolate", node) for node in rack]
    assert all(held.split(": ", 2)[2].startswith("incident 1: rack r3: port-state")
               for held in world.held().values())
    with world.store() as store:
        assert ({
            (row[0], row[1], row[2])
            for row in store.rows("SELECT fault, incident, owner FROM verdict WHERE ended IS NULL")}
                == {("incident", 1, "datacentre")})
    world.heals(rack)
    world.sweep(1)
    assert acts(world.triage()) == [] and len(world.held()) == 8         # not yet: the calm hour
    world.sweep(4, minutes=15)
    plan = world.triage()
    assert [(end.id, end.why) for end in plan.ends] == [(1, "all its 8 nodes were well for 1 h")]
    assert acts(plan) == [("release", node) for node in rack] and world.held() == {}
    assert "incident 1 is over, and the sweep of" in plan.steps[0].why
    (known,) = world.known()
    assert (known.by, known.closed) == (
        "triage", "all its 8 nodes were well for 1 h") and all(member.ended for member in known.members)


def test_its_isolations_go_beside_the_limit_of_the_breaker_in_all_and_in_each_domain(tmp_path: Path) -> None:
    policy = replace(
        POLICY, breaker=BreakerPolicy(number=2, percent=50, hours=1, reserve=0, domains={"rack": 2}))
    world = World(tmp_path, policy)
    world.breaks(world.rack(3))
    plan = world.broken(["n100", "n102"], "gpu-count")
    assert len([step for step in plan.steps if step.verdict.incident]) == 8 and {
        ("isolate", "n100"), ("isolate", "n102")} <= set(acts(plan))
    assert not plan.is_open and plan.withheld == ()
    world.breaks(["n110"], "gpu-count")
    world.sweep(2)
    assert "the breaker is open: 2 new isolations" in next(
        one.why for one in world.triage().withheld if one.node == "n110")


def test_a_run_that_was_killed_leaves_the_breaker_closed_and_the_next_takes_what_room_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(tmp_path, replace(POLICY, breaker=BreakerPolicy(number=4, percent=50, hours=1, reserve=0)))
    world.breaks([f"n{number:03}" for number in range(0, 120, 20)], "disk-state")
    world.sweep(2)
    with world.store() as store:
        plan = world.plan(store)
        assert plan.is_open and len(plan.steps) == 4
        changes, isolate = iter(range(2)), world.back.isolate

        def killed(node: str, reason: str) -> None:
            isolate(node, reason)
            next(changes)

        monkeypatch.setattr(world.back, "isolate", killed)
        with pytest.raises(StopIteration):
            doing.apply(store, world.back, plan, "triage", lambda: world.now, lambda _: None)
        monkeypatch.undo()
    assert len(world.held()) == 3 and len(world.triage().steps) == 1
    world.now += 3600
    world.sweep(1)
    # it is open now, until a person closes it
    assert world.triage().steps == () and len(world.held()) == 4


def test_what_a_restored_incident_isolated_is_counted_where_it_was(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.broken(world.rack(3))
    with world.store() as store:
        assert {one.place for one in gather(store, world.nodes.values(), POLICY, world.now).isolated} == {
            ("rack", "r3")}
        with store.writing() as db:
            # it goes by another name by now
            db.execute("UPDATE incident SET kind = 'power', cause = 'p0'")
        assert {one.place for one in gather(store, world.nodes.values(), POLICY, world.now).isolated} == {
            ("rack", "r3")}


def test_what_is_more_than_one_failure_is_bounded_by_domain(tmp_path: Path) -> None:
    policy = replace(
        POLICY, breaker=BreakerPolicy(number=50, percent=50, hours=1, reserve=0, domains={"rack": 3}),
        incidents=replace(POLICY.incidents, as_one=4))
    world = World(tmp_path, policy)
    plan = world.broken(world.rack(3))
    assert len(plan.steps) == 4 + 3 and not plan.is_open and {
        one.node for one in plan.withheld} == set(world.rack(3)[7:])
    assert all("rack r3" in one.why and (one.incident, one.by_breaker) == (1, True) for one in plan.withheld)


def test_more_than_goes_beside_takes_room_of_its_own(tmp_path: Path) -> None:
    policy = replace(POLICY, breaker=BreakerPolicy(number=3, percent=50, hours=1, reserve=0),
                     incidents=replace(POLICY.incidents, as_one=4))
    world = World(tmp_path, policy)
    plan = world.broken(world.rack(3))
    assert len(plan.steps) == 4 + 3 and plan.is_open


def test_a_fault_of_its_own_keeps_a_node_after_the_incident(world: World) -> None:
    rack = world.rack(3)
    world.broken(rack)
    world.breaks(rack[:1], "gpu-count")
    world.sweep(2)
    assert {verdict.node: verdict.fault for verdict in world.triage().verdicts}[rack[0]] == "gpu-lost"
    assert acts(world.healed(rack)) == [("release", node) for node in rack[1:]]
    world.heals(rack, "gpu-count")
    world.sweep(3)
    plan = world.triage()
    # its own fault wants its own proof
    assert acts(plan) == [] and "0 of 2 clean looks" in plan.withheld[0].why


def test_what_goes_on_after_the_rest_has_healed_is_its_own(world: World) -> None:
    rack = world.rack(3)
    world.broken(rack)
    world.heals(rack[1:])
    world.sweep(2, minutes=15)
    plan = world.triage()
    assert not plan.ends and acts(plan) == [] and plan.incidents[0].nodes == (rack[0],)
    world.sweep(2, minutes=25)
    plan = world.triage()
    assert [end.why for end in plan.ends] == [
        f"the rest was well for 1 h; what goes on in {rack[0]} is their own"]
    assert acts(plan) == [("release", node) for node in rack[1:]]
    assert ([(verdict.node, verdict.fault, verdict.incident) for verdict in plan.verdicts if verdict.faults]
            == [(rack[0], "network-port", 0)])


def test_a_person_closes_it_and_what_goes_on_is_each_nodes_own_until_something_new_begins(
    world: World,
) -> None:
    rack = world.rack(3)
    world.broken(rack)
    world.heals(rack[4:])
    world.sweep(1)
    with world.store() as store:
        assert close(store, 1, "eight bad cables", "a person", world.now) and not close(
            store, 1, "again", "a person", world.now)
        assert (store.rows(
            "SELECT action, why, evidence, outcome FROM ledger WHERE action = 'close incident'")[0][:]
                == ("close incident", "eight bad cables", "incident 1", "closed"))
    plan = world.triage()
    assert acts(plan) == [("release", node) for node in rack[4:]] and plan.incidents == ()
    assert {verdict.fault for verdict in plan.verdicts if verdict.faults} == {"network-port"}
    world.sweep(1)
    assert world.triage().incidents == ()
    world.heals(rack)
    world.sweep(1)
    assert [one.id for one in world.broken(rack).incidents] == [2]


def test_what_a_person_closed_stays_each_nodes_own_when_the_rest_of_the_place_fails_too(world: World) -> None:
    first, rest = [*world.rack(4)[:4], *world.rack(5)[:4]], [*world.rack(4)[4:], *world.rack(5)[4:]]
    assert [(one.id, one.cause) for one in world.broken(first).incidents] == [(1, "leaf-2")]
    with world.store() as store:
        assert close(store, 1, "four bad cables each", "a person", world.now)
    world.breaks(rest)
    for _ in range(3):
        world.sweep(2)
        (one,) = world.triage().incidents
        assert (one.id, one.cause, sorted(one.nodes)) == (2, "leaf-2", sorted(rest))


def test_one_that_comes_back_within_days_keeps_its_number_and_a_later_one_gets_another(world: World) -> None:
    rack = world.rack(3)
    for days, number in ((0, 1), (2, 1), (9, 2)):
        world.now += days * 24 * HOUR
        world.sweep(1)
        assert [one.id for one in world.broken(rack).incidents] == [number]
        assert len(world.healed(rack).ends) == 1
    assert [(one.id, one.ended is not None, len(one.members)) for one in world.known()] == [
        (1, True, 8), (2, True, 8)]


def test_two_that_turn_out_to_be_one_are_merged_into_the_older(world: World) -> None:
    world.policy = replace(POLICY, incidents=replace(POLICY.incidents, share=60))
    first, second = world.rack(4), world.rack(5)
    third, fourth = world.rack(6), world.rack(7)
    world.broken(first)
    assert [(one.id, one.cause) for one in world.broken(third).incidents] == [(1, "r4"), (2, "r6")]
    plan = world.broken([*second, *fourth])
    assert [
        (one.id, one.kind, one.cause, len(one.members)) for one in plan.incidents] == [(1, "power", "p1", 32)]
    assert [(end.id, end.into, end.why) for end in plan.ends] == [(2, 1, "it is part of incident 1")]
    assert len(acts(world.healed(world.names))) == 32 and world.held() == {}


def test_one_of_which_two_parts_go_on_is_split(world: World) -> None:
    world.policy = replace(POLICY, incidents=replace(POLICY.incidents, share=60))
    world.breaks([node for number in (4, 5, 6, 7) for node in world.rack(number)])
    world.sweep(2)
    assert [(one.id, one.cause) for one in world.triage().incidents] == [(1, "p1")]
    world.heals([*world.rack(5), *world.rack(6)])
    world.sweep(1)
    plan = world.triage()
    assert sorted((one.id, one.cause, len(one.nodes)) for one in plan.incidents) in (
        [(1, "r4", 8), (2, "r7", 8)], [(1, "r7", 8), (2, "r4", 8)])


def test_a_line_that_is_merely_new_on_many_nodes_is_reported_and_isolates_no_one(world: World) -> None:
    world.breaks(world.rack(3), "kernel-novel", Severity.WARNING)
    world.sweep(3)
    plan = world.triage()
    assert [(one.kind, one.symptoms) for one in plan.incidents] == [("rack", ("kernel-novel of new words",))]
    assert acts(plan) == [] and world.held() == {}


def test_nodes_of_a_rack_that_are_not_reached_are_isolated_in_its_name_unless_they_are_too_many(
    world: World,
) -> None:
    world.dead = set(world.rack(3, 5))
    world.sweep(3)
    plan = world.triage()
    assert [(one.kind, one.cause) for one in plan.incidents] == [("rack", "r3")] and len(acts(plan)) == 5
    world.dead = set(world.rack(3))
    world.sweep(3)
    plan = world.triage()
    assert acts(plan) == [] and [one.kind for one in plan.incidents] == ["rack", "unreached"]
    assert "all 8 nodes of rack r3: look there first" in plan.incidents[1].why
    assert len(world.held()) == 5                       # what is held stays so
    world.dead = set()
    world.sweep(4, minutes=20)
    assert len(acts(world.triage())) == 5 and world.held() == {}


def test_what_a_person_holds_is_left_alone_and_a_node_out_of_service_holds_up_nothing(world: World) -> None:
    rack = world.rack(3)
    with world.store() as store:
        cordon(store, world.back, rack[:1], "mine", "a person", lambda: world.now)
    assert acts(world.broken(rack)) == [("isolate", node) for node in rack[1:]]
    world.nodes[rack[1]] = replace(world.nodes[rack[1]], lifecycle=Lifecycle(LifecycleState.MAINTENANCE))
    assert acts(world.healed(rack[:1] + rack[2:])) == [("release", node) for node in rack[2:]]
    assert sorted(world.held()) == rack[:2]


def test_its_failures_make_no_one_a_repeat_offender_nor_flap(world: World) -> None:
    rack = world.rack(3)
    for _ in range(5):
        world.broken(rack)
        assert len(acts(world.healed(rack))) == 8
        world.now += 7 * HOUR
        world.sweep(1)
    (verdict,) = world.broken(rack[:1]).verdicts
    assert verdict.fault == "network-port" and "repeat" not in verdict.why and "came" not in verdict.why


def test_a_driver_version_is_reported_and_each_node_stands_for_itself(tmp_path: Path) -> None:
    world = World(tmp_path)
    kinds = {**POLICY.incidents.kinds}
    world.policy = replace(
        POLICY, incidents=replace(POLICY.incidents, kinds={"rack": replace(kinds["rack"], isolates=False)}))
    world.breaks(world.rack(3, 6), "gpu-count")
    world.sweep(1)
    plan = world.triage()
    assert len(plan.incidents) == 1 and {
        verdict.fault for verdict in plan.verdicts} == {"gpu-lost"} and len(plan.steps) == 6


def test_a_rule_that_newly_fails_on_many_nodes_since_it_changed_is_musters_own_from_the_sweep_to_the_end(
    world: World,
) -> None:
    def sweeps(digest: str, times: int = 1) -> None:
        for _ in range(times):
            world.now += 300
            with opened(world.folder) as store:
                record(store, SweepRecord(world.now, world.now + 1, False, "test", "digest",
                                          versions=(Version("rule", "disk-state", digest),), who="op"),
                       [world.report(name) for name in world.names])

    world.breaks(["n100"], "disk-state")
    sweeps("a", 3)
    assert acts(world.triage()) == [("isolate", "n100")]
    world.breaks(world.names[:60:2], "disk-state")
    world.breaks(["n127"], "gpu-count")
    sweeps("b", 3)
    plan = world.triage()
    (one,) = plan.incidents
    assert (one.kind, len(one.nodes)) == ("rules", 30) and acts(plan) == [("isolate", "n127")]
    assert ("rule disk-state changed after" in one.why
            and "30 of 128 nodes in service fail it since; before: 1" in one.why)
    assert world.triage().steps == () and len(world.held()) == 2
    with world.store() as store:
        assert close(store, one.id, "the rule is right", "a person", world.now)
    world.policy = replace(POLICY, breaker=BreakerPolicy(number=5, percent=50, hours=1, reserve=0))
    plan = world.triage()
    assert len(acts(plan)) == 3 and plan.is_open and not any(each.kind == "rules" for each in plan.incidents)


def test_a_node_that_no_one_can_look_at_is_not_well(world: World) -> None:
    rack = world.rack(3)
    world.broken(rack)
    world.heals(rack)
    world.sweep(1)
    world.dead = {rack[0], rack[1], rack[2], rack[3]}
    world.sweep(4, minutes=20)
    assert not world.triage().ends and len(world.held()) == 8


def test_versions_of_a_newest_snapshot_stay_while_a_node_is_not_reached(world: World) -> None:
    world.dead = {"n000"}
    world.sweep(1)
    with world.store() as store:
        assert {tuple(row) for row in store.rows("SELECT driver, kernel FROM newest")} == {("570.1", "6.8")}
        (past,) = gather(store, [world.nodes["n000"]], POLICY, world.now).nodes
    assert past.versions == {"driver": "570.1", "kernel": "6.8", "firmware": ""}


def test_a_rack_half_of_which_is_in_maintenance_is_its_incident_and_a_replay_finds_the_same(
    world: World,
) -> None:
    away = world.rack(3)[2:]
    for name in away:
        world.nodes[name] = replace(world.nodes[name], lifecycle=Lifecycle(LifecycleState.MAINTENANCE, "me"))
    plan = world.broken(world.rack(3))
    (one,) = plan.incidents
    assert (one.kind, one.cause, list(one.nodes)) == ("rack", "r3", world.rack(3)[:2])
    assert "on 2 of its 2 nodes in service and on 6 that are not (n026, n027, n028 and 3 more)" in one.why
    assert acts(plan) == [("isolate", "n024"), ("isolate", "n025")]
    assert len(acts(world.healed(world.rack(3)))) == 2
    with world.store() as store:
        found = run(read(store, POLICY.requalify.profile, 0.0), world.nodes.values(), POLICY, 1_800_000_000.0,
                    world.now)
        assert {row[0] for row in store.rows("SELECT node FROM cordon")} == {one.node for one in found.holds}
    assert all(one.why.startswith("incident 1: rack r3: port-state on 2") for one in found.holds)


def test_failures_of_an_incident_are_in_no_nodes_rate_when_it_is_over_and_its_hours_are_said(
    world: World,
) -> None:
    world.broken([*world.rack(3), "n100"])
    world.heals(world.names)
    world.sweep(1)
    assert world.triage().incidents[0].nodes == ()      # none shows it any more
    world.sweep(5, minutes=13)
    assert len(acts(world.triage())) == 8 and world.known()[0].ended is not None
    with world.store() as store:
        data = accounted(store, None, POLICY, world.now - 7 * 86400, world.now, {})
    found = summary(data, world.now - 7 * 86400, world.now, ("cause",))
    assert (found.total.rate.failures, found.shared) == (1, 8)
    assert found.held.incidents == pytest.approx(8 * (14 * 300), rel=0.01)
    assert found.held.failures == pytest.approx(found.total.held.mean)


def test_two_places_that_share_a_few_nodes_are_two_incidents_and_none_is_held_for_the_others_place(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    # Each leaf has one node of every rack: a rack and a leaf share two nodes of sixteen.
    world.nodes = {name: replace(node, leaf=(f"leaf-{at % 8}",))
                   for at, (name, node) in enumerate(world.nodes.items())}
    rack, leaf = world.rack(3), [name for name, node in world.nodes.items() if node.leaf == ("leaf-5",)]
    assert [(one.id, one.cause) for one in world.broken(rack).incidents] == [(1, "r3")]
    world.heals(rack)
    world.sweep(2)
    both = {one.cause: {member.node for member in one.members} for one in world.broken(leaf).incidents}
    assert both == {"r3": set(rack) - set(leaf), "leaf-5": set(leaf)}
    world.heals(leaf)
    for _ in range(3):       # the leaf flaps on
        world.sweep(3)
        world.breaks(leaf)
        world.sweep(1)
        world.triage()
    assert set(world.held()) == set(leaf)
