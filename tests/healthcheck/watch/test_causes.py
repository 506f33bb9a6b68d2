"""Why: what a rank measures of itself, and its own GPU, against what else would explain as much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from healthcheck.watch.causes import Slowness, cause_of
from healthcheck.watch.model import CauseVerdict, Certainty, SlowPattern, StepPhase, WatchCause, WatchLevel
from healthcheck.watch.signals import NodeSignal, SignalKind, gpu_name
from healthcheck.watch.signalstore import SignalStore

SLOW = Slowness(WatchLevel.RANK, ("gpu0",), 1000.0, 1600.0, SlowPattern.STEP_DOWN, StepPhase.FORWARD,
                waits_known=True, excess_s=0.1)


def why(slow: Slowness, *signals: NodeSignal) -> CauseVerdict:
    store = SignalStore()
    store.add(signals)
    return cause_of(slow, store)


def told(found: CauseVerdict) -> tuple[WatchCause, Certainty]:
    return found.cause, found.certainty


def test_what_most_of_the_lost_time_is_spent_in_is_the_likely_cause() -> None:
    assert told(why(replace(SLOW, of_gc=0.9))) == (WatchCause.GARBAGE_COLLECTION, Certainty.LIKELY)
    assert told(why(replace(SLOW, of_delay=0.9))) == (WatchCause.CPU, Certainty.LIKELY)
    assert told(why(replace(SLOW, faults=500.0))) == (WatchCause.HOST_MEMORY, Certainty.LIKELY)


def test_who_collects_garbage_waits_for_a_cpu_as_well() -> None:
    assert told(why(replace(SLOW, of_gc=0.9, of_delay=0.8))) == (WatchCause.GARBAGE_COLLECTION,
                                                                 Certainty.LIKELY)


@pytest.mark.parametrize(("of_gc", "of_delay", "faults"),
                         [(0.3, 0.9, 0.0), (0.3, 0.0, 0.0), (0.0, 0.3, 0.0), (0.3, 0.0, 5000.0),
                          (0.0, 0.3, 5000.0)])
def test_where_another_explains_a_part_or_none_explains_most_it_cannot_tell(of_gc: float, of_delay: float,
                                                                            faults: float) -> None:
    found = why(replace(SLOW, of_gc=of_gc, of_delay=of_delay, faults=faults))
    if (of_delay, faults) == (0.3, 5000.0):     # swapping stops tasks, which then wait for a CPU
        assert told(found) == (WatchCause.HOST_MEMORY, Certainty.LIKELY)
    else:
        assert told(found) == (WatchCause.UNKNOWN, Certainty.NONE) and found.rivals


def test_who_runs_more_than_its_peers_has_more_work_and_starves_no_more() -> None:
    found = why(replace(SLOW, of_delay=0.8, of_cpu=0.2))
    assert told(found) == (WatchCause.UNKNOWN, Certainty.NONE) and any("more work to do" in words
                                                                       for words in found.evidence)


def test_a_few_page_faults_explain_no_long_pause() -> None:
    assert told(why(replace(SLOW, faults=6.0, excess_s=0.1))) == (WatchCause.HOST_MEMORY, Certainty.LIKELY)
    assert told(why(replace(SLOW, faults=6.0, excess_s=2.0))) == (WatchCause.UNKNOWN, Certainty.NONE)


def thermal(value: float, number: int, host: str = "gpu0", since: float = 1000.0) -> NodeSignal:
    """Of one GPU, which has three names."""
    names = {str(number), f"0000:{number:02x}:00.0", f"8a2f-{number}"}
    return NodeSignal(host, SignalKind.THERMAL, value, since, 1600.0, f"GPU {number}",
                      frozenset(map(gpu_name, names)))


@pytest.mark.parametrize("name", ["3", "0000:03:00.0", "00000000:03:00.0", "GPU-8A2F-3", "8a2f-3"])
def test_where_the_rank_names_its_gpu_that_ones_measurements_count(name: str) -> None:
    hot = [thermal(0.5 if number == 3 else 0.0, number) for number in range(8)]
    assert told(why(replace(SLOW, gpu=name), *hot)) == (WatchCause.THERMAL, Certainty.LIKELY)


def test_a_hot_gpu_of_another_rank_explains_nothing() -> None:
    hot = [thermal(0.5 if number == 4 else 0.0, number) for number in range(8)]
    assert told(why(replace(SLOW, gpu="3"), *hot)) == (WatchCause.UNKNOWN, Certainty.NONE)


def test_without_a_name_the_hottest_of_the_node_counts_and_that_is_said() -> None:
    found = why(SLOW, *[thermal(0.5 if number == 4 else 0.0, number) for number in range(8)])
    assert found.cause is WatchCause.THERMAL and "which GPU is the rank's is not known" in found.evidence[0]


def test_what_all_gpus_of_the_host_measure_explains_no_rank_that_is_slower_than_theirs() -> None:
    assert told(why(replace(SLOW, gpu="3"),
                    *[thermal(0.5, number) for number in range(8)])) == (WatchCause.UNKNOWN, Certainty.NONE)


def test_what_another_gpu_measured_before_is_no_reason_against_its_own() -> None:
    before = NodeSignal("gpu0", SignalKind.THERMAL, 0.6, 100.0, 900.0, "GPU 4", frozenset({"4"}))
    assert told(why(replace(SLOW, gpu="3"), before, thermal(0.5, 3), thermal(0.0, 4))) == (WatchCause.THERMAL,
                                                                                           Certainty.LIKELY)
