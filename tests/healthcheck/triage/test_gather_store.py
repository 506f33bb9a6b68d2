"""All that the store remembers of a node, and the inventory says of it, reaches triage: each row in its
place, and none that is over."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import Owner, Severity
from healthcheck.model.problem import Problem
from healthcheck.store import fabricfindings, watched
from healthcheck.store.clock import AHEAD_S
from healthcheck.store.file import Store, opened
from healthcheck.store.leases import begin as lease
from healthcheck.store.marks import CordonMark
from healthcheck.store.versions import POLICY as OF_POLICY
from healthcheck.store.versions import Version, VersionSpan, note
from healthcheck.subnet.check.findings import FabricRule, PlaceKind
from healthcheck.subnet.kept import KeptFinding
from healthcheck.triage.decidedby import decided_by
from healthcheck.triage.gather import (
    ANEW,
    change,
    changes,
    domains,
    every_change,
    gather,
    numbers_taken,
    ports,
)
from healthcheck.triage.lots import PartLot
from healthcheck.triage.past import (
    Anew,
    FleetHistory,
    Isolated,
    NodeHistory,
    OpenCordon,
    OpenVerdict,
    Repaired,
    RequalifySnapshot,
    SilencedHistory,
    VersionChange,
)
from healthcheck.triage.policy import Climb, Flap, IncidentPolicy, RepeatPolicy
from inventory.model import Lifecycle, LifecycleState, Node, PortPlan
from tests.healthcheck.triage.made import HOUR, KINDS, NOW, at, policy

# Three days, of all that the policy looks back on the longest, and by hours.
POLICY = policy(repeat=RepeatPolicy(3, 14, 1, 6), climb=Climb(2, 2), flap=Flap(3, 72, 12),
                incidents=IncidentPolicy(reopen_days=7))
DAY = 24.0
SECOND = 1 / HOUR


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """One that knows two nodes; n1 has a number that no other row has."""
    with opened(tmp_path, make=True) as made:
        put(made, "node", id=71, name="n1")
        put(made, "node", id=72, name="n2")
        yield made


def put(store: Store, table: str, /, **values: Any) -> int:
    with store.writing() as db:
        number = db.execute(f"INSERT INTO {table} ({', '.join(values)}) "  # noqa: S608
                            f"VALUES ({', '.join('?' * len(values))})",
                            tuple(values.values())).lastrowid
    assert number is not None
    return number


def verdict(
    store: Store, fault: str = "error", isolation: str = "no-new-jobs", *, began: float = -5,
    ended: float | None = None, incident: int | None = None, node: int = 71,
) -> int:
    return put(store, "verdict", node=node, fault=fault, isolation=isolation, repair="reboot",
               owner="operator", why="", evidence="[]", began=at(began), seen=at(began),
               ended=None if ended is None else at(ended), incident=incident)


def cordon(
    store: Store, of: int | None, state: str = "held", outcome: str | None = "cordoned", node: str = "n1", *,
    began: float = -4, ended: float | None = -1, **more: Any,
) -> int:
    line = put(store, "ledger", time=at(began), who="t", action="cordon", node=node, why="", evidence="",
               outcome=outcome)
    over = None if state in ("meant", "held") or ended is None else at(ended)
    return put(store, "cordon", node=node, backend="slurm", why="Xid 79", who="t", state=state,
               began=at(began), ended=over, line=line, verdict=of, store="7f3a", **more)


def wrong(
    store: Store, *, began: float = -2, ended: float | None = None, node: int = 71, **more: Any,
) -> None:
    values = {"node": node, "rule": "gpu-count", "subject": "GPU 3", "status": "fail", "severity": "critical",
              "observed": "7", "expected": "8", "reason": "", "remedy": "", "began": at(began),
              "seen": at(began), "sweeps": 2}
    put(store, "problem", **{**values, "ended": None if ended is None else at(ended), **more})


def fleet(store: Store, *nodes: Node, **more: Any) -> FleetHistory:
    return gather(store, nodes or (Node("n1"), Node("n2")), POLICY, NOW, **more)


def known(store: Store, **more: Any) -> NodeHistory:
    return fleet(store, **more).nodes[0]


def test_of_a_node_that_no_sweep_has_met_nothing_is_known(store: Store) -> None:
    found = fleet(store, Node("n9"))
    assert found.nodes == (NodeHistory("n9"),)
    assert found == FleetHistory(NOW, found.nodes, since=NOW)


def test_what_sweeps_saw_of_a_node_is_known(store: Store) -> None:
    put(store, "spell", node=71, state="degraded", reason="", began=at(-9), seen=at(-8), ended=at(-8),
        sweeps=1)
    put(store, "spell", node=71, state="unhealthy", reason="", began=at(-8), seen=at(-0.5), sweeps=1)
    put(store, "newest", node=71, time=at(-1), rules="", snapshot=b"", kept="", driver="570", kernel="6.8",
        firmware="28.1")
    for boot, hour in (("b", -3), ("a", -30)):
        put(store, "boot", node=71, boot=boot, began=at(hour), seen=at(hour))
    past, other = fleet(store).nodes
    assert (past.state, past.seen, past.boots) == ("unhealthy", at(-0.5), (at(-30), at(-3)))
    assert past.versions == {"driver": "570", "kernel": "6.8", "firmware": "28.1"}
    assert other == NodeHistory("n2")


def test_parts_and_their_lots_are_known_where_something_is_wrong_that_a_part_can_cause(store: Store) -> None:
    parts = {"hardware": {"nic 0000:18:00.0": {"device": "mlx5_0"}}, "whole": ["nic"], "versions": {},
             "parts": {"mlx5_0": {"vendor": "NVIDIA", "part": "MFP7E10", "serial": "mt1", "date": "2306"}}}
    put(store, "hardware", node=71, time=at(-1), boot="b", parts=json.dumps(parts))
    wrong(store)
    assert fleet(store).parts == {}
    wrong(store, rule="port-errors-rate", subject="mlx5_0/1", severity="warning")
    (one,) = fleet(store).parts["n1"]
    assert (one.kind, one.device, one.pci, one.key, str(one.lot)) == (
        "cable", "mlx5_0", "0000:18:00.0", "MT1", "NVIDIA MFP7E10 of 2306")
    (other,) = fleet(store, delivered={"MT1": PartLot("NVIDIA", "MFP7E10", "W20")}).parts["n1"]
    assert other.lot.date == "W20"


def test_of_boots_from_before_the_window_the_newest_alone_is_known(store: Store) -> None:
    for hours in (-40 * DAY, -20 * DAY, -9 * DAY, -2, -1):
        put(store, "boot", node=71, boot=str(hours), began=at(hours), seen=at(hours))
    put(store, "boot", node=72, boot="only", began=at(-30 * DAY), seen=at(-30 * DAY))
    one, other = gather(store, [Node("n1"), Node("n2")], POLICY, NOW).nodes
    assert (one.boots, other.boots) == ((at(-9 * DAY), at(-2), at(-1)), (at(-30 * DAY),))


def test_problems_are_known_with_all_that_was_found_while_they_hold_and_for_the_longest_window_of_the_policy(
    store: Store,
) -> None:
    part = put(store, "component", id=90, kind="gpu", serial="A")
    put(store, "seat", component=part, node=71, slot="0", began=0, seen=0)
    wrong(store, origin=None, owner="vendor", repair="reboot", emitter="nvrm", ends="reset", component=part)
    for ended in (-72, -72 - SECOND):
        wrong(store, began=-80, ended=ended, rule="gpu-worn")
    past = known(store)
    assert past.problems == (Problem("n1", "gpu-count", "GPU 3", "fail", "critical", None, "vendor", "7", "8",
                                     "", "", at(-2), at(-2), None, 2, "gpu", "A", "reboot", "nvrm", "reset"),)
    assert [(problem.rule, problem.ended) for problem in past.over] == [("gpu-worn", at(-72))]
    assert past.moved == ()         # what failed here is not brought from elsewhere


def test_what_a_person_does_not_want_to_hear_of_is_counted_while_it_holds_and_nothing_else(
    store: Store,
) -> None:
    wrong(store)
    wrong(store, rule="fan")
    for subject in ("2", "3"):
        wrong(store, rule="fan", subject=subject, ended=-1)
    past = known(store, silenced=lambda problem: problem.rule == "fan")
    assert (past.silenced, [problem.rule for problem in past.problems], past.over) == (1, ["gpu-count"], ())
    assert [problem.subject for problem in past.hidden.over] == ["2", "3"]
    assert past.unsilenced.problems + past.unsilenced.over == tuple(
        sorted((*known(store).problems, *known(store).over),
               key=lambda one: (one.ended is not None, one.rule == "fan", one.subject)))
    assert known(store).unsilenced == known(store) != past


def test_what_is_silenced_of_a_part_goes_with_it_to_where_it_sits_now(store: Store) -> None:
    part = put(store, "component", kind="gpu", serial="A")
    put(store, "seat", component=part, node=71, slot="0", began=at(-2), seen=at(-1))
    wrong(store, node=72, component=part, ended=-9)
    wrong(store, component=part, ended=-1)
    one, other = fleet(store, silenced=lambda problem: True).nodes
    assert [[problem.node for problem in each] for each in (one.hidden.over, one.hidden.moved)] == [
        ["n1"], ["n2"]]
    assert one.hidden.left == 0.0 and (other.hidden.problems, other.hidden.moved) == ((), ())
    assert other.hidden.left == at(-9)


def test_what_a_watch_found_of_a_job_is_known_of_the_node_that_slows_it(store: Store) -> None:
    watched.write(store, [watched.WatchedNode("j1", "f1", "n1", (3,), "slow", "pcie", watched.LIKELY, 0.2,
                                              "it is slow", at(-1), NOW - 60)])
    past, other = fleet(store).nodes
    assert [problem.rule for problem in past.problems] == ["watch-slow"] and other.problems == ()
    quiet = known(store, silenced=lambda problem: True)
    assert quiet.problems == () and [problem.rule for problem in quiet.hidden.problems] == ["watch-slow"]


def subnet_shows(store: Store, kind: PlaceKind, *nodes: str) -> None:
    one = KeptFinding(FabricRule.ADAPTER if kind is PlaceKind.NODE else FabricRule.LINK, kind, "mlx5_0", "",
                      Severity.CRITICAL, Owner.DATACENTRE, "down", nodes=nodes)
    fabricfindings.write(store, [fabricfindings.SubnetChecked("", frozenset({"a"}), at(-1), (one,),
                                                              lambda each: "")], NOW)


def test_what_subnets_show_is_the_fabrics_and_of_single_nodes_theirs_unless_no_one_wants_to_hear_of_any(
        store: Store) -> None:
    subnet_shows(store, PlaceKind.NODE, "n1", "n2")
    for silent, fabric in (("", 1), ("n1", 1), ("n1 n2", 0)):
        found = fleet(store, silenced=lambda problem, names=silent: problem.node in names.split())
        assert len(found.fabric) == fabric
        for past in found.nodes:
            heard, hidden = len(past.problems), len(past.hidden.problems)
            assert (heard, hidden) == ((0, 1) if past.node in silent else (1, 0))


def test_what_subnets_show_of_a_switch_no_silence_of_a_node_hides(store: Store) -> None:
    subnet_shows(store, PlaceKind.SWITCH, "n1")
    found = fleet(store, silenced=lambda problem: True)
    assert len(found.fabric) == 1 and found.nodes[0].hidden.problems == ()


@pytest.mark.parametrize(("ahead", "is_known"), [(-1, True), (AHEAD_S, True), (AHEAD_S + 1, False)])
def test_what_was_stored_by_a_clock_that_was_far_ahead_says_nothing_of_a_node(
        store: Store, ahead: float, is_known: bool) -> None:
    put(store, "spell", node=71, state="degraded", reason="", began=at(-9), seen=NOW + ahead, sweeps=1)
    put(store, "snapshot", node=71, profile="bringup", time=NOW + ahead, state="healthy", measured="[]")
    past = known(store)
    assert (past.state, len(past.snapshots)) == (("degraded", 1) if is_known else ("", 0))


def test_when_what_left_was_over_is_the_later_of_what_is_silenced_and_of_what_is_not() -> None:
    for heard, quiet in ((-1, -2), (-2, -1)):
        past = NodeHistory("n1", left=at(heard), hidden=SilencedHistory(left=at(quiet)))
        assert (past.left, past.unsilenced.left) == (at(heard), at(-1))


def test_no_silence_makes_a_snapshot_healthy(store: Store) -> None:
    for hour, state in ((-3, "healthy"), (-2, "degraded"), (-1, "unknown")):
        put(store, "snapshot", node=71, profile="bringup", time=at(hour), state=state,
            measured=json.dumps(["fan"] if hour == -2 else []))
    put(store, "snapshot", node=71, profile="other", time=at(-1), state="healthy", measured="[]")
    past = known(store, silenced=lambda problem: problem.rule == "fan")
    assert [look.state for look in past.snapshots] == ["healthy", "degraded", "unknown"]
    assert past.snapshots[1] == RequalifySnapshot(at(-2), "degraded", frozenset({"fan"}))


def test_what_was_done_and_came_to_a_good_end_is_a_repair(store: Store) -> None:
    for hour, action, outcome in ((-9, "reboot", "rebooted: it answers"), (-8, "reset-gpu", "done"),
                                  (-7, "reset-gpu", "failed"), (-6, "cordon", "done"),
                                  (-100, "reboot", "done"), (-72, "restart-service", "done"),
                                  (-5, "reboot", None)):
        put(store, "ledger", time=at(hour), who="t", action=action, node="n1", why="",
            evidence='{"component": "GPU 3"}', outcome=outcome, finished=at(hour) if outcome else None)
    put(store, "ledger", time=at(-4), who="us", action="repaired", node="n1", why="",
        evidence='{"component": "GPU 3"}', outcome="done", finished=at(-4))
    assert known(store).repaired == (Repaired(at(-9), "reboot"), Repaired(at(-8), "reset-gpu"),
                                     Repaired(at(-72), "restart-service"),
                                     Repaired(at(-4), "repaired", of=frozenset({"GPU 3"})))


def test_a_lease_says_who_tests_the_node_and_a_scheduler_who_else_keeps_jobs_away(store: Store) -> None:
    entry, _ = lease(store, "held", "slurm", ["n1"], "burn-in", "us", "{}", at(-1), at(1))
    assert entry is not None
    past, other = fleet(store, others=lambda node: f"{node} is drained by jane" if node == "n1" else "").nodes
    assert (past.leased, past.others) == (f"it is leased as {entry.name}: burn-in", "n1 is drained by jane")
    assert (other.leased, other.others) == ("", "")


# ---- returns to the vendor

def rma(store: Store, returned: float | None, *, outcome: str = "exchanged B", serial: str = "A") -> None:
    put(store, "rma", node="n1", slot="0", kind="gpu", serial=serial, why="worn", who="us", reference="",
        evidence="", opened=at(-200), returned=None if returned is None else at(returned),
        outcome=None if returned is None else outcome)


@pytest.mark.parametrize(("returned", "repaired"), [(-72, 1), (-72 - SECOND, 0), (-2, 1)])
def test_a_part_that_came_back_is_a_repair_for_as_long_as_faults_are_remembered(
    store: Store, returned: float, repaired: int,
) -> None:
    rma(store, returned)
    past = known(store)
    back = Repaired(at(returned), "returned from the vendor", "0", frozenset({"0", "A"}), "gpu")
    assert past.repaired == (back,) * repaired and past.away == ""


def test_a_part_that_came_back_without_a_number_is_a_repair_of_its_slot_alone(store: Store) -> None:
    rma(store, -2, serial="")
    (back,) = known(store).repaired
    assert back.of == {"0"}


@pytest.mark.parametrize(("returned", "ended", "away"), [
    (-72, None, True), (-72 - SECOND, None, True), (-150, None, True), (-72, -0.5, False)])
def test_a_part_that_is_not_what_was_said_to_come_is_away_for_as_long_as_it_sits_there(
    store: Store, returned: float, ended: float | None, away: bool,
) -> None:
    rma(store, returned)
    part = put(store, "component", kind="gpu", serial="A")
    put(store, "seat", component=part, node=71, slot="0", began=at(-300), seen=at(-1),
        ended=None if ended is None else at(ended))
    past = known(store)
    assert ("the SAME gpu came back" in past.away) is away
    assert len(past.repaired) == (not away)


# ---- verdicts and cordons

def test_the_open_verdict_of_a_node_is_known_with_its_incident(store: Store) -> None:
    incident = put(store, "incident", id=33, kind="rack", cause="r2", nodes="[]", why="", owner="network",
                   began=at(-5), seen=at(-1))
    verdict(store, "lost", began=-9, ended=-5)
    number = verdict(store, "incident", "evict", incident=incident)
    verdict(store, "error", node=72)
    past, other = fleet(store).nodes
    assert past.verdict == OpenVerdict(number, "incident", Isolation.EVICT, at(-5), 33)
    assert other.verdict is not None and (other.verdict.fault, other.verdict.incident) == ("error", 0)


@pytest.mark.parametrize(("now", "is_away", "fault"),
                         [("rma", True, "rma"), ("rma", False, "lost"), ("error", False, "error")])
def test_once_an_rma_is_over_what_was_decided_before_it_holds(
    store: Store, now: str, is_away: bool, fault: str,
) -> None:
    put(store, "incident", id=33, kind="rack", cause="r2", nodes="[]", why="", owner="network", began=at(-5),
        seen=at(-1))
    verdict(store, "lost", "evict", began=-9, ended=-5, incident=33)
    number = verdict(store, now)
    if is_away:
        rma(store, None)
    under = (Isolation.EVICT, 33) if fault == "lost" else (Isolation.NO_NEW_JOBS, 0)
    assert known(store).verdict == OpenVerdict(number, fault, under[0], at(-5), under[1])


def test_a_verdict_of_an_rma_that_nothing_went_before_stays_until_the_next_run(store: Store) -> None:
    number = verdict(store, "rma")
    assert known(store).verdict == OpenVerdict(number, "rma", Isolation.NO_NEW_JOBS, at(-5))


BY_HAND = "it was given back by hand"


@pytest.mark.parametrize(("state", "outcome", "lost", "holds", "against"), [
    ("held", "cordoned", "", True, ""), ("meant", None, "", True, ""),
    ("meant", None, "jane holds it", True, ""),         # no one has looked yet whether it was done
    ("held", "cordoned", "jane holds it", False, "jane holds it"),
    ("held", "cordoned", ANEW, False, ""), ("anew", "cordoned", "", False, ""),
    ("anew", "cordoned", "jane holds it", False, ""), ("released", "cordoned", "", False, BY_HAND),
    ("void", None, "", False, BY_HAND), ("void", "not done: the controller is away", "", False, "")])
def test_a_cordon_holds_or_somebody_went_against_it_or_no_one_did(
    store: Store, state: str, outcome: str | None, lost: str, holds: bool, against: str,
) -> None:
    # in the name of a verdict that is over
    cordon(store, verdict(store, began=-9, ended=-5), "released")
    number = cordon(store, verdict(store), state, outcome)
    asked: list[tuple[str, str, CordonMark]] = []
    past = known(store, lost=lambda *of: [asked.append(of), lost][1])
    assert past.cordons == ((OpenCordon(number, "slurm", "Xid 79", at(-4), 2, "7f3a"),) if holds else ())
    assert past.overridden == (f"{against}, against muster:7f3a#{number}, whose verdict holds; muster cordon "
                               "n1 cordons it again" if against else "")
    when = NOW if state == "held" else at(-1)       # when it was seen there, or recorded
    assert past.overridden_at == (when if against else float("inf"))
    assert set(asked) == ({("n1", "slurm", CordonMark("7f3a", number))} if state == "held" else set())
    assert fleet(store).nodes[1].cordons == ()


def test_no_one_goes_against_a_verdict_by_ending_what_a_person_or_an_earlier_verdict_held(
    store: Store,
) -> None:
    earlier = verdict(store, began=-9, ended=-5)
    number = cordon(store, None)
    assert known(store).cordons == (OpenCordon(number, "slurm", "Xid 79", at(-4), None, "7f3a"),)
    cordon(store, earlier, "released")
    put(store, "cordon", node="n2", backend="slurm", why="", who="t", state="held", began=at(-4), line=1,
        verdict=earlier)
    for _ in range(2):
        assert [past.overridden for past in fleet(store, lost=lambda *_: "jane holds it").nodes] == ["", ""]
        if not store.rows("SELECT 1 FROM verdict WHERE ended IS NULL"):
            verdict(store)
            verdict(store, node=72)


@pytest.mark.parametrize(("state", "lost", "anew"),
                         [("anew", "", -1), ("held", ANEW, 0), ("held", "jane holds it", None),
                          ("held", "", None), ("released", ANEW, None), ("meant", ANEW, None)])
def test_a_node_is_anew_where_its_last_cordon_ended_so(
    store: Store, state: str, lost: str, anew: float | None,
) -> None:
    cordon(store, verdict(store, "lost", "evict"), state)
    assert known(store, lost=lambda *_: lost).anew == (Anew(at(anew), "lost", Isolation.EVICT)
                                                       if anew is not None else None)


def test_a_node_is_not_anew_once_it_has_another_cordon_or_nothing_is_decided_of_it(store: Store) -> None:
    cordon(store, verdict(store, "lost", "evict", began=-9, ended=-5), "anew")
    verdict(store, node=72)
    assert known(store).anew is None        # its verdict is over, that of another node is not
    number = verdict(store)
    assert known(store).anew is not None
    cordon(store, number)
    assert known(store).anew is None


# ---- the fleet

def test_isolations_count_within_the_hours_of_the_breaker_with_incident_and_place(store: Store) -> None:
    number = verdict(store)
    put(store, "incident", id=33, kind="rack", cause="r2", nodes="[]", why="", owner="network", began=at(-5),
        seen=at(-1))
    cordon(store, number, node="n1", began=-1 + SECOND, incident=33, place="nvlink_domain pod 7")
    cordon(store, number, "void", None, node="n2", began=-0.5)
    cordon(store, number, node="n3", began=-1)
    cordon(store, None, node="n4", began=-0.5)
    assert fleet(store).isolated == (Isolated("n1", at(-1 + SECOND), 33, ("nvlink_domain", "pod 7")),
                                     Isolated("n2", at(-0.5)))


def test_an_open_breaker_is_known_with_its_reason_and_a_closed_one_is_not(store: Store) -> None:
    put(store, "breaker", opened=at(-9), why="before", closed=at(-8))
    assert (fleet(store).open_since, fleet(store).open_why) == (None, "")
    put(store, "breaker", opened=at(-3), why="many nodes")
    assert (fleet(store).open_since, fleet(store).open_why) == (at(-3), "many nodes")


@pytest.mark.parametrize(("first", "since"), [(-90, -72), (-40, -40), (None, 0)])
def test_faults_are_remembered_for_the_longest_window_and_not_from_before_the_first_sweep(
    store: Store, first: float | None, since: float,
) -> None:
    for hour in () if first is None else (first, first + 1):
        swept(store, hour)
    assert fleet(store).since == at(since)


def test_incidents_are_known_for_the_longer_of_what_is_remembered_and_what_may_reopen(store: Store) -> None:
    for number, ended in enumerate((None, at(-5 * DAY), at(-7 * DAY - SECOND)), 31):
        put(store, "incident", id=number, kind="rack", cause=f"r{number}", nodes="[]", why="",
            owner="network", began=at(-300), seen=at(-1), ended=ended)
    assert [one.id for one in fleet(store).incidents] == [31, 32] and fleet(store).next_incident == 34
    short = policy(repeat=RepeatPolicy(3, 14, 6, 6), incidents=IncidentPolicy(reopen_days=1))
    # a month, of what climbs
    assert [one.id for one in gather(store, (), short, NOW).incidents] == [31, 32, 33]


# ---- changes

def swept(store: Store, hour: float, nodes: int = 100) -> None:
    put(store, "sweep", started=at(hour), finished=at(hour), partial=0, source="t", rules="", profiles="[]",
        nodes=nodes, unreached=0)


def version(store: Store, kind: str, name: str, digest: str, began: float, seen: float) -> None:
    put(store, "version", kind=kind, name=name, digest=digest, who="", began=at(began), seen=at(seen))


def test_what_changed_of_what_decides_is_the_fleets_and_what_changed_of_what_a_node_runs_is_its_own(
    store: Store,
) -> None:
    for kind, name in (("rule", "gpu-count"), ("driver", "n1"), ("firmware", "n1")):
        version(store, kind, name, "a", -200, -6)
        version(store, kind, name, "b", -5, -1)
    rule, driver, firmware = (VersionChange(kind, name, "b", at(-5), at(-6), was="a") for kind, name in (
        ("rule", "gpu-count"), ("driver", "n1"), ("firmware", "n1")))
    found = fleet(store)
    assert (found.changes == found.every_change == (rule,) and found.nodes[0].changed == (driver, firmware)
            and found.nodes[1].changed == ())
    assert changes(store, at(-4), NOW) == []


@pytest.mark.parametrize(("sweeps", "until"), [
    (((-5, 100), (-4, 100), (-3, 100)), -4),        # the second that looked at most nodes
    (((-9, 100), (-8, 100), (-5, 100), (-4, 100)), -4),
    (((-5, 49), (-4, 100), (-3, 50)), -3),          # it came with a sweep of few
    (((-5, 100), (-4, 49)), None), (((-5, 100),), None), (((-5, 100), (1, 100)), None), ((), None)])
def test_what_a_change_brings_shows_until_the_second_sweep_of_at_least_half_the_nodes(
    store: Store, sweeps: tuple[tuple[float, int], ...], until: float | None,
) -> None:
    version(store, "rule", "gpu-count", "a", -200, -6)
    version(store, "rule", "gpu-count", "b", -5, -1)
    for hour, nodes in sweeps:
        swept(store, hour, nodes)
    assert [one.until for one in changes(store, at(-100), NOW)] == [
        float("inf") if until is None else at(until)]


def test_of_several_changes_each_shows_until_the_second_sweep_after_its_own(store: Store) -> None:
    for name, began in (("early", -5), ("late", -3), ("to-come", 1)):
        version(store, "rule", name, "a", -200, began - 1)
        version(store, "rule", name, "b", began, began)
    for hour in (-5, -4, -3, -2):
        swept(store, hour)
    assert [(one.name, one.until) for one in changes(store, at(-100), NOW)] == [
        ("early", at(-4)), ("late", at(-2))]


def test_what_changed_again_is_among_all_changes_and_not_among_those_that_hold(store: Store) -> None:
    for digest, began in (("a", -200), ("b", -5), ("c", -2), ("d", 0), ("e", 1)):
        version(store, "rule", "gpu-count", digest, began, began + 0.5)
    found = fleet(store)
    assert [one.digest for one in found.every_change] == ["b", "c", "d"]
    assert [one.digest for one in found.changes] == ["d"] == [one.digest
                                                              for one in changes(store, at(-100), NOW)]


def decided(store: Store, hours: float, **fault: Any) -> None:
    """Triage decided by a policy whose first fault was another in this."""
    by = replace(POLICY, kinds=(replace(KINDS[0], **fault), *KINDS[1:]))
    with store.writing() as db:
        note(db, decided_by(by), "", at(hours))


def test_what_the_policy_of_now_would_change_of_what_was_decided_by_is_a_change_of_now(store: Store) -> None:
    decided(store, -9, confirm=7)
    decided(store, -5, confirm=5)
    version(store, "rule", "gpu-count", "a", -200, -6)
    version(store, "rule", "gpu-count", "b", -5, -1)
    rule, before, fresh = sorted(fleet(store).every_change,
                                 key=lambda one: (one.kind == OF_POLICY, one.began))
    assert (rule.kind, rule.after, rule.faults) == ("rule", None, ())
    assert [(one.kind, one.name, one.began, one.after) for one in (before, fresh)] == [
        (OF_POLICY, "lost", at(-5), NOW), (OF_POLICY, "lost", NOW, None)]
    assert [one.faults[0].confirm for one in (before, fresh)] == [7, 5]
    assert every_change(store, at(-100), NOW)[0].after is None      # without a policy nothing is pending
    decided(store, -1)
    assert [one.after for one in fleet(store).every_change if one.kind == OF_POLICY] == [at(-1), None]


# ---- which rules a change of a SKU concerns

TAKES = {"gpu-count": frozenset({"gpus"}), "gpu-power": frozenset({"watts"}), "any": frozenset[str]()}
HGX = {"numbers": {"gpus": 8, "watts": 700}, "empty": ["nvme"], "ports": 8}


@pytest.mark.parametrize(("was", "now", "rules"), [
    (HGX, {**HGX, "numbers": {"gpus": 9, "watts": 700}}, {"gpu-count", "any"}),
    (HGX, {**HGX, "numbers": {"gpus": 8, "watts": 700, "fans": 6}}, {"any"}),
    (HGX, {**HGX, "numbers": {"watts": 700}}, {"gpu-count", "any"}),
    (HGX, {**HGX, "numbers": {"gpus": 9, "watts": 700}, "empty": []}, None),
    (HGX, {**HGX, "numbers": {"gpus": 9, "watts": 700}, "ports": 9}, None),
    ({}, HGX, None), (HGX, {}, None)])
def test_a_change_of_numbers_of_a_sku_concerns_rules_that_take_them_and_any_other_change_all(
        was: Mapping[str, Any], now: Mapping[str, Any], rules: set[str] | None) -> None:
    span = VersionSpan("sku", "hgx", "b", at(-5), at(-6), None, "a", json.dumps(now), json.dumps(was))
    assert change(span, (), TAKES).rules == rules
    assert change(span, ()).rules is None and change(replace(span, kind="rule"), (), TAKES).rules is None


def test_which_numbers_a_rule_takes_of_a_sku_is_read_of_what_it_says_now(store: Store) -> None:
    said = {"gpu-count": {"with": {"expect": "$gpus", "allow": 1, "unit": "pieces"}}, "fan": {"with": {}},
            "disk-full": {"with": {"percent": 90}}, "odd": {"with": ["$gpus"]},
            "unknown": {"severity": "info"}}
    for name, content in said.items():
        put(store, "version", kind="rule", name=name, digest="a", who="", began=at(-9), seen=at(-1),
            content=json.dumps(content))
    assert numbers_taken(store) == {"gpu-count": {"gpus"}, "unknown": frozenset()}


@pytest.mark.parametrize("beside", [False, True])
def test_a_stored_change_of_a_sku_is_about_the_rules_that_take_its_numbers(
        store: Store, beside: bool) -> None:
    rule = json.dumps({"with": {"expect": "$gpus"}})
    skus = [json.dumps({**HGX, "numbers": {"gpus": gpus}}) for gpus in (8, 9)]
    with store.writing() as db:
        for hours, sku in ((-9, skus[0]), (-5, skus[1])):
            note(db, [Version("sku", "hgx", sku[-9:], sku), Version("rule", "gpu-count", "a", rule),
                      Version("rule", "fan", "b" if beside and hours > -9 else "a", '{"with":{}}')], "",
                 at(hours))
    assert {one.kind: one.rules for one in fleet(store).every_change} == {
        "sku": {"gpu-count"}, **({"rule": None} if beside else {})}


# ---- the inventory

def test_what_the_inventory_says_of_a_node_is_known(store: Store) -> None:
    node = Node("n1", sku="hgx-h200", lifecycle=Lifecycle(LifecycleState.MAINTENANCE), rack="r2")
    (past,) = fleet(store, node).nodes
    assert (past.sku, past.lifecycle, past.in_service, past.domains) == (
        "hgx-h200", "maintenance", False, {"rack": ("r2",)})


def test_a_node_is_in_the_domains_that_somebody_named_and_behind_the_leaves_of_its_ports() -> None:
    plans = {"p0": PortPlan(leaf="l1", rail=0), "p1": PortPlan(leaf="l2"), "p2": PortPlan(rail=7),
             "p3": PortPlan()}
    full = Node("n1", rack="r", leaf=("l0", "l1"), power="p", nvlink_domain="d", labels={"batch": "2026-04"},
                ports=MappingProxyType(plans))
    assert domains(full) == {"rack": ("r",), "leaf": ("l0", "l1", "l2"), "power": ("p",),
                             "nvlink_domain": ("d",), "batch": ("2026-04",)}
    assert ports(full) == {"p0": ("l1", "0"), "p1": ("l2", ""), "p2": ("", "7"), "p3": ("", "")}
    assert domains(Node("n1")) == {} and ports(Node("n1")) == {}
