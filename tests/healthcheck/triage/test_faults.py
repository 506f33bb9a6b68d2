"""Faults: what belongs together, when it is sure, and what a node's and a component's history add."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from healthcheck.model.faultkind import FaultKind, Isolation
from healthcheck.model.outcome import Owner, Repair
from healthcheck.model.problem import Problem
from healthcheck.triage.faults import accuses, covers, faults, isolates, suspect_node
from healthcheck.triage.past import REPAIRED, RETURNED, CameWith, IncidentMembership, Repaired
from healthcheck.triage.policy import RepeatPolicy
from tests.healthcheck.triage.made import KINDS, NOW, at, past, policy, problem, repaired


def only(node, **changes):  # type: ignore[no-untyped-def]
    found = faults(node, policy(**changes), NOW)
    assert len(found) == 1, found
    return found[0]


def thrice(rule: str = "port-state", subject: str = "mlx5_0 port 1", **more: Any) -> tuple[Problem, ...]:
    """It came three times within a few hours and is away."""
    return tuple(problem(rule, subject, began=-1.5 - number, ended=-1.2 - number, **more)
                 for number in range(3))


def an_hour_each(*hours: float, **of: Any) -> tuple[Problem, ...]:
    """It came at each of these hours, and was over one later."""
    return tuple(problem(began=hour, ended=hour + 1, **of) for hour in hours)


def test_a_problem_is_of_the_first_kind_that_covers_it_and_gives_what_that_says() -> None:
    fault = only(past("n1", problem("gpu-count")))
    assert (fault.kind.id, fault.isolation, fault.repair) == ("lost", Isolation.EVICT, Repair.REBOOT)
    assert only(past("n1", problem("disk-state"))).kind.id == "other"
    assert only(past("n1", problem("disk-state", severity="warning"))).isolation is Isolation.NONE


def test_a_problem_that_only_informs_is_no_fault() -> None:
    assert faults(past("n1", problem("roce-cnp", severity="info")), policy(), NOW) == []


def test_problems_of_one_kind_at_one_place_are_one_fault_and_at_two_places_two() -> None:
    node = past("n1", problem("gpu-count", "GPU 3", serial="A"),
                problem("gpu-answers", "GPU at PCI 0000:18:00.0, Xid 79", serial="A"),
                problem("gpu-answers", "GPU 4", serial="B"))
    found = faults(node, policy(), NOW)
    assert sorted((fault.place, len(fault.problems)) for fault in found) == [("gpu A", 2), ("gpu B", 1)]


@pytest.mark.parametrize(("sweeps", "isolation"),
                         [(1, Isolation.NONE), (2, Isolation.NO_NEW_JOBS), (9, Isolation.NO_NEW_JOBS)])
def test_a_kind_that_is_to_be_confirmed_isolates_only_after_so_many_sweeps(
    sweeps: int, isolation: Isolation,
) -> None:
    fault = only(past("n1", problem("port-state", "mlx5_0 port 1", sweeps=sweeps)))
    assert fault.isolation is isolation
    assert bool(fault.because) is (isolation is Isolation.NONE)


def test_what_was_confirmed_within_the_flap_window_needs_no_second_confirmation() -> None:
    here = problem("port-state", "mlx5_0 port 1", sweeps=1)
    before = problem("port-state", "mlx5_0 port 1", began=-6, ended=-5, sweeps=3)
    long_ago = problem("port-state", "mlx5_0 port 1", began=-60, ended=-59, sweeps=3)
    assert only(past("n1", here, over=(before,))).isolation is Isolation.NO_NEW_JOBS
    assert only(past("n1", here, over=(long_ago,))).isolation is Isolation.NONE


def test_an_unknown_is_a_fault_of_the_node_after_so_many_sweeps_and_never_one_that_is_ours() -> None:
    def found(rule: str, sweeps: int, excused: frozenset[str] = frozenset(), **more: Any) -> int:
        return len(faults(past("n1", problem(rule, "", status="unknown", sweeps=sweeps, **more)), policy(),
                          NOW, excused=excused))

    assert [found(rule, sweeps) for rule in ("gpu-ecc", "") for sweeps in (2, 3)] == [0, 1] * 2
    assert found("gpu-ecc", 99, origin="muster") == found("gpu-ecc", 99, frozenset({"gpu-ecc"})) == 0


def test_what_the_driver_asks_for_goes_before_the_table_at_the_same_gpu_only() -> None:
    asks = problem("gpu-recovery-action", "GPU 3", serial="A", repair="reboot")
    node = past("n1", asks, problem("kernel-xid", "GPU at PCI 0000:18:00.0, Xid 95", serial="A",
                                    repair="reset-gpu"),
                problem("kernel-xid", "GPU at PCI 0000:2a:00.0, Xid 95", serial="B", repair="reset-gpu"))
    repairs = {(fault.kind.id, fault.place): fault.repair for fault in faults(node, policy(), NOW)}
    assert repairs == {("driver", "gpu A"): Repair.REBOOT, ("error", "gpu A"): Repair.REBOOT,
                       ("error", "gpu B"): Repair.RESET_GPU}


def test_the_words_of_a_finding_go_before_those_of_its_kind() -> None:
    assert only(past("n1", problem("kernel-xid", repair="restart-service"))).repair is Repair.RESTART_SERVICE
    assert only(past("n1", problem("kernel-xid"))).repair is Repair.RESET_GPU


@pytest.mark.parametrize(("boots", "repair", "owner"), [
    ((-50,), Repair.REBOOT, Owner.OPERATOR),
    ((-50, -30), Repair.REBOOT, Owner.OPERATOR),            # one reboot: it may have been chance
    ((-50, -30, -10), Repair.REPLACE, Owner.VENDOR),        # two: hardware
    ((-50, -49, -48), Repair.REBOOT, Owner.OPERATOR),       # before it began
])
def test_what_comes_back_after_two_reboots_is_hardware(
    boots: tuple[float, ...], repair: Repair, owner: Owner,
) -> None:
    node = past("n1", problem(serial="A", began=-5), over=(problem(serial="A", began=-40, ended=-29),),
                boots=tuple(map(at, boots)))
    fault = only(node)
    assert (fault.repair, fault.owner) == (repair, owner)


def test_a_fault_of_the_node_itself_is_inspected_after_two_reboots_as_there_is_no_part_to_replace() -> None:
    for rule in ("", "gpu-ecc"):
        here = problem(rule, "", status="unknown", began=-40, sweeps=50)
        assert only(past("n1", here, boots=(at(-50), at(-30), at(-10)))).repair is Repair.INSPECT


def test_a_reboot_that_mended_it_counts_for_nothing() -> None:
    node = past("n1", problem(serial="A", began=-5), over=(problem(serial="A", began=-800, ended=-790),),
                boots=(at(-900), at(-780), at(-3)))
    # the first is past the window, the second it has outlived
    assert only(node).repair is Repair.REBOOT


@pytest.mark.parametrize(("done", "repair"),
                         [((), Repair.RESET_GPU), ((repaired(-3, "reset-gpu"),), Repair.REBOOT),
                          ((repaired(-50, "reset-gpu"),), Repair.RESET_GPU),
                          ((repaired(-3, "restart-service"),), Repair.RESET_GPU)])
def test_a_lesser_repair_that_did_not_hold_is_followed_by_a_reboot(
    done: tuple[object, ...], repair: Repair,
) -> None:
    assert only(past("n1", problem("kernel-xid", began=-5), repaired=done)).repair is repair


def test_a_component_takes_its_record_along_to_another_node() -> None:
    earlier = (*an_hour_each(-72, -48, serial="A", node="n7"), *an_hour_each(-24, serial="A", node="n9"))
    here = problem("kernel-xid", serial="A")
    fault = only(past("n1", here, moved=earlier))
    assert (fault.repair, fault.owner) == (Repair.REPLACE, Owner.VENDOR)
    assert ("repeat offender: this component failed 4 times" in fault.because[-1]
            and "also in n7, n9" in fault.because[-1])
    assert only(past("n1", problem("kernel-xid", serial="B"), moved=earlier)).repair is Repair.RESET_GPU


def test_old_failures_weigh_less_and_what_comes_back_at_once_is_one_failure() -> None:
    old = tuple(problem("kernel-xid", serial="A", began=24 * -day, ended=24 * -day + 1)
                for day in (28, 42, 56))
    # 1 + 1/4 + 1/8 + 1/16
    assert only(past("n1", problem("kernel-xid", serial="A"), over=old)).repair is Repair.RESET_GPU
    burst = tuple(problem("kernel-xid", serial="A", began=-5 + step, ended=-4.9 + step) for step in range(4))
    assert "repeat" not in " ".join(only(past("n1", problem("kernel-xid", serial="A"), over=burst)).because)


def test_a_new_chassis_starts_clean() -> None:
    earlier = an_hour_each(-100, -72, -48, rule="disk-state", subject="sda")
    again = only(past("n1", problem("disk-state", "sda"), over=earlier))
    assert "repeat offender: this node failed 4 times" in again.because[-1] and again.repair is Repair.INSPECT
    assert only(past("n1", problem("disk-state", "sda"), over=earlier, chassis_since=at(-40))).because == ()


@pytest.mark.parametrize(("times", "away", "holds"), [(3, 1, True), (2, 1, False), (3, 13, False)])
def test_a_fault_that_flaps_holds_until_it_was_away_for_long(times: int, away: float, holds: bool) -> None:
    over = tuple(problem("port-state", "mlx5_0 port 1", began=-away - 0.5 - 2 * number,
                         ended=-away - 2 * number) for number in range(times))
    found = faults(past("n1", over=over), policy(), NOW)
    assert [fault.isolation for fault in found] == [Isolation.NO_NEW_JOBS] * holds
    if holds:
        assert "3 times in 24 h" in found[0].because[-1]


def comes_and_goes(rule: str = "port-state", subject: str = "mlx5_0 port 1",
                   **more: Any) -> tuple[Problem, ...]:
    """It came twice, for one sweep each."""
    return tuple(problem(rule, subject, began=-hour, ended=0.2 - hour, sweeps=1, **more) for hour in (4, 2))


def test_what_flaps_isolates_while_it_is_there_though_too_few_sweeps_see_it_each_time() -> None:
    here = problem("port-state", "mlx5_0 port 1", sweeps=1)
    fault = only(past("n1", here, over=comes_and_goes()))
    assert (fault.isolation, fault.problems, fault.began) == (Isolation.NO_NEW_JOBS, (here,), at(-1))
    assert (fault.because
            == ("it came 3 times in 24 h, this one included; it holds until it was away for 12 h",))
    assert only(past("n1", here, over=comes_and_goes()[:1])).isolation is Isolation.NONE
    elsewhere = problem("port-state", "mlx5_1 port 1", sweeps=1)
    assert only(past("n1", elsewhere, over=comes_and_goes())).isolation is Isolation.NONE


def test_a_node_that_comes_and_goes_is_held_while_it_is_not_reached_before_that_has_lasted() -> None:
    here = problem("", "", status="unknown", sweeps=1)
    fault = only(past("n1", here, over=comes_and_goes("", "", status="unknown")))
    assert (fault.kind.id, fault.isolation, fault.problems) == ("gone", Isolation.NO_NEW_JOBS, (here,))
    assert faults(past("n1", here, over=comes_and_goes("", "", status="unknown")[:1]), policy(), NOW) == []
    # one that many share is not its own
    assert faults(past("n1", here, over=comes_and_goes("", "", status="unknown")), policy(), NOW,
                  excused={""}) == []


def test_what_a_person_has_repaired_flaps_no_more_but_for_what_comes_after_it() -> None:
    three = (*comes_and_goes(), problem("port-state", "mlx5_0 port 1", began=-1, ended=-0.8, sweeps=1))
    later = problem("port-state", "mlx5_0 port 1", began=-0.2, sweeps=1)
    assert len(faults(past("n1", over=three), policy(), NOW)) == 1
    for done, over in ((repaired(-0.5, REPAIRED), True),
                       (replace(repaired(-0.5, REPAIRED), of=frozenset({"mlx5_0 port 1"})), True),
                       (replace(repaired(-0.5, REPAIRED), of=frozenset({"mlx5_1 port 1"})), False),
                       (repaired(-5, REPAIRED), False), (repaired(-0.5, "reboot"), False)):
        assert (faults(past("n1", over=three, repaired=(done,)), policy(), NOW) == []) is over, done
        again = only(past("n1", later, over=three, repaired=(done,)))
        assert (again.isolation is Isolation.NONE) is over, done


def test_a_part_that_returned_in_the_very_sweep_that_did_not_find_its_fault_any_more_has_left_that_behind(
) -> None:
    first, second = comes_and_goes()
    here = problem("port-state", "mlx5_0 port 1", sweeps=1)
    assert only(past("n1", here, over=(first, second))).isolation is Isolation.NO_NEW_JOBS
    returned = Repaired(first.seen, RETURNED)
    assert only(past("n1", here, over=(first, second), repaired=(returned,))).isolation is Isolation.NONE


def test_what_is_not_measured_now_and_then_does_not_flap() -> None:
    here = problem("gpu-ecc", "", status="unknown", sweeps=2)
    assert faults(past("n1", here, over=comes_and_goes("gpu-ecc", "", status="unknown")), policy(), NOW) == []
    lasting = problem("gpu-ecc", "", status="unknown", sweeps=3)
    assert only(past("n1", lasting, over=comes_and_goes("gpu-ecc", "", status="unknown"))).because == ()


def test_the_time_that_is_there_does_not_count_where_an_incident_answers_for_it_or_it_convicts_no_one(
) -> None:
    here = problem("port-state", "mlx5_0 port 1", sweeps=1)
    incident = IncidentMembership(1, frozenset({"port-state of port"}), at(-1.5))
    assert only(past("n1", here, over=comes_and_goes(), shared=(incident,))).isolation is Isolation.NONE
    forged = problem("port-state", "mlx5_0 port 1", sweeps=1, emitter="")
    assert only(past("n1", forged, over=comes_and_goes())).isolation is Isolation.NONE
    assert only(past("n1", here, over=comes_and_goes(node="n7"))).isolation is Isolation.NONE
    assert only(past("n1", here, over=comes_and_goes(emitter=""))).isolation is Isolation.NONE


def test_what_is_confirmed_says_that_it_flaps_too_and_why_it_will_hold() -> None:
    fault = only(past("n1", problem("port-state", "mlx5_0 port 1", sweeps=9), over=comes_and_goes()))
    assert fault.isolation is Isolation.NO_NEW_JOBS and "3 times in 24 h" in fault.because[-1]


def test_several_components_that_repeat_accuse_what_they_share() -> None:
    over = tuple(problem("kernel-xid", f"GPU {number}", serial=str(number), began=-24.0 * (number + 1),
                         ended=-24.0 * (number + 1) + 1) for number in range(4))
    assert "4 components" in suspect_node(past("n1", over=over), policy(), NOW)
    assert suspect_node(past("n1", over=over[:2]), policy(), NOW) == ""


def test_the_worst_fault_comes_first() -> None:
    node = past("n1", problem("fan", severity="warning"), problem("kernel-xid"),
                problem("gpu-count", began=-0.5))
    assert [fault.kind.id for fault in faults(node, policy(), NOW)] == ["lost", "error", "watch"]


@pytest.mark.parametrize("rule", ["kernel-novel", "kernel-suspect", "kernel-missing", "kernel-order",
                                  "kernel-rate"])
def test_a_kernel_line_that_is_unusual_isolates_no_one_whatever_a_policy_says(rule: str) -> None:
    kind = FaultKind("novel", "", (rule,), isolation=Isolation.EVICT, repair=Repair.REPLACE)
    here = problem(rule, severity="warning", sweeps=9, emitter="nvme", ends="boot")
    fault = only(past("n1", here), kinds=(kind,))
    assert (fault.kind.id, fault.isolation) == ("novel", Isolation.NONE) and "merely new" in fault.because[0]
    assert not isolates(here, policy(kinds=(kind,))) and not accuses(here, policy(kinds=(kind,)))


@pytest.mark.parametrize(("emitter", "isolation"), [
    ("", Isolation.NONE),                       # read from a log, and no one can say whose words it is
    ("nvrm", Isolation.NO_NEW_JOBS), ("kernel", Isolation.NO_NEW_JOBS),
    (None, Isolation.NO_NEW_JOBS),              # read from no log
])
def test_what_a_log_says_isolates_a_node_only_where_its_emitter_is_known(
    emitter: str | None, isolation: Isolation,
) -> None:
    here = problem("kernel-xid", sweeps=9, emitter=emitter, ends="reset" if emitter else None)
    fault = only(past("n1", here))
    assert fault.isolation is isolation
    assert ("whose emitter is not known" in " ".join(fault.because)) is (isolation is Isolation.NONE)
    assert isolates(here, policy()) is accuses(here, policy()) is (isolation is not Isolation.NONE)


def test_a_line_without_an_emitter_does_not_excuse_one_of_the_same_fault_that_has_one() -> None:
    forged = problem("kernel-xid", "GPU at PCI 0000:18:00.0, Xid 79", emitter="")
    driver = problem("kernel-xid", "GPU at PCI 0000:18:00.0, Xid 48", emitter="nvrm", ends="reset")
    fault = only(past("n1", forged, driver))
    assert fault.isolation is Isolation.NO_NEW_JOBS and len(fault.problems) == 2


def test_lines_without_an_emitter_make_no_repeat_offender() -> None:
    here = problem("kernel-xid", serial="A", emitter="nvrm", ends="reset")
    for emitter, repair in (("nvrm", Repair.REPLACE), ("", Repair.RESET_GPU)):
        over = an_hour_each(-100, -72, -48, rule="kernel-xid", serial="A", emitter=emitter)
        assert only(past("n1", here, over=over)).repair is repair


def test_what_an_incident_answers_for_neither_flaps_nor_climbs_on_its_nodes() -> None:
    incident = IncidentMembership(1, frozenset({"port-state of port"}), at(-30), at(-0.4))
    assert len(faults(past("n1", over=thrice()), policy(), NOW)) == 1
    assert faults(past("n1", over=thrice(), shared=(incident,)), policy(), NOW) == []
    returned = problem("nvlink-fabric-manager", "", began=-20, ended=-10)
    here = problem("nvlink-fabric-manager", "", began=-5)
    assert only(past("n1", here, over=(returned,), boots=(at(-30), at(-15)))).repair is Repair.REBOOT
    ended = IncidentMembership(1, frozenset({"nvlink-fabric-manager"}), at(-21), at(-9))
    assert only(past("n1", here, over=(returned,), boots=(at(-30), at(-15)),
                     shared=(ended,))).repair is Repair.RESTART_SERVICE
    lasting = IncidentMembership(1, frozenset({"nvlink-fabric-manager"}), at(-6))
    assert only(past("n1", here, boots=(at(-30), at(-4)), shared=(lasting,))).repair is Repair.RESTART_SERVICE


def test_what_could_not_be_measured_holds_nothing_once_it_is_measured_and_a_node_that_comes_and_goes_is_held(
) -> None:
    assert faults(past("n1", over=thrice("gpu-ecc", "", status="unknown")), policy(), NOW) == []
    assert only(past("n1", over=thrice("", "", status="unknown"))).kind.id == "gone"


def test_a_fault_that_came_and_went_elsewhere_or_was_of_an_unknown_emitter_does_not_flap_here() -> None:
    assert only(past("n1", moved=thrice())).isolation is Isolation.NO_NEW_JOBS
    assert faults(past("n1", moved=thrice(node="n7")), policy(), NOW) == []
    assert faults(past("n1", over=thrice(emitter="")), policy(), NOW) == []


def test_a_fault_that_flaps_is_told_by_the_last_time_that_it_came() -> None:
    fault = only(past("n1", over=thrice()))
    assert (len(fault.problems), fault.began) == (1, at(-1.5))


def test_of_several_problems_the_oldest_says_since_when_the_worst_the_repair_the_one_seen_most_how_sure(
) -> None:
    xids = (problem("kernel-xid", "GPU 3", began=-1, repair="replace"),
            problem("kernel-xid", "GPU 3", began=-2, repair="reset-gpu"))
    fault = only(past("n1", *xids))
    assert (fault.repair, fault.owner, fault.began) == (Repair.REPLACE, Owner.VENDOR, at(-2))
    ports = (problem("port-state", "mlx5_0", sweeps=1), problem("port-rate", "mlx5_0", sweeps=2))
    assert only(past("n1", *ports)).isolation is Isolation.NO_NEW_JOBS


def test_a_line_of_an_unknown_emitter_asks_for_no_repair_where_the_driver_speaks_and_confirms_nothing(
) -> None:
    forged = problem("kernel-xid", "GPU 3", emitter="", repair="replace")
    assert only(past("n1", forged, problem("kernel-xid", "GPU 3", emitter="nvrm",
                                           repair="reset-gpu"))).repair is Repair.RESET_GPU
    once = problem("port-state", "mlx5_0 port 1", sweeps=1)
    before = problem("port-state", "mlx5_0 port 1", began=-6, ended=-5, sweeps=3, emitter="")
    assert only(past("n1", once, over=(before,))).isolation is Isolation.NONE


def test_a_rule_that_is_not_measured_and_a_node_that_is_not_reached_are_different_faults() -> None:
    assert only(past("n1", problem("gpu-ecc", "", status="unknown"))).kind.id == "wedged"
    assert only(past("n1", problem("", "", status="unknown"))).kind.id == "gone"


@pytest.mark.parametrize(("began", "sweeps", "isolation"), [
    ((-9,), 2, Isolation.NO_NEW_JOBS), ((-9,), 1, Isolation.NONE),
    ((-3,), 2, Isolation.NONE),                 # more than a day
    ((-3, -9), 2, Isolation.NO_NEW_JOBS)])      # of two the older counts
def test_a_second_confirmation_is_spared_for_a_day_from_the_beginning_of_what_was_confirmed(
    began: tuple[float, ...], sweeps: int, isolation: Isolation,
) -> None:
    here = tuple(problem("port-state", "mlx5_0 port 1", began=hours, sweeps=1) for hours in began)
    before = problem("port-state", "mlx5_0 port 1", began=-30, ended=-29, sweeps=sweeps)
    assert only(past("n1", *here, over=(before,))).isolation is isolation


@pytest.mark.parametrize(("owners", "owner"),
                         [((None, "network"), Owner.NETWORK), (("datacentre", "network"), Owner.DATACENTRE),
                          ((None,), Owner.OPERATOR)])
def test_a_fault_is_for_whom_its_first_problem_names_and_else_for_the_operator(
    owners: tuple[str | None, ...], owner: Owner,
) -> None:
    here = tuple(problem("disk-state", "sda", began=-9 + at, owner=each) for at, each in enumerate(owners))
    assert only(past("n1", *here)).owner is owner


@pytest.mark.parametrize(("boots", "done", "repair", "because"), [
    ((-50,), (), Repair.RESTART_SERVICE, ()),
    ((-50,), (repaired(-3, "restart-service"),), Repair.REBOOT, ("it came back after restart-service",)),
    ((-50, -3), (), Repair.REBOOT, ("it came back after a reboot",)),
    ((-50, -4, -3), (), Repair.INSPECT, ("it came back after 2 reboots in 30 days: hardware",))])
def test_a_service_that_fails_again_after_its_restart_is_rebooted_and_after_two_reboots_inspected(
    boots: tuple[float, ...], done: tuple[Repaired, ...], repair: Repair, because: tuple[str, ...],
) -> None:
    fault = only(past("n1", problem("nvlink-fabric-manager", "", began=-5), boots=tuple(map(at, boots)),
                      repaired=done))
    assert (fault.repair, fault.because, fault.raised) == (repair, because, bool(because))


def test_a_reboot_that_did_not_help_once_is_no_reason_for_another_word() -> None:
    assert only(past("n1", problem("gpu-count", "", began=-5), boots=(at(-50), at(-3)))).because == ()


def test_a_component_that_failed_elsewhere_has_not_outlived_the_reboots_of_the_node_that_it_came_to() -> None:
    elsewhere = problem("kernel-xid", serial="A", node="n7", began=-40, ended=-30)
    node = past("n1", problem("kernel-xid", serial="A", began=-5), moved=(elsewhere,),
                boots=(at(-50), at(-20)))
    assert only(node).repair is Repair.RESET_GPU


def test_a_part_that_is_named_by_two_words_and_has_no_serial_number_is_not_replaced() -> None:
    node = past("n1", problem("gpu-count", "fan tray", began=-5), boots=(at(-50), at(-4), at(-3)))
    assert only(node).repair is Repair.INSPECT


def test_a_node_is_no_repeat_offender_for_what_its_components_did() -> None:
    earlier = an_hour_each(-100, -72, -48, -24, rule="kernel-xid", serial="A")
    assert only(past("n1", problem("disk-state", "sda"), over=earlier)).because == ()


@pytest.mark.parametrize(("began", "because"), [(0, 1), (-1, 0)])
def test_a_score_that_is_just_reached_makes_a_repeat_offender(began: float, because: int) -> None:
    node = past("n1", problem("kernel-xid", serial="A", began=began),
                problem("kernel-xid", serial="B", began=began))
    assert [len(fault.because) for fault in faults(node, policy(repeat=RepeatPolicy(1, 14, 60, 6)), NOW)] == [
        because, because]
    assert bool(suspect_node(node, policy(repeat=RepeatPolicy(1, 14, 60, 6)), NOW)) is bool(because)


def test_of_what_is_not_measured_only_a_node_that_is_not_reached_isolates_by_itself() -> None:
    assert (isolates(problem("", "", status="unknown"), policy())
            and not isolates(problem("gpu-ecc", "", status="unknown"), policy()))
    assert not isolates(problem("", "", status="unknown", origin="muster"), policy())
    assert (isolates(problem("port-state", sweeps=2), policy())
            and not isolates(problem("port-state", sweeps=1), policy()))


def test_of_two_words_of_the_driver_on_one_gpu_the_stronger_is_done() -> None:
    kinds = (*KINDS[:2], FaultKind("other-driver", "", ("driver-says",), isolation=Isolation.NO_NEW_JOBS,
                                   decides=True), *KINDS[2:])
    node = past("n1", problem("gpu-recovery-action", serial="A", repair="reboot"),
                problem("driver-says", serial="A", repair="restart-service"),
                problem("kernel-xid", serial="A", repair="reset-gpu"))
    (fault,) = [fault for fault in faults(node, policy(kinds=kinds), NOW) if fault.kind.id == "error"]
    assert fault.repair is Repair.REBOOT


@pytest.mark.parametrize(("count", "more", "suspect"), [
    (2, {}, True), (1, {}, False), (2, {"chassis_since": at(-50)}, False),
    (2, {"shared": (IncidentMembership(1, frozenset({"kernel-xid of GPU"}), at(-200), at(0)),)}, False)])
def test_two_components_that_fail_by_turns_in_the_same_chassis_accuse_it(
    count: int, more: dict[str, Any], suspect: bool,
) -> None:
    over = tuple(problem("kernel-xid", f"GPU {number % count}", serial=str(number % count),
                         began=-20.0 * (number + 1), ended=-20.0 * (number + 1) + 1) for number in range(4))
    assert bool(suspect_node(past("n1", over=over, **more), policy(), NOW)) is suspect


def test_what_the_node_itself_failed_at_accuses_nothing_that_its_components_share() -> None:
    gpus = tuple(problem("kernel-xid", f"GPU {number}", serial=str(number), began=-24, ended=-23)
                 for number in range(2))
    disk = an_hour_each(-20, -40, -60, -80, rule="disk-state", subject="sda")
    one = an_hour_each(-20, -40, -60, -80, rule="kernel-xid", subject="GPU 0", serial="0")
    assert suspect_node(past("n1", over=(*gpus, *disk)), policy(),
                        NOW) == suspect_node(past("n1", over=(*one, *disk)), policy(), NOW) == ""


@pytest.mark.parametrize(("began", "ended", "inside"),
                         [(-9, -5, True), (-8, -5, True), (-9.001, -5, False), (-9, -4, True),
                          (-9, -3.999, False), (-9, None, False)])
def test_a_problem_is_an_incidents_from_its_beginning_to_its_end(
    began: float, ended: float | None, inside: bool,
) -> None:
    known = past(shared=(IncidentMembership(1, frozenset({"gpu-count of GPU"}), at(-9), at(-4)),))
    assert known.in_incident(problem(began=began, ended=ended)) is inside
    lasting = past(shared=(IncidentMembership(1, frozenset({"gpu-count of GPU"}), at(-9)),))
    assert lasting.in_incident(problem(began=began, ended=ended)) is (began >= -9)
    assert not lasting.in_incident(problem("port-state", began=began, ended=ended))


def test_a_line_that_is_only_to_be_watched_outvotes_no_repair_that_another_problem_of_the_fault_asks_for(
) -> None:
    """Xid 63 says that a row remapping was recorded; what it waits for is a reset, which the rule about that
    asks for."""
    watched = problem("kernel-xid", "GPU 3", began=-2, repair="watch")
    alone = only(past("n1", problem("kernel-xid", "GPU 3"))).repair
    assert alone not in (Repair.WATCH, only(past("n1", watched)).repair)
    assert only(past("n1", watched, problem("kernel-xid", "GPU 3"))).repair is alone


def test_what_the_driver_or_its_table_asks_for_goes_before_what_the_policy_has_for_the_rest_of_the_fault(
) -> None:
    assert only(past("n1", problem("gpu-count"),
                     problem("gpu-answers", repair="reset-gpu"))).repair is Repair.RESET_GPU


def test_a_fault_is_for_whom_the_problem_names_that_asks_for_its_repair() -> None:
    fault = only(past("n1", problem("kernel-xid", began=-9, owner="network", repair="reset-gpu"),
                      problem("kernel-xid", began=-1, owner="datacentre", repair="replace")))
    assert (fault.repair, fault.owner) == (Repair.REPLACE, Owner.DATACENTRE)


def test_a_fault_that_all_came_with_a_change_of_what_judges_it_says_with_which() -> None:
    rule, sku = CameWith("only since rule gpu-count changed", True, at(-2)), CameWith("sku", False, at(-2))
    first, second = problem("gpu-answers", began=-2), problem("gpu-count", began=-2)

    def because(*came: CameWith) -> tuple[str, ...]:
        return only(past("n1", first, second,
                         came=dict(zip((first, second), came, strict=False)))).because

    assert because(rule, sku) == ("only since rule gpu-count changed; sku",)
    assert because(rule, rule) == ("only since rule gpu-count changed",)
    assert because(rule) == because() == ()


@pytest.mark.parametrize(("of", "covered"), [
    ({"GPU 3", "1654922011"}, True), ({"gpu 3"}, True), ({"GPU 4", "1654922011"}, False), (set(), True)])
def test_a_part_that_returned_covers_what_was_of_its_slot_by_whichever_of_its_names(
        of: set[str], covered: bool) -> None:
    back = Repaired(at(-1), RETURNED, of=frozenset(of))
    assert covers(back, problem("kernel-xid", "GPU 3, Xid 79")) is covered
