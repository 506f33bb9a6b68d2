"""Stragglers of simulated jobs are named with their pattern and phase, within so many windows, and no
innocent is."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from healthcheck.watch.causes import Slowness, cause_of
from healthcheck.watch.model import (
    Certainty,
    SlowPattern,
    StepPhase,
    StepTime,
    WatchCause,
    WatchFinding,
    WatchLevel,
)
from healthcheck.watch.signals import NodeSignal, SignalKind
from healthcheck.watch.track import false_accusations
from healthcheck.watch.watcher import JobWatch
from tests.healthcheck.watch.simulated import Planted, SimulatedJob, feed

RANKS = 96


def watched(*faults: Planted, steps: int = 600, seed: int = 1, ranks: int = RANKS, phases: bool = True,
            signals: tuple[NodeSignal, ...] = (), measured: bool = True) -> JobWatch:
    job = SimulatedJob(ranks, steps, seed, faults, every=5, phases=phases, measured=measured)
    watch = JobWatch(places=job.places())
    watch.add_signals(signals)
    feed(watch, job)
    watch.finish()
    return watch


def only(watch: JobWatch) -> WatchFinding:
    (one,) = watch.findings.values()
    return one


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_a_healthy_job_has_no_finding(seed: int) -> None:
    watch = watched(seed=seed)
    assert not watch.findings and watch.expected_false < 0.01 and len(watch.windows) >= 40


@pytest.mark.parametrize(("kind", "phase"), [("compute", StepPhase.BACKWARD), ("data", StepPhase.DATA)])
@pytest.mark.parametrize("factor", [1.1, pytest.param(1.34, marks=pytest.mark.slow), 2.0])
def test_a_slow_rank_is_named_with_its_phase_within_six_windows(kind: str, phase: StepPhase,
                                                                factor: float) -> None:
    watch = watched(Planted(kind, (41,), factor, since=303), steps=380)
    one = only(watch)
    assert (one.level, one.ranks, one.hosts, one.pattern) == (WatchLevel.RANK, (41,), ("gpu0005",),
                                                              SlowPattern.STEP_DOWN)
    assert one.phase in (phase, StepPhase.FORWARD if factor == 2.0 and kind == "compute" else phase)
    assert abs(one.since_step - 303) <= 2 * watch.input.per
    assert one.lost_s == pytest.approx((factor - 1) * 0.8, rel=0.35)
    assert one.still


@pytest.mark.parametrize(("planted", "more", "found"), [
    # slow from the first window on is no change
    (Planted("compute", (41,), 1.3), {"steps": 200}, {"pattern": SlowPattern.STEADY}),
    # one that recovered is still listed
    (Planted("compute", (41,), 1.3, since=100, until=300), {}, {"ranks": (41,), "still": False}),
    (Planted("oscillation", (7,), 1.4, since=100), {}, {"ranks": (7,), "pattern": SlowPattern.OSCILLATION}),
    (Planted("drift", (7,), 1.5, since=150), {}, {"ranks": (7,), "pattern": SlowPattern.DRIFT}),
    # all ranks of a host, and of a rack that is slower by less than a rank is accused for
    (Planted("compute", tuple(range(16, 24)), 1.3, since=200), {},
     {"level": WatchLevel.HOST, "subject": "host gpu0002", "ranks": tuple(range(16, 24))}),
    (Planted("compute", tuple(range(32, 64)), 1.06, since=200), {"ranks": 192},
     {"level": WatchLevel.PLACE, "subject": "place rack 1",
      "hosts": ("gpu0004", "gpu0005", "gpu0006", "gpu0007")}),
    # a slow start is reported once, and over
    (Planted("start", factor=2.0, until=31), {},
     {"pattern": SlowPattern.SLOW_START, "still": False, "level": WatchLevel.JOB}),
], ids=["steady", "recovered", "oscillation", "drift", "host", "rack", "start"])
def test_what_is_slow_is_one_finding_with_its_pattern(planted: Planted, more: dict[str, int],
                                                      found: dict[str, object]) -> None:
    one = only(watched(planted, **more))
    assert {name: getattr(one, name) for name in found} == found


@pytest.mark.parametrize("kind", ["flapping", "network"])
def test_what_slows_the_job_began_when_it_was_first_seen_however_long_it_goes_on(kind: str) -> None:
    one = only(watched(Planted(kind, factor=1.2, since=300), steps=2500, ranks=8))
    assert (one.level, one.ranks, one.phase, one.still) == (WatchLevel.JOB, (), StepPhase.COMMUNICATION, True)
    assert one.pattern is (SlowPattern.OSCILLATION if kind == "flapping" else SlowPattern.STEP_DOWN)
    assert abs(one.since_step - 300) <= 30


@pytest.mark.parametrize(("kind", "phase", "cause", "certainty"), [
    ("loading", StepPhase.DATA, WatchCause.DATA_LOADING, Certainty.POSSIBLE),
    ("checkpoint", StepPhase.CHECKPOINT, WatchCause.STORAGE, Certainty.POSSIBLE),
    ("network", StepPhase.COMMUNICATION, WatchCause.UNKNOWN, Certainty.NONE),
])
def test_what_slows_all_ranks_is_the_jobs(kind: str, phase: StepPhase, cause: WatchCause,
                                          certainty: Certainty) -> None:
    one = only(watched(Planted(kind, factor=1.3, since=300)))
    assert (one.level, one.ranks, one.phase, one.pattern) == (WatchLevel.JOB, (), phase,
                                                              SlowPattern.STEP_DOWN)
    assert (one.verdict.cause, one.verdict.certainty) == (cause, certainty)


def test_garbage_collection_that_spreads_over_ranks_is_a_drift_of_the_job() -> None:
    one = only(watched(Planted("gc", factor=1.4, since=150)))
    assert (one.level, one.pattern) == (WatchLevel.JOB, SlowPattern.DRIFT)
    assert (one.verdict.cause, one.verdict.certainty) == (WatchCause.GARBAGE_COLLECTION, Certainty.LIKELY)


def test_without_its_measurement_garbage_collection_is_not_claimed() -> None:
    one = only(watched(Planted("gc", factor=1.4, since=150), measured=False))
    assert (one.pattern, one.verdict.cause) == (SlowPattern.DRIFT, WatchCause.UNKNOWN)


def test_with_step_times_alone_no_rank_is_accused_and_the_finding_says_why() -> None:
    one = only(watched(Planted("compute", (41,), 1.3, since=300), phases=False))
    assert (one.level, one.ranks, one.verdict.cause) == (WatchLevel.JOB, (), WatchCause.UNKNOWN)
    assert any("not known which rank" in words for words in one.evidence)


def test_two_slow_ranks_are_two_findings() -> None:
    watch = watched(Planted("compute", (3,), 1.3, since=200), Planted("data", (77,), 1.25, since=350))
    assert sorted(one.ranks for one in watch.findings.values()) == [(3,), (77,)]


def test_ranks_of_a_role_are_compared_with_each_other() -> None:
    watch = JobWatch()
    feed(watch, SimulatedJob(RANKS, 300, 1, (Planted("compute", tuple(range(88, 96)), 1.3),), every=5),
         lambda line: line._replace(role="last" if line.rank is not None and line.rank >= 88 else ""))
    assert not watch.findings


def test_too_few_ranks_to_compare_accuse_no_one() -> None:
    watch = watched(Planted("compute", (1,), 1.5, since=200), ranks=2)
    assert all(not one.ranks for one in watch.findings.values())


def test_a_restart_is_a_new_attempt_with_the_steps_that_it_repeats() -> None:
    first = SimulatedJob(8, 200, 1, (Planted("compute", (2,), 1.3, since=50),), every=5)
    second = SimulatedJob(8, 100, 2, every=5, began=first.began + 2000)
    watch = JobWatch()
    feed(watch, first)
    feed(watch, second, lambda line: line._replace(step=line.step + 150))
    watch.finish()
    one, two = watch.attempts
    assert (one.last, two.first, two.last, two.lost_steps) == (200, 151, 250, 50)
    assert two.idle_s == pytest.approx(second.began - one.ended, abs=2)
    assert [(found.ranks, found.attempt, found.still)
            for found in watch.findings.values()] == [((2,), 0, False)]


def test_lines_that_are_read_twice_or_in_any_order_change_nothing() -> None:
    job = SimulatedJob(16, 300, 3, (Planted("compute", (5,), 1.3, since=100),), every=5)
    passes = list(job.passes())
    plain, odd = JobWatch(), JobWatch()
    rng = random.Random(5)
    for number, (now, lines) in enumerate(passes):
        mixed = [*lines, *(passes[number - 1][1] if number else [])]
        rng.shuffle(mixed)
        for line in lines:
            plain.add(line)
        for line in mixed:
            odd.add(line)
        assert plain.settle(now) == odd.settle(now)
    assert plain.findings == odd.findings and len(odd.attempts) == 1


def test_a_rank_whose_log_comes_late_or_not_at_all_holds_no_one_up() -> None:
    watch = JobWatch()
    feed(watch, SimulatedJob(16, 300, 3, (Planted("compute", (5,), 1.3, since=100),), every=5),
         lambda line: None if line.rank == 9 or (line.rank == 3 and 100 < line.step < 200) else line)
    assert only(watch).ranks == (5,)


def test_a_job_that_falls_silent_hangs_and_who_is_behind_is_named() -> None:
    job = SimulatedJob(8, 200, 1, every=1)
    watch = JobWatch()
    now = 0.0
    for now, lines in job.passes():
        for line in lines:
            if line.step < 200 or line.rank != 6:
                watch.add(line)
        watch.settle(now)
    assert not watch.settle(now + 5, heard=False).findings
    (one,) = watch.settle(now + 300, heard=False).findings
    assert (one.pattern, one.ranks, one.hosts, one.still) == (SlowPattern.HANG, (6,), ("gpu0000",), True)
    for line in lines:
        watch.add(line._replace(step=201, time=now + 310))
    (over,) = watch.settle(now + 310).findings
    assert not over.still


def test_a_rank_that_has_long_reported_nothing_is_not_who_the_others_wait_for() -> None:
    """Its log ended, by a full disk or a dead writer; in synchronous training it cannot be so far behind."""
    def cut(line: StepTime) -> StepTime | None:
        return None if line.rank == 3 and line.step > 80 else line

    watch = JobWatch()
    now = feed(watch, SimulatedJob(16, 200, 5),
               lambda line: None if line.rank == 9 and line.step == 200 else cut(line))
    found = watch.settle(now + 60, heard=False).findings
    assert [(one.pattern, one.ranks) for one in found] == [(SlowPattern.HANG, (9,))]
    assert any("rank 3" in words and "step 80" in words for words in found[0].evidence)
    watch = JobWatch()
    now = feed(watch, SimulatedJob(16, 200, 5), cut)
    found = watch.settle(now + 60, heard=False).findings
    assert [(one.pattern, one.ranks) for one in found] == [(SlowPattern.HANG, ())]


def test_a_job_that_pauses_now_and_then_does_not_hang_in_a_pause() -> None:
    """Evaluations and checkpoints of a minute and more are usual: between steps, or within one of all."""
    for within in (False, True):
        watch, late, now = JobWatch(), 0.0, 0.0
        for now, lines in SimulatedJob(8, 210, 1).passes():
            step = lines[0].step
            late += 90.0 if step % 50 == 0 else 0.0
            paused = 90.0 if within and step % 50 == 0 else 0.0
            for line in lines:
                watch.add(line._replace(time=line.time + late, seconds=line.seconds + paused))
            watch.settle(now + late)
        now += late
        assert not watch.settle(now + 150, heard=False).findings
        (one,) = watch.settle(now + 260, heard=False).findings
        assert one.pattern is SlowPattern.HANG


def test_a_job_that_falls_silent_as_a_whole_hangs_and_no_one_is_named() -> None:
    watch = JobWatch()
    now = feed(watch, SimulatedJob(8, 200, 1))
    (one,) = watch.settle(now + 300, heard=False).findings
    assert (one.pattern, one.ranks) == (SlowPattern.HANG, ())
    assert any("flight recorder" in words for words in one.evidence)


def test_memory_does_not_grow_with_the_length_of_the_job() -> None:
    job = SimulatedJob(8, 2000, 1, every=5)
    watch = JobWatch()
    tracemalloc.start()
    sizes = []
    for number, (now, lines) in enumerate(job.passes()):
        for line in lines:
            watch.add(line)
        watch.settle(now)
        watch.windows.clear()
        if number in (150, 399):
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[1] < sizes[0] * 1.2 + 50_000


def test_the_rate_of_false_accusations_is_as_stated() -> None:
    assert false_accusations(0.0, 4096, 8640) == 0
    assert false_accusations(0.001, 4096, 8640) < 0.001
    assert false_accusations(0.01, 4096, 8640) == pytest.approx(4096 * 8640 * 5e-8, rel=0.05)


START = 1_800_000_000.0


def signals(kind: SignalKind, **values: float) -> tuple[NodeSignal, ...]:
    """For each host its value over the second half of the job; the others have none of it."""
    found = [NodeSignal(f"gpu{number:04}", SignalKind.CPU_STEAL, 0.0, START, START + 1000)
             for number in range(12)]
    return (*found,
            *(NodeSignal(host, kind, value, START + 250, START + 1000) for host, value in values.items()))


def test_what_the_node_of_a_slow_rank_measures_alone_is_the_likely_cause() -> None:
    one = only(watched(Planted("compute", (41,), 1.3, since=300),
                       signals=signals(SignalKind.THERMAL, gpu0005=0.4)))
    assert (one.ranks, one.verdict.cause, one.verdict.certainty) == (
        (41,), WatchCause.THERMAL, Certainty.LIKELY)
    assert SignalKind.THERMAL.words in one.verdict.evidence[0]


def test_what_all_nodes_measure_explains_no_straggler() -> None:
    every = {f"gpu{number:04}": 0.4 for number in range(12)}
    one = only(watched(Planted("compute", (41,), 1.3, since=300),
                       signals=signals(SignalKind.POWER_CAP, **every)))
    assert one.verdict.cause is WatchCause.UNKNOWN


def test_two_causes_that_fit_equally_are_both_named_and_neither_is_claimed() -> None:
    both = (*signals(SignalKind.THERMAL, gpu0005=0.2), *signals(SignalKind.PCIE, gpu0005=0.75))
    one = only(watched(Planted("compute", (41,), 1.3, since=300), signals=both))
    assert (one.verdict.cause is WatchCause.UNKNOWN
            and set(one.verdict.rivals) == {WatchCause.THERMAL, WatchCause.PCIE})


def test_a_link_explains_no_slow_computation_and_a_slow_job() -> None:
    flapping = signals(SignalKind.LINK_ERRORS, gpu0003=40.0)
    alone = only(watched(Planted("compute", (25,), 1.3, since=300), signals=flapping))
    job = only(watched(Planted("network", factor=1.3, since=300), signals=flapping))
    assert alone.ranks == (25,) and alone.verdict.cause is WatchCause.UNKNOWN and not alone.verdict.rivals
    assert (job.verdict.cause, job.verdict.hosts) == (WatchCause.LINK, ("gpu0003",))


def test_memory_pressure_brings_disk_and_cpu_pressure_about() -> None:
    store = JobWatch()
    store.add_signals((*signals(SignalKind.MEMORY_PRESSURE, gpu0005=0.3),
                       *signals(SignalKind.IO_PRESSURE, gpu0005=0.9),
                       *signals(SignalKind.CPU_PRESSURE, gpu0005=0.9)))
    verdict = cause_of(Slowness(WatchLevel.RANK, ("gpu0005",), START + 260, START + 900,
                                SlowPattern.STEP_DOWN, StepPhase.DATA),
                       store.signals)
    assert (verdict.cause, verdict.certainty) == (WatchCause.HOST_MEMORY, Certainty.LIKELY)
