"""What is said at the end: that nothing slows a job only where all could be judged, and a hang that its dumps
tell."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from healthcheck.cli.watchlogs import JobLogs
from healthcheck.cli.watchstore import rows_of
from healthcheck.joblog.absent import absent
from healthcheck.report.watched import suspects
from healthcheck.store import watched
from healthcheck.store.file import opened
from healthcheck.watch import steplines
from healthcheck.watch.goodput import goodput
from healthcheck.watch.hang import HangSources, who
from healthcheck.watch.model import (
    CauseVerdict,
    Certainty,
    JobAttempt,
    SlowPattern,
    StepPhase,
    StepTime,
    StepWindow,
    WatchCause,
    WatchFinding,
    WatchLevel,
)
from healthcheck.watch.watcher import JobWatch
from tests.command import muster
from tests.healthcheck.watch.simulated import Planted, SimulatedJob

NOW = 1_800_000_000.0


def written(folder: Path, ranks: int = 8, steps: int = 100, *, phases: bool = True,
            faults: tuple[Planted, ...] = ()) -> Path:
    folder.mkdir()
    lines: dict[int, list[str]] = {}
    for _, now in SimulatedJob(ranks, steps, 1, faults, phases=phases).passes():
        for line in now:
            lines.setdefault(line.rank or 0, []).append(steplines.line(line) + "\n")
    for rank, own in lines.items():
        (folder / f"rank_{rank}.jsonl").write_text("".join(own))
    return folder


def replayed(folder: Path) -> tuple[int, str, str]:
    done = muster("watch", "--replay", "--log", str(folder), home=folder.parent)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("ranks", "steps", "phases", "code", "out", "err"), [
    (8, 100, True, 0, "nothing slows it", ""),
    (8, 20, True, 3, "what slows it is not known", "too few step times to say"),
    (8, 100, False, 0, "nothing is found that slows it", "ranks time no phases"),
    (2, 100, True, 0, "nothing is found that slows it", "2 ranks could not be compared"),
])
def test_only_where_all_could_be_judged_does_nothing_slow_a_job(ranks: int, steps: int, phases: bool,
                                                                code: int, out: str, err: str,
                                                                tmp_path: Path) -> None:
    found = replayed(written(tmp_path / "steps", ranks, steps, phases=phases))
    assert found[0] == code and out in found[1] and err in found[2] and bool(found[2]) == bool(err)


def test_ranks_that_report_no_more_or_never_did_are_said_as_such(tmp_path: Path) -> None:
    folder = written(tmp_path / "steps", 16, 100)
    own = (folder / "rank_5.jsonl").read_text().splitlines(keepends=True)
    (folder / "rank_5.jsonl").write_text("".join(own[:40]))
    (folder / "rank_9.jsonl").write_text("".join(line.replace('"seconds":', '"secs":') for line in own))
    code, out, err = replayed(folder)
    assert code == 0 and "nothing is found that slows it" in out and "compared" not in err
    assert "rank 5 on gpu0000 has reported nothing since step 40, the others are at step 100" in err
    assert "of rank 9 no step time was read" in err


def test_a_job_that_goes_on_with_fewer_ranks_lacks_none(tmp_path: Path) -> None:
    folder = written(tmp_path / "steps", 16, 100)
    for file in sorted(folder.iterdir())[:12]:
        with file.open("a") as more:
            for line in file.read_text().splitlines(keepends=True):
                values = json.loads(line)
                more.write(json.dumps(values | {"time": values["time"] + 900, "attempt": 1}) + "\n")
    _, out, err = replayed(folder)
    assert "attempt 2" in out and "compared" not in err
    assert "4 ranks of earlier attempts report nothing" in err


def shifted(file: Path, seconds: float) -> None:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(line | {"time": line["time"] + seconds}) + "\n" for line in lines))


@pytest.mark.parametrize("seconds", [-3600.0, -30.0, 120.0, 3600.0])
def test_a_host_whose_clock_is_wrong_is_compared_with_the_others(seconds: float, tmp_path: Path) -> None:
    slow = tuple(range(8, 16))
    folder = written(tmp_path / "steps", 32, 200, faults=(Planted("compute", slow, 1.3),))
    for rank in slow:
        shifted(folder / f"rank_{rank}.jsonl", seconds)
    code, out, err = replayed(folder)
    assert code == 1 and "host gpu0001; slow since the start" in out and "attempt 2" not in out
    way = "ahead of" if seconds > 0 else "behind"
    assert f"the clock of gpu0001 is {abs(seconds):.0f} s {way} that of most ranks" in err


def test_ranks_that_join_in_a_later_start_are_no_clocks_that_are_wrong(tmp_path: Path) -> None:
    folder = written(tmp_path / "steps", 32, 200)
    for rank in range(32):
        file = folder / f"rank_{rank}.jsonl"
        first = file.read_text()
        shifted(file, 900.0)
        if rank < 24:
            file.write_text(first + file.read_text())
    code, out, err = replayed(folder)
    assert (code, err) == (0, "") and "attempt 2: steps 1 to 200" in out


def test_a_start_that_has_logs_of_its_own_is_no_clock_that_is_wrong(tmp_path: Path) -> None:
    folder = written(tmp_path / "steps", 8, 200)
    (folder / "again").mkdir()
    for rank in range(8):
        file = folder / "again" / f"rank_{rank}.jsonl"
        file.write_text((folder / file.name).read_text())
        shifted(file, 900.0)
    code, out, err = replayed(folder)
    assert (code, err) == (0, "") and "attempt 2: steps 1 to 200" in out


def test_a_log_of_the_whole_job_has_no_ranks(tmp_path: Path) -> None:
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps/log").write_text("".join(f"step {step}: 250 ms\n" for step in range(1, 400)))
    code, out, err = replayed(tmp_path / "steps")
    assert (code == 0 and "as a whole" in out and "0 ranks" not in out
            and "the log speaks for the whole job" in err)


def test_whom_a_report_of_nvrx_calls_slow_is_said_where_step_times_do_not_show_it(tmp_path: Path) -> None:
    folder = written(tmp_path / "steps")
    (folder / "nvrx.log").write_text(
        "GPU relative performance:\n Worst performing 5/8 ranks:\n  Rank=3 Node=gpu001 Score=0.61\n"
        "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: [3]\n")
    code, out, err = replayed(folder)
    assert (code == 0 and "nothing is found that slows it" in out
            and "nvrx: rank 3 scores 0.61 on gpu001" in err)


def test_many_attempts_are_counted_and_the_last_ones_listed(tmp_path: Path) -> None:
    (tmp_path / "steps").mkdir()
    with (tmp_path / "steps/log").open("w") as file:
        for _ in range(60):
            file.writelines(f"step {step}: 2500 ms\n" for step in range(1, 30))
    _, out, _ = replayed(tmp_path / "steps")
    assert "40 attempts before these" in out and out.count("attempt 6") == 2 and len(out.splitlines()) < 40


def dump(folder: Path, rank: int, begun: int, op: str = "nccl:all_reduce", cut: int | None = None) -> None:
    entries = [{"process_group": ["0", "default_pg"], "collective_seq_id": 12, "profiling_name": op,
                "state": "started",
                "time_created_ns": 1, "is_p2p": False}] if begun == 12 else []
    (folder / f"nccl_trace_rank_{rank}").write_text(json.dumps({
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(8)))}},
        "pg_status": {"0": {"last_enqueued_collective": begun, "last_started_collective": begun,
                            "last_completed_collective": 11}},
        "entries": entries})[:cut])


def test_dumps_in_the_logs_of_a_job_that_is_over_tell_its_hang_in_the_table_and_the_report(
        tmp_path: Path) -> None:
    folder = written(tmp_path / "steps")
    for rank in range(8):
        dump(folder, rank, 11 if rank == 2 else 12)
    newest = max(line.time for lines in steps_of(folder) for line in lines)
    for path in folder.glob("nccl*"):
        os.utime(path, (newest + 600, newest + 600))
    code, out, _ = replayed(folder)
    assert code == 1 and "rank 2 on gpu0000; a hang" in out
    report = json.loads(muster("watch", "report", "--log", str(folder), "--format", "json",
                               home=tmp_path).stdout)
    assert ([one["pattern"] for one in report["findings"]] == ["hang"]
            and report["suspect_hosts"] == ["gpu0000"])
    for path in folder.glob("nccl*"):
        os.utime(path, (newest - 60, newest - 60))
    assert replayed(folder)[0] == 0


def steps_of(folder: Path) -> list[list[StepTime]]:
    logs = JobLogs([str(folder)], "", 0.0)
    logs.scan()
    return list(logs.slices(10.0, whole=True))


@pytest.mark.parametrize(("cause", "named"),
                         [(WatchCause.THERMAL, True), (WatchCause.GARBAGE_COLLECTION, False)])
def test_what_the_program_does_itself_is_no_reason_to_start_without_the_node(cause: WatchCause, named: bool,
                                                                             tmp_path: Path) -> None:
    finding = WatchFinding("1", WatchLevel.RANK, "rank 9", (9,), ("gpu002",), SlowPattern.STEP_DOWN,
                           StepPhase.FORWARD, 0, 41, NOW - 60, NOW,
                           9, 0.4, 0.4, True, CauseVerdict(cause, Certainty.LIKELY))
    assert suspects((finding,)) == (("gpu002",) if named else ())
    with opened(tmp_path, make=True) as store:
        watched.write(store, rows_of("4711", finding, {}, NOW))
        assert [one.node for one in watched.problems(store, NOW)] == (["gpu002"] if named else [])


def hung(folder: Path) -> HangSources:
    logs = JobLogs([str(folder)], "", 0.0)
    logs.scan()
    return logs.of_hang(NOW)


def test_a_damaged_dump_accuses_no_one(tmp_path: Path) -> None:
    for rank in range(8):
        dump(tmp_path, rank, 11 if rank == 2 else 12, cut=200 if rank == 5 else None)
    log = hung(tmp_path).log
    assert log is not None and [one.rank for one in absent(log)] == [2]


def test_ranks_in_collectives_that_do_not_match_are_reported_and_no_one_is_accused(tmp_path: Path) -> None:
    for rank in range(8):
        dump(tmp_path, rank, 12, "nccl:all_gather" if rank == 3 else "nccl:all_reduce")
    found = who(dict.fromkeys(range(8), 300), {}, hung(tmp_path))
    assert (found.ranks == () and "rank 3 in nccl:all_gather" in found.evidence[0]
            and "do not match" in found.evidence[0])


def test_dumps_of_few_ranks_name_no_one(tmp_path: Path) -> None:
    for rank in (0, 1, 4):
        dump(tmp_path, rank, 12)
    found = who(dict.fromkeys(range(8), 300), {}, hung(tmp_path))
    assert found.ranks == () and "3 ranks gave up waiting" in found.evidence[0]


def test_who_alone_says_nothing_is_known_by_the_ranks_that_report_steps(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("".join(
        f"[rank{rank}]:[E1121 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: "
        "WorkNCCL(SeqNum=15, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600020 "
        "milliseconds before timing out.\n"
        for rank in range(7)))
    assert who(dict.fromkeys(range(8), 300), {}, hung(tmp_path)).ranks == (7,)


@pytest.mark.parametrize("words", [("--flops", "nan"), ("--flops", "inf"), ("--peak-tflops", "nan"),
                                   ("--checkpoint-seconds", "nan"),
                                   ("--parameters", "nan", "--tokens", "5")])
def test_what_is_no_number_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    done = muster("watch", "report", "--log", str(tmp_path), *words, home=tmp_path)
    assert done.returncode == 2 and words[0] in done.stderr and "Traceback" not in done.stderr


def test_no_more_time_is_done_again_than_was_spent_in_steps() -> None:
    attempts = [JobAttempt(number, 1, 50, 100.0 * number, 100.0 * number + 50, 8, 50 * (number > 0))
                for number in range(4)]
    windows = [StepWindow(0, 1, 50, 50.0, 8, 1.0),
               *(StepWindow(number, 1, 10, 100.0 * number + 10, 8, 1.0) for number in (1, 2, 3))]
    found = goodput(attempts, windows, ())
    assert found is not None and found.again_s <= 80 and found.useful_s >= 0
    assert math.isclose(found.useful_s + found.idle_s + found.again_s + found.hang_s + found.slow_s
                        + found.between_s + found.unknown_s,
                        found.wall_s)


@pytest.mark.parametrize("slow", [(6,), pytest.param(tuple(range(8)), marks=pytest.mark.slow)])
def test_who_is_slow_at_rare_checkpoints_is_found(slow: tuple[int, ...]) -> None:
    watch = JobWatch()
    for now, lines in SimulatedJob(8, 1500, 1).passes():
        took = {rank: 9.0 if rank in slow and lines[0].step > 900 else 3.0
                for rank in range(8)} if lines[0].step % 75 == 0 else {}
        watch.add_all(line._replace(seconds=line.seconds + max(took.values(), default=0.0),
                                    phases=(*line.phases[:3], line.phases[3]
                                            + (max(took.values()) - took[line.rank or 0] if took else 0.0),
                                            took.get(line.rank or 0, 0.0))) for line in lines)
        watch.settle(now)
    watch.finish()
    (found,) = [one for one in watch.findings.values() if one.pattern is not SlowPattern.SLOW_START]
    assert (found.phase, found.level) == (StepPhase.CHECKPOINT,
                                          WatchLevel.RANK if len(slow) == 1 else WatchLevel.JOB)
    assert found.ranks == (slow if len(slow) == 1 else ()) and "a checkpoint takes 9 s" in found.evidence[0]
