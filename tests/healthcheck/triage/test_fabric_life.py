"""The life of incidents of what subnets show, asked directly: which goes on, in which it ends, what a person
closed, and its words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from healthcheck.model.faultkind import FaultKind, Isolation
from healthcheck.model.outcome import Owner, Repair
from healthcheck.model.verdict import Fault, Incident, IncidentMember, StoredIncident, Verdict
from healthcheck.store.fabricfindings import FabricTrouble
from healthcheck.subnet.check.findings import FabricRule, PlaceKind
from healthcheck.subnet.kept import TouchedDevice
from healthcheck.subnet.model import FabricEnd
from healthcheck.triage.fabricincidents import FabricIncidents, fabric_incidents, owed
from healthcheck.triage.past import NodeHistory
from tests.healthcheck.triage.made import NOW, at, fleet, past, problem, trouble

CABLE, OTHER = "leaf001 port 2 to gpu02 mlx5_0", "leaf001 port 3 to gpu03 mlx5_0"
SYMPTOMS = ("subnet-link-down",)
OF_LEAF = TouchedDevice("leaf", "leaf001", 8, 4)


def known(number: int = 1, kind: str = "link", place: str = CABLE, **more: Any) -> StoredIncident:
    values: dict[str, Any] = {"symptoms": SYMPTOMS, "owner": "network", "why": "", "likelihood": 0.0,
                              "began": at(-3), "seen": at(-0.1), "members": (), **more}
    return StoredIncident(number, kind, place, **values)


def shared(kind: str = "leaf", cause: str = "leaf009", nodes: Sequence[str] = ("gpu02", "gpu03"),
           why: str = "2 of 2 nodes") -> Incident:
    return Incident(kind, cause, tuple(nodes), why, Owner.NETWORK, 9)


def life(*troubles: FabricTrouble, before: Sequence[StoredIncident] = (), others: Sequence[Incident] = (),
         nodes: Sequence[NodeHistory] = ()) -> FabricIncidents:
    return fabric_incidents(fleet(*nodes, fabric=troubles, incidents=tuple(before)), others,
                            lambda kind, place, symptoms: 7)


def numbers(found: FabricIncidents) -> list[tuple[int, str]]:
    return [(one.id, one.cause) for one in found.incidents]


def test_what_triage_ended_opens_again_while_the_subnet_shows_it_and_what_a_person_closed_does_not() -> None:
    ended = {"ended": at(-0.5)}
    assert numbers(life(trouble(), before=[known(**ended, by="triage")])) == [(7, CABLE)]
    assert numbers(life(trouble(), before=[known(**ended, by="ann")])) == []


@pytest.mark.parametrize(("closed", "shows", "is_open"), [
    ({}, {}, False), ({}, {"began": -0.5}, False), ({}, {"began": -0.4}, True),
    ({}, {"rule": FabricRule.WIDTH}, True), ({}, {"place": OTHER}, True),
    ({}, {"place": "leaf001 port 2 to gpu07 mlx5_3"}, False),       # the same port leads elsewhere by now
    ({"kind": "leaf", "place": "leaf001"}, {}, True),
    ({"kind": "leaf", "place": "leaf001"}, {"touched": (OF_LEAF, TouchedDevice("node", "", 8, 7))}, False),
    ({"kind": "leaf", "place": "leaf002"}, {"touched": (OF_LEAF, TouchedDevice("node", "", 8, 7))}, True)])
def test_what_a_person_closed_covers_that_place_and_all_that_was_there_and_nothing_else(
    closed: dict[str, Any], shows: dict[str, Any], is_open: bool,
) -> None:
    found = life(trouble(**shows), before=[known(**closed, ended=at(-0.5), by="ann")])
    assert bool(found.incidents) is is_open


def test_what_nodes_share_is_not_ended_because_no_subnet_shows_it() -> None:
    before = [known(1, symptoms=("port-state",)), known(2)]
    assert [end.id for end in life(before=before).ends] == [2]


def test_the_incident_of_the_very_place_goes_on_and_those_of_its_parts_end_in_it() -> None:
    leaf = trouble(1, "leaf001", FabricRule.SWITCH, PlaceKind.LEAF)
    links = [trouble(2, CABLE, touched=(OF_LEAF,)), trouble(3, OTHER, touched=(OF_LEAF,))]
    found = life(leaf, *links, before=[known(1), known(2, place=OTHER), known(3, "leaf", "leaf001")])
    assert numbers(found) == [(3, "leaf001")] and found.incidents[0].began == at(-3)
    assert [(end.id, end.why, end.into) for end in found.ends] == [
        (1, "it is part of incident 3", 3), (2, "it is part of incident 3", 3)]


@pytest.mark.parametrize(("more", "incident", "joins"), [
    ({}, shared(), True), ({}, shared("rail", "3"), True), ({}, shared("unreached", ""), True),
    ({"nodes": ("gpu02", "gpu03")}, shared(), True), ({"nodes": ("gpu02", "gpu04")}, shared(), False),
    ({}, shared("driver", "570"), False), ({"rule": FabricRule.ERRORS}, shared(), False),
    ({"nodes": ()}, shared(), False),
    ({"kind": PlaceKind.SWITCH, "place": "spine001", "rule": FabricRule.LINK}, shared(), False),
    ({"kind": PlaceKind.LEAF, "place": "leaf009", "rule": FabricRule.FAN}, shared(), True)])
def test_a_link_that_is_down_is_part_of_the_place_that_takes_all_its_nodes(
    more: dict[str, Any], incident: Incident, joins: bool,
) -> None:
    one = trouble(**{"nodes": ("gpu02",), **more})
    was = known(place=one.finding.place)
    found = life(one, before=[was] * (one.finding.kind is PlaceKind.LINK), others=[incident])
    (other,) = found.others
    if joins:
        assert found.incidents == () and f"; the subnet shows {one.finding.rule.value} at " in other.why
        assert [(end.id, end.why, end.into) for end in found.ends] == [
            (1, "it is part of incident 9", 9)] * (one.finding.kind is PlaceKind.LINK)
    else:
        assert [cause for _, cause in numbers(found)] == [one.finding.place] and other == incident


@pytest.mark.parametrize(("count", "end"), [(3, "port 3 to x"), (4, "port 3 to x; and more"),
                                            (6, "port 3 to x; and more")])
def test_of_what_the_subnet_shows_beside_an_incident_three_places_are_named(count: int, end: str) -> None:
    links = [trouble(number, f"leaf001 port {number} to x", nodes=("gpu02",))
             for number in range(1, count + 1)]
    (other,) = life(*links, others=[shared()]).others
    assert other.why == ("2 of 2 nodes; the subnet shows link-down at leaf001 port 1 to x; "
                         f"link-down at leaf001 port 2 to x; link-down at leaf001 {end}")


def test_an_incident_lasts_from_the_first_to_the_last_that_shows_it_and_so_does_each_node_of_it() -> None:
    found = life(trouble(1, "leaf001", FabricRule.FAN, PlaceKind.LEAF, began=-5, seen=-2, nodes=("n1", "n2")),
                 trouble(2, "leaf001", FabricRule.SUPPLY, PlaceKind.LEAF, began=-3, seen=-1, nodes=("n2",)),
                 trouble(3, "leaf001", FabricRule.SWITCH, PlaceKind.LEAF, began=-9, seen=-0.5, nodes=("n3",)))
    (one,) = found.incidents
    assert one.began == at(-9) and one.why.endswith("since 2027-01-14T23:00Z")
    assert one.members == (IncidentMember("n1", at(-5), at(-2)), IncidentMember("n2", at(-5), at(-1)),
                           IncidentMember("n3", at(-9), at(-0.5)))


LEAF_SHOWS = tuple(trouble(number, "leaf001", rule, PlaceKind.LEAF, began=-9 + number)
                   for number, rule in enumerate((FabricRule.SWITCH, FabricRule.FAN, FabricRule.SUPPLY,
                                                  FabricRule.TEMPERATURE), 1))
ENDS = FabricEnd("a1", 2), FabricEnd("b1", 1)
OF_PORT = trouble(2, "leaf001 port 2", FabricRule.OPTICS, PlaceKind.PORT, ends=ENDS[:1])


@pytest.mark.parametrize(("troubles", "words"), [
    ([trouble(expected="active")], f"{CABLE}: link-down: 7, expected active"),
    ([trouble(ends=ENDS), OF_PORT], f"{CABLE}: link-down: 7; optics-power: 7"),
    ([OF_PORT], "leaf001 port 2: optics-power: 7"),
    ([LEAF_SHOWS[0], trouble(9, touched=(OF_LEAF,))],
     f"leaf leaf001: switch-missing: 7; link-down: 7 ({CABLE})"),
    (LEAF_SHOWS[:3], "leaf leaf001: switch-missing: 7; fan: 7; power-supply: 7"),
    (LEAF_SHOWS, "leaf leaf001: switch-missing: 7; fan: 7; power-supply: 7; and 1 more findings"),
    ([LEAF_SHOWS[0], replace(LEAF_SHOWS[1], missed=NOW)], "leaf leaf001: switch-missing: 7; fan: 7"),
    ([replace(LEAF_SHOWS[0], missed=at(-0.05), unmeasured="it was not read")],
     "leaf leaf001: switch-missing: 7; last measured 2027-01-15T07:54Z: at 2027-01-15T07:57Z "
     "it was not read"),
    ([replace(LEAF_SHOWS[0], seen=at(-2), missed=at(-1), unmeasured="it was not read"),
      replace(LEAF_SHOWS[1], seen=at(-1), missed=at(-0.5))],
     "leaf leaf001: switch-missing: 7; fan: 7; last measured 2027-01-15T07:00Z: at 2027-01-15T07:30Z "
     "it was not read")])
def test_its_words_are_its_first_findings_and_where_each_is_that_is_not_of_the_place_itself(
    troubles: Sequence[FabricTrouble], words: str,
) -> None:
    (one,) = life(*troubles).incidents
    assert one.why.partition("; next: ")[0] == words


PORT = FaultKind("port", "", ("port-*",), isolation=Isolation.NO_NEW_JOBS, repair=Repair.INSPECT)


@pytest.mark.parametrize(("repair", "owner"), [
    (Repair.INSPECT, Owner.DATACENTRE), (Repair.WATCH, Owner.DATACENTRE),
    (Repair.RESTART_SERVICE, Owner.NETWORK), (Repair.REPLACE, Owner.NETWORK)])
def test_who_mends_the_link_is_asked_for_what_its_node_shows_and_what_else_is_wrong_there_stays(
    repair: Repair, owner: Owner,
) -> None:
    own = problem("port-state", "mlx5_0", node="gpu03")
    first, second = (Fault(PORT, place, (one,), Isolation.NO_NEW_JOBS, repair, Owner.NETWORK, at(-1))
                     for place, one in (("mlx5_0", own), ("mlx5_1", problem("port-state", "mlx5_1"))))
    found = fabric_incidents(
        fleet(past("gpu03", own),
              fabric=(trouble(1, nodes=("gone",), parts=("mlx5_0",)),
                      trouble(2, OTHER, nodes=("gpu03",), parts=("mlx5_0",)))),
        (), lambda kind, place, symptoms: 7 + (place == OTHER))
    verdict = owed(Verdict("gpu03", Isolation.NO_NEW_JOBS, repair, Owner.NETWORK, "port", "it is down",
                           (first, second)), found)
    assert (verdict.owner, verdict.why) == (owner, f"it is down; one with incident 8, link {OTHER}")
    assert verdict.faults[0].owner is owner and verdict.faults[1:] == (second,)


def test_what_stands_in_an_incidents_name_or_has_no_fault_stays_as_it_is() -> None:
    own = problem("port-state", "mlx5_0", node="gpu03")
    found = life(trouble(2, OTHER, nodes=("gpu03",), parts=("mlx5_0",)), nodes=[past("gpu03", own)])
    fault = Fault(PORT, "mlx5_0", (own,), Isolation.NO_NEW_JOBS, Repair.INSPECT, Owner.NETWORK, at(-1))
    verdict = Verdict("gpu03", Isolation.NO_NEW_JOBS, Repair.INSPECT, Owner.NETWORK, "port", "it is down",
                      (fault,))
    assert owed(verdict, found) != verdict
    for one in (replace(verdict, incident=4), replace(verdict, faults=())):
        assert owed(one, found) == one
