"""Step times are read from the logs of the usual programs, whatever stands around them."""

from __future__ import annotations

import datetime as dt
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.joblog.model import LogClock
from healthcheck.watch import steplines
from healthcheck.watch.model import NOT_MEASURED, StepPhase, StepTime
from healthcheck.watch.steptexts import StepLog, rank_of_file

CLOCK = LogClock(dt.datetime(2026, 11, 21, 12, tzinfo=dt.timezone.utc).timestamp(), dt.timezone.utc)
NONE = (NOT_MEASURED,) * 5
MEGATRON = (" [2026-11-21 10:00:00] iteration      100/  500000 | consumed samples:        12800 | "
            "elapsed time per iteration (ms): 1234.5 | throughput per GPU (TFLOP/s/GPU): 400.1 | lm loss: "
            "2.1E+00 |")
NEMO = ("Training epoch 0, iteration 28/99 | lr: 5.6e-06 | global_batch_size: 32 | global_step: 28 | "
        "reduced_train_loss: 2.778 | train_step_timing in s: 0.189 | consumed_samples: 928")
NEMO_1 = ("Epoch 0: :  47%|####     | 7/15 [06:19<07:13, reduced_train_loss=11.50, global_step=5.000, "
          "consumed_samples=12288.0, train_step_timing in s=49.50]")


def read(*lines: str, **words: object) -> list[StepTime]:
    log = StepLog("j", CLOCK, **words)  # type: ignore[arg-type]
    return [*log.read(lines), *log.finish()]


@pytest.mark.parametrize(("line", "step", "seconds"), [
    (MEGATRON, 100, 1.2345),
    (NEMO, 28, 0.189),
    (NEMO_1, 5, 49.5),
    ("step 12 took 250 ms", 12, 0.25),
    ("step 12: 250ms", 12, 0.25),
    ("iter 10: loss 3.4512, time 250.12ms, mfu 30.00%", 10, 0.25012),                       # nanoGPT
    ("step   10/19560 | loss 3.4 (+nanz)| norm 1.0 | lr 6.00e-04 | 250.12 ms | 41.2% bf16 MFU | 1 tok/s", 10,
     0.25012),
    ("[10:00:00] Step: 7, loss=2.1, step_time=1.25s", 7, 1.25),
    ("step=7 step_time_s=1.25", 7, 1.25),
    ("step=7 step_time=1.25", None, None),                          # of no unit
    ("step 7 | eta: 250 s | 1.5 s", 7, 1.5),
    ("global_step 9 elapsed (s): 0.5", 9, 0.5),
    ("worker restarts step 9 in the plan", None, None),
    ("step 7 of the setup", None, None),
    ("footstep 3 took 10 ms", None, None),
    ("step 3 took 0 ms", None, None),
])
def test_a_line_has_a_step_and_its_time(line: str, step: int | None, seconds: float | None) -> None:
    found = read(line)
    assert [one.step for one in found] == ([] if step is None else [step])
    assert [one.seconds for one in found] == pytest.approx([] if seconds is None else [seconds])


@pytest.mark.parametrize("before", ["3: ", "[1,3]<stdout>:", "[rank3]:", "gpu07: [rank3]: ",
                                    "2026-11-21T10:00:00.5Z 3: "])
def test_what_launchers_put_before_a_line_tells_the_rank(before: str) -> None:
    (one,) = read(f"{before}step 12 took 250 ms")
    assert (one.rank, one.step) == (3, 12)


def test_a_line_that_names_no_rank_is_of_the_rank_of_its_file_or_of_the_whole_job() -> None:
    assert [one.rank for one in (*read("step 1: 5 ms", rank=7), *read("step 1: 5 ms"))] == [7, None]


@pytest.mark.parametrize(("name", "rank"),
                         [("rank_3.log", 3), ("job-worker-12.out", 12), ("frank3.log", None),
                          ("log.txt", None), ("rank7", 7)])
def test_the_name_of_a_file_tells_its_rank(name: str, rank: int | None) -> None:
    assert rank_of_file(name) == rank


def test_where_a_line_has_no_duration_the_time_since_the_line_before_tells() -> None:
    lines = [
        f"[rank0]:[titan] 2026-11-21 10:00:{second:02},000 - root - INFO - step: {step}  loss: 7.1  "
        f"memory: 1GiB"
        for step, second in ((1, 0), (10, 18), (20, 38))]
    found = read(*lines)
    assert [(one.step, one.steps, one.rank) for one in found] == [(10, 9, 0), (20, 10, 0)]
    assert [one.seconds for one in found] == pytest.approx([2.0, 2.0])


def test_a_line_covers_the_steps_since_the_line_before() -> None:
    assert [one.steps for one in read("step 10: 5 ms", "step 20: 5 ms", "step 15: 5 ms")] == [1, 10, 1]


def test_the_phases_of_each_rank_are_those_of_megatrons_timers() -> None:
    found = read(MEGATRON, "times across ranks (ms):", "  forward-backward:", "     rank  0: 900.00",
                 "  forward-compute:", "     rank  0: 300.00", "     rank  1: 500.00",
                 "  all-grads-sync:", "     rank  0: 200.00", "     rank  1: 10.00",
                 "  forward-recv:", "     rank  0: 5.00", "next")
    assert [(one.rank, one.step, one.seconds) for one in found] == [
        (None, 100, 1.2345), (0, 100, 1.2345), (1, 100, 1.2345)]
    assert found[1].phases[1] == pytest.approx(0.3) and found[1].phases[3] == pytest.approx(0.205)
    assert found[2].phases[1] == pytest.approx(0.5) and found[2].phases[3] == pytest.approx(0.01)


def test_the_range_of_megatrons_timers_is_no_rank() -> None:
    assert len(read(MEGATRON, "(min, max) time across ranks (ms):", "    forward ....: (1.00, 2.00)")) == 1


def test_our_own_lines_are_found_between_others_and_behind_a_prefix() -> None:
    ours = steplines.line(StepTime("j", 1, "gpu1", None, 5, 1, 9.0, 0.5, NONE))
    assert [one.step for one in read("hello", ours, f"1: {ours}", "{}", "step 7: 5 ms")] == [5, 5, 7]


def test_lines_that_claim_our_form_and_are_cut_are_counted_and_the_others_read() -> None:
    ours = steplines.line(StepTime("j", 1, "gpu1", None, 5, 1, 9.0, 0.5, NONE))
    log = StepLog("j", CLOCK)
    assert [one.step for one in log.read([ours[:-4], ours])] == [5]
    assert (log.unread, log.why) == (1, "it is cut, or no JSON")


def test_reports_of_nvrx_give_scores_and_warnings() -> None:
    log = StepLog("j", CLOCK)
    assert list(log.read(["GPU relative performance:", " Worst performing 5/512 ranks:",
                          "  Rank=76 Node=h100-001-253-012 Score=0.64", "GPU individual performance:",
                          "  Rank=7 Node=h100-001 Score=1.00",
                          "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected "
                          "ranks: [76, 13]",
                          "STRAGGLER DETECTION WARNING: Some GPUs performance dropped. Affected ranks: "
                          "{StragglerId(rank=5, node='gpu5')}"])) == []
    assert [(one.rank, one.host, one.score, one.relative, one.warned) for one in log.scores()] == [
        (76, "h100-001-253-012", 0.64, True, False), (7, "h100-001", 1.0, False, False),
        (76, "", None, True, True), (13, "", None, True, True), (5, "gpu5", None, False, True)]
    assert log.scores() == []


PIECES = st.sampled_from([MEGATRON, NEMO, NEMO_1, "step 12 took 250 ms", "3: ", "[rank3]:",
                          "times across ranks (ms):",
                          "  forward-compute:", "     rank  0: 300.00", "Rank=76 Node=x Score=0.64",
                          "\x1b[31m", "\r",
                          '{"schema":"muster.step/1","rank":1', "GPU relative performance:", "elapsed",
                          "e999 ms", " iteration "])


@given(st.lists(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=4).map("".join)), max_size=30))
def test_no_text_breaks_the_reader(lines: list[str]) -> None:
    for one in read(*lines):
        assert one.seconds >= 0 and one.steps >= 1 and one.step >= 0 and one.time == one.time


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    read(*data.decode("utf-8", "replace").split("\n"))


@given(st.integers(0, 2**32), st.integers(1, 400))
def test_a_log_that_is_cut_anywhere_loses_no_whole_line(seed: int, cut: int) -> None:
    rng = random.Random(seed)
    text = "\n".join(rng.choice(["noise", f"step {number}: 250 ms"]) for number in range(1, 40)) + "\n"
    kept = text[:cut].split("\n")[:-1]
    assert len(read(*kept)) == sum("step" in line for line in kept)


FLOATS = st.floats(0, 1e5)
NAMES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30)


@given(st.builds(StepTime, NAMES, st.integers(0, 1000), NAMES, st.none() | st.integers(0, 99),
                 st.integers(0, 2**50),
                 st.integers(1, 1000), FLOATS, FLOATS,
                 st.tuples(*[FLOATS | st.just(NOT_MEASURED)] * 5), NAMES,
                 *[FLOATS | st.just(NOT_MEASURED)] * 5, NAMES))
def test_a_line_of_our_form_reads_as_it_was_written(one: StepTime) -> None:
    assert steplines.parse(steplines.line(one)) == one


@pytest.mark.parametrize(("change", "wrong"), [
    ({"rank": -1}, "rank: expected"), ({"rank": True}, "rank: expected"), ({"step": 1.5}, "step: expected"),
    ({"steps": 0}, "steps: expected"), ({"seconds": "1"}, "seconds: expected"),
    ({"seconds": -1}, "seconds: expected"),
    ({"time": None}, "time: expected"), ({"host": 5}, "host: expected"), ({"data": -0.1}, "data: expected"),
    ({"attempt": "x"}, "attempt: expected"), ({"schema": "muster.step/2"}, "schema: expected"),
    ({"job": ["x"]}, "job: expected"), ({"seconds": float("nan")}, "seconds: expected"),
])
def test_a_wrong_value_is_named(change: dict[str, object], wrong: str) -> None:
    import json
    document = {"schema": "muster.step/1", "job": "j", "rank": 1, "host": "h", "step": 1, "time": 1.0,
                "seconds": 1.0}
    with pytest.raises(steplines.NoStepLine, match=wrong):
        steplines.parse(json.dumps({**document, **change}))


def test_what_a_terminal_could_act_on_is_escaped_in_names() -> None:
    one = steplines.parse(
        '{"schema":"muster.step/1","job":"j","rank":1,"host":"h\\u001b[31m","step":1,"time":1,"seconds":1}')
    assert "\x1b" not in one.host


def test_a_later_callback_may_write_more() -> None:
    one = steplines.parse(
        '{"schema":"muster.step/1","job":4711,"rank":1,"host":"h","step":1,"time":1,"seconds":1,"new":{}}')
    assert (one.job, one.phases[0] != one.phases[0]) == ("4711", True)
    assert len(StepPhase) == len(one.phases)
