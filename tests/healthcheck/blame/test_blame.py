"""`muster blame` on jobs with known culprits: the first line names them,
whatever else the nodes and logs show."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from healthcheck.facts.host import UPTIME
from healthcheck.facts.kernel import LOG
from healthcheck.model.outcome import Owner, Severity
from healthcheck.model.recording import Capture, FileCapture, Host, Outcome, Recording, to_json
from healthcheck.store.readings import CounterReading
from tests.command import muster
from tests.healthcheck.blame.bed import END, NODES, START, Bed, blind, first, stamp, wrong

RECORDED = Path(__file__).parents[2] / "recordings" / "blame"


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def watchdog(rank: int, work: int, moment: float) -> str:
    clock = stamp(moment, "%m%d %H:%M:%S")
    return (f"[rank{rank}]:[E{clock}.1 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
            f"operation timeout: WorkNCCL(SeqNum={work}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
            f"Timeout(ms)=600000) ran for 600067 milliseconds before timing out.\n[rank{rank}]:[E{clock}.2 "
            f"ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Exception (either an "
            f"error or timeout) detected by watchdog at work: {work}, last enqueued NCCL work: {work + 2}, "
            f"last completed NCCL work: {work - 1}.\n")


def ranks(count: int) -> str:
    return "".join(f"gpu{rank // 8 + 1:03}:{900 + rank}:{2000 + rank} [{rank % 8}] NCCL INFO comm 0x55f0 "
                   f"rank {rank} nranks {count} cudaDev {rank % 8} nvmlDev {rank % 8} busId 9b000 commId "
                   "0x5a - Init COMPLETE\n" for rank in range(count))


def failure(
    host: str, rank: int, code: str, moment: float, *, title: str = "Root Cause (first observed failure):",
) -> str:
    return (f"{title}\n[0]:\n  time      : {stamp(moment, '%Y-%m-%d_%H:%M:%S')}\n  host      : {host}\n  "
            f"rank      : {rank} (local_rank: {rank % 8})\n  exitcode  : {code} (pid: 1)\n  error_file: "
            f"<N/A>\n  traceback : see above\n{'=' * 60}\n")


def xid(moment: float, number: int, rest: str, pci: str = "0000:9b:00") -> str:
    return f"{stamp(moment, '[%a %b %d %H:%M:%S %Y]')} NVRM: Xid (PCI:{pci}): {number}, {rest}\n"


def test_a_gpu_that_fell_off_the_bus_is_named_though_every_rank_timed_out(bed: Bed) -> None:
    bed.ended("FAILED")
    bed.log("gpu007.dmesg",
            xid(END - 612, 79, "pid=1234, name=python, GPU has fallen off the bus.")
            + xid(END - 2, 45, "pid=1234, name=python, Ch 00000008") + xid(
                END - 1, 45, "pid=1235, name=python", "0000:18:00"))
    bed.log("slurm-4711.out", ranks(64) + "".join(watchdog(rank, 1580, END - 5) for rank in range(64)
                                                  if rank != 51))
    done = bed.blame()
    assert first(done).startswith("gpu007: GPU at PCI 0000:9b:00 fell off the bus (Xid 79) ")
    assert first(done).endswith("before the job failed; certain; owner operator")
    assert "rank 51 did not come to a collective that 63 ranks waited in" in done.stdout
    assert done.stdout.count("waited in a collective until its time was up") == 2
    assert "gpu[001-006,008]  " in done.stdout
    assert done.returncode == 1


def test_an_xid_that_only_the_sweep_after_the_job_saw_is_named_with_the_looks_between_which_it_came(
    bed: Bed,
) -> None:
    bed.sweep(START - 600)
    bed.sweep(END + 600,
              {"gpu003": (wrong("kernel-xid", "GPU at PCI 0000:18:00, Xid 48",
                                "7000 s after boot: NVRM: Xid (PCI:0000:18:00): 48"),
                          wrong("kernel-xid-job", "GPU at PCI 0000:18:00, Xid 45", "x", Severity.INFO,
                                Owner.USER))})
    bed.slurm("FAILED")
    bed.log("slurm-4711.out", "srun: error: gpu001: task 3: Exited with exit code 1\n")
    done = bed.blame()
    assert first(done) == ("gpu003: GPU at PCI 0000:18:00, Xid 48: kernel-xid, between the looks before and "
                           "after the job failed; likely; owner operator")


def test_a_node_that_slurm_lost_and_that_booted_anew_is_named(bed: Bed) -> None:
    bed.sweep(START - 600)
    bed.sweep(END + 900, boots={"gpu005": "boot-2"})
    bed.slurm("NODE_FAIL", "0:0", "gpu005")
    bed.log("slurm-4711.out", "srun: error: Node failure on gpu005\nslurmstepd: error: *** STEP 4711.0 ON "
            f"gpu001 CANCELLED AT {stamp(END)} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n")
    done = bed.blame()
    assert first(done) == "gpu005: was lost by Slurm, as the job failed; certain; owner operator"
    assert "booted anew" in done.stdout


def test_a_reboot_that_muster_did_is_musters_own_action(bed: Bed) -> None:
    bed.sweep(START - 600)
    bed.sweep(END + 900, boots={"gpu002": "boot-2"})
    bed.did(END - 30, "reboot", "gpu002", "the driver asks for it")
    bed.slurm("NODE_FAIL", "0:0", "gpu002")
    assert first(
        bed.blame()) == "gpu002: muster rebooted it 30 s before the job failed; certain; owner operator"


def test_a_leaf_whose_ports_failed_on_all_its_nodes_is_named_and_no_single_node(bed: Bed) -> None:
    down = {node: (wrong("port-state", "mlx5_0", "DOWN", owner=Owner.NETWORK),) for node in NODES[:4]}
    bed.sweep(START - 600)
    bed.sweep(END + 300, down)
    bed.slurm("FAILED")
    (bed.home / "muster.yaml").write_text("version: 1\nnodes:\n" + "".join(
        f"  {node}: {{leaf: leaf{1 + at // 4}, rack: r1}}\n" for at, node in enumerate(NODES)))
    assert first(bed.blame()).startswith(
        "leaf leaf1: 4 nodes of it (gpu[001-004]) show the same, mlx5_0: port-state, between")
    assert first(bed.blame()).endswith("owner network")


def test_an_incident_of_the_store_is_the_cause_where_its_nodes_show_it(bed: Bed) -> None:
    bed.sweep(START - 600)
    bed.sweep(END + 300, {node: (wrong("filesystem-mounted", "/scratch", "not mounted"),)
                          for node in NODES[:3]})
    with bed.store() as store, store.writing() as db:
        db.execute("INSERT INTO incident (kind, cause, nodes, why, owner, began, seen) "
                   "VALUES ('storage', 'server nfs1', ?, 'it is down', 'operator', ?, ?)",
                   (json.dumps(list(NODES[:3])), END - 60, END))
    bed.slurm("FAILED")
    assert first(bed.blame()).startswith("incident storage server nfs1: 3 nodes of it (gpu[001-003]) show "
                                         "the same, /scratch: filesystem-mounted")


def test_a_link_that_went_down_in_the_job_outranks_what_nccl_says_of_others(bed: Bed) -> None:
    def count(value: float) -> dict[str, tuple[CounterReading, ...]]:
        return {node: (CounterReading("mlx5_3", "link_downed", value if node == "gpu006" else 0),)
                for node in NODES}

    bed.sweep(START - 600, counters=count(1))
    bed.sweep(END + 300, counters=count(4))
    bed.slurm("FAILED")
    bed.log("slurm-4711.out", "".join(
        f"{node}:1:2 [3] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.6<5592> "
        "with status=12 opcode=1 len=0 vendor err 129 (Send)\n" for node in ("gpu001", "gpu006")))
    assert first(bed.blame()).startswith("gpu006: mlx5_3: its link went down 3 times, between")


def test_a_process_killed_for_memory_is_the_users_and_the_cancelled_steps_are_not_named(bed: Bed) -> None:
    bed.ended("OUT_OF_MEMORY", "0:125")
    bed.log("slurm-4711.out", "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the "
                              "step tasks have been OOM Killed.\n"
            "srun: error: gpu004: task 25: Out Of Memory\nsrun: error: gpu001: task 0: Terminated\nsrun: "
            "error: gpu004: task 26: Killed\n")
    done = bed.blame()
    assert first(done) == ("gpu004: a process of the job was killed: it used more host memory than it asked "
                           "for, as the job failed; certain; owner user")
    assert "--mem" in done.stdout


def test_gpu_memory_that_ran_out_is_the_users(bed: Bed) -> None:
    bed.ended("FAILED")
    bed.log("out", ranks(64) + "[rank9]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 "
                               "GiB. GPU 1 has ...\n" + failure("gpu002", 9, "1", END - 3))
    assert first(
        bed.blame()) == "gpu002: rank 9: ran out of GPU memory, as the job failed; likely; owner user"


def test_an_exception_of_the_program_is_the_users_and_torchruns_other_root_causes_are_echoes(
    bed: Bed,
) -> None:
    bed.ended("FAILED")
    bed.log("out", "[rank3]: RuntimeError: [/pair.cc:553] Connection closed by peer [10.0.0.3]:9403. This is "
                   "typically caused by ...\n"
            "[rank20]: ValueError: shard 17 is empty\n" + ranks(64) + failure("gpu001", 3, "1", END - 2)
                   + failure("gpu003", 20, "1", END - 4))
    assert first(
        bed.blame()) == "gpu003: rank 20: the program raised an error, as the job failed; likely; owner user"


def test_the_rank_that_did_not_come_is_the_lead_where_nothing_says_why(bed: Bed) -> None:
    bed.ended("FAILED")
    bed.log("out", ranks(64) + "".join(watchdog(rank, 900, END - 5) for rank in range(64) if rank != 42) +
            failure("gpu001", 0, "-6", END - 2))
    done = bed.blame()
    assert first(done).startswith("gpu006: rank 42 did not come to a collective that 63 ranks waited in")
    assert done.returncode == 1


def test_a_hang_of_which_only_flight_recorders_tell_names_the_rank_that_wrote_none(bed: Bed) -> None:
    for name in ("fr_0", "fr_1", "fr_3"):
        bed.log(name, (RECORDED / name).read_bytes())
    bed.log("torchrun.log", (RECORDED / "torchrun-recorded-hang.log").read_bytes())
    done = bed.blame("--nodes", "gpu001", "--since", "1795300000", "--until", "1795306000")
    assert first(done).startswith("gpu001: rank 2 did not come to a collective that 3 ranks waited in")


def test_a_killed_rank_is_named_and_the_many_that_torchrun_ended_after_it_are_not(bed: Bed) -> None:
    bed.ended("FAILED")
    bed.log("out", failure("gpu001", 2, "-15", END - 1, title="Failures:") + failure(
        "gpu001", 0, "1", END - 2) + failure("gpu003", 17, "-9", END - 3))
    assert first(bed.blame()).startswith(
        "gpu003: rank 17 was ended by signal 9, the first of 2, as the job failed")


@pytest.mark.parametrize(("state", "line"), [
    ("PREEMPTED", "the scheduler preempted the job: no one's fault"),
    ("TIMEOUT", "the job reached its time limit: no one's fault"),
    ("CANCELLED by 1000", "the job was cancelled by user 1000: no one's fault"),
])
def test_what_the_scheduler_ended_is_no_ones_fault(bed: Bed, state: str, line: str) -> None:
    bed.ended(state, "0:15")
    bed.log("out", f"slurmstepd: error: *** STEP 4711.0 ON gpu001 CANCELLED AT {stamp(END)} ***\nsrun: "
                   "error: gpu002: task 9: Killed\n")
    done = bed.blame()
    assert (first(done), done.returncode) == (line, 0)


def test_a_job_that_stood_still_for_a_lost_gpu_until_its_time_limit_is_that_gpus(bed: Bed) -> None:
    bed.ended("TIMEOUT", "0:0")
    bed.log("gpu008.dmesg", xid(END - 1500, 79, "pid=1, name=python, GPU has fallen off the bus."))
    bed.log("out", f"slurmstepd: error: *** STEP 4711.0 ON gpu001 CANCELLED AT {stamp(END)} DUE TO TIME "
                   "LIMIT ***\n")
    assert first(bed.blame()).startswith(
        "gpu008: GPU at PCI 0000:9b:00 fell off the bus (Xid 79) 25 min before the job failed")


def test_a_fault_that_came_long_after_the_job_is_not_its_cause(bed: Bed) -> None:
    bed.quiet()
    bed.sweep(END + 7200, {"gpu004": (wrong("gpu-count", "GPUs", 7),)})
    bed.slurm("FAILED")
    bed.log("out", ranks(64) + "[rank9]: ValueError: x\n")
    assert first(bed.blame()) == "gpu002: rank 9: the program raised an error; likely; owner user"


def test_nothing_found_where_all_was_measured_says_so_and_ends_with_0(bed: Bed) -> None:
    bed.ended("FAILED")
    bed.log("out", ranks(64))
    done = bed.blame()
    assert (first(done), done.returncode) == ("nothing found, and all of it was measured", 0)


def test_nothing_found_names_what_was_not_measured_and_ends_with_3(bed: Bed) -> None:
    bed.sweep(START - 600, nodes=NODES[:6])
    bed.sweep(END + 600, {"gpu002": (blind("kernel-xid", "dmesg: permission denied"),)}, nodes=NODES[:6])
    bed.slurm("FAILED")
    done = bed.blame()
    assert (first(done), done.returncode) == (
        "nothing found; not measured: gpu007, gpu008; gpu002 kernel-xid; the job's own logs", 3)
    assert "gpu002 kernel-xid: dmesg: permission denied" in done.stdout


def test_symptoms_alone_accuse_no_one(bed: Bed) -> None:
    bed.ended("FAILED")
    bed.log("out", ranks(64) + "".join(watchdog(rank, 900, END - 5) for rank in range(64)))
    done = bed.blame()
    assert (first(done), done.returncode) == ("nothing found, and all of it was measured", 0)
    assert "waited in a collective until its time was up" in done.stdout


def test_a_job_that_completed_has_nothing_to_blame(bed: Bed) -> None:
    bed.sweep(END + 600, {"gpu002": (wrong("gpu-count", "GPUs", 7),)})
    bed.slurm("COMPLETED", "0:0")
    done = bed.blame()
    assert (first(done), done.returncode) == ("job 4711 completed: nothing to blame", 0)


def test_without_a_scheduler_nodes_and_times_do(bed: Bed) -> None:
    bed.quiet()
    bed.log("gpu002.dmesg", xid(END - 12, 79, "pid=1, GPU has fallen off the bus."))
    done = bed.blame("--nodes", "gpu[001-008]", "--since", stamp(START), "--until", stamp(END))
    assert (first(
        done) == "gpu002: GPU at PCI 0000:9b:00 fell off the bus (Xid 79) 12 s before the job failed; "
                 "certain; owner operator")
    assert "the scheduler's record: no job id was given" in done.stdout


RECORDED_JOBS = {
    "segv": ("1", "gpu002: rank 1 was ended by signal 11; likely; owner operator"),
    "exit": ("2", "gpu002: rank 1 ended with exit code 3; likely; owner user"),
    "killed": ("3", "gpu002: rank 1 was ended by signal 9; likely; owner operator"),
    "cancel": ("4", "the job was cancelled by user 0: no one's fault"),
    "good": ("5", "job 5 completed: nothing to blame"),
    "nodefail": ("6", "gpu002: Slurm lost the node, as the job failed; certain; owner operator"),
}


@pytest.mark.parametrize("name", RECORDED_JOBS)
def test_jobs_that_a_real_slurm_recorded_have_the_right_first_line(bed: Bed, name: str) -> None:
    number, line = RECORDED_JOBS[name]
    bed.slurm("COMPLETED")
    folder = RECORDED / "slurm-recorded"
    (bed.home / "sacct.txt").write_bytes((folder / f"{name}.sacct").read_bytes())
    if (folder / f"{name}.out").exists():
        bed.log(f"slurm-{number}.out", (folder / f"{name}.out").read_bytes())
    assert first(bed.blame(number)) == line


def test_a_recording_of_a_node_tells_the_moment_of_an_xid(bed: Bed) -> None:
    bed.ended("FAILED")
    kmsg = ("6,1,1000000,-;Linux version 6.5.0\n4,2,88000000,-;NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU "
            "has fallen off the bus.\n")
    files = {"/dev/kmsg": FileCapture(Outcome.DONE, kmsg)}
    up = {"/proc/uptime": FileCapture(Outcome.DONE, "1100.00 9000.00\n")}
    look = Recording("gpu004", END + 1000, Host("gpu004", "b", END + 1000, 0, "3.10", "x86_64", 0.1), None,
                     {LOG.id: Capture(Outcome.DONE, bytes=len(kmsg), files=files),
                      UPTIME.id: Capture(Outcome.DONE, bytes=9, files=up)})
    bed.log("gpu004.json", json.dumps(to_json(look)))
    assert (first(
        bed.blame()) == "gpu004: GPU at PCI 0000:9b:00 fell off the bus (Xid 79) 12 s before the job failed; "
                        "certain; owner operator")


def test_times_of_another_zone_or_job_are_left_and_said(bed: Bed) -> None:
    bed.ended("FAILED")
    bed.log("out", ranks(64) + failure("gpu003", 20, "-9", END - 40 * 3600))
    done = bed.blame()
    assert first(done) == "gpu003: rank 20 was ended by signal 9; likely; owner operator"
    assert "out: when it happened: none of its times is of the job's time" in done.stdout


def test_the_document_says_what_the_page_says(bed: Bed) -> None:
    bed.ended("NODE_FAIL", "0:0", "gpu005")
    done = bed.blame("4711", "--format", "json")
    told = json.loads(done.stdout)
    assert (told["schema"], told["found"], done.returncode) == ("muster.blame/1", True, 1)
    assert told["first"] == "gpu005: was lost by Slurm, as the job failed; certain; owner operator"
    assert [(one["node"], one["certainty"]) for one in told["suspects"]] == [("gpu005", "certain")]


def test_what_a_log_says_is_shown_as_text_and_bounded(bed: Bed) -> None:
    bed.ended("FAILED")
    bed.log("out", ranks(64) + "[rank9]: ValueError: \x1b]0;owned\x07" + "x" * 5000 + "\n")
    done = bed.blame()
    assert "\x1b" not in done.stdout and "\x07" not in done.stdout
    assert max(map(len, done.stdout.split("\n"))) < 700


@pytest.mark.parametrize(("words", "said"), [
    ((), "no job named: muster blame JOBID, or without a scheduler: muster blame --nodes N --since T "
         "--until T"),
    (("x; rm",), "'x; rm' is not a job id, expected one such as 4711 or 4711_3"),
    (("4711", "--since", "1"),
     "--since and --until go with --nodes; for a job id the scheduler knows the times"),
    (("--nodes", "a", "--since", "soon"),
     "--since 'soon' is not a time, expected one such as 2026-11-21T10:00:00 (local) or epoch seconds"),
    (("--nodes", "a", "--since", "20", "--until", "10"), "--since '20' is not before --until"),
    (("--nodes", "a", "--log", "nothing"), "--log 'nothing' cannot be read: No such file or directory"),
])
def test_a_mistake_is_one_line(bed: Bed, words: tuple[str, ...], said: str) -> None:
    done = muster("blame", *words, home=bed.home)
    assert (done.returncode, done.stderr) == (2, f"muster: {said}\n")


def test_without_slurm_it_says_what_to_type(bed: Bed) -> None:
    done = muster("blame", "4711", home=bed.home, PATH=str(bed.home))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "muster: sacct was not found; run this where Slurm's commands are, or name the nodes: "
        "muster blame --nodes 'gpu[001-016]' --since T --until T\n")


def test_a_page_takes_a_moment(bed: Bed) -> None:
    bed.ended("FAILED")
    bed.log("out", ranks(1024) + "".join(watchdog(rank, 900, END - 5) for rank in range(1000)))
    began = time.monotonic()
    bed.blame()
    assert time.monotonic() - began < 20
