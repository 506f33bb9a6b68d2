"""Faults that one delivery lot shares are one incident of the vendor; faults that chance spreads are none."""

from __future__ import annotations

import random

import pytest

from healthcheck.model.outcome import Owner
from healthcheck.triage.lots import PartLot, faulty_lots

OLD, NEW, OTHER = PartLot("NVIDIA", "MFP7E10", "2306"), PartLot("NVIDIA", "MFP7E10",
                                                                "2311"), PartLot("Acme", "AOC-3", "2306")
LOTS = {**{f"leaf01 port {at}": OLD for at in range(1, 41)},
        **{f"leaf02 port {at}": NEW for at in range(1, 21)},
        **{f"leaf03 port {at}": OTHER for at in range(1, 61)}}


def test_faults_of_one_date_code_are_one_incident_of_the_vendor() -> None:
    found = faulty_lots(LOTS, {*(f"leaf02 port {at}" for at in range(1, 9)), "leaf03 port 4"})
    assert [(one.lot, one.owner, len(one.subjects), one.inside, one.had)
            for one in found] == [(NEW, Owner.VENDOR, 8, 20, 9)]
    assert str(found[0].lot) == "NVIDIA MFP7E10 of 2311" and found[0].likelihood > 1000


def test_faults_of_all_date_codes_of_a_part_are_the_parts() -> None:
    found = faulty_lots(LOTS, {*(f"leaf01 port {at}" for at in range(1, 21)),
                               *(f"leaf02 port {at}" for at in range(1, 11))})
    assert [one.lot for one in found] == [PartLot("NVIDIA", "MFP7E10")]


def test_two_lots_are_two_incidents() -> None:
    wide = {**LOTS, **{f"leaf04 port {at}": PartLot("Beta", "B1", "2401") for at in range(1, 11)}}
    found = faulty_lots(wide, {*(f"leaf02 port {at}" for at in range(1, 13)),
                               *(f"leaf04 port {at}" for at in range(1, 9))})
    assert [one.lot for one in found] == [NEW, PartLot("Beta", "B1", "2401")]


def test_parts_that_state_no_lot_speak_neither_way_and_are_counted() -> None:
    found = faulty_lots(LOTS,
                        {*(f"leaf02 port {at}" for at in range(1, 9)), "leaf09 port 1", "leaf09 port 2"})
    assert [one.unknown for one in found] == [2] and not faulty_lots({}, {"leaf09 port 1"})


def test_a_lot_that_fails_little_more_often_than_others_is_none_however_many_parts_there_are() -> None:
    many = {**{f"a{at}": OLD for at in range(4000)}, **{f"b{at}": OTHER for at in range(4000)}}
    twice = {*(f"a{at}" for at in range(400)), *(f"b{at}" for at in range(200))}
    assert not faulty_lots(many, twice)
    assert [one.lot for one in faulty_lots(many, {*twice, *(f"a{at}" for at in range(700))})] == [OLD]


def test_three_faulty_parts_that_are_all_there_are_may_be_a_lot() -> None:
    (one,) = faulty_lots(LOTS, [f"leaf02 port {at}" for at in range(1, 4)], likelihood=20)
    assert (one.lot, len(one.subjects), one.had) == (NEW, 3, 3)


def test_a_lot_that_fails_just_three_times_as_often_and_is_just_as_unlikely_as_asked_for_is_one() -> None:
    many = {**{f"a{at}": OLD for at in range(4096)}, **{f"b{at}": OTHER for at in range(4096)}}
    faulty = {*(f"a{at}" for at in range(384)), *(f"b{at}" for at in range(128))}
    (one,) = faulty_lots(many, faulty)
    assert one.lot == OLD and not faulty_lots(many, {*faulty, "b128"})
    assert faulty_lots(many, faulty, likelihood=one.likelihood) == (one,)


@pytest.mark.parametrize("faulty", [1, 2])
def test_fewer_than_three_faulty_parts_are_no_lot(faulty: int) -> None:
    assert not faulty_lots(LOTS, [f"leaf02 port {at}" for at in range(1, faulty + 1)])


def test_more_symptoms_ask_for_more_evidence() -> None:
    few = [f"leaf02 port {at}" for at in range(1, 5)]
    assert faulty_lots(LOTS, few, likelihood=50) and not faulty_lots(LOTS, few, likelihood=50, symptoms=100)


def test_one_lot_for_everything_explains_nothing() -> None:
    assert not faulty_lots(dict.fromkeys(LOTS, OLD), set(list(LOTS)[:20]))


@pytest.mark.parametrize("seed", range(20))
def test_faults_at_random_places_name_no_lot(seed: int) -> None:
    assert not faulty_lots(LOTS, random.Random(seed).sample(sorted(LOTS), 12))
