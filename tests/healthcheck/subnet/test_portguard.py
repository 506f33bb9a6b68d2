"""Which ports may be disabled: never a host's last link, never below a leaf's uplinks, whatever the order."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from healthcheck.subnet.model import FabricEnd, LinkState, Subnet
from healthcheck.subnet.portguard import allowed, proposed
from tests.healthcheck.subnet.trees import Tree, host, leaf, spine

TREE = Tree(3, 2, 2, 2)
TWO_PORTS = {host(0): "gpu1", host(2): "gpu1"}      # one host, at two leaves


def fabric() -> Subnet:
    return TREE.by_destination()


def with_state(subnet: Subnet, end: FabricEnd, state: LinkState | None) -> Subnet:
    device = subnet.devices[end.guid]
    ports = {**device.ports, end.number: replace(device.ports[end.number], state=state)}
    return replace(subnet, devices={**subnet.devices, end.guid: replace(device, ports=ports)})


def test_the_last_link_of_a_host_is_refused_from_either_end_and_one_of_two_is_not() -> None:
    found = proposed(fabric(), {FabricEnd(host(1), 1): "BER", FabricEnd(leaf(0), 2): "BER", FabricEnd(host(0), 1): "BER"}, TWO_PORTS, 1)
    assert [each.refused for each in found] == [f"it is the last link of {host(1)}"] * 2 + [""]
    assert found[2].peer == FabricEnd(leaf(0), 1) and found[2].lost == "a link of gpu1: 1 of its 2 working links are left"
    assert found[2].reason == "BER"


def test_of_two_links_of_a_host_only_the_first_may_go() -> None:
    found = proposed(fabric(), {FabricEnd(host(0), 1): "a", FabricEnd(host(2), 1): "b"}, TWO_PORTS, 1)
    assert [each.refused for each in found] == ["", "it is the last link of gpu1"]


def test_a_leaf_keeps_the_uplinks_of_the_policy_also_where_the_spine_s_end_is_named() -> None:
    wanted = {FabricEnd(leaf(0), 3): "x", FabricEnd(spine(0), 2): "x", FabricEnd(leaf(0), 5): "x"}
    found = proposed(fabric(), wanted, {}, 3)
    assert [bool(each.refused) for each in found] == [False, True, True]
    assert found[1].refused == "200 would keep 2 uplinks, and the policy asks for 3"
    assert len(allowed(found)) == 1 and "3 of its 4 working uplinks are left" in found[0].lost


def test_a_link_that_is_down_or_of_unknown_state_does_not_stand_in_for_another() -> None:
    for state in (LinkState.DOWN, None, LinkState.INITIALIZE):
        found = proposed(with_state(fabric(), FabricEnd(host(2), 1), state), {FabricEnd(host(0), 1): "x"}, TWO_PORTS, 1)
        assert found[0].refused == "it is the last link of gpu1"


def test_a_port_that_was_not_seen_and_one_that_leads_nowhere_known_are_refused_and_so_is_all_of_a_partial_subnet() -> None:
    subnet = fabric()
    device = subnet.devices[leaf(1)]
    blind = replace(subnet, devices={**subnet.devices, leaf(1): replace(device, ports={3: replace(device.ports[3], peer=None)})})
    found = proposed(blind, {FabricEnd(leaf(1), 99): "x", FabricEnd(leaf(1), 3): "x"}, {}, 0)
    assert found[0].refused == "this port was not seen" and found[1].refused.startswith("what it leads to is not known")
    part = proposed(replace(subnet, partial=True), {FabricEnd(leaf(0), 3): "x"}, {}, 0)
    assert part[0].refused == "the subnet was read in part"


@given(st.permutations(sorted(end for device in fabric().devices.values() for end in (port.end for port in device.ports.values()))), st.integers(0, 4))
def test_whatever_is_wanted_in_whatever_order_every_host_and_leaf_keeps_its_own(order: list[FabricEnd], least: int) -> None:
    subnet = fabric()
    gone = {end for each in allowed(proposed(subnet, dict.fromkeys(order, "x"), TWO_PORTS, least)) for end in (each.end, each.peer)}
    for at in range(TREE.leaves):
        assert len([number for number in range(3, 7) if FabricEnd(leaf(at), number) not in gone]) >= least
    left = [at for at in range(6) if FabricEnd(host(at), 1) not in gone]
    assert {1, 3, 4, 5} <= set(left) and {0, 2} & set(left)
