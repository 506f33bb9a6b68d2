"""What a cause needs beside a signal that stands out: that it lasts as long as the slowness, and is that of
most who are slow."""

from __future__ import annotations

import pytest

from healthcheck.watch.causes import Slowness, cause_of
from healthcheck.watch.model import CauseVerdict, SlowPattern, StepPhase, WatchCause, WatchLevel
from healthcheck.watch.signals import NodeSignal, SignalKind
from healthcheck.watch.signalstore import SignalStore

HOSTS = tuple(f"gpu{number:03}" for number in range(1, 9))
SINCE, UNTIL, SAMPLE_S = 300, 600, 60


def verdict(level: WatchLevel, phase: StepPhase,
            *planted: tuple[SignalKind, float, tuple[str, ...], int, int]) -> CauseVerdict:
    """All hosts measure a little of each kind all the time, beside what is planted on some in a span."""
    store = SignalStore()
    for at in range(0, UNTIL, SAMPLE_S):
        for kind, value, on, since, until in planted:
            store.add([NodeSignal(host, kind, value if host in on and since <= at < until else 0.01, at,
                                  at + SAMPLE_S) for host in HOSTS])
    hosts = {WatchLevel.RANK: HOSTS[2:3], WatchLevel.PLACE: HOSTS[2:5], WatchLevel.JOB: ()}[level]
    return cause_of(Slowness(level, hosts, SINCE, UNTIL, SlowPattern.STEP_DOWN, phase, waits_known=True),
                    store)


@pytest.mark.parametrize(("since", "until", "cause"), [
    (300, 600, WatchCause.THERMAL), (360, 600, WatchCause.THERMAL), (300, 360, WatchCause.UNKNOWN),
    (540, 600, WatchCause.UNKNOWN)])
def test_a_throttle_that_came_late_or_went_early_is_not_why(since: int, until: int,
                                                            cause: WatchCause) -> None:
    assert verdict(WatchLevel.RANK, StepPhase.BACKWARD,
                   (SignalKind.THERMAL, 0.4, HOSTS[2:3], since, until)).cause is cause


@pytest.mark.parametrize(("hot", "cause"),
                         [(1, WatchCause.UNKNOWN), (2, WatchCause.THERMAL), (3, WatchCause.THERMAL)])
def test_a_rack_is_slow_by_what_most_of_its_hosts_measure_and_all_of_those_are_named(
        hot: int, cause: WatchCause) -> None:
    found = verdict(WatchLevel.PLACE, StepPhase.BACKWARD,
                    (SignalKind.THERMAL, 0.4, HOSTS[2:2 + hot], SINCE, UNTIL))
    assert found.cause is cause and found.hosts == (HOSTS[2:2 + hot] if cause is WatchCause.THERMAL else ())


@pytest.mark.parametrize(("kind", "value", "phase", "cause"), [
    (SignalKind.THERMAL, 0.4, StepPhase.BACKWARD, WatchCause.THERMAL),
    (SignalKind.IO_PRESSURE, 0.6, StepPhase.DATA, WatchCause.STORAGE)])
def test_what_most_nodes_measure_since_the_whole_job_is_slow_is_why(kind: SignalKind, value: float,
                                                                    phase: StepPhase,
                                                                    cause: WatchCause) -> None:
    found = verdict(WatchLevel.JOB, phase, (kind, value, HOSTS, SINCE, UNTIL))
    assert found.cause is cause and "8 of 8 nodes" in found.evidence[0]


@pytest.mark.parametrize(("on", "since"), [(HOSTS, 0), (HOSTS[:3], SINCE)])
def test_what_was_there_before_or_on_few_nodes_is_not_why_the_whole_job_is_slow(on: tuple[str, ...],
                                                                                since: int) -> None:
    assert verdict(WatchLevel.JOB, StepPhase.BACKWARD,
                   (SignalKind.THERMAL, 0.4, on, since, UNTIL)).cause is WatchCause.UNKNOWN
