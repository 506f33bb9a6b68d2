"""Restarts of hosts and switches are told apart from faults of links, by topology and time."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.subnet.linkhistory import DeviceEvent, LinkEvent, history
from healthcheck.subnet.model import FabricEnd, FabricLink
from tests.healthcheck.subnet.trees import Tree, host, leaf, spine

TREE = Tree(2, 2, 2)
SUBNET = TREE.by_destination()
OWNERS = {host(0): "gpu1", host(2): "gpu1", host(1): "gpu2", host(3): "gpu2"}
GPU1 = (FabricEnd(leaf(0), 1), FabricEnd(leaf(1), 1))
LINKS = {end: FabricLink.of(end, SUBNET.devices[end.guid].ports[end.number].peer) for end in GPU1
         }  # type: ignore[arg-type]


def bounce(end: FabricEnd, down: float, up: float | None) -> list[LinkEvent]:
    return [LinkEvent(down, end, False), *([LinkEvent(up, end, True)] if up is not None else [])]


def test_all_ports_of_a_host_down_within_seconds_and_back_are_its_restart_and_no_fault() -> None:
    found = history(SUBNET, bounce(GPU1[0], 100, 400) + bounce(GPU1[1], 103, 420), OWNERS)
    assert not found.outages and [(each.who, each.began, each.ended)
                                  for each in found.restarts] == [("gpu1", 100, 420)]
    assert set(found.restarts[0].links) == set(LINKS.values())


def test_one_port_of_a_host_alone_is_a_fault() -> None:
    found = history(SUBNET, bounce(GPU1[0], 100, 101), OWNERS)
    assert not found.restarts and [(each.link, each.began, each.ended)
                                   for each in found.outages] == [(LINKS[GPU1[0]], 100, 101)]


@pytest.mark.parametrize(("events", "restarts", "outages"), [
    # ports that go down apart in time, or do not all come back
    (bounce(GPU1[0], 100, 400) + bounce(GPU1[1], 200, 420), 0, [100, 200]),
    (bounce(GPU1[0], 100, 400) + bounce(GPU1[1], 103, None), 0, [100, 103]),
    (bounce(GPU1[0], 100, 400) + bounce(GPU1[1], 103, 9000), 0, [100, 103]),
    # both ends of a link tell of one outage
    (bounce(FabricEnd(leaf(0), 3), 10, 20) + bounce(FabricEnd(spine(0), 1), 10.5, 21), 0, [10]),
    # a flap beside a restart stays a fault
    (bounce(GPU1[0], 100, 400) + bounce(GPU1[1], 103, 420) + bounce(GPU1[0], 5000, 5001), 1, [5000])])
def test_what_is_no_restart_is_a_fault(events: list[LinkEvent], restarts: int, outages: list[float]) -> None:
    found = history(SUBNET, events, OWNERS)
    assert (len(found.restarts), sorted(each.began for each in found.outages)) == (restarts, outages)


def test_a_host_with_one_link_is_not_said_to_have_restarted() -> None:
    assert not history(SUBNET, bounce(GPU1[0], 100, 400), {}).restarts


def test_a_switch_that_restarts_takes_its_hosts_links_along_and_no_host_is_said_to_have_restarted() -> None:
    ends = [FabricEnd(leaf(0), number) for number in range(1, 5)]
    found = history(SUBNET, [event for at,
                             end in enumerate(ends) for event in bounce(end, 50 + at, 200 + at)], OWNERS)
    assert [each.who for each in found.restarts] == [leaf(0)] and not found.outages


def test_a_switch_that_leaves_and_comes_back_takes_its_links_along() -> None:
    found = history(SUBNET, [], OWNERS, [DeviceEvent(10, leaf(0), False), DeviceEvent(200, leaf(0), True)])
    assert [(each.who, each.began, each.ended)
            for each in found.restarts] == [(leaf(0), 10, 200)] and not found.outages


def test_a_device_that_is_back_does_not_end_what_its_link_itself_reported() -> None:
    found = history(SUBNET, bounce(GPU1[0], 10, None), OWNERS,
                    [DeviceEvent(10, leaf(0), False), DeviceEvent(200, leaf(0), True)])
    ends = {each.link: each.ended for each in found.outages}
    assert not found.restarts and ends.pop(LINKS[GPU1[0]]) is None and set(ends.values()) == {200}


def test_a_link_that_the_subnet_no_longer_shows_is_known_by_its_event() -> None:
    one, other = FabricEnd(leaf(0), 40), FabricEnd(spine(1), 40)
    found = history(SUBNET,
                    [LinkEvent(5, one, False, other), LinkEvent(6, FabricEnd(leaf(0), 41), False)], OWNERS)
    assert [(each.link, each.ended) for each in found.outages] == [(FabricLink.of(one, other), None)]


def test_an_adapter_whose_port_an_event_numbers_differently_is_known_by_its_switch() -> None:
    found = history(SUBNET, [LinkEvent(5, FabricEnd(host(0), 2), False, GPU1[0])], OWNERS)
    assert [each.link for each in found.outages] == [LINKS[GPU1[0]]]


@given(st.lists(st.tuples(st.sampled_from(sorted(end for link in SUBNET.links for end in (link.a, link.b))),
                          st.floats(0, 1e5), st.booleans()), max_size=30),
       st.integers(0, 9))
def test_the_order_in_which_events_arrive_does_not_matter_and_no_outage_is_lost(
        rows: list[tuple[FabricEnd, float, bool]], seed: int) -> None:
    events = [LinkEvent(at, end, up) for end, at, up in rows]
    mixed = list(events)
    random.Random(seed).shuffle(mixed)
    found = history(SUBNET, events, OWNERS)
    assert found == history(SUBNET, mixed, OWNERS)
    told = {link for each in found.restarts for link in each.links} | {each.link for each in found.outages}
    assert told == {link for link in SUBNET.links
                    if any(event.end in (link.a, link.b) and not event.up for event in events)}
