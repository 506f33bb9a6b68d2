"""Who is chosen for a screening: never a node that is taken, never more than the budget, the longest unproven
first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.burnin.model import Participant
from healthcheck.burnin.stages import BurnInWork
from provisioning.burnin.ramp import PowerLimits
from provisioning.burnin.screening import Candidate, ScreeningBudget, choose, seconds

NOW, DAY, DAYS = 1_800_000_000.0, 86400.0, 7.0
WIDE = ScreeningBudget(100, 1000.0, PowerLimits(), 180.0)


def candidate(
    number: int, *, age: float | None = None, tried: float | None = None, refused: str = "",
    leaf: str = "leaf1", watts: float | None = 10_000.0, power: str | None = None,
) -> Candidate:
    """A node that was proven so many days ago (None: never)."""
    place = Participant(f"n{number:02}", 8, leaf=leaf, watts=watts, power=power)
    return Candidate(place.node, place, None if age is None else NOW - age * DAY,
                     None if tried is None else NOW - tried * DAY, refused)


def chosen(*candidates: Candidate, budget: ScreeningBudget = WIDE, **more: Any) -> tuple[str, ...]:
    return choose(candidates, budget, NOW, DAYS, **more).chosen


AGES = st.one_of(st.none(), st.floats(0, 100))
NODES = st.builds(lambda age, tried, refused, leaf, watts, power: {
    "age": age, "tried": tried, "refused": refused, "leaf": leaf, "watts": watts, "power": power},
    AGES, AGES, st.sampled_from(["", "", "", "job 7 is on it"]), st.sampled_from(["leaf1", "leaf2", "leaf3"]),
    st.sampled_from([None, 5_000.0, 10_000.0]), st.sampled_from([None, "p1", "p2"]))
BUDGETS = st.builds(ScreeningBudget, st.integers(1, 12), st.floats(0, 1.0),
                    st.builds(PowerLimits, st.one_of(st.none(), st.floats(1, 80)),
                              st.one_of(st.none(), st.floats(1, 40))), st.floats(60, 600))


def order(one: Candidate) -> float:
    return max(one.proven or 0.0, one.tried or 0.0)


@given(st.lists(NODES, max_size=14), BUDGETS)
def test_whoever_is_there_no_budget_is_exceeded_no_taken_node_is_chosen_and_the_longest_unproven_goes_first(
        nodes: list[Mapping[str, Any]], budget: ScreeningBudget) -> None:
    there = [candidate(number, **one) for number, one in enumerate(nodes)]
    by_name = {one.node: one for one in there}
    choice = choose(there, budget, NOW, DAYS)
    places = [place for name in choice.chosen if (place := by_name[name].place) is not None]
    # Each node is chosen once, or left with a reason.
    assert len(choice.chosen) == len(set(choice.chosen))
    assert {*choice.chosen, *choice.left} == by_name.keys() and not set(choice.chosen) & choice.left.keys()
    assert all(choice.left.values()) and set(choice.neighbours) <= set(choice.chosen)
    assert not any(by_name[name].refused for name in choice.chosen)
    # The budget.
    assert len(places) <= budget.nodes and len(places) * budget.seconds <= budget.node_hours * 3600
    if budget.power.bounded:
        assert all(place.watts is not None for place in places)
    if budget.power.max_kw is not None:
        assert sum(place.watts or 0.0 for place in places) <= budget.power.max_kw * 1000 + 1e-6
    for domain in {place.power for place in places} if budget.power.domain_kw is not None else ():
        assert sum(place.watts or 0.0 for place in places if place.power == domain) <= (
            budget.power.domain_kw or 0) * 1000 + 1e-6
    # The order, and that no one proven lately is there for its own sake.
    own = [by_name[name] for name in choice.chosen if name not in choice.neighbours]
    assert [order(one) for one in own] == sorted(order(one) for one in own)
    assert all(one.proven is None or NOW - one.proven >= DAYS * DAY for one in own)
    assert all(by_name[name].place.leaf == by_name[choice.neighbours[name]].place.leaf
               for name in choice.neighbours)  # type: ignore[union-attr]
    # Whoever is left out for want of room would not fit beside those who are chosen.
    for name in (name for name, why in choice.left.items() if why.startswith("no room")):
        more = choose([replace(by_name[each], proven=None, tried=None) for each in (*choice.chosen, name)],
                      budget, NOW, DAYS)
        assert len(more.chosen) <= len(choice.chosen)


def test_the_oldest_certificate_or_screening_goes_first_and_the_never_proven_before_all() -> None:
    nodes = (candidate(1, age=8), candidate(2, age=30), candidate(3), candidate(4, age=2),
             candidate(5, age=12, tried=1))
    assert chosen(*nodes) == (
        "n03", "n02", "n01", "n05") and chosen(*nodes, budget=replace(WIDE, nodes=1)) == ("n03",)
    assert choose(nodes, WIDE, NOW, DAYS).left == {"n04": "proven 2.0 days ago, which holds for 7"}


def test_a_node_without_an_idle_neighbour_that_is_due_gets_one_that_is_not() -> None:
    there = (candidate(1, age=9), candidate(2, age=1), candidate(3, age=2), candidate(4, leaf="leaf2"))
    choice = choose(there, WIDE, NOW, DAYS)
    assert choice.chosen == ("n04", "n01", "n03") and choice.neighbours == {"n03": "n01"}
    assert choose(there, replace(WIDE, nodes=2), NOW, DAYS).chosen == ("n04", "n01")


def test_where_a_job_waits_nothing_is_chosen_and_it_is_said_which() -> None:
    choice = choose((candidate(1), candidate(2, refused="it is in rma, not in service")), WIDE, NOW, DAYS,
                    "job 7 waits for 1 node")
    assert choice.chosen == () and choice.left == {"n01": "screening gives way: job 7 waits for 1 node",
                                                   "n02": "it is in rma, not in service"}


def test_a_node_of_which_no_one_says_what_it_draws_is_not_free_of_charge() -> None:
    there = (candidate(1, watts=None), candidate(2))
    assert chosen(*there) == ("n01", "n02")
    choice = choose(there, replace(WIDE, power=PowerLimits(max_kw=50)), NOW, DAYS)
    assert (choice.chosen == ("n02",)
            and choice.left["n01"].startswith("what it draws at most is not known, and power is limited"))


@pytest.mark.parametrize(
    ("budget", "why"),
    [(replace(WIDE, nodes=2), "no room in the budget: at most 2 nodes at a time"),
     (replace(WIDE, node_hours=0.1), "no room in the budget: 0.1 node-hours are left"),
     (replace(WIDE, power=PowerLimits(max_kw=25)),
      "no room in the budget: its nodes draw up to 30.0 kW, and 25 kW are allowed (max_kw)"),
     (replace(WIDE, power=PowerLimits(domain_kw=20)),
      "no room in the budget: its nodes draw up to 30.0 kW, and 20 kW are allowed (domain_kw)")])
def test_whoever_finds_no_room_is_reported_in_which_budget(budget: ScreeningBudget, why: str) -> None:
    choice = choose([candidate(number) for number in (1, 2, 3)], budget, NOW, DAYS)
    assert choice.chosen == ("n01", "n02") and choice.left == {"n03": why}


def test_a_screening_takes_two_to_three_minutes_of_a_node_s_time() -> None:
    one = Participant("n1", 8, leaf="leaf1", watts=10_000.0)
    assert 120 < seconds(
        [one, replace(one, node="n2")], BurnInWork("screen")) < 180 and seconds([], BurnInWork("screen")) == 0


def test_nodes_that_screenings_keep_from_jobs_count_as_nodes_at_a_time() -> None:
    there = [candidate(1), candidate(2), candidate(3)]
    assert chosen(*there, budget=replace(WIDE, nodes=3, held=2)) == ("n01",)
    found = choose(there, replace(WIDE, nodes=2, held=2), NOW, DAYS)
    assert not found.chosen and set(found.left.values()) == {
        "no room in the budget: at most 2 nodes at a time, and screenings keep jobs from 2 already: see "
        "muster cordon"}
