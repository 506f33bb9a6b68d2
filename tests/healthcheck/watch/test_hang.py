"""Whom a job that hangs waits for: by NCCL's RAS, in files and asked on nodes, and by stacks; each with
stand-ins for NVIDIA's client and for py-spy, which print what the real ones do."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.cli import watchhang
from healthcheck.cli.watchhang import HangAsker, _processes
from healthcheck.cli.watchlogs import JobLogs
from healthcheck.joblog import rasread
from healthcheck.model.recording import Capture, Outcome
from healthcheck.watch.hang import HangSources, who
from healthcheck.watch.stacks import ProcessStack, parse, words
from inventory.model import Node
from inventory.transport.base import Limits
from inventory.transport.local import LocalTransport
from tests.command import muster
from tests.healthcheck import machine

SAMPLES = Path(__file__).parents[2] / "recordings/nccl-ras"
DUMP = '''Process 4711: python3 train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 4711 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2501)
    step (/home/a/train.py:88)
    <module> (/home/a/train.py:99)
Thread 4720 (active+gil): "Thread-1"
    wait (threading.py:324)
'''
PROGRESS = dict.fromkeys(range(32), 300)


def test_ras_names_who_did_not_come_where_no_flight_recorder_does() -> None:
    found = who(PROGRESS, {21: "gpu3"},
                HangSources(ras=rasread.parse((SAMPLES / "stopped.txt").read_bytes())))
    assert (found.ranks, found.hosts, found.sure) == ((21,), ("gpu3",),
                                                      False) and "does not answer" in found.evidence[0]


def test_an_answer_of_ras_in_the_log_folder_counts_if_it_is_of_the_hang(tmp_path: Path) -> None:
    (tmp_path / "ras.json").write_bytes((SAMPLES / "missing.json").read_bytes())
    logs = JobLogs([str(tmp_path)], "", 0.0)
    logs.scan()
    now = time.time()
    assert who({0: 5, 1: 5}, {1: "gpu2"}, logs.of_hang(now, now - 60)).ranks == (1,)
    assert who({0: 5, 1: 5}, {1: "gpu2"}, logs.of_hang(now, now + 60)).ranks == ()


def tool(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is searched for programs first."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def asker(*, stacks: bool = False) -> HangAsker:
    return HangAsker("4711", [Node("here")], LocalTransport(), Limits(), stacks=stacks)


def test_nodes_are_asked_for_what_ras_says(tools: Path) -> None:
    tool(tools, "ncclras", f'[ "$1" = -f ] && cat {shlex.quote(str(SAMPLES / "missing.json"))}')
    found = asker().ras()
    assert found is not None and [one.size for one in found.comms] == [2]


def test_an_older_client_without_json_gives_its_text(tools: Path) -> None:
    tool(tools, "ncclras", f'[ "$1" = -f ] && exit 1; cat {shlex.quote(str(SAMPLES / "dead.txt"))}')
    found = asker().ras()
    assert found is not None and found.gone == (("172.16.64.213", 3487984, True),)


def test_a_client_that_answers_nonsense_is_trouble_and_no_error(tools: Path) -> None:
    tool(tools, "ncclras", "echo nonsense")
    one = asker()
    assert one.ras() is None and "no answer of RAS" in one.trouble


def test_without_a_client_nothing_is_known(tools: Path) -> None:
    assert asker().ras() is None


def test_stacks_are_read_only_where_they_are_asked_for(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchhang, "_processes", lambda recording, job: [os.getpid()])
    tool(tools, "py-spy", f"cat <<'E'\n{DUMP}E")
    assert asker().stacks(["here"]) == ()
    (line,) = asker(stacks=True).stacks(["here"])
    assert (line
            == (f"py-spy: process {os.getpid()} on here: all_reduce (distributed_c10d.py:2501) < step "
                f"(train.py:88) < "
                "<module> (train.py:99)"))


def test_the_processes_of_a_job_are_those_on_its_gpus_or_those_of_its_control_group() -> None:
    first, *rest = [json.loads(line) for line in machine.nvml().text.splitlines()]
    rest[0]["processes"] = {"ok": [[4711, "S", "python3"], [4712, "", ""]]}
    rest[1]["processes"] = {"ok": [[4720, "R", "python3"]]}
    capture = replace(machine.nvml(), text="".join(json.dumps(line) + "\n" for line in (first, *rest)))
    assert _processes(machine.recording(gpu_nvml=capture), "12") == [4711, 4720]
    users = {"names": ["python3", "bash"], "cgroups": ["/system.slice/slurmstepd.scope/job_12/step_0", ""],
             "more": 0, "uptime": "100.0 0",
             "own": [], "hidden": False, "strange": False,
             "processes": [[4730, 1, 1000, 10, 0, 0, 0], [4731, 1, 1000, 10, 0, 1, 0],
                           [4732, 1, 1000, 10, 0, 0, 1]]}
    whole = machine.recording()
    owners = replace(whole, captures={**whole.captures,
                                      "process.owners": Capture(Outcome.DONE, text=json.dumps(users))})
    assert _processes(owners, "12") == [4730] and _processes(owners, "13") == [4732]


def test_a_node_without_py_spy_is_trouble_and_no_error(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchhang, "_processes", lambda recording, job: [os.getpid()])
    tool(tools, "py-spy", "echo no permission >&2; exit 1")
    one = asker(stacks=True)
    assert one.stacks([]) == () and "no permission" in one.trouble


def test_the_real_py_spys_dump_reads(tmp_path: Path) -> None:
    spy = Path(sys.executable).parent / "py-spy"
    if not spy.exists():
        pytest.skip("no py-spy: pip install py-spy")
    with subprocess.Popen([sys.executable, "-c",
                           "import time\ndef waits(): time.sleep(60)\nprint(flush=True); waits()"],
                          stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            done = subprocess.run([spy, "dump", "--nonblocking", "--pid", str(process.pid)],
                                  capture_output=True, text=True, check=False)
        finally:
            process.kill()
    one = parse(done.stdout, "here", process.pid)
    assert one is not None and any(call.startswith("waits (") for call in one.calls), done


def test_who_stands_elsewhere_than_the_others_comes_first() -> None:
    same = [ProcessStack("gpu1", pid, ("all_reduce (a.py:1)",)) for pid in range(7)]
    first, second = words([*same, ProcessStack("gpu2", 9, ("save (b.py:2)",))])
    assert (first == "py-spy: process 9 on gpu2: save (b.py:2)"
            and "process 0 on gpu1, process 1 on gpu1 and 5 others" in second)


@given(st.lists(st.sampled_from(DUMP.splitlines()) | st.text(max_size=40), max_size=40))
def test_no_text_breaks_the_reader_of_stacks(lines: list[str]) -> None:
    one = parse("\n".join(lines), "here", 1)
    assert one is None or (1 <= len(one.calls) <= 4 and all(call.isprintable() for call in one.calls))


@pytest.mark.parametrize(("words_", "said"),
                         [(("--replay", "--log", "."), "--stacks does not go with --replay"),
                          (("--log", "."), "--stacks needs the job's nodes")])
def test_stacks_without_nodes_are_refused(words_: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = muster("watch", *words_, "--stacks", home=tmp_path)
    assert done.returncode == 2 and said in done.stderr
