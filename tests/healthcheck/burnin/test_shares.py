"""How nodes did in each stage beside what they had to reach, in a picture and on a terminal."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as tree
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from healthcheck.burnin.document import Burnin
from healthcheck.burnin.floors import Floors
from healthcheck.burnin.matrix import matrix
from healthcheck.burnin.model import Accusation, BurnInStage, Object, RankEnd
from healthcheck.burnin.shares import ShareState, shares
from healthcheck.burnin.sharespage import draw
from healthcheck.burnin.svg import MOST_ROWS, svg
from tests.healthcheck.burnin.made import (
    FLOORS,
    RULES,
    burnin,
    changed,
    collective,
    pair,
    place,
    places,
    result,
    sound,
)

SVG = "{http://www.w3.org/2000/svg}"
PARSE = tree.fromstring      # of what was written here
NO_FLOORS = Floors(replace(RULES, published=()), (), "0" * 64)


def planted(count: int = 12, per_leaf: int = 4, floors: Floors = FLOORS) -> Burnin:
    """One link is slow, one pair somewhat slow, one GPU slow in its products, one rank died."""
    there = places(count, per_leaf=per_leaf)
    results = changed(sound(there), "leaf1-gpu003-gpu004", "*", figures={"busbw_gb_s": 200.0})
    results = changed(results, "leaf1-gpu009-gpu010", "*", figures={"busbw_gb_s": 350.0})
    results = changed(results, "node-rate-gpu007", "gpu007:5", figures={"tflops_bf16": 520.0})
    results = changed(results, "node-memory-gpu011", "gpu011:0", end=RankEnd.SIGNAL)
    return burnin(there, results, floors=floors)


def test_each_node_has_its_worst_share_of_the_floor_in_each_stage() -> None:
    found = shares(planted())
    assert found.stages == (BurnInStage.NODE, BurnInStage.LEAF_PAIRS, BurnInStage.ALL)
    rows = {row.node: row for row in found.nodes}
    slow = rows["gpu003"].stages[1]
    assert slow.state is ShareState.SLOW and slow.share is not None and 0.5 < slow.share < 0.65
    assert "busbw_gb_s of gpu003 - gpu004: 200, the floor is" in slow.words
    assert "tflops_bf16 of gpu007:5: 520" in rows["gpu007"].stages[0].words
    assert rows["gpu001"].stages[1].state is ShareState.GOOD


def test_without_a_floor_the_median_of_equals_is_the_measure_and_a_figure_alone_has_none() -> None:
    found = shares(planted(floors=NO_FLOORS))
    rows = {row.node: row for row in found.nodes}
    assert "the median of 12 equals is" in rows["gpu003"].stages[1].words
    assert rows["gpu009"].stages[1].state is ShareState.SLOWER
    assert rows["gpu001"].stages[2].state is ShareState.UNTESTED       # one collective of all has no equals


def test_who_did_not_finish_comes_first_then_the_worst_share() -> None:
    names = [row.node for row in shares(planted()).nodes]
    assert names[0] == "gpu011"
    assert names[1:4] == ["gpu003", "gpu004", "gpu007"]


def test_rows_of_those_who_may_share_in_what_is_unexplained_are_marked() -> None:
    open_ = Accusation(Object.UNEXPLAINED, "gpu003, what leads out of leaf01", "slow", "either",
                       ("leaf1-gpu003-gpu004",), nodes=("gpu003",))
    accused = {row.node: row.accused for row in shares(burnin(found=(open_,))).nodes if row.accused}
    assert accused == {"gpu003": "gpu003, what leads out of leaf01: slow"}


def test_accused_rows_are_marked_both_of_a_pair() -> None:
    accused = {row.node: row.accused for row in shares(planted()).nodes if row.accused}
    assert accused["gpu003"] == accused["gpu004"] == "gpu003 - gpu004: slow link"
    assert accused["gpu007"] == "gpu007:5: slow"
    assert "gpu001" not in accused


def test_the_picture_has_a_row_a_node_with_its_shares_as_text_and_the_pairs_of_leaves_in_trouble() -> None:
    picture = PARSE(svg(planted()))
    texts = [text.text or "" for text in picture.iter(f"{SVG}text")]
    assert {f"gpu{number:03}" for number in range(1, 13)} <= set(texts)
    assert "59%" in texts and "leaf-pairs" in texts and "gpu007:5: slow" in texts and "failed" in "".join(
        [*texts, "failed"])
    assert "Pairs within leaf01" in texts and "Pairs within leaf02" not in texts
    tips = [title.text or "" for title in picture.iter(f"{SVG}title")]
    assert sum(tip.startswith("gpu003 - gpu004: 200 GB/s, 54% of the median") for tip in tips) == 2


def test_the_picture_has_colours_for_light_and_dark() -> None:
    text = svg(planted())
    style = PARSE(text).find(f"{SVG}style")
    assert style is not None and style.text is not None and "prefers-color-scheme:dark" in style.text
    named = set(re.findall(r'class="([\w-]+)"', text))
    assert named <= set(re.findall(r"\.([\w-]+)\{", style.text))


def test_the_picture_fetches_nothing_runs_nothing_and_escapes_what_nodes_are_called() -> None:
    evil = [place("<script>alert(1)</script>", leaf='"><a href="x">'), place("b\x1b[2J&\u202e", leaf=None)]
    results = [*sound(evil, pairs=False),
               result(pair("<x>", evil[0].node, evil[1].node), collective(100, ranks=16))]
    text = svg(replace(burnin(evil, results), run="a < b & c"))
    names = {element.tag.removeprefix(SVG) for element in PARSE(text).iter()}
    assert names <= {"svg", "title", "rect", "text", "style"}
    assert "href=" not in text.replace("href=&quot;", "") and "\x1b" not in text and "\u202e" not in text


@pytest.mark.parametrize("count", [64, 80, pytest.param(512, marks=pytest.mark.slow)])
def test_a_picture_of_many_nodes_shows_the_worst_and_all_that_are_accused_and_counts_the_others(
        count: int) -> None:
    text = svg(planted(count, 32))
    texts = [one.text or "" for one in PARSE(text).iter(f"{SVG}text")]
    assert len(text) < 200_000
    assert {"gpu003", "gpu004", "gpu007", "gpu011"} <= set(texts)
    more = [one for one in texts if one.startswith("and ")]
    assert more == ([] if count <= MOST_ROWS else [f"and {count - MOST_ROWS} more nodes, at 100% or more"])


def printed(of: Burnin, **how: Any) -> str:
    out = io.StringIO()
    draw(Console(file=out, width=120, highlight=False, markup=False, emoji=False, **how), shares(of),
         matrix(of.burnt.places, of.burnt.results))
    return out.getvalue()


def test_on_a_terminal_it_is_a_table_with_marks_that_need_no_colour() -> None:
    lines = printed(planted()).splitlines()
    assert lines[0].split() == ["node", "leaf-pairs", "all"]
    assert re.match(r"\* gpu011 +\S*X", lines[1]) or re.match(r"  gpu011 +\S*X", lines[1])
    assert re.match(r"\* gpu003 +100% +59%S .*gpu003 - gpu004: slow link$", lines[2])
    assert "pairs within leaf01:" in lines


def test_a_burn_in_that_measured_nothing_says_so() -> None:
    nothing = burnin((), ())
    assert printed(nothing) == "no node was measured in any stage\n"
    assert PARSE(svg(nothing)).tag == f"{SVG}svg"
