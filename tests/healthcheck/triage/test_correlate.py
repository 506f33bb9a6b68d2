"""What several nodes share: the right place is named, chance is not,
and the figures are those of the distributions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from healthcheck.model.faultkind import Of
from healthcheck.model.outcome import Owner
from healthcheck.model.problem import Problem
from healthcheck.triage.correlate import KINDS, Correlation, OutOfService, correlate, domains
from healthcheck.triage.likelihood import MOST, binomial, hypergeometric, odds, words
from healthcheck.triage.past import FleetHistory, NodeHistory, Quiet
from healthcheck.triage.policy import Causes, IncidentKind, IncidentPolicy
from healthcheck.triage.symptom import about, shared_part, symptom
from tests.healthcheck.triage.made import NOW, at, problem

POLICY = IncidentPolicy(kinds={kind: IncidentKind(Owner.OPERATOR, True) for kind in KINDS})
FLEET = 256


def node(number: int, *problems: Problem, **more: object) -> NodeHistory:
    """One of 256: eight in a rack, a leaf for two racks, a power domain for four, drivers by turns; eight
    ports, each on a rail and leaf."""
    rack, leaf, power = number // 8, number // 16, number // 32
    ports = {f"0000:{16 + rail:02x}:00.0": (f"leaf-{leaf}", str(rail)) for rail in range(8)}
    values = {"domains": {"rack": (f"r{rack}",), "leaf": (f"leaf-{leaf}",), "power": (f"p{power}",)},
              "ports": ports, "boots": (at(-900),),
              "versions": {"driver": "570.1" if number % 3 else "580.2"}, **more}
    return NodeHistory(f"n{number}", problems=problems, **values)      # type: ignore[arg-type]


def found(
    sick: Mapping[int, Iterable[Problem]], policy: IncidentPolicy = POLICY, since: float = at(-1000), *,
    counted: bool = False, of: Mapping[int, Mapping[str, object]] | None = None, **more: object,
) -> list[Correlation]:
    """What these share. `of` are further values of a node, `more` of all; `counted`: of nodes that are well
    only their number is known."""
    nodes = tuple(node(number, *sick.get(number, ()), **{**more, **(of or {}).get(number, {})})
                  for number in range(FLEET))
    showing: dict[str, dict[str, tuple[Problem, ...]]] = {}
    for past in nodes:
        for each in past.problems:
            held = showing.setdefault(symptom(each), {})
            held[past.node] = (*held.get(past.node, ()), each)
    quiet = [past for past in nodes if counted and not past.problems]
    return correlate(FleetHistory(NOW, tuple(past for past in nodes if past not in quiet), since=since,
                                  quiet=Quiet(len(quiet),
                                              Counter(place for past in quiet for place in domains(past)),
                                              Counter(rail for past in quiet
                                                      for _, rail in past.ports.values()))), showing, policy)


def only(*kinds: str, of: Of = Of.FAIL, rules: str = "gpu-*") -> IncidentPolicy:
    """Only such places cause it."""
    return replace(POLICY, causes=(Causes("x", "", frozenset(kinds), (rules,), of),))


def gone(number: int) -> tuple[Problem]:
    return (problem("", "", node=f"n{number}", status="unknown", began=-2 - number / 100),)


def failing(
    number: int, rule: str = "gpu-count", subject: str = "GPU 3", began: float | None = None,
) -> tuple[Problem]:
    return (problem(rule, subject, node=f"n{number}",
                    began=-1 - 7 * (number % 97) if began is None else began),)


def port(number: int, rail: int) -> tuple[Problem]:
    return failing(number, "port-state", f"mlx5_{rail}/1 (0000:{16 + rail:02x}:00.0)")


@pytest.mark.parametrize(("sick", "kind", "place"),
                         [(range(16, 24), "rack", "r2"), (range(16, 31), "leaf", "leaf-1"),
                          (range(32, 64), "power", "p1"), (range(18, 24), "rack", "r2"),
                          (range(0, 90, 3), "driver", "580.2")])
def test_the_narrowest_place_that_explains_most_is_the_one(sick: range, kind: str, place: str) -> None:
    (one,) = found({number: failing(number) for number in sick})
    assert (one.kind, one.place, one.nodes) == (kind, place, tuple(f"n{number}" for number in sick))
    assert one.likelihood > 1e5 and (one.had, one.fleet) == (len(sick), FLEET)


def test_nodes_that_are_not_reached_are_in_a_place_too() -> None:
    (one,) = found({number: gone(number) for number in range(8, 16)})
    assert (one.kind, one.place, one.symptoms) == ("rack", "r1", ("not reached",))


def test_ports_are_of_their_own_leaf_and_rail() -> None:
    (one,) = found({number: port(number, 5) for number in range(0, 256, 7)})
    assert (one.kind, one.place, len(one.nodes)) == ("rail", "5", 37)
    (one,) = found({number: port(number, number % 8) for number in range(48, 64)})
    assert (one.kind, one.place) == ("leaf", "leaf-3")


def test_the_places_of_a_node_are_those_of_the_ports_that_its_problems_name() -> None:
    ports = {"0000:10:00.0": ("a", "0"), "0000:20:00.0": ("b", "1"), "0000:30:00.0": ("", "")}
    past = NodeHistory("n1", domains={"rack": ("r",), "leaf": ("a", "b")},
                       versions={"driver": "570", "kernel": ""}, ports=ports)
    always = {("rack", "r"), ("driver", "570")}
    both = always | {("leaf", "a"), ("leaf", "b")}

    def places(*pci: str, past: NodeHistory = past) -> set[tuple[str, str]]:
        return domains(past, [problem("port-state", f"mlx5_{at}/1 ({each})") for at, each in enumerate(pci)])

    assert domains(past) == places() == both
    assert places("0000:10:00.0") == always | {("leaf", "a"), ("rail", "0")}
    assert places("0000:10:00.0", "0000:20:00.0") == both | {("rail", "0"), ("rail", "1")}
    # no one said where these are
    assert places("0000:30:00.0") == both and places("0000:40:00.0") == both
    assert places("0000:10:00.0", "0000:30:00.0") == places("0000:10:00.0")
    assert places("0000:10:00.0", past=replace(past, ports={})) == both


def scattered_on_rail_5() -> dict[int, tuple[Problem, ...]]:
    """Twelve nodes on this rail alone, one on two, three of which no port is known."""
    sick = {number: port(number, 5) for number in range(0, 240, 20)}
    return {**sick, 250: (*port(250, 5), *port(250, 6)),
            **{number: failing(number, "port-state", "") for number in (30, 90, 150)}}


def test_chance_puts_each_node_of_which_a_port_is_known_on_a_rail_of_its_own() -> None:
    sick = scattered_on_rail_5()
    (one,) = found(sick)
    # of thirteen that are on some rail at least twelve are on this alone
    tail = 13 * 7 / 8**13 + 1 / 8**13
    assert (one.kind, one.place, one.nodes) == ("rail", "5",
                                                tuple(f"n{number}" for number in range(0, 240, 20)))
    assert (one.inside, one.had, one.likelihood) == (16, 16,
                                                     pytest.approx(1 / ((32 + 16 + 8 + 2 + 8) * tail)))
    off = {**{f"0000:{16 + rail:02x}:00.0": ("", str(rail)) for rail in range(8)}, "0000:90:00.0": ("", "")}
    assert found(sick, ports=off) == [one]      # one that is on no rail is none to be tried


def test_of_a_rail_the_share_is_of_nodes_of_which_a_port_is_known_and_of_a_version_of_all_that_have_it(
) -> None:
    unknown = {number: failing(number, "port-state", "") for number in range(10, 240, 40)}
    by = replace(only("rail", rules="port-*"), likelihood=1)
    (one,) = found({**{number: port(number, 5) for number in range(0, 240, 60)}, **unknown}, by)
    assert (one.place, len(one.nodes), one.had) == ("5", 4, 10)
    rare = {number: {"versions": {"driver": "590"}} for number in range(0, 250, 50)}
    for others, count in ((5, 1), (6, 0)):
        sick = {number: failing(number) for number in (*rare, *range(7, 7 + 40 * others, 40))}
        assert len(found(sick, only("driver"), of=rare)) == count


def test_chance_has_as_many_tries_as_there_are_symptoms_that_enough_nodes_have() -> None:
    sick = {number: failing(number) for number in (*range(16, 20), 100, 200)}
    likelihoods = [found({**sick,
                          **{number: failing(number, "fan") for number in range(30, 30 + 40 * more, 40)}},
                         replace(only("rack"), likelihood=1))[0].likelihood for more in (0, 2, 3)]
    assert likelihoods[0] == likelihoods[1] == pytest.approx(2 * likelihoods[2])


def test_nodes_that_are_only_counted_count_as_the_others_do() -> None:
    for sick in ({number: failing(number) for number in (*range(16, 22), 100, 200)}, scattered_on_rail_5()):
        assert len(found(sick)) == 1 and found(sick, counted=True) == found(sick)


def test_nodes_out_of_service_count_nowhere() -> None:
    away = {number: {"in_service": False} for number in (*range(19, 24), 0)}
    sick = {number: failing(number) for number in range(16, 19)}
    assert found(sick) == []
    (one,) = found(sick, of=away)
    places = 32 + 16 + 8 + 2 + 8
    assert ((one.place, one.inside, one.fleet) == ("r2", 3, 250)
            and one.likelihood == pytest.approx(math.comb(250, 3) / places))


def witnessed(
    sick: Mapping[int, Iterable[Problem]], policy: IncidentPolicy, *, looked: Iterable[int] = (),
    unseen: Iterable[int] = (), of: Mapping[int, Mapping[str, object]] | None = None,
) -> list[Correlation]:
    """What these share: `looked` are not in service and a sweep has looked at them, `unseen` are neither."""
    away = {*looked, *unseen}
    nodes = [node(number, *sick.get(number, ()), in_service=number not in away, **(of or {}).get(number, {}))
             for number in range(FLEET)]
    shown: tuple[dict[str, dict[str, tuple[Problem, ...]]], ...] = ({}, {})
    for past in nodes:
        for each in past.problems:
            held = shown[not past.in_service].setdefault(symptom(each), {})
            held[past.node] = (*held.get(past.node, ()), each)
    return correlate(FleetHistory(NOW, tuple(nodes), since=at(-1000)), shown[0], policy,
                     OutOfService(frozenset(f"n{number}" for number in looked), shown[1]))


RACKS = replace(only("rack"), likelihood=1)


def test_nodes_out_of_service_count_with_their_place_unless_they_had_it_before() -> None:
    here = {number: failing(number, began=-1) for number in (*range(16, 20), 20, 21)}
    before = {number: failing(number, began=-40) for number in (22, 100, 201)}
    (one,) = witnessed({**here, **before}, RACKS, looked=(20, 21, 22, 200, 201, 253),
                       unseen=(*range(240, 246), *range(248, 253)))
    assert (one.place, one.nodes, one.out) == ("r2", ("n16", "n17", "n18", "n19"), ("n20", "n21"))
    # Six of seven have it, of seven among 239 in service and four others; of the racks that are seen one has
    # two nodes alone, and one has three with the one that is not in service.
    tail = sum(math.comb(7, k) * math.comb(236, 7 - k) for k in (6, 7)) / math.comb(243, 7)
    assert one.likelihood == pytest.approx(min(MOST, 1 / (31 * tail)))


@pytest.mark.parametrize(("before", "out"), [(15, ("n19",)), (14, ("n19",)), (15.2, ())])
def test_what_began_on_a_node_out_of_service_within_a_window_before_the_first_in_service_is_of_the_same(
        before: float, out: tuple[str, ...]) -> None:
    sick = {16: failing(16, began=-2), 17: failing(17, began=-8), 18: failing(18, began=-4)}
    sick[18] = (*failing(18, began=-1), *failing(18, "gpu-count", "GPU 4", began=-9))
    (one,) = witnessed({**sick, 19: failing(19, began=-9 - before / 60)}, RACKS, looked=(19,),
                       unseen=range(20, 24))
    assert one.out == out


def test_two_places_that_went_as_a_whole_do_not_hide_each_other() -> None:
    sick = {number: failing(number, began=-1) for number in (16, 17, 18, 40, 41, 42)}
    more: dict[str, Any] = {"looked": (18, 42), "unseen": (*range(19, 24), *range(43, 48))}
    two = {one.place: one.likelihood for one in witnessed(sick, RACKS, **more)}
    # Each was one of three nodes that have it, of all but the other three.
    assert two["r2"] == pytest.approx(math.comb(243, 3) / 32) and two.keys() == {"r2", "r5"}
    least = min(two.values())
    assert len(witnessed(sick, replace(RACKS, likelihood=MOST, whole=least), **more)) == 2
    assert witnessed(sick, replace(RACKS, likelihood=MOST, whole=math.nextafter(least, MOST)), **more) == []


def test_nodes_out_of_service_bear_no_witness_of_a_version_nor_of_a_moment() -> None:
    rare = {number: {"versions": {"driver": "590"}} for number in range(0, 300, 50)}
    sick = {number: failing(number) for number in (*rare, *range(7, 207, 40))}
    (one,) = witnessed({**sick, **{number: failing(number) for number in (250, 251, 252)}},
                       only("driver"), looked=(250, 251, 252), of=rare)
    assert (one.nodes, one.out) == (("n0", "n50", "n100", "n150", "n200"), ())
    # of three versions one is on two nodes in service and on one that is not: it is not tried
    few = {**rare, **{number: {"versions": {"driver": "600"}} for number in (3, 4, 5)}}
    (same,), (none,) = (witnessed(sick, only("driver"), looked=(5, 250), of=each) for each in (few, rare))
    assert same.likelihood == none.likelihood
    moment = replace(only("moment"), likelihood=1)
    together_ = together(-5, -4.9, -4.8)
    assert len(witnessed(together_, moment)) == 1 and witnessed(together_, moment, looked=(43,)) == []


def test_only_places_that_can_cause_it_and_have_as_many_nodes_as_an_incident_are_tried() -> None:
    sick = {number: failing(number) for number in range(16, 24)}
    (one,) = found(sick, replace(only("rack"), at_least=8))
    assert one.likelihood == pytest.approx(min(MOST, math.comb(FLEET, 8) / 32))
    few = {number: failing(number) for number in (*range(16, 20), 100, 200)}
    (one,) = found(few, replace(only("rack"), at_least=4, likelihood=1),
                   of={number: {"in_service": False} for number in range(5)})
    tail = sum(math.comb(8, k) * math.comb(243, 6 - k) for k in range(4, 7)) / math.comb(251, 6)
    assert one.likelihood == pytest.approx(1 / (31 * tail))         # of the first rack three are left


def test_what_a_place_can_cause_by_failing_it_need_not_cause_by_not_being_measured() -> None:
    dark = {number: (problem("gpu-ecc", "", node=f"n{number}", status="unknown"),)
            for number in range(16, 24)}
    assert [one.place for one in found(dark, only("rack", of=Of.UNKNOWN))] == ["r2"]
    # of that no one has said what can cause it
    assert [one.kind for one in found(dark, only("rack"))] == ["moment"]


def test_a_moment_is_looked_for_where_it_can_cause_it() -> None:
    sick = {number: failing(number, began=-5 - number / 10_000) for number in range(3, 250, 20)}
    assert len(found(sick, only("rack", "moment"))) == 1 and found(sick, only("rack")) == []


@pytest.mark.parametrize(("count", "share", "is_one"), [(4, 50, True), (4, 50.25, False), (5, 50.25, True)])
def test_of_a_place_the_share_that_the_policy_says_must_have_it(
    count: int, share: float, is_one: bool,
) -> None:
    sick = {number: failing(number) for number in (*range(16, 16 + count), 100, 200)}
    assert bool(found(sick, replace(only("rack"), likelihood=1, share=share))) is is_one


def test_as_few_nodes_as_the_policy_says_are_an_incident() -> None:
    sick = {number: failing(number) for number in range(16, 20)}
    for at_least, count in ((4, 1), (5, 0)):
        assert len(found(sick, replace(only("rack"), likelihood=1, at_least=at_least))) == count


def test_what_is_as_unlikely_as_the_policy_says_is_no_chance() -> None:
    sick = {number: failing(number) for number in (*range(16, 20), 100, 200)}
    for kind, made in (("rack", sick),
                       ("moment", {number: failing(number, began=-5) for number in (3, 103, 203)})):
        (one,) = found(made, replace(only(kind), likelihood=1))
        assert found(made, replace(only(kind), likelihood=one.likelihood)) == [one]
        assert found(made, replace(only(kind), likelihood=math.nextafter(one.likelihood, math.inf))) == []


def test_two_places_of_one_symptom_are_two_and_one_place_of_two_symptoms_is_one() -> None:
    two = found({number: failing(number) for number in [*range(16, 24), *range(160, 168)]})
    assert {(one.kind, one.place) for one in two} == {("rack", "r2"), ("rack", "r20")}
    (one,) = found({number: (*failing(number), *failing(number, "nvlink-fabric-manager", ""))
                    for number in range(16, 24)})
    assert (one.place, one.symptoms) == ("r2", ("gpu-count of GPU", "nvlink-fabric-manager"))


def test_places_that_have_the_same_nodes_are_named_beside() -> None:
    (one,) = (found({number: port(number, number % 8) for number in range(8)},
                    domains={"rack": ("r0",), "leaf": ("leaf-0",)}) or [None])
    assert one is None      # all nodes are in one rack then, which says nothing
    policy = replace(POLICY, kinds={kind: POLICY.kinds[kind] for kind in ("rack", "leaf")})
    nodes = tuple(NodeHistory(f"n{number}", domains={"rack": (f"r{number // 8}",),
                                                     "leaf": (f"l{number // 8}",)}) for number in range(64))
    for rule, kind, other in (("gpu-count", "rack", "leaf l2"), ("port-state", "leaf", "rack r2")):
        showing = {rule: {f"n{number}": failing(number, rule, "") for number in range(16, 24)}}
        (one,) = correlate(FleetHistory(NOW, nodes), showing, policy)
        assert (one.kind, one.besides) == (kind, (other,))


def test_beside_a_place_are_named_three_others_at_most_that_have_the_very_nodes() -> None:
    same = {kind: (kind[0],) for kind in ("nvlink_domain", "rack", "leaf", "power")}
    nodes = tuple(NodeHistory(f"n{number}", domains={**same, "batch": ("b",)} if 16 <= number < 24
                              else {"rack": (f"r{number // 8}",)}) for number in range(64))
    (one,) = correlate(FleetHistory(NOW, nodes),
                       {"gpu-count": {f"n{number}": failing(number, subject="") for number in range(16, 24)}},
                       POLICY)
    assert (one.kind, one.besides) == ("nvlink_domain", ("rack r", "leaf l", "power domain p"))
    # Neither another place as likely as it, nor a larger one with the same nodes.
    assert all(one.besides == ()
               for one in found({number: failing(number) for number in [*range(16, 24), *range(160, 168)]}))
    assert found({number: failing(number) for number in range(16, 24)})[0].besides == ()


def test_what_began_together_and_shares_no_place_is_a_moment() -> None:
    sick = {number: failing(number, began=-5 - number / 10_000) for number in range(3, 250, 20)}
    (one,) = found(sick)
    assert one.kind == "moment" and len(one.nodes) == 13 and one.place.endswith("Z")
    few, hour = {number: sick[number] for number in (3, 103, 203)}, replace(POLICY, window_minutes=60)
    # an hour of five is no surprise
    assert found(few, hour) != [] and found(few, hour, since=at(-5.2)) == []
    # never seen without it
    assert found(sick, boots=(at(-5.1),)) != [] and found(sick, boots=(at(-4.9),)) == []
    assert found({number: failing(number) for number in sick}) == []


def together(*hours: float, numbers: Iterable[int] = range(3, 250, 20)) -> dict[int, tuple[Problem, ...]]:
    """On nodes that share no place it began at these times."""
    return {number: failing(number, began=hour) for number, hour in zip(numbers, hours, strict=False)}


def test_chance_puts_each_beginning_that_is_remembered_into_the_window_alike() -> None:
    policy = replace(only("moment"), likelihood=1)
    (one,) = found(together(-5, -4.9, -4.8), policy)
    chance = 0.25 / 1000
    assert (one.likelihood == pytest.approx(1 / (3 * chance**3))
            and (one.inside, one.had, one.fleet) == (3, 3, FLEET))
    # What began before and is over, anywhere, is a beginning that could have been there too.
    over = (*failing(9, began=-300), *failing(9, "gpu-worn", began=-300), *failing(9, "fan", began=-300))
    (one,) = found(together(-5, -4.9, -4.8), policy, of={9: {"over": over}})
    tail = 4 * chance**3 * (1 - chance) + chance**4
    assert one.likelihood == pytest.approx(1 / (4 * tail))


@pytest.mark.parametrize(("hours", "nodes"), [
    ((-5, -4.9, -4.75), 3),             # just as far apart as a window is long
    ((-5, -4.9, -4.7499), 0),
    ((-9, -5, -4.9, -4.8), 3), ((-5, -4.9, -4.8, -1), 3),
    ((-9, -8.9, -8.8, -5, -4.9, -4.8, -4.77), 4),       # of two windows the one with more
    ((-9, -8.9, -8.8, -8.77, -5, -4.9, -4.8), 4),
    ((-9, -8.9, -8.8, -5, -4.9, -4.8), 3)])             # of two with as many the first
def test_a_moment_is_the_window_in_which_most_began(hours: tuple[float, ...], nodes: int) -> None:
    found_ = found(together(*hours), replace(only("moment"), likelihood=1))
    assert [len(one.nodes) for one in found_] == [nodes] * bool(nodes)
    if len(hours) > 5:
        assert found_[0].place == ("2027-01-15T03:00Z" if nodes == 4 and hours[3] == -5
                                   else "2027-01-14T23:00Z")


@pytest.mark.parametrize(("others", "share", "is_one"), [(3, 50, True), (4, 50, False), (3, 50.25, False)])
def test_of_those_that_have_it_the_share_that_the_policy_says_must_have_begun_together(
    others: int, share: float, is_one: bool,
) -> None:
    sick = together(-5, -4.9, -4.8, *(-9.0 - each for each in range(others)))
    assert bool(found(sick, replace(only("moment"), likelihood=1, share=share))) is is_one


def test_a_node_that_had_it_when_it_was_first_looked_at_began_at_no_known_moment() -> None:
    policy = replace(only("moment"), likelihood=1)
    for boots, count in (((at(-5), at(-1)), 0), ((at(-5.01), at(-1)), 1), ((), 0)):
        assert len(found(together(-5, -5, -5), policy, boots=boots)) == count


def test_of_several_problems_of_a_node_the_first_says_when_it_began() -> None:
    sick = {number: (*failing(number, began=-2 - at), *failing(number, "gpu-count", "GPU 5", began=-5))
            for at, number in enumerate((3, 103, 203))}
    assert [one.place for one in found(sick, replace(only("moment"), likelihood=1))] == ["2027-01-15T03:00Z"]


def test_as_few_nodes_as_the_policy_says_are_a_moment_and_a_window_as_long_as_all_that_is_remembered_is_none(
) -> None:
    policy = replace(only("moment"), likelihood=1)
    assert (len(found(together(-5, -5, -5), policy)) == 1
            and found(together(-5, -5, -5), replace(policy, at_least=4)) == [])
    assert found(together(-5, -5, -5), replace(policy, window_minutes=60 * 8), since=at(-8)) == []


def test_scattered_faults_of_a_fleet_are_no_incident() -> None:
    assert found({number: failing(number) for number in range(5, 256, 17)}) == []
    assert found({number: failing(number, f"rule-{number}") for number in range(16, 24)}) == []
    assert found({number: failing(number) for number in range(FLEET)}) == []
    assert found({number: failing(number) for number in (16, 17)}) == []


def test_a_kind_that_the_policy_does_not_name_is_not_looked_for() -> None:
    assert found({number: failing(number) for number in range(16, 24)}, IncidentPolicy()) == []


def test_likelihood_is_corrected_for_the_places_tried() -> None:
    (one,) = found({number: failing(number) for number in range(16, 24)})
    places = 32 + 16 + 8 + 2 + 8
    assert one.likelihood == pytest.approx(min(MOST, 1 / (places / math.comb(FLEET, 8))))
    (few,) = found({number: failing(number) for number in (*range(16, 20), 100, 200)},
                   replace(POLICY, likelihood=1))
    tail = sum(math.comb(8, k) * math.comb(248, 6 - k) for k in range(4, 7)) / math.comb(FLEET, 6)
    assert (few.place, few.likelihood) == ("r2", pytest.approx(1 / (places * tail)))


@given(st.integers(1, 12), st.data())
def test_the_hypergeometric_tail_is_what_counting_gives(fleet: int, data: st.DataObject) -> None:
    had, inside, hits = (data.draw(st.integers(0, fleet)) for _ in range(3))
    ways = [sum(one < inside for one in chosen) for chosen in combinations(range(fleet), had)]
    expected = sum(count >= hits for count in ways) / len(ways)
    assert math.exp(hypergeometric(fleet, had, inside, hits)) == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 12), st.floats(0, 1), st.integers(0, 13))
def test_the_binomial_tail_is_what_its_terms_sum_to(trials: int, chance: float, hits: int) -> None:
    terms = [math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k)
             for k in range(min(hits, trials + 1), trials + 1)]
    assert math.exp(binomial(trials, chance, hits)) == pytest.approx(sum(terms), abs=1e-9)


@given(st.integers(1, 20_000), st.data())
def test_a_tail_is_a_probability_however_large_the_fleet(fleet: int, data: st.DataObject) -> None:
    had, inside, hits = (data.draw(st.integers(0, fleet)) for _ in range(3))
    assert 1 <= odds(hypergeometric(fleet, had, inside, hits), data.draw(st.integers(0, 5000))) <= MOST


def test_what_cannot_happen_and_what_must_are_no_matter_of_chance() -> None:
    assert binomial(3, 0.0, 1) == binomial(3, 0.5, 4) == hypergeometric(9, 2, 3, 3) == -math.inf
    assert (binomial(3, 0.0, 0) == binomial(3, 1.0, 3) == hypergeometric(9, 2, 3, 0)
            == hypergeometric(9, 8, 5, 2) == 0)
    # one that may come, or not
    assert math.exp(binomial(3, 0.5, 1)) == pytest.approx(7 / 8)
    assert math.exp(hypergeometric(10, 4, 3, 1)) == pytest.approx(1 - 20 / 120)


@pytest.mark.parametrize(("tried", "once_in"), [(0, 10), (1, 10), (2, 5), (10, 1), (11, 1)])
def test_odds_are_by_how_many_places_were_tried_and_never_below_one(tried: int, once_in: float) -> None:
    assert odds(math.log(0.1), tried) == pytest.approx(once_in) and odds(math.log(0.1), tried) >= 1


@pytest.mark.parametrize(("once_in", "said"),
                         [(999_000.0, "once in 1,000,000 times"), (1e6, "once in 1 x 10^6 times"),
                          (9.4e6, "once in 9 x 10^6 times"), (3412.0, "once in 3,000 times"),
                          (1.0, "once in 1 times"), (4.2e7, "once in 4 x 10^7 times"),
                          (MOST, "less than once in 10^12 times")])
def test_odds_are_said_to_one_figure(once_in: float, said: str) -> None:
    assert words(once_in) == f"chance would do this {said}"


@pytest.mark.parametrize(("subject", "alike"),
                         [("GPU 3", "GPU"), ("mlx5_0/1 (0000:18:00.0)", ""),
                          ("GPU at PCI 0000:1b:00.0, Xid 79", "GPU at PCI, Xid 79"), ("driver", "driver"),
                          ("GPU 3, NVLink 4", "GPU, NVLink"), ("", "")])
def test_of_a_subject_stays_what_other_nodes_have_as_well(subject: str, alike: str) -> None:
    assert shared_part(subject) == alike


@example(";\r,;")
@given(st.text())
def test_any_subject_gives_some_words_within_bounds(subject: str) -> None:
    assert len(shared_part(subject)) <= 120
    assert shared_part(shared_part(subject)) == shared_part(subject) or "Xid" in subject


@pytest.mark.parametrize(("of", "name", "kind", "rule"), [
    (problem("port-state", "mlx5_0/1 (0000:18:00.0)", severity="warning"), "port-state", Of.FAIL,
     "port-state"),
    (problem("gpu-count", "GPU 3"), "gpu-count of GPU", Of.FAIL, "gpu-count"),
    (problem("gpu-ecc", "", status="unknown"), "gpu-ecc not measured", Of.UNKNOWN, "gpu-ecc"),
    (problem("", "", status="unknown"), "not reached", Of.UNREACHED, "")])
def test_a_symptom_names_what_many_nodes_can_have_and_says_what_it_is_made_of(
    of: Problem, name: str, kind: Of, rule: str,
) -> None:
    assert symptom(of) == name and about(name) == (kind, rule)


def test_what_only_informs_and_what_muster_could_not_do_is_no_symptom_of_a_node() -> None:
    assert symptom(problem(severity="info")) == symptom(
        problem("gpu-ecc", "", status="unknown", origin="muster")) == ""
