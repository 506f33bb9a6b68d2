"""`muster watch` as it is typed: finished logs end by themselves, growing ones are followed, and whatever
happens to files is borne."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from healthcheck.cli.watchlogs import JobLogs
from healthcheck.watch import steplines
from healthcheck.watch.model import StepTime
from tests.command import MUSTER, environment, muster
from tests.documents import validate
from tests.healthcheck.watch.simulated import Planted, SimulatedJob

SLOW = Planted("compute", (3,), 1.3, since=100)


def texts(ranks: int = 8, steps: int = 300, *faults: Planted) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {rank: [] for rank in range(ranks)}
    for _, lines in SimulatedJob(ranks, steps, 1, faults).passes():
        for line in lines:
            found[line.rank or 0].append(steplines.line(line) + "\n")
    return found


def written(folder: Path, *faults: Planted) -> Path:
    folder.mkdir()
    for rank, lines in texts(8, 300, *faults).items():
        (folder / f"rank_{rank}.jsonl").write_text("".join(lines))
    return folder


def watched(*words: str, home: Path) -> tuple[int, list[dict[str, Any]], str]:
    done = muster("watch", *words, "--format", "json", home=home)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for line in lines:
        validate(line, "watch-1")
    return done.returncode, lines, done.stderr


def test_a_straggler_in_finished_logs_is_a_line_of_json_and_exit_code_1(tmp_path: Path) -> None:
    code, lines, err = watched("--replay", "--log", str(written(tmp_path / "steps", SLOW)), home=tmp_path)
    assert (code, err) == (1, "")
    assert [line["ranks"] for line in lines if line["kind"] == "finding"] == [[3]]
    assert (lines[-1]["kind"] == "end" and lines[-1]["exit"] == 1
            and lines[-1]["attempts"][0]["last_step"] == 300)


def test_logs_of_a_job_that_ended_long_ago_end_by_themselves(tmp_path: Path) -> None:
    folder = written(tmp_path / "steps")
    for path in folder.iterdir():
        os.utime(path, (1e9, 1e9))
    done = muster("watch", "--log", str(folder), home=tmp_path)
    assert done.returncode == 0 and "nothing slows it" in done.stdout


def test_plain_lines_name_the_rank_the_pattern_and_the_cause(tmp_path: Path) -> None:
    done = muster("watch", "--replay", "--log", str(written(tmp_path / "steps", SLOW)), home=tmp_path)
    assert ("rank 3 on gpu0000; a step down that stays in backward since step" in done.stdout
            and "cause: cannot tell" in done.stdout)


def test_growing_logs_are_followed_until_ctrl_c(tmp_path: Path) -> None:
    folder = tmp_path / "steps"
    folder.mkdir()
    lines = texts(8, 300, SLOW)
    with subprocess.Popen([MUSTER, "watch", "--log", str(folder), "--every", "0.2s", "--format", "json"],
                          stdout=subprocess.PIPE, text=True,
                          env=environment(tmp_path)) as process:
        files = {rank: (folder / f"rank_{rank}.jsonl").open("a") for rank in lines}
        for at in range(0, 300, 20):
            for rank, file in files.items():
                file.write("".join(lines[rank][at:at + 20]))
                file.flush()
            time.sleep(0.02)
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["kind"] == "finding":
                assert json.loads(line)["ranks"] == [3]
                break
        process.send_signal(signal.SIGINT)
        last = process.stdout.read().splitlines()[-1]
        assert process.wait(30) == 130 and json.loads(last)["kind"] == "end"
        for file in files.values():
            file.close()


@pytest.mark.parametrize(("words", "said"), [
    ((), "no job named"), (("--log", "none"), "no such file or folder"), (("--replay",), "no job named"),
    (("--replay", "--log", ".", "--nodes", "gpu001"), "--nodes does not go with --replay"),
    (("4711; rm",), "is not a job id"),
])
def test_a_wrong_call_is_one_line(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = muster("watch", *words, home=tmp_path)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_logs_without_step_times_are_unknown_and_no_pass(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("hello\n")
    done = muster("watch", "--replay", "--log", str(tmp_path / "log"), home=tmp_path)
    assert done.returncode == 3 and "nothing is known of it" in done.stdout


def test_lines_that_cannot_be_read_are_counted_and_the_first_is_explained(tmp_path: Path) -> None:
    folder = written(tmp_path / "steps")
    with (folder / "rank_3.jsonl").open("a") as file:
        file.write('{"schema":"muster.step/1","rank":-1}\n')
    _, lines, err = watched("--replay", "--log", str(folder), home=tmp_path)
    assert ("rank_3.jsonl: 1 lines of step times could not be read; the first: rank: expected" in err
            and lines[-1]["caveats"])


def test_a_time_in_milliseconds_is_shown_beside_what_is_expected(tmp_path: Path) -> None:
    folder = written(tmp_path / "steps")
    with (folder / "rank_3.jsonl").open("a") as file:
        file.write('{"schema":"muster.step/1","job":"4711","rank":3,"host":"gpu001","step":999,'
                   '"time":1764288000250,"seconds":0.98}\n')
    _, _, err = watched("--replay", "--log", str(folder), home=tmp_path)
    assert "time: expected epoch seconds, such as 1764288000.25, got 1764288000250" in err


def read(folder: Path, **words: Any) -> list[StepTime]:
    logs = JobLogs([str(folder)], words.pop("job", ""), 0.0)
    logs.scan()
    return [line for lines in logs.slices(10.0, whole=True) for line in lines]


def test_ranks_that_share_a_file_and_ranks_with_their_own_read_the_same(tmp_path: Path) -> None:
    lines = texts(4, 60)
    apart, shared = tmp_path / "apart", tmp_path / "shared"
    apart.mkdir()
    shared.mkdir()
    for rank, own in lines.items():
        (apart / f"rank_{rank}.jsonl").write_text("".join(own))
    (shared / "log").write_text("".join(own[at] for at in range(60) for own in lines.values()))
    assert sorted(read(apart)) == sorted(read(shared))


@pytest.mark.parametrize("seed", range(5))
def test_a_log_that_grows_by_any_pieces_and_is_rotated_loses_no_line(seed: int, tmp_path: Path) -> None:
    rng, (own,) = random.Random(seed), texts(1, 200).values()
    path, data = tmp_path / "rank_0.jsonl", "".join(own).encode()
    path.write_bytes(b"")
    logs, found = JobLogs([str(tmp_path)], "", 0.0), list[StepTime]()
    at = 0
    while at < len(data):
        piece = data[at:at + rng.randrange(1, 9000)]
        at += len(piece)
        with path.open("ab") as file:
            file.write(piece)
        logs.scan()
        found += [line for lines in logs.slices(10.0, whole=False) for line in lines]
        if rng.random() < 0.3 and data[at - 1:at] == b"\n":
            path.replace(tmp_path / f"old-{at}.txt")
            path.write_bytes(b"")
    assert sorted({line.step for line in found}) == list(range(1, 201))


def test_a_log_that_is_cut_begins_again(tmp_path: Path) -> None:
    (own,) = texts(1, 20).values()
    path = tmp_path / "rank_0.jsonl"
    path.write_text("".join(own[:10]))
    logs = JobLogs([str(tmp_path)], "", 0.0)
    logs.scan()
    first = [line.step for lines in logs.slices(10.0, whole=False) for line in lines]
    path.write_text("".join(own[10:12]))
    assert first == list(range(1, 11)) and [line.step for lines in logs.slices(10.0, whole=False)
                                            for line in lines] == [11, 12]


def test_a_log_that_begins_with_nul_bytes_is_read_and_a_checkpoint_is_not(tmp_path: Path) -> None:
    (own,) = texts(1, 5).values()
    (tmp_path / "rank_0.jsonl").write_bytes(b"\0" * 100 + "".join(own).encode())
    (tmp_path / "model.pt").write_bytes(b"PK\x03\x04" + "".join(own).encode())
    assert [line.step for line in read(tmp_path)] == [1, 2, 3, 4, 5]


def test_lines_of_another_job_do_not_count(tmp_path: Path) -> None:
    (own,) = texts(1, 5).values()
    (tmp_path / "log").write_text("".join(own) + own[0].replace("4711", "4712"))
    assert {line.job for line in read(tmp_path)} == {"4711"} and read(tmp_path, job="4712")[0].job == "4712"


def test_a_hang_is_explained_by_dumps_of_the_flight_recorder_in_the_folder(tmp_path: Path) -> None:
    written(tmp_path / "steps")
    for rank in range(4):
        begun = 11 if rank == 2 else 12
        (tmp_path / "steps" / f"nccl_trace_rank_{rank}").write_text(json.dumps({
            "version": "2.10",
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
            "pg_status": {"0": {"last_enqueued_collective": begun, "last_started_collective": begun,
                                "last_completed_collective": 11}},
            "entries": [] if rank == 2 else [{"process_group": ["0", "default_pg"], "collective_seq_id": 12,
                                              "profiling_name": "nccl:all_reduce",
                                              "state": "started", "time_created_ns": 1, "is_p2p": False}]}))
    logs = JobLogs([str(tmp_path / "steps")], "", 0.0)
    logs.scan()
    from healthcheck.watch.hang import who
    verdict = who(dict.fromkeys(range(4), 300), {2: "gpu0000"}, logs.of_hang(0.0))
    assert (verdict.ranks, verdict.hosts) == ((2,), ("gpu0000",)) and "all_reduce" in verdict.evidence[0]
