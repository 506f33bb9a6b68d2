"""`muster blame` on logs alone: without a scheduler, a store or an inventory,
and in agreement with `muster explain`."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.blame.evidence import Case, JobWindow
from healthcheck.blame.logevidence import evidence
from healthcheck.blame.rank import culprit, suspects
from healthcheck.joblog.charges import charges
from healthcheck.joblog.meaning import FaultDomain
from healthcheck.joblog.model import LogClock
from healthcheck.joblog.read import MOST_BYTES, read
from tests.command import muster
from tests.healthcheck.blame.bed import END, START, Bed, first, stamp, wrong
from tests.healthcheck.blame.test_blame import failure, ranks, watchdog, xid
from tests.healthcheck.explain.cases import NOW, explained, first_line, messages

RECORDINGS = Path(__file__).parents[2] / "recordings"
JOB_LOGS = sorted(path for path in (*(RECORDINGS / "explain").iterdir(), *(RECORDINGS / "blame").rglob("*"))
                  if path.suffix in (".log", ".out")
                  and not path.name.endswith((".bug-report.log", ".kern.log")))
NODES = "gpu[001-008]"
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


@pytest.mark.parametrize("path", JOB_LOGS, ids=lambda path: path.name)
def test_blame_and_explain_name_the_same_culprit(path: Path) -> None:
    log = read([(path.name, path.read_bytes())], LogClock(NOW), messages())
    window = JobWindow(NOW - 1e9, NOW + 1e9, (), whole=False)
    told = culprit(suspects(Case("job", window, "failed", NOW, tuple(evidence(log, window)))))
    lead = next((charge for charge in charges(log) if charge.cause), None)
    causes = [cause for cause in explained(path.read_bytes(), path.name).causes if cause.wrong
              and not cause.symptom]
    if lead is None:
        assert told is None
        return
    assert told is not None
    # One reads the logs for both: the first cause of explain is the charge that blame has first.
    whole = lead.meaning.fault in (FaultDomain.ORDER, FaultDomain.STOP)
    assert (told.node, told.main.rank) == ("" if whole else lead.who.node or lead.who.address, lead.who.rank)
    assert told.owner is lead.meaning.owner is causes[0].owner
    assert causes[0].by == lead.meaning.by


LINES = [*(example for message in messages() for example in message.examples),
         "srun: error: gpu017: task 12: Killed", "srun: error: Node failure on gpu023",
         "srun: error: gpu008: task 12: Out Of Memory", "[rank2]: ValueError: x",
         "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD",
         "slurmstepd: error: *** JOB 7 ON gpu001 CANCELLED AT 2026-11-21T09:09:37 DUE TO TIME LIMIT ***",
         "mpirun noticed that process rank 2 with PID 0 on node gpu003 exited on signal 9 (Killed)."]


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=5))
def test_of_any_mixture_of_lines_blame_has_first_what_the_common_reader_has_first(lines: list[str]) -> None:
    log = read([("out", "\n".join(lines).encode())], LogClock(NOW), messages())
    window = JobWindow(0.0, 4e9, (), whole=False)
    told = culprit(suspects(Case("job", window, "failed", NOW, tuple(evidence(log, window)))))
    lead = next((charge for charge in charges(log) if charge.cause), None)
    assert (told is None) is (lead is None)
    if told is not None and lead is not None:
        whole = lead.meaning.fault in (FaultDomain.ORDER, FaultDomain.STOP)
        assert (told.node, told.main.rank) == ("" if whole else lead.who.node or lead.who.address,
                                               lead.who.rank)


@pytest.mark.parametrize("late", [None, 5])
def test_of_a_rank_that_did_not_come_blame_and_explain_say_the_same_with_times_and_without(
    bed: Bed, late: int | None,
) -> None:
    text = ranks(16) + "".join(watchdog(rank, 900, END) for rank in range(16) if rank != 13) + failure(
        "gpu001", 0, "-6", END + 2)
    if late is None:
        text = "\n".join(line.replace(f"E{stamp(END, '%m%d %H:%M:%S')}.1 ", "E ").replace(
            f"E{stamp(END, '%m%d %H:%M:%S')}.2 ", "E ") for line in text.split("\n"))
    bed.log("out", text)
    done = bed.blame("--nodes", NODES, "--since", stamp(START), "--until", stamp(END))
    assert first(done).startswith("gpu002: rank 13 did not come to a collective that 15 ranks waited in")
    explain = muster("explain", "./out", home=bed.home)
    assert explain.stdout.startswith("gpu002, rank 13: It did not come to a collective that others waited in")


def test_a_log_alone_names_its_node_and_says_what_a_store_would_add(bed: Bed) -> None:
    bed.log("train.log", "2026-11-20 10:00:00 rack1-gpu02: step 1\n2026-11-20 10:00:01 rack1-gpu03: step "
                         "1\n2026-11-20 10:07:00 rack1-gpu03: " + ECC)
    done = bed.blame("--log", "train.log")
    assert first(done).startswith("rack1-gpu03: CUDA says that the GPU failed")
    assert done.returncode == 1
    assert ("there is no store of sweeps; one (muster check --store) adds Xids, reboots, links and counters "
            "before and after the job" in done.stdout)
    assert "what ran on rack1-gpu[02-03] (2 nodes), 2026-11-20 09:32:00" in done.stdout


def test_a_line_behind_a_nodes_name_is_that_nodes(bed: Bed) -> None:
    bed.log("train.log", "starting\nstarting\nrack1-gpu03: " + ECC + "done\n")
    done = bed.blame("--nodes", "rack1-gpu[01-04]")
    assert first(done).startswith("rack1-gpu03: CUDA says that the GPU failed")


def test_the_inventory_tells_the_nodes_names_and_addresses(bed: Bed) -> None:
    (bed.home / "muster.yaml").write_text(
        "version: 1\nnodes:\n  rack1-gpu03: {address: 10.20.0.17}\n  rack1-gpu04: {address: 10.20.0.18}\n")
    bed.log("train.log", "".join(f"{host}:1:2 [0] x.cc:1 NCCL WARN NET/IB: Got completion from peer "
                                 "10.20.0.17<5> with status=12 opcode=1 len=0 vendor err 129 (Send)\n"
                                 for host in ("a1", "a2")) + "epoch 1\nepoch 2\n")
    assert first(bed.blame("--log", "train.log")).startswith(
        "rack1-gpu03: no longer acknowledges messages (retries exhausted) (so say 2 ranks)")


def test_a_file_of_one_node_is_that_nodes(bed: Bed) -> None:
    bed.log("x.log", ECC)
    bed.logs[-1] = "gpu004=x.log"
    assert first(bed.blame("--nodes", NODES)).startswith("gpu004: CUDA says that the GPU failed")
    assert first(bed.blame("--log", "gpu004=x.log")).startswith("gpu004: CUDA says that the GPU failed")


def test_an_xid_of_days_before_the_job_is_listed_apart_and_is_no_headline(bed: Bed) -> None:
    bed.ended("FAILED")
    bed.log("gpu003.dmesg", xid(START - 102 * 3600, 79, "pid=1, name=python, GPU has fallen off the bus."))
    bed.log("out", ranks(64) + "[rank9]: ValueError: x\n" + failure("gpu002", 9, "1", END - 3))
    done = bed.blame()
    assert first(done) == "gpu002: rank 9: the program raised an error, as the job failed; likely; owner user"
    before = done.stdout.partition("Before the job:\n")[2].partition("\n\n")[0]
    assert ("gpu003" in before and "102.0 h before the job began" in before
            and "fell off the bus (Xid 79)" in before)
    assert "What others show" not in done.stdout


def test_where_only_something_before_the_job_is_known_the_headline_says_so(bed: Bed) -> None:
    bed.ended("FAILED")
    bed.log("gpu003.dmesg", xid(START - 102 * 3600, 79, "pid=1, name=python, GPU has fallen off the bus."))
    done = bed.blame()
    assert first(done) == ("nothing found in the job's time; before the job: gpu003: GPU at PCI 0000:9b:00 "
                           "fell off the bus (Xid 79), 102.0 h before the job began")
    assert json.loads(bed.blame("4711", "--format", "json").stdout)["found"] is False


@pytest.mark.parametrize("kind", ["gpu-ecc", "port-state", "kernel-xid"])
def test_a_problem_that_sweeps_saw_before_the_job_only_is_no_headline(bed: Bed, kind: str) -> None:
    bed.sweep(START - 4 * 86400)
    bed.sweep(START - 3 * 86400, {"gpu003": (wrong(kind, "GPU 1"),)})
    bed.sweep(START - 600, {"gpu003": (wrong(kind, "GPU 1"),)})
    bed.sweep(END + 600, {"gpu003": (wrong(kind, "GPU 1"),)})
    bed.slurm("FAILED")
    done = bed.blame()
    assert first(done).startswith("nothing found in the job's time; before the job: gpu003: ")
    assert "Before the job:" in done.stdout


def test_an_xid_some_seconds_before_the_start_is_the_jobs(bed: Bed) -> None:
    bed.ended("FAILED")
    bed.log("gpu003.dmesg", xid(START - 10, 79, "pid=1, name=python, GPU has fallen off the bus."))
    assert first(bed.blame()).startswith("gpu003: GPU at PCI 0000:9b:00 fell off the bus (Xid 79)")


def test_the_jobs_time_is_taken_from_its_log(bed: Bed) -> None:
    bed.sweep(START - 600)
    bed.sweep(END + 600, {"gpu003": (wrong("kernel-xid", "GPU at PCI 0000:18:00, Xid 48"),)})
    bed.log("train.log",
            f"[{stamp(START)}] gpu001: step 1\n[{stamp(END)}] gpu001: [rank1]: ConnectionResetError: x\n")
    done = bed.blame("--nodes", NODES)
    assert first(done).startswith("gpu003: GPU at PCI 0000:18:00, Xid 48")
    assert f"{stamp(END, '%Y-%m-%d %H:%M:%S')} " in done.stdout


def test_where_nothing_tells_the_jobs_time_no_event_of_a_store_or_a_kernel_log_is_the_headline(
    bed: Bed,
) -> None:
    bed.sweep(START - 600)
    bed.sweep(END + 600, {"gpu003": (wrong("kernel-xid", "GPU at PCI 0000:18:00, Xid 48"),)})
    bed.log("gpu004.dmesg", xid(END - 10, 79, "pid=1, name=python, GPU has fallen off the bus."))
    bed.log("train.log", "step 1\nsrun: error: gpu001: tasks 0-7: Terminated\n")
    done = bed.blame("--nodes", NODES)
    assert first(done).startswith(
        "nothing found in the job's logs, and when it ran is not known; at some time: gpu004: ")
    assert "gpu003" not in done.stdout.split("\n")[0]
    assert "at a time that neither a scheduler, an option nor a log tells" in done.stdout
    assert "the job's time is unknown, so no sweep can be tied to it; give --since T --until T" in done.stdout
    assert done.returncode == 3
    bed.log("more.log", "gpu002: " + ECC)
    assert first(bed.blame("--nodes", NODES)).startswith("gpu002: CUDA says that the GPU failed")


def test_ncclremoteerror_is_not_the_users_program(bed: Bed) -> None:
    bed.ended("FAILED")
    bed.log("out", ranks(64) + "[rank9]: torch.distributed.DistBackendError: NCCL error in: "
            "../torch/csrc/distributed/c10d/NCCLUtils.cpp:77, remote process exited or there was a network "
            "error, NCCL version 2.27.5\n[rank9]: ncclRemoteError: A call failed possibly due to a network "
            "error or a remote process exiting prematurely.\n[rank9]: Last error:\n" + failure(
                "gpu002", 9, "1", END - 3))
    done = bed.blame()
    assert "owner user" not in first(done) or "the program raised" not in first(done)
    assert "Another rank or the network between failed first" in done.stdout


def test_a_loss_that_is_no_number_accuses_no_node(bed: Bed) -> None:
    bed.ended("FAILED")
    bed.log("out",
            "gpu003: step 41 loss: nan\n" * 3 + "srun: error: gpu003: tasks 3: Exited with exit code 1\n")
    done = bed.blame()
    assert first(done).startswith("the job itself: The loss or the gradients became NaN or infinite")
    assert first(done).endswith("a guess; owner user")
    assert "muster burnin run" in done.stdout


def test_a_packed_log_is_read_and_one_that_is_no_text_is_said(bed: Bed) -> None:
    bed.log("train.log.gz", gzip.compress(b"gpu002: " + ECC.encode()))
    assert first(bed.blame("--nodes", NODES)).startswith("gpu002: CUDA says that the GPU failed")
    bed.logs.clear()
    bed.log("core", os.urandom(200_000))
    done = bed.blame("--nodes", NODES)
    assert (done.returncode, done.stderr) == (3, "")
    assert "core: holds nothing of NCCL, torchrun, Slurm or a flight recorder" in done.stdout


def test_the_end_of_a_log_that_is_longer_than_is_read_is_read(bed: Bed) -> None:
    with (bed.home / "long.log").open("wb") as stream:
        stream.seek(MOST_BYTES + (64 << 20))
        stream.write(b"\ngpu002: " + ECC.encode())
    bed.logs += ["--log", "long.log"]
    done = bed.blame("--nodes", NODES)
    assert first(done).startswith("gpu002: CUDA says that the GPU failed")
    assert "only its first 64 MiB and its last 192 MiB were read" in done.stdout


def test_a_file_in_the_place_of_a_job_is_said_in_one_line(bed: Bed) -> None:
    (bed.home / "train.log").write_text("x\n")
    done = bed.blame("train.log")
    assert (done.returncode, done.stderr) == (
        2, "muster: 'train.log' is a file: muster blame --log 'train.log'\n")


@pytest.mark.parametrize("text", ["\x1b]0;owned\x07\x1b[2J", "\u202egnp.exe", "<script>", "x" * 9000])
def test_what_a_log_says_stays_text_and_bounded(bed: Bed, text: str) -> None:
    bed.log("train.log", f"gpu001: [rank3]: ValueError: {text}\ngpu001: {text}: RuntimeError: CUDA error: "
                         "hardware stack error\n"
            f"a:1:2 [0] x.cc:1 NCCL WARN NET/IB: Got completion from peer {text}<5> with status=12 x\n")
    for words in (("--log", "train.log"), ("--nodes", NODES)):
        done = bed.blame(*words, "--format", "text")
        assert "\x1b" not in done.stdout and "\x07" not in done.stdout and "\u202e" not in done.stdout
        assert max(map(len, done.stdout.split("\n"))) < 900


@pytest.mark.parametrize(("text", "who", "what"), [
    ("RuntimeError: Loss is nan, stopping\n", "the job itself",
     "The loss or the gradients became NaN or infinite"),
    ("| epoch 012 | loss 2.1 | ppl nan | wps 812\n", "the job itself",
     "The loss or the gradients became NaN or infinite"),
    ("WARNING: NaN or Inf found in input tensor.\n", "the job itself",
     "The loss or the gradients became NaN or infinite"),
    ("step 812: Detected non-finite loss, giving up\n", "the job itself",
     "The loss or the gradients became NaN or infinite"),
    ("[rank3]: RuntimeError: CUDA error: an illegal memory access was encountered\n", "the job itself",
     "rank 3: A kernel used an address or an instruction that is none"),
    ("There are not enough slots available in the system to satisfy the 16\n", "the job itself",
     "mpirun was asked for more processes than its hosts have slots"),
    ("".join(f"[rank{rank}]: RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.17]:31337\n"
             for rank in (0, 1)), "10.0.0.17",
     "its peer lost the connection to it first")])
def test_the_headline_of_blame_is_what_explain_says_first(bed: Bed, text: str, who: str, what: str) -> None:
    (bed.home / "out").write_text(text)
    assert first(bed.blame("--log", "out")).startswith(f"{who}: {what}")
    told = first_line(text.encode())
    assert told.startswith(who) if who != "the job itself" else what.removeprefix("rank 3: ") in told


@pytest.mark.parametrize("text", ["loss nan_count 0\n", "inf_loss: false\n", "loss: infinite patience\n",
                                  "epoch 1 | loss 2.1 | ppl 8.0\n"])
def test_words_that_only_look_like_a_loss_that_is_no_number_are_none(text: str) -> None:
    log = read([("out", text.encode())], LogClock(NOW), messages())
    assert charges(log) == []


def test_where_all_follows_from_something_elsewhere_neither_names_a_cause(bed: Bed) -> None:
    text = ("[rank0]: ncclRemoteError: A call failed possibly due to a network error or a remote process "
            "exiting prematurely.\n")
    (bed.home / "out").write_text(text)
    assert first(bed.blame("--log", "out")).startswith("nothing found")
    assert first_line(
        text.encode()) == "No cause found in file (job log); it shows effects of a cause elsewhere:"
