"""How long a node is left alone whose logins hang: plain arithmetic, and who ends it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.model import Node
from inventory.transport.base import Failure, Reply, Stage
from inventory.transport.hung import HungLogins, rest_s
from tests.testbed.death import Clock

NODE = Node("gpu007")
HUNG = Failure(Stage.LOGIN, "the shell has not run our command", Stage.LOGIN)


def reply(failure: Failure | None) -> Reply:
    return Reply("gpu007", b"" if failure is None else None, failure, 0.0, 0.0)


@pytest.mark.parametrize(("every", "rests"), [
    (1.0, [60, 120, 240, 480, 960, 1920, 3600, 3600]), (300.0, [300, 600, 1200, 2400, 3600, 3600]),
    (7200.0, [7200, 7200])])
def test_a_minute_or_one_interval_and_twice_as_long_each_time_up_to_an_hour(
    every: float, rests: list[float],
) -> None:
    assert [rest_s(hung, every) for hung in range(1, len(rests) + 1)] == rests


@settings(deadline=None)     # a busy machine is slow
@given(st.integers(1, 10_000), st.floats(1, 7 * 86400))
def test_no_sweep_comes_back_at_once_and_every_node_is_tried_again_some_time(
    hung: int, every: float,
) -> None:
    assert max(60.0, every) <= rest_s(hung, every) <= max(3600.0, every)
    assert rest_s(hung + 1, every) >= rest_s(hung, every)


def test_it_rests_until_its_time_is_over_and_longer_after_the_next_login_that_hangs() -> None:
    clock = Clock(1_000_000.0)
    hung = HungLogins(5.0, clock)
    assert hung.resting([NODE]) == {}
    hung.saw(NODE, reply(HUNG))
    for logins, rest in ((1, 60.0), (2, 120.0), (3, 240.0)):
        clock.now += rest - 1
        (left_alone,) = hung.resting([NODE]).values()
        assert left_alone.failure is not None
        assert left_alone.failure.stage is Stage.LOGIN
        assert "1970-01-12T" in left_alone.failure.reason
        assert ("its last login hung" if logins == 1 else f"each of its last {logins} logins hung") in (
            left_alone.failure.reason)
        assert "the shell has not run our command" in left_alone.failure.reason
        assert left_alone.body is None
        clock.now += 1
        assert hung.resting([NODE]) == {}
        assert hung.names == {"gpu007"}
        hung.saw(NODE, reply(HUNG))


@pytest.mark.parametrize("end", [
    None, Failure(Stage.CONNECT, "refused"), Failure(Stage.CONNECT, "sent nothing", Stage.CONNECT),
    Failure(Stage.AUTH, "took no key"), Failure(Stage.DEADLINE, "no answer")])
def test_any_other_end_of_a_login_ends_it(end: Failure | None) -> None:
    clock = Clock()
    hung = HungLogins(5.0, clock)
    hung.saw(NODE, reply(HUNG))
    hung.saw(NODE, reply(end))
    assert hung.resting([NODE]) == {}
    assert hung.names == frozenset()


@pytest.mark.parametrize("stage", [Stage.AUTH, Stage.LOGIN, Stage.BECOME, Stage.PYTHON])
def test_every_stage_that_leaves_a_process_there_counts_even_where_the_sweep_cut_it_short(
    stage: Stage,
) -> None:
    hung = HungLogins(5.0, Clock())
    hung.saw(NODE, reply(Failure(Stage.DEADLINE, "the sweep's 3 s were over", stage)))
    (left_alone,) = hung.resting([NODE]).values()
    assert left_alone.failure is not None
    assert left_alone.failure.stage is stage


def test_a_node_that_has_another_entry_is_forgotten() -> None:
    hung = HungLogins(5.0, Clock())
    hung.saw(NODE, reply(HUNG))
    assert hung.resting([Node("gpu007", address="10.1.0.7"), Node("gpu008")]) == {}
    assert hung.resting([NODE]) == {}


def test_a_run_that_does_not_ask_for_a_node_forgets_nothing_of_it() -> None:
    """One sweep may be several runs: --via slurm sends nodes over SSH as it comes to know of them."""
    hung = HungLogins(5.0, Clock())
    hung.saw(NODE, reply(HUNG))
    assert hung.resting([Node("gpu008")]) == {}
    assert hung.resting([NODE]).keys() == {NODE.name}
