"""What nodes say is kept as long as a job runs, in little memory: signals of one size become one."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from healthcheck.watch.signals import NodeSignal, SignalKind
from healthcheck.watch.signalstore import KEPT, MOST_PARTS, SignalStore

KIND = SignalKind.THERMAL


def kept(*values: float, part: str = "GPU 0", gap: float = 0.0) -> SignalStore:
    """A store of one device's signals, one a minute; `gap` (seconds) lies before the last."""
    store = SignalStore()
    for number, value in enumerate(values):
        since = 60.0 * number + (gap if number == len(values) - 1 else 0.0)
        store.add([NodeSignal("gpu001.cluster", KIND, value, since, since + 60.0, part)])
    return store


def everything(store: SignalStore) -> list[tuple[float, float, float]]:
    return [(one.value, one.since, one.until) for one in store.of(KIND, "gpu001", 0.0, 1e9)]


@pytest.mark.parametrize(("values", "gap", "signals"), [
    # of one size, with the highest value; what is far below what counts is of one size, too
    ((0.5, 0.51, 0.49), 0, [(0.51, 0.0, 180.0)]), ((0.0, 0.004, 0.0001), 0, [(0.004, 0.0, 180.0)]),
    ((0.5, 0.5), 90.0, [(0.5, 0.0, 60.0), (0.5, 150.0, 210.0)])])       # a missing sample is not bridged
def test_signals_of_one_size_are_one(values: tuple[float, ...], gap: float, signals: list[Any]) -> None:
    assert everything(kept(*values, gap=gap)) == signals


def test_a_change_of_size_begins_a_new_one() -> None:
    store = kept(0.0, 0.0, 0.5, 0.5)
    assert everything(store) == [(0.0, 0.0, 120.0), (0.5, 120.0, 240.0)]
    assert [one.value for one in store.of(KIND, "gpu001", 0.0, 100.0)] == [0.0]


def test_what_goes_on_was_there_before_from_the_end_of_its_first_sample_on() -> None:
    store = kept(0.0, 0.5, 0.5, 0.5)
    assert [one.value for one in store.before(KIND, "gpu001", 130.0)] == [0.0, 0.5]
    assert [one.value for one in store.before(KIND, "gpu001", 110.0)] == [0.0]


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -1.0, 0.0, 1e300])
def test_no_value_breaks_it(value: float) -> None:
    assert len(everything(kept(0.1, value, 0.1))) == 3


def test_devices_of_a_host_and_their_signals_are_bounded() -> None:
    store = SignalStore()
    for number in range(4 * KEPT):
        store.add([NodeSignal("gpu001", KIND, 0.5 * (number % 2), number, number + 1.0, f"GPU {part}")
                   for part in range(2 * MOST_PARTS)])
    assert len(everything(store)) == KEPT * MOST_PARTS


def test_memory_does_not_grow_with_the_samples_of_a_healthy_node() -> None:
    store, sizes = SignalStore(), []
    tracemalloc.start()
    for minute in range(150):
        store.add([NodeSignal("gpu001", kind, 0.02 * kind.least, 60.0 * minute, 60.0 * minute + 60,
                              f"device {part}")
                   for kind in SignalKind for part in range(8)])
        if minute in (10, 149):
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[1] < 1.5 * sizes[0]
