"""What a change made worse is found, one that does nothing is not accused, and what was not measured is never
a pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from healthcheck.change import page
from healthcheck.change.judge import judge
from healthcheck.change.model import ChangeJudgement, ChangeVerdict, Compared, Grade, LogForm
from inventory.nodeset import fold
from tests.healthcheck.change import planted
from tests.healthcheck.change.planted import BEGAN, HOUR, Fleet

NOW = BEGAN + 2 * HOUR
COLLECTIVE = planted.FIGURES[3]
PAIRS = planted.FIGURES[7]


def judged(fleet: Fleet, **more: bool) -> ChangeJudgement:
    return judge(fleet.change, fleet.after, NOW, "ann", **more)


def of(found: ChangeJudgement, grade: Grade) -> list[Compared]:
    return [one for one in found.comparisons if one.grade is grade]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("figure", [COLLECTIVE, PAIRS])
def test_a_change_that_slows_one_collective_by_three_per_cent_is_worse_in_that_figure_alone(
        seed: int, figure: str) -> None:
    found = judged(planted.slower(planted.fleet(seed, 12, 12), figure, 0.97))
    assert found.verdict is ChangeVerdict.WORSE
    assert [one.key for one in of(found, Grade.WORSE)] == [f"figures/{figure}"]
    assert "beyond the controls" in of(found, Grade.WORSE)[0].words and found.verdict.exit_code == 1


@pytest.mark.parametrize("seed", range(10))
def test_a_change_that_brings_a_new_kernel_line_is_worse_with_that_line_as_evidence(seed: int) -> None:
    fleet = planted.new_line(planted.fleet(seed))
    found = judged(fleet)
    (line,) = of(found, Grade.WORSE)
    assert found.verdict is ChangeVerdict.WORSE and line.nodes == fleet.change.canary
    assert (planted.NEW_LINE.template in line.words
            and "8 of 8 canary nodes and none of 8 controls" in line.words)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("everyone", [1.0, 0.95])
def test_ten_changes_that_do_nothing_are_not_accused_also_where_all_nodes_got_slower(seed: int,
                                                                                     everyone: float) -> None:
    found = judged(planted.fleet(seed, everyone=everyone))
    assert of(found, Grade.WORSE) == [] and found.verdict is ChangeVerdict.PASSED, found.comparisons


def test_over_many_changes_that_do_nothing_the_share_of_accusations_is_as_stated() -> None:
    verdicts = [judged(planted.fleet(seed, 6, 8, noise=0.01, strays=0.2)).verdict
                for seed in range(1000, 1300)]
    assert verdicts.count(ChangeVerdict.WORSE) <= 0.01 * len(verdicts)


def test_noise_that_could_hide_a_loss_is_no_pass() -> None:
    found = judged(planted.fleet(1, 4, 4, noise=0.03))
    assert found.verdict is ChangeVerdict.UNCLEAR and any("could hide" in one.words
                                                          for one in of(found, Grade.UNCLEAR))


def test_a_line_that_controls_show_too_and_one_on_a_single_node_are_noise() -> None:
    fleet = planted.fleet(2, strays=0.0)
    both = judged(planted.new_line(fleet, (*fleet.change.canary, *fleet.change.controls)))
    single = judged(planted.new_line(fleet, fleet.change.canary[:1]))
    assert both.verdict is single.verdict is ChangeVerdict.PASSED
    assert [one.nodes for one in of(single, Grade.NOISE) if one.kind == "log"] == [fleet.change.canary[:1]]


def test_new_lines_that_the_kernel_means_as_information_are_listed_and_accuse_no_one() -> None:
    found = judged(planted.new_line(planted.fleet(3, strays=0.0), line=LogForm("Linux version <*>", 5)))
    assert found.verdict is ChangeVerdict.PASSED
    assert any("Linux version <*>" in one.words for one in of(found, Grade.NOISE))


def test_a_rule_that_newly_fails_on_the_canary_is_worse_and_one_node_of_many_is_neither_pass_nor_proof(
) -> None:
    fleet = planted.fleet(4, strays=0.0)
    found = judged(planted.failing(fleet, "gpu-count", fleet.change.canary[:3]))
    assert (found.verdict is ChangeVerdict.WORSE
            and "3 of 8 canary nodes and 0 of 8 controls" in of(found, Grade.WORSE)[0].words)
    assert judged(planted.failing(fleet, "gpu-count",
                                  fleet.change.canary[:1])).verdict is ChangeVerdict.UNCLEAR
    both = planted.failing(fleet, "gpu-count", (*fleet.change.canary, *fleet.change.controls))
    assert judged(both).verdict is ChangeVerdict.PASSED


def test_what_can_no_longer_be_measured_is_never_a_pass() -> None:
    fleet = planted.fleet(5, strays=0.0)
    assert judged(planted.unmeasured(fleet, "gpu-ecc",
                                     fleet.change.canary[:1])).verdict is ChangeVerdict.UNCLEAR
    every = planted.unmeasured(fleet, "gpu-ecc", (*fleet.change.canary, *fleet.change.controls))
    assert judged(every).verdict is ChangeVerdict.UNCLEAR
    only = judged(planted.unmeasured(fleet, "gpu-ecc", fleet.change.canary))
    assert (only.verdict is ChangeVerdict.WORSE
            and "can no longer be measured" in of(only, Grade.WORSE)[0].words)


@pytest.mark.parametrize("missing",
                         ["away", "old", "figures", "one figure", "some figures", "controls", "log"])
def test_a_measurement_that_is_missing_makes_the_verdict_cannot_tell(missing: str) -> None:
    fleet = planted.fleet(6, strays=0.0)
    ours, theirs = fleet.change.canary, fleet.change.controls
    after = {
        "away": lambda: planted.away(fleet, ours[:1]), "old": lambda: planted.as_before(fleet, ours[:1]),
        "figures": lambda: planted.not_burnt_in(fleet),
        "one figure": lambda: planted.not_burnt_in(fleet, COLLECTIVE),
        "some figures": lambda: planted.not_burnt_in(fleet, COLLECTIVE, ours[:1]),
        "controls": lambda: planted.away(fleet, theirs),
        "log": lambda: replace(fleet, after=replace(fleet.after, nodes={
            name: replace(one, log=None, unlogged="denied") for name, one in fleet.after.nodes.items()})),
    }[missing]()
    found = judged(after)
    assert (found.verdict is ChangeVerdict.UNCLEAR and found.verdict.exit_code == 3
            and of(found, Grade.UNCLEAR))


@pytest.mark.parametrize("kind", ["results", "log", "figures"])
def test_what_was_not_measured_before_cannot_pass_unless_it_was_left_out_from_the_start(kind: str) -> None:
    fleet = planted.fleet(7, strays=0.0)
    before = fleet.change.before
    nodes = {name: replace(one, **({"missing": "too old"} if kind == "results"
                                   else {"log": None, "unlogged": "denied"}
                                   if kind == "log" else {})) for name, one in before.nodes.items()}
    before = replace(before, nodes=nodes, figures=() if kind == "figures" else before.figures)
    change = replace(fleet.change, before=before)
    assert judge(change, fleet.after, NOW, "ann", made=True).verdict is ChangeVerdict.UNCLEAR
    left_out = judge(replace(change, without=(kind,)), fleet.after, NOW, "ann", made=True)
    assert left_out.verdict is ChangeVerdict.PASSED and any(kind in remark for remark in left_out.remarks)


def test_no_kind_of_evidence_is_no_pass() -> None:
    found = judged(planted.fleet(8, without=("results", "log", "figures")))
    assert found.verdict is ChangeVerdict.UNCLEAR


def test_a_change_that_nothing_shows_is_not_judged_as_made_unless_a_person_says_so() -> None:
    fleet = planted.fleet(9, strays=0.0)
    same = {name: replace(one, versions=fleet.change.before.nodes[name].versions, boot=f"{name}-1")
            for name, one in fleet.after.nodes.items()}
    unmade = replace(fleet, after=replace(fleet.after, nodes=same))
    assert (judged(unmade).verdict is ChangeVerdict.UNCLEAR
            and judged(unmade, made=True).verdict is ChangeVerdict.PASSED)


def test_controls_that_got_the_change_too_are_left_out_and_named() -> None:
    fleet = planted.fleet(10, strays=0.0)
    name = fleet.change.controls[0]
    nodes = {**fleet.after.nodes,
             name: replace(fleet.after.nodes[name], versions={"driver": "575", "kernel": "6.8.0"})}
    found = judged(replace(fleet, after=replace(fleet.after, nodes=nodes)))
    assert any(name in remark and "versions changed too" in remark for remark in found.remarks)


def test_rules_that_changed_between_leave_it_open() -> None:
    fleet = planted.fleet(11, strays=0.0)
    assert judged(replace(fleet, after=replace(fleet.after, rules="others"))).verdict is ChangeVerdict.UNCLEAR


def test_a_restart_without_any_log_that_shows_a_start_leaves_lines_of_the_start_open_and_names_none_as_new(
) -> None:
    fleet = planted.new_line(planted.fleet(12, strays=0.0))
    torn = {name: replace(one, log=replace(one.log, whole=False))
            for name, one in fleet.change.before.nodes.items() if one.log}
    starting = {name: replace(one, log=replace(one.log, starting=frozenset({"new"})))
                for name, one in fleet.after.nodes.items() if one.log}
    change = replace(fleet.change, before=replace(fleet.change.before, nodes=torn))
    found = judge(change, replace(fleet.after, nodes=starting), NOW, "ann")
    assert found.verdict is ChangeVerdict.UNCLEAR and of(found, Grade.WORSE) == []


def test_one_run_of_all_nodes_is_too_few_and_repeated_runs_show_the_loss() -> None:
    fleet = planted.fleet(13, strays=0.0)

    def whole(values: tuple[float, ...], share: float) -> list[planted.FigureSeries]:
        return [planted.FigureSeries("busbw, all", "8 nodes", nodes,
                                     tuple(value * (share if nodes is fleet.change.canary else 1)
                                           for value in values))
                for nodes in (fleet.change.canary, fleet.change.controls)]

    def verdict(before: tuple[float, ...], after: tuple[float, ...], share: float) -> ChangeVerdict:
        change = replace(fleet.change,
                         before=replace(fleet.change.before,
                                        figures=(*fleet.change.before.figures, *whole(before, 1.0))))
        stood = replace(fleet.after, figures=(*fleet.after.figures, *whole(after, share)))
        return judge(change, stood, NOW, "ann").verdict

    runs = (385.0, 386.0, 384.5)
    assert verdict((385.0,), (385.0,), 0.97) is ChangeVerdict.UNCLEAR
    assert verdict(runs, runs, 1.0) is ChangeVerdict.PASSED and verdict(runs, runs,
                                                                        0.96) is ChangeVerdict.WORSE


def test_a_rule_that_is_left_out_since_is_no_pass_and_one_that_always_was_is_none_of_the_changes() -> None:
    fleet = planted.fleet(14, strays=0.0)
    ours = fleet.change.canary
    found = judged(planted.skipping(fleet, ours[:1], since=("gpu-ecc",)))
    assert found.verdict is ChangeVerdict.UNCLEAR
    assert [(one.key, one.nodes) for one in of(found, Grade.UNCLEAR)] == [("results/gpu-ecc", ours[:1])]
    assert judged(planted.skipping(fleet, ours, before=("gpu-ecc",),
                                   since=("gpu-ecc",))).verdict is ChangeVerdict.PASSED
    counted = judged(planted.skipping(fleet, ours[:2], count=1))
    assert (counted.verdict is ChangeVerdict.UNCLEAR
            and [one.key for one in of(counted, Grade.UNCLEAR)] == ["results/skipped"])


def test_a_warning_in_which_each_node_differs_is_no_pass_and_no_proof() -> None:
    fleet = planted.fleet(15, strays=0.0)
    for name in fleet.change.canary:
        fleet = planted.new_line(fleet, (name,), LogForm(f"NVRM: board {name} lost", 3), f"own {name}")
    found = judged(fleet)
    assert found.verdict is ChangeVerdict.UNCLEAR and [one.key
                                                       for one in of(found, Grade.UNCLEAR)] == ["log/lone"]


def test_a_boot_that_was_not_read_shows_no_change() -> None:
    fleet = planted.fleet(16, strays=0.0)
    before = {name: replace(one, boot="") for name, one in fleet.change.before.nodes.items()}
    since = {name: replace(one, versions=before[name].versions) for name, one in fleet.after.nodes.items()}
    change = replace(fleet.change, before=replace(fleet.change.before, nodes=before))
    found = judge(change, replace(fleet.after, nodes=since), NOW, "ann")
    assert found.verdict is ChangeVerdict.UNCLEAR and [one.kind
                                                       for one in of(found, Grade.UNCLEAR)] == ["made"]


def test_the_snapshots_of_before_are_never_those_of_since_though_the_clock_was_behind_as_it_began() -> None:
    fleet = planted.fleet(17, strays=0.0)
    change = replace(fleet.change, began=BEGAN - 2 * HOUR)
    assert judge(change, fleet.change.before, NOW, "ann", made=True).verdict is ChangeVerdict.UNCLEAR


def test_a_rule_that_comes_and_goes_on_a_tenth_of_all_nodes_seldom_accuses_a_change() -> None:
    verdicts = [judged(planted.flapping(planted.fleet(seed, strays=0.0, without=("figures", "log")),
                                        "time-offset", 0.1, seed)).verdict
                for seed in range(300)]
    # 0.08 where only controls since say how often
    assert verdicts.count(ChangeVerdict.WORSE) <= 0.04 * len(verdicts)


def test_a_figure_that_half_of_the_canary_never_had_or_only_with_others_is_no_pass_and_is_said_at_the_start(
) -> None:
    fleet = planted.never_burnt_in(planted.fleet(18, strays=0.0), COLLECTIVE, planted.names(5, 4))
    found = judged(fleet)
    assert found.verdict is ChangeVerdict.UNCLEAR
    assert [(one.key, one.nodes)
            for one in of(found, Grade.UNCLEAR)] == [(f"figures/{COLLECTIVE}", planted.names(5, 4))]
    assert any(COLLECTIVE in line and "gpu[005-008]" in line for line in page.unmeasured(fleet.change, fold))
    mixed = planted.together(planted.fleet(18, strays=0.0), "busbw, all", 0.8)
    found = judged(mixed)
    assert (found.verdict is ChangeVerdict.UNCLEAR
            and [one.key for one in of(found, Grade.UNCLEAR)] == ["figures/busbw, all"])
    left = replace(mixed.change, without=("figures/*, all",))
    assert judge(left, mixed.after, NOW,
                 "ann").verdict is ChangeVerdict.PASSED and not list(page.unmeasured(left, fold))
