"""NCCL's lines: which rank is where, and what its warnings accuse."""

from __future__ import annotations

import pytest

from healthcheck.joblog.model import JobEventKind, LogClock
from healthcheck.joblog.nccl import Nccl

CLOCK = LogClock(1_795_000_000.0)
# Lines as in NVIDIA/nccl issues 1814, 1664, 1283 and nccl-tests issues 166, 252.
INIT = ("gpu007:984:1257 [4] NCCL INFO comm 0x557fe785f7a0 rank 36 nranks 64 cudaDev 4 nvmlDev 4 busId 9b000 "
        "commId 0x5a - Init COMPLETE")
IB = ("gpu007:984:1301 [4] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer "
      "10.0.0.8<55921> with status=12 opcode=1 len=0 vendor err 129 (Send) localGid ::ffff:10.0.0.7 "
      "remoteGids::ffff:10.0.0.8")


def test_a_warning_has_the_rank_and_node_that_an_earlier_line_gave_its_device() -> None:
    nccl = Nccl()
    [event] = nccl.events([INIT, "", IB], CLOCK)
    assert (event.kind, event.node, event.rank, event.device, event.peer,
            event.line) == (JobEventKind.NETWORK, "gpu007", 36, 4, "10.0.0.8", 3)
    assert (nccl.world, nccl.hosts) == (64, {36: "gpu007"})


def test_the_ranks_are_those_of_the_largest_communicator() -> None:
    nccl = Nccl()
    list(nccl.events([INIT, INIT.replace("rank 36 nranks 64", "rank 4 nranks 8")], CLOCK))
    assert nccl.hosts == {36: "gpu007"}


@pytest.mark.parametrize(("text", "kind"), [
    ("include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'", JobEventKind.GPU_MEMORY),
    ("enqueue.cc:1 NCCL WARN Cuda failure 214 'uncorrectable ECC error encountered'", JobEventKind.GPU),
    ("enqueue.cc:1 NCCL WARN Cuda failure 'an illegal memory access was encountered'", JobEventKind.CUDA),
    ("misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer gpu004.example.com<55693>",
     JobEventKind.PEER),
    ("proxy.cc:1143 NCCL WARN Socket recv failed while polling for opId=0x7f4774cc9620", JobEventKind.PEER),
    ("ib_plugin.c:1105 NCCL WARN NET/IB : Got completion from peer 10.0.35.1<49189> with error 4, opcode "
     "5327", JobEventKind.NETWORK),
    ("transport/net_ib.cc:90 NCCL WARN NET/IB : mlx5_3:1 Got async event : port error", JobEventKind.NETWORK),
    ("bootstrap.cc:1 NCCL WARN Bootstrap : no socket interface found", JobEventKind.SETUP),
    ("proxy.cc:1519 NCCL WARN [Proxy Service 3] Failed to execute operation Setup", JobEventKind.NCCL),
])
def test_a_warning_is_sorted_by_what_it_accuses(text: str, kind: JobEventKind) -> None:
    assert [event.kind for event in Nccl().events([f"gpu007:1:2 [0] {text}"], CLOCK)] == [kind]


def test_a_time_before_the_host_is_read_and_words_of_a_launcher_are_passed_over() -> None:
    [event] = Nccl().events(["worker-1: [2026-11-21 10:00:00] " + IB], CLOCK)
    assert event.node == "gpu007"
    assert event.time == CLOCK.iso("2026-11-21 10:00:00")


def test_the_peer_of_a_closed_connection_is_reported() -> None:
    [event] = Nccl().events(["a:1:2 [3] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by "
                             "remote peer gpu004.x<55693>"], CLOCK)
    assert event.peer == "gpu004.x"
