"""Comparison of two burn-ins: changes larger than noise, what fell behind, and what was changed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin.compare import CONFIDENCE, FigureChange, compare, interval
from healthcheck.burnin.comparepage import document, lines
from healthcheck.burnin.document import Burnin, write
from healthcheck.burnin.model import TaskResult
from healthcheck.burnin.published import BUSBW
from inventory.nodeset import fold
from tests.command import muster
from tests.documents import schema
from tests.healthcheck.burnin import made
from tests.tries import tries

EIGHT = made.places(8)


def run(name: str, results: list[TaskResult] | None = None, **more: object) -> Burnin:
    results = made.sound(EIGHT) if results is None else results
    return made.burnin(EIGHT, results, run=name, **more)      # type: ignore[arg-type]


def scaled(figure: str, share: float, *, noise: float = 0.0, seed: int = 1) -> list[TaskResult]:
    """The sound results with one figure of every rank times `share`, and a little noise of its own for each
    node.
    """
    chance = random.Random(seed)
    found = made.sound(EIGHT)
    for one in found:
        if any(figure in report.figures for report in one.reports):
            times = share * (1 + noise * chance.uniform(-1, 1))
            old = one.reports[0].figures
            found = made.changed(found, one.task.id, "*",
                                 figures={name: times * value for name, value in old.items()
                                          if name == figure})
    return found


def by_figure(before: Burnin, after: Burnin) -> dict[tuple[str, str], FigureChange]:
    return {(one.setting.figure, one.setting.stage): one.change for one in compare(before, after).figures}


def test_two_runs_of_the_same_machines_differ_in_nothing() -> None:
    found = compare(run("a"), run("b"))
    assert (not found.slower and found.comparable and not found.differences and not found.verdicts
            and not found.only)
    assert {one.change for one in found.figures} <= {FigureChange.SAME, FigureChange.TOO_FEW}


def test_a_driver_that_costs_three_per_cent_of_busbw_is_found_in_its_stage_with_what_changed() -> None:
    facts = {**made.NCCL, "driver": "575.12"}
    slower = [one for one in scaled(BUSBW, 0.97, noise=0.004) if one.task.stage.value == "node"]
    others = [one for one in made.sound(EIGHT, facts=facts) if one.task.stage.value != "node"]
    after = run("b", [*slower, *others])
    found = compare(run("a"), after)
    changes = {(one.setting.figure, one.setting.stage): one for one in found.figures}
    node = changes[BUSBW, "node"]
    assert (found.slower and node.change is FigureChange.SLOWER and node.n == 8
            and node.share == pytest.approx(-0.03, abs=0.004))
    assert node.low is not None and node.high is not None and node.low <= node.share <= node.high < 0
    assert [(one.name, one.before) for one in found.differences] == [("driver", "570.86")]
    assert [one.change for key, one in changes.items()
            if key != (BUSBW, "node")].count(FigureChange.SLOWER) == 0


@pytest.mark.parametrize(("share", "change"), [(0.995, FigureChange.SAME), (1.005, FigureChange.SAME),
                                               (0.985, FigureChange.SLOWER), (1.02, FigureChange.FASTER)])
def test_less_than_a_per_cent_is_no_change_and_more_is_one(share: float, change: FigureChange) -> None:
    assert by_figure(run("a"), run("b", scaled("memory_gb_s", share)))["memory_gb_s", "node"] is change


def test_one_gpu_that_fell_behind_is_named_though_the_whole_is_as_it_was() -> None:
    after = made.changed(made.sound(EIGHT), "node-rate-gpu003", "gpu003:5", figures={"tflops_bf16": 600.0})
    found = compare(run("a"), run("b", after))
    (fell,) = [one for one in found.figures if one.fell]
    assert (found.slower and fell.change is FigureChange.SAME
            and [name for name, _ in fell.fell] == ["gpu003:5"])
    shown = list(lines(found, fold))
    assert any(line.startswith("  gpu003:5: -16") and "where the others changed by +0.0%" in line
               for line in shown), shown
    # and its outcome differs
    assert any("before" in line and "gpu003" in line and "fail" in line for line in shown)


def test_fewer_than_eight_show_no_change_and_what_only_one_run_measured_is_listed() -> None:
    whole = made.sound(EIGHT)
    found = compare(run("a"), run("b", [one for one in whole if one.task.stage.value != "all"]))
    assert [(one, setting.stage) for one, setting in found.only] == [("a", "all")]
    few = [one for one in whole if set(one.task.nodes) <= {"gpu001", "gpu002"}]
    halved = [one for one in scaled(BUSBW, 0.5) if set(one.task.nodes) <= {"gpu001", "gpu002"}]
    assert by_figure(run("a", few), run("b", halved))[BUSBW, "node"] is FigureChange.TOO_FEW


@given(st.integers(0, 400), st.integers(0, 2**32))
def test_the_interval_is_made_of_samples_and_there_is_none_below_eight(n: int, seed: int) -> None:
    chance = random.Random(seed)
    values = [chance.random() for _ in range(n)]
    found = interval(values)
    assert (found is None) == (n < 8)
    if found is not None:
        assert found[0] <= found[1] and set(found) <= set(values)


@pytest.mark.parametrize("n", [8, 9, 20, 64])
def test_the_interval_holds_the_median_as_often_as_it_says(n: int) -> None:
    chance = random.Random(n)
    held = sum(low <= 0 <= high for _ in range(4000)
               if (bounds := interval(chance.gauss(0, 1) for _ in range(n))) for low, high in [bounds])
    assert held / 4000 >= CONFIDENCE - 0.005


def test_noise_alone_is_called_a_change_less_than_once_in_a_hundred_figures() -> None:
    called = compared = 0
    for seed in range(tries(30)):
        found = compare(run("a", scaled("memory_gb_s", 1, noise=0.05, seed=seed)),
                        run("b", scaled("memory_gb_s", 1, noise=0.05, seed=1000 + seed)))
        compared += len(found.figures)
        called += sum(one.change in (FigureChange.SLOWER, FigureChange.FASTER) for one in found.figures)
    assert compared > 100 and called / compared <= 0.01


def test_the_command_prints_both_forms_and_its_exit_code_says_whether_anything_got_slower(
    tmp_path: Path,
) -> None:
    write(tmp_path / "state", run("a"))
    write(tmp_path / "state", run("b", scaled("memory_gb_s", 0.9)))
    done = muster("burnin", "compare", "a", "b", home=tmp_path)
    assert (done.returncode == 1 and "slower:\n  -10.0% (" in done.stdout
            and "memory_gb_s, node, " in done.stdout), done
    assert (muster("burnin", "compare", "b", "a", home=tmp_path).returncode
            == muster("burnin", "compare", "a", "a", home=tmp_path).returncode == 0)
    document = json.loads(muster("burnin", "compare", "a", "b", "--format", "json", home=tmp_path).stdout)
    jsonschema.validate(document, schema("burnin-compare-1"))
    assert document["slower"] and document["schema"] == "muster.burnin-compare/1"
    assert muster("burnin", "compare", "a", "c",
                  home=tmp_path).stderr.endswith(
                      "no such burn-in is stored; see: muster burnin show --list\n")


def test_the_document_is_as_its_schema_says() -> None:
    after = run("b", made.changed(scaled(BUSBW, 0.9), "node-rate-gpu003", "gpu003:5",
                                  figures={"tflops_bf16": 600.0}))
    jsonschema.validate(document(compare(run("a"), after)), schema("burnin-compare-1"))
