"""How tests are weighed: what a pair depends on, what one guilty partner explains, and how much it takes to accuse."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.burnin import faults
from healthcheck.burnin.accuse import accusations
from healthcheck.burnin.model import Object, Place
from healthcheck.burnin.rounds import Sites, pair
from healthcheck.burnin.weigh import ENOUGH, FAIL, PASS, Cause, Evidence, Outcome, Weighed, causes_of
from healthcheck.burnin.weigh import Tested as Sample

SITES = Sites([Place(f"{leaf}{domain}{at}", 8, leaf=leaf, domain=f"{leaf}{domain}" if leaf != "c" else None)
               for leaf in "abcd" for domain in "xy" for at in range(4)])


def weighed(*tests: tuple[str, str, str], fault: str = faults.SLOW, sites: Sites = SITES) -> Weighed:
    """Of tests as (one, two, "F" or "P" each time)."""
    evidence = Evidence(sites)
    evidence.add(Sample(pair(one, two), f"t{at}", {"F": Outcome.FAIL, "P": Outcome.PASS, "?": Outcome.UNKNOWN}[letter], fault)
                 for at, (one, two, letters) in enumerate(tests) for letter in letters)
    return Weighed(evidence)


def kinds(one: str, two: str) -> list[tuple[str, str, str]]:
    return [(cause.kind, cause.name, cause.other) for cause in causes_of(pair(one, two), SITES)][3:]


def test_what_a_pair_depends_on_is_what_lies_between_its_nodes() -> None:
    assert kinds("ax0", "ax1") == [("inside", "NVLink domain ax", "")]
    assert kinds("cx0", "cy1") == [("inside", "c", "")]
    assert kinds("ax0", "ay1") == [("inside", "a", ""), ("uplinks", "NVLink domain ax", ""), ("uplinks", "NVLink domain ay", ""),
                                   ("between", "NVLink domain ax", "NVLink domain ay")]
    assert kinds("cx0", "ax0") == [("inside", "a", ""), ("inside", "c", ""), ("uplinks", "a", ""), ("uplinks", "c", ""),
                                   ("between", "a", "c"), ("uplinks", "NVLink domain ax", "")]


def test_a_node_and_its_pair_are_always_among_them() -> None:
    for one, two in itertools.combinations(SITES.order, 2):
        found = causes_of(pair(one, two), SITES)
        assert len(set(found)) == len(found)
        assert {Cause("node", one), Cause("node", two), Cause("pair", *pair(one, two))} <= set(found)


def test_one_failure_accuses_nobody_however_often_others_pass() -> None:
    found = weighed(("cx0", "cx1", "F"), *(("cx2", name, "PPP") for name in ("cx3", "cy0", "cy1")))
    assert found.accused == {} and len(found.unexplained()) == 1


def test_failures_with_one_partner_only_accuse_no_node() -> None:
    found = weighed(("cx0", "cx1", "FFFF"))
    assert [cause.kind for cause in found.accused] == ["pair"]


def test_what_a_guilty_partner_explains_accuses_nobody_else() -> None:
    found = weighed(("cx0", "cx1", "F"), ("cx0", "cx2", "F"), ("cx0", "cx3", "F"), ("cx1", "cx2", "P"), ("cx3", "cy0", "P"))
    assert set(found.accused) == {Cause("node", "cx0")} and found.unexplained() == []
    assert found.gain(Cause("node", "cx1")) < 0


def test_the_gain_of_a_node_is_that_of_its_failures_less_its_passes_and_its_rarity() -> None:
    found = weighed(("cx0", "cx1", "F"), ("cx0", "cx2", "F"), ("cx0", "cx3", "P"))
    gain = found.accused[Cause("node", "cx0")]
    assert gain == pytest.approx(2 * FAIL - PASS - 4.85) and gain >= ENOUGH
    assert weighed(("cx0", "cx1", "F"), ("cx0", "cx2", "F"), ("cx0", "cx3", "PP")).accused == {}


def test_unknown_tests_weigh_nothing() -> None:
    with_them = weighed(("cx0", "cx1", "F"), ("cx0", "cx2", "F"), ("cx0", "cx3", "????"))
    assert with_them.accused == weighed(("cx0", "cx1", "F"), ("cx0", "cx2", "F")).accused
    assert Cause("node", "cx3") not in with_them.evidence.of


def test_wrong_data_weighs_more_than_slowness() -> None:
    tests = (("cx0", "cx1", "F"), ("cx0", "cx2", "F"), ("cx0", "cx3", "PP"))
    assert weighed(*tests).accused == {} and set(weighed(*tests, fault=faults.WRONG_DATA).accused) == {Cause("node", "cx0")}


def test_many_failures_out_of_one_leaf_to_two_others_are_the_leafs() -> None:
    tests = [(f"a{domain}{at}", f"{leaf}{domain}{at}", "F") for domain in "xy" for at in range(4) for leaf in "bc"]
    clean = [(f"d{domain}{at}", f"{leaf}{domain}{at}", "P") for domain in "xy" for at in range(4) for leaf in "bc"]
    found = weighed(*tests, *clean)
    assert [(cause.kind, cause.name) for cause in found.accused] in ([("uplinks", "a")], [("inside", "a")])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.floats(0, 1))
def test_whoever_is_accused_gains_enough_beside_the_others_and_was_seen_failing(seed: int, fails: float) -> None:
    chance = random.Random(seed)
    names = list(SITES.order)
    tests = [(*chance.sample(names, 2), "F" if chance.random() < fails else "P") for _ in range(chance.randrange(120))]
    found = weighed(*tests)
    for cause, gain in found.accused.items():
        assert gain >= ENOUGH - 1e-9 and len(found.evidence.failed(cause)) > 1
    again = Weighed(found.evidence)
    assert again.accused == found.accused and again.unexplained() == found.unexplained()


def test_a_path_is_not_accused_where_one_of_its_nodes_fails_elsewhere_as_well() -> None:
    tests = (("cx0", "cx1", "FFF"), ("cx0", "cx3", "P" * 10), ("cx1", "cx3", "P"))
    assert [cause.kind for cause in weighed(*tests).accused] == ["pair"]
    assert weighed(*tests, ("cx0", "cx2", "F")).accused == {}


def test_one_node_of_a_leaf_does_not_make_its_leaf_guilty() -> None:
    out = [("ax0", name, "F") for name in ("bx0", "cx0", "dx0")]
    assert weighed(*out, ("ax0", "ax1", "P" * 8)).accused == {}


def test_a_path_whose_node_passed_with_nobody_else_is_unexplained() -> None:
    (accused,) = accusations(weighed(("cx0", "cx1", "FFF"), ("cx0", "cx2", "P")), frozenset())
    assert accused.object is Object.UNEXPLAINED and "cx1 passed with nobody" in accused.why
    (accused,) = accusations(weighed(("cx0", "cx1", "FFF"), ("cx0", "cx2", "P"), ("cx1", "cx2", "P")), frozenset())
    assert accused.object is Object.PAIR and accused.name == "cx0 - cx1"
