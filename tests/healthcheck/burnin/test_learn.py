"""Learning floors: from enough sound machines only, and stricter than equals for no one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.burnin.document import kept, write
from healthcheck.burnin.documentread import load
from healthcheck.burnin.floors import Floors, approve, load_floors, read
from healthcheck.burnin.floors import write as write_floors
from healthcheck.burnin.judge import judge
from healthcheck.burnin.judgement import BurnInOutcome
from healthcheck.burnin.learn import learn
from healthcheck.burnin.model import TaskResult
from healthcheck.burnin.published import BUSBW
from healthcheck.config.rulesfolder import packaged
from inventory.errors import UsageError
from tests.healthcheck.burnin.made import RULES, burnin, burnt, changed, places, sound

EIGHT = places(8)


def test_a_floor_is_proposed_for_each_setting_that_enough_nodes_have_shown() -> None:
    learning = learn([burnin()], RULES, 1795316400.0)
    by = {(one.setting.figure, one.setting.stage): one for one in learning.proposal.floors}
    one = by[BUSBW, "node"]
    # Of eight that scatter by 0.3 % it is not believed that sound ones do not scatter by 1 %; of 64 it is.
    assert ((one.n, one.median) == (8, 472.708)
            and one.floor == pytest.approx((1 - 0.064) * one.median, rel=1e-2))
    assert by["tflops_bf16", "node"].floor == pytest.approx(0.96 * 720, rel=1e-2)
    assert by["tflops_bf16", "node"].n == 64 and (BUSBW, "leaf-pairs") in by
    assert (not one.by and learning.proposal.runs == ("20261122T030000-1",)
            and learning.proposal.learned == "2026-11-22T03:00:00.000Z")


def test_what_too_few_have_shown_is_left_out_and_reported() -> None:
    learning = learn([burnin()], RULES, 0)
    assert [line for line in learning.left_out if "all" in line and "1 run of all nodes, wanted 3" in line]
    three = learn([burnin(run=f"r{number}") for number in range(3)], RULES, 0)
    assert (any(one.setting.stage == "all" and one.n == 3 for one in three.proposal.floors)
            and not three.left_out)


def test_a_floor_far_below_what_a_quarter_of_the_machines_reach_is_proposed_with_a_warning() -> None:
    """Six of eight nodes are slow alike, and nothing is published for it: no one is accused."""
    results: list[TaskResult] = sound(EIGHT)
    for number in range(6):
        results = changed(results, f"node-memory-gpu00{number + 1}", "*", figures={"memory_gb_s": 900.0})
    learning = learn([burnin(EIGHT, results)], RULES, 0)
    assert [line for line in learning.warnings if line.startswith("memory_gb_s, node")
            and line.endswith("of them reach: check whether the others are slow")]
    assert not any("quarter of them" in line for line in learn([burnin()], RULES, 0).warnings)


def test_seven_nodes_are_too_few_for_anything() -> None:
    seven = places(7)
    with pytest.raises(UsageError, match=r"nothing can be learned from 1 burn-in yet: .* wanted \d"):
        learn([burnin(seven, sound(seven))], RULES, 0)
    with pytest.raises(UsageError, match="no burn-in is stored"):
        learn([], RULES, 0)


def test_the_sick_do_not_become_the_norm() -> None:
    nine = places(9)
    sick = burnin(nine, changed(sound(nine), "node-rate-gpu003", "*", figures={"tflops_bf16": 300.0}))
    floors = {one.setting.figure: one for one in learn([sick], RULES, 0).proposal.floors
              if one.setting.stage == "node"}
    assert floors["tflops_bf16"].n == 64 and floors["tflops_bf16"].median > 719
    assert floors["memory_gb_s"].n == 64     # nothing else of that node counts, either


def test_where_values_scatter_the_floor_is_further_down() -> None:
    results = sound(EIGHT)
    for number in range(8):
        results = changed(results, f"node-allreduce-gpu00{number + 1}", "*",
                          figures={BUSBW: 460.0 + 5 * number})
    one = next(one for one in learn([burnin(EIGHT, results)], RULES, 0).proposal.floors
               if one.setting.stage == "node" and one.setting.figure == BUSBW)
    assert (one.median == 477.5 and one.mad == 10
            and one.floor == pytest.approx(477.5 - 6.4 * 1.4826 * 10, rel=1e-2))


def test_a_floor_far_below_what_is_published_warns() -> None:
    results = sound(EIGHT)
    for number in range(8):
        results = changed(results, f"node-allreduce-gpu00{number + 1}", "*",
                          figures={BUSBW: 438.0 + 6 * number})
    learning = learn([burnin(EIGHT, results)], RULES, 0)
    (warning,) = learning.warnings
    assert "of the 476 that h100-node gives" in warning and "check this site's machines" in warning
    assert not learn([burnin()], RULES, 0).warnings


def test_from_a_stored_burn_in_to_a_floor_that_judges_the_next(tmp_path: Path) -> None:
    write(tmp_path, burnin())
    write(tmp_path, burnin(run="another"))
    learning = learn([load(path) for path in kept(tmp_path)], RULES, 0)
    proposed = tmp_path / "proposed.yaml"
    write_floors(proposed, learning.proposal)
    assert read(proposed) == learning.proposal
    approve(proposed, tmp_path / "site", "the operator", "2026-11-22T04:00:00Z", RULES)
    floors = load_floors([packaged(), tmp_path / "site"])
    assert judge(burnt(EIGHT, sound(EIGHT)), floors).verdict is BurnInOutcome.PASS
    # 93% of what this site is used to passes what is published, and not what was learned.
    slower = sound(EIGHT)
    for number in range(8):
        slower = changed(slower, f"node-allreduce-gpu00{number + 1}", "*", figures={BUSBW: 0.93 * 472})
    assert judge(burnt(EIGHT, slower), Floors(RULES)).verdict is BurnInOutcome.PASS
    assert len(judge(burnt(EIGHT, slower), floors).accusations) == 8


def test_no_learned_floor_accuses_those_that_it_was_learned_from() -> None:
    learning = learn([burnin()], RULES, 0)
    approved = Floors(RULES, tuple(replace(one, by="the operator") for one in learning.proposal.floors))
    assert judge(burnt(EIGHT, sound(EIGHT)), approved).verdict is BurnInOutcome.PASS


def test_no_floor_is_proposed_that_asks_for_nothing() -> None:
    results = sound(EIGHT)
    for number in range(8):     # nodes of which the slowest is 300 times slower than the fastest
        results = changed(results, f"node-allreduce-gpu00{number + 1}", "*",
                          figures={BUSBW: 480.0 / 300 ** (number / 7)})
    learning = learn([burnin(EIGHT, results,
                             floors=Floors(replace(RULES, relative={"nccl": None}, published=())))], RULES, 0)
    assert not any(one.setting.figure == BUSBW and one.setting.stage == "node"
                   for one in learning.proposal.floors)
    assert all(one.floor >= 0.5 * one.median for one in learning.proposal.floors)
    assert any("a floor of 0 requires nothing" in line and "busbw_gb_s, node" in line
               for line in learning.left_out)


def test_no_floor_is_proposed_far_below_what_is_published() -> None:
    results = sound(EIGHT)
    for number in range(8):
        results = changed(results, f"node-allreduce-gpu00{number + 1}", "*",
                          figures={BUSBW: 200.0 + number / 10})
    learning = learn([burnin(EIGHT, results, floors=Floors(replace(RULES, published=())))], RULES, 0)
    (line,) = [line for line in learning.left_out if "busbw_gb_s, node" in line]
    assert "of the 476 of h100-node, below 50%" in line
