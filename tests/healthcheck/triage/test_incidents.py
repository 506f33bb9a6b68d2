"""The life of incidents, asked directly: which goes on, by which name and with whom, which ends and why,
and what it answers for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from healthcheck.model.outcome import Owner, Severity
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import IncidentMember, StoredIncident
from healthcheck.store.fabricfindings import FabricTrouble
from healthcheck.subnet.check.findings import FabricRule, PlaceKind
from healthcheck.subnet.kept import KeptFinding
from healthcheck.triage.incidents import IncidentUpdate, live
from healthcheck.triage.past import FleetHistory, NodeHistory, SilencedHistory, VersionChange
from healthcheck.triage.policy import Causes, IncidentKind, IncidentPolicy, TriagePolicy
from tests.healthcheck.triage.made import NOW, at, policy, problem

KINDS = {kind: IncidentKind(Owner.NETWORK, True) for kind in ("rack", "leaf", "power")}
POLICY = policy(incidents=IncidentPolicy(kinds=KINDS))
# Domains of NVLink are known to it, and no node is in one.
RACKS = policy(incidents=IncidentPolicy(kinds={"rack": KINDS["rack"], "nvlink_domain": KINDS["rack"]}))
NODES = 128
R2, R3 = range(16, 24), range(24, 32)


def name(number: int) -> str:
    return f"n{number:03}"


def names(numbers: Iterable[int]) -> list[str]:
    return [name(number) for number in numbers]


def wrong(number: int, rule: str = "port-state", **more: Any) -> Problem:
    """Something that each node has had for an hour or two, at a time of its own."""
    return problem(rule, "", node=name(number), **{"began": -1 - number / 100, **more})


def failing(numbers: Iterable[int], rule: str = "port-state", **more: Any) -> dict[int, tuple[Problem, ...]]:
    return {number: (wrong(number, rule, **more),) for number in numbers}


def life(
    sick: Mapping[int, tuple[Problem, ...]], *known: StoredIncident, by: TriagePolicy = POLICY,
    of: Mapping[int, Mapping[str, Any]] | None = None,
    next_incident: int = 5, **more: Any,
) -> IncidentUpdate:
    """128 nodes: eight in a rack, sixteen behind a leaf, thirty-two on a feed.
    `of` are further values of a node."""
    nodes = tuple(NodeHistory(name(number),
                              **{"problems": sick.get(number, ()),
                                 "domains": {"rack": (f"r{number // 8}",), "leaf": (f"l{number // 16}",),
                                             "power": (f"p{number // 32}",)}, **(of or {}).get(number, {})})
                  for number in range(NODES))
    return live(FleetHistory(NOW, nodes, since=at(-2000), incidents=known, next_incident=next_incident,
                             **more), by)


def opened(kind: str, place: str, numbers: Iterable[int], number: int = 1, **more: Any) -> StoredIncident:
    """An incident that the store remembers; its members were last seen sick six minutes ago."""
    members = tuple(IncidentMember(name(each), at(-3), at(-0.1)) for each in numbers)
    values: dict[str, Any] = {"symptoms": ("port-state",), "owner": "network", "why": "", "likelihood": 9e9,
                              "began": at(-3), "seen": at(-0.1), "members": members, **more}
    return StoredIncident(number, kind, place, **values)


def ended(one: StoredIncident, hours: float, by: str = "triage") -> StoredIncident:
    return replace(one, ended=at(hours), by=by,
                   members=tuple(replace(member, ended=at(hours)) for member in one.members))


def at_(found: IncidentUpdate) -> list[tuple[int, str, int]]:
    """The open ones: number, place and how many nodes show it."""
    return [(one.id, one.cause, len(one.nodes)) for one in found.incidents]


def ends(found: IncidentUpdate) -> dict[int, str]:
    return {end.id: end.why for end in found.ends}


# ---- what is found


def test_a_new_incident_takes_the_next_number_and_begins_with_its_first_node_and_takes_in_no_other_place(
) -> None:
    found = life({**failing(R2), **failing(range(64, 72)), **failing([100])})
    assert sorted(at_(found)) == [(5, "r8", 8), (6, "r2", 8)]
    first = found.incidents[1]
    assert first.began == at(-1.23) and [member.node for member in first.members] == names(R2)
    assert [(member.began, member.seen) for member in first.members[:1]] == [(at(-1.16), at(-0.1))]


@pytest.mark.parametrize(("sweeps", "count"), [(3, 1), (2, 0)])
def test_what_is_not_measured_counts_once_it_has_lasted(sweeps: int, count: int) -> None:
    assert len(life(failing(range(16, 22), "gpu-ecc", status="unknown", sweeps=sweeps)).incidents) == count


@pytest.mark.parametrize(("seen", "count"), [(-13, 1), (-25, 0)])
def test_what_no_sweep_has_seen_for_a_day_is_no_news(seen: float, count: int) -> None:
    assert len(life(failing(R2, began=-30, seen=seen)).incidents) == count


def test_what_many_nodes_cannot_measure_is_no_incident_of_a_place_and_what_the_same_rule_finds_elsewhere_is(
) -> None:
    dark = life(failing(R2, "", status="unknown"))
    assert ([(one.kind, one.id) for one in dark.incidents] == [("unreached", 5)]
            and "not reached: all 8 nodes of rack r2: look there first" in dark.incidents[0].why)
    both = life({**failing(R2, "gpu-ecc", status="unknown"), **failing(R3, "gpu-ecc")})
    assert [(one.kind, one.cause) for one in both.incidents] == [("unmeasured", "gpu-ecc"), ("rack", "r3")]


def test_what_muster_answers_for_is_no_incident_of_a_place() -> None:
    changed = VersionChange("rule", "port-state", "b", at(-2), at(-2.1), at(-1))
    sick = {**failing(R2), **failing(R3, "gpu-count")}
    found = life(sick, changes=(changed,))
    assert [(one.kind, one.cause) for one in found.incidents] == [
        ("rules", "rule port-state since 2027-01-15T06:00Z"), ("rack", "r3")]
    assert found.waived == {name(number): frozenset({"port-state"}) for number in R2}
    before = failing(range(100, 104), began=-5)
    found = life({**sick, **before}, changes=(changed,))
    assert ([member.node for member in found.incidents[0].members] == names(R2)
            and found.incidents[0].began == at(-1.23))


def out(numbers: Iterable[int], seen: float = -0.1) -> dict[int, dict[str, Any]]:
    """Nodes that are not in service, and that a sweep has looked at."""
    return {number: {"in_service": False, "state": "unhealthy", "seen": at(seen)} for number in numbers}


@pytest.mark.parametrize(("numbers", "seen", "said"), [
    ((22, 23), -0.1, "6 of its 6 nodes in service and on 2 that are not (n022, n023), of 6 with it"),
    ((21, 22, 23), -0.1, "and on 3 that are not (n021, n022, n023), of"),
    ((20, 21, 22, 23), -0.1, "and on 4 that are not (n020, n021, n022 and 1 more), of"),
    ((22, 23), -23, "and on 2 that are not (n022, n023), of"),
    ((22, 23), -25, "6 of its 6 nodes in service, of 6 with it"), ((), 0, "8 of its 8 nodes in service, of")])
def test_nodes_out_of_service_that_were_looked_at_within_a_day_bear_witness_and_are_named(
        numbers: tuple[int, ...], seen: float, said: str) -> None:
    (one,) = life(failing(R2), of=out(numbers, seen)).incidents
    assert said in one.why and one.nodes == tuple(names(set(R2) - set(numbers)))


def test_what_muster_answers_for_nodes_out_of_service_bear_no_witness_of_either() -> None:
    changed = VersionChange("rule", "port-state", "b", at(-2), at(-2.1), at(-1))
    sick = {**failing(R2), **failing(R3, began=-5)}
    mine, place = life(sick, changes=(changed,), of=out((30, 31))).incidents
    assert (mine.kind, place.cause) == ("rules", "r3") and "on 6 of its 6 nodes in service, of" in place.why
    both = {**failing(R2, "gpu-ecc", status="unknown"), **failing(R3, "gpu-ecc")}
    mine, place = life(both, of=out((30, 31))).incidents
    assert mine.kind == "unmeasured" and "in service and on 2 that are not (n030, n031)" in place.why


def test_of_nodes_that_are_not_reached_and_of_no_place_as_a_whole_one_place_is_named_to_look_at_first(
) -> None:
    def why(*numbers: int) -> str:
        (one,) = life(failing(numbers, "", status="unknown")).incidents
        assert one.cause == "network, power or access"
        return one.why

    assert "; 6 of them are in rack r2 (" in why(*range(16, 22), 7, 71)
    assert why(*range(16, 22), *range(64, 69)).count("look there first") == 1
    assert "look there first" not in why(*range(7, 128, 16))


def test_what_a_place_takes_with_it_as_a_whole_is_named() -> None:
    whole = "; with it all 16 nodes of leaf l2, all 16 nodes of leaf l3, all 8 nodes of rack r4, all 8 nodes"
    assert whole in life(failing(range(32, 64))).incidents[0].why
    # the half of a leaf that has it is not the whole of it
    for sick in (R2, [*R2, 25]):
        assert "; with it" not in life(failing(sick)).incidents[0].why


def test_a_link_that_is_down_by_the_subnets_word_takes_the_next_number_too() -> None:
    down = KeptFinding(FabricRule.LINK, PlaceKind.LINK, "leaf01 port 1 to n100 mlx5_0", "", Severity.CRITICAL,
                       Owner.DATACENTRE, "down", nodes=(name(100),))
    found = life(failing(R2), fabric=(FabricTrouble(1, down, at(-1), at(-0.1), 3),))
    assert [(one.id, one.kind) for one in found.incidents] == [(5, "rack"), (6, "link")]


# ---- numbers

@pytest.mark.parametrize(("kind", "place", "symptom", "days", "number"),
                         [("rack", "r2", "port-state", 6, 1), ("rack", "r2", "port-state", 8, 5),
                          ("rack", "r3", "port-state", 6, 5), ("leaf", "r2", "port-state", 6, 5),
                          ("rack", "r2", "gpu-count", 6, 5)])
def test_one_that_comes_back_at_its_place_with_its_symptom_within_a_week_is_the_same(
    kind: str, place: str, symptom: str, days: float, number: int,
) -> None:
    found = life(failing(R2), ended(opened(kind, place, [*R2, 99], symptoms=(symptom,)), -24 * days))
    (one,) = found.incidents
    assert (one.id, one.began) == (number, at(-3) if number == 1 else at(-1.23))
    assert ([member.node for member in one.members] == names(R2)
            and {member.ended for member in one.members} == {None})


def test_one_of_musters_own_that_comes_back_has_its_number_and_beginning_and_the_nodes_of_now() -> None:
    before = ended(opened("unreached", "network, power or access", [1, *R2], symptoms=("not reached",)), -24)
    (one,) = life(failing(R2, "", status="unknown"), before).incidents
    assert (one.id, one.began, [member.node for member in one.members]) == (1, at(-3), names(R2))
    (one,) = life(failing(R2, "", status="unknown", sweeps=1)).incidents
    # too early to be told of a node, and a member from now on
    assert {member.began for member in one.members} == {NOW}


@pytest.mark.parametrize(("before", "number"), [(range(16, 20), 1), (range(16, 19), 5), (range(50, 60), 5)])
def test_nodes_that_are_not_reached_again_are_the_same_incident_where_half_of_them_were_in_it(
        before: range, number: int) -> None:
    was = ended(opened("unreached", "rack r9", before, symptoms=("not reached",)), -24)
    assert at_(life(failing(R2, "", status="unknown"), was)) == [(number, "rack r2", 8)]


def test_nodes_that_are_not_reached_are_one_incident_wherever_it_has_come_to_and_of_what_is_not_measured_each(
) -> None:
    dark = life(failing([*R2, *R3], "", status="unknown"),
                opened("unreached", "rack r2", R2, symptoms=("not reached",)))
    assert ([(one.id, one.kind, len(one.nodes)) for one in dark.incidents] == [(1, "unreached", 16)]
            and dark.ends == ())
    blind = life(failing(R2, "gpu-ecc", status="unknown"),
                 opened("unmeasured", "gpu-power", R2, symptoms=("gpu-power not measured",)))
    assert at_(blind) == [(5, "gpu-ecc", 8)] and ends(blind) == {1: "it is over"}


@pytest.mark.parametrize(("numbers", "left"), [
    (range(16, 20), "n016, n017, n018 and 1 more"), (range(16, 19), "n016, n017, n018"), ((), "")])
def test_one_of_musters_own_that_is_over_names_its_nodes_that_are_out_of_service_and_not_well(
        numbers: Iterable[int], left: str) -> None:
    dark = {number: (wrong(number, "", status="unknown"), wrong(number, "fan")) for number in [*numbers, 21]}
    known = opened("unreached", "rack r2", [*R2, 300], symptoms=("not reached",))
    found = life({**dark, **failing([22], "fan")}, known, of=out([*numbers, 20, 22]))
    assert ends(found) == {1: "it is over" + (
        f" for nodes in service; not in service, and not well: {left}" if left else "")}


def test_one_of_musters_own_is_over_as_soon_as_it_is_not_found_any_more() -> None:
    found = life({}, opened("unreached", "network, power or access", R2, symptoms=("not reached",)),
                 opened("rules", "rule port-state since then", R3, 2), opened("rack", "r8", range(64, 72), 3))
    assert ends(found) == {1: "it is over",
                           2: "it is not so on most of its nodes any more, or what changed changed again; "
                                               "what goes on is each node's own"}
    assert at_(found) == [(3, "r8", 0)]


# ---- what a person closed

@pytest.mark.parametrize(("sick", "by", "found"), [
    (failing(R2), "a person", []), (failing(R2), "triage", [(1, "r2", 8)]),
    (failing(R2, "gpu-count"), "a person", [(5, "r2", 8)]),     # another symptom
    (failing(R3), "a person", [(5, "r3", 8)]),                  # other nodes
    (failing(R2, began=-0.2), "a person", [(5, "r2", 8)])])     # begun since
def test_what_a_person_closed_is_each_nodes_own_and_nothing_else_is(
    sick: dict[int, tuple[Problem, ...]], by: str, found: list[tuple[int, str, int]],
) -> None:
    assert at_(life(sick, ended(opened("rack", "r2", R2), -0.5, by))) == found


# ---- one that is open already: where it goes on, by which name, with whom

def test_one_that_goes_on_at_its_place_stays_the_same_with_all_that_it_ever_showed() -> None:
    before = opened("rack", "r2", R2, symptoms=("nvlink-fabric-manager",))
    found = life({number: (wrong(number), wrong(number, "nvlink-fabric-manager", seen=-0.05))
                  for number in R2}, before)
    assert at_(found) == [(1, "r2", 8)] and found.ends == () and found.of == {1: found.incidents[0]}
    (one,) = found.incidents
    assert (one.symptoms, one.began, one.owner, one.isolates) == (("nvlink-fabric-manager", "port-state"),
                                                                  at(-3), Owner.NETWORK, True)
    assert {(member.began, member.seen) for member in one.members} == {(at(-3), at(-0.05))}
    older = life({number: (wrong(number, began=-9, seen=-0.3), wrong(number, began=-8, seen=-0.2))
                  for number in R2}, before)
    assert {(member.began, member.seen) for member in older.incidents[0].members} == {(at(-9), at(-0.1))}
    fresh = life({number: (wrong(number, began=-9, seen=-0.3), wrong(number, began=-8, seen=-0.2))
                  for number in R2})
    assert {(member.began, member.seen) for member in fresh.incidents[0].members} == {(at(-9), at(-0.2))}


def test_what_it_showed_once_and_does_not_show_now_stays_with_it() -> None:
    (one,) = life(failing(R2), opened("rack", "r2", R2, symptoms=("port-state", "gpu-count"))).incidents
    assert one.symptoms == ("port-state", "gpu-count")


def test_a_node_that_left_it_is_not_in_it_again_without_a_symptom() -> None:
    before = opened("rack", "r2", R2)
    left = replace(before, members=(*before.members, IncidentMember(name(99), at(-3), at(-2), at(-1))))
    assert [member.node for member in life(failing(R2), left).incidents[0].members] == names(R2)
    assert [member.node for member in life(failing([16]), left).incidents[0].members] == names(R2)


@pytest.mark.parametrize(("sick", "place"), [
    ([*R2, *R3], "l1"),         # it has grown
    (R2, "r2"), ([*range(16, 22)], "r2")])
def test_it_goes_by_the_name_of_the_place_that_it_has_grown_to(sick: list[int], place: str) -> None:
    found = life(failing(sick), opened("rack", "r2", R2))
    assert at_(found) == [(1, place, len(sick))] and found.ends == ()


def test_it_keeps_its_name_where_it_only_shrinks_and_where_what_is_left_of_it_elsewhere_is_in_no_other(
) -> None:
    assert at_(life(failing(R2), opened("leaf", "l1", [*R2, *R3]))) == [(1, "l1", 8)]
    assert at_(life(failing([*R2, 25, 120]), opened("power", "p1", [*R2, 25]))) == [(1, "p1", 8)]
    another = {number: (wrong(number, "gpu-count"),) for number in R3}
    found = life({**failing(R2), **another, 25: (wrong(25), *another[25])}, opened("leaf", "l1", [*R2, 25]))
    assert at_(found) == [(1, "l1", 8), (5, "r3", 8)]


def test_of_one_that_falls_apart_one_part_keeps_the_number_and_takes_the_name_and_the_others_are_not_in_it(
) -> None:
    whole = opened("nvlink_domain", "d0", range(32))
    found = life(failing([*R2, *range(8)]), whole, by=RACKS)
    assert [(one.id, one.kind, len(one.nodes)) for one in found.incidents] == [(1, "rack", 8), (5, "rack", 8)]
    kept, other = ({member.node for member in one.members} for one in found.incidents)
    assert not kept & other and len(other) == 8 and set(names(R3)) <= kept


def test_it_goes_on_in_what_is_most_like_it() -> None:
    before = opened("nvlink_domain", "d0", [*range(16, 22), *range(24, 30)])
    assert at_(life(failing([*R2, *range(24, 30)]), before, by=RACKS)) == [(1, "r3", 6), (5, "r2", 8)]


@pytest.mark.parametrize(("inside", "elsewhere", "symptom", "ids"), [
    (4, 4, "port-state", [1]), (3, 5, "port-state", [1, 5]), (4, 4, "gpu-count", [1, 5])])
def test_it_goes_on_where_half_of_what_goes_on_in_it_is_and_shows_the_same(
    inside: int, elsewhere: int, symptom: str, ids: list[int],
) -> None:
    scattered = [40 + 8 * each for each in range(elsewhere)]
    before = opened("leaf", "elsewhere", [*range(16, 16 + inside), *scattered], symptoms=(symptom,))
    found = life({**failing(R2), **failing(scattered)}, before)
    assert [one.id for one in found.incidents] == ids


def test_it_goes_on_as_it_was_where_less_than_half_of_what_goes_on_in_it_shares_a_place() -> None:
    scattered = [40 + 8 * each for each in range(11)]
    found = life({**failing(R2), **failing(scattered)}, opened("leaf", "elsewhere", [*R2, *scattered]))
    assert at_(found) == [(1, "elsewhere", 11), (5, "r2", 8)]


@pytest.mark.parametrize(("well", "ids"), [(4, [1]), (7, [1, 5])])
def test_it_goes_on_elsewhere_only_with_half_of_all_that_were_in_it(well: int, ids: list[int]) -> None:
    before = opened("leaf", "elsewhere", [*range(16, 20), *(40 + 8 * each for each in range(well))])
    assert [one.id for one in life(failing(R2), before).incidents] == ids


def test_it_is_as_unlikely_as_it_ever_was() -> None:
    now = life(failing(R2)).incidents[0].likelihood
    for before, expected in ((now * 10, now * 10), (now / 10, now)):
        (one,) = life(failing(R2), opened("rack", "r2", R2, likelihood=before)).incidents
        assert one.likelihood == expected


@pytest.mark.parametrize(("likelihood", "isolates"), [(1000.0, True), (999.0, False)])
def test_nodes_are_isolated_in_its_name_where_chance_does_it_as_seldom_as_the_policy_wants(
        likelihood: float, isolates: bool) -> None:
    (one,) = life(failing([16]), opened("rack", "r2", R2, likelihood=likelihood)).incidents
    assert one.isolates is isolates


def test_of_two_that_become_one_the_one_whose_place_it_is_goes_on_with_the_nodes_of_both() -> None:
    first, second = (opened("leaf", "l9", [16, 17, 18, 40]),
                     opened("rack", "r2", [20, 21, 22, 23], 2, began=at(-2)))
    seen = replace(first, members=(IncidentMember(name(16), at(-4), at(-0.5)), *first.members[1:]))
    again = replace(second, members=(IncidentMember(name(40), at(-1), at(-0.02)), *second.members))
    found = life(failing(R2), seen, again)
    assert (at_(found) == [(2, "r2", 8)] and [(end.id, end.into, end.why) for end in found.ends]
            == [(1, 2, "it is part of incident 2")])
    (one,) = found.incidents
    times = {member.node: (member.began, member.seen) for member in one.members}
    assert (times[name(16)] == (at(-4), at(-0.1)) and times[name(40)] == (at(-3), at(-0.02))
            and one.began == at(-2))
    assert found.of == {1: one, 2: one}


# ---- one that is not found any more

def calm(numbers: Iterable[int], hours: float, rule: str = "port-state") -> dict[int, dict[str, Any]]:
    return {number: {"over": (wrong(number, rule, began=-9, ended=-hours),)} for number in numbers}


def long_ago(one: StoredIncident, hours: float = 5) -> StoredIncident:
    return replace(one,
                   members=tuple(replace(member, began=at(-9), seen=at(-hours)) for member in one.members))


@pytest.mark.parametrize(("hours", "is_over"), [(0.7, False), (1.1, True)])
def test_it_ends_when_all_its_nodes_were_well_for_the_calm_hours(hours: float, is_over: bool) -> None:
    before = long_ago(opened("rack", "r2", R2))
    found = life({}, before, of=calm([17], hours))
    assert (ends(found) == ({1: "all its 8 nodes were well for 1 h"} if is_over else {})
            and at_(found) == ([] if is_over else [(1, "r2", 0)]))
    assert ends(life({}, long_ago(opened("rack", "r2", R2), hours))) == (
        {1: "all its 8 nodes were well for 1 h"} if is_over else {})
    if is_over:
        assert {node: (one.incident, one.ended) for node, (one,) in found.shared.items()} == dict.fromkeys(
            names(R2), (1, NOW))


def test_one_whose_rest_is_silenced_does_not_end_as_if_its_nodes_were_well() -> None:
    hidden = {number: {"hidden": SilencedHistory((wrong(number),))} for number in list(R2)[:4]}
    before = long_ago(opened("rack", "r2", R2))
    assert ends(life({}, before, of=hidden)) == {
        1: "what is left of it is silenced, on n016, n017, n018 and 1 more"}
    other = {16: {"hidden": SilencedHistory((wrong(16, "fan"),))}}
    assert ends(life({}, before, of=other)) == {1: "all its 8 nodes were well for 1 h"}


def test_what_else_is_or_was_wrong_with_its_nodes_does_not_keep_it_open() -> None:
    before = long_ago(opened("rack", "r2", R2))
    assert ends(life(failing([16], "gpu-count"), before, of=calm([17], 0.2, "gpu-count"))) == {
        1: "all its 8 nodes were well for 1 h"}


def test_a_node_not_reached_or_with_something_else_is_not_well_and_one_out_of_service_has_no_say() -> None:
    before = long_ago(opened("rack", "r2", [16, 17, 18]))
    dark = life({number: (wrong(number, "", status="unknown"),) for number in (16, 17, 18)}, before)
    assert 1 in {one.id for one in dark.incidents} and not ends(dark)
    both = {number: (wrong(number, "gpu-count"), wrong(number)) for number in (16, 17, 18)}
    assert (1, "r2", 3) in at_(life(both, before))
    assert ends(life(both, before, of={number: {"in_service": False} for number in (16, 17, 18)})) == {
        1: "none of its 3 nodes is in service any more"}
    assert ends(life({}, before, of={17: {"in_service": False}})) == {
        1: "all its 2 nodes in service were well for 1 h"}
    gone = replace(before, members=tuple(replace(member, node=f"gone{at}")
                                         for at, member in enumerate(before.members)))
    assert ends(life({}, gone)) == {1: "none of its 3 nodes is in service any more"}


@pytest.mark.parametrize(("sick", "members", "share", "left"), [
    (2, 3, 50, "n016, n017"),                   # fewer than an incident has
    (3, 4, 50, ""), (4, 8, 50, ""),             # enough, and half
    (4, 8, 50.25, "n016, n017, n018 and 1 more"), (5, 12, 50, "n016, n017, n018 and 2 more"),
    (3, 8, 50, "n016, n017, n018"), (2, 2, 50, "")])     # no other is well
def test_what_goes_on_in_few_while_the_rest_is_well_is_their_own(
    sick: int, members: int, share: float, left: str,
) -> None:
    by = policy(incidents=IncidentPolicy(kinds={"leaf": KINDS["leaf"]}, share=share, likelihood=1e300))
    found = life(failing(range(16, 16 + sick)),
                 long_ago(opened("leaf", "l1", range(16, 16 + members))), by=by)
    assert ends(found) == ({1: f"the rest was well for 1 h; what goes on in {left} is their own"} if left
                           else {})
    assert at_(found) == ([] if left else [(1, "l1", sick)])


def test_it_takes_in_who_shows_it_in_its_place_and_no_one_elsewhere() -> None:
    before = opened("rack", "r2", range(16, 20))
    found = life(failing([16, 22, 40]), before)
    assert (at_(found) == [(1, "r2", 2)] and [member.node for member in found.incidents[0].members]
            == [*names(range(16, 20)), name(22)])
    assert {node: one.incident for node, (one,) in found.shared.items()} == dict.fromkeys(
        [*names(range(16, 20)), name(22)], 1)


def test_it_loses_whoever_is_in_another_now_and_ends_where_that_is_all() -> None:
    before = opened("leaf", "l9", [*range(16, 19), 40, 48, 56, 64, 72])
    found = life(failing([*R2, 40, 48, 56, 64, 72]), before)
    assert at_(found) == [(1, "l9", 5), (5, "r2", 8)]
    assert [member.node for member in found.incidents[0].members] == names([40, 48, 56, 64, 72])
    assert ({one.incident for one in found.shared[name(16)]} == {1, 5}
            and found.shared[name(16)][0].ended == NOW)
    assert ends(life(failing(R2), opened("leaf", "l9", range(16, 19)), opened("rack", "r2", R2, 2))) == {
        1: "it is part of incident 2"}
    dark = opened("leaf", "l9", range(16, 19), symptoms=("port-state", "gpu-count"))
    well = {number: {"over": ()} for number in R2}
    assert ends(life({}, replace(dark, members=()), of=well)) == {1: "all its nodes are in others"}


def test_one_whose_place_cannot_cause_it_by_the_policy_of_now_ends() -> None:
    by = policy(incidents=IncidentPolicy(kinds=KINDS,
                                         causes=(Causes("ports", "", frozenset({"rack"}), ("port-*",)),)))
    found = life(failing([*R2, *R3]), opened("leaf", "l1", [*R2, *R3]), by=by)
    assert ends(found) == {1: "by the policy such a place does not cause that: leaf"}
    assert [one.kind for one in found.incidents] == ["rack", "rack"]
    assert life(failing([*R2, *R3]), opened("leaf", "l1", [*R2, *R3])).ends == ()


def test_one_of_a_kind_that_the_policy_does_not_name_any_more_goes_on_as_the_operators() -> None:
    (one,) = life(failing(R2), opened("rack", "r2", R2), by=policy()).incidents
    assert (one.id, one.owner, one.isolates) == (1, Owner.OPERATOR, False)


# ---- in words

def test_it_says_at_most_three_of_its_symptoms() -> None:
    rules = ("a-rule", "b-rule", "c-rule", "d-rule")
    four = life({number: tuple(wrong(number, rule) for rule in rules) for number in R2})
    assert "a-rule, b-rule, c-rule and 1 more on 8 of its 8 nodes" in four.incidents[0].why
    three = life({number: tuple(wrong(number, rule) for rule in rules[:3]) for number in R2})
    assert ("a-rule, b-rule, c-rule on 8 of its 8 nodes" in three.incidents[0].why
            and "same" not in three.incidents[0].why)


def test_it_says_which_other_place_has_the_same_nodes() -> None:
    by = policy(incidents=IncidentPolicy(kinds={**KINDS, "nvlink_domain": KINDS["rack"]}))
    domains = {number: {"domains": {"rack": (f"r{number // 8}",), "nvlink_domain": (f"d{number // 8}",)}}
               for number in range(NODES)}
    (one,) = life(failing(R2), by=by, of=domains).incidents
    assert one.why.startswith("NVLink domain d2, the same nodes as rack r2: port-state on 8")
