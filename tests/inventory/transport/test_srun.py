"""The transport through a real Slurm: the same answers and stages as over SSH, and no job stays."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inventory.errors import UsageError
from inventory.model import Node
from inventory.transport.base import Limits, Program, Reply, Stage
from inventory.transport.srun import SrunTransport
from tests.inventory.transport.speaker import gone, head, killed, noted, speaker, waits
from tests.inventory.transport.sweeps import refusal
from tests.testbed.processes import alive
from tests.testbed.require import require
from tests.testbed.slurm import WHY_NOT, Slurm, can_run
from tests.testbed.slurm import slurm as cluster
from tests.testbed.sshd import wait_until

NODES = [f"gpu00{n}" for n in range(1, 5)]
LIMITS = Limits(sweep_s=60, node_s=40, connect_s=10, login_s=10)
ALONE = {"alone": ["gpu004"], "main": NODES[:3]}


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    require(can_run(), WHY_NOT)
    with cluster(tmp_path_factory.mktemp("slurm"), NODES, partitions=ALONE) as running:
        yield running


@pytest.fixture(autouse=True)
def environment(bed: Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in bed.environment.items():
        monkeypatch.setenv(name, value)
    yield
    subprocess.run(["scancel", "-u", "root"], env=bed.environment, check=True)
    wait_until(lambda: not jobs(bed), what="the end of all jobs")


def jobs(bed: Slurm) -> list[str]:
    return bed.ask("squeue", "-h", "-o", "%j %T %v").split("\n")[:-1]


def node(name: str, **more: Any) -> Node:
    return Node(name, python=sys.executable, **more)


def sweep(
    *names: str, program: Program | None = None, reservation: str | None = None, **limits: Any,
) -> dict[str, Reply]:
    transport = SrunTransport(reservation)
    return {reply.node: reply
            for reply in transport.run(map(node, names), program or speaker(), replace(LIMITS, **limits))}


def test_each_node_answers_as_itself_from_whatever_partition_and_gives_back_what_it_took(bed: Slurm) -> None:
    told = replace(speaker("answer((os.environ['SLURMD_NODENAME'] + ' ' + ' '.join(sys.argv[2:])).encode())"),
                   words={name: (f"only-{name}",) for name in NODES})
    found = sweep(*NODES, program=told)
    assert {name: reply.body for name, reply in found.items()} == {
        name: f"{name} only-{name}".encode() for name in NODES}, found
    wait_until(lambda: jobs(bed) == [], what="the end of the job, which Slurm completes")


def test_bytes_of_all_kinds_pass_both_ways(bed: Slurm) -> None:
    every = bytes(range(256)) * 4000
    found = sweep("gpu001", program=speaker("answer(want('all'))", extras={"all": every}))
    assert found["gpu001"].body == every, found["gpu001"].failure


def test_the_end_of_input_is_a_lifeline(bed: Slurm, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    text = (f"open({str(note)!r}, 'w').write(str(os.getpid())); until_end(); open({str(note)!r} + '.ended', "
            "'w')")
    replies = SrunTransport().run([node("gpu001")], speaker(text), replace(LIMITS, program_s=2))
    reply = next(replies)
    assert "at work" in refusal(reply, Stage.DEADLINE)
    assert list(replies) == []
    wait_until((tmp_path / "pid.ended").exists, 10, "the program's end")
    wait_until(lambda: not alive(int(note.read_text())) and not jobs(bed), 15, "the end of the job")


def test_what_does_not_heed_its_lifeline_is_cancelled(bed: Slurm, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    program = speaker(waits(note, "time.sleep(600)"))
    replies = SrunTransport().run([node("gpu001")], program, replace(LIMITS, program_s=3))
    assert next(replies).failure is not None and list(replies) == []
    assert not alive(int(note.read_text()))
    wait_until(lambda: not jobs(bed), 15, "the end of the job")


def test_a_head_that_is_killed_leaves_no_program_and_no_job(bed: Slurm, tmp_path: Path) -> None:
    killed(head("srun.SrunTransport", tmp_path / "pid"), tmp_path / "pid")
    wait_until(lambda: not jobs(bed), 15, "the end of its job")


def test_a_node_that_slurm_does_not_have_or_that_is_taken_is_said_so_in_time(bed: Slurm) -> None:
    bed.ask("scontrol", "update", "nodename=gpu002", "state=drain", "reason=bad DIMM")
    try:
        began = time.monotonic()
        found = sweep("gpu001", "gpu002", "gpu009", connect_s=0.5)
        assert found["gpu001"].body == b"well"
        assert "Slurm did not start our program: salloc: error:" in refusal(found["gpu002"], Stage.CONNECT)
        assert ("sinfo lists it in no partition" in refusal(found["gpu009"], Stage.RESOLVE)
                and time.monotonic() - began < 20)
    finally:
        bed.ask("scontrol", "update", "nodename=gpu002", "state=resume")


def test_within_a_reservation_of_ours_nodes_are_to_be_had(bed: Slurm) -> None:
    bed.ask("scontrol", "create", "reservation", "ReservationName=muster-7-x", "StartTime=now",
            "EndTime=now+600", "Nodes=gpu[001-002]", "Users=root", "Flags=IGNORE_JOBS")
    try:
        found = sweep("gpu001", "gpu002", reservation="muster-7-x",
                      program=speaker("import subprocess; answer(subprocess.check_output(['squeue', '-h', "
                                      "'-o', '%v|%j']))"))
        assert (found["gpu001"].body is not None
                and set(found["gpu001"].body.split()) == {b"muster-7-x|muster-7-x"}), found
        assert "salloc: error" in refusal(sweep("gpu001", connect_s=0.5)["gpu001"], Stage.CONNECT)
    finally:
        bed.ask("scontrol", "delete", "ReservationName=muster-7-x")     # is refused while a job is in it


def test_a_node_that_a_job_of_the_reservation_has_is_looked_at_beside_it_and_that_job_stays(
    bed: Slurm, tmp_path: Path,
) -> None:
    bed.ask("scontrol", "create", "reservation", "ReservationName=muster-8-y", "StartTime=now",
            "EndTime=now+600", "Nodes=gpu[001-002]", "Users=root", "Flags=IGNORE_JOBS")
    note, end = tmp_path / "pid", tmp_path / "end"
    ranks = speaker(f"open({str(note)!r}, 'w').write(str(os.getpid()))\nwhile not "
                    f"os.path.exists({str(end)!r}): time.sleep(0.05)\nanswer(b'ranks')")
    found: dict[str, Reply] = {}
    stays = threading.Thread(
        target=lambda: found.update(sweep("gpu001", program=ranks, reservation="muster-8-y")))
    stays.start()
    try:
        wait_until(lambda: note.exists() and note.read_text(), 30, "the ranks")
        job = speaker("answer(os.environ['SLURM_JOB_ID'].encode())")
        looked = sweep("gpu001", "gpu002", program=job, reservation="muster-8-y", connect_s=3)
        assert (looked["gpu001"].body is not None
                and looked["gpu002"].body not in (None, looked["gpu001"].body))
        ours = [looked["gpu001"].body.decode()]
        # The job of the other node is over, and squeue shows it a moment longer.
        wait_until(lambda: bed.ask("squeue", "-h", "-o", "%A").split() == ours, 30,
                   "the end of the other node's job")
        assert alive(int(note.read_text())), found
        # One that does not heed its lifeline is ended, and the job that stays is not.
        deaf = tmp_path / "deaf"
        assert sweep("gpu001", program=speaker(waits(deaf, "time.sleep(600)")), reservation="muster-8-y",
                     program_s=3)["gpu001"].failure is not None
        gone(deaf)
        assert bed.ask("squeue", "-h", "-o", "%A").split() == ours and alive(int(note.read_text())), found
    finally:
        end.write_text("")
        stays.join(30)
        bed.ask("scontrol", "delete", "ReservationName=muster-8-y")
    assert found["gpu001"].body == b"ranks", found


def test_an_srun_that_is_killed_here_is_said_so_and_blames_no_node(bed: Slurm, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    found: dict[str, Reply] = {}
    thread = threading.Thread(target=lambda: found.update(sweep("gpu001", program=speaker(waits(note)))))
    thread.start()
    noted(note)
    bed.kill_sruns()
    thread.join(30)
    assert refusal(found["gpu001"], Stage.HEAD) == "srun was killed here while our program ran"
    gone(note)


def test_a_program_that_ends_well_without_an_answer_is_no_srun_that_was_killed(bed: Slurm) -> None:
    reason = refusal(sweep("gpu001", program=speaker("pass"))["gpu001"], Stage.REPLY)
    assert "ended without an answer (exit 0)" in reason


def test_a_missing_python_is_stage_python(bed: Slurm) -> None:
    (reply,) = SrunTransport().run([Node("gpu001", python="/no/such/python")], speaker(), LIMITS)
    assert "there is no /no/such/python on the node" in refusal(reply, Stage.PYTHON)


def test_without_slurm_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="sinfo was not found; run this where Slurm's commands are"):
        list(SrunTransport().run([node("gpu001")], speaker(), LIMITS))
