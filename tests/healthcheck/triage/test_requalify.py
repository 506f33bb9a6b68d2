"""A node comes back when it has shown that it is well, and for no other reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from healthcheck.model.faultkind import Isolation
from healthcheck.model.problem import Problem
from healthcheck.store.machines import AnotherMachine
from healthcheck.triage.decide import decide
from healthcheck.triage.past import (
    IncidentMembership,
    NodeHistory,
    OpenVerdict,
    Repaired,
    RequalifySnapshot,
    SilencedHistory,
)
from healthcheck.triage.policy import Requalify
from healthcheck.triage.requalify import requalified, unproven_machine
from healthcheck.triage.symptom import symptom
from tests.healthcheck.triage.made import NOW, at, held, looks, policy, problem, repaired

OVER = problem("gpu-count", began=-9, ended=-3)


def node(**more: Any) -> NodeHistory:
    return NodeHistory("n1", **{"over": (OVER,), "cordons": (held(-8),), "snapshots": looks(-3, -1), **more})


def asked(**more: Any) -> tuple[bool, str]:
    return requalified(node(**more), policy(), NOW)


def looked(*minutes: float, measured: tuple[str, ...] = ("gpu-count",)) -> tuple[RequalifySnapshot, ...]:
    """Clean looks as a store tells them, so many minutes before now."""
    return tuple(RequalifySnapshot(NOW - 60 * minute, "healthy", frozenset(measured)) for minute in minutes)


DIRTY = RequalifySnapshot(NOW - 60 * 5, "degraded", frozenset({"gpu-count"}))
UNMEASURED = looked(60, 30, measured=())
OF_PORT = problem("port-state", "mlx5_0", began=-5, ended=-3)
LONG_AGO: dict[str, Any] = {"over": (problem("gpu-count", began=-60, ended=-50),), "cordons": (held(-55),)}
FAN = problem("fan", severity="warning")


def test_two_clean_looks_since_the_fault_was_over_return_a_node() -> None:
    well, said = asked()
    assert well and "2 looks under profile bringup" in said
    verdict = decide(node(), policy(), NOW)
    assert verdict is not None and verdict.isolation is Isolation.NONE and verdict.proven == said


@pytest.mark.parametrize("more", [
    {"snapshots": ()},
    {"snapshots": looks(-1)},                                            # one is not two
    # the first is from before the fault was over
    {"snapshots": looks(-4, -1)},
    {"snapshots": (*looks(-3, -2), *looks(-1, state="unhealthy"))},      # the newest is not clean
    {"snapshots": (*looks(-3, state="unknown"), *looks(-1))},            # not measured is not proof
    {"snapshots": (*looks(-3, state="degraded"), *looks(-1))},
    {"boots": (at(-40), at(-2))},                                    # rebooted since the first of them
    {"repaired": (repaired(-2),)},
    {"cordons": (held(-2),)},
    # a component failed, and was exchanged since the first of them
    {"left": at(-2)},
    # one of them is of a clock that was wrong
    {"snapshots": looks(-1, 30)},
    # failing now, though in too few sweeps to isolate it
    {"problems": (problem("port-state", "mlx5_0", began=-0.5, sweeps=1),)},
    {"problems": (problem("gpu-ecc", "", status="unknown", began=-0.5, sweeps=1),)},
    {"problems": (problem("", "", status="unknown", began=-0.5, sweeps=1),)},
    # it failed once between the looks
    {"over": (OVER, problem("port-state", "mlx5_0", began=-2.5, ended=-2, sweeps=1))},
    {"over": (OVER, problem("gpu-ecc", "", status="unknown", began=-2.5, ended=-2, sweeps=1))},
    {"in_service": False, "lifecycle": "maintenance"},
    {"away": "RMA 3 is open: fan"},
    # long ago: looks of yesterday are not fresh
    {**LONG_AGO, "snapshots": looks(-30, -26)}, {**LONG_AGO, "snapshots": looks(-26, -25)},
    {"snapshots": (*looked(30, 1), DIRTY)},                 # between the clean ones
    # what had failed was not measured each time
    {"snapshots": (*looked(60), *looked(30, measured=("port-state",)))},
    {"over": (OVER, OF_PORT), "snapshots": looked(60, 30)},
    # another machine of this name
    {"snapshots": looked(60, 30), "new_since": NOW - 59 * 60},
    # it failed since our first cordon
    {"over": (problem("gpu-count", began=-7, ended=-6),), "cordons": (held(-8), held(-4, number=2)),
     "snapshots": UNMEASURED},
])
def test_a_node_that_has_not_shown_that_it_is_well_stays_held_and_is_reported_why(more: dict[str,
                                                                                             Any]) -> None:
    well, said = asked(**more)
    assert not well and said


@pytest.mark.parametrize("more", [
    {"snapshots": (*looked(60, 15), *looked(30, measured=()))},
    {"over": (OVER, OF_PORT), "snapshots": looked(60, 30, measured=("gpu-count", "port-state"))},
    # what was over long before need not be measured, nor what was over before our first cordon
    {"over": (OVER, problem("port-state", "mlx5_0", began=-50, ended=-40)), "snapshots": looked(60, 30)},
    {"over": (problem("gpu-count", began=-12, ended=-10),), "cordons": (held(-8), held(-20, None, 2)),
     "snapshots": UNMEASURED},
    {"snapshots": looked(60, 30), "new_since": NOW - 61 * 60},
    # a warning that is over asks for no later looks
    {"over": (OVER, problem("fan", severity="warning", began=-3, ended=-0.5))},
    # half a day ago is fresh, and so it is where the newest is
    {**LONG_AGO, "snapshots": looks(-14, -13)}, {**LONG_AGO, "snapshots": looks(-26, -1)},
    # silences that hide nothing that matters
    {"hidden": SilencedHistory((problem("fan", severity="info"),))},
    {"hidden": SilencedHistory(over=(problem("fan", severity="warning", began=-9, ended=-3.5),))},
    {"hidden": SilencedHistory((FAN,))},
])
def test_a_node_that_has_shown_that_it_is_well_is_returned(more: dict[str, Any]) -> None:
    assert asked(**more)[0]


def test_a_board_that_is_worn_out_does_not_heal_by_itself() -> None:
    worn = problem("gpu-worn", serial="A", began=-9, ended=-3)
    assert "same board" in asked(over=(worn,))[1]
    assert "same board" in asked(over=(worn,), repaired=(repaired(-4, "reboot"),))[1]
    assert asked(over=(worn,), repaired=(repaired(-4, "returned from the vendor"),))[0]


def test_a_fault_that_is_still_there_returns_no_one_whatever_the_looks_say() -> None:
    verdict = decide(node(problems=(problem("kernel-xid"),)), policy(), NOW)
    assert verdict is not None and verdict.isolation is Isolation.NO_NEW_JOBS and not verdict.proven


def test_a_warning_that_lasts_keeps_no_node_that_its_looks_call_healthy() -> None:
    verdict = decide(node(problems=(problem("fan", severity="warning"),)), policy(), NOW)
    assert verdict is not None and verdict.proven


@pytest.mark.parametrize(("minutes", "well"), [
    ((30, 20), True), ((30, 20.1), False), ((12, 2), True), ((11.9, 2), False), ((2, 2, 2), False),
    ((21, 16, 11, 6, 1), True), ((9, 7, 5, 3, 1), False), ((1,), False), ((), False),
])
def test_clean_looks_are_some_time_apart(minutes: tuple[float, ...], well: bool) -> None:
    assert asked(snapshots=looked(*minutes))[0] is well


def test_how_far_apart_is_the_policys_to_say() -> None:
    asked = policy(requalify=Requalify("bringup", 2, 0))
    assert requalified(node(snapshots=looked(1.1, 1)), asked, NOW)[0]
    well, said = requalified(node(snapshots=looked(12, 1)),
                             policy(requalify=Requalify("bringup", 2, 30)), NOW)
    assert not well and "1 of 2 clean looks, 30 min apart," in said


def test_a_look_that_did_not_measure_what_had_failed_proves_nothing_of_it() -> None:
    well, said = asked(snapshots=looked(60, 30, measured=()))
    assert not well and "0 of 2" in said and "not measured: gpu-count" in said


def test_a_persons_word_of_a_worn_out_board_is_as_good_as_the_vendors_and_of_another_is_not() -> None:
    worn = problem("gpu-worn", "GPU 3", serial="A", began=-9, ended=-3)
    of = {what: Repaired(at(-4), "repaired", of=frozenset(named)) for what, named in (
        ("serial", {"A"}), ("subject", {"GPU 3"}), ("all", ()), ("other", {"B", "GPU 4"}))}
    assert {what for what, word in of.items()
            if asked(over=(worn,), repaired=(word,))[0]} == {
                "serial", "subject", "all"}


def test_a_part_that_returned_repairs_itself_and_no_other_part_of_the_node() -> None:
    def returned(slot: str, kind: str, *of: str) -> Repaired:
        return Repaired(at(-4), "returned from the vendor", slot, frozenset(of), kind)

    worn = problem("gpu-worn", "GPU 3", serial="A", began=-9, ended=-3)
    unnumbered = problem("gpu-worn", "GPU 3", began=-9, ended=-3)
    at_place = problem("gpu-worn", "slot 0000:9A:00.0", began=-9, ended=-3)
    own, other = returned("0000:9a:00.0", "gpu", "0000:9a:00.0", "a"), returned("PSU 2", "psu", "PSU 2", "P7")
    whole = returned("", "chassis")
    for fault, back, well in ((worn, own, True), (worn, other, False), (worn, whole, True),
                              (worn, returned("0000:3b:00.0", "gpu", "0000:3b:00.0", "B"), False),
                              (unnumbered, own, True), (unnumbered, other, False), (at_place, own, True)):
        assert asked(over=(fault,), repaired=(back,))[0] is well


# ---- what it is measured by, case by case

PORT = problem("port-state", "mlx5_0", began=-6, ended=-5)
IN_INCIDENT: dict[str, Any] = {"cordons": (held(-8),),
                               "verdict": OpenVerdict(1, "incident", Isolation.NO_NEW_JOBS, at(-8), 1),
                               "snapshots": (), "over": (PORT,),
                               "shared": (IncidentMembership(1, frozenset({symptom(PORT)}), at(-9), at(-4)),),
                               "state": "healthy", "seen": at(-1)}


@pytest.mark.parametrize(("more", "well"), [
    ({}, True), ({"seen": at(-4.9)}, True), ({"seen": at(-5.1)}, False), ({"state": "unknown"}, False),
    # a fault of its own beside
    ({"seen": at(1)}, False), ({"over": (PORT, OVER)}, False),
    # of its own, and over before it was held
    ({"over": (PORT, problem("gpu-count", began=-20, ended=-9))}, True),
    ({"over": (), "cordons": (held(-20),), "seen": at(-13)}, True),
    ({"over": (), "cordons": (held(-40),), "seen": at(-25)}, False)])
def test_a_node_that_was_held_for_an_incident_alone_needs_one_sweep_that_found_it_fit(
    more: dict[str, Any], well: bool,
) -> None:
    assert asked(**{**IN_INCIDENT, **more})[0] is well


def test_a_board_whose_fault_was_last_seen_before_the_cordon_and_ended_after_it_is_worn_out_still() -> None:
    worn = replace(problem("gpu-worn", serial="A", began=-9, ended=-3), seen=at(-8.5))
    assert "same board" in asked(over=(worn,))[1]
    assert "same board" in asked(over=(worn,), cordons=(held(-8), held(-1, number=2)))[1]


@pytest.mark.parametrize(("wrong", "said"), [
    (problem("port-state", "mlx5_0", began=-0.5), "port-state fails since 2027-01-15T07:30Z"),
    (problem("gpu-ecc", "", status="unknown", began=-0.5), "gpu-ecc is not measured since 2027-01-15T07:30Z"),
    (problem("", "", status="unknown", began=-0.5), "it is not reached since 2027-01-15T07:30Z")])
def test_what_is_wrong_now_is_named_with_its_time(wrong: Problem, said: str) -> None:
    assert asked(problems=(wrong,)) == (False, said)


@pytest.mark.parametrize(("asked", "more", "said"), [
    (Requalify("bringup", 1, 10), {},
     "0 of 1 clean looks since 2027-01-15T05:00Z: muster check n1 --profile bringup --store"),
    (Requalify("bringup", 2, 0), {},
     "0 of 2 clean looks since 2027-01-15T05:00Z: muster check n1 --profile bringup --store"),
    (Requalify("bringup", 2, 10), {},
     "0 of 2 clean looks, 10 min apart, since 2027-01-15T05:00Z: muster check n1 --profile bringup --store"),
    (Requalify("bringup", 2, 0), {"over": (), "cordons": ()},
     "0 of 2 clean looks: muster check n1 --profile bringup --store")])
def test_what_is_missing_is_said_with_how_to_show_it(
    asked: Requalify, more: dict[str, Any], said: str,
) -> None:
    assert requalified(node(snapshots=(), **more), policy(requalify=asked), NOW) == (False, said)


def test_what_fails_keeps_a_node_before_what_was_not_measured_for_longer() -> None:
    blind = problem("a-nvml", "", status="unknown", began=-3)
    found = problem("port-state", "mlx5_0", began=-0.5)
    assert asked(problems=(blind, found)) == (
        False, "port-state fails since 2027-01-15T07:30Z")


SILENCED = "only silenced problems are left: "


@pytest.mark.parametrize(("hidden", "more", "said"), [
    (SilencedHistory((problem("port-state", "mlx5_0"),)), {}, "port-state fails since 2027-01-15T07:00Z"),
    (SilencedHistory((problem("port-state", sweeps=1),)), {}, "port-state fails since"),
    (SilencedHistory((problem("gpu-ecc", "", status="unknown"),)), {}, "gpu-ecc is not measured since"),
    (SilencedHistory((problem("", "", status="unknown"),)), {}, "it is not reached since"),
    # what went away and does not heal
    (SilencedHistory(over=(problem("gpu-worn", serial="A", began=-9, ended=-3),)), {},
     "the same board is there"),
    (SilencedHistory(over=tuple(problem("port-state", "mlx5_0", began=-hour, ended=-hour + 0.5)
                                for hour in (7, 6, 5))), {}, "port of mlx5_0: it came 3 times in 24 h"),
    # a warning, under which no look is clean
    (SilencedHistory((FAN,)), {"snapshots": looks(-3, -1, state="degraded")}, "fan since 2027-01-15T07:00Z"),
])
def test_no_node_is_given_back_because_what_is_left_is_silenced(
    hidden: SilencedHistory, more: dict[str, Any], said: str,
) -> None:
    well, why = asked(hidden=hidden, **more)
    assert (not well and why.startswith(f"{SILENCED}{said.partition(' since')[0]}" if "same" not in said
                                        else SILENCED))
    assert said in why and why.endswith("; to give it to jobs all the same: muster uncordon n1")
    verdict = decide(node(hidden=hidden, **more), policy(), NOW)
    assert verdict is not None and (verdict.isolation, verdict.unproven) == (Isolation.NONE, why)


def test_what_was_silenced_and_is_over_is_to_be_measured_and_shown_as_all_else() -> None:
    late = SilencedHistory(over=(problem("port-state", "mlx5_0", began=-3, ended=-2),))
    well, why = asked(hidden=late)
    assert not well and why.startswith("1 of 2 clean looks, 10 min apart, since 2027-01-15T06:00Z: muster")
    blind = tuple(RequalifySnapshot(at(hour), "healthy", frozenset({"gpu-count"})) for hour in (-3, -1))
    early = SilencedHistory(over=(problem("port-state", "mlx5_0", began=-7, ended=-5),))
    assert "not measured: port-state" in asked(hidden=early, snapshots=blind)[1]
    assert not asked(hidden=SilencedHistory(left=at(-2)))[0]


def test_what_is_silenced_and_spoils_no_look_is_not_what_keeps_the_node() -> None:
    told = SilencedHistory((problem("fan", severity="info"),))
    assert asked(hidden=told, snapshots=looks(-1))[1].startswith("1 of 2 clean looks")


def test_what_is_not_silenced_is_said_first_and_without_a_cordon_the_silence_is_to_end() -> None:
    hidden = SilencedHistory((problem("port-state", "mlx5_0"),))
    assert asked(problems=(problem("kernel-xid"),), hidden=hidden)[1].startswith(
        "kernel-xid fails")
    assert asked(cordons=(), hidden=hidden)[1].endswith("muster unsilence n1")


def test_what_silences_hide_is_in_the_history_that_hears_all() -> None:
    hidden = SilencedHistory((FAN,), (OVER,), (problem(node="n7", ended=-1),), at(-2))
    whole = node(problems=(problem("kernel-xid"),), left=at(-4), hidden=hidden).unsilenced
    assert ([len(each) for each in (whole.problems, whole.over, whole.moved)], whole.left,
            whole.silenced) == (
                [2, 2, 1], at(-2), 0)
    assert node(left=at(-1), hidden=hidden).unsilenced.left == at(-1)
    assert node().unsilenced == node() and node(hidden=hidden).silenced == 1


@pytest.mark.parametrize(("minutes", "proven"), [
    ((120, 60), False),         # the first is the look that met it
    ((119, 60), True),
    ((70, 60), True), ((69, 60), False), ((66, 60), False),     # ten minutes apart, or less
    ((60,), False), ((180, 150, 60), False)])
def test_a_machine_that_took_a_nodes_name_is_proven_by_looks_after_the_one_that_met_it_and_some_time_apart(
        minutes: tuple[float, ...], proven: bool) -> None:
    met = AnotherMachine("n1", NOW - 60 * 120, 9, 9)
    found = unproven_machine(NodeHistory("n1", machine=met, snapshots=looked(*minutes)), policy(), NOW)
    assert found == (None if proven else met)
