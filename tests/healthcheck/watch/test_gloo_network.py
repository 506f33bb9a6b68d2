"""A real job over gloo with a bad network at one host: in an all-reduce all ranks wait, so step times accuse
no one; its node's counters may."""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from healthcheck.cli.watchlogs import JobLogs
from healthcheck.watch.model import Certainty, WatchCause, WatchFinding, WatchLevel
from healthcheck.watch.nodeload import load_of
from healthcheck.watch.nodesignals import load_signals
from healthcheck.watch.signals import NodeSignal, SignalKind
from healthcheck.watch.watcher import JobWatch, WatchSettings
from tests.healthcheck.watch.gloojob import RANKS, GlooJob, crowded, impaired, lossy, running, sent
from tests.testbed.namespaces import Net, namespaces

SNMP = "/proc/net/snmp"
FAULTS: Mapping[str, tuple[str, ...]] = {"loss": (), "delay": ("delay", "15ms"), "rate": ("rate",)}
LOST = 0.05
# What a delay or a rate does is in no counter of the host: only a link may be claimed, and only of the host
# that has the fault.
RIGHT = {"loss": {WatchCause.LINK}, "delay": {WatchCause.LINK}, "rate": {WatchCause.LINK}}
BEFORE, DURING, REST = 70, 70, 20
# Lost segments may miss all but a few steps, and other work may hide the rest.
LEAST_FOUND = 0.6


def signals(before: list[str], after: list[str], since: float, until: float) -> list[NodeSignal]:
    """What the hosts' counters of TCP say of the time between."""
    found: list[NodeSignal] = []
    for rank, (one, other) in enumerate(zip(before, after, strict=True)):
        def made(kind: SignalKind, value: float, part: str = "", host: str = f"gpu{rank}") -> NodeSignal:
            return NodeSignal(host, kind, value, since, until, part)

        found += load_signals(load_of([SNMP], {SNMP: one}.get), load_of([SNMP], {SNMP: other}.get),
                              until - since, made)
    return found


def counters(job: GlooJob) -> list[str]:
    return [sent(job, rank) for rank in range(RANKS)]


def one_planting(kind: str, rank: int, job: GlooJob, net: Net, folder: Path) -> list[WatchFinding]:
    """What is found of the steps around one fault, as of a job of their own."""
    first, began, step = counters(job), time.time(), job.step()
    job.wait(BEFORE)
    then, planted = counters(job), time.time()
    with lossy(net, rank, LOST) if kind == "loss" else impaired(net, rank, *FAULTS[kind]):
        job.wait(DURING)
        now, ended, last = counters(job), time.time(), job.step()
    logs, watch = JobLogs([str(job.cut(step + 1, last, folder))], "",
                          ended), JobWatch(WatchSettings(window_s=0.5))
    watch.add_signals(signals(first, then, began, planted))
    watch.add_signals(signals(then, now, planted, ended))
    logs.scan()
    for lines in logs.slices(0.5, whole=True):
        for line in lines:
            watch.add(line)
        watch.settle(ended)
    watch.finish()
    return list(watch.findings.values())


def wrong(kind: str, rank: int, found: list[WatchFinding]) -> list[WatchFinding]:
    """Those that name an innocent, or claim a cause that is not the planted one's."""
    return [one for one in found if set(one.ranks) - {rank} or set(one.verdict.hosts) - {f"gpu{rank}"}
            or (one.verdict.certainty is not Certainty.NONE and one.verdict.cause not in RIGHT[kind])]


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", sorted(FAULTS))
def test_twenty_plantings_in_the_network_accuse_no_innocent(kind: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("MUSTER_TEST_SEED", secrets.randbelow(1 << 30)))
    count = int(os.environ.get("MUSTER_TEST_PLANTINGS", 20))
    print(f"\n{kind}: seed {seed}")
    rng, bad, seen, host = random.Random(f"{seed} {kind}"), list[WatchFinding](), 0, 0
    with namespaces(tmp_path, RANKS) as net, running(tmp_path / "job", net) as job:
        for number in range(count):
            rank = rng.randrange(RANKS)
            found = one_planting(kind, rank, job, net, tmp_path / f"logs-{number}")
            bad += wrong(kind, rank, found)
            seen += any(one.level is WatchLevel.JOB or rank in one.ranks for one in found)
            host += any(one.verdict.hosts == (f"gpu{rank}",) for one in found)
            said = [
                f"{one.level.value} {one.verdict.cause.value} ({one.verdict.certainty.value}) "
                f"{' '.join(one.verdict.hosts)}" for one in found]
            print(
                f"{kind}: planted on {rank}, {', '.join(said) or 'nothing said'}; load "
                f"{os.getloadavg()[0]:.1f}", flush=True)
            job.wait(REST)
        job.end()
    print(f"{kind:8} found {seen}/{count}, its host named {host}/{count}, wrong {len(bad)}")
    assert not bad, bad
    assert seen >= LEAST_FOUND * count or crowded()
