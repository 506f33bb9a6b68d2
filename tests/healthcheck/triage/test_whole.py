"""Places of which all or nearly all is concerned are named, with their nodes in maintenance, and several at
once each by its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.model.outcome import Owner
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import Incident, IncidentMember, StoredIncident
from healthcheck.triage.incidents import IncidentUpdate, live
from healthcheck.triage.past import FleetHistory, NodeHistory
from healthcheck.triage.policy import Causes, IncidentKind, IncidentPolicy, TriagePolicy
from healthcheck.triage.whole import WholePlace, listed, nearly_all, title, wholly
from tests.healthcheck.triage.made import NOW, at, policy, problem
from tests.tries import tries

KINDS = {"rack": IncidentKind(Owner.DATACENTRE, True), "leaf": IncidentKind(Owner.NETWORK, True),
         "power": IncidentKind(Owner.DATACENTRE, True)}
POLICY = policy(incidents=IncidentPolicy(kinds=KINDS))
AWAY = {"in_service": False, "lifecycle": "maintenance"}
SMALL = 17


def name(number: int) -> str:
    return f"gpu{number:02}"


def dark(number: int, began: float = -1.0, sweeps: int = 5) -> tuple[Problem, ...]:
    return (problem("", "", node=name(number), status="unknown", began=began, sweeps=sweeps),)


def down(number: int, began: float = -1.0, rule: str = "port-state") -> tuple[Problem, ...]:
    return (problem(rule, "", node=name(number), began=began),)


def racks(number: int) -> dict[str, tuple[str, ...]]:
    """Four in a rack, each with a PDU of its own; two racks behind a leaf."""
    return {"rack": (f"r{number // 4}",), "power": (f"pdu-r{number // 4}",), "leaf": (f"leaf{number // 8}",)}


def site(
    sick: Mapping[int, tuple[Problem, ...]], *known: StoredIncident, size: int = SMALL,
    of: Mapping[int, Mapping[str, Any]] | None = None, by: TriagePolicy = POLICY,
) -> IncidentUpdate:
    """A small site; `of` are further values of a node."""
    nodes = tuple(NodeHistory(name(number), **{
        "problems": sick.get(number, ()), "domains": racks(number), "state": "healthy", "seen": at(-0.1),
        **(of or {}).get(number, {})}) for number in range(size))
    return live(FleetHistory(NOW, nodes, since=at(-2000), incidents=known, next_incident=5), by)


def away(numbers: Iterable[int], **more: Any) -> dict[int, dict[str, Any]]:
    return {number: {**AWAY, **more} for number in numbers}


def one(found: IncidentUpdate) -> Incident:
    (incident,) = found.incidents
    return incident


# ---- nodes that are not reached

@pytest.mark.parametrize("sweeps", [1, 5])
def test_a_rack_whose_pdu_went_dark_is_called_by_both_from_the_first_sweep_on(sweeps: int) -> None:
    found = one(site({number: dark(number, sweeps=sweeps) for number in range(4, 8)}))
    assert (found.kind, found.cause, found.owner) == ("unreached", "rack r1, power domain pdu-r1",
                                                      Owner.DATACENTRE)
    assert found.why.startswith("4 of 17 nodes in service are not reached: all 4 nodes of rack r1 and power "
                                "domain pdu-r1: look there first, then at the head's own network")


def test_its_nodes_in_maintenance_are_its_nodes() -> None:
    sick = {number: dark(number) for number in range(4, 8)}
    found = one(site(sick, of=away((4, 7))))
    assert found.nodes == ("gpu05", "gpu06") and found.cause == "rack r1, power domain pdu-r1"
    assert "all 4 nodes of rack r1 and power domain pdu-r1 (2 of them not in service)" in found.why


def test_one_in_maintenance_that_answers_is_one_that_is_missing_and_one_that_was_never_looked_at_is_no_member(
) -> None:
    sick = {number: dark(number) for number in (5, 6)}
    assert one(site(sick, of=away((4, 7)))).cause == "network, power or access"
    found = one(site(sick, of=away((4, 7), state="", seen=0.0, lifecycle="planned")))
    assert found.cause == "rack r1, power domain pdu-r1" and "all 2 nodes of rack r1" in found.why


def test_those_in_maintenance_that_were_dark_long_before_are_said_beside_and_prove_nothing() -> None:
    sick = {4: dark(4), 5: dark(5), 6: dark(6, began=-40), 7: dark(7, began=-40)}
    found = one(site(sick, of=away((6, 7))))
    assert (
        "all 2 nodes of rack r1 and power domain pdu-r1 (beside 2 not in service that had it before): look"
        in found.why)
    sick = {0: dark(0), 4: dark(4), **{number: dark(number, began=-40) for number in (5, 6, 7)}}
    assert one(site(sick, of=away((5, 6, 7)))).cause == "network, power or access"


def test_nearly_all_of_a_place_is_said_with_how_many() -> None:
    found = one(site({number: dark(number) for number in (4, 5, 6)}))
    assert "3 of 4 nodes of rack r1 and power domain pdu-r1: look there first" in found.why
    assert one(site({number: dark(number) for number in (4, 8)})).cause == "network, power or access"


def test_two_racks_at_once_are_each_called_by_name_and_what_is_elsewhere_is_counted() -> None:
    sick = {number: dark(number) for number in (*range(4), *range(8, 12), 14)}
    found = one(site(sick))
    assert found.cause == "rack r0, power domain pdu-r0, rack r2, power domain pdu-r2 and elsewhere"
    assert ("all 4 nodes of rack r0 and power domain pdu-r0, all 4 nodes of rack r2 and power domain pdu-r2, "
            "and 1 elsewhere: look there first" in found.why and found.owner is Owner.OPERATOR)


def test_a_leaf_with_all_of_its_racks_is_said_before_them() -> None:
    found = one(site({number: dark(number) for number in range(8, 16)}))
    assert found.cause.startswith("leaf leaf1, rack r2, power domain pdu-r2, rack r3")
    assert found.owner is Owner.NETWORK


def test_where_nearly_the_whole_fleet_is_not_reached_no_place_is_named() -> None:
    for sick in (range(17), range(1, 17)):
        found = one(site({number: dark(number) for number in sick}))
        assert found.cause == "network, power or access" and "rack" not in found.why


def test_of_a_rail_optimised_fabric_not_every_leaf_is_listed() -> None:
    leaves = {number: {"domains": {"rack": (f"r{number // 4}",),
                                   "leaf": tuple(f"l{number // 4}-{rail}" for rail in range(8))}}
              for number in range(SMALL)}
    found = one(site({number: dark(number) for number in range(4, 8)}, of=leaves))
    assert "all 4 nodes of rack r1 and leaf l1-0, l1-1, l1-2, l1-3 and 4 more: look there" in found.why


def stored(cause: str, nodes: Iterable[int], ended: float | None = None) -> StoredIncident:
    until = at(ended) if ended is not None else None
    members = tuple(IncidentMember(name(number), at(-9), at(-8), until) for number in nodes)
    return StoredIncident(2, "unreached", cause, ("not reached",), "operator", "", 0.0, at(-9), at(-8),
                          members, until, "triage" if ended is not None else "")


def test_it_stays_one_incident_while_more_places_go_and_comes_back_as_itself_but_not_as_another_place(
) -> None:
    rack = {number: dark(number) for number in range(4, 8)}
    more = site({**rack, **{number: dark(number) for number in range(8, 12)}},
                stored("rack r1, power domain pdu-r1", range(4, 8)))
    assert one(more).id == 2 and "rack r2" in one(more).cause and more.ends == ()
    old = site(rack, stored("network, power or access", range(4, 8)))      # as an older muster called it
    assert one(old).id == 2 and one(old).cause == "rack r1, power domain pdu-r1"
    assert one(site(rack, stored("network, power or access", range(4, 8), -5))).id == 2
    assert one(site(rack, stored("rack r2, power domain pdu-r2", range(8, 12), -5))).id == 5


def test_a_rack_that_a_person_takes_out_of_service_while_it_is_dark_is_not_called_well() -> None:
    rack = {number: dark(number) for number in range(4, 8)}
    known = stored("rack r1, power domain pdu-r1", range(4, 8))
    (end,) = site(rack, known, of=away(range(4, 8))).ends
    assert end.why == ("it is over for nodes in service; not in service, and not well: gpu04, gpu05, gpu06 "
                       "and 1 more")
    (end,) = site({}, known, of=away(range(4, 8))).ends
    assert end.why == "it is over"
    # With one left in service it is the rack's incident.
    found = site(rack, known, of=away(range(5, 8)))
    assert [(each.kind, each.cause) for each in found.incidents] == [("rack", "r1")]


# ---- incidents of a place

@pytest.mark.parametrize(("sick", "is_one"), [(range(4, 8), True), (range(4, 7), True), ((4, 5), False),
                                              ((4, 5, 6, 11), False), ((4, 8, 12), False)])
def test_in_a_small_fleet_a_rack_as_a_whole_is_an_incident_though_chance_is_not_one_in_a_thousand(
    sick: Iterable[int], is_one: bool,
) -> None:
    found = site({number: down(number) for number in sick}).incidents
    assert [(each.kind, each.cause) for each in found] == [("rack", "r1")] * is_one
    if is_one:
        assert 10 <= found[0].likelihood < 1000 and not found[0].isolates
        assert found[0].why.startswith("rack r1, the same nodes as power domain pdu-r1: port-state on ")


def test_what_was_sure_once_stays_so_while_it_lasts_and_what_is_not_sure_isolates_no_one() -> None:
    sick = {number: down(number) for number in range(4, 8)}
    members = tuple(IncidentMember(name(number), at(-9), at(-0.1)) for number in range(4, 12))
    for likelihood, isolates in ((2000.0, True), (300.0, False)):
        known = StoredIncident(2, "rack", "r1", ("port-state",), "datacentre", "", likelihood,
                               at(-9), at(-0.1),
                               members)
        found = one(site(sick, known))
        assert (found.id, found.likelihood, found.isolates) == (2, likelihood, isolates)
    large = site(sick, size=64)
    assert one(large).isolates and one(large).likelihood >= 1000


def test_the_policy_says_how_much_evidence_a_whole_place_needs() -> None:
    sick = {number: down(number) for number in range(4, 8)}
    strict = replace(POLICY, incidents=replace(POLICY.incidents, whole=1000))
    assert site(sick, by=strict).incidents == ()


@pytest.mark.parametrize("serving", [1, 2, 3])
def test_nodes_in_maintenance_bear_witness_and_are_in_no_incident(serving: int) -> None:
    sick = {number: down(number) for number in range(4, 8)}
    gone = range(4 + serving, 8)
    found = one(site(sick, of=away(gone)))
    assert (found.kind, found.cause, found.nodes) == ("rack", "r1",
                                                      tuple(name(number) for number in range(4, 4 + serving)))
    assert (f"port-state on {serving} of its {serving} nodes in service and on {len(gone)} that are not "
            f"({', '.join(name(number) for number in gone)})" in found.why)
    assert {member.node for member in found.members} == set(found.nodes)
    assert site(sick, of=away(range(4, 8))).incidents == ()         # no one in service: no incident


def test_what_a_node_in_maintenance_has_had_since_before_says_nothing_either_way() -> None:
    sick = {4: down(4), **{number: down(number, began=-30) for number in (5, 6, 7)}}
    assert site(sick, of=away((5, 6, 7))).incidents == ()
    sick = {**{number: down(number) for number in (4, 5, 6)}, 7: down(7, began=-30)}
    assert "on 3 of its 3 nodes in service, of" in one(site(sick, of=away((7,)))).why
    assert "and on 1 that are not (gpu07)" in one(site({**sick, 7: down(7, began=-1.2)}, of=away((7,)))).why


def test_one_in_maintenance_that_is_well_and_was_looked_at_lately_speaks_against_it() -> None:
    sick = {number: down(number) for number in (4, 5, 6)}
    more = {number: down(number) for number in (4, 5)}
    assert site({**more, 6: down(6)}, of=away((7,))).incidents[0].cause == "r1"
    wide = {number: {"domains": {"rack": ("r1",) if 4 <= number < 12 else ("r9",)}}
            for number in range(SMALL)}
    out = {number: {**wide[number], **AWAY} for number in range(7, 12)}
    assert site(sick, of={**wide, **out}).incidents == ()
    stale = {number: {**out[number], "seen": at(-30)} for number in out}
    assert one(site(sick, of={**wide, **stale})).cause == "r1"


def test_what_the_place_cannot_cause_is_no_incident_however_whole() -> None:
    causes = (Causes("memory", "", frozenset({"moment"}), ("host-memory",)),)
    by = replace(POLICY, incidents=replace(POLICY.incidents, causes=causes))
    assert site({number: down(number, rule="host-memory") for number in range(4, 8)}, by=by).incidents == ()


def test_a_power_domain_of_two_racks_names_them_and_two_racks_at_once_are_two() -> None:
    halls = {number: {"domains": {"rack": (f"r{number // 8}",), "power": (f"p{number // 16}",)}}
             for number in range(64)}
    found = one(site({number: down(number) for number in range(16, 32)}, size=64, of=halls))
    assert (found.kind, found.cause) == ("power", "p1")
    assert found.why.endswith("; with it all 8 nodes of rack r2, all 8 nodes of rack r3")
    two = site({number: down(number) for number in (*range(8, 16), *range(40, 48))}, size=64, of=halls)
    assert sorted(each.cause for each in two.incidents) == ["r1", "r5"]


def test_behind_eight_leaves_of_a_rail_optimised_fabric_rack_and_pdu_are_named_before_the_other_leaves(
) -> None:
    rails = {number: {"domains": {**racks(number),
                                  "leaf": tuple(f"l{number // 4}-{rail}" for rail in range(8))}}
             for number in range(SMALL)}
    found = one(site({number: down(number) for number in range(4, 8)}, of=rails))
    assert found.why.startswith("leaf l1-0, the same nodes as rack r1, power domain pdu-r1, leaf l1-1: port-")


def test_two_racks_of_a_small_fleet_at_once_are_two_incidents_and_all_racks_are_none() -> None:
    two = site({number: down(number) for number in (*range(4), *range(12, 16))}).incidents
    assert sorted((each.cause, each.nodes[0]) for each in two) == [("r0", "gpu00"), ("r3", "gpu12")]
    assert all(each.likelihood >= 10 for each in two)
    assert site({number: down(number) for number in range(16)}).incidents == ()
    assert site({number: down(number) for number in (*range(4), 5, 9, 13)}).incidents == ()


def test_what_many_nodes_cannot_measure_is_said_with_the_places_that_went_as_a_whole() -> None:
    sick = {number: (problem("filesystem-answers", "", node=name(number), status="unknown"),)
            for number in range(4, 8)}
    found = one(site(sick, of=away((5,))))
    assert found.kind == "unmeasured" and found.why.startswith(
        "3 of 16 nodes in service cannot measure filesystem-answers: all 4 nodes of rack r1 and power domain "
        "pdu-r1 (1 of them not in service): look there first; else a tool,")


def test_the_only_rack_of_a_site_says_nothing() -> None:
    all_in = {number: {"domains": {"rack": ("r0",), "power": ("p0",)}} for number in range(8)}
    assert site({number: down(number) for number in range(8)}, size=8, of=all_in).incidents == ()


@given(st.integers(2, 500), st.data())
def test_all_is_nearly_all_and_half_never_is(size: int, data: st.DataObject) -> None:
    assert nearly_all(size, size)
    hits = data.draw(st.integers(0, size))
    if nearly_all(hits, size):
        assert 3 * hits >= 2 * size and nearly_all(min(size, hits + 1), size)
    assert not nearly_all(size // 2, size)


OF_NODE = ("well", "down", "down early", "dark", "away", "away down", "away down early", "away dark", "new")
KINDS_OF_NODES = st.tuples(*(st.sampled_from(OF_NODE).flatmap(lambda most: st.lists(
    st.sampled_from([most] * 8 + [*OF_NODE]), min_size=4, max_size=4)) for _ in range(5)))


@settings(deadline=None, max_examples=tries(80))
@given(KINDS_OF_NODES)
def test_whatever_is_wrong_with_whom_incidents_are_of_nodes_in_service_that_show_it_there(
    by_rack: tuple[list[str], ...],
) -> None:
    kinds = [kind for rack in by_rack for kind in rack]
    sick = {number: dark(number) if "dark" in kind else down(number, -30 if "early" in kind else -1)
            for number, kind in enumerate(kinds) if "d" in kind}
    of = {number: {**(AWAY if "away" in kind else {}),
                   **({"state": "", "seen": 0.0} if kind == "new" else {})}
          for number, kind in enumerate(kinds)}
    for each in site(sick, size=20, of=of).incidents:
        what = "dark" if each.symptoms == ("not reached",) else "down"
        showing = {name(number) for number, kind in enumerate(kinds) if what in kind and "away" not in kind}
        assert each.nodes and set(each.nodes) <= showing
        if each.kind not in KINDS:
            continue
        there = {number for number in range(20) if each.cause in racks(number)[each.kind]}
        assert set(each.nodes) <= {name(number) for number in there} and each.likelihood >= 10
        if each.likelihood < 1000:
            # Only as a whole: of those that have a say one at most does not show it.
            assert sum(what not in kinds[number] for number in there) <= 1


# ---- how many are nearly all, and how places are told

@pytest.mark.parametrize(("hits", "size", "is_so"), [(1, 1, False), (2, 2, True), (2, 3, False), (3, 4, True),
                                                     (3, 5, False), (14, 16, True), (13, 16, False)])
def test_one_may_be_missing_of_three_and_more_and_one_in_eight_of_many(hits: int, size: int,
                                                                       is_so: bool) -> None:
    assert nearly_all(hits, size) is is_so


def found_in(concerned: Mapping[str, float], kinds: Iterable[str] = ("rack",), window: float = 60.0,
             out: Iterable[str] = ()) -> list[WholePlace]:
    """Of four racks of four, in a batch."""
    nodes = tuple(NodeHistory(name(number), state="healthy", in_service=name(number) not in out,
                              domains={**racks(number), "batch": (f"b{number // 4}",)})
                  for number in range(16))
    return wholly(FleetHistory(NOW, nodes), concerned, tuple(kinds), window)


def test_only_places_of_the_kinds_that_are_asked_for_and_that_can_fail_as_one_are_found() -> None:
    dark_rack = dict.fromkeys(map(name, range(4)), 100.0)
    assert [(one.kind, one.place) for one in found_in(dark_rack)] == [("rack", "r0")]
    assert ({one.kind for one in found_in(dark_rack, ("rack", "power"))} == {"rack", "power"}
            and found_in(dark_rack, ("batch",)) == [])


def test_one_out_of_service_counts_where_it_began_within_the_window_before_the_first_that_serves() -> None:
    def before(seconds: float) -> int:
        (place,) = found_in({name(0): 100.0 - seconds, name(1): 100.0, name(2): 500.0, name(3): 100.0},
                            out=(name(0),))
        return place.before

    assert before(60) == 0 and before(60.5) == 1


def places(number: int, kind: str = "rack", *nodes: str) -> list[WholePlace]:
    return [WholePlace(kind, f"r{at}", frozenset(nodes or (f"n{at}a", f"n{at}b")), 2) for at in range(number)]


def test_so_many_places_are_listed_and_the_others_counted() -> None:
    assert "more" not in listed(places(6)) and listed(places(7)).endswith(" and 1 places more")
    assert "more" not in title(places(6)) and title(places(7)).endswith(" and 1 more")
    assert title(places(4, "rack", "a", "b")) == "rack r0, r1, r2, r3"
    assert title(places(5, "rack", "a", "b")) == "rack r0, r1, r2, r3 and 1 more"
