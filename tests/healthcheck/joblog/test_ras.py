"""NCCL's RAS: who does not answer or launched fewer collectives, by what NVIDIA's documentation shows and by
reports that are made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.joblog import ras, rasread

SAMPLES = Path(__file__).parents[2] / "recordings/nccl-ras"


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


@pytest.mark.parametrize(("name", "rank", "sure", "said"), [
    ("stopped.txt", 21, False, "rank 21 does not answer NCCL's RAS"),
    ("dead.txt", 21, True, "rank 21 is given up by NCCL's RAS"),
    ("missing.json", 1, False, "rank 1 (process 1524345 on 172.16.64.245) does not answer NCCL's RAS")])
def test_a_process_that_does_not_answer_is_the_missing_rank(name: str, rank: int, sure: bool,
                                                            said: str) -> None:
    assert rasread.looks_like(sample(name))
    (one,) = ras.missing(rasread.parse(sample(name)))
    assert (one.rank, one.sure) == (rank, sure) and one.why.startswith(said)


def test_ranks_that_launched_fewer_collectives_are_behind() -> None:
    found = ras.missing(rasread.parse(sample("behind.txt")))
    assert [one.rank for one in found] == [0, 2, 3, 4, 5, 7] and not any(one.sure for one in found)
    assert (found[0].why
            == ("rank 0 (process 483072 on 172.16.64.210) had launched 6649 collective of NCCL while "
                "26 ranks "
                "had launched 6650"))


def rank(number: int, dev: int, **counts: int) -> dict[str, Any]:
    return {"rank": number, "host": f"10.0.0.{dev // 8}", "pid": 100 + dev, "cuda_dev": dev % 8,
            "nvml_dev": dev % 8,
            "status": {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False,
                       "abort_flag": False},
            "collective_counts": counts}


def report(*comms: list[dict[str, Any]], missing: tuple[dict[str, Any], ...] = ()) -> bytes:
    return json.dumps({"nccl_version": "2.29.1", "communicators_count": len(comms), "communicators": [
        {"hash": f"0x{number:x}", "size": len(ranks) + len(missing) * (not number), "ranks_count": len(ranks),
         "missing_ranks_count": 0,
         "ranks": ranks, "missing_ranks": list(missing) if not number else []}
        for number, ranks in enumerate(comms)]}).encode()


def test_whom_others_wait_for_is_named_and_not_who_waits_elsewhere() -> None:
    world = [rank(at, at, AllReduce=9 if at in (2, 3) else 10) for at in range(16)]
    # Ranks 2 and 3 are a pair of their own: 3 waits there for 2, and therefore both are behind in the world.
    pair = [rank(0, 2, AllGather=4), rank(1, 3, AllGather=5)]
    (one,) = ras.missing(rasread.parse(report(world, pair)))
    assert (one.rank, one.waited) == (2, 14)


def test_a_member_of_a_part_has_its_rank_of_the_whole_job() -> None:
    world = [rank(at, at, AllReduce=10) for at in range(8)]
    (one,) = ras.missing(rasread.parse(report(world, [rank(0, 4, Broadcast=1), rank(1, 5, Broadcast=2)])))
    assert one.rank == 4


def test_without_a_communicator_of_all_ranks_no_rank_is_named_but_its_process_is() -> None:
    parts = [[rank(at, 4 * part + at, AllReduce=9 if (part, at) == (1, 2) else 10) for at in range(4)]
             for part in range(2)]
    (one,) = ras.missing(rasread.parse(report(*parts)))
    assert one.rank is None and one.node == "10.0.0.0" and "process 106 on 10.0.0.0" in one.why


def test_where_many_are_behind_or_none_is_no_one_is_named() -> None:
    half = [rank(at, at, AllReduce=10 - at % 2) for at in range(8)]
    equal = [rank(at, at, AllReduce=10) for at in range(8)]
    assert ras.missing(rasread.parse(report(half))) == ras.missing(rasread.parse(report(equal))) == []


def test_who_left_a_communicator_is_not_missing() -> None:
    left = rank(3, 3) | {"status": {"unresponsive": False, "considered_dead": False}}
    assert ras.missing(rasread.parse(report([rank(at, at, AllReduce=10) for at in range(3)],
                                            missing=(left,)))) == []


@pytest.mark.parametrize("data", [b"", b"{", b'{"nccl_version": 1, "communicators": 3}',
                                  b'{"nccl_version": 1, "communicators": [',
                                  sample("missing.json")[:300]])
def test_what_is_cut_or_no_report_is_refused(data: bytes) -> None:
    with pytest.raises(rasread.NoRas):
        rasread.parse(data)


VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
                      | st.text(max_size=8),
                      lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                          st.sampled_from(["rank", "host", "pid", "nvml_dev", "status", "collective_counts",
                                           "ranks", "size", "hash",
                                           "missing_ranks", "AllReduce", "unresponsive", "considered_dead"]),
                          inner, max_size=6), max_leaves=30)


@given(VALUES)
def test_no_json_breaks_the_reader(value: Any) -> None:
    data = json.dumps({"nccl_version": "x", "communicators": [value]}).encode()
    for one in ras.missing(rasread.parse(data)):
        assert one.why.isprintable()


@given(st.data(), st.sampled_from(["stopped.txt", "dead.txt", "behind.txt"]))
def test_no_text_breaks_the_reader_and_what_it_names_is_in_it(data: st.DataObject, name: str) -> None:
    lines = sample(name).decode().splitlines()
    kept = data.draw(st.lists(st.sampled_from(lines) | st.text(max_size=30), max_size=40))
    text = "\n".join(["Job summary", "Communicators...", *kept])
    for one in ras.missing(rasread.parse(text.encode())):
        assert one.why.isprintable() and (one.rank is None or str(one.rank) in text)
