"""torchrun's table, watchdogs, and errors that name a rank;
files whose name says recorded are from PyTorch 2.13 on CPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from healthcheck.joblog.absent import absent
from healthcheck.joblog.model import JobEvent, JobEventKind, JobLog, LogClock
from healthcheck.joblog.read import read
from healthcheck.joblog.torchrun import Torchrun

CLOCK = LogClock(1_795_000_000.0)
RECORDED = Path(__file__).parents[2] / "recordings" / "blame"


def log(*names: str) -> JobLog:
    return read([(name, (RECORDED / name).read_bytes()) for name in names], CLOCK)


def said(line: str) -> list[JobEvent]:
    return list(Torchrun().events([line], CLOCK))


def test_a_killed_rank_is_the_first_failure_and_those_that_torchrun_ended_after_it_are_told_apart() -> None:
    exits = {event.rank: event for event in log("torchrun-recorded-kill.log").events
             if event.kind is JobEventKind.EXIT}
    assert (exits[2].code, exits[2].first, exits[2].node) == (-9, True, "localhost")
    assert {exits[rank].code for rank in (0, 1, 3)} <= {-15, 1}


def test_an_exception_of_the_program_is_reported_and_those_of_its_peers_are_symptoms() -> None:
    found = log("torchrun-recorded-raise.log").events
    assert [(event.rank, event.text) for event in found if event.kind is JobEventKind.EXCEPTION] == [
        (2, "ValueError: loss is nan")]
    assert 2 not in {event.rank for event in found if event.kind is JobEventKind.PEER}


def test_torchruns_first_failure_of_a_hang_is_an_innocent_rank_and_the_flight_recorder_tells_who_did_not_come(
) -> None:
    hung = log("torchrun-recorded-hang.log", "fr_0", "fr_1", "fr_3")
    assert [event.rank for event in hung.events if event.first] != [2]
    assert [one.rank for one in absent(hung)] == [2]


def test_the_json_dump_says_what_the_pickle_says() -> None:
    events = [(event.kind, event.rank, event.group, event.work) for event in log("fr_0.json").events]
    assert events == [(event.kind, event.rank, event.group, event.work) for event in log("fr_0").events]


# Lines as in hiyouga/LlamaFactory issue 7396, XPixelGroup/BasicSR issue 737 and OFA-Sys/OFA issue 271.
@pytest.mark.parametrize(("line", "rank", "work"), [
    ("[rank4]:[E321 02:07:08.414640780 ProcessGroupNCCL.cpp:607] [Rank 4] Watchdog caught collective "
     "operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) "
     "ran for 600067 milliseconds before timing out.", 4, 1580),
    ("[E ProcessGroupNCCL.cpp:737] [Rank 3] Watchdog caught collective operation timeout: "
     "WorkNCCL(SeqNum=469508, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1802211 milliseconds before "
     "timing out.", 3, 469508),
])
def test_a_watchdog_names_the_rank_and_the_collective(line: str, rank: int, work: int) -> None:
    [event] = said(line)
    assert (event.kind, event.rank, event.work, event.op) == (JobEventKind.TIMEOUT, rank, work, "ALLREDUCE")


@pytest.mark.parametrize(("line", "rank", "group", "work"), [
    ("[rank1]:[E626 06:24:44.906457629 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank 1] "
     "Exception (either an error or timeout) detected by watchdog at work: 808, last enqueued NCCL work: "
     "811, last completed NCCL work: 807.", 1, "0", 811),
    ("[rank2]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 2] Timeout at NCCL work: 1, last enqueued NCCL work: "
     "1, last completed NCCL work: 76280750235782912.", 2, "0", 1),
    ("[rank9]:[E1121 06:24:44.9 ProcessGroupNCCL.cpp:1785] [PG ID 3 PG GUID 25 Rank 1] Received a dump "
     "signal due to a collective timeout from rank 0 and we will try our best to dump the debug info. Last "
     "enqueued NCCL work: 40, last completed NCCL work: 40.", 9, "3", 40),
])
def test_how_far_a_rank_had_come_is_read_with_its_group(line: str, rank: int, group: str, work: int) -> None:
    [event] = said(line)
    assert (event.kind, event.rank, event.group, event.work) == (JobEventKind.ENTERED, rank, group, work)


def test_the_time_of_a_line_without_a_year_is_the_one_nearest_to_the_job() -> None:
    line = ("[rank4]:[E{} 02:07:08.5 ProcessGroupNCCL.cpp:607] [Rank 4] Watchdog caught collective operation "
            "timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=1) ran for 2 milliseconds before "
            "timing out.")
    [event] = Torchrun().events([line.format("1231")],
                                LogClock(LogClock(0.0).at(2026, 1, 1, "00:10:00") or 0))
    assert event.time == LogClock(0.0).at(2025, 12, 31, "02:07:08.5")
    assert said(line.format("0231"))[0].time is None


@pytest.mark.parametrize(("line", "kind"), [
    ("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total "
     "capacity of 79.1 GiB",
     JobEventKind.GPU_MEMORY),
    ("[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered", JobEventKind.GPU),
    ("[rank3]: RuntimeError: CUDA error: device-side assert triggered", JobEventKind.CUDA),
    ("[rank3]: FileNotFoundError: [Errno 2] No such file or directory: '/data/a'", JobEventKind.EXCEPTION),
])
def test_errors_of_a_rank_are_sorted_by_what_they_accuse(line: str, kind: JobEventKind) -> None:
    assert [(event.kind, event.rank) for event in said(line)] == [(kind, 3)]


def test_an_error_that_is_only_the_echo_of_another_is_none_of_the_programs() -> None:
    assert not said("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ")
    assert not said(
        "torch.distributed.DistBackendError: NCCL error in: /opt/ProcessGroupNCCL.cpp:1197, internal error")
