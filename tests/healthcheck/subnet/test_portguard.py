"""Which ports may be disabled: never a host's last link, never below a leaf's uplinks, whatever the order;
and no switch is cut off."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from healthcheck.subnet.model import FabricEnd, LinkState, Subnet
from healthcheck.subnet.portguard import UplinkFloor, allowed, proposed, switch_end
from healthcheck.subnet.routes import direct_route
from tests.healthcheck.subnet.trees import Tree, host, leaf, spine

TREE = Tree(3, 2, 2, 2)
TWO_PORTS = {host(0): "gpu1", host(2): "gpu1"}      # one host, at two leaves
ONE = UplinkFloor(1)


def fabric() -> Subnet:
    return TREE.by_destination()


def with_state(subnet: Subnet, end: FabricEnd, state: LinkState | None) -> Subnet:
    device = subnet.devices[end.guid]
    ports = {**device.ports, end.number: replace(device.ports[end.number], state=state)}
    return replace(subnet, devices={**subnet.devices, end.guid: replace(device, ports=ports)})


def test_the_last_link_of_a_host_is_refused_and_one_of_two_is_not() -> None:
    found = proposed(fabric(), {FabricEnd(leaf(0), 2): "BER", FabricEnd(leaf(0), 1): "BER"}, TWO_PORTS, ONE)
    assert (found[0].refused
            == f"it is the last link of {host(1).lstrip('0')}, as far as is known: no snapshot states this "
               f"adapter's GUID")
    assert found[1].refused == "" and found[1].hosts == ("gpu1",) and found[1].reason == "BER"
    assert found[1].lost == "a link of gpu1: 1 of its 2 working links are left (400 of 800 Gb/s)"


def test_a_host_s_port_is_disabled_at_its_switch_and_never_at_the_adapter() -> None:
    subnet = fabric()
    assert switch_end(subnet, FabricEnd(host(0), 1)) == FabricEnd(leaf(0), 1)
    assert switch_end(subnet, FabricEnd(leaf(0), 3)) == FabricEnd(leaf(0), 3)
    (found,) = proposed(subnet, {FabricEnd(host(0), 1): "x"}, TWO_PORTS, ONE)
    assert found.refused == "it is an adapter's, which could not be reached to enable it again"


def test_of_two_links_of_a_host_only_the_first_may_go() -> None:
    found = proposed(fabric(), {FabricEnd(leaf(0), 1): "a", FabricEnd(leaf(1), 1): "b"}, TWO_PORTS, ONE)
    assert [each.refused for each in found] == ["", "it is the last link of gpu1"]


def test_a_leaf_keeps_the_uplinks_of_the_policy_also_where_the_spine_s_end_is_named() -> None:
    wanted = {FabricEnd(leaf(0), 3): "x", FabricEnd(spine(0), 2): "x", FabricEnd(leaf(0), 5): "x"}
    found = proposed(fabric(), wanted, {}, UplinkFloor(3))
    assert [bool(each.refused) for each in found] == [False, True, True]
    assert found[1].refused == "200 would keep 2 uplinks, and the policy asks for 3"
    assert (len(allowed(found)) == 1
            and "3 of its 4 working uplinks are left (1200 of 1600 Gb/s)" in found[0].lost)


def test_a_share_is_of_what_a_leaf_is_cabled_with_and_not_of_what_is_left() -> None:
    wanted = {FabricEnd(leaf(0), 3): "x"}
    assert proposed(fabric(), wanted, {}, UplinkFloor(1, 75))[0].refused == ""
    (found,) = proposed(fabric(), wanted, {}, UplinkFloor(1, 75, {leaf(0): 5}))
    assert found.refused == "200 would keep 3 uplinks, and the policy asks for 4"


def test_the_one_cable_between_two_switches_stays() -> None:
    lone = Tree(2, 2, 1, 1).by_destination()
    (found,) = proposed(lone, {FabricEnd(leaf(0), 3): "x"}, {}, UplinkFloor(0))
    assert found.refused == "100 and 200 would be cut off from each other"


def test_a_link_that_is_down_or_of_unknown_state_does_not_stand_in_for_another() -> None:
    for state in (LinkState.DOWN, None, LinkState.INITIALIZE):
        found = proposed(with_state(fabric(), FabricEnd(host(2), 1), state), {FabricEnd(leaf(0), 1): "x"},
                         TWO_PORTS, ONE)
        assert found[0].refused == "it is the last link of gpu1"


def test_a_port_not_seen_or_disabled_or_to_nowhere_known_is_refused_and_so_is_a_partial_subnet() -> None:
    subnet = fabric()
    device = subnet.devices[leaf(1)]
    ports = {3: replace(device.ports[3], peer=None), 4: replace(device.ports[4], physical="disabled")}
    blind = replace(subnet, devices={**subnet.devices, leaf(1): replace(device, ports=ports)})
    found = proposed(blind, {FabricEnd(leaf(1), at): "x" for at in (99, 3, 4)}, {}, UplinkFloor(0))
    assert (found[0].refused == "this port was not seen"
            and found[1].refused.startswith("what it leads to is not known"))
    assert found[2].refused == "it is disabled already, and not by this"
    assert proposed(replace(subnet, partial=True), {FabricEnd(leaf(0), 3): "x"}, {},
                    ONE)[0].refused == "the subnet was read in part"


@given(st.permutations(sorted(end for device in fabric().devices.values()
                              for end in (port.end for port in device.ports.values()))), st.integers(0, 4))
def test_whatever_is_wanted_in_whatever_order_every_host_and_leaf_keeps_its_own(order: list[FabricEnd],
                                                                                least: int) -> None:
    subnet = fabric()
    wanted = {switch_end(subnet, end): "x" for end in order}
    gone = {end for each in allowed(proposed(subnet, wanted, TWO_PORTS, UplinkFloor(least)))
            for end in (each.end, each.peer)}
    kept = {(at, number) for at in range(TREE.leaves)
            for number in range(3, 7) if FabricEnd(leaf(at), number) not in gone}
    for at in range(TREE.leaves):
        assert len([number for one, number in kept if one == at]) >= max(least, 1)
    left = [at for at in range(6) if FabricEnd(host(at), 1) not in gone]
    assert {1, 3, 4, 5} <= set(left) and {0, 2} & set(left)
    met, ahead = {0}, [0]       # every leaf reaches every other, by way of spines
    while ahead:
        spines = {(number - 3) // 2 for at, number in kept if at == ahead[-1]}
        ahead.pop()
        for at in {at for at, number in kept if (number - 3) // 2 in spines} - met:
            met.add(at)
            ahead.append(at)
    assert met == {0, 1, 2}


def test_a_directed_route_is_the_shortest_and_does_not_use_the_link_that_is_to_go() -> None:
    subnet = fabric()
    own = FabricEnd(host(0), 1)
    assert direct_route(subnet, own, host(0)) == (0,) and direct_route(subnet, own, leaf(0)) == (0, 1)
    assert direct_route(subnet, own, leaf(1)) == (0, 1, 3, 3)
    assert direct_route(subnet, own, spine(0), FabricEnd(spine(0), 1)) == (0, 1, 4)
    assert direct_route(subnet, own, leaf(0),
                        FabricEnd(leaf(0), 1)) is None and direct_route(subnet, own, "f" * 16) is None


def test_both_ends_of_one_cable_are_one_disable() -> None:
    end = FabricEnd(leaf(0), 3)
    port = fabric().port(end)
    assert port is not None and port.peer is not None
    found = proposed(fabric(), {end: "x", port.peer: "x"}, {}, ONE)
    assert [each.refused for each in found] == ["", "the other end of its cable is to be disabled"]
