"""The deadline of a sweep: plain arithmetic of its nodes, the fan-out and their limits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.model import Node, StageLimits
from inventory.transport.base import Failure, Limits, Stage
from inventory.transport.deadline import announced, bounded, deadline, second_tries, width

SWEEP = Limits(fanout=64, program_s=50.0)
ONE = 2 * 10 + 20 + 15 + 45 + 5      # connect twice, auth, login, the program, its return


def fleet(number: int, **limits: float) -> list[Node]:
    return [Node(f"n{at:05}", limits=StageLimits(**limits)) for at in range(number)]


@pytest.mark.parametrize(("number", "rounds"), [(1, 1), (64, 1), (65, 2), (5_100, 80), (10_000, 157)])
def test_it_grows_with_the_fleet_by_rounds_of_the_fan_out_and_one_more_for_second_tries(
    number: int, rounds: int,
) -> None:
    assert deadline(fleet(number), SWEEP) == (rounds + 1) * ONE


@pytest.mark.parametrize(("limits", "longer"), [
    ({"connect": 30.0}, 2 * 20), ({"auth": 60.0}, 40), ({"login": 60.0}, 45), ({"node": 90.0}, 45),
    ({"connect": 1.0, "auth": 1.0, "login": 1.0, "node": 5.0}, -(18 + 19 + 14 + 40))])
def test_it_follows_every_limit(limits: dict[str, float], longer: float) -> None:
    assert deadline(fleet(64, **limits), SWEEP) == 2 * (ONE + longer)


def test_one_slow_node_costs_its_round_and_not_every_round() -> None:
    nodes = [*fleet(6_400), Node("slow", limits=StageLimits(login=615.0))]
    assert deadline(nodes, SWEEP) == 100 * ONE + 2 * (ONE + 600)


def test_a_jump_host_that_the_inventory_names_adds_a_login() -> None:
    direct, through = Node("n1", proxy_jump="none"), Node("n2", proxy_jump="b1,admin@b2:2222")
    assert deadline([direct], SWEEP) == 2 * ONE
    assert deadline([through], SWEEP) == 2 * (ONE + 2 * (2 * 10 + 20))


def test_a_timeout_on_the_command_line_is_the_deadline_whatever_the_limits_say() -> None:
    assert bounded(fleet(10_000), SWEEP, 33.0).sweep_s == 33.0
    assert bounded(fleet(10_000), SWEEP, None).sweep_s == 158 * ONE


def test_a_program_with_a_time_of_its_own_is_never_cut_by_a_limit_and_may_be_given_more() -> None:
    installing = Limits(node_s=120.0)
    assert installing.of(Node("n", limits=StageLimits(node=5.0))).node_s == 120.0
    assert installing.of(Node("n", limits=StageLimits(node=300.0))).node_s == 2 * 10 + 20 + 15 + 305
    assert installing.of(Node("n", limits=StageLimits(login=75.0))).node_s == 180.0


def test_patience_stretches_what_comes_before_the_program_and_nodes_own_limits_too() -> None:
    patient = Limits(node_s=7 * 86400.0, patience=3.0)
    assert patient.of(Node("n")).login_s == 45.0
    assert patient.of(Node("n", limits=StageLimits(login=60.0))).login_s == 180.0
    assert patient.of(Node("n")).patience == 1.0


@pytest.mark.parametrize(("cores", "nodes"), [(1, 64), (2, 64), (4, 128), (8, 256), (64, 256)])
def test_the_fan_out_follows_the_cores_within_bounds(cores: int, nodes: int) -> None:
    assert width(cores) == nodes


def test_the_line_at_the_start_says_how_wide_and_how_long_and_where_that_is_from() -> None:
    limits = bounded(fleet(10_000), Limits(fanout=64, program_s=50.0, logins=16), None)
    assert announced(10_000, limits, None) == (
        "10000 nodes, 64 at a time, 16 of them logging in; deadline 4 h 36 min (by nodes, fan-out and "
        "limits; --timeout sets another)")
    assert announced(1, bounded(fleet(1), SWEEP, 90.0), 90.0) == (
        "1 node, 1 at a time, 1 of them logging in; deadline 1 min 30 s (--timeout)")


def test_second_tries_are_told_by_the_stage_at_which_the_first_was_stuck() -> None:
    late = Failure(Stage.LOGIN, "logged in, but no more")
    lines = second_tries({"n2": late, "n1": late, "n9": Failure(Stage.CONNECT, "n9:22 sent nothing")})
    assert lines == ("reached by a second try, after the first was stuck at login: n[1-2] (logged in, but no "
                     "more)", "reached by a second try, after the first was stuck at connect: n9 (n9:22 sent "
                     "nothing)")


@settings(deadline=None)     # a busy machine is slow
@given(st.lists(st.tuples(st.floats(1, 3600), st.floats(1, 3600)), min_size=1, max_size=80),
       st.integers(1, 32))
def test_nodes_that_take_all_they_may_in_any_order_and_twice_over_at_the_end_are_done_by_then(
    given_: list[tuple[float, float]], fanout: int,
) -> None:
    nodes = [Node(f"n{at}", limits=StageLimits(login=login, node=node))
             for at, (login, node) in enumerate(given_)]
    limits = Limits(fanout=fanout, program_s=50.0)
    workers = [0.0] * fanout
    for node in nodes:
        workers.sort()
        workers[0] += limits.of(node).node_s
    assert max(workers) <= deadline(nodes, limits) + 1e-6
