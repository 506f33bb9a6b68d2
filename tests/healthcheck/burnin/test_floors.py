"""Floors: learned and approved ones outrank published ones; a round trip; mistakes are one line."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.burnin.figures import FIGURES
from healthcheck.burnin.floors import (
    NAME,
    FloorProposal,
    Floors,
    LearnedFloor,
    approve,
    load_floors,
    read,
    write,
)
from healthcheck.burnin.published import BUSBW, GIB, Setting
from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset.ruleset import load_ruleset
from inventory.errors import RulesError, UsageError
from tests.healthcheck.burnin.made import FLOORS, H100, RULES
from tests.tries import tries

SETTING = Setting(BUSBW, "node", H100, 8, 1, 0, 0, 8 * GIB, "auto")
OURS = LearnedFloor(SETTING, (1, 1), 471.0, 1.5, 64, 456.9)
PROPOSAL = FloorProposal("2026-11-22T03:00:00.000Z", ("run-1", "run-2"),
                         (OURS, LearnedFloor(Setting("tflops_bf16", "node", H100, watts=700), (1, 1), 720.0,
                                             3.0, 512, 698.4, warning="88% of the 794 that h100-bf16 gives")))


def proposed(tmp_path: Path, proposal: FloorProposal = PROPOSAL) -> Path:
    path = tmp_path / "proposed.yaml"
    write(path, proposal)
    return path


def test_without_learned_floors_a_share_of_what_is_published_is_asked() -> None:
    floor = FLOORS.of(SETTING)
    assert (floor is not None and floor.least == pytest.approx(0.92 * 476) and floor.origin == "published"
            and "h100-node" in floor.why)


def test_below_four_gib_or_where_nothing_is_published_there_is_no_floor() -> None:
    assert FLOORS.of(replace(SETTING, size=2 * GIB)) is None
    assert FLOORS.of(replace(SETTING, gpu="NVIDIA L40S")) is None


def test_what_was_learned_and_approved_outranks_what_is_published() -> None:
    floors = Floors(RULES, (replace(OURS, by="the operator", at="2026-11-22"),))
    floor = floors.of(SETTING)
    assert (floor is not None and (floor.least, floor.origin) == (456.9, "learned")
            and "the operator" in floor.why)
    # Under any other setting it says nothing.
    assert (floors.of(replace(SETTING, algo="ring")) or floor).origin == "published"
    assert (floors.of(replace(SETTING, watts=500)) or floor).origin == "published"


def test_a_learned_floor_has_no_least_size_and_may_be_for_a_range_of_nodes() -> None:
    small = replace(SETTING, stage="all", size=GIB, nodes=60, nvlink=False, nics=8, gbps=400.0)
    floors = Floors(RULES, (LearnedFloor(small, (60, 64), 300, 1, 3, 291, by="x"),))
    assert (floors.of(replace(small, nodes=62)) or FLOORS.of(SETTING)).least == 291
    assert floors.of(replace(small, nodes=65)) is None
    # The soak of the same nodes is alike.
    assert floors.of(replace(small, stage="soak", nodes=64)) is not None


def test_the_file_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    assert read(proposed(tmp_path)) == PROPOSAL
    text = (tmp_path / "proposed.yaml").read_text()
    assert "Proposed, not approved" in text and "bus" not in text.splitlines()[3] and "n: 512" in text


def test_approving_writes_who_and_when_beside_every_floor_and_keeps_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    target = approve(proposed(tmp_path), folder, "  Jane\n Doe ", "2026-11-22T04:00:00Z", RULES)
    assert target == folder / NAME
    held = read(target, approved=True)
    assert ({(one.by, one.at) for one in held.floors} == {("Jane Doe", "2026-11-22T04:00:00Z")}
            and len(held.floors) == 2)
    newer = replace(PROPOSAL, floors=(replace(OURS, floor=460.0),))
    approve(proposed(tmp_path, newer), folder, "R. Roe", "2026-12-01T00:00:00Z", RULES)
    after = {one.setting.figure: one for one in read(target, approved=True).floors}
    assert ((after[BUSBW].floor, after[BUSBW].by) == (460.0, "R. Roe")
            and after["tflops_bf16"].by == "Jane Doe")
    floor = load_floors([packaged(), folder]).of(SETTING)
    assert floor is not None and floor.least == 460.0
    assert load_ruleset([packaged(), folder]).rules      # it is no file of rules


def test_a_floor_that_no_one_approved_is_not_taken_from_a_rules_folder(tmp_path: Path) -> None:
    proposed(tmp_path).rename(tmp_path / NAME)
    with pytest.raises(
        RulesError,
        match=r"burnin-floors.yaml:\d+:\d+: floors: 1: it is not approved: type `muster burnin approve"):
        load_floors([packaged(), tmp_path])


def test_approving_wants_a_name_and_something_to_approve(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--by"):
        approve(proposed(tmp_path), tmp_path / "site", " \n ", "now", RULES)
    with pytest.raises(UsageError, match="holds no floor"):
        approve(proposed(tmp_path, replace(PROPOSAL, floors=())), tmp_path / "site", "the operator", "now",
                RULES)
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize(("floor", "median", "said"), [
    (0.0, 471.0, "a floor of 0 requires nothing"),
    (1.6, 471.0, "a floor of 1.6 is 0.3% of its median 471, below 50%"),
    (150.0, 160.0, "a floor of 150 is 31.5% of the 476 of h100-node, below 50%"),
])
def test_a_floor_that_asks_for_too_little_is_neither_approved_nor_loaded(
    tmp_path: Path, floor: float, median: float, said: str,
) -> None:
    low = replace(PROPOSAL, floors=(PROPOSAL.floors[1], replace(OURS, floor=floor, median=median)))
    with pytest.raises(RulesError, match=rf"proposed.yaml:\d+:\d+: floors: 2: {re.escape(said)}"):
        approve(proposed(tmp_path, low), tmp_path / "site", "the operator", "now", RULES)
    # One that stands there already, from before this was asked, or changed by hand.
    (tmp_path / "old").mkdir()
    write(tmp_path / "old" / NAME,
          replace(low, floors=tuple(replace(one, by="x", at="y") for one in low.floors)))
    with pytest.raises(RulesError, match=rf"{NAME}:\d+:\d+: floors: 2: {re.escape(said)}"):
        load_floors([packaged(), tmp_path / "old"])


def test_a_site_may_say_how_low_a_floor_may_be(tmp_path: Path) -> None:
    low = replace(OURS, floor=150.0, median=160.0, by="x", at="y")
    write(tmp_path / NAME, replace(PROPOSAL, floors=(low,)))
    (tmp_path / "burnin.yaml").write_text("learn: {least_share: 0.3}\n")
    assert load_floors([packaged(), tmp_path]).learned == (low,)


def test_the_digest_changes_with_what_is_judged_by(tmp_path: Path) -> None:
    before = load_floors([packaged()]).digest
    approve(proposed(tmp_path), tmp_path / "site", "the operator", "now", RULES)
    assert load_floors([packaged(), tmp_path / "site"]).digest != before and len(before) == 64


@pytest.mark.parametrize(("old", "new", "said"), [
    ("muster.floors/1", "muster.floors/2", "schema: expected muster.floors/1"),
    ("  floor: 456.9", "  flor: 456.9", "floors: 1: unknown key 'flor'; did you mean 'floor'?"),
    ("  floor: 456.9", "  floor: low", "floors: 1: floor: expected a number"),
    ("  n: 64\n", "", "floors: 1: n is missing"),
    ("  stage: node", "  stage: nodes", "did you mean 'node'?"),
    ("- figure: tflops_bf16", "- 3\n- figure: tflops_bf16", "floors: 2: expected a map"),
    ("floors:\n", "floors: 3\nx:\n", "unknown key 'x'"),
])
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = proposed(tmp_path)
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(RulesError) as error:
        read(path)
    assert said in str(error.value) and str(path) in str(error.value) and "\n" not in str(error.value)


def test_the_same_setting_twice_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match="floors: 2: is for what 1 is for already"):
        proposed(tmp_path, replace(PROPOSAL, floors=(OURS, OURS)))
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=tries(50), deadline=None)
@given(st.builds(LearnedFloor, st.builds(
                     Setting, st.sampled_from(sorted(FIGURES)), st.sampled_from(["node", "rail", "all"]),
                     st.text(max_size=40), st.integers(1, 1024), st.just(3), st.integers(0, 64),
                     st.integers(0, 800), st.integers(0, 2**40), st.sampled_from(["", "auto", "ring"]),
                     st.integers(0, 2000), st.booleans()), st.just((3, 7)), st.integers(0, 10**5),
                 st.integers(0, 10**4), st.integers(1, 10**6), st.integers(0, 10**5), st.text(max_size=60)))
def test_any_floor_survives_the_way_through_the_file(tmp_path_factory: pytest.TempPathFactory,
                                                     floor: LearnedFloor) -> None:
    path = tmp_path_factory.mktemp("floors") / "proposed.yaml"
    try:
        write(path, FloorProposal("now", ("r",), (floor,)))
    except RulesError:
        assert not path.exists()    # what could not be read again is not written
        return
    (again,) = read(path).floors
    assert (again.setting.figure, again.nodes, again.floor, again.n) == (floor.setting.figure, (3, 7),
                                                                         floor.floor, floor.n)
    write(path, read(path))
    assert read(path).floors == (again,)
