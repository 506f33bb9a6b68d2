"""A real job over gloo: whom a fault is planted on is named, within so many steps, with its cause or 'cannot
tell'; no innocent is, and no cause is claimed that is not the planted one's, neither of the rank nor of the
job.

MUSTER_TEST_SEED repeats a run, MUSTER_TEST_PLANTINGS says how many of each kind the slow tier plants (20).
"""

from __future__ import annotations

import os
import random
import secrets
from pathlib import Path

import pytest

from tests.command import muster
from tests.healthcheck.watch.gloojob import RANKS, GlooJob, crowded, planted, running
from tests.healthcheck.watch.glooscore import RIGHT, Scored, line, read, score, table

# How many steps after the fault began the rank is accused at the latest.
WITHIN = 60
BEFORE, DURING, REST = 50, 60, 10
# Of all plantings so many name the rank at least, unless other work fills the machine.
LEAST_NAMED = 0.7
FAULTS = sorted(set(RIGHT) - {"none"})


def one_planting(kind: str, rank: int, job: GlooJob, folder: Path) -> Scored:
    """Plants, ends the fault, and judges the steps since the job was last at rest, as the logs of a job of
    their own."""
    job.wait(BEFORE)
    began = job.step()
    with planted(kind, job, rank):
        job.wait(DURING)
        ended = job.step()
    logs = job.cut(began - BEFORE + 1, ended, folder)
    done = muster("watch", "--replay", "--log", str(logs), "--format", "json", "--window",
                  "0.5s", home=folder)
    assert done.returncode in (0, 1), done.stderr
    return score(kind, None if kind == "none" else rank, began, read(done.stdout))


def right(found: Scored) -> bool:
    """Whether all that is said is true, and said in time."""
    return not found.innocents and not found.wrong and (found.delay is None or 0 <= found.delay <= WITHIN)


def test_the_rank_with_a_fault_is_named_with_its_cause_and_no_other_is(tmp_path: Path) -> None:
    rank = secrets.randbelow(RANKS)
    print(f"on rank {rank}")
    with running(tmp_path / "job", forked=True) as job:
        found = one_planting("data", rank, job, tmp_path / "logs")
        job.end()
    assert right(found), found
    assert found.named or crowded(), found


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", ["none", *FAULTS])
def test_twenty_plantings_of_each_kind_name_the_right_rank_and_no_innocent(kind: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("MUSTER_TEST_SEED", secrets.randbelow(1 << 30)))
    count = int(os.environ.get("MUSTER_TEST_PLANTINGS", 20))
    print(f"\n{kind}: seed {seed}")
    rng, scores = random.Random(f"{seed} {kind}"), list[Scored]()
    with running(tmp_path / "job") as job:
        for number in range(count):
            scores.append(one_planting(kind, rng.randrange(RANKS), job, tmp_path / str(number)))
            print(line(scores[-1], os.getloadavg()[0]), flush=True)
            job.wait(REST)
        job.end()
    print("\n".join(table(scores)))
    assert all(map(right, scores)), [one for one in scores if not right(one)]
    assert kind == "none" or sum(one.named for one in scores) >= LEAST_NAMED * count or crowded()
