"""Each way of plugging cables wrong is found under its name, with the steps that repair it; what is not seen
is unknown."""

from __future__ import annotations

from dataclasses import replace

from healthcheck.subnet.cabled import SeenCable
from healthcheck.subnet.cabling import CablingPlan, PlannedEnd
from healthcheck.subnet.difference import CablingComparison, CablingDifference, DifferenceKind, compare
from healthcheck.subnet.diffpage import document, exit_code, text
from healthcheck.subnet.moves import CableAction
from healthcheck.subnet.worklist import as_csv, work_list
from tests.documents import validate
from tests.healthcheck.subnet.made import as_planned, rails, swap, there
from tests.testbed.ibfabric import two_tiers

PLAN = rails(hosts=8, ports=4, per_leaf=4)      # cable 4 * host + rail


def differences(cables: list[SeenCable], plan: CablingPlan = PLAN, unseen: tuple[str, ...] = (),
                partial: tuple[str | None, ...] = ()) -> CablingComparison:
    found = compare(plan, there(plan, cables, unseen, partial))
    validate(document(found, plan), "fabric-diff-1")
    return found


def the(comparison: CablingComparison) -> CablingDifference:
    assert len(comparison.differences) == 1, [one.what for one in comparison.differences]
    return comparison.differences[0]


def swapped(*pairs: tuple[int, int], end: str = "b") -> list[SeenCable]:
    """As planned but for the ends of these cables."""
    cables = as_planned(PLAN)
    for one, other in pairs:
        swap(cables, one, other, end)
    return cables


def actions(comparison: CablingComparison, plan: CablingPlan = PLAN) -> list[tuple[str, str]]:
    return [(item.step.action.value, " ".join(filter(None, (
        f"{item.step.start.device}:{item.step.start.port}" if item.step.start else "",
        f"to {item.step.stop.device}:{item.step.stop.port}" if item.step.stop else ""))))
        for item in work_list(comparison, plan)]


def test_cabling_as_planned_differs_in_nothing() -> None:
    found = differences(as_planned(PLAN))
    assert not found.differences and found.same == found.planned == len(PLAN.cables) and exit_code(found) == 0
    assert list(text(found, PLAN)) == [f"{found.planned} of {found.planned} links as planned"]


def test_two_cables_swapped_at_a_leaf_are_a_swap_that_the_network_does_not_feel() -> None:
    found = differences(swapped((0, 4)))
    one = the(found)
    assert (one.kind, one.harmless, found.plugs, exit_code(found)) == (DifferenceKind.SWAPPED, True, 2, 1)
    assert (one.what
            == "leaf001 ports 1 and 2 are swapped: the cables of gpu02 port mlx5_0 and gpu01 port mlx5_0")
    assert actions(found) == [("hold", "leaf001:1"), ("move", "leaf001:2 to leaf001:1"),
                              ("move", "to leaf001:2")]


def test_two_cables_swapped_between_leaves_are_a_swap_that_the_network_feels() -> None:
    one = the(differences(swapped((0, 17))))        # gpu01 rail 0 and gpu05 rail 1: leaves 1 and 6
    assert one.kind is DifferenceKind.SWAPPED and not one.harmless


def test_rails_of_one_host_that_are_crossed_are_named_by_host_and_adapters() -> None:
    found = differences(swapped((1, 2)))
    one = the(found)
    assert (one.kind, one.what, one.harmless) == (DifferenceKind.CROSSED,
                                                  "gpu01: the cables of mlx5_1 and mlx5_2 are crossed", False)
    assert {item.rack for item in work_list(found, PLAN)} == {"r1"} and found.plugs == 2


def test_a_tray_shifted_by_one_is_one_thing_and_every_cable_moves_once() -> None:
    plan = rails(hosts=16, ports=2, per_leaf=16)
    cables = [replace(cable, b=PlannedEnd("leaf001", str(int(cable.b.port) + 1)))
              for cable in as_planned(plan) if cable.b.device == "leaf001"]
    found = compare(plan, there(plan, cables))
    shifted = [one for one in found.differences if one.kind is DifferenceKind.SHIFTED]
    assert len(shifted) == 1 and shifted[0].what == "leaf001: cables are 1 port too high (16 cables)"
    assert len(shifted[0].steps) == 16 and {step.action for step in shifted[0].steps} == {CableAction.MOVE}


def test_a_tray_shifted_in_a_circle_is_a_shift_too() -> None:
    plan = rails(hosts=8, ports=1, per_leaf=8)
    cables = as_planned(plan)
    ends = [cables[at].b for at in range(8)]
    cables[:8] = [replace(cables[at], b=ends[(at + 1) % 8]) for at in range(8)]
    found = compare(plan, there(plan, cables))
    one = the(found)
    assert (one.kind is DifferenceKind.SHIFTED and found.plugs == 8
            and "leaf001: cables are 1 port too high" in one.what)


def test_three_ends_in_each_others_ports_are_a_circle() -> None:
    cables = as_planned(PLAN)
    ends = [cables[at].b for at in (0, 17, 10)]
    for at, end in zip((0, 17, 10), (ends[1], ends[2], ends[0]), strict=True):
        cables[at] = replace(cables[at], b=end)
    found = differences(cables)
    assert the(found).kind is DifferenceKind.CIRCLE and found.plugs == 3


def test_an_end_in_a_free_port_is_misplaced_and_one_move_repairs_it() -> None:
    cables = as_planned(PLAN)
    cables[0] = replace(cables[0], b=PlannedEnd("leaf001", "60"))
    found = differences(cables)
    assert (the(found).what == "an end is in leaf001 port 60 that belongs in leaf001 port 1"
            and actions(found) == [("move", "leaf001:60 to leaf001:1")])


def test_a_cable_both_ends_of_which_are_elsewhere_is_moved_rather_than_pulled_and_another_laid() -> None:
    cables = as_planned(PLAN)
    cables[0] = SeenCable(PlannedEnd("gpu01", "mlx5_8"), PlannedEnd("leaf001", "60"))
    found = differences(cables)
    assert (the(found).kind is DifferenceKind.MISPLACED
            and [action for action, _ in actions(found)] == ["pull", "move", "move"] and found.plugs == 2)


def test_a_link_that_is_not_seen_is_missing_and_says_that_it_may_be_down() -> None:
    cables = as_planned(PLAN)
    del cables[5]
    found = differences(cables)
    one = the(found)
    assert (one.kind is DifferenceKind.MISSING
            and one.what.endswith("no link is seen: no cable, an end unplugged, or down"))
    assert actions(found) == [("connect", "")] and found.plugs == 2


def test_a_cable_that_is_not_planned_is_extra_and_is_pulled_before_anything_moves() -> None:
    found = differences([*swapped((0, 4)),
                         SeenCable(PlannedEnd("leaf001", "61"), PlannedEnd("leaf002", "61"))])
    assert [one.kind for one in found.differences] == [DifferenceKind.SWAPPED, DifferenceKind.EXTRA]
    assert [action for action, _ in actions(found)] == ["pull", "hold", "move", "move"] and found.plugs == 2


def test_links_of_a_host_that_is_not_seen_are_unknown_and_not_missing() -> None:
    cables = [cable for cable in as_planned(PLAN) if cable.a.device != "gpu03"]
    found = differences(cables, unseen=("gpu03",))
    one = the(found)
    assert (one.kind, one.what, len(one.planned), one.steps) == (DifferenceKind.UNKNOWN, "gpu03 not seen", 4,
                                                                 ()) and exit_code(found) == 3


def test_nothing_is_missing_from_a_subnet_that_was_read_in_part_but_what_is_seen_wrong_is_wrong() -> None:
    cables = swapped((0, 4))
    del cables[9]
    found = differences(cables, partial=(None,))
    assert [one.kind for one in found.differences] == [DifferenceKind.SWAPPED, DifferenceKind.UNKNOWN]
    assert found.differences[1].what == "the subnet was not read to its end"


def test_in_a_plane_that_was_read_in_part_nothing_is_missing_and_in_the_other_it_is() -> None:
    plan = rails(planes=2)
    first = next(at for at, cable in enumerate(plan.cables) if cable.plane == "plane1")
    second = next(at for at, cable in enumerate(plan.cables) if cable.plane == "plane2")
    cables = [cable for at, cable in enumerate(as_planned(plan)) if at not in (first, second)]
    found = differences(cables, plan, partial=("plane2",))
    assert ({(one.kind, one.planned[0].plane) for one in found.differences}
            == {(DifferenceKind.MISSING, "plane1"), (DifferenceKind.UNKNOWN, "plane2")})


def with_lengths(metres: dict[int, float], part: str | None = None) -> CablingPlan:
    return CablingPlan(PLAN.devices, tuple(replace(cable, metres=metres.get(at), part=part)
                                           for at, cable in enumerate(PLAN.cables)))


def test_a_swap_of_cables_of_different_length_moves_the_ends_that_reach() -> None:
    plan = with_lengths({0: 3.0, 4: 5.0})
    for swapped in ("a", "b"):
        # the cable of 3 m serves the link of 3 m again, whichever end was swapped
        cables = as_planned(plan)
        swap(cables, 0, 4, swapped)
        found = differences(cables, plan)
        moved = {item.step.stop for item in work_list(found, plan) if item.step.stop is not None}
        assert moved == {getattr(plan.cables[0], swapped),
                         getattr(plan.cables[4], swapped)} and found.plugs == 2


def test_a_cable_that_is_too_short_for_both_links_that_it_touches_is_not_moved_to_either() -> None:
    plan = with_lengths({0: 5.0, 4: 5.0})
    cables = as_planned(plan)
    swap(cables, 0, 4)
    cables[0], cables[4] = replace(cables[0], metres=2.0), replace(cables[4], metres=2.0)
    found = differences(cables, plan)
    assert {one.kind for one in found.differences} == {DifferenceKind.MISSING,
                                                       DifferenceKind.EXTRA} and found.plugs == 4


def test_a_link_with_a_cable_that_does_not_fit_is_a_wrong_cable() -> None:
    plan = with_lengths({0: 5.0}, part="MCP7Y00")
    cables = as_planned(plan)
    cables[0], cables[1] = replace(cables[0], metres=3.0), replace(cables[1], part="MFS1S00")
    found = differences(cables, plan)
    assert [(one.kind, one.what.partition(": ")[2]) for one in found.differences] == [
        (DifferenceKind.WRONG_CABLE, "3 m, planned 5 m"),
        (DifferenceKind.WRONG_CABLE, "part MFS1S00, planned MCP7Y00")]
    assert [action for action, _ in actions(found, plan)] == ["replace", "replace"]


def test_the_serial_number_decides_which_side_of_a_swap_moves() -> None:
    plan = CablingPlan(PLAN.devices,
                       tuple(replace(cable, serial=f"MT{at}") for at, cable in enumerate(PLAN.cables)))
    for swapped in ("a", "b"):
        cables = as_planned(plan)
        swap(cables, 1, 6, swapped)     # gpu01 rail 1 and gpu02 rail 2: different hosts and different leaves
        moved = {item.step.stop
                 for item in work_list(differences(cables, plan), plan) if item.step.stop is not None}
        assert moved == {getattr(plan.cables[1], swapped), getattr(plan.cables[6], swapped)}


def test_a_spare_with_the_planned_serial_number_is_found_wherever_it_is() -> None:
    plan = CablingPlan(PLAN.devices, (replace(PLAN.cables[0], serial="MT77"), *PLAN.cables[1:]))
    cables = [*as_planned(plan)[1:],
              SeenCable(PlannedEnd("gpu08", "mlx5_9"), PlannedEnd("leaf008", "60"), serial="MT77")]
    found = differences(cables, plan)
    assert the(found).kind is DifferenceKind.MISPLACED and {step.cable.serial for step in the(found).steps
                                                            if step.cable} == {"MT77"}


def test_the_list_for_the_data_centre_has_racks_printed_ports_lengths_and_serials() -> None:
    plan = CablingPlan(PLAN.devices, tuple(replace(cable, serial=f"MT{at}", part="MCP4Y10", metres=2.0)
                                           for at, cable in enumerate(PLAN.cables)))
    cables = as_planned(plan)
    swap(cables, 1, 2, "a")
    rows = as_csv(work_list(differences(cables, plan), plan), plan).splitlines()
    assert rows[0].startswith("step,rack,unit,action,from_device,from_port,to_device,to_port,other_device")
    assert (rows[1]
            == "1,r1,,hold,gpu01,mlx5_2,,,leaf002,1,,MT1,MCP4Y10,2,gpu01: the cables of mlx5_1 and mlx5_2 "
               "are crossed")
    assert (rows[2].startswith("2,r1,,move,gpu01,mlx5_1,gpu01,mlx5_2,leaf003,1,,MT2")
            and rows[3].startswith("3,r1,,move,,,gpu01,mlx5_1,leaf002,1,,MT1"))


def test_the_lines_for_a_terminal_go_rack_by_rack_and_end_with_a_sum() -> None:
    lines = list(text(differences(swapped((1, 2), (20, 21), end="a")), PLAN))
    assert [line for line in lines if line.startswith("rack")] == ["rack r1:", "rack r2:"]
    assert "  2. gpu01 port mlx5_1 -> gpu01 port mlx5_2, the cable to leaf003 port 1" in lines
    assert (lines[-1]
            == f"{len(PLAN.cables) - 4} of {len(PLAN.cables)} links as planned; 2 crossed rails; the repair "
               f"plugs in 4 ends")


def renamed(names: dict[str, str], plan: CablingPlan = PLAN) -> list[SeenCable]:
    def end(one: PlannedEnd) -> PlannedEnd:
        return replace(one, device=names.get(one.device, one.device))
    return [replace(cable, a=end(cable.a), b=end(cable.b)) for cable in as_planned(plan)]


def test_two_hosts_that_stand_in_each_others_place_are_said_to_be_exchanged() -> None:
    found = differences(renamed({"gpu01": "gpu02", "gpu02": "gpu01"}))
    assert found.exchanged == (("gpu01", "gpu02"),) and len(found.differences) == 4
    assert [line for line in text(found, PLAN) if line.startswith("exchanged: ")] == [
        "exchanged: gpu01 and gpu02 are in each other's place; if the machines or their names are exchanged, "
        "put that right, not the cables"]


def test_three_hosts_in_a_circle_and_two_spines_are_exchanged() -> None:
    plan = two_tiers(hosts=8, per_leaf=4, spines=2, rails=2)
    found = differences(renamed({"gpu001": "gpu002", "gpu002": "gpu003", "gpu003": "gpu001",
                                 "spine01": "spine02", "spine02": "spine01"}, plan), plan)
    assert found.exchanged == (("gpu001", "gpu003", "gpu002"), ("spine01", "spine02"))


def test_one_cable_of_two_hosts_that_is_swapped_exchanges_no_hosts() -> None:
    assert differences(swapped((0, 4))).exchanged == ()


def test_a_host_in_the_place_of_one_that_is_not_there_is_not_exchanged_with_it() -> None:
    cables = [cable for cable in renamed({"gpu01": "gpu02", "gpu02": "gone"})
              if "gone" not in (cable.a.device, cable.b.device)]
    assert differences(cables, unseen=("gpu01",)).exchanged == ()


def test_a_circle_of_neighbouring_ports_is_a_circle_and_no_shift() -> None:
    one = the(differences(swapped((0, 4), (4, 8))))
    assert (one.kind, len(one.planned)) == (DifferenceKind.CIRCLE, 3)


def test_machines_that_were_exchanged_are_said_before_the_cables_that_are_right() -> None:
    lines = list(text(differences(swapped(*((rail, 4 + rail) for rail in range(4)))), PLAN))
    assert lines[0].startswith("exchanged: gpu01 and gpu02"), lines


def test_what_is_unknown_is_named() -> None:
    lines = list(text(differences([one for one in as_planned(PLAN)
                                   if "gpu01" not in (one.a.device, one.b.device)], unseen=("gpu01",)), PLAN))
    assert ("(4 links: gpu01 port mlx5_0 to leaf001 port 1, gpu01 port mlx5_1 to leaf002 "
            "port 1, ...)") in lines[0]
    assert lines[-1].endswith("links as planned, 4 unknown")
