"""What several nodes share: the right place is named, chance is not, and the figures are those of the distributions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from healthcheck.outcome import Owner
from healthcheck.store.history import Problem
from healthcheck.triage.correlate import KINDS, Found, correlate
from healthcheck.triage.likelihood import MOST, binomial, hypergeometric, odds, words
from healthcheck.triage.past import Fleet, Past
from healthcheck.triage.policy import IncidentKind, IncidentPolicy
from healthcheck.triage.symptom import alike_in, symptom
from tests.healthcheck.triage.made import NOW, at, problem

POLICY = IncidentPolicy(kinds={kind: IncidentKind(Owner.OPERATOR, True) for kind in KINDS})
FLEET = 256


def node(number: int, *problems: Problem, **more: object) -> Past:
    """One of 256: eight in a rack, a leaf for two racks, a power domain for four, drivers by turns; eight ports, each on a rail and leaf."""
    rack, leaf, power = number // 8, number // 16, number // 32
    ports = {f"0000:{16 + rail:02x}:00.0": (f"leaf-{leaf}", str(rail)) for rail in range(8)}
    values = {"domains": {"rack": (f"r{rack}",), "leaf": (f"leaf-{leaf}",), "power": (f"p{power}",)}, "ports": ports, "boots": (at(-900),),
              "versions": {"driver": "570.1" if number % 3 else "580.2"}, **more}
    return Past(f"n{number}", problems=problems, **values)      # type: ignore[arg-type]


def found(sick: dict[int, Iterable[Problem]], policy: IncidentPolicy = POLICY, since: float = at(-1000), **more: object) -> list[Found]:
    nodes = tuple(node(number, *sick.get(number, ()), **more) for number in range(FLEET))
    showing: dict[str, dict[str, tuple[Problem, ...]]] = {}
    for past in nodes:
        for each in past.problems:
            held = showing.setdefault(symptom(each), {})
            held[past.node] = (*held.get(past.node, ()), each)
    return correlate(Fleet(NOW, nodes, since=since), showing, policy)


def gone(number: int) -> tuple[Problem]:
    return (problem("", "", node=f"n{number}", status="unknown", began=-2 - number / 100),)


def failing(number: int, rule: str = "gpu-count", subject: str = "GPU 3", began: float | None = None) -> tuple[Problem]:
    return (problem(rule, subject, node=f"n{number}", began=-1 - 7 * (number % 97) if began is None else began),)


def port(number: int, rail: int) -> tuple[Problem]:
    return failing(number, "port-state", f"mlx5_{rail}/1 (0000:{16 + rail:02x}:00.0)")


@pytest.mark.parametrize(("sick", "kind", "place"), [
    (range(16, 24), "rack", "r2"), (range(16, 31), "leaf", "leaf-1"), (range(32, 64), "power", "p1"), (range(18, 24), "rack", "r2"),
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


def test_two_places_of_one_symptom_are_two_and_one_place_of_two_symptoms_is_one() -> None:
    two = found({number: failing(number) for number in [*range(16, 24), *range(160, 168)]})
    assert {(one.kind, one.place) for one in two} == {("rack", "r2"), ("rack", "r20")}
    (one,) = found({number: (*failing(number), *failing(number, "fabric-manager", "")) for number in range(16, 24)})
    assert (one.place, one.symptoms) == ("r2", ("fabric-manager", "gpu-count of GPU"))


def test_places_that_have_the_same_nodes_are_named_beside() -> None:
    (one,) = found({number: port(number, number % 8) for number in range(8)}, domains={"rack": ("r0",), "leaf": ("leaf-0",)}) or [None]
    assert one is None      # all nodes are in one rack then, which says nothing
    policy = replace(POLICY, kinds={kind: POLICY.kinds[kind] for kind in ("rack", "leaf")})
    nodes = tuple(Past(f"n{number}", domains={"rack": (f"r{number // 8}",), "leaf": (f"l{number // 8}",)}) for number in range(64))
    for rule, kind, other in (("gpu-count", "rack", "leaf l2"), ("port-state", "leaf", "rack r2")):
        showing = {rule: {f"n{number}": failing(number, rule, "") for number in range(16, 24)}}
        (one,) = correlate(Fleet(NOW, nodes), showing, policy)
        assert (one.kind, one.besides) == (kind, (other,))


def test_what_began_together_and_shares_no_place_is_a_moment() -> None:
    sick = {number: failing(number, began=-5 - number / 10_000) for number in range(3, 250, 20)}
    (one,) = found(sick)
    assert one.kind == "moment" and len(one.nodes) == 13 and one.place.endswith("Z")
    few, hour = {number: sick[number] for number in (3, 103, 203)}, replace(POLICY, window_minutes=60)
    assert found(few, hour) != [] and found(few, hour, since=at(-5.2)) == []       # an hour of five is no surprise
    assert found(sick, boots=(at(-5.1),)) != [] and found(sick, boots=(at(-4.9),)) == []    # never seen without it
    assert found({number: failing(number) for number in sick}) == []


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
    (few,) = found({number: failing(number) for number in (*range(16, 20), 100, 200)}, replace(POLICY, likelihood=1))
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
    terms = [math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(min(hits, trials + 1), trials + 1)]
    assert math.exp(binomial(trials, chance, hits)) == pytest.approx(sum(terms), abs=1e-9)


@given(st.integers(1, 20_000), st.data())
def test_a_tail_is_a_probability_however_large_the_fleet(fleet: int, data: st.DataObject) -> None:
    had, inside, hits = (data.draw(st.integers(0, fleet)) for _ in range(3))
    assert 1 <= odds(hypergeometric(fleet, had, inside, hits), data.draw(st.integers(0, 5000))) <= MOST


@pytest.mark.parametrize(("once_in", "said"), [
    (3412.0, "once in 3,000 times"), (1.0, "once in 1 times"), (4.2e7, "once in 4 x 10^7 times"), (MOST, "less than once in 10^12 times")])
def test_odds_are_said_to_one_figure(once_in: float, said: str) -> None:
    assert words(once_in) == f"chance would do this {said}"


@pytest.mark.parametrize(("subject", "alike"), [
    ("GPU 3", "GPU"), ("mlx5_0/1 (0000:18:00.0)", ""), ("GPU at PCI 0000:1b:00.0, Xid 79", "GPU at PCI, Xid 79"), ("driver", "driver"),
    ("GPU 3, NVLink 4", "GPU, NVLink"), ("", "")])
def test_of_a_subject_stays_what_other_nodes_have_as_well(subject: str, alike: str) -> None:
    assert alike_in(subject) == alike


@example(";\r,;")
@given(st.text())
def test_any_subject_gives_some_words_within_bounds(subject: str) -> None:
    assert len(alike_in(subject)) <= 120
    assert alike_in(alike_in(subject)) == alike_in(subject) or "Xid" in subject
