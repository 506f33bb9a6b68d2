"""The verdict on one node: what stands in an incident's name,
and what is done where nothing is wrong any more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import Owner, Repair
from healthcheck.model.verdict import MACHINE, Fault, Incident, IncidentMember, StoredIncident, Verdict
from healthcheck.store.machines import AnotherMachine
from healthcheck.triage.decide import decide, reason
from healthcheck.triage.incidents import live
from healthcheck.triage.past import Anew, IncidentMembership, NodeHistory, OpenVerdict
from tests.healthcheck.triage.made import NOW, at, fleet, held, looks, past, policy, problem

PORT = frozenset({"port-state of GPU"})


def incident(isolates: bool = True, number: int = 1) -> Incident:
    return Incident("rack", "r1", ("n1",), "rack r1: port-state", Owner.NETWORK, number, tuple(PORT),
                    began=at(-3), isolates=isolates)


def verdict(node: NodeHistory, *incidents: Incident) -> Verdict:
    found = decide(node, policy(), NOW, (), {one.id: one for one in incidents})
    assert found is not None
    return found


def failing(**more: Any) -> NodeHistory:
    return past("n1", problem("port-state"), **more)


def test_a_node_in_an_incident_that_isolates_is_inspected_by_its_owner_in_its_name() -> None:
    found = verdict(failing(shared=(IncidentMembership(1, PORT, at(-3)),)), incident())
    assert (found.incident, found.fault, found.isolation, found.repair, found.owner) == (
        1, "incident", Isolation.NO_NEW_JOBS, Repair.INSPECT, Owner.NETWORK)


@pytest.mark.parametrize(("shared", "open_now"), [
    (IncidentMembership(1, PORT, at(-3), at(-2)), incident()),              # it has left it, or it ended
    (IncidentMembership(1, PORT, at(-3)), incident(isolates=False)),
    (IncidentMembership(1, frozenset({"gpu-count of GPU"}), at(-3)), incident()),
    (IncidentMembership(2, PORT, at(-3)), incident())])
def test_what_is_no_incidents_any_more_or_never_was_is_the_nodes_own(
    shared: IncidentMembership, open_now: Incident,
) -> None:
    found = verdict(failing(shared=(shared,)), open_now)
    assert (found.incident, found.fault, found.repair) == (0, "port", Repair.INSPECT)


@pytest.mark.parametrize(("isolates", "isolation"), [(True, Isolation.NO_NEW_JOBS), (False, Isolation.NONE)])
def test_a_node_that_is_well_is_held_on_in_the_name_of_an_open_incident_that_isolates_and_of_no_other(
    isolates: bool, isolation: Isolation,
) -> None:
    node = NodeHistory("n1", over=(problem("port-state", began=-3, ended=-2),), cordons=(held(-3),),
                       snapshots=looks(-1.5, -1),
                       verdict=OpenVerdict(1, "incident", Isolation.NO_NEW_JOBS, at(-3), 1),
                       shared=(IncidentMembership(1, PORT, at(-3)),), state="healthy", seen=at(-1))
    found = verdict(node, incident(isolates))
    assert found.isolation is isolation and bool(found.proven) is not isolates


@pytest.mark.parametrize("shown", [looks(-2, -1), ()])
def test_a_node_of_which_nothing_is_wrong_any_more_is_watched_by_no_one_whether_it_has_proved_it_or_not(
    shown: Any,
) -> None:
    node = NodeHistory("n1", over=(problem("gpu-count", began=-9, ended=-3),), cordons=(held(-8),),
                       snapshots=shown, verdict=OpenVerdict(1, "lost", Isolation.EVICT, at(-8)))
    found = verdict(node)
    assert (found.isolation, found.repair, found.owner, found.fault, bool(found.proven)) == (
        Isolation.NONE, Repair.WATCH, None, "lost", bool(shown))


def test_a_held_node_whose_looks_a_warning_spoils_is_reported_with_that_warning() -> None:
    warning = problem("gpu-slow", severity="warning", began=-2)
    node = past("n1", warning, over=(problem("gpu-count", began=-9, ended=-3),), cordons=(held(-8),),
                snapshots=looks(-2, -1, state="degraded"),
                verdict=OpenVerdict(1, "lost", Isolation.EVICT, at(-8)))
    assert "0 of 2 clean looks" in verdict(node).unproven
    assert "; no look is clean while there is gpu-slow: muster check n1" in verdict(node).unproven


@pytest.mark.parametrize("shown", [looks(-2, -1), ()])
def test_a_held_node_that_an_open_incident_keeps_from_proving_itself_waits_for_who_repairs_that(
        shown: Any) -> None:
    node = NodeHistory("n1", over=(problem("gpu-count", began=-9, ended=-3),), cordons=(held(-8),),
                       snapshots=shown,
                       verdict=OpenVerdict(1, "lost", Isolation.EVICT, at(-8)),
                       shared=(IncidentMembership(1, PORT, at(-1)),))
    found = verdict(node, incident(isolates=False))
    assert (found.isolation, bool(found.proven)) == (Isolation.NONE, bool(shown))
    assert found.owner is (None if shown else Owner.NETWORK)


def test_it_waits_for_no_one_whose_incident_it_has_left_or_that_is_over() -> None:
    left = (IncidentMembership(1, PORT, at(-3), at(-2)), IncidentMembership(2, PORT, at(-3)))
    node = NodeHistory("n1", over=(problem("gpu-count", began=-9, ended=-3),), cordons=(held(-8),),
                       verdict=OpenVerdict(1, "lost", Isolation.EVICT, at(-8)), shared=left)
    assert verdict(node, incident(isolates=False)).owner is None


def test_another_machine_under_a_nodes_name_gets_no_new_jobs_until_the_operator_has_brought_it_up() -> None:
    newcomer = AnotherMachine("n1", at(-1), 9, 9)
    found = verdict(NodeHistory("n1", machine=newcomer))
    assert (found.isolation, found.repair, found.owner, found.fault) == (
        Isolation.NO_NEW_JOBS, Repair.INSPECT, Owner.OPERATOR, MACHINE)
    # what only informs spoils no look
    warned = verdict(past("n1", problem("roce-cnp", severity="info"), problem("fan", severity="warning"),
                          machine=newcomer))
    assert warned.why.endswith("2 times clean; no look is clean while there is fan")


@pytest.mark.parametrize(("ended", "member", "expected"),
                         [(-1.0, -1.0, -1.0), (-1.0, -2.0, -2.0), (-1.0, None, 0.0)])
def test_a_node_was_in_an_incident_until_it_left_or_that_ended(
    ended: float, member: float | None, expected: float,
) -> None:
    left = at(member) if member is not None else None
    known = StoredIncident(1, "rack", "r1", tuple(PORT), "network", "", 0.0, at(-3), at(-1),
                           (IncidentMember("n1", at(-3), at(-2), left),), at(ended), "op")
    (shared,) = live(fleet(failing(), incidents=(known,)), policy()).shared["n1"]
    assert (shared.incident, shared.ended) == (1, at(expected))
    # What outlives it is the node's own, in its history, too.
    goes_on, over = problem("port-state", began=-3, ended=-0.5), problem("port-state", began=-3, ended=-2.5)
    node = NodeHistory("n1", shared=(shared,))
    assert node.in_incident(goes_on) is (expected >= -0.5) and node.in_incident(over)


def anew(isolation: Isolation = Isolation.EVICT, *problems: Any, **more: Any) -> NodeHistory:
    return past("n1", *problems, over=(problem("gpu-count", began=-9, ended=-3),),
                verdict=OpenVerdict(1, "lost", isolation, at(-8)), anew=Anew(at(-4), "lost", isolation),
                **more)


@pytest.mark.parametrize("isolation", [Isolation.NO_NEW_JOBS, Isolation.EVICT])
def test_a_node_that_came_anew_is_kept_from_jobs_and_watched_until_it_has_proved_itself(
    isolation: Isolation,
) -> None:
    found = verdict(anew(isolation))
    assert (found.isolation, found.repair, found.owner, found.fault) == (
        isolation, Repair.WATCH, Owner.OPERATOR, "lost")
    assert decide(anew(isolation, snapshots=looks(-2, -1)), policy(), NOW) is None
    watched = verdict(anew(isolation, problem("fan", severity="warning"), snapshots=looks(-2, -1)))
    assert (watched.isolation, watched.fault) == (Isolation.NONE, "watch")
    assert decide(anew(Isolation.NONE), policy(), NOW) is None


def test_a_node_of_which_a_part_is_at_the_vendors_is_kept_from_jobs_for_the_vendor() -> None:
    found = verdict(NodeHistory("n1", away="RMA 3 is open: it smells"))
    assert (found.isolation, found.repair, found.owner, found.fault) == (
        Isolation.NO_NEW_JOBS, Repair.REPLACE, Owner.VENDOR, "rma")
    assert verdict(
        past("n1", problem("gpu-count"), away="RMA 3 is open: it smells")).isolation is Isolation.EVICT


def test_the_worst_of_a_nodes_faults_says_what_jobs_may_do_there() -> None:
    assert verdict(
        past("n1", problem("gpu-count"), problem("fan", severity="warning"))).isolation is Isolation.EVICT


def test_a_fault_of_the_nodes_own_goes_before_what_an_incident_answers_for_and_both_are_named() -> None:
    lost = frozenset({"gpu-count of GPU"})
    one = replace(incident(), symptoms=tuple(lost))
    found = verdict(past("n1", problem("gpu-count"), problem("port-state"),
                         shared=(IncidentMembership(1, lost, at(-3)),)), one)
    assert (found.incident, found.fault, found.isolation) == (0, "port", Isolation.NO_NEW_JOBS)
    assert [fault.kind.id for fault in found.faults] == ["port", "lost"]


def test_what_held_before_holds_on_in_an_incidents_name_and_none_holds_a_node_without_a_verdict() -> None:
    node = NodeHistory("n1", cordons=(held(-3),),
                       verdict=OpenVerdict(1, "incident", Isolation.EVICT, at(-3), 1))
    assert verdict(node, incident()).isolation is Isolation.EVICT
    assert verdict(replace(node, verdict=None), incident()).isolation is Isolation.NONE


def test_proof_is_spoken_of_where_a_node_is_held_for_nothing_that_is_wrong_with_it_now_and_nowhere_else(
) -> None:
    well = verdict(NodeHistory("n1", cordons=(held(-8),), snapshots=looks(-2, -1)))
    not_yet = verdict(NodeHistory("n1", cordons=(held(-8),), snapshots=looks(-2)))
    assert (well.why == well.proven != "" == well.unproven
            and not_yet.why == not_yet.unproven != "" == not_yet.proven)
    for node in (past("n1", problem("gpu-count"), cordons=(held(-8),)),
                 past("n1", problem("fan", severity="warning"), snapshots=looks(-2, -1))):
        assert (verdict(node).proven, verdict(node).unproven) == ("", "")


def test_a_node_of_which_several_components_repeat_is_inspected_whatever_its_newest_fault_asks_for() -> None:
    over = tuple(problem("kernel-xid", f"GPU {number}", serial=str(number), began=-24.0 * (number + 1),
                         ended=-24.0 * (number + 1) + 1) for number in range(4))
    found = verdict(past("n1", problem("gpu-recovery-action", "GPU 6"), over=over))
    assert ((found.fault, found.repair) == ("driver", Repair.INSPECT)
            and "suspect what they share" in found.why)
    assert found.faults[0].raised
    worse = verdict(past("n1", problem("gpu-recovery-action", "GPU 6", repair="replace"), over=over))
    assert worse.repair is Repair.REPLACE and not worse.faults[0].raised
    assert verdict(past("n1", problem("gpu-recovery-action", "GPU 6"),
                        over=over[:2])).repair is Repair.RESET_GPU


def test_of_a_healthy_node_that_a_person_alone_cordoned_there_is_nothing_to_say() -> None:
    assert decide(NodeHistory("n1", cordons=(held(-3, verdict=None),), snapshots=looks(-2, -1)), policy(),
                  NOW) is None


@pytest.mark.parametrize(("rules", "repair", "fault"),
                         [(("kernel-xid", "port-state"), Repair.RESET_GPU, "error"),
                          (("gpu-count", "gpu-worn"), Repair.REBOOT, "lost"),
                          (("gpu-worn", "kernel-xid"), Repair.REPLACE, "worn"),
                          (("nvlink-fabric-manager", "port-state"), Repair.RESTART_SERVICE, "fabric"),
                          # A reboot by the same people does what a reset would.
                          (("kernel-xid", "probe"), Repair.REBOOT, "error")])
def test_the_repair_is_that_of_the_fault_that_is_named_or_the_restart_that_covers_it(
    rules: tuple[str, ...], repair: Repair, fault: str,
) -> None:
    found = verdict(past("n1", *(
        problem(rule) if rule != "probe" else problem(rule, status="unknown", sweeps=5) for rule in rules)))
    assert (found.repair, found.fault) == (repair, fault)


def test_a_node_that_is_well_but_for_a_warning_is_still_of_the_incident_that_held_it_and_a_sick_one_is_not(
) -> None:
    was = OpenVerdict(1, "incident", Isolation.NO_NEW_JOBS, at(-3), 1)
    assert verdict(past("n1", problem("fan", severity="warning"), cordons=(held(-3),),
                        verdict=was)).incident == 1
    assert verdict(past("n1", problem("gpu-count"), cordons=(held(-3),), verdict=was)).incident == 0


def test_a_fault_of_which_one_problem_is_an_incidents_is_the_incidents() -> None:
    both = past("n1", problem("port-state"), problem("port-rate"),
                shared=(IncidentMembership(1, PORT, at(-3)),))
    assert verdict(both, incident()).incident == 1


@pytest.mark.parametrize(("problems", "said"), [
    ((problem(),), "gpu-count of GPU 3: 7 (expected 8)"),
    ((problem(observed=""),), "gpu-count of GPU 3:  (expected 8)"),
    ((problem(expected=""),), "gpu-count of GPU 3: 7 (expected )"),
    ((problem(), problem("gpu-answers")), "gpu-count of GPU 3: 7 (expected 8) and 1 more"),
    ((problem(subject="", observed="", expected="", reason="it hung"),), "gpu-count not measured: it hung"),
    ((problem("", subject="", reason="refused"),), "not reached: refused")])
def test_a_fault_is_one_line_of_what_was_seen_first_and_how_much_more_there_is(
    problems: tuple[Any, ...], said: str,
) -> None:
    assert reason(Fault(policy().kinds[0], "", problems, Isolation.EVICT, Repair.REBOOT, Owner.OPERATOR,
                        NOW)) == said
