"""Rails: an accused node or leaf is narrowed to its bad rails, unless all are bad or it is unknown."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pytest

from healthcheck.burnin import faults
from healthcheck.burnin.isolate import PairSearch
from healthcheck.burnin.model import Accusation, BurnInStage, Object, Participant, Rail
from healthcheck.burnin.rails import RailSearch
from healthcheck.burnin.rounds import NodePair
from healthcheck.burnin.weigh import PairOutcome
from healthcheck.burnin.weigh import PairTest as Sample
from tests.tries import tries

RAILS = 4


def cluster(leaves: int, size: int, *, switch: Callable[[int, int], str] = "sw{}-{}".format,
            domain: int = 0) -> list[Participant]:
    """Nodes n000 on, each rail of a leaf on a switch of its own: sw2-1 is that of leaf 2 and rail 1."""
    found = []
    for leaf in range(leaves):
        for at in range(size):
            number = leaf * size + at
            rails = tuple(Rail(rail, f"0000:{rail}0:00.0", switch(leaf, rail)) for rail in range(RAILS))
            names = dict.fromkeys(rail.leaf or "" for rail in rails)
            found.append(Participant(f"n{number:03}", 8, leaf="+".join(names), rails=rails,
                                     domain=f"d{number // domain}" if domain else None))
    return found


@dataclass
class Fabric:
    """What is bad in it: nodes with all rails, (node, rail)s, switches for whatever leads out of them,
    switches for all that touches them. A test of all rails fails with any of its rails; a share of `noise` of
    sound tests fails for nothing.
    """

    places: list[Participant]
    nodes: set[str] = field(default_factory=set)
    rails: set[tuple[str, int]] = field(default_factory=set)
    uplinks: set[str] = field(default_factory=set)
    switches: set[str] = field(default_factory=set)
    noise: float = 0.0
    seed: int = 1
    silent: set[int] = field(default_factory=set)       # rails of which alone nothing can be judged
    share: float = 1.0      # of its tests that fail of what is bad

    def __post_init__(self) -> None:
        self.of = {place.node: place for place in self.places}
        self.chance = random.Random(self.seed)
        self.rounds: list[tuple[int, ...]] = []

    def bad(self, each: NodePair, rail: int) -> bool:
        ends = [next(one.leaf or "" for one in self.of[node].rails if one.number == rail) for node in each]
        return (not self.nodes.isdisjoint(each) or any((node, rail) in self.rails for node in each)
                or (ends[0] != ends[1] and not self.uplinks.isdisjoint(ends))
                or not self.switches.isdisjoint(ends))

    def pair_test(self, each: NodePair, test: str, rails: Iterable[int], fault: str) -> Sample:
        bad = any(self.bad(each, rail) for rail in rails)
        failed = self.chance.random() < (self.share if bad else self.noise)
        return Sample(each, test, PairOutcome.FAIL if failed else PairOutcome.PASS, fault)

    def found(self, fault: str = faults.SLOW,
              usable: Mapping[str, Iterable[int]] | None = None) -> tuple[Accusation, ...]:
        """Whom pairs of all rails accuse, and then each rail alone."""
        isolation = PairSearch(self.places)
        while (round_ := isolation.next()) is not None:
            isolation.add_results([self.pair_test(each, f"{round_.number}-{at}", range(RAILS), fault)
                            for at, each in enumerate(round_.pairs)])
        can = {node: list(range(RAILS) if usable is None else usable.get(node, ())) for node in self.of}
        by_rail = RailSearch(isolation.accusations(), isolation.proven(), self.of, can)
        while (these := by_rail.next()) is not None:
            assert len(self.rounds) < 40
            self.rounds.append(tuple(these))
            results = {}
            for rail, round_ in these.items():
                name = f"{BurnInStage.RAIL_CONFIRM.value}-{len(self.rounds)}-{rail}"
                results[rail] = [self.pair_test(each, f"{name}-{at}", [rail], fault)
                              for at, each in enumerate(round_.pairs) if rail not in self.silent]
            by_rail.add_results(results)
        return by_rail.accusations()


def named(found: Iterable[Accusation]) -> set[tuple[str, str]]:
    return {(one.object.value, one.name) for one in found}


def test_a_node_with_one_bad_rail_is_named_by_that_rail_with_the_tests_of_both() -> None:
    fabric = Fabric(cluster(2, 16), rails={("n007", 2)})
    [one] = fabric.found()
    assert (one.object, one.name, one.fault, one.confirmed) == (Object.RAIL, "n007/rail2", faults.SLOW_LINK,
                                                                True)
    assert (one.why.startswith("with rail 2 alone, from the GPU beside it, failed in ")
            and one.why.endswith("; rails 0, 1, 3 passed"))
    tests = [test.partition(":")[0] for test in one.tests_for]
    assert (any(test.startswith("rail-confirm-1-2-") for test in tests)
            and any(not test.startswith("rail") for test in tests))
    assert all("n007" in test for test in one.tests_for)


def test_of_a_node_with_two_bad_rails_both_are_named() -> None:
    assert named(Fabric(cluster(2, 16), rails={("n007", 0), ("n007", 3)}).found()) == {
        ("rail", "n007/rail0"), ("rail", "n007/rail3")}


def test_a_node_that_is_slow_on_every_rail_or_on_none_alone_stays_the_node() -> None:
    assert named(Fabric(cluster(2, 16), nodes={"n007"}).found()) == {("node", "n007")}
    together = Fabric(cluster(2, 16), nodes={"n007"})
    together.bad = (    # type: ignore[method-assign]
        lambda each, rail: False if together.rounds else "n007" in each)
    assert named(together.found()) == {("node", "n007")} and together.rounds


@pytest.mark.parametrize("share",
                         [0.5, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.3, 0.8))])
def test_a_node_that_fails_now_and_then_is_put_down_to_no_rail(share: float) -> None:
    for seed in range(tries(20)):
        found = Fabric(cluster(2, 16), nodes={"n007"}, noise=0.003, share=share, seed=seed).found()
        assert named(one for one in found if one.object is not Object.UNEXPLAINED) <= {("node", "n007")}, seed


def test_a_rail_that_fails_in_half_of_its_tests_is_named_when_the_others_passed_often_enough() -> None:
    found = [named(Fabric(cluster(2, 16), rails={("n007", 2)}, noise=0.003, share=0.5, seed=seed).found())
             for seed in range(tries(20))]
    assert all(one <= {("rail", "n007/rail2"), ("node", "n007")} for one in found)
    assert found.count({("rail", "n007/rail2")}) >= len(found) / 2


def test_wrong_data_is_no_rails_for_the_gpu_beside_it_may_have_made_it() -> None:
    fabric = Fabric(cluster(2, 16), rails={("n007", 2)})
    [one] = fabric.found(faults.WRONG_DATA)
    assert ((one.object, one.name, one.fault, one.confirmed) == (Object.NODE, "n007", faults.WRONG_DATA, True)
            and fabric.rounds == [])


def test_a_rail_of_which_nothing_could_be_judged_is_neither_named_nor_said_to_have_passed() -> None:
    [one] = Fabric(cluster(2, 16), rails={("n007", 2)}, silent={1}).found()
    assert one.name == "n007/rail2" and one.why.endswith("; rails 0, 3 passed")
    assert named(Fabric(cluster(2, 16), rails={("n007", 2)}, silent={2}).found()) == {("node", "n007")}


def test_the_switch_of_one_rail_is_named_where_only_that_rail_fails_across_leaves() -> None:
    assert named(Fabric(cluster(5, 16), uplinks={"sw3-1"}).found()) == {("leaf", "sw3-1")}
    assert named(Fabric(cluster(5, 16), switches={"sw3-1"}).found()) == {("leaf", "sw3-1")}
    whole = {f"sw3-{rail}" for rail in range(RAILS)}
    assert named(Fabric(cluster(5, 16), uplinks=whole).found()) == {("leaf", "sw3-0+sw3-1+sw3-2+sw3-3")}


def test_where_all_rails_hang_on_one_switch_its_name_says_of_which_rail_it_is_bad() -> None:
    fabric = Fabric(cluster(5, 16, switch=lambda leaf, rail: f"leaf{leaf}"))
    across = fabric.bad
    fabric.bad = lambda each, rail: across(each, rail) or (     # type: ignore[method-assign]
        rail == 1 and len(leaves := {fabric.of[node].leaf for node in each}) > 1 and "leaf3" in leaves)
    assert named(fabric.found()) == {("leaf", "leaf3, rail 1")}


def test_in_an_nvlink_domain_rails_are_tried_all_the_same() -> None:
    assert named(Fabric(cluster(4, 16, domain=4), rails={("n021", 1)}).found()) == {("rail", "n021/rail1")}


def test_an_nvlink_domain_whose_nodes_lack_a_rail_is_not_put_down_to_the_switch_of_its_leaf() -> None:
    places = cluster(4, 16, domain=4)
    fabric = Fabric(places)
    there = {place.node for place in places if place.domain == "d5"}
    fabric.bad = lambda each, rail: rail == 1 and len(there & set(each)) == 1  # type: ignore[method-assign]
    assert named(fabric.found()) == {("leaf", "NVLink domain d5")}


def test_where_rails_cannot_be_used_alone_nothing_more_is_run() -> None:
    fabric = Fabric(cluster(2, 16), rails={("n007", 2)})
    assert named(fabric.found(usable={})) == {("node", "n007")} and fabric.rounds == []
    assert (named(fabric.found(usable={f"n{at:03}": [2] for at in range(32)})) == {("node", "n007")}
            and fabric.rounds == [])


@pytest.mark.parametrize("fault", [faults.DEAD, faults.ABSENT, faults.LOST, faults.STOPPED])
def test_no_rail_is_tried_of_a_node_whose_ranks_do_not_even_live(fault: str) -> None:
    fabric = Fabric(cluster(2, 16), nodes={"n007"})
    assert named(fabric.found(fault)) == {("node", "n007")} and fabric.rounds == []


def test_a_sound_cluster_has_no_rail_tried() -> None:
    fabric = Fabric(cluster(2, 16))
    assert fabric.found() == () and fabric.rounds == []


@pytest.mark.parametrize("seed",
                         [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 60))])
def test_of_what_is_bad_at_random_with_noise_the_right_rails_are_named_and_no_innocent(seed: int) -> None:
    chance = random.Random(seed)
    places = cluster(6, 16, domain=chance.choice([0, 0, 4]))
    names = [place.node for place in places]
    chance.shuffle(names)
    whole, several = names[:chance.randrange(3)], names[3:3 + chance.randrange(1, 4)]
    rails = {(node, rail) for node in several
             for rail in chance.sample(range(RAILS), chance.choice([1, 1, 2]))}
    switch = {f"sw{chance.randrange(6)}-{chance.randrange(RAILS)}"} if chance.random() < 0.5 else set()
    fabric = Fabric(places, nodes=set(whole), rails=rails, uplinks=switch, noise=0.003, seed=seed)
    right = ({("node", node) for node in whole} | {("rail", f"{node}/rail{rail}") for node, rail in rails}
             | {("leaf", one) for one in switch})
    assert named(one for one in fabric.found() if one.object is not Object.UNEXPLAINED) == right
