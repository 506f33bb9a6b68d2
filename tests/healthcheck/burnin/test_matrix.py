"""The matrix of pairs: beside equals, folded by leaf when large, in letters, colour and SVG."""

from __future__ import annotations

import io
import xml.etree.ElementTree as tree
from typing import Any

import pytest
from rich.console import Console

from healthcheck.burnin.matrix import MEANING, Matrix, PairState, by_leaf, draw, matrix
from healthcheck.burnin.model import BurnInStage, RankEnd
from healthcheck.burnin.svg import svg
from tests.healthcheck.burnin.made import changed, collective, pair, place, places, result, sound

TWELVE = places(12, per_leaf=4)
RESULTS = changed(changed(changed(sound(TWELVE), "leaf1-gpu003-gpu004", "*", figures={"busbw_gb_s": 200.0}),
                          "leaf1-gpu009-gpu010", "*", figures={"busbw_gb_s": 350.0}), "leaf2-gpu004-gpu005",
                  "gpu004:3", end=RankEnd.SIGNAL)
PARSE = tree.fromstring      # of what was written here
SVG = "{http://www.w3.org/2000/svg}"


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
    assert PARSE(svg(matrix([], []), "none")).tag == f"{SVG}svg"


def test_the_svg_holds_each_pair_twice_with_what_it_reached_and_a_legend_with_units() -> None:
    of = matrix(TWELVE, RESULTS)
    picture = PARSE(svg(of, "run 1"))
    tips = [title.text or "" for title in picture.iter(f"{SVG}title")]
    assert sum(tip.startswith("gpu003 - gpu004: 200 GB/s, 54% of the median") for tip in tips) == 2
    assert sum(tip.startswith("gpu004 - gpu005: no rate, failed") for tip in tips) == 2
    texts = [text.text or "" for text in picture.iter(f"{SVG}text")]
    assert all(any(text.startswith(meaning) for text in texts) for meaning in MEANING.values())
    assert "median of leaf-pairs: 371.5 GB/s (bus bandwidth)" in texts and "run 1" in texts


def test_the_svg_fetches_nothing_runs_nothing_and_escapes_what_nodes_are_called() -> None:
    evil = [place("<script>alert(1)</script>", leaf='"><a href="x">'), place("b\x1b[2J&", leaf=None)]
    results = [result(pair("<x>", evil[0].node, evil[1].node), collective(370, ranks=16))]
    text = svg(matrix(evil, results), "a < b & c")
    names = {element.tag.removeprefix(SVG) for element in PARSE(text).iter()}
    assert names <= {"svg", "title", "rect", "text", "path"}
    assert ("href" not in "".join(key for element in PARSE(text).iter() for key in element.attrib)
            and "\x1b" not in text)


def test_a_picture_of_five_hundred_nodes_stays_small() -> None:
    many = places(512, per_leaf=32)
    text = svg(matrix(many, sound(many[:64])), "many")
    assert len(text) < 200_000 and 900 < float(PARSE(text).attrib["width"]) < 1100
