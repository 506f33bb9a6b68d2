"""What watching costs a real job: its steps take as long while its logs are followed and its node is asked as
they do without."""

from __future__ import annotations

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from healthcheck.cli.watchlogs import JobLogs
from healthcheck.cli.watchnodes import NodeSampler
from healthcheck.watch.watcher import JobWatch, WatchSettings
from inventory.model import Node
from inventory.transport.base import Limits
from inventory.transport.local import LocalTransport
from tests.healthcheck.watch.gloojob import RANKS, GlooJob, running

STEPS, TURNS = 150, 4
# Sixty times as often as by default, so that hundreds of steps meet many samples.
SAMPLE_S = 1.0
# Of the 99th percentile, of which a turn has 1.5 steps of each rank: no more than turns without watching
# differ.
APART, APART_S = 0.10, 0.010


def watching(job: GlooJob, over: threading.Event) -> JobWatch:
    """Watches the job as the command does, until it is told to end; gives what it saw."""
    watch, logs = JobWatch(WatchSettings(window_s=0.5)), JobLogs([str(job.steps)], "", time.time())
    sampler = NodeSampler([Node("here", python=sys.executable)], LocalTransport(), Limits(), SAMPLE_S)
    sampler.start()
    try:
        while not over.wait(0.5):
            logs.scan()
            for lines in logs.slices(0.5, whole=False):
                watch.add_all(lines)
            watch.add_signals(sampler.take()[0])
            watch.settle(time.time())
    finally:
        sampler.stop()
    assert sampler.rounds > 1
    return watch


def p99(job: GlooJob, first: int, last: int) -> float:
    """The 99th percentile of all ranks' steps between these, in seconds."""
    found = sorted(line["seconds"] for rank in range(RANKS)
                   for text in (job.steps / f"rank_{rank}.jsonl").read_text().splitlines(keepends=True)
                   if text.endswith("\n") and first < (line := json.loads(text))["step"] <= last)
    return float(found[int(0.99 * (len(found) - 1))])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_99th_percentile_of_steps_is_unchanged_while_the_job_is_watched(tmp_path: Path) -> None:
    without, watched, seen = list[float](), list[float](), list[JobWatch]()
    # No rank comes before the collector here: what that takes of the CPU is what is looked for.
    with ThreadPoolExecutor(1) as pool, running(tmp_path / "job", first=False) as job:
        job.wait(20)
        for _ in range(TURNS):
            first = job.step()
            job.wait(STEPS)
            without.append(p99(job, first, job.step()))
            over = threading.Event()
            saw = pool.submit(watching, job, over)
            first = job.step()
            job.wait(STEPS)
            watched.append(p99(job, first, job.step()))
            over.set()
            seen.append(saw.result(60))
        job.end()
    print(
        f"\np99 without {[round(one, 4) for one in without]} s, watched "
        f"{[round(one, 4) for one in watched]} s")
    assert len(seen) == TURNS and all(one.windows for one in seen)
    usual = sorted(without)[TURNS // 2]
    assert sorted(watched)[TURNS // 2] <= max(*without, usual * (1 + APART) + APART_S)
