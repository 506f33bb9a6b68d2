"""Power: no wave draws more than is allowed, every task that may run at all does, and nodes of one domain
begin one after the other."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin.model import BurnInStage, Participant, Seat, Task, TaskKind
from inventory.errors import UsageError
from provisioning.burnin import ramp
from provisioning.burnin.ramp import PowerLimits


def place(number: int, watts: float | None = 10_000.0, power: str | None = None) -> Participant:
    return Participant(f"n{number}", 8, watts=watts, power=power)


def task(*numbers: int) -> Task:
    return Task("t-" + "-".join(map(str, numbers)), BurnInStage.NODE, TaskKind.RATE,
                tuple(Seat(f"n{number}", 0) for number in numbers), 60)


def named(*places: Participant) -> dict[str, Participant]:
    return {one.node: one for one in places}


@given(st.data())
def test_no_wave_draws_more_than_is_allowed_and_every_task_that_may_run_does(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    places = named(*(place(n, data.draw(st.integers(1, 20)) * 1000.0,
                           data.draw(st.sampled_from([None, "a", "b"]))) for n in range(count)))
    numbers = data.draw(st.permutations(range(count)))
    size = data.draw(st.integers(1, 3))
    tasks = [task(*numbers[at:at + size]) for at in range(0, count, size)]
    power = PowerLimits(data.draw(st.none() | st.integers(1, 60)), data.draw(st.none() | st.integers(1, 40)))
    found = ramp.waves(tasks, places, power)
    assert sorted(one.id for wave in found.waves for one in wave) == sorted(
        {one.id for one in tasks} - found.refused.keys())
    for wave in found.waves:
        kw: Counter[str] = Counter()
        for one in wave:
            for node in one.nodes:
                kw[places[node].power or ""] += int((places[node].watts or 0) / 1000)
        assert power.max_kw is None or sum(kw.values()) <= power.max_kw
        assert power.domain_kw is None or max(kw.values()) <= power.domain_kw
    for one in tasks:
        alone = ramp.waves([one], places, power)
        assert bool(alone.refused) is (one.id in found.refused)


def test_what_exceeds_the_limit_by_itself_is_refused_with_figures() -> None:
    places = named(*(place(n, 10_200, "pdu-a") for n in range(4)))
    assert ramp.waves([task(0, 1, 2, 3)], places, PowerLimits(40)).refused == {
        "t-0-1-2-3": "its nodes draw up to 40.8 kW, and 40 kW are allowed (max_kw)"}
    assert ramp.waves([task(0, 1)], places, PowerLimits(None, 20)).refused == {
        "t-0-1": "its nodes draw up to 20.4 kW in power domain pdu-a, and 20 kW are allowed (domain_kw)"}


def test_without_a_limit_all_run_at_once_and_with_one_a_node_of_unknown_power_is_a_mistake() -> None:
    places = named(place(0, None), place(1))
    assert ramp.waves([task(0), task(1)], places, PowerLimits()).waves == ((task(0), task(1)),)
    ramp.check(places.values(), PowerLimits())
    with pytest.raises(UsageError,
                       match=r"what n0 draws at most is not known, and power is limited: set it in the "
                             r"inventory \(burnin: \{watts"):
        ramp.check(places.values(), PowerLimits(100))
    assert ramp.drawn([task(0)], places) is None and ramp.drawn([task(1)], places) == 10


def test_in_a_power_domain_nodes_begin_one_after_the_other_and_domains_do_not_wait_for_each_other() -> None:
    places = named(place(0, power="a"), place(1, power="a"), place(2, power="b"), place(3, power="a"))
    assert ramp.starts(
        [task(0), task(1), task(2), task(3)], places) == {"t-0": 0.0, "t-1": 0.5, "t-2": 0.0, "t-3": 1.0}


def test_the_last_of_a_large_domain_does_not_begin_later_than_half_a_minute_after_the_first() -> None:
    places = named(*(place(n) for n in range(512)))
    found = ramp.starts([task(n) for n in range(512)], places)
    assert max(found.values()) == pytest.approx(ramp.LONGEST_S) and len(set(found.values())) == 512
