"""A real job over gloo with a bad network at one host: in an all-reduce all ranks wait, so step times accuse no one; its node's counters may."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import pytest

from healthcheck.cli.watchlogs import JobLogs
from healthcheck.watch.model import WatchCause, WatchFinding
from healthcheck.watch.nodeload import load_of
from healthcheck.watch.nodesignals import load_signals
from healthcheck.watch.signals import NodeSignal, SignalKind
from healthcheck.watch.watcher import JobWatch, WatchSettings
from tests.healthcheck.watch.gloojob import RANKS, GlooJob, impaired, running, sent
from tests.testbed.namespaces import namespaces

SNMP = "/proc/net/snmp"
FAULTS = {"loss": ("loss", "5%"), "delay": ("delay", "15ms"), "rate": ("rate",)}
# What a delay or a rate does is in no counter of the host.
RIGHT = {"loss": {WatchCause.LINK, WatchCause.UNKNOWN}, "delay": {WatchCause.UNKNOWN}, "rate": {WatchCause.UNKNOWN, WatchCause.LINK}}


def signals(before: list[str], after: list[str], since: float, until: float) -> list[NodeSignal]:
    """What the hosts' counters of TCP say of the time between."""
    found: list[NodeSignal] = []
    for rank, (one, other) in enumerate(zip(before, after, strict=True)):
        def made(kind: SignalKind, value: float, part: str = "", host: str = f"gpu{rank}") -> NodeSignal:
            return NodeSignal(host, kind, value, since, until, part)

        found += load_signals(load_of([SNMP], {SNMP: one}.get), load_of([SNMP], {SNMP: other}.get), until - since, made)
    return found


def counters(job: GlooJob) -> list[str]:
    return [sent(job, rank) for rank in range(RANKS)]


def one_planting(kind: str, rank: int, folder: Path) -> list[WatchFinding]:
    with namespaces(folder, RANKS) as net, running(folder / "job", net) as job:
        first, began = counters(job), time.time()
        job.wait(90)
        then, planted = counters(job), time.time()
        with impaired(net, rank, *FAULTS[kind]):
            job.wait(70)
        now, ended = counters(job), time.time()
        job.end()
    logs, watch = JobLogs([str(folder / "job/steps")], "", ended), JobWatch(WatchSettings(window_s=0.5))
    watch.add_signals(signals(first, then, began, planted))
    watch.add_signals(signals(then, now, planted, ended))
    logs.scan()
    for lines in logs.slices(0.5, whole=True):
        for line in lines:
            watch.add(line)
        watch.settle(ended)
    watch.finish()
    found = list(watch.findings.values())
    # The rank may be named, and the job: never another rank.
    assert {number for one in found for number in one.ranks} <= {rank}, (kind, rank, found)
    assert found, (kind, rank)
    for one in found:
        assert one.verdict.cause in RIGHT[kind] and set(one.verdict.hosts) <= {f"gpu{rank}"}, (kind, rank, one)
    return found


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", sorted(FAULTS))
def test_twenty_plantings_in_the_network_accuse_no_innocent(kind: str, tmp_path: Path) -> None:
    for number in range(20):
        rank = secrets.randbelow(RANKS)
        print(f"planting {number} on rank {rank}")
        (tmp_path / str(number)).mkdir()
        one_planting(kind, rank, tmp_path / str(number))
