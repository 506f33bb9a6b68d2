"""Each cause is found by what a node's own files say of it, and what they say accuses no rank that is not
late."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from healthcheck.watch.model import Certainty, SlowPattern, StepTime, WatchCause, WatchFinding, WatchLevel
from healthcheck.watch.nodesignals import sampled, signals_between
from healthcheck.watch.signals import NodeSignal
from healthcheck.watch.watcher import JobWatch
from tests.healthcheck.watch.nodefiles import FAULTS, GPU, sample
from tests.healthcheck.watch.simulated import Planted, SimulatedJob

HOSTS, EVERY, STEPS, SINCE = 3, 5, 350, 203
SAMPLE_S, SAMPLES = 60.0, 8
BAD, OTHER = 2, 1       # the host that has the fault, and an innocent one
RANK = 8 * BAD + GPU

COMPUTE = {
    "heat": WatchCause.THERMAL, "heat, by hardware": WatchCause.THERMAL,
    "heat, a driver without times": WatchCause.THERMAL,
    "power brake": WatchCause.POWER, "power cap": WatchCause.POWER,
    "power, a driver without times": WatchCause.POWER,
    "corrected errors of a GPU": WatchCause.CORRECTED_MEMORY,
    "corrected errors of a DIMM": WatchCause.CORRECTED_MEMORY,
    "PCIe lanes": WatchCause.PCIE, "PCIe generation": WatchCause.PCIE, "PCIe replays": WatchCause.PCIE,
    "memory pressure": WatchCause.HOST_MEMORY, "swapping": WatchCause.HOST_MEMORY, "steal": WatchCause.CPU,
    "a neighbour": WatchCause.CPU,
    "a quota": WatchCause.CPU,
}
DATA = {"disk pressure": WatchCause.STORAGE, "slow requests": WatchCause.STORAGE}
NETWORK = {
    **dict.fromkeys(("a port that flaps", "a port with errors", "a port at half speed",
                     "a port with one lane", "a port that is down",
                     "an interface that flaps", "an interface at a tenth", "an interface without a link",
                     "an interface with errors",
                     "an NVLink that recovers"), WatchCause.LINK),
    "an adapter's PCIe lanes": WatchCause.PCIE,
}
# What a sender counts, wherever it was lost.
PATHS = ("segments sent again", "a port with timeouts")
OF_RANKS = {**COMPUTE, **DATA}
# That each fault is read, a test of its own shows; that it is not told of whom it does not concern, the fast
# tier shows with one or two of each cause.
CHOSEN = ("heat", "power cap", "corrected errors of a DIMM", "PCIe lanes", "swapping", "a neighbour",
          "disk pressure", "a port that flaps", "an adapter's PCIe lanes", "segments sent again",
          "locked clocks")


def fewer(faults: Iterable[str]) -> Any:
    """Those of CHOSEN, and the rest in the slow tier."""
    return pytest.mark.parametrize("fault", [
        fault if fault in CHOSEN else pytest.param(fault, marks=pytest.mark.slow) for fault in faults])


def kind_of(fault: str) -> str:
    return "network" if fault in NETWORK or fault in PATHS else "data" if fault in DATA else "compute"


@cache
def lines_of(kind: str, rank: int | None) -> tuple[tuple[float, tuple[StepTime, ...]], ...]:
    """A job of four hosts, slow from step SINCE on in this way; healthy where the kind is "none"."""
    faults = () if kind == "none" else (Planted(kind, () if rank is None else (rank,), 1.3, since=SINCE),)
    job = SimulatedJob(8 * HOSTS, STEPS, 1, faults, every=EVERY)
    return tuple((now, tuple(line._replace(gpu=str((line.rank or 0) % 8)) for line in lines))
                 for now, lines in job.passes())


@cache
def signals(host: int, fault: str, began: float, since: float) -> tuple[NodeSignal, ...]:
    """What a minute's samples of one node bring, which has the fault (if any) since then."""
    times = [began + SAMPLE_S * count for count in range(SAMPLES)]
    series = [sampled(sample(f"gpu{host:04}", time, fault, since)) for time in times]
    return tuple(found for before, after in pairwise(series) if before and after
                 for found in signals_between(before, after))


def watched(fault: str, kind: str, rank: int | None, host: int = BAD, *,
            from_begin: bool = False) -> list[WatchFinding]:
    """What is found of the job, whose node `host` has the fault since the job is slow, or since ever."""
    passes, watch = lines_of(kind, rank), JobWatch()
    began = passes[0][0]
    since = began - 1e4 if from_begin else next(now
                                                for now, lines in passes if lines[0].step >= SINCE) - EVERY
    for number in range(HOSTS):
        watch.add_signals(signals(number, *((fault, began, since) if number == host else ("", began, 0.0))))
    for now, lines in passes:
        watch.add_all(lines)
        watch.settle(now)
    watch.finish()
    return list(watch.findings.values())


def cause_and_certainty(found: WatchFinding) -> tuple[WatchCause, Certainty]:
    return found.verdict.cause, found.verdict.certainty


def test_every_fault_that_can_be_planted_is_expected_of_some_rank_or_job() -> None:
    assert set(FAULTS) == {*OF_RANKS, *NETWORK, *PATHS, "locked clocks"}
    claimed = {*OF_RANKS.values(), *NETWORK.values()}
    assert claimed == set(WatchCause) - {WatchCause.DATA_LOADING, WatchCause.GARBAGE_COLLECTION,
                                         WatchCause.UNKNOWN}


@pytest.mark.parametrize("fault", OF_RANKS)
def test_a_slow_rank_has_the_cause_that_its_nodes_files_show(fault: str) -> None:
    (one,) = watched(fault, kind_of(fault), RANK)
    assert (one.ranks, *cause_and_certainty(one)) == ((RANK,), OF_RANKS[fault], Certainty.LIKELY), one.verdict


@pytest.mark.parametrize("fault", NETWORK)
def test_a_job_that_waits_has_the_link_that_its_nodes_files_show(fault: str) -> None:
    (one,) = watched(fault, "network", None)
    assert (one.level, one.ranks, *cause_and_certainty(one)) == (WatchLevel.JOB, (), NETWORK[fault],
                                                                 Certainty.LIKELY), one.verdict
    assert one.verdict.hosts == (f"gpu{BAD:04}",)


@pytest.mark.parametrize("fault", PATHS)
def test_what_a_sender_repeats_makes_a_link_possible_and_names_no_host(fault: str) -> None:
    (one,) = watched(fault, "network", None)
    assert (one.level, *cause_and_certainty(one), one.verdict.hosts) == (WatchLevel.JOB, WatchCause.LINK,
                                                                         Certainty.POSSIBLE, ())
    assert (f"gpu{BAD:04}" in one.verdict.evidence[0]
            and "at that of whom it sends to" in one.verdict.evidence[-1])


@fewer(FAULTS)
def test_what_a_node_measures_accuses_no_rank_of_a_healthy_job(fault: str) -> None:
    assert watched(fault, "none", None) == []


@fewer(FAULTS)
def test_beside_a_slow_rank_the_same_measurements_of_another_node_explain_nothing(fault: str) -> None:
    (one,) = watched(fault, "data" if fault in DATA else "compute", RANK, host=OTHER)
    assert one.ranks == (RANK,) and f"gpu{OTHER:04}" not in one.hosts
    assert one.verdict.cause in (WatchCause.UNKNOWN, *([WatchCause.DATA_LOADING] if fault in DATA else []))
    assert not one.verdict.hosts and one.verdict.certainty is not Certainty.LIKELY


@fewer([*OF_RANKS, *NETWORK, *PATHS])
def test_what_was_so_before_the_job_was_slow_explains_no_change(fault: str) -> None:
    (one,) = watched(fault, kind_of(fault), None if kind_of(fault) == "network" else RANK, from_begin=True)
    assert one.verdict.cause in (WatchCause.UNKNOWN,
                                 WatchCause.DATA_LOADING) and not one.verdict.hosts, one.verdict


@pytest.mark.parametrize(("fault", "kind", "cause"), [("power cap", "oscillation", WatchCause.POWER),
                                                      ("power brake", "oscillation", WatchCause.POWER),
                                                      ("a port that flaps", "flapping", WatchCause.LINK)])
def test_what_comes_and_goes_has_the_cause_that_comes_and_goes_with_it(fault: str, kind: str,
                                                                       cause: WatchCause) -> None:
    found = watched(fault, kind, RANK if kind == "oscillation" else None)
    assert [(one.pattern, *cause_and_certainty(one))
            for one in found] == [(SlowPattern.OSCILLATION, cause, Certainty.LIKELY)]


def test_low_clocks_alone_are_shown_and_are_no_cause() -> None:
    (one,) = watched("locked clocks", "compute", RANK)
    assert cause_and_certainty(one) == (WatchCause.UNKNOWN,
                                        Certainty.NONE) and one.verdict.rivals == (WatchCause.POWER,)
    assert "clocks below" in one.verdict.evidence[0]


def test_how_hot_a_gpu_is_stands_beside_its_slowdown() -> None:
    (one,) = watched("heat", "compute", RANK)
    assert any("at 91 degrees C" in words for words in one.verdict.evidence)
