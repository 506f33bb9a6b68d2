"""A real job over gloo: whom a fault is planted on is named, within so many steps, with its cause or 'cannot tell'; no innocent is."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

import pytest

from tests.command import muster
from tests.healthcheck.watch.gloojob import RANKS, anyone, planted, running

# How many steps after the fault began it is accused at the latest: 6 windows of 10 steps, one of which it began in.
WITHIN = 70
BEFORE, DURING = 80, 90
# Which causes are right; on a busy machine the rank may wait for a CPU as well, and then it cannot be told.
RIGHT = {"stopped": {"unknown", "cpu"}, "quota": {"cpu", "unknown"}, "data": {"data_loading", "unknown"},
         "leak": {"garbage_collection", "unknown"}}


def one_planting(kind: str, rank: int, folder: Path) -> None:
    """Plants, watches, and judges what is found."""
    with running(folder / "job") as job:
        job.wait(BEFORE)
        began = job.step()
        with planted(kind, job, rank):
            job.wait(DURING)
        job.end()
    done = muster("watch", "--replay", "--log", str(folder / "job"), "--format", "json", "--window", "0.5s", home=folder)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = [line for line in lines if line["kind"] == "finding"]
    assert done.returncode in (0, 1), done.stderr
    accused = {number for one in found for number in one["ranks"]}
    assert accused == {rank}, (kind, rank, began, found)
    first = next(one for one in found if one["ranks"] == [rank])
    closed = [line["last_step"] for line in lines[:lines.index(first)] if line["kind"] == "window"]
    assert closed[-1] - began <= WITHIN, (closed[-1], began)
    causes = [one["cause"]["name"] for one in found if one["ranks"]]
    assert set(causes) <= RIGHT[kind], (kind, causes, found)


@pytest.mark.parametrize("kind", ["data"])
def test_the_rank_with_a_fault_is_named_with_its_cause_and_no_other_is(kind: str, tmp_path: Path) -> None:
    rank = secrets.randbelow(RANKS)
    print(f"on rank {rank}")
    one_planting(kind, rank, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", sorted(RIGHT))
def test_twenty_plantings_of_each_kind_name_the_right_rank_and_no_innocent(kind: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("MUSTER_TEST_SEED", secrets.randbelow(1 << 30)))
    for number in range(20):
        print(f"seed {seed}, planting {number}")
        one_planting(kind, anyone(seed + number), tmp_path / str(number))
