"""Whom a link burn accuses: planted slow links are named, and where others explain as well, no one is."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.subnet.burnplan import BurnPair, plan
from healthcheck.subnet.burnverdict import BurnTest, BurnVerdict, LinkSuspects, carried
from healthcheck.subnet.burnways import BurnWays
from healthcheck.subnet.model import FabricEnd, FabricLink, Subnet
from healthcheck.subnet.routes import TableRoutes
from tests.healthcheck.subnet import recount
from tests.healthcheck.subnet.trees import Tree, host, leaf, spine
from tests.tries import tries


def ran(subnet: Subnet, pairs: tuple[BurnPair, ...], bad: set[FabricEnd], began: int) -> list[BurnTest]:
    """A world in which a pair is slow that sends over a bad channel."""
    return [BurnTest(f"t{began + at:03}", pair.a, pair.b,
                     bool(bad & recount.by_tables(subnet, [pair]).keys()))
            for at, pair in enumerate(pairs)]


def burnt(tree: Tree, subnet: Subnet, bad: set[FabricEnd], rounds: int = 4) -> BurnVerdict:
    ways = BurnWays(subnet, TableRoutes(subnet), tree.ports())
    tests: list[BurnTest] = []
    for pairs in plan(ways).rounds:
        tests += ran(subnet, pairs, bad, len(tests))
    for number in range(rounds):
        pairs = LinkSuspects(ways, tests).next_round(number)
        if not pairs:
            break
        used = [port for pair in pairs for port in (pair.a, pair.b)]
        assert len(set(used)) == len(used)
        tests += ran(subnet, pairs, bad, len(tests))
    return LinkSuspects(ways, tests).verdict()


def test_a_slow_uplink_is_named_and_no_host() -> None:
    tree = Tree(4, 4, 4)
    found = burnt(tree, tree.by_destination(), {FabricEnd(leaf(1), 6)})
    assert ([each.link for each in found.named]
            == [FabricLink.of(FabricEnd(leaf(1), 6), FabricEnd(spine(1), 2))] and not found.unclear)


def test_a_slow_host_link_is_named_and_no_uplink() -> None:
    tree = Tree(4, 4, 4)
    found = burnt(tree, tree.by_destination(), {FabricEnd(host(5), 1), FabricEnd(leaf(1), 2)})
    assert ([each.link for each in found.named]
            == [FabricLink.of(FabricEnd(host(5), 1), FabricEnd(leaf(1), 2))] and not found.unclear)


def test_two_links_that_only_the_same_pairs_use_are_both_suspect_and_neither_is_named() -> None:
    tree = Tree(2, 1, 1)
    found = burnt(tree, tree.by_destination(), {FabricEnd(leaf(0), 2)})
    assert not found.named and len(found.unclear) == 1 and len(found.unclear[0].links) == 4


@settings(deadline=None, max_examples=tries(25))
@given(st.integers(0, 10_000), st.integers(0, 3))
def test_of_random_bad_links_no_innocent_is_named_and_no_bad_one_is_taken_for_good(seed: int,
                                                                                   count: int) -> None:
    tree = Tree(4, 4, 3)
    subnet = tree.at_random(seed)
    ways = BurnWays(subnet, TableRoutes(subnet), tree.ports())
    used = {end for pairs in plan(ways).rounds for end in recount.by_tables(subnet, pairs)}
    links = sorted(link for link in subnet.links if {link.a, link.b} <= used)
    bad = set(random.Random(seed).sample(links, count))
    found = burnt(tree, subnet, {end for link in bad for end in (link.a, link.b)})
    named = {each.link for each in found.named}
    assert named <= bad and bad <= named | {link for each in found.unclear
                                            for link in each.links} | set(found.hidden) and not found.noise
    assert count or not (found.unclear or found.hidden)


def test_a_slow_pair_whose_links_others_used_at_full_rate_is_noise() -> None:
    tree = Tree(2, 2, 1)
    subnet = tree.by_destination()
    ways = BurnWays(subnet, TableRoutes(subnet), tree.ports())
    one, two, three, four = tree.ports()
    found = LinkSuspects(ways, [BurnTest("a", one, three, True), BurnTest("b", one, three, False),
                                BurnTest("c", two, four, None)]).verdict()
    assert found.noise == ("a",) and not found.named and not found.unclear
    assert FabricLink.of(FabricEnd(host(1), 1), FabricEnd(leaf(0), 2)) not in found.measured


def test_what_pairs_sent_is_summed_by_channel() -> None:
    tree = Tree(2, 2, 1)
    subnet = tree.by_destination()
    ways = BurnWays(subnet, TableRoutes(subnet), tree.ports())
    one, two, three, _ = tree.ports()
    found = carried(ways, [(one, three, 10.0), (two, one, 5.0)])
    assert (found[FabricEnd(host(0), 1)] == 15.0 and found[FabricEnd(leaf(0), 3)] == 10.0
            and FabricEnd(host(3), 1) not in found)
