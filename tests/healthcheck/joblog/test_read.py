"""Whatever a file holds, reading a job's logs ends, runs nothing, and says what it could not read."""

from __future__ import annotations

import os
import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.joblog import read as reading
from healthcheck.joblog.absent import absent
from healthcheck.joblog.flight import looks_like
from healthcheck.joblog.model import JobEventKind, LogClock
from healthcheck.joblog.read import read

CLOCK = LogClock(1_795_000_000.0)
WORDS = st.sampled_from([
    "NCCL WARN ", "NCCL INFO comm 0x1 rank 3 nranks 8 ", "gpu001:1:2 [3] ", "srun: error: ",
    "gpu[1-9]: task 1: Killed", "time : ", "rank : 1", "exitcode : -9", "traceback : x",
    "Root Cause (first observed failure):", "Failures:", "[rank3]:", "[E1399 99:99:99 ", "last enqueued ",
    "NCCL work: 5, last completed NCCL work: 4",
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=A", "\n", "[PG 0 Rank 1]",
    "*** STEP 1 ON a CANCELLED AT 2026-02-31T25:00:00 ***", "CUDA error: ", "\x1b[31m", "\x00",
    "[2026-13-41 10:00:00] "])


class Runs:
    """What a stranger puts into a pickle."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.putenv, ("MUSTER_WAS_HERE", "1")


@given(st.binary(max_size=400))
def test_no_bytes_raise(data: bytes) -> None:
    absent(read([("a", data)], CLOCK))


@given(st.lists(st.one_of(WORDS, st.text(max_size=12)), max_size=40))
def test_no_mixture_of_known_words_raises(words: list[str]) -> None:
    absent(read([("a", "".join(words).encode("utf-8", "surrogatepass"))], CLOCK))


_KEYS = st.sampled_from(["entries", "pg_config", "pg_status", "ranks", "0", "process_group",
                         "collective_seq_id", "state", "pg_id", "is_p2p"])
_ANY = st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5),
                              st.floats(allow_nan=False)),
                    lambda inner: st.one_of(st.lists(inner, max_size=4),
                                            st.dictionaries(_KEYS, inner, max_size=5)), max_leaves=20)


@given(st.dictionaries(_KEYS, _ANY, max_size=5))
def test_no_dump_of_a_flight_recorder_raises(dump: dict[str, object]) -> None:
    for protocol in (2, 4):
        data = pickle.dumps({"collective_seq_id": 0, **dump}, protocol)
        assert looks_like(data)
        absent(read([("fr_3", data)], CLOCK))


def test_a_pickle_that_would_run_something_is_refused_and_said() -> None:
    log = read([("fr_0", pickle.dumps({"pg_status": Runs()}, 2))], CLOCK)
    assert not log.events
    assert log.caveats == ("fr_0: a flight recorder's dump, the pickle names posix.putenv: it is not read",)


@pytest.mark.parametrize(("name", "data", "caveat"), [
    ("fr_0.json", b'{"pg_status": {', "a flight recorder's dump, it is cut, or no JSON"),
    ("dump.json", b'{"pg_status": {"0": {"last_enqueued_collective": 3}}}',
     "whose dump it is, the file's name does not say"),
    ("notes.txt", b"hello\n", "holds nothing of NCCL, torchrun, Slurm or a flight recorder")])
def test_what_is_not_read_of_a_file_is_said(name: str, data: bytes, caveat: str) -> None:
    assert read([(name, data)], CLOCK).caveats == (f"{name}: {caveat}",)


def test_only_so_many_events_of_one_file_are_kept(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(reading, "MOST_EVENTS", 10)
    log = read([("out", b"srun: error: gpu007: task 12: Killed\n" * 50)], CLOCK)
    assert len(log.events) == 10
    assert log.caveats == ("out: more than 10 lines say something; the rest was left",)


def test_labels_of_srun_and_colours_do_not_hide_a_line() -> None:
    log = read([("out",
                 b"12: \x1b[31mgpu007:1:2 [0] x.cc:1 NCCL WARN Cuda failure 'out of memory'\x1b[0m\r\n")],
               CLOCK)
    assert [(event.kind, event.node) for event in log.events] == [(JobEventKind.GPU_MEMORY, "gpu007")]


def test_hostile_lines_take_time_in_proportion_to_their_length() -> None:
    lines = [b"a" * 8192, b"NCCL " + b"a:1" * 2700, b"srun: error: " + b"a," * 4000, b"[rank" * 1600,
             b"NCCL [0] " * 900 + b"x" * 90, b"Failures:\n" + b" time : " * 1000, (b"A" * 60 + b".") * 130]
    began = time.process_time()
    read([("a", b"\n".join(lines * 20))], CLOCK)
    assert time.process_time() - began < 5
