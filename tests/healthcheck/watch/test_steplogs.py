"""A step that stands in a log again tells a restart only where the job did it again."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from healthcheck.cli.watchlogs import JobLogs
from healthcheck.watch import steplines
from healthcheck.watch.stepwords import step_of
from healthcheck.watch.watcher import JobWatch
from tests.command import muster
from tests.healthcheck.watch import steplogs
from tests.healthcheck.watch.simulated import Planted, SimulatedJob


def seen(folder: Path) -> JobWatch:
    watch, logs = JobWatch(), JobLogs([str(folder)], "", steplogs.BEGAN)
    logs.scan()
    for lines in logs.slices(10.0, whole=True):
        watch.add_all(lines)
        watch.settle(0.0)
    watch.add_all(logs.finish())
    watch.finish()
    return watch


@pytest.mark.parametrize("planted", steplogs.ONE_START, ids=lambda planted: planted.__name__)
def test_what_is_only_written_again_is_no_restart(planted: Callable[[Path], None], tmp_path: Path) -> None:
    planted(tmp_path)
    watch = seen(tmp_path)
    assert [(one.first, one.last, one.lost_steps) for one in watch.attempts] == [(1, 200, 0)]
    assert watch.windows[-1].seconds == pytest.approx(0.25, rel=0.03) and not watch.findings


@pytest.mark.parametrize("planted", steplogs.TWO_STARTS, ids=lambda planted: planted.__name__)
def test_what_is_done_again_is_a_restart(planted: Callable[[Path], None], tmp_path: Path) -> None:
    planted(tmp_path)
    assert [(one.first, one.last, one.lost_steps)
            for one in seen(tmp_path).attempts] == [(1, 120, 0), (101, 200, 20)]


def test_torchruns_folders_of_one_node_tell_the_ranks_and_those_of_several_do_not(tmp_path: Path) -> None:
    steplogs.torchruns_folders(tmp_path)
    assert seen(tmp_path).ranks == (0, 1, 2, 3)
    (tmp_path / "none_ab12").rename(tmp_path / "none_cd34")
    steplogs.torchruns_folders(tmp_path)
    assert seen(tmp_path).ranks == (None,)


def test_lines_without_times_are_dated_by_when_their_log_was_written(tmp_path: Path) -> None:
    steplogs.a_bare_file_each(tmp_path)
    first, second = seen(tmp_path).attempts
    assert (first.ended, second.ended) == pytest.approx((steplogs.BEGAN, steplogs.BEGAN + 600), abs=3)
    assert second.idle_s == pytest.approx(575, abs=5)


def test_steps_faster_than_the_times_of_a_log_are_not_taken_for_slow(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(
        "".join(f"{steplogs.stamp(steplogs.BEGAN + step // 4)[:19]}Z INFO step {step} loss 3\n"
                for step in range(1, 400)))
    assert seen(tmp_path).windows[-1].seconds == pytest.approx(0.25, rel=0.02)


def test_a_finding_of_the_attempt_before_names_where_its_rank_ran_then(tmp_path: Path) -> None:
    job = SimulatedJob(16, 120, 1, (Planted("compute", (5,), 1.4, since=30),))
    watch, now = JobWatch(), job.began
    for now, lines in job.passes():
        watch.add_all(lines)
        watch.settle(now)
    for late, lines in SimulatedJob(16, 120, 2, began=now + 60).passes():
        watch.add_all([line._replace(host=f"new{line.host}", step=line.step + 90) for line in lines])
        watch.settle(late)
    assert [one.hosts for one in watch.findings.values()] == [("gpu0000",)] and watch.hosts[5] == "newgpu0000"


def test_a_start_that_lingers_beside_the_next_one_makes_no_third(tmp_path: Path) -> None:
    with (tmp_path / "rank_0.jsonl").open("w") as old, (tmp_path / "rank_0_again.jsonl").open("w") as new:
        for file, attempt, first, began in ((old, 0, 1, 0.0), (new, 1, 50, 80.3)):
            for at in range(100):
                file.write(json.dumps({"schema": steplines.SCHEMA, "job": "j", "rank": 0, "host": "a",
                                       "attempt": attempt,
                                       "step": first + at, "time": steplogs.BEGAN + began + at + 1,
                                       "seconds": 1.0}) + "\n")
    assert [(one.first, one.lost_steps)
            for one in seen(tmp_path).attempts] == [(1, 0), (50, pytest.approx(36, abs=5))]


def test_the_wrong_clock_of_one_rank_makes_no_time_between_steps(tmp_path: Path) -> None:
    watch = JobWatch()
    for now, lines in SimulatedJob(8, 100, 1).passes():
        watch.add_all([line._replace(time=line.time + 3600 * (line.rank == 3 and line.step > 50))
                       for line in lines])
        watch.settle(now)
    watch.finish()
    (attempt,) = watch.attempts
    assert attempt.ended - attempt.began < 150


@pytest.mark.parametrize(("line", "seconds"), [
    ("Epoch [1/5], Step [100/600], Loss: 0.31, 250.1ms", 0.2501),
    ("step: 7/1000 - 250ms/step - loss: 0.3", 0.25),
    ('{"step": 7, "loss": 2.1, "step_time_ms": 250.5}', 0.2505), ("step 7 (avg 310.0 ms) 250.5 ms", 0.2505),
    ("step 7 elapsed 3600.1 s step time 250.5 ms", 0.2505), ("step 7 data 5 ms fwd 80 ms bwd 160 ms", None),
    ("step 7 load time 12.0 ms time 250.5 ms", 0.2505), ("step 7 | 1.2 s/it", None),
    ("step 7 loss 3 250,3 ms", None),
])
def test_the_duration_of_a_step_is_its_own(line: str, seconds: float | None) -> None:
    found = step_of(line)
    assert found is not None and found[2] == pytest.approx(seconds)


@pytest.mark.parametrize("line", ["validation step 7 took 900 ms", "saving checkpoint at step 7 took 31 s",
                                  "eval step: 7 45 s",
                                  "Resuming from step 7 after 3 s"])
def test_what_is_no_step_of_training_is_none(line: str) -> None:
    assert step_of(line) is None


def test_what_cannot_be_read_and_what_holds_no_steps_is_said(tmp_path: Path) -> None:
    (tmp_path / "old.log.gz").write_bytes(gzip.compress(b"step 1: 5 ms\n"))
    (tmp_path / "log").write_text("hello\n")
    done = muster("watch", "--replay", "--log", str(tmp_path), home=tmp_path)
    assert (done.returncode == 3 and "old.log.gz: it is compressed" in done.stderr
            and "no line of 2 files is of step times" in done.stderr)
    done = muster("watch", "--replay", "--log", "", home=tmp_path)
    assert done.returncode == 2 and "no such file or folder" in done.stderr


def test_ranks_of_one_log_without_times_step_beside_each_other_and_not_after(tmp_path: Path) -> None:
    steplogs.labelled(tmp_path)
    watch = seen(tmp_path)
    (attempt,) = watch.attempts
    assert attempt.ended - attempt.began == pytest.approx(50, abs=1) and attempt.ranks == 8
    assert max(one.time for one in watch.windows) == pytest.approx(attempt.ended)
