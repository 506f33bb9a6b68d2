"""What ranks report of each device fault: real gloo ranks, faults planted by tests.testbed.badgpu."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.healthcheck.burnin.workers import Came, Nodes
from tests.testbed import badgpu, torches

SEATS = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
BAD = 2     # of the ranks: b:0


class Bed:
    """Two nodes whose GPUs have what faults the test plants."""

    def __init__(self, nodes: Nodes, plan: Path) -> None:
        self.nodes, self.plan = nodes, plan

    def plant(self, fault: str = "", **more: Any) -> None:
        row = {"fault": fault, "node": "b", "gpu": 0, "iteration": 3, **more}
        self.plan.write_text(json.dumps([row] if fault else []))

    def reduced(self, fault: str = "", **more: Any) -> Came:
        self.plant(fault, **more)
        return self.nodes.task("allreduce", SEATS, bytes=65536, iterations=8, checks=0)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    plan = tmp_path_factory.mktemp("badgpu") / "plan.json"
    with Nodes(["a", "b"], [*torches.forked(), badgpu.__file__, str(plan)]) as nodes:
        yield Bed(nodes, plan)


def wrong(came: Came) -> dict[int, tuple[list[int], bool]]:
    """Which ranks saw wrong data: whose, and whether their own input was wrong."""
    return {rank: (report["wrong"][0]["owners"], report["wrong"][0]["own_input"])
            for rank, report in came.reports.items() if report["wrong"]}


def test_without_a_fault_every_iteration_of_every_rank_is_verified(bed: Bed) -> None:
    came = bed.reduced()
    assert [came.reports[rank]["end"] for rank in range(4)] == ["done"] * 4
    assert all(report["figures"]["verified"] == 8 and report["wrong_total"] == 0
               for report in came.reports.values())


def test_a_bit_that_is_flipped_as_it_is_sent_is_wrong_everywhere_and_its_place_and_owner_are_reported(
    bed: Bed,
) -> None:
    came = bed.reduced("flip", iteration=4)
    assert wrong(came) == {rank: ([BAD], False) for rank in range(4)}
    assert {report["wrong"][0]["iteration"] for report in came.reports.values()} == {4}
    assert {report["wrong"][0]["check"] for report in came.reports.values()} == {
        "all-reduce float32 owner-coded in place"}
    [places] = {tuple(map(tuple, report["wrong"][0]["places"])) for report in came.reports.values()}
    assert [owner for _, owner in places] == [BAD]
    assert {report["wrong_total"] for report in came.reports.values()} == {1}


def test_an_element_that_is_corrupted_after_receiving_is_wrong_only_there(bed: Bed) -> None:
    assert list(wrong(bed.reduced("receive"))) == [BAD]


def test_a_corrupt_buffer_is_wrong_everywhere_and_its_own_rank_says_that_it_was_its_input(bed: Bed) -> None:
    came = bed.reduced("buffer")
    assert {rank: own for rank, (_, own) in wrong(came).items()} == {0: False, 1: False, 2: True, 3: False}
    [entry] = came.reports[BAD]["wrong"]
    assert len(entry["inputs"]) == 8 and entry["inputs"] == [place for place, _ in entry["places"]]


def test_a_fault_that_stays_is_counted_in_each_iteration(bed: Bed) -> None:
    came = bed.reduced("flip", every=True)
    assert {len(report["wrong"]) for report in came.reports.values()} == {7}     # of 2 to warm up and 8
    assert {report["wrong_total"] for report in came.reports.values()} == {7}


def test_what_goes_wrong_between_two_checks_is_wrong_at_the_next_and_from_then_on_each_is_checked(
    bed: Bed,
) -> None:
    bed.plant("alters", when="entry", what="own", at=0.5, iteration=7)
    came = bed.nodes.task("allreduce", SEATS, bytes=65536, iterations=100, checks=0, check_share=1e-6)
    # whole rows of 32
    assert {report["figures"]["verified"] for report in came.reports.values()} == {128}
    assert all([each["check"].partition("place, ")[2] for each in report["wrong"]] == ["32 in a row"]
               for report in came.reports.values())
    # 2 to warm up, and 32
    assert {report["wrong"][0]["iteration"] for report in came.reports.values()} == {33}
    assert {report["wrong"][0]["places"][0][1] for report in came.reports.values()} == {-1}


def test_a_killed_rank_is_reported_at_once_with_its_signal_and_the_others_report(bed: Bed) -> None:
    came = bed.reduced("killed")
    assert came.ended[BAD]["signal"] == 9
    assert BAD not in came.reports
    assert {came.reports[rank]["end"] for rank in (0, 1, 3)} == {"raised"}
    assert all(came.reports[rank]["error"] and "\n" not in came.reports[rank]["error"] for rank in (0, 1, 3))
    assert "gloo:all_reduce" in came.reports[0]["facts"]["flight"]
    assert {(report["last"]["iteration"], report["last"]["phase"]) for report in came.reports.values()} == {
        (3, "send")}
    assert [(row["iteration"], row["phase"]) for row in came.rows if row["rank"] == BAD][-1] == (3, "compute")


def test_an_error_in_a_rank_is_one_clean_line_of_its_report(bed: Bed) -> None:
    came = bed.reduced("raises")
    assert came.reports[BAD]["end"] == "raised"
    assert came.reports[BAD]["error"] == "RuntimeError: CUDA error: an illegal memory access was encountered"


def last_rows(came: Came) -> dict[int, dict[str, Any]]:
    return {row["rank"]: row for row in came.rows}


@pytest.mark.parametrize(("fault", "state"), [("stopped", "T"), ("hung", "S")])
def test_a_stopped_rank_and_a_hung_one_differ_in_what_still_ticks(bed: Bed, fault: str, state: str) -> None:
    bed.plant(fault)
    task = bed.nodes.begin("allreduce", SEATS, bytes=65536, iterations=8)

    def stuck(came: Came) -> bool:
        row = last_rows(came).get(BAD, {"moved": 0.0, "iteration": 0})
        return bool(row["moved"] > 1.2 and row["iteration"] == 3)

    came = bed.nodes.follow(task, 4, until=stuck)
    rows = last_rows(came)
    assert (rows[BAD]["phase"], rows[BAD]["state"]) == ("compute", state)
    assert (rows[BAD]["tick"] > 1) == (fault == "stopped")
    assert {(row["phase"], row["iteration"]) for rank, row in rows.items() if rank != BAD} == {("send", 3)}
    began = time.monotonic()
    bed.nodes.tell_all({"stop": task})
    came = bed.nodes.follow(task, 4)
    assert {came.reports[rank]["end"] for rank in (0, 1, 3) if rank in came.reports} <= {
        "called off", "raised"}
    assert came.ended[BAD]["signal"] == (9 if fault == "stopped" else None)
    assert time.monotonic() - began < 15


def test_who_never_joins_is_missing_from_the_roll_call_and_no_one_begins(bed: Bed) -> None:
    bed.plant("never", iteration=0)
    task = bed.nodes.begin("allreduce", SEATS)
    came = bed.nodes.follow(task, 4, until=lambda came: came.joined == {0, 1, 3}
                            and last_rows(came).get(BAD, {}).get("moved", 0) > 1)
    assert last_rows(came)[BAD]["phase"] == "start"
    assert {row["phase"] for rank, row in last_rows(came).items() if rank != BAD} == {"wait"}
    bed.nodes.tell_all({"stop": task})
    came = bed.nodes.follow(task, 4)
    assert {report["end"] for report in came.reports.values()} == {"called off"}


@pytest.mark.slow
def test_a_slow_rank_has_the_longest_compute_and_the_shortest_collective(bed: Bed) -> None:
    bed.plant("slow", iteration=0, seconds=0.05)
    came = bed.nodes.task("allreduce", SEATS, bytes=65536, iterations=15)
    figures = {rank: report["figures"] for rank, report in came.reports.items()}
    assert max(figures, key=lambda rank: figures[rank]["compute_p50"]) == BAD
    assert min(figures, key=lambda rank: figures[rank]["seconds_p50"]) == BAD


def test_a_wrong_product_is_found_alone_by_whole_numbers_and_by_repeating(bed: Bed) -> None:
    bed.plant("product", iteration=1)
    for kind in ("known", "random"):
        came = bed.nodes.task(kind, SEATS, precisions="fp32", n=128)
        assert {rank: report["wrong_total"] for rank, report in came.reports.items()} == {
            0: 0, 1: 0, 2: 1, 3: 0}, kind
        assert came.reports[BAD]["facts"]["wrong_in"] == "fp32"


def test_a_stuck_bit_of_memory_is_found_and_its_place_is_reported(bed: Bed) -> None:
    bed.plant("stuck")
    came = bed.nodes.task("memory", SEATS, bytes=1 << 20)
    assert {rank for rank, report in came.reports.items() if report["wrong_total"]} == {BAD}
    assert came.reports[BAD]["facts"]["wrong_in"] == "0xaa, word 1234, bits 0x80"


def test_equals_have_equal_checksums(bed: Bed) -> None:
    bed.plant()
    for kind in ("known", "random"):
        came = bed.nodes.task(kind, SEATS, n=128)
        assert len({tuple(sorted(report["checksums"].items())) for report in came.reports.values()}) == 1
        assert came.reports[0]["checksums"]
