"""Who is next in a step: places in all and per power domain, and domains that take turns."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.model import LifecycleState, Node
from provisioning.bringup.engine.queues import StepQueue
from provisioning.bringup.engine.site import domain_of, unfit, user_of
from provisioning.bringup.engine.stop import Logins, Tally
from tests.provisioning.bringup.scripted import Stop, node, step


def anybody(name: str) -> bool:
    return True


def taken(places: StepQueue, may: Callable[[str], bool] = anybody) -> list[str]:
    found = []
    while (name := places.take(may)) is not None:
        found.append(name)
    return found


def filled(places: StepQueue, *names: str) -> StepQueue:
    for name in names:
        places.add(name, name[0], 1.0, has=False)
    return places


def test_no_more_are_at_it_than_there_are_places_and_the_first_come_first() -> None:
    places = filled(StepQueue(step("bios", in_parallel=2)), "a1", "a2", "b1")
    assert (taken(places), places.length) == (["a1", "a2"], 1)
    places.give("a")
    assert (taken(places), places.since) == (["b1"], None)


def test_of_one_power_domain_no_more_are_at_it_and_domains_take_turns() -> None:
    places = filled(StepQueue(step("boot", domain_at_once=1)), "a1", "a2", "a3", "b1", "c1")
    assert taken(places) == ["a1", "b1", "c1"]
    places.give("a")
    assert taken(places) == ["a2"]


def test_who_has_a_place_waits_for_none() -> None:
    places = filled(StepQueue(step("boot", in_parallel=1)), "a1", "a2")
    assert taken(places) == ["a1"]
    places.add("a1", "a", 5.0, has=True)
    assert (taken(places), places.used) == (["a1"], 1)


def test_who_may_not_begin_stays_in_the_queue_and_keeps_no_one_out() -> None:
    places = filled(StepQueue(step("bios")), "a1", "a2", "b1")
    assert taken(places, lambda name: name != "a1") == ["a2", "b1"]
    assert (places.length, places.since) == (1, 1.0)
    places.remove("a1", "a")
    places.remove("a1", "a")
    assert (places.length, places.since, taken(places)) == (0, None, [])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60), st.integers(1, 5),
       st.integers(1, 3))
def test_everybody_gets_a_place_once_and_bounds_hold(
    moves: list[tuple[str, bool]], most: int, of_domain: int,
) -> None:
    places = StepQueue(step("boot", in_parallel=most, domain_at_once=of_domain))
    inside: list[str] = []
    seen: list[str] = []
    for number, (domain, leaves) in enumerate(moves):
        filled(places, f"{domain}{number}")
        if leaves and inside:
            places.give(inside.pop(0)[0])
        new = taken(places)
        inside += new
        seen += new
        assert len(
            inside) <= most and all(sum(name[0] == one for name in inside) <= of_domain for one in "abc")
    while inside:
        places.give(inside.pop(0)[0])
        new = taken(places)
        inside += new
        seen += new
    assert sorted(seen) == sorted(
        f"{domain}{number}" for number, (domain, _) in enumerate(moves)) and places.used == 0


@pytest.mark.parametrize(("one", "domain"), [
    (node("n1", "pdu3", rack="r1"), "power pdu3"), (node("n1", rack="r1"), "rack r1"), (node("n1"), "")])
def test_the_power_domain_is_the_inventorys_else_the_rack_and_unknown_ones_share_one(
    one: Node, domain: str,
) -> None:
    assert domain_of(one) == domain


def test_only_planned_and_bringup_go_the_way_and_one_that_is_in_service_by_its_last_step() -> None:
    assert [state for state in LifecycleState if not unfit(node("n1", state=state), None, "service")] == [
        LifecycleState.PLANNED, LifecycleState.BRINGUP]
    served = node("n1", state=LifecycleState.SERVICE)
    assert unfit(served, "service", "service") == ""
    assert "muster inventory lifecycle n1 bringup" in unfit(served, "bios", "service")


def test_a_step_is_halted_when_more_than_the_share_and_enough_machines_met_its_trouble() -> None:
    tally, bounds = Tally(), Stop(share=0.5, least=3)
    tally.stuck["bios"], tally.passed["bios"] = 2, 0
    assert tally.halted("bios", bounds) == ""
    tally.stuck["bios"] = 3
    assert tally.halted("bios", bounds).startswith(
        "3 of 3 machines are in trouble in bios: that does not look like the machines' fault")
    tally.passed["bios"] = 3
    assert tally.halted("bios", bounds) == "" == tally.halted("boot", bounds)


def test_until_a_login_was_accepted_no_more_are_tried_than_may_be_refused() -> None:
    logins, bounds = Logins(), Stop(refused_logins=3)
    logins.trying["root"] = 2
    assert logins.may("root", bounds)
    logins.refused["root"] = 1
    assert not logins.may(
        "root", bounds) and logins.may("admin", bounds) and logins.halted("root", bounds) == ""
    logins.refused["root"] = 3
    assert logins.halted("root", bounds).startswith("3 controllers refused the login and none accepted it")
    logins.accepted.add("root")
    assert logins.may("root", bounds) and logins.halted("root", bounds) == ""
    assert user_of(node("n1", user="root")) == "root"
