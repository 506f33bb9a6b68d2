"""Ports of many nodes whose cables are of one delivery lot are one incident of the vendor, which isolates no
node."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import pytest

from healthcheck.model.hardware import Now
from healthcheck.model.outcome import Owner
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import Incident, IncidentMember, StoredIncident
from healthcheck.store.file import Store
from healthcheck.store.hardware import newest_hardware, write_hardware
from healthcheck.triage.fleetlots import LOT
from healthcheck.triage.gather import gather
from healthcheck.triage.incidents import live
from healthcheck.triage.lots import PartLot
from healthcheck.triage.partslist import guid_key, parts_of
from healthcheck.triage.past import FleetHistory, NodeHistory
from healthcheck.triage.plan import make
from healthcheck.triage.policy import IncidentKind, IncidentPolicy
from inventory.model import Node
from tests.healthcheck.triage.made import NOW, at, policy, problem

NODES = 64
OLD, NEW = PartLot("NVIDIA", "MFP7E10", "2306"), PartLot("NVIDIA", "MFP7E10", "2311")
POLICY = policy(incidents=IncidentPolicy(kinds={"leaf": IncidentKind(Owner.NETWORK, True),
                                                "rack": IncidentKind(Owner.NETWORK, True)}))
BAD = "port-errors-rate"


def name(at: int) -> str:
    return f"n{at:03}"


def hardware(at: int, **more: str) -> Now:
    """Two adapters; the cable of the second is of the new lot in every fourth node."""
    new = at % 4 == 0
    return Now({"nic 0000:18:00.0": {"device": "mlx5_0"}, "nic 0000:2a:00.0": {"device": "mlx5_1"}},
               frozenset({"nic"}), "b", {}, {
                   "mlx5_0": {"vendor": "NVIDIA", "part": "MFP7E10", "serial": f"A{at}", "date": "2306",
                              "adapter": "MT_0000000838", "guid": f"a088c20300{at:06x}"},
                   "mlx5_1": {"vendor": "NVIDIA", "part": "MFP7E10", "serial": f"B{at}",
                              "date": "2311" if new else "2306", **more}})


def sick(numbers: Iterable[int], subject: str = "mlx5_1/1",
         rule: str = BAD) -> dict[int, tuple[Problem, ...]]:
    # Each at a time of its own, so that no moment explains them.
    return {number: (problem(rule, subject, node=name(number), began=-100 - 7 * number, severity="warning"),)
            for number in numbers}


def fleet(problems: Mapping[int, tuple[Problem, ...]], *known: StoredIncident,
          delivered: Mapping[str, PartLot] | None = None,
          leaf: Mapping[int, str] | None = None, away: Collection[int] = ()) -> FleetHistory:
    nodes = tuple(NodeHistory(name(number), number not in away, problems=problems.get(number, ()),
                              domains={"leaf": ((leaf or {}).get(number, f"l{number % 16}"),),
                                       "rack": (f"r{number // 8}",)})
                  for number in range(NODES))
    return FleetHistory(NOW, nodes, since=at(-2000), incidents=known, next_incident=7,
                        parts=parts_of({name(number): hardware(number) for number in range(NODES)},
                                       delivered or {}))


def lots(seen: FleetHistory) -> list[tuple[str, str, int]]:
    return [(one.cause, one.owner.value, len(one.nodes))
            for one in live(seen, POLICY).incidents if one.kind == LOT]


NEWER = range(0, NODES, 4)      # the nodes with a cable of the new lot


def test_ports_whose_cables_are_of_one_lot_are_one_incident_of_the_vendor() -> None:
    # Nodes of the new lot are behind four leaves here: spread them, so that no place explains it.
    spread = {number: f"l{number // 4 % 16}" for number in range(NODES)}
    seen = fleet(sick([*list(NEWER)[:9], 1]), leaf=spread)
    assert lots(seen) == [("cable NVIDIA MFP7E10 of 2311", "vendor", 9)]
    (one,) = (one for one in live(seen, POLICY).incidents if one.kind == LOT)
    assert (not one.isolates and one.likelihood > 1000
            and "of 9 of its 16 (B0, B4, B8, B12 ...), of 10 parts with it among 128" in one.why)
    assert one.id == 7 and [member.node for member in one.members] == list(one.nodes)


SPREAD = {number: f"l{number // 4 % 16}" for number in range(NODES)}


def the_lot(seen: FleetHistory) -> Incident:
    (one,) = (one for one in live(seen, POLICY).incidents if one.kind == LOT)
    return one


def test_parts_of_nodes_that_are_not_in_service_do_not_count() -> None:
    one = the_lot(fleet(sick(list(NEWER)[:9]), leaf=SPREAD, away=[60, 61]))
    assert "of 9 of its 15 (" in one.why and "among 124 whose lot is known" in one.why


def test_what_is_of_no_part_asks_for_no_more_evidence_of_a_lot() -> None:
    bad = sick(list(NEWER)[:9])
    beside = sick([1, 3, 5], subject="port 9", rule="port-ber")
    assert the_lot(fleet(bad | beside, leaf=SPREAD)).likelihood == the_lot(fleet(bad, leaf=SPREAD)).likelihood


def test_three_nodes_may_show_a_bad_lot_and_another_failing_cable_of_one_of_them_takes_nothing_away() -> None:
    delivered = {f"B{number}": PartLot("Acme", "AOC", "W1") for number in (0, 4, 8)}
    bad = sick((0, 4, 8))
    bad[0] += sick([0], subject="mlx5_7/1")[0]      # of an adapter that is not listed
    one = the_lot(fleet(bad, delivered=delivered, leaf=SPREAD))
    assert (one.cause, one.nodes) == ("cable Acme AOC of W1", ("n000", "n004", "n008"))
    assert "of 3 of its 3 (B0, B4, B8), of 3 parts with it" in one.why


def test_of_two_symptoms_of_a_lot_the_less_likely_is_quoted_and_four_parts_are_named() -> None:
    bad = sick(list(NEWER)[:9])
    for number, more in sick(list(NEWER)[:4], rule="port-ber").items():
        bad[number] += more
    delivered = {f"B{number}": PartLot("Acme", "AOC", "W1") for number in list(NEWER)[:9]}
    one = the_lot(fleet(bad, delivered=delivered, leaf=SPREAD))
    assert one.symptoms == ("port-ber", BAD)
    assert f"{BAD} of 9 of its 9 (B0, B4, B8, B12 ...)" in one.why
    few = the_lot(fleet(sick(list(NEWER)[:4]), leaf=SPREAD,
                        delivered={f"B{number}": PartLot("Acme", "AOC", "W1") for number in list(NEWER)[:4]}))
    assert "of 4 of its 4 (B0, B4, B8, B12), " in few.why


def test_it_changes_nothing_of_what_is_done_with_nodes() -> None:
    seen = fleet(sick(list(NEWER)[:9]), leaf={number: f"l{number // 4 % 16}" for number in range(NODES)})
    without = replace(seen, parts={})
    ours, plain = make(seen, POLICY), make(without, POLICY)
    assert (ours.verdicts, ours.steps, ours.withheld, ours.unfit) == (plain.verdicts, plain.steps,
                                                                      plain.withheld, plain.unfit)
    assert {one.kind for one in ours.incidents} - {one.kind for one in plain.incidents} == {LOT}


def test_what_a_leaf_explains_is_no_lots() -> None:
    """All of the new lot were laid at one leaf, whose nodes have it: the leaf goes before."""
    leaf = {number: "l99" if number in NEWER else f"l{number % 16}" for number in range(NODES)}
    assert lots(fleet(sick(NEWER), leaf=leaf)) == []
    assert [one.cause for one in live(fleet(sick(NEWER), leaf=leaf), POLICY).incidents] == ["l99"]


@pytest.mark.parametrize(("problems", "why"), [
    (sick(list(NEWER)[:2]), "two are too few"),
    (sick(list(NEWER)[:9], rule="port-lid"), "no cable gives a port its LID"),
    (sick(list(NEWER)[:9], subject="port 9"), "no adapter is named"),
    (sick(list(NEWER)[:9], subject="mlx5_0/1"), "the other cables are of the old lot"),
    ({0: tuple(problem(BAD, f"mlx5_1/{number}", node="n000", severity="warning") for number in range(9))},
     "one node's")])
def test_no_lot_is_named_without_evidence(problems: Mapping[int, tuple[Problem, ...]], why: str) -> None:
    assert lots(fleet(problems, leaf={number: f"l{number // 4 % 16}" for number in range(NODES)})) == [], why


@pytest.mark.parametrize("seed", range(20))
def test_ports_at_random_name_no_lot(seed: int) -> None:
    assert lots(fleet(sick(random.Random(seed).sample(range(NODES), 14)))) == []


def test_adapters_are_of_the_lot_that_the_delivery_list_says() -> None:
    delivered = {guid_key(f"a088c20300{number:06x}"): PartLot("NVIDIA", "MCX75310", "W12" if number < 16
                                                              else "W20") for number in range(NODES)}
    problems = sick(range(0, 16, 2), subject="mlx5_0 (0000:18:00.0)", rule="hca-pcie-width")
    assert lots(fleet(problems, delivered=delivered)) == [("adapter NVIDIA MCX75310 of W12", "vendor", 8)]
    assert lots(fleet(problems)) == []      # the board alone is the same in all


def known(**more: float) -> StoredIncident:
    return StoredIncident(3, LOT, "cable NVIDIA MFP7E10 of 2311", (BAD + " of mlx5_1",), "vendor",
                          "as it was found", 5e6, at(-50), at(-1),
                          tuple(IncidentMember(name(number), at(-50), at(-1)) for number in NEWER), **more)


def test_an_open_one_goes_on_while_any_cable_of_it_fails_and_ends_with_the_last() -> None:
    spread = {number: f"l{number // 4 % 16}" for number in range(NODES)}
    symptoms = live(fleet(sick(list(NEWER)[:9]), leaf=spread), POLICY).incidents[0].symptoms
    before = replace(known(), symptoms=symptoms)
    (one,) = (one for one in live(fleet(sick([8]), before, leaf=spread), POLICY).incidents if one.kind == LOT)
    assert (one.id, one.nodes, one.why) == (3, ("n008",), "as it was found")
    assert one.owner is Owner.VENDOR and one.symptoms == symptoms
    # Another lot's cable with it, or something else of this one, does not keep it open; nor does one cable
    # open it again.
    for other in (sick([1]), sick([8], rule="optics-alarm")):
        assert lots(fleet(other, before, leaf=spread)) == []
    for by in ("triage", "ann"):
        assert lots(fleet(sick([8]), replace(before, ended=at(-0.5), by=by), leaf=spread)) == []
    over = live(fleet({}, before, leaf=spread), POLICY)
    assert over.incidents == () and [(end.id, end.why) for end in over.ends] == [(3, "it is over")]


def test_the_store_keeps_what_a_module_states_until_another_one_is_read(store: Store) -> None:
    with store.writing() as db:
        db.execute("INSERT INTO node (name) VALUES ('n000')")
        write_hardware(db, 1, at(-2), hardware(0))
        write_hardware(db, 1, at(-1), Now({}, frozenset(), "b", {}, {"mlx5_1": {"adapter": "X"}}))
    assert newest_hardware(store)["n000"][1].parts["mlx5_1"] == {"vendor": "NVIDIA", "part": "MFP7E10",
                                                                 "serial": "B0", "date": "2311",
                                                                 "adapter": "X"}
    with store.writing() as db:
        write_hardware(db, 1, at(-1), hardware(1))
    assert newest_hardware(store)["n000"][1].parts["mlx5_1"]["serial"] == "B1"
    assert gather(store, [Node("n000")], POLICY, NOW).parts == {}       # nothing is wrong: nothing is read
