"""Weighing tests: what a pair depends on, what a guilty partner explains, and what it takes to accuse."""

from __future__ import annotations

import itertools
import random
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.burnin import accuse, faults
from healthcheck.burnin.accuse import accusations, doubts
from healthcheck.burnin.model import Object, Participant
from healthcheck.burnin.posterior import WeighedEvidence
from healthcheck.burnin.priors import ENOUGH
from healthcheck.burnin.rounds import Sites, pair
from healthcheck.burnin.weigh import CandidateCause, PairEvidence, PairOutcome, causes_of
from healthcheck.burnin.weigh import PairTest as Sample
from tests.tries import WHOLE, tries

SITES = Sites([Participant(f"{leaf}{domain}{at}", 8, leaf=leaf, domain=f"{leaf}{domain}" if leaf != "c"
                           else None) for leaf in "abcd" for domain in "xy" for at in range(4)])


def weighed(*tests: tuple[str, str, str], fault: str = faults.SLOW, sites: Sites = SITES) -> WeighedEvidence:
    """Of tests as (one, two, "F" or "P" each time)."""
    evidence = PairEvidence(sites)
    evidence.add(Sample(pair(one, two), f"t{at}", {"F": PairOutcome.FAIL, "P": PairOutcome.PASS,
                                                   "?": PairOutcome.UNKNOWN}[letter], fault)
                 for at, (one, two, letters) in enumerate(tests) for letter in letters)
    return WeighedEvidence(evidence)


def kinds(one: str, two: str) -> list[tuple[str, str, str]]:
    return [(cause.kind, cause.name, cause.other) for cause in causes_of(pair(one, two), SITES)
            if cause.kind not in ("node", "out", "pair")]


def test_what_a_pair_depends_on_is_what_lies_between_its_nodes() -> None:
    assert kinds("ax0", "ax1") == [("inside", "NVLink domain ax", "")]
    assert kinds("cx0", "cy1") == [("inside", "c", "")]
    assert kinds("ax0", "ay1") == [("inside", "a", ""), ("uplinks", "NVLink domain ax", ""),
                                   ("uplinks", "NVLink domain ay", ""),
                                   ("between", "NVLink domain ax", "NVLink domain ay")]
    assert kinds("cx0", "ax0") == [("inside", "a", ""), ("inside", "c", ""), ("uplinks", "a", ""),
                                   ("uplinks", "c", ""), ("between", "a", "c"),
                                   ("uplinks", "NVLink domain ax", "")]


def test_a_node_and_its_pair_are_always_among_them() -> None:
    for one, two in itertools.combinations(SITES.order, 2):
        found = causes_of(pair(one, two), SITES)
        assert len(set(found)) == len(found)
        assert {CandidateCause("node", one), CandidateCause("node", two),
                CandidateCause("pair", *pair(one, two))} <= set(found)


def test_failures_with_one_partner_only_accuse_no_node_however_often_others_pass() -> None:
    once = weighed(("cx0", "cx1", "F"), *(("cx2", name, "PPP") for name in ("cx3", "cy0", "cy1")))
    assert once.accused == {} and len(once.unexplained()) == 1
    often = weighed(("cx0", "cx1", "FFFF"), ("cx2", "cx3", "P"))
    assert often.accused == {} and {cause.name for cause in often.doubtful} <= {"cx0", "cx1"}


def test_what_leads_out_of_a_node_is_a_cause_of_pairs_that_are_no_neighbours() -> None:
    assert CandidateCause("out", "ax0") in causes_of(pair("ax0", "ay1"), SITES)
    assert CandidateCause("out", "ax0") not in causes_of(pair("ax0", "ax1"), SITES)


def test_what_a_guilty_partner_explains_accuses_no_other() -> None:
    found = weighed(("cx0", "cx1", "F"), ("cx0", "cx2", "F"), ("cx0", "cx3", "F"), ("cx1", "cx2", "P" * 10),
                    ("cx3", "cy0", "P" * 20))
    assert set(found.accused) == {CandidateCause("node", "cx0")} and found.unexplained() == []
    assert found.gain(CandidateCause("node", "cx1")) < 0


def test_the_odds_of_a_node_are_those_of_its_failures_less_its_passes_and_its_rarity() -> None:
    twice = (("cx0", "cx1", "F"), ("cx0", "cx2", "F"), ("cx1", "cx2", "P"), ("cy0", "cy1", "P" * 60))
    assert CandidateCause("node", "cx0") in weighed(*twice).best
    odds = [weighed(*twice, ("cx0", "cx3", "P" * passes)).gain(CandidateCause("node", "cx0"))
            for passes in (0, 1, 2, 4)]
    assert odds == sorted(odds, reverse=True) and odds[0] >= 4


def test_unknown_tests_weigh_nothing() -> None:
    with_them = weighed(("cx0", "cx1", "F"), ("cx0", "cx2", "F"), ("cx0", "cx3", "????"))
    assert with_them.accused == weighed(("cx0", "cx1", "F"), ("cx0", "cx2", "F")).accused
    assert CandidateCause("node", "cx3") not in with_them.evidence.of


def test_wrong_data_weighs_more_than_slowness() -> None:
    tests = (("cx0", "cx1", "F"), ("cx0", "cx2", "F"), ("cx0", "cx3", "PP"), ("cx1", "cx2", "P" * 6))
    assert (weighed(*tests).accused == {}
            and set(weighed(*tests, fault=faults.WRONG_DATA).accused) == {CandidateCause("node", "cx0")})


def test_many_failures_out_of_one_leaf_to_two_others_are_the_leafs() -> None:
    tests, clean = ([(f"{one}{domain}{at}", f"{leaf}{domain}{at}", result) for domain in "xy"
                     for at in range(4)
                     for leaf in "bc"] for one, result in (("a", "F"), ("d", "P")))
    inner = [(f"a{domain}{at}", f"a{domain}{at + 1}", "PPPP") for domain in "xy" for at in (0, 2)]
    found = weighed(*tests, *clean, *inner)
    assert [(cause.kind, cause.name) for cause in found.accused] in ([("uplinks", "a")], [("inside", "a")])


@settings(max_examples=tries(25), deadline=None)
@given(st.integers(0, 2**32), st.floats(0, 1))
def test_whoever_is_accused_gains_enough_beside_the_others_and_was_seen_failing(
    seed: int, fails: float,
) -> None:
    chance = random.Random(seed)
    names = list(SITES.order)
    tests = [(*chance.sample(names, 2), "F" if chance.random() < fails else "P")
             for _ in range(chance.randrange(60 if WHOLE else 30))]
    found = weighed(*tests)
    for cause, odds in found.accused.items():
        assert (odds >= ENOUGH and len(found.evidence.failed(cause)) > 1
                and cause not in found.rivals[cause].causes)
    again = WeighedEvidence(found.evidence)
    assert again.accused == found.accused and again.unexplained() == found.unexplained()


@settings(max_examples=tries(12), deadline=None)
@given(st.integers(0, 2**32), st.floats(0.02, 1))
def test_what_failed_has_a_name_or_is_unexplained_or_a_doubt(seed: int, fails: float) -> None:
    chance = random.Random(seed)
    names = chance.sample(SITES.order, chance.randrange(3, len(SITES.order)))
    tests = [(*chance.sample(names, 2), "F" if chance.random() < fails else "P")
             for _ in range(chance.randrange(1, 50 if WHOLE else 30))]
    found = weighed(*tests)
    with patch.object(accuse.limits, "TESTS", len(tests)):
        said = [line for each in accusations(found, frozenset()) for line in each.tests_for]
    of = {line.partition(":")[0] for line in (*said, *doubts(found))}
    assert [test.test for at, test in enumerate(found.evidence.tests) if test.outcome is PairOutcome.FAIL
            and test.test not in of and set(found.accused).isdisjoint(found.evidence.causes[at])] == []


def test_the_tests_of_what_is_unexplained_are_all_there_for_they_say_who_cannot_pass() -> None:
    (accused,) = accusations(weighed(*(("cx0", "cx1", "F") for _ in range(40))), frozenset())
    assert accused.object is Object.UNEXPLAINED and len(accused.tests_for) == 40


def test_a_path_is_less_sure_where_one_of_its_nodes_fails_elsewhere_as_well() -> None:
    tests = (("cx0", "cx1", "FFFF"), ("cx0", "cx3", "P" * 20), ("cx1", "cx3", "P" * 20))
    assert [cause.kind for cause in weighed(*tests).accused] == ["pair"]
    path = CandidateCause("pair", "cx0", "cx1")
    assert weighed(*tests, ("cx0", "cx2", "FF")).gain(path) < weighed(*tests).gain(path) - 1


def test_one_node_of_a_leaf_does_not_make_its_leaf_guilty() -> None:
    out = [("ax0", name, "F") for name in ("bx0", "cx0", "dx0")]
    assert weighed(*out, ("ax0", "ax1", "P" * 8)).accused == {}


def test_a_path_whose_node_passed_with_no_other_is_unexplained() -> None:
    (accused,) = accusations(weighed(("cx0", "cx1", "FFF"), ("cx0", "cx2", "P")), frozenset())
    assert (accused.object is Object.UNEXPLAINED and "cx1 or the path" in accused.why
            and "a test of cx1 - cx2 would decide" in accused.why)
    (accused,) = accusations(weighed(("cx0", "cx1", "FFFF"), ("cx0", "cx2", "P" * 20),
                                     ("cx1", "cx2", "P" * 20)), frozenset())
    assert accused.object is Object.PAIR and accused.name == "cx0 - cx1"


def test_what_much_noise_explains_as_well_accuses_no_one_though_little_noise_would() -> None:
    few = (("cx0", "cx1", "F"), ("cx0", "cx2", "F"), ("cx0", "cx3", "F"), ("cx1", "cx2", "P"),
           ("cx3", "cy0", "P"))
    assert weighed(*few).accused == {}
    assert set(weighed(*few, ("cy0", "cy1", "P" * 30)).accused) == {CandidateCause("node", "cx0")}


def test_a_path_between_two_leaves_that_chance_explains_nearly_as_well_is_not_named() -> None:
    sites = Sites([Participant(f"{leaf}{at}", 8, leaf=leaf) for leaf in "abc" for at in range(6)])
    well = [(f"{one}{at}", f"{two}{(at + turn) % 6}", "P") for one, two in ("ac", "bc", "aa", "bb")
            for at in range(6) for turn in (1, 2, 3)]
    found = weighed(*((f"a{at}", f"b{at}", "F" if at < 3 else "P") for at in range(6)), *well * 3,
                    sites=sites)
    assert [cause.kind for cause in found.doubtful] == ["between"] and found.accused == {}
    (accused,) = accusations(found, frozenset())
    assert accused.object is Object.UNEXPLAINED and "the path a - b" in accused.why
