"""Plans of link burns: few rounds that load every link, recounted by other means."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.subnet.burnplan import BurnPair, LinkBurnPlan, plan
from healthcheck.subnet.burnways import BurnPort, BurnWays
from healthcheck.subnet.model import FabricEnd, FabricLink, LinkState, Subnet
from healthcheck.subnet.routes import EvenRoutes, TableRoutes
from tests.healthcheck.subnet import recount
from tests.healthcheck.subnet.trees import Tree, host, leaf, spine
from tests.tries import tries

trees = st.builds(Tree, st.integers(2, 4), st.integers(1, 4), st.integers(1, 3), st.integers(1, 2))


def burn(subnet: Subnet, ports: tuple[BurnPort, ...], share: float = 0.9, *,
         even: bool = False) -> LinkBurnPlan:
    return plan(BurnWays(subnet, EvenRoutes(subnet) if even else TableRoutes(subnet), ports), share)


def holds(found: LinkBurnPlan, subnet: Subnet, *, even: bool = False) -> None:
    """No port is in two pairs of a round, no channel carries more than it can, and what is said to be covered
    is, each way."""
    count = recount.by_even_spread if even else recount.by_tables
    rounds = [count(subnet, pairs) for pairs in found.rounds]
    for pairs, loads in zip(found.rounds, rounds, strict=True):
        used = Counter(port.end for pair in pairs for port in (pair.a, pair.b))
        assert set(used.values()) == {1} and all(pair.a.node != pair.b.node for pair in pairs)
        assert all(load <= recount.rate(subnet, end) * 1.0001 for end, load in loads.items())
    best = recount.best_shares(subnet, rounds)
    assert {end: share
            for end, share in best.items() if abs(share - found.expected.get(end, 0.0)) > 1e-4} == {}
    left = {each.link for each in found.uncovered}
    assert {link for link in subnet.links if min(best[link.a], best[link.b]) < found.share - 1e-4} == left


@settings(deadline=None, max_examples=tries(20))
@given(trees, st.integers(0, 99), st.sampled_from([0.5, 0.9, 1.0]))
def test_a_recount_of_the_tables_finds_what_the_plan_says_of_random_routes(tree: Tree, seed: int,
                                                                           share: float) -> None:
    subnet = tree.at_random(seed)
    holds(burn(subnet, tree.ports(), share), subnet)


@settings(deadline=None, max_examples=tries(10))
@given(trees, st.sampled_from([0.3, 0.9]))
def test_a_recount_of_every_shortest_way_finds_what_the_plan_says_of_adaptive_routes(tree: Tree,
                                                                                     share: float) -> None:
    subnet = tree.by_destination()
    found = burn(subnet, tree.ports(), share, even=True)
    assert found.modelled
    holds(found, subnet, even=True)


@settings(deadline=None, max_examples=tries(20))
@given(trees, st.integers(0, 99))
def test_a_link_that_some_pair_loads_alone_is_never_left_out(tree: Tree, seed: int) -> None:
    subnet, ports = tree.at_random(seed), tree.ports()
    found = burn(subnet, ports)
    left = {each.link for each in found.uncovered}
    for one in ports:
        for other in ports:
            if one.node < other.node:
                loads = recount.by_tables(subnet, [BurnPair(one, other, 400.0)])
                both = {link for link in subnet.links
                        if {link.a, link.b} <= {end for end, load in loads.items() if load == 400.0}}
                assert not both & left


def test_a_well_routed_tree_needs_one_round() -> None:
    tree = Tree(8, 4, 4)
    subnet = tree.by_destination()
    found = burn(subnet, tree.ports())
    assert len(found.rounds) == 1 and found.pairs == 16 and not found.uncovered


def test_hosts_of_half_the_uplinks_rate_load_them_two_at_a_time() -> None:
    tree = Tree(2, 4, 2)
    subnet = tree.subnet(lambda _, to: to % 2, lambda _, to: 0, speed="HDR", up_speed="NDR")
    found = burn(subnet, tree.ports())
    assert len(found.rounds) == 1 and not found.uncovered
    holds(found, subnet)


def test_a_spine_that_no_route_uses_is_named_with_every_link_to_it() -> None:
    tree = Tree(3, 2, 2)
    subnet = tree.subnet(lambda _, __: 0, lambda _, __: 0)
    found = burn(subnet, tree.ports())
    unused = {FabricLink.of(FabricEnd(leaf(at), 4), FabricEnd(spine(1), at + 1)) for at in range(3)}
    assert {each.link for each in found.uncovered} == unused
    assert all("no way of any pair leads through 1" in each.why
               or "no way of any pair leads through 2" in each.why
               for each in found.uncovered)


def test_a_link_faster_than_all_its_hosts_is_left_with_what_it_gets_at_most() -> None:
    tree = Tree(2, 1, 1)
    subnet = tree.subnet(lambda _, __: 0, lambda _, __: 0, speed="HDR", up_speed="NDR")
    found = burn(subnet, tree.ports())
    assert len(found.uncovered) == 2 and all("50 % at most" in each.why
                                             for each in found.uncovered), found.uncovered


def test_what_is_down_unknown_or_takes_no_part_is_named_and_nothing_is_planned_over_it() -> None:
    tree = Tree(2, 2, 2)
    subnet = tree.by_destination()
    ports = [port for port in tree.ports() if port.node != "n001"]
    devices = dict(subnet.devices)
    cut = devices[leaf(1)]
    devices[leaf(1)] = replace(cut, ports={**cut.ports, 4: replace(cut.ports[4], state=LinkState.DOWN)})
    sick = devices[spine(0)]
    devices[spine(0)] = replace(sick, ports={**sick.ports, 1: replace(sick.ports[1], speed=None)})
    found = burn(replace(subnet, devices=devices), tuple(ports))
    why = {each.why for each in found.uncovered}
    assert why >= {"201 port 4 is down", "the rate of 100 port 1 is not known",
                   "1001 port 1 takes no part"}, why
    over = {end for pairs in found.rounds for end in recount.by_tables(subnet, pairs)}
    assert not over & {FabricEnd(leaf(1), 4), FabricEnd(spine(0), 1), FabricEnd(host(1), 1)}


def test_two_ports_of_one_node_are_no_pair() -> None:
    tree = Tree(1, 2, 1)
    ports = tuple(replace(port, node="n") for port in tree.ports())
    found = burn(tree.by_destination(), ports)
    assert found.rounds == () and len(found.uncovered) == 3


@pytest.mark.parametrize("share", [0.0, 1.01, -1.0])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="expected more than 0"):
        burn(Tree(2, 2, 1).by_destination(), (), share)


@pytest.mark.slow
def test_512_hosts_and_64_switches_are_planned_within_30_seconds() -> None:
    tree = Tree(32, 16, 32)
    subnet, ports = tree.at_random(1), tree.ports()
    began = time.process_time()
    found = burn(subnet, ports)
    assert time.process_time() - began < 30 and len(found.rounds) <= 4
    holds(found, subnet)
