"""Another machine under a node's name, and two nodes that changed places: triage says so by name until they
are brought up again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.outcome import NodeReport, NodeState, Result, Severity, Status
from healthcheck.model.verdict import MACHINE
from healthcheck.replay.rebuild import Rebuilt
from healthcheck.replay.record import read
from healthcheck.report.plan import text
from healthcheck.store.file import Store, opened
from healthcheck.store.machines import AnotherMachine, another_machines
from healthcheck.store.readings import Component, NodeReadings
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.triage.decide import decide
from healthcheck.triage.gather import gather, unproven_by_bringup
from healthcheck.triage.past import FleetHistory, SilencedHistory
from healthcheck.triage.plan import Act, TriagePlan, make
from healthcheck.triage.policyload import load_policy
from inventory.model import Lifecycle, LifecycleState, Node
from tests.healthcheck.triage.made import NOW, past, policy, problem
from tests.packagedrules import RULES
from tests.testbed.memory import in_memory
from tests.tries import tries

POLICY = load_policy([packaged()], RULES)
MIN = 60.0
KINDS = {"gpu": 4, "nvme": 2, "hca": 2, "chassis": 1}


def machine(name: str, **others: str) -> list[Component]:
    """All parts of a machine; `others` says of which machine those of a kind are."""
    found = []
    for kind, number in KINDS.items():
        of = others.get(kind, name)
        if not of:
            continue
        for n in range(number):
            slot = kind if kind == "chassis" else f"{kind}{n}"
            found.append(Component(kind, slot, f"{of}-{kind}{n}", f"{kind.upper()} {n}"))
    return found


def sweep(
    store: Store, at: float, profile: str = "", state: NodeState = NodeState.HEALTHY,
    **nodes: list[Component],
) -> None:
    """One stored look at these nodes, all well if nothing is said."""
    good = Result("gpu-ecc", "gpu.ecc", Status.PASS, Severity.CRITICAL, (), "", None, "", None)
    record(store, SweepRecord(at, at + 5, False, "test", "digest", (profile,) if profile else ()),
           [NodeReport(name, state, "", (good,)) for name in nodes],
           {name: NodeReadings(tuple(parts), (), frozenset(part.kind for part in parts), "boot")
            for name, parts in nodes.items()})


def plan(store: Store, now: float, *out: str) -> TriagePlan:
    nodes = [Node(name, lifecycle=Lifecycle(LifecycleState.MAINTENANCE if name in out else
                                            LifecycleState.SERVICE)) for name in ("n1", "n2", "n3")]
    return make(gather(store, nodes, POLICY, now), POLICY)


def said(store: Store, now: float) -> list[str]:
    return [line for line in text(plan(store, now), 3, 3, now)
            if line.startswith(("swapped", "replaced"))]


def test_two_nodes_that_changed_places_are_one_line_with_both_names(store: Store) -> None:
    sweep(store, 0, n1=machine("a"), n2=machine("b"), n3=machine("c"))
    assert said(store, 10) == [] and another_machines(store) == {}
    sweep(store, 3600, n1=machine("b"), n2=machine("a"), n3=machine("c"))
    assert said(store, 3700) == [
        "swapped   n[1-2]: n1 and n2 changed places at 1970-01-01T01:00Z (9 of 9 parts with a number are "
        "others): swap them back or correct the inventory, or bring both up again: muster check n[1-2] "
        "--profile "
        "bringup --store"]


def test_of_two_that_are_looked_at_one_after_the_other_the_first_names_where_its_parts_sat(
    store: Store,
) -> None:
    sweep(store, 0, n1=machine("a"), n2=machine("b"))
    sweep(store, 60, n1=machine("b"))
    assert said(store, 70) == [
        "replaced  n1: another machine since 1970-01-01T00:01Z, 9 of 9 parts with a number are others, "
        "which sat "
        "in n2 before: bring it up again: muster check n1 --profile bringup --store"]
    sweep(store, 7200, n2=machine("a"))
    assert said(store, 7300)[0].startswith("swapped   n[1-2]: n1 and n2 changed places at ")


def test_three_that_went_round_are_three_lines(store: Store) -> None:
    sweep(store, 0, n1=machine("a"), n2=machine("b"), n3=machine("c"))
    sweep(store, 60, n1=machine("b"), n2=machine("c"), n3=machine("a"))
    assert [line.partition(":")[0] for line in said(store, 70)] == [
        "replaced  n1", "replaced  n2", "replaced  n3"]
    assert {name: one.origin for name, one in another_machines(store).items()} == {
        "n1": "n2", "n2": "n3", "n3": "n1"}


def test_who_swaps_them_back_hears_of_it_until_both_are_brought_up(store: Store) -> None:
    sweep(store, 0, n1=machine("a"), n2=machine("b"))
    sweep(store, 60, n1=machine("b"), n2=machine("a"))
    sweep(store, 3600, n1=machine("a"), n2=machine("b"))
    assert said(store, 3700)[0].startswith("swapped   n[1-2]: n1 and n2 changed places at 1970-01-01T01:00Z")
    for at in (4000.0, 4000 + 11 * MIN):
        sweep(store, at, "bringup", n1=machine("a"), n2=machine("b"))
    assert said(store, 4000 + 12 * MIN) == []


def test_a_look_under_another_profile_brings_nothing_up(store: Store) -> None:
    sweep(store, 0, n1=machine("a"))
    sweep(store, 60, n1=machine("x"))
    for number in range(4):
        sweep(store, 3600 * (1 + number), "quick", n1=machine("x"))
    assert len(said(store, 5 * 3600)) == 1
    sweep(store, 6 * 3600, "bringup", n1=machine("x"))
    assert len(said(store, 6 * 3600 + 10)) == 1
    sweep(store, 7 * 3600, "bringup", n1=machine("x"))
    assert said(store, 7 * 3600 + 10) == []


def test_a_machine_that_no_sweep_has_met_before_is_another_one_and_in_maintenance_too(store: Store) -> None:
    sweep(store, 0, n1=machine("a"))
    sweep(store, 60, n1=machine("x"))
    assert another_machines(store) == {"n1": AnotherMachine("n1", 60, 9, 9)}
    assert [one.node for one in plan(store, 70, "n1").machines] == ["n1"]


@pytest.mark.parametrize(("name", "others", "another"), [
    # all parts of one kind, beside others that stayed
    *(("a", others, set()) for others in (
        {"gpu": "x"}, {"chassis": "x"}, {"nvme": "x", "gpu": "x"}, {"gpu": ""}, {"hca": "x", "gpu": ""})),
    # another machine with the old drives, or with parts that cannot be read
    *(("x", others, {"n1"}) for others in (
        {}, {"nvme": "a"}, {"gpu": ""}, {"chassis": ""}, {"chassis": "", "nvme": ""}))])
def test_it_is_another_machine_where_most_parts_are_others(
    store: Store, name: str, others: dict[str, str], another: set[str],
) -> None:
    sweep(store, 0, n1=machine("a"))
    sweep(store, 60, n1=machine(name, **others))
    assert set(another_machines(store)) == another


def test_what_the_first_look_could_not_read_is_counted_by_the_next(store: Store) -> None:
    sweep(store, 0, n1=machine("a"))
    sweep(store, 60, n1=machine("x", gpu="", hca="", nvme=""))
    assert another_machines(store) == {}          # one chassis: it may be a new board
    sweep(store, 120, n1=machine("x"))
    assert another_machines(store) == {"n1": AnotherMachine("n1", 60, 9, 9)}


def test_parts_that_are_exchanged_one_by_one_in_a_year_are_no_other_machine(store: Store) -> None:
    day = 86400.0
    parts = machine("a")
    sweep(store, 0, n1=list(parts))
    for n in range(len(parts)):
        parts[n] = Component(parts[n].kind, parts[n].slot, f"x{n}", parts[n].name)
        sweep(store, (n + 1) * 3 * day, n1=list(parts))
    assert another_machines(store) == {}


def test_parts_that_change_slots_within_their_node_are_no_other_machine(store: Store) -> None:
    parts = machine("a")
    sweep(store, 0, n1=parts)
    turned = [Component(part.kind, slot.slot, part.serial, part.name)
              for part, slot in zip(parts, parts[1:4] + parts[:1] + parts[5:6] + parts[4:5] + parts[7:8]
                                    + parts[6:7] + parts[8:], strict=True)]
    sweep(store, 60, n1=turned)
    assert another_machines(store) == {}


def test_a_new_node_and_a_store_without_sweeps_are_no_other_machine(store: Store) -> None:
    assert another_machines(store) == {}
    sweep(store, 0, n1=machine("a"))
    sweep(store, 60, n1=machine("a"), n2=machine("b"))
    sweep(store, 120, n3=machine("c"))
    assert another_machines(store) == {}


def test_triage_keeps_jobs_away_from_both_until_each_is_brought_up(store: Store) -> None:
    sweep(store, 0, n1=machine("a"), n2=machine("b"), n3=machine("c"))
    sweep(store, 3600, n1=machine("b"), n2=machine("a"), n3=machine("c"))
    nodes = [Node(f"n{number}") for number in range(1, 101)]
    made = make(gather(store, nodes, POLICY, 3700), POLICY)
    assert [(step.act, step.node, step.why) for step in made.steps] == [
        (Act.ISOLATE, node,
         f"another-machine: another machine has its name since 1970-01-01T01:00Z, which sat in "
         f"{origin} before: bring it up again: muster check {node} --profile bringup --store, 2 times clean")
        for node, origin in (("n1", "n2"), ("n2", "n1"))]
    assert made.unfit == ("n1", "n2")
    for at in (4000.0, 4000 + 11 * MIN):
        sweep(store, at, "bringup", n1=machine("b"), n2=machine("a"))
    assert plan(store, 4000 + 12 * MIN).verdicts == ()


@pytest.mark.parametrize("every", [3 * MIN, 60 * MIN])
def test_a_machine_that_was_brought_up_stays_so_while_it_only_warns_and_whichever_board_is_exchanged(
    store: Store, every: float,
) -> None:
    sweep(store, 0, n1=machine("a"))
    sweep(store, 60, n1=machine("x"))
    for at in range(6):
        sweep(store, 4000 + at * every, "bringup", n1=machine("x"))
    now = 4000 + 6 * every
    assert plan(store, now).verdicts == ()
    for at in range(12):
        sweep(store, now + at * every, "bringup", NodeState.DEGRADED,
              n1=machine("x", nvme="spare" if at > 5 else "x"))
    assert plan(store, now + 12 * every).verdicts == ()


def test_a_bring_up_that_came_to_its_end_has_proven_the_machine(store: Store) -> None:
    sweep(store, 0, n1=machine("a"))
    sweep(store, 60, n1=machine("x"))
    brought = ("INSERT INTO bringup (node, began, who, step, since, stand, message, ended, kept) "
               "VALUES ('n1', ?, 'ann', 'service', ?, 'done', '', ?, '{}')")
    with store.writing() as db:
        db.execute(brought, (10, 50, 50))
    assert plan(store, 70).unfit == ("n1",)       # it was of the machine before
    with store.writing() as db:
        db.execute("UPDATE bringup SET ended = 65")
    assert plan(store, 70).verdicts == ()


@pytest.mark.parametrize(("ended", "proven"), [(59, False), (60, True), (61, True), (None, False)])
def test_a_machine_is_proven_by_a_bring_up_that_did_not_end_before_it_was_met(
        store: Store, ended: float | None, proven: bool) -> None:
    with store.writing() as db:
        for node, when in (("n1", ended), ("n2", 61)):
            db.execute("INSERT INTO bringup (node, began, who, step, since, stand, message, ended, kept) "
                       "VALUES (?, 1, 'ann', 'service', 1, 'done', '', ?, '{}')", (node, when))
    met = AnotherMachine("n1", 60, 9, 9)
    assert unproven_by_bringup(store, {"n1": met}) == ({} if proven else {"n1": met})


def test_what_keeps_another_machine_from_a_clean_look_is_named_though_it_is_silenced() -> None:
    warned = problem("fleet-driver", "", severity="warning")
    histories: tuple[dict[str, Any], ...] = ({"problems": (warned,)}, {"hidden": SilencedHistory((warned,))})
    for history in histories:
        one = replace(past("n1", machine=AnotherMachine("n1", NOW - 60, 9, 9)), **history)
        (verdict,) = make(FleetHistory(NOW, (one,), since=NOW - 1e6), policy()).verdicts
        assert verdict.fault == MACHINE and verdict.why.endswith(
            "2 times clean; no look is clean while there is fleet-driver")


def test_a_replay_decides_on_another_machine_as_triage_did(store: Store) -> None:
    sweep(store, 0, n1=machine("a"))
    sweep(store, 3600, n1=machine("x"))
    for at in (4000.0, 4000 + 11 * MIN):
        sweep(store, at, "bringup", n1=machine("x"))
    then = Rebuilt(read(store, "bringup", 0.0), POLICY)

    def fault(now: float) -> str | None:
        verdict = decide(then.past(Node("n1"), now), POLICY, now)
        return verdict.fault if verdict is not None else None

    assert [fault(now) for now in (60.0, 3700.0, 4100.0, 4000 + 12 * MIN)] == [None, MACHINE, MACHINE, None]


def test_many_names_on_other_machines_are_bounded_go_after_faults_and_open_no_breaker() -> None:
    nodes = [past(f"n{number}", machine=AnotherMachine(f"n{number}", NOW - 60, 9, 9)) for number in range(40)]
    lost = past("x1", problem("gpu-count", node="x1"))
    made = make(FleetHistory(NOW, (*nodes, lost), since=NOW - 1e6), policy())
    taken = [step.node for step in made.steps]
    assert taken[0] == "x1" and 1 < len(taken) < 10 and not made.is_open and made.opens == ""
    refused = [one for one in made.withheld if one.node not in taken]
    assert len(refused) == 41 - len(taken) and all(
        one.why.startswith("the breaker has no room: ") and not one.by_breaker for one in refused)


@pytest.mark.parametrize("only", ["chassis", "hca"])
def test_two_that_changed_places_are_found_by_the_one_kind_that_has_numbers(store: Store, only: str) -> None:
    none = {kind: "" for kind in KINDS if kind != only}
    sweep(store, 0, n1=machine("a", **none), n2=machine("b", **none))
    sweep(store, 60, n1=machine("b", **none), n2=machine("a", **none))
    assert {name: one.swapped for name, one in another_machines(store).items()} == {"n1": True, "n2": True}


def test_a_chassis_that_sat_in_another_node_is_another_machine_though_no_gpu_can_be_read_just_now(
    store: Store,
) -> None:
    unread = {"gpu": "", "hca": "", "nvme": ""}
    sweep(store, 0, n1=machine("a"), n2=machine("b"))
    sweep(store, 60, n1=machine("b", **unread), n2=machine("a", **unread))
    assert {name: one.origin for name, one in another_machines(store).items()} == {"n1": "n2", "n2": "n1"}


def test_a_machine_whose_slots_have_other_names_is_another_one(store: Store) -> None:
    def other_model(name: str) -> list[Component]:
        return [part if part.kind == "chassis" else Component(part.kind, f"x{part.slot}",
                                                              part.serial, part.name)
                for part in machine(name)]
    sweep(store, 0, n1=machine("a"))
    sweep(store, 60, n1=other_model("x"))
    assert another_machines(store) == {"n1": AnotherMachine("n1", 60, 9, 9)}


def test_parts_that_are_added_beside_others_are_no_other_machine(store: Store) -> None:
    day = 86400.0
    few = [part for part in machine("a") if part.slot not in ("gpu2", "gpu3", "nvme1", "hca1")]
    sweep(store, 0, n1=few)
    fresh = [Component("gpu", "gpu0", "later", "GPU 0"), *(part for part in few if part.slot != "gpu0")]
    sweep(store, day, n1=fresh)
    more = [Component(kind, f"{kind}{n}", f"new-{kind}{n}", kind) for kind in ("gpu", "nvme", "hca")
            for n in range(4, 9)]
    sweep(store, 30 * day, n1=[*fresh, *more])
    assert another_machines(store) == {}


MACHINES = ("a", "b", "c")


@settings(max_examples=tries(40), deadline=None)
@given(st.lists(st.tuples(st.permutations(MACHINES), st.sets(st.integers(0, 2), min_size=1)), max_size=6))
def test_whatever_changes_places_no_part_sits_twice_and_the_last_change_is_said(
    story: list[tuple[list[str], set[int]]],
) -> None:
    """Machines change places as the operator likes; not all nodes are looked at each time."""
    with in_memory() as folder, opened(Path(folder), make=True) as store:
        shown = dict(zip(("n1", "n2", "n3"), MACHINES, strict=True))
        sweep(store, 0, **{node: machine(one) for node, one in shown.items()})
        changed: dict[str, float] = {}
        last = {one: node for node, one in shown.items()}
        for turn, (order, looked) in enumerate(story, 1):
            at = turn * 2 * 86400.0
            now = {f"n{number + 1}": order[number] for number in looked}
            sweep(store, at, **{node: machine(one) for node, one in now.items()})
            changed.update({node: at for node, one in now.items() if shown[node] != one})
            shown.update(now)
            last.update({one: node for node, one in now.items()})
            seats = [tuple(row) for row in store.rows("SELECT component, node, slot FROM seat "
                                                      "WHERE ended IS NULL")]
            assert len({part for part, _, _ in seats}) == len(seats)
            assert {name: one.at for name, one in another_machines(store).items()} == {
                name: at for name, at in changed.items()
                if last[shown[name]] == name}


def test_parts_that_were_exchanged_one_after_another_are_no_other_machine_where_the_clock_went_back(
        store: Store) -> None:
    parts = machine("a")
    sweep(store, NOW, n1=list(parts))
    for hours, at in ((1, 0), (2, 1), (-24, 2)):
        sweep(store, NOW + hours * 3600 - 60, n2=machine("c"))
        parts[at] = replace(parts[at], serial=f"new-{at}")
        sweep(store, NOW + hours * 3600, n1=list(parts))
    assert another_machines(store) == {}
    sweep(store, NOW - 23 * 3600, n1=machine("b"))
    assert set(another_machines(store)) == {"n1"}


def test_one_part_of_a_node_that_is_new_to_the_store_is_exchanged_and_it_is_the_same_machine(
        store: Store) -> None:
    sweep(store, NOW - 3600, n2=machine("c"))
    parts = machine("a")
    sweep(store, NOW, n1=list(parts))
    parts[0] = replace(parts[0], serial="new-0")
    sweep(store, NOW + 3600, n1=list(parts))
    assert another_machines(store) == {}
