"""Faults: what belongs together, when it is sure, and what a node's and a component's history add."""

from __future__ import annotations

import pytest

from healthcheck.outcome import Owner, Repair
from healthcheck.store.history import Problem
from healthcheck.triage.faults import accuses, faults, isolates, suspect_node
from healthcheck.triage.policy import FaultKind, Isolation
from tests.healthcheck.triage.made import NOW, at, past, policy, problem, repaired


def only(node, **changes):  # type: ignore[no-untyped-def]
    found = faults(node, policy(**changes), NOW)
    assert len(found) == 1, found
    return found[0]


def test_a_problem_is_of_the_first_kind_that_covers_it_and_gives_what_that_says() -> None:
    fault = only(past("n1", problem("gpu-count")))
    assert (fault.kind.id, fault.isolation, fault.repair) == ("lost", Isolation.EVICT, Repair.REBOOT)
    assert only(past("n1", problem("disk-state"))).kind.id == "other"
    assert only(past("n1", problem("disk-state", severity="warning"))).isolation is Isolation.NONE


def test_a_problem_that_only_informs_is_no_fault() -> None:
    assert faults(past("n1", problem("roce-cnp", severity="info")), policy(), NOW) == []


def test_problems_of_one_kind_at_one_place_are_one_fault_and_at_two_places_two() -> None:
    node = past("n1", problem("gpu-count", "GPU 3", serial="A"), problem("gpu-answers", "GPU at PCI 0000:18:00.0, Xid 79", serial="A"),
                problem("gpu-answers", "GPU 4", serial="B"))
    found = faults(node, policy(), NOW)
    assert sorted((fault.place, len(fault.problems)) for fault in found) == [("gpu A", 2), ("gpu B", 1)]


@pytest.mark.parametrize(("sweeps", "isolation"), [(1, Isolation.NONE), (2, Isolation.NO_NEW_JOBS), (9, Isolation.NO_NEW_JOBS)])
def test_a_kind_that_is_to_be_confirmed_isolates_only_after_so_many_sweeps(sweeps: int, isolation: Isolation) -> None:
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
    for sweeps, count in ((2, 0), (3, 1)):
        assert len(faults(past("n1", problem("gpu-ecc", "", status="unknown", sweeps=sweeps)), policy(), NOW)) == count
        assert len(faults(past("n1", problem("", "", status="unknown", sweeps=sweeps)), policy(), NOW)) == count
    assert faults(past("n1", problem("gpu-ecc", "", status="unknown", sweeps=99, origin="muster")), policy(), NOW) == []
    assert faults(past("n1", problem("gpu-ecc", "", status="unknown", sweeps=99)), policy(), NOW, excused={"gpu-ecc"}) == []


def test_what_the_driver_asks_for_goes_before_the_table_at_the_same_gpu_only() -> None:
    asks = problem("gpu-recovery-action", "GPU 3", serial="A", repair="reboot")
    node = past("n1", asks, problem("kernel-xid", "GPU at PCI 0000:18:00.0, Xid 95", serial="A", repair="reset-gpu"),
                problem("kernel-xid", "GPU at PCI 0000:2a:00.0, Xid 95", serial="B", repair="reset-gpu"))
    repairs = {(fault.kind.id, fault.place): fault.repair for fault in faults(node, policy(), NOW)}
    assert repairs == {("driver", "gpu A"): Repair.REBOOT, ("error", "gpu A"): Repair.REBOOT, ("error", "gpu B"): Repair.RESET_GPU}


def test_the_words_of_a_finding_go_before_those_of_its_kind() -> None:
    assert only(past("n1", problem("kernel-xid", repair="restart-service"))).repair is Repair.RESTART_SERVICE
    assert only(past("n1", problem("kernel-xid"))).repair is Repair.RESET_GPU


@pytest.mark.parametrize(("boots", "repair", "owner"), [
    ((-50,), Repair.REBOOT, Owner.OPERATOR),
    ((-50, -30), Repair.REBOOT, Owner.OPERATOR),            # one reboot: it may have been chance
    ((-50, -30, -10), Repair.REPLACE, Owner.VENDOR),        # two: hardware
    ((-50, -49, -48), Repair.REBOOT, Owner.OPERATOR),       # before it began
])
def test_what_comes_back_after_two_reboots_is_hardware(boots: tuple[float, ...], repair: Repair, owner: Owner) -> None:
    node = past("n1", problem(serial="A", began=-5), over=(problem(serial="A", began=-40, ended=-29),), boots=tuple(map(at, boots)))
    fault = only(node)
    assert (fault.repair, fault.owner) == (repair, owner)


def test_a_fault_of_the_node_itself_is_inspected_after_two_reboots_as_there_is_no_part_to_replace() -> None:
    node = past("n1", problem("", "", status="unknown", began=-40, sweeps=50), boots=(at(-50), at(-30), at(-10)))
    assert only(node).repair is Repair.INSPECT
    node = past("n1", problem("gpu-ecc", "", status="unknown", began=-40, sweeps=50), boots=(at(-50), at(-30), at(-10)))
    assert only(node).repair is Repair.INSPECT


def test_a_reboot_that_mended_it_counts_for_nothing() -> None:
    node = past("n1", problem(serial="A", began=-5), over=(problem(serial="A", began=-800, ended=-790),), boots=(at(-900), at(-780), at(-3)))
    assert only(node).repair is Repair.REBOOT        # the first is past the window, the second it has outlived


@pytest.mark.parametrize(("done", "repair"), [
    ((), Repair.RESET_GPU), ((repaired(-3, "reset-gpu"),), Repair.REBOOT), ((repaired(-50, "reset-gpu"),), Repair.RESET_GPU),
    ((repaired(-3, "restart-service"),), Repair.RESET_GPU)])
def test_a_lesser_repair_that_did_not_hold_is_followed_by_a_reboot(done: tuple[object, ...], repair: Repair) -> None:
    assert only(past("n1", problem("kernel-xid", began=-5), repaired=done)).repair is repair


def test_a_component_takes_its_record_along_to_another_node() -> None:
    earlier = tuple(problem(serial="A", node=node, began=hours, ended=hours + 1) for node, hours in (("n7", -72), ("n7", -48), ("n9", -24)))
    here = problem("kernel-xid", serial="A")
    fault = only(past("n1", here, moved=earlier))
    assert (fault.repair, fault.owner) == (Repair.REPLACE, Owner.VENDOR)
    assert "also in n7, n9" in fault.because[-1]
    assert only(past("n1", problem("kernel-xid", serial="B"), moved=earlier)).repair is Repair.RESET_GPU


def test_old_failures_weigh_less_and_what_comes_back_at_once_is_one_failure() -> None:
    old = tuple(problem("kernel-xid", serial="A", began=24 * -day, ended=24 * -day + 1) for day in (28, 42, 56))
    assert only(past("n1", problem("kernel-xid", serial="A"), over=old)).repair is Repair.RESET_GPU     # 1 + 1/4 + 1/8 + 1/16
    burst = tuple(problem("kernel-xid", serial="A", began=-5 + step, ended=-4.9 + step) for step in range(4))
    assert "repeat" not in " ".join(only(past("n1", problem("kernel-xid", serial="A"), over=burst)).because)


def test_a_new_chassis_starts_clean() -> None:
    earlier = tuple(problem("disk-state", "sda", began=hours, ended=hours + 1) for hours in (-100, -72, -48))
    assert "repeat offender" in only(past("n1", problem("disk-state", "sda"), over=earlier)).because[-1]
    assert only(past("n1", problem("disk-state", "sda"), over=earlier, chassis_since=at(-40))).because == ()


@pytest.mark.parametrize(("times", "away", "holds"), [(3, 1, True), (2, 1, False), (3, 13, False)])
def test_a_fault_that_flaps_holds_until_it_was_away_for_long(times: int, away: float, holds: bool) -> None:
    over = tuple(problem("port-state", "mlx5_0 port 1", began=-away - 0.5 - 2 * number, ended=-away - 2 * number) for number in range(times))
    found = faults(past("n1", over=over), policy(), NOW)
    assert [fault.isolation for fault in found] == [Isolation.NO_NEW_JOBS] * holds
    if holds:
        assert "3 times in 24 h" in found[0].because[-1]


def test_several_components_that_repeat_accuse_what_they_share() -> None:
    over = tuple(problem("kernel-xid", f"GPU {number}", serial=str(number), began=-24.0 * (number + 1), ended=-24.0 * (number + 1) + 1)
                 for number in range(4))
    assert "4 components" in suspect_node(past("n1", over=over), policy(), NOW)
    assert suspect_node(past("n1", over=over[:2]), policy(), NOW) == ""


def test_the_worst_fault_comes_first() -> None:
    node = past("n1", problem("fan", severity="warning"), problem("kernel-xid"), problem("gpu-count", began=-0.5))
    assert [fault.kind.id for fault in faults(node, policy(), NOW)] == ["lost", "error", "watch"]


def test_a_kernel_line_that_is_merely_new_isolates_nobody_whatever_a_policy_says() -> None:
    kind = FaultKind("novel", "", ("kernel-novel",), isolation=Isolation.EVICT, repair=Repair.REPLACE)
    fault = only(past("n1", problem("kernel-novel", severity="warning", sweeps=9)), kinds=(kind,))
    assert (fault.kind.id, fault.isolation) == ("novel", Isolation.NONE)
    assert "merely new" in fault.because[0]


@pytest.mark.parametrize("rule", ["kernel-novel", "kernel-suspect", "kernel-missing", "kernel-order", "kernel-rate"])
def test_a_kernel_line_that_is_unusual_isolates_nobody_whatever_a_policy_says(rule: str) -> None:
    kind = FaultKind("novel", "", (rule,), isolation=Isolation.EVICT, repair=Repair.REPLACE)
    here = problem(rule, severity="warning", sweeps=9, emitter="nvme", ends="boot")
    assert only(past("n1", here), kinds=(kind,)).isolation is Isolation.NONE
    assert not isolates(here, policy(kinds=(kind,))) and not accuses(here, policy(kinds=(kind,)))


@pytest.mark.parametrize(("emitter", "isolation"), [
    ("", Isolation.NONE),                       # read from a log, and nobody can say whose words it is
    ("nvrm", Isolation.NO_NEW_JOBS), ("kernel", Isolation.NO_NEW_JOBS),
    (None, Isolation.NO_NEW_JOBS),              # read from no log
])
def test_what_a_log_says_isolates_a_node_only_where_its_emitter_is_known(emitter: str | None, isolation: Isolation) -> None:
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
    def over(emitter: str | None) -> tuple[Problem, ...]:
        return tuple(problem("kernel-xid", serial="A", began=hours, ended=hours + 1, emitter=emitter) for hours in (-100, -72, -48))

    here = problem("kernel-xid", serial="A", emitter="nvrm", ends="reset")
    assert only(past("n1", here, over=over("nvrm"))).repair is Repair.REPLACE
    assert only(past("n1", here, over=over(""))).repair is Repair.RESET_GPU
