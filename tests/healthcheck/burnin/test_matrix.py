"""The matrix of pairs: beside equals, folded by leaf when large, leaf by leaf, in letters and colour."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from healthcheck.burnin.matrix import Matrix, PairState, by_leaf, draw, matrix, troubled, within
from healthcheck.burnin.model import BurnInStage, RankEnd
from tests.healthcheck.burnin.made import changed, collective, pair, places, result, sound

TWELVE = places(12, per_leaf=4)
RESULTS = changed(changed(changed(sound(TWELVE), "leaf1-gpu003-gpu004", "*", figures={"busbw_gb_s": 200.0}),
                          "leaf1-gpu009-gpu010", "*", figures={"busbw_gb_s": 350.0}), "leaf2-gpu004-gpu005",
                  "gpu004:3", end=RankEnd.SIGNAL)


def drawn(of: Matrix, width: int = 100, **how: Any) -> str:
    out = io.StringIO()
    draw(Console(file=out, width=width, highlight=False, markup=False, emoji=False, **how), of)
    return out.getvalue()


def test_each_pair_stands_beside_its_equals() -> None:
    of = matrix(TWELVE, RESULTS)
    assert (of.at(2, 3).state is PairState.SLOW
            and of.at(3, 2).share == pytest.approx(200 / of.medians["leaf-pairs"]))
    assert (of.at(8, 9).state is PairState.SLOWER and of.at(3, 4).state is PairState.FAILED
            and of.at(0, 1).state is PairState.GOOD)
    assert of.at(0, 7).state is PairState.UNTESTED
    assert of.counts == {PairState.FAILED: 1, PairState.SLOW: 1, PairState.SLOWER: 1, PairState.GOOD: 9}


def test_a_pair_that_was_tested_twice_shows_its_worse_result_and_both_tests() -> None:
    again = result(pair("confirm", "gpu001", "gpu002", stage=BurnInStage.LEAF_CONFIRM),
                   collective(100, ranks=16))
    cell = matrix(TWELVE, [*RESULTS, again]).at(0, 1)
    assert (cell.state is PairState.SLOW and cell.busbw == 100
            and set(cell.tasks) == {"confirm", "leaf1-gpu001-gpu002"})


def test_pairs_across_leaves_are_no_equals_of_those_within_one() -> None:
    across = [result(pair(f"cross-{number}", f"gpu00{number}", f"gpu00{number + 4}",
                          stage=BurnInStage.CROSS_PAIRS), collective(300, ranks=16))
              for number in range(1, 5)]
    of = matrix(TWELVE, [*sound(TWELVE), *across])
    assert of.at(0, 4).state is PairState.GOOD and of.medians["cross-pairs"] == 300


def test_nodes_that_are_in_no_inventory_any_more_are_left_out() -> None:
    assert matrix(TWELVE[:3], RESULTS).names == ("gpu001", "gpu002", "gpu003")


def test_without_colour_it_is_letters() -> None:
    lines = drawn(matrix(TWELVE, RESULTS)).splitlines()
    assert lines[2:5] == ["gpu003 .o\\S........", "gpu004 ..S\\X.......", "gpu005 ...X\\o......"]
    assert (" X failed: not finished, or wrong data: 1" in lines
            and "median of leaf-pairs: 371.5 GB/s" in lines)


def test_in_colour_two_rows_are_one_line_and_no_colour_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    of = matrix(TWELVE, RESULTS)
    coloured = drawn(of, force_terminal=True, color_system="truecolor")
    assert sum("▀" in line for line in coloured.splitlines()) == 6
    monkeypatch.setenv("NO_COLOR", "1")
    assert ("▀" not in drawn(of, force_terminal=True, color_system="truecolor")
            and "..S\\X" in drawn(of, force_terminal=True))


def test_where_it_is_too_wide_it_is_folded_by_leaf_and_shows_the_worst() -> None:
    of = matrix(TWELVE, RESULTS)
    assert drawn(of, width=16).splitlines()[:3] == ["leaf01 SXo", "leaf02 Xoo", "leaf03 oos"]
    assert by_leaf(of).at(0, 1).state is PairState.FAILED and by_leaf(of).folded
    assert "do not fit in 8 columns: see the SVG" in drawn(of, width=8)


def test_without_pairs_it_says_so() -> None:
    assert drawn(matrix(TWELVE, [])) == "no two nodes were measured together\n"


def test_a_leaf_alone_has_its_own_pairs_and_leaves_with_trouble_come_in_order() -> None:
    of = matrix(TWELVE, RESULTS)
    assert troubled(of) == ["leaf01", "leaf03"]     # the pair that failed is of two leaves
    one = within(of, "leaf01")
    assert one.names == ("gpu001", "gpu002", "gpu003", "gpu004")
    assert one.at(2, 3).state is PairState.SLOW and PairState.FAILED not in one.counts
