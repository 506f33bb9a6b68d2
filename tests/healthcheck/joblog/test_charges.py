"""Whose fault a job's log tells of: the program's, a machine's, or no one's;
causes before what follows from them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.joblog.charges import charges
from healthcheck.joblog.meaning import FaultDomain, Sure
from healthcheck.joblog.read import read
from healthcheck.model.outcome import Owner
from tests.healthcheck.explain.cases import messages
from tests.healthcheck.joblog.told import CLOCK, accused, cause, culprit, told

RECORDED = Path(__file__).parents[2] / "recordings" / "blame"
BACKEND = ("[rank0]: torch.distributed.DistBackendError: NCCL error in: "
           "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2027, {}, NCCL version 2.21.5\n")
WATCHDOG = ("[rank{0}]:[E1121 02:07:08.4 ProcessGroupNCCL.cpp:629] [Rank {0}] Watchdog caught collective "
            "operation timeout: WorkNCCL(SeqNum={1}, OpType={2}, NumelIn=4, NumelOut=4, Timeout(ms)=600000) "
            "ran for 600081 milliseconds before timing out.\n"
            "[rank{0}]:[E1121 02:07:08.5 ProcessGroupNCCL.cpp:1834] [PG ID 0 PG GUID 0(default_pg) Rank {0}] "
            "Timeout at NCCL work: {1}, last enqueued NCCL work: {3}, last completed NCCL work: {4}.\n")


def waits(
    rank: int, work: int, *, op: str = "ALLREDUCE", enqueued: int | None = None, done: int | None = None,
) -> str:
    return WATCHDOG.format(rank, work, op, work if enqueued is None else enqueued,
                           work - 1 if done is None else done)


@pytest.mark.parametrize("said", [
    "remote process exited or there was a network error",
    "unhandled system error (run with NCCL_DEBUG=INFO for details)",
    "internal error - please report this issue to the NCCL developers",
    "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
])
def test_what_nccl_gives_up_with_is_not_the_users_program(said: str) -> None:
    assert cause(BACKEND.format(said)) is None
    assert not [charge for charge in told(BACKEND.format(said)) if charge.job]


@pytest.mark.parametrize("line", [
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
    "ncclInternalError: Internal check failed.", "ncclUnhandledCudaError: Call to CUDA function failed.",
    "[rank3]: RuntimeError: NCCL communicator was aborted on rank 3.  Original reason for failure was: ...",
    "RuntimeError: Socket Timeout", "BrokenPipeError: [Errno 32] Broken pipe",
    "ConnectionRefusedError: [Errno 111] Connection refused",
    "[rank1]: torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//cuda//0",
    "RuntimeError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
    "key-value store by key '0', but store->get('0') got error: Connection reset by peer",
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
])
def test_an_exception_that_only_echoes_another_rank_is_none_of_the_programs(line: str) -> None:
    assert not [charge for charge in told(line + "\n") if charge.cause
                and charge.meaning.fault is FaultDomain.PROGRAM]


@pytest.mark.parametrize(("line", "id_"), [
    ("requests.exceptions.ConnectionError: HTTPSConnectionPool(host='hub', port=443): Max retries exceeded "
     "(Connection refused)", "job-exception"),
    ("RuntimeError: DataLoader worker (pid 4123) is killed by signal: Killed.", "dataloader-ended"),
    ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 9x4)", "job-exception"),
])
def test_an_error_of_the_programs_own_is_the_programs(line: str, id_: str) -> None:
    first = culprit(f"[rank3]: {line}\n")
    assert (first.meaning.id, first.meaning.owner, first.who.rank) == (id_, Owner.USER, 3)


def test_a_wrong_call_of_nccl_is_the_programs() -> None:
    first = culprit(BACKEND.format("invalid usage (run with NCCL_DEBUG=WARN for details)"))
    assert (first.meaning.id, first.meaning.owner, first.meaning.fault) == (
        "nccl-error-usage", Owner.USER, FaultDomain.PROGRAM)


def test_an_exception_is_the_programs_only_where_no_error_of_nccl_or_cuda_came_before_it() -> None:
    own, ecc = ("[rank5]: KeyError: 'batch'\n",
                "[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n")
    assert culprit(own).meaning.id == "job-exception"
    assert [charge.meaning.id for charge in told(ecc + own) if charge.cause] == ["cuda-ecc"]
    assert "job-exception" in [charge.meaning.id for charge in told(own + ecc) if charge.cause]


@pytest.mark.parametrize("error",
                         [waits(3, 900), "gpu1:1:2 [0] transport/net_ib.cc:2244 NCCL WARN NET/IB: Got "
                          "completion from peer 10.0.0.8<5> with status=12 opcode=0 len=0 vendor err 129 "
                          "(Send)\n", BACKEND.format("unhandled cuda error")])
def test_an_exception_after_an_error_of_the_network_follows_from_it(error: str) -> None:
    text = error + "[rank3]: ValueError: checkpoint is empty\n"
    assert [charge.symptom for charge in told(text) if charge.meaning.id == "job-exception"] == [True]


def test_a_slow_network_is_no_cause_of_an_exception_and_stands_behind_it() -> None:
    text = "n1:1:2 [0] NCCL INFO NET/IB : No device found.\n[rank3]: ValueError: x\n"
    assert [charge.meaning.id for charge in told(text) if charge.cause] == ["job-exception"]
    assert [charge.wrong for charge in told(text)] == [True, False]


def test_a_rank_that_waited_is_no_culprit_and_its_end_is_none() -> None:
    exits = ("Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-21_02:07:30\n  host      : "
             "gpu001\n  rank      : 0 (local_rank: 0)\n"
             "  exitcode  : -6 (pid: 1)\n  error_file: <N/A>\n  traceback : Signal 6 (SIGABRT) received by "
             "PID 1\n" + "=" * 60 + "\n")
    assert cause("".join(waits(rank, 900) for rank in range(4)) + exits) is None


def test_the_rank_that_began_fewer_collectives_is_the_culprit() -> None:
    late = ("[rank3]:[E1121 02:07:09.5 ProcessGroupNCCL.cpp:1834] [PG ID 0 PG GUID 0(default_pg) Rank 3] "
            "Received a dump signal. Last enqueued NCCL work: 899, last completed NCCL work: 899.\n")
    first = culprit("".join(waits(rank, 900) for rank in range(3)) + late)
    assert (first.meaning.id, first.who.rank) == ("absent", 3)


def test_where_all_had_begun_the_same_the_rank_that_had_finished_the_fewest_is_the_culprit() -> None:
    text = "".join(waits(rank, 901, enqueued=905, done=900) for rank in range(7)) + waits(
        7, 900, enqueued=905, done=899)
    first = culprit(text)
    assert (first.who.rank,
            first.why) == (7, "rank 7 had finished 899 collectives while 7 ranks had finished 900")


@pytest.mark.parametrize("text", [
    # all the same
    "".join(waits(rank, 901) for rank in range(8)),
    # between pairs
    "".join(waits(rank, 900 + rank, op="SEND") for rank in range(4)),
    # all differ
    "".join(waits(rank, 901, enqueued=905, done=895 + rank) for rank in range(6)),
    # no number at all
    "".join(waits(rank, 901, done=76280750235782912) for rank in range(4)),
])
def test_numbers_that_tell_nothing_accuse_no_one(text: str) -> None:
    assert cause(text) is None


def test_a_rank_that_ended_before_the_others_ran_out_of_time_is_named_by_its_end() -> None:
    ranks = "".join(f"gpu00{rank // 2}:1:2 [{rank % 2}] NCCL INFO comm 0x1 rank {rank} nranks 8 cudaDev 0 "
                    "busId 1 - Init COMPLETE\n" for rank in range(8))
    exits = ("Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-21_{}\n  host      : "
             "gpu002\n  rank      : 5 (local_rank: 1)\n"
             "  exitcode  : -9 (pid: 1)\n  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by "
             "PID 1\n" + "=" * 60 + "\n")
    others = "".join(waits(rank, 900) for rank in range(8) if rank != 5)
    first, later = (cause(ranks + others + exits.format("01:57:00")),
                    cause(ranks + others + exits.format("02:08:00")))
    assert first is not None and later is not None
    assert (first.meaning.id, first.who.rank) == ("exit-killed", 5)
    # What torchrun killed after the timeout was not killed before it: that it did not come stands.
    assert (later.meaning.id, later.who.rank) == ("absent", 5)


@pytest.mark.parametrize(("text", "rank"), [
    ("[rank0]: RuntimeError: [Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 4000 ms\n", 2),
    ("[rank0]: RuntimeError: [Rank 0]: Rank 3 failed to pass monitoredBarrier in 4000 ms\n", 3),
    ("[rank1]: torch.distributed.DistStoreError: wait timeout after 8000ms, keys: /default_pg/0//cpu//0/4\n",
     4),
    ("[rank2]: RuntimeError: [2] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via "
     "c10d key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms\n", 0),
])
def test_the_rank_that_others_name_as_missing_is_the_culprit(text: str, rank: int) -> None:
    first = culprit(text)
    assert (first.meaning.id, first.who.rank) == ("absent", rank)


def test_a_rank_that_is_waited_for_and_waits_itself_is_no_culprit() -> None:
    text = ("[rank1]: torch.distributed.DistStoreError: wait timeout after 8000ms, keys: "
            "/default_pg/0//cpu//0/0\n"
            "[rank0]: torch.distributed.DistStoreError: wait timeout after 8000ms, keys: "
            "/default_pg/0//cpu//0/2\n")
    assert culprit(text).who.rank == 2


@pytest.mark.parametrize("said", ["Timed out after 901 seconds waiting for clients. 3/4 clients joined.",
                                  "wait timeout after 900000ms, ranks joined 3/4"])
def test_of_those_who_never_joined_the_one_of_whom_nothing_is_heard_is_named(said: str) -> None:
    error = f"torch.distributed.DistStoreError: {said}\n"
    nodes = ("gpu001", "gpu002", "gpu003", "gpu004")
    heard = "".join(f"{node}: starting\n" for node in ("gpu001", "gpu002", "gpu004"))
    first = culprit(heard + f"gpu001: {error}", nodes)
    assert (first.meaning.id, first.who.node) == ("absent", "gpu003")
    # With no one's word of the nodes, or two that are silent, none is.
    assert cause(error) is None
    assert cause("gpu001: starting\ngpu002: starting\n" + f"gpu001: {error}", nodes) is None


def test_of_ranks_that_never_joined_the_one_that_says_nothing_is_named() -> None:
    text = ("[rank0]: torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 3/4 "
            "clients joined.\n" + "".join(f"gpu001:1:2 [{rank}] NCCL INFO comm 0x1 rank {rank} nranks 3 "
                                          f"cudaDev {rank} busId 1 - Init COMPLETE\n" for rank in range(3)))
    assert culprit(text).who.rank == 3


def test_the_rank_that_hung_in_a_recorded_job_is_named_by_its_log_alone() -> None:
    first = culprit((RECORDED / "torchrun-recorded-hang.log").read_text())
    assert (first.meaning.id, first.who.rank) == ("absent", 2)


@pytest.mark.parametrize("line", [
    "step 4100 loss: nan", "{'loss': nan, 'grad_norm': nan, 'learning_rate': 2e-05, 'epoch': 0.41}",
    "train_loss=nan", "loss is NaN", "Loss is nan", "loss: tensor(nan, device='cuda:0')", "loss = inf",
    " iteration 41/ 100 | lm loss: NaN | loss scale: 1.0 | grad norm: nan | number of nan iterations:   1 |",
    "RuntimeError: found NaN in local forward loss calculation",
    "[rank3]: RuntimeError: Function 'MulBackward0' returned nan values in its 0th output.",
    "RuntimeError: Rank 3, node gpu003, device 2, iteration 41: Unexpected result nan (message='found NaN in "
    "local grad norm')",
    "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
    "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding.",
])
def test_a_loss_that_is_no_number_has_several_possible_causes_and_silent_corruption_is_one_of_them(
    line: str,
) -> None:
    first = culprit(f"{line}\nTraceback (most recent call last):\n")
    assert (first.sure, first.meaning.owner, first.job) == (Sure.GUESS, Owner.USER, True)
    for word in ("learning rate", "data", "overflow", "Silent data corruption", "no node is accused"):
        assert word in first.meaning.meaning
    assert "muster burnin" in first.meaning.remedy


@pytest.mark.parametrize("line", [
    "step 4100 loss: 2.31", "loss scale: 65536.0", "number of nan iterations:   0 |",
    "learning rate: 1e-4 | loss: 2.3 | info: none", "loss: nano", "glossis nan",
    "grad norm: inf", "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
    "loss: infinite-loop disabled",
])
def test_an_ordinary_step_and_a_few_that_overflow_are_no_cause(line: str) -> None:
    assert cause(f"{line}\n") is None


@pytest.mark.parametrize(("line", "times"), [
    ("step {} | loss 2.31 | grad norm: inf", 3),
    ("[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {}, reducing to 1", 10),
    ("Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {}", 10),
])
def test_steps_that_overflow_again_and_again_are_one(line: str, times: int) -> None:
    assert cause("".join(line.format(at) + "\n" for at in range(times - 1))) is None
    first = culprit("".join(line.format(at) + "\n" for at in range(times)))
    assert "Silent data corruption" in first.meaning.meaning


def test_a_gpu_that_failed_comes_before_a_loss_that_is_no_number() -> None:
    text = "step 1 loss: nan\n[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    assert culprit(text).meaning.id == "cuda-ecc"


_LINES = [waits(1, 5), BACKEND.format("unhandled cuda error"), "[rank2]: ValueError: x\n",
          "srun: error: gpu[001-003]: tasks 0-3: Killed\n", "gpu001: step 1 loss: nan\n",
          "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\n",
          "prterun noticed that process rank 1 with PID 2 on\n", "node gpu002 exited on signal 9 (Killed).\n",
          "gpu2:1:2 [0] x.cc:1 NCCL WARN NET/IB: Got completion from peer 10.0.0.8<5> with status=12 x\n",
          "[1,3]<stdout>:", "3: ", "[default1]:", "rack1-gpu03: ", "2026-11-21T10:00:00Z ",
          "1/4 clients joined", "\r", "\x00", "\udcff", "keys: a//cpu//0/99999"]


@given(st.lists(st.one_of(st.sampled_from(_LINES), st.text(max_size=20)), max_size=30))
def test_no_mixture_of_lines_raises_and_every_charge_is_bounded(parts: list[str]) -> None:
    data = "".join(parts).encode("utf-8", "surrogatepass")
    for nodes in ((), ("gpu001", "gpu002", "rack1-gpu03")):
        for charge in charges(read([("a", data), ("b", data)], CLOCK, messages(), nodes), nodes,
                              {"10.0.0.8": "gpu001"}):
            assert len(charge.events) <= 1000 and charge.count >= 1
            assert len(charge.who.label) < 600


def test_several_files_are_read_as_one_job() -> None:
    log = read([("gpu017.out", b"gpu017:1:2 [0] NCCL INFO Bootstrap : Using bond0:10.20.0.17<0>\n"),
                ("gpu012.out",
                 b"gpu012:1:2 [0] x.cc:1 NCCL WARN NET/IB: Got completion from peer 10.20.0.17<5> with "
                 b"status=12 x\n"),
                ("gpu018.out",
                 b"gpu018:1:2 [0] x.cc:1 NCCL WARN NET/IB: Got completion from peer 10.20.0.17<5> with "
                 b"status=12 x\n")], CLOCK, messages())
    assert [(charge.who.node, charge.sure) for charge in charges(log) if charge.cause] == [
        ("gpu017", Sure.LIKELY)]


def test_an_unknown_warning_accuses_no_one() -> None:
    assert accused(
        "n1:1:2 [0] proxy.cc:1519 NCCL WARN [Proxy Service 3] Failed to execute operation Setup\n") is None


def test_the_node_that_was_there_and_says_nothing_while_all_others_wait_is_named() -> None:
    at = {0: "rack1-gpu01", 1: "rack1-gpu02", 3: "rack1-gpu04"}
    waited = "".join(f"{at[rank]}: {line}\n" for rank in at for line in waits(rank, 977).strip().split("\n"))
    there = "".join(f"rack1-gpu0{number}: step 1\n" for number in range(1, 5))
    first = culprit(there + waited)
    assert (first.meaning.id, first.who.node, first.who.rank,
            first.sure) == ("absent", "rack1-gpu03", 2, Sure.LIKELY)
    # Of a node that has no line at all the log may not have been given.
    nodes = tuple(f"rack1-gpu0{number}" for number in range(1, 5))
    assert cause(waited) is None
    first = culprit(waited, nodes)
    assert (first.who.node, first.sure) == ("rack1-gpu03", Sure.GUESS)
    assert cause(waited, (*nodes, "rack1-gpu05")) is None
