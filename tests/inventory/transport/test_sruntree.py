"""A sweep through srun's tree, on a real Slurm cluster: whole answers, each node's own, and SSH for what srun
does not reach."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inventory.discover import CommandOutput
from inventory.errors import UsageError
from inventory.model import Node, StageLimits
from inventory.sshconfig import SshConfig
from inventory.transport import srunstep, sruntree
from inventory.transport.base import Halt, Limits, Program, Reply, Stage
from inventory.transport.lifelines import Lifelines
from inventory.transport.srunaccess import elsewhere, require_srun
from inventory.transport.sruntree import SlurmTransport
from tests.inventory.transport.speaker import gone, head, killed, noted, speaker, waits
from tests.inventory.transport.sweeps import refusal
from tests.inventory.transport.test_slow_nodes import hanging
from tests.testbed.processes import alive
from tests.testbed.require import require
from tests.testbed.slurm import WHY_NOT, Slurm, _start, can_run, fixture_of
from tests.testbed.slurm import slurm as cluster
from tests.testbed.sshd import wait_until

NODES = [f"gpu{number:03d}" for number in range(1, 7)]
LIMITS = Limits(sweep_s=90, node_s=40, connect_s=10, login_s=10)
NAME = speaker("answer(os.environ['SLURMD_NODENAME'].encode())")


class OverSsh:
    """Stands for SSH: answers `ssh` for every node, and knows whom it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self) -> OverSsh:
        return self

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        for node in nodes:
            self.asked.append(node.name)
            yield Reply(node.name, b"ssh", None, 0.0, 1.0)


bed = fixture_of(NODES)


@pytest.fixture(autouse=True)
def environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "bed" in request.fixturenames:
        for name, value in request.getfixturevalue("bed").environment.items():
            monkeypatch.setenv(name, value)


def node(name: str, **more: Any) -> Node:
    return Node(name, **{"python": sys.executable, **more})


def sweep(*names: str, program: Program = NAME, ssh: OverSsh | None = None,
          **limits: Any) -> dict[str, Reply]:
    transport = SlurmTransport(ssh=ssh or OverSsh())
    return {reply.node: reply
            for reply in transport.run(map(node, names), program, replace(LIMITS, **limits))}


def bodies(found: dict[str, Reply]) -> dict[str, bytes | None]:
    return {name: reply.body for name, reply in found.items()}


def own(names: Iterable[str]) -> dict[str, bytes | None]:
    return {name: name.encode() for name in names}


def test_each_node_answers_as_itself_to_arguments_of_its_own_and_the_summary_says_so(bed: Slurm) -> None:
    transport = SlurmTransport(ssh=OverSsh())
    told = replace(speaker("answer(' '.join([os.environ['SLURMD_NODENAME'], *sys.argv[2:]]).encode())"),
                   words={name: (f"only='{name}' $HOME",) for name in NODES})
    found = {reply.node: reply for reply in transport.run(map(node, NODES), told, LIMITS)}
    assert bodies(found) == {name: f"{name} only='{name}' $HOME".encode() for name in NODES}, found
    assert transport.summary() == ["through srun: gpu[001-006]"]
    assert bed.ask("squeue", "-h") == ""


def test_a_drained_node_and_one_with_a_job_answer_and_the_job_stays(bed: Slurm) -> None:
    bed.ask("scontrol", "update", "nodename=gpu002", "state=drain", "reason=bad DIMM")
    job = bed.ask("sbatch", "--parsable", "-p", "main", "-w", "gpu003", "-o", "/dev/null", "--wrap",
                  "sleep 600").strip()
    try:
        wait_until(lambda: bed.states()["gpu003"].startswith("alloc"), what="a busy node")
        wait_until(lambda: bed.states()["gpu002"] == "drained", what="a drained node")
        assert bodies(sweep(*NODES)) == own(NODES)
        assert bed.ask("squeue", "-h", "-o", "%A %T").split() == [job, "RUNNING"]
    finally:
        bed.ask("scancel", job)
        bed.ask("scontrol", "update", "nodename=gpu002", "state=resume")
        bed.nodes_return()


def test_bytes_of_all_kinds_and_megabytes_of_them_come_whole_and_apart(bed: Slurm) -> None:
    every = bytes(range(256)) * 200
    source = ("import random; name = os.environ['SLURMD_NODENAME']; "
              "answer(want('all') + name.encode() + random.Random(name).randbytes(3_000_000))")
    nodes = NODES[:3]
    found = sweep(*nodes, program=speaker(source, extras={"all": every}))
    assert {name: reply.failure for name, reply in found.items() if reply.failure is not None} == {}
    assert {name: hashlib.sha256(body or b"").hexdigest() for name, body in bodies(found).items()} == {
        name: hashlib.sha256(every + name.encode() + random.Random(name).randbytes(3_000_000)).hexdigest()
        for name in nodes}


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)])
def test_a_dead_slurmd_holds_no_one_and_its_node_goes_over_ssh(bed: Slurm, how: signal.Signals) -> None:
    os.kill(bed.processes["gpu004"].pid, how)
    ssh, transport = OverSsh(), None
    try:
        transport = SlurmTransport(ssh=ssh)
        began, at = time.monotonic(), {}
        found = {}
        for reply in transport.run(map(node, NODES), NAME, LIMITS):
            found[reply.node], at[reply.node] = reply, time.monotonic() - began
        assert bodies(found) == {**own(NODES), "gpu004": b"ssh"}, found
        # srun learns after 10 or 20 s that it is dead; the others do not wait for that.
        assert max(at[name] for name in NODES if name != "gpu004") + 1 < at["gpu004"] < 60, at
        assert ssh.asked == ["gpu004"]
        assert "over SSH, as srun could not start it" in transport.summary()[1]
    finally:
        if how is signal.SIGSTOP:
            os.kill(bed.processes["gpu004"].pid, signal.SIGCONT)
        else:
            bed.processes["gpu004"].wait()
            _start(bed, "gpu004", "slurmd", "-D", "-f", str(bed.conf), "-N", "gpu004", "-L",
                   f"{bed.folder}/gpu004.log")
        bed.ask("scontrol", "update", "nodename=gpu004",
                "state=resume") if bed.states()["gpu004"] not in ("idle", "idle*") else None
        bed.nodes_return()


def test_without_slurmctld_srun_still_reaches_nodes_and_an_unknown_one_goes_over_ssh(bed: Slurm) -> None:
    bed.kill()
    try:
        ssh = OverSsh()
        assert bodies(sweep("gpu001", "gpu002", "gpu099", ssh=ssh)) == {**own(("gpu001", "gpu002")),
                                                                        "gpu099": b"ssh"}
        assert ssh.asked == ["gpu099"]
    finally:
        bed.start()
        bed.nodes_return()


def test_a_node_that_slurm_does_not_know_goes_over_ssh_at_once(bed: Slurm) -> None:
    ssh, transport = OverSsh(), None
    transport = SlurmTransport(ssh=ssh)
    found = {reply.node: reply for reply in transport.run(map(node, ["gpu001", "gpu099"]), NAME, LIMITS)}
    assert bodies(found) == {"gpu001": b"gpu001", "gpu099": b"ssh"}
    assert transport.summary() == ["through srun: gpu001", "over SSH, as Slurm does not know it: gpu099"]


def test_the_real_ssh_says_why_srun_was_not_used(bed: Slurm) -> None:
    (reply,) = SlurmTransport().run([node("gpu099.invalid")], NAME, LIMITS)
    assert "(over SSH, as Slurm does not know it)" in refusal(reply, Stage.RESOLVE)


def test_a_node_whose_login_over_ssh_hung_is_left_alone_there_for_a_time(bed: Slurm, tmp_path: Path) -> None:
    with hanging(tmp_path, 99) as (server, hangs):
        transport = SlurmTransport(every=1.0)
        nodes, limits = [server.node("gpu099"), node("gpu001")], replace(LIMITS, login_s=1)
        first, later = [{reply.node: reply for reply in transport.run(nodes, NAME, limits)} for _ in range(2)]
        assert "tried twice" in refusal(first["gpu099"], Stage.LOGIN)
        assert "left alone until" in refusal(later["gpu099"], Stage.LOGIN)
        assert first["gpu001"].body == later["gpu001"].body == b"gpu001"
        assert len(hangs.processes) == 2


@pytest.mark.parametrize(("state", "why"), [
    ("idle", ""), ("drained", ""), ("allocated", ""), ("down", ""), ("mixed-", ""), ("maint", ""),
    ("down*", "Slurm says it does not respond"), ("idle*", "Slurm says it does not respond"),
    ("idle~", "Slurm says it is powered off"), ("allocated#", "Slurm says it is being powered up"),
])
def test_only_where_slurm_knows_that_no_slurmd_is_there_srun_is_not_tried(state: str, why: str) -> None:
    assert elsewhere({"gpu001": state})("gpu001") == why
    assert elsewhere({"gpu002": state})("gpu001") == "Slurm does not know it"
    assert elsewhere(None)("gpu001") == ""


def test_a_hung_program_is_a_failure_of_its_node_in_time_and_is_ended(bed: Slurm, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    program = speaker(f"if os.environ['SLURMD_NODENAME'] != 'gpu002': answer(b'well')\n"
                      f"else: open({str(note)!r}, 'w').write(str(os.getpid())); until_end()")
    found = sweep("gpu001", "gpu002", program=program, node_s=3)
    assert found["gpu001"].body == b"well"
    assert "at work" in refusal(found["gpu002"],
                                Stage.DEADLINE) and "through srun" in refusal(found["gpu002"], Stage.DEADLINE)
    gone(note)


def test_a_program_is_given_the_time_that_its_node_says(bed: Slurm) -> None:
    nodes = [node("gpu001"), node("gpu002", limits=StageLimits(node=30.0))]
    limits = replace(LIMITS, program_s=3.0)
    found = {reply.node: reply
             for reply in SlurmTransport(ssh=OverSsh()).run(nodes,
                                                            speaker("time.sleep(6); answer(b'well')"),
                                                            limits)}
    assert "at work" in refusal(found["gpu001"], Stage.DEADLINE)
    assert found["gpu002"].body == b"well"


def test_one_that_ignores_the_end_of_its_input_is_killed(bed: Slurm, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    program = speaker(waits(note, "time.sleep(600)"))
    assert sweep("gpu001", program=program, program_s=3)["gpu001"].failure is not None
    gone(note)


def test_closing_the_sweep_ends_what_runs_on_the_nodes_though_a_slurmd_is_dead(bed: Slurm,
                                                                               tmp_path: Path) -> None:
    os.kill(bed.processes["gpu004"].pid, signal.SIGSTOP)
    try:
        text = (f"open(os.path.join({str(tmp_path)!r}, os.environ['SLURMD_NODENAME']), "
                f"'w').write(str(os.getpid())); until_end()")
        replies = SlurmTransport(ssh=OverSsh()).run(map(node, [*NODES[:3], "gpu004"]), speaker(text), LIMITS)
        taken = threading.Thread(target=lambda: next(replies, None))
        taken.daemon = True
        taken.start()
        wait_until(lambda: len([path for path in tmp_path.iterdir() if path.read_text()]) == 3, 20,
                   "three programs")
        pids = [int(path.read_text()) for path in tmp_path.iterdir()]
        taken.join(60)      # the node of the dead slurmd comes over SSH
        replies.close()     # type: ignore[attr-defined]
        wait_until(lambda: not any(map(alive, pids)), 15, "the end of the programs")
    finally:
        os.kill(bed.processes["gpu004"].pid, signal.SIGCONT)
        bed.nodes_return()


def test_a_head_that_is_killed_leaves_no_program(bed: Slurm, tmp_path: Path) -> None:
    killed(head("sruntree.SlurmTransport", tmp_path / "pid"), tmp_path / "pid")


def test_an_srun_that_is_killed_here_is_said_so_and_blames_no_node(bed: Slurm, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    found: dict[str, Reply] = {}
    thread = threading.Thread(target=lambda: found.update(sweep("gpu001", program=speaker(waits(note)))))
    thread.start()
    noted(note)
    bed.kill_sruns()
    thread.join(30)
    assert refusal(found["gpu001"], Stage.HEAD) == ("srun was killed here (signal 9) while the program ran "
                                                    "there (through srun)")
    gone(note)


def test_a_halt_ends_the_run_at_once(bed: Slurm) -> None:
    halt = Halt()
    threading.Timer(2.0, halt.call).start()
    began = time.monotonic()
    found = sweep("gpu001", program=speaker("until_end()"), halt=halt)
    assert "the run was stopped" in refusal(found["gpu001"], Stage.DEADLINE) and time.monotonic() - began < 15


def test_the_sweeps_time_is_kept(bed: Slurm) -> None:
    began = time.monotonic()
    assert "the sweep's 3 s were over" in refusal(sweep("gpu001", program=speaker("until_end()"),
                                                        sweep_s=3)["gpu001"], Stage.DEADLINE)
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("source", [
    "OUT.write(b'1: .AAAA\\n0: muster:0:at gpu002\\n' * 100); OUT.flush(); answer(NAME)",
    *(pytest.param(f"OUT.write({said}); OUT.flush(); answer(NAME)", marks=pytest.mark.slow)
      for said in ("b'x' * 900_000", "bytes(range(256)) * 900 + b'\\n'")),
    "sys.stderr.write('srun: error: Task launch for StepId=1.2 failed on node gpu002: no\\n' * 50); "
    "sys.stderr.flush(); answer(NAME)",
])
def test_what_a_program_prints_is_taken_for_nothing_of_slurms(bed: Slurm, source: str) -> None:
    program = speaker("NAME = os.environ['SLURMD_NODENAME'].encode()\n"
                      f"if NAME == b'gpu001':\n    {source}\nelse: answer(NAME)")
    assert bodies(sweep("gpu001", "gpu002", "gpu003", program=program)) == own(("gpu001", "gpu002", "gpu003"))


def test_one_that_says_to_be_on_another_node_is_not_believed(bed: Slurm) -> None:
    program = speaker("NAME = os.environ['SLURMD_NODENAME'].encode()\n"
                      "if NAME == b'gpu001': line('at gpu002')\nanswer(NAME)")
    found = sweep("gpu001", "gpu002", program=program)
    assert "unknown protocol line" in refusal(found["gpu001"],
                                              Stage.REPLY) and found["gpu002"].body == b"gpu002"


def test_one_that_floods_is_cut_and_the_others_are_whole(bed: Slurm) -> None:
    program = speaker("NAME = os.environ['SLURMD_NODENAME'].encode()\n"
                      "if NAME == b'gpu001':\n    while True: OUT.write(b'y' * 60000 + b'\\n')\nelse: "
                      "answer(NAME)")
    found = sweep("gpu001", "gpu002", program=program)
    assert found["gpu002"].body == b"gpu002"
    assert "over 1 MiB of output before our answer" in refusal(found["gpu001"], Stage.REPLY)


def test_a_missing_python_and_a_broken_program_are_told_apart(bed: Slurm) -> None:
    found = {reply.node: reply for reply in SlurmTransport(ssh=OverSsh()).run(
        [node("gpu001", python="/no/such/python"), node("gpu002")],
        speaker("raise KeyError('here')"), LIMITS)}
    assert "there is no /no/such/python on the node" in refusal(found["gpu001"], Stage.PYTHON)
    assert "KeyError: 'here'" in refusal(found["gpu002"], Stage.REPLY)


def test_a_node_that_cannot_connect_back_goes_over_ssh(bed: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(Lifelines):
        def __init__(self) -> None:
            super().__init__()
            self.close()

    monkeypatch.setattr(sruntree, "Lifelines", Closed)
    transport = SlurmTransport(ssh=OverSsh())
    found = {reply.node: reply for reply in transport.run([node("gpu001")], NAME, LIMITS)}
    assert bodies(found) == {"gpu001": b"ssh"}
    assert "no connection back to the head" in transport.summary()[1]


def test_what_srun_has_not_started_in_time_goes_over_ssh(bed: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(srunstep, "START_S", 5.0)
    os.kill(bed.processes["gpu004"].pid, signal.SIGSTOP)
    try:
        ssh = OverSsh()
        began = time.monotonic()
        assert bodies(sweep("gpu001", "gpu004", ssh=ssh)) == {"gpu001": b"gpu001", "gpu004": b"ssh"}
        assert ssh.asked == ["gpu004"] and time.monotonic() - began < 18
    finally:
        os.kill(bed.processes["gpu004"].pid, signal.SIGCONT)
        bed.nodes_return()


def test_many_sruns_share_a_sweep(bed: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sruntree, "PER_STEP", 2)
    monkeypatch.setattr(sruntree, "AT_ONCE", 2)
    found = sweep(*NODES)
    assert bodies(found) == own(NODES), [reply.failure for reply in found.values()]


@pytest.mark.parametrize(("limit", "most"), [(20_000, (8, 256)), (1024, (3, 256)), (300, (1, 44))])
def test_no_more_nodes_at_once_than_files_may_be_open(monkeypatch: pytest.MonkeyPatch, limit: int,
                                                      most: tuple[int, int]) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda which: (min(limit, 256), limit))
    monkeypatch.setattr("resource.setrlimit", lambda which, limits: None)
    assert sruntree._room() == most


def config(user: str) -> Any:
    return lambda argv: CommandOutput(0,
                                      (f"Configuration data\nSlurmUser               = "
                                       f"{user}(64030)\n").encode(), b"")


def test_who_is_neither_root_nor_slurmuser_is_told_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("getpass.getuser", lambda: "alice")
    with pytest.raises(UsageError,
                       match=r"only root and SlurmUser \(slurm\) may .*you are alice; type: sudo -u slurm "
                             r"muster check"):
        require_srun(config("slurm"))
    require_srun(config("alice"))
    with pytest.raises(UsageError, match=r"scontrol failed .*type: sudo muster check --via slurm"):
        require_srun(lambda argv: CommandOutput(1,
                                                b"",
                                                b"slurm_load_ctl_conf error: Unable to contact slurm "
                                                b"controller\n"))
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(UsageError, match="srun was not found; run this where Slurm's commands are"):
        require_srun(config("alice"))


def test_an_ssh_configuration_that_cannot_be_read_is_this_machines_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host *\n User root\n")
    (tmp_path / ".ssh" / "config").chmod(0o666)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("inventory.transport.ssh.default_config", SshConfig.load)     # read anew
    transport = SlurmTransport(run=lambda argv: CommandOutput(0, b"gpu002|idle\n", b""))
    (reply,) = transport.run([node("gpu001")], NAME, LIMITS)
    assert f"{tmp_path}/.ssh/config: bad permissions" in refusal(reply, Stage.HEAD)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_hundred_and_twenty_eight_nodes_of_which_two_are_dead(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch,
) -> None:
    require(can_run(), WHY_NOT)
    names = [f"gpu{number:03d}" for number in range(1, 129)]
    with cluster(tmp_path_factory.mktemp("s"), names) as bed:
        for name, value in bed.environment.items():
            monkeypatch.setenv(name, value)
        os.kill(bed.processes["gpu017"].pid, signal.SIGKILL)
        os.kill(bed.processes["gpu099"].pid, signal.SIGSTOP)
        try:
            source = "name = os.environ['SLURMD_NODENAME']; answer(name.encode() * 3000)"
            ssh = OverSsh()
            found = sweep(*names, program=speaker(source), ssh=ssh, sweep_s=120)
            assert bodies(found) == {name: b"ssh" if name in ("gpu017", "gpu099") else name.encode() * 3000
                                     for name in names}
            assert sorted(ssh.asked) == ["gpu017", "gpu099"]
        finally:
            os.kill(bed.processes["gpu099"].pid, signal.SIGCONT)
