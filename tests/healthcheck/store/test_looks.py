"""Looks that may return a node: the newest are kept, and one of a clock that was wrong proves nothing."""

from __future__ import annotations

from healthcheck.model.outcome import NodeReport, Result, Severity, Status, state_of
from healthcheck.store.file import Store
from healthcheck.store.sweeps import SweepRecord, record


def looked(store: Store, time: float, status: Status = Status.PASS) -> None:
    found = Result("gpu-count", "gpu.count", status, Severity.CRITICAL)
    record(store, SweepRecord(time, time + 5, False, "test", "digest", ("bringup",)),
           [NodeReport("n1", state_of([found]), "", (found,))])


def known(store: Store) -> list[tuple[float, str]]:
    return [tuple(row) for row in store.rows("SELECT time, state FROM snapshot ORDER BY time")
            ]  # type: ignore[misc]


def test_the_newest_looks_are_kept(store: Store) -> None:
    for time in range(1, 10):
        looked(store, time)
    assert known(store) == [(6, "healthy"), (7, "healthy"), (8, "healthy"), (9, "healthy")]


def test_after_a_clock_that_was_ahead_its_looks_prove_nothing_and_new_ones_are_kept(store: Store) -> None:
    for time in (101, 102, 103, 104, 5, 6):
        looked(store, time)
    assert [(time, state) for time, state in known(store) if state == "healthy"] == [(6, "healthy")]
    looked(store, 7, Status.FAIL)
    assert ((7, "unhealthy") in known(store)
            and all(state != "healthy" for time, state in known(store) if time > 7))


def test_a_sweep_that_is_stored_late_makes_no_proof_of_those_before_it(store: Store) -> None:
    looked(store, 3, Status.FAIL)
    looked(store, 1)
    looked(store, 2)
    assert known(store)[-1] == (3, "unknown")
