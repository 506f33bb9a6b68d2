"""Goodput, utilisation and the team's page: jobs whose figures are worked by hand."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin.publishedload import load_burnin
from healthcheck.cli.watchreport import checkpoint_cost
from healthcheck.config.rulesfolder import folders
from healthcheck.store.file import opened
from healthcheck.watch.goodput import goodput
from healthcheck.watch.mfu import ModelShape, utilisation
from healthcheck.watch.model import (
    JobAttempt,
    SlowPattern,
    StepPhase,
    StepTime,
    StepWindow,
    WatchCause,
    WatchFinding,
    WatchLevel,
)
from healthcheck.watch.steplines import line
from tests.command import muster
from tests.documents import validate
from tests.healthcheck.accounting.test_summary import swept

NONE = (float("nan"),) * 5


def window(first: int, seconds: float = 1.0, attempt: int = 0, **phases: float) -> StepWindow:
    """Ten steps that end at the time of their last."""
    return StepWindow(attempt, first, first + 9, first + 9.0, 4, seconds,
                      {StepPhase(name): value for name, value in phases.items()})


def found(level: WatchLevel, lost: float, since: int, last: float,
          pattern: SlowPattern = SlowPattern.STEP_DOWN,
          phase: StepPhase | None = None) -> WatchFinding:
    return WatchFinding("x", level, "rank 1", (1,), ("gpu1",), pattern, phase, 0, since,
                        float(since), last, 3,
                        lost, lost, True)


def attempt(number: int, first: int, last: int, began: float, ended: float, lost: int = 0,
            idle: float = 0.0) -> JobAttempt:
    return JobAttempt(number, first, last, began, ended, 4, lost, idle)


def test_a_job_that_only_steps_is_all_good() -> None:
    made = goodput([attempt(0, 1, 100, 0.0, 100.0)], [window(first) for first in range(1, 101, 10)], [])
    assert made is not None and made.goodput == pytest.approx(1) and made.checkpoint_s is None


def test_a_restart_costs_the_time_without_steps_and_the_steps_done_again() -> None:
    before = [window(first) for first in range(1, 101, 10)]
    after = [window(first, attempt=1) for first in range(81, 201, 10)]
    made = goodput([attempt(0, 1, 100, 0.0, 100.0), attempt(1, 81, 200, 160.0, 280.0, 20, 60.0)],
                   [*before, *after], [])
    assert made is not None
    (one,) = made.restarts
    assert (one.idle_s, one.lost_steps, one.again_s, one.cost_s) == (60, 20, pytest.approx(20),
                                                                     pytest.approx(80))
    assert (made.wall_s, made.useful_s) == (pytest.approx(280), pytest.approx(200))


def test_a_hang_before_a_restart_is_a_hang_and_no_second_time_idle() -> None:
    hung = found(WatchLevel.RANK, 45, 100, 145.0, SlowPattern.HANG)
    made = goodput([attempt(0, 1, 100, 0.0, 100.0), attempt(1, 101, 110, 160.0, 170.0, 0, 60.0)],
                   [*(window(first) for first in range(1, 101, 10)), window(101, attempt=1)], [hung])
    assert made is not None
    assert (made.hang_s, made.idle_s, made.wall_s) == (45, 15, pytest.approx(170))


def test_time_goes_to_the_cause_of_the_worst_finding_alone() -> None:
    windows = [window(first, 1.0 if first < 51 else 1.5) for first in range(1, 101, 10)]
    slow, less = found(WatchLevel.RANK, 0.5, 51, 100.0), found(WatchLevel.RANK, 0.3, 51, 100.0)
    made = goodput([attempt(0, 1, 100, 0.0, 125.0)], windows, [slow, less])
    assert made is not None
    assert made.by_cause == {WatchCause.UNKNOWN: pytest.approx(25)}
    assert (made.useful_s, made.slow_s) == (pytest.approx(100), 0)


def test_checkpoints_data_and_slow_steps_without_a_finding_are_apart() -> None:
    windows = [window(1, 2.0, checkpoint=1.0), window(11), window(21), window(31), window(41, 1.2, data=0.2),
               window(51, 1.3)]
    made = goodput([attempt(0, 1, 60, 0.0, 75.0)], windows, [])
    assert made is not None
    assert (made.checkpoint_s, made.data_s) == (pytest.approx(10), pytest.approx(2))
    assert (made.slow_s, made.useful_s) == (pytest.approx(3), pytest.approx(60))
    assert checkpoint_cost(windows) == pytest.approx(10)


def test_a_straggler_that_was_always_there_hides_no_other_slow_step() -> None:
    windows = [window(first, 1.5 if first < 81 else 2.0) for first in range(1, 101, 10)]
    made = goodput([attempt(0, 1, 100, 0.0, 160.0)], windows, [found(WatchLevel.RANK, 0.5, 1, 100.0)])
    assert made is not None
    assert (made.usual_s, made.slow_s, made.useful_s) == (1.0, pytest.approx(10), pytest.approx(100))


def test_steps_that_no_line_speaks_of_are_not_useful() -> None:
    made = goodput([attempt(0, 1, 100, 0.0, 100.0)], [window(91)], [])
    assert made is not None and made.unknown_s == pytest.approx(90) and made.goodput == pytest.approx(0.1)


@given(st.lists(st.tuples(st.floats(0.001, 100), st.floats(0, 100), st.floats(0, 100)),
                min_size=1, max_size=20),
       st.lists(st.tuples(st.sampled_from(WatchLevel), st.floats(0, 200), st.integers(1, 200),
                          st.sampled_from(SlowPattern), st.sampled_from([None, *StepPhase])), max_size=5),
       st.floats(0, 1e6))
def test_whatever_is_found_the_parts_add_up_to_the_whole(
    steps: list[tuple[float, float, float]],
    named: list[tuple[WatchLevel, float, int, SlowPattern, StepPhase | None]], more: float,
) -> None:
    windows = [window(10 * number + 1, seconds, checkpoint=checkpoint, data=data)
               for number, (seconds, checkpoint, data) in enumerate(steps)]
    took = sum(10 * seconds for seconds, _, _ in steps)
    made = goodput([attempt(0, 1, 10 * len(steps), 0.0, took + more)], windows,
                   [found(level, lost, since, since + 100.0, pattern, phase)
                    for level, lost, since, pattern, phase in named])
    assert made is not None and 0 <= made.goodput <= 1 + 1e-9
    parts = [made.useful_s, made.idle_s, made.again_s, made.hang_s, made.checkpoint_s or 0, made.data_s or 0,
             made.slow_s, made.between_s, made.unknown_s, *made.by_cause.values()]
    assert min(parts) >= 0 and sum(parts) == pytest.approx(made.wall_s)


def test_mfu_is_by_palms_formula() -> None:
    # PaLM 540B, appendix B: 118 layers, 48 heads of 256, sequences of 2048, 238.3 thousand tokens a second on
    # 6144 chips of 275 TFLOPS: 45.7 % without self-attention, 46.2 % with it.
    plain = ModelShape(540.35e9, 238.3e3)
    whole = ModelShape(540.35e9, 238.3e3, 118, 48 * 256, 2048)
    assert utilisation([window(1)], plain.flops, 6144, 275).mfu == pytest.approx(0.457, abs=0.0006)
    assert utilisation([window(1)], whole.flops, 6144, 275).mfu == pytest.approx(0.462, abs=0.0006)


def test_the_course_of_mfu_is_bounded_and_weighs_time() -> None:
    windows = [window(10 * number + 1, 1.0 if number < 500 else 2.0) for number in range(1000)]
    made = utilisation(windows, 1e12, 1, 2)
    assert len(made.over_time) <= 48 and made.mfu == pytest.approx(1 / 3)
    assert (made.over_time[0].mfu, made.over_time[-1].mfu) == (pytest.approx(0.5), pytest.approx(0.25))
    assert utilisation([], 1e12, 1, 2).mfu is None


@pytest.mark.parametrize(("gpu", "peak"), [("NVIDIA H100 80GB HBM3", 989), ("NVIDIA H100 PCIe", None),
                                           ("NVIDIA B200", 2250), ("NVIDIA GB200", 2500), ("Tesla T4", None)])
def test_a_peak_is_that_of_the_very_product_and_dense(gpu: str, peak: float | None) -> None:
    entry = load_burnin(folders(None)).datasheet("tflops_bf16", gpu)
    assert (entry.peak if entry is not None else None) == peak


# ---- as it is typed

@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A job of two ranks: 100 steps of a second, a minute of nothing, and from step 81 on to 200."""
    (tmp_path / "steps").mkdir()
    begin = time.time() - 7200
    for rank in (0, 1):
        lines = [line(StepTime("4711", rank, f"gpu00{rank}", number, step, 1, begin + at, 1.0, NONE))
                 for number, first, last, from_ in ((0, 1, 100, 0), (1, 81, 200, 160))
                 for step, at in zip(range(first, last + 1), range(from_ + 1, 1000), strict=False)]
        (tmp_path / "steps" / f"rank{rank}.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_the_page_says_goodput_restarts_and_mfu(home: Path) -> None:
    words = ("watch", "report", "--log", "steps", "--parameters", "1e9", "--tokens", "2e4",
             "--sku", "hgx-h100")
    done = muster(*words, home=home)
    assert done.returncode == 0, done.stderr
    assert "goodput: 71.4% of" in done.stdout and "20 steps done again" in done.stdout
    assert "checkpoints" in done.stdout and "not measured" in done.stdout
    assert "mfu is without attention" in done.stdout and "dense" in done.stdout
    assert "interruptions to expect: not measured" in done.stdout
    # 6e9 x 2e4 = 1.2e14 a second, on two GPUs of 989 TFLOPS.
    told = json.loads(muster(*words, "--format", "json", home=home).stdout)
    validate(told, "watch.report-1")
    assert told["mfu"]["share"] == pytest.approx(1.2e14 / 2 / 989e12) and told["mfu"]["gpus"] == 2
    assert told["goodput"]["restarts"][0]["cost_seconds"] == pytest.approx(80)
    assert told["goodput"]["lost_seconds"]["checkpoint"] is None and told["forecast"] is None


def test_with_a_store_it_says_what_to_expect(home: Path) -> None:
    now = time.time()
    with opened(home / "state", make=True) as store:
        for hour in range(-100, 0):
            swept(store, hour, "", now)
    told = json.loads(muster("watch", "report", "--log", "steps", "--checkpoint-seconds", "30", "--format",
                             "json", home=home).stdout)
    validate(told, "watch.report-1")
    assert (told["forecast"]["job_nodes"] == 2
            and told["forecast"]["interruptions_per_day"]["expected"] is None)
    assert told["mfu"] is None and "--parameters" in told["mfu_missing"]


@pytest.mark.parametrize(("words", "said"), [
    ((), "no job named"), (("--log", "steps", "--tokens", "5"), "--parameters and --tokens"),
    (("--log", "steps", "--flops", "5", "--parameters", "5", "--tokens", "5"), "--flops"),
    (("--log", "steps", "--parameters", "5", "--tokens", "5", "--layers", "5"), "--layers, --hidden"),
    (("--log", "steps", "--flops", "5", "--sku", "nosuch"), "nosuch"), (("--log", "away"), "away")])
def test_what_it_cannot_use_is_refused_in_one_line(home: Path, words: tuple[str, ...], said: str) -> None:
    done = muster("watch", "report", *words, home=home)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_logs_without_steps_give_no_figure(home: Path) -> None:
    (home / "empty").mkdir()
    done = muster("watch", "report", "--log", "empty", home=home)
    assert done.returncode == 3 and "goodput: not measured" in done.stdout
