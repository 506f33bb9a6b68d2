"""Counters as differences: thresholds by rate, resets, full counters, and what is not measured."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.subnet.check.counted import JUDGED, beyond_chance, counted, threshold
from healthcheck.subnet.check.findings import FabricFinding, FabricRule
from healthcheck.subnet.check.seen import CountedBefore, SeenSubnet
from healthcheck.subnet.join import FabricJoin
from healthcheck.subnet.model import (
    DeviceKind,
    FabricDevice,
    FabricEnd,
    FabricPort,
    LinkState,
    PortCounters,
    Subnet,
)
from healthcheck.subnet.samples import before, read, sample, write

A, B = FabricEnd("0" * 15 + "1", 1), FabricEnd("0" * 15 + "2", 1)


def link(shown: dict[str, int], speed: str | None = "NDR", full: frozenset[str] = frozenset(),
         zeros: bool = True) -> Subnet:
    """A link of two switches, whose first end shows these counters; without zeros the second shows all as
    0."""
    ports = {end: FabricPort(end, LinkState.ACTIVE, "linkup", 4, speed, peer=peer)
             for end, peer in ((A, B), (B, A))}
    return Subnet("", {end.guid: FabricDevice(end.guid, DeviceKind.SWITCH, f"s{end.guid[-1]}",
                                              ports={1: port}) for end, port in ports.items()},
                  counters=PortCounters({A: shown, **({} if zeros else {B: dict.fromkeys(JUDGED, 0)})},
                                        zeros=zeros, full={A: full} if full else {}))


def found(first: dict[str, int] | None, second: dict[str, int], seconds: float = 3600.0,
          speed: str | None = "NDR",
          full: bool = False) -> list[FabricFinding]:
    """What one link gives whose first end counted so at both samples."""
    names = frozenset({"LinkDownedCounter"}) if full else frozenset()
    held = {A: names} if full else {}
    subnet = link(second, speed, names)
    earlier = None if first is None else CountedBefore(1000.0, {A: first}, True, held)
    return list(counted(SeenSubnet(subnet, FabricJoin(), before=earlier, at=1000.0 + seconds)))


@pytest.mark.parametrize(("speed", "most"), [("QDR", 1e-12), ("FDR10", 1e-12), ("EDR", 1e-14), ("HDR", 1e-14),
                                             ("NDR", 1e-14), ("XDR", 1e-14)])
def test_the_threshold_is_by_rate(speed: str, most: float) -> None:
    assert threshold(speed) == most


def test_symbol_errors_count_by_the_bits_of_their_time() -> None:
    # NDR at 4 lanes carries 4.25e11 bits a second: 15 in an hour are 1e-14
    assert found({}, {"SymbolErrorCounter": 15}) == []
    (one,) = found({}, {"SymbolErrorCounter": 80})
    assert (one.rule, one.unknown) == (FabricRule.ERRORS, False) and "5.2e-14" in one.observed
    assert found({}, {"SymbolErrorCounter": 80}, seconds=7 * 86400.0) == []


def test_errors_of_a_link_whose_rate_is_not_known_are_unknown() -> None:
    assert [one.unknown for one in found({}, {"SymbolErrorCounter": 80}, speed=None)] == [True]


def test_a_counter_that_fell_was_reset_and_is_not_measured() -> None:
    assert [(one.unknown, one.observed[:19])
            for one in found({"SymbolErrorCounter": 9}, {})] == [(True, "counters were reset")]


def test_a_counter_that_stands_at_its_highest_value_is_not_measured() -> None:
    assert [one.unknown
            for one in found({"LinkDownedCounter": 255}, {"LinkDownedCounter": 255}, full=True)] == [True]


@pytest.mark.parametrize(("first", "seconds", "words"), [(None, 60.0, "no earlier sample"),
                                                         ({}, 0.0, "not earlier"), ({}, -5.0, "not earlier")])
def test_without_an_earlier_sample_counters_are_unknown(first: dict[str, int] | None, seconds: float,
                                                        words: str) -> None:
    (one,) = found(first, {}, seconds)
    assert one.unknown and words in one.observed


def test_samples_of_one_moment_show_nothing() -> None:
    (one,) = found({}, {}, seconds=0.2)
    assert one.unknown and one.observed == "the samples are less than a second apart"


def test_a_counter_that_has_come_to_its_highest_value_may_have_grown_more_and_is_not_measured() -> None:
    assert [one.unknown
            for one in found({"LinkDownedCounter": 255}, {"LinkDownedCounter": 255}, full=True)] == [True]
    subnet = link({"PortRcvErrors": 65535}, full=frozenset({"PortRcvErrors"}))
    earlier = CountedBefore(1000.0, {A: {"PortRcvErrors": 65530}}, True)
    assert [one.unknown
            for one in counted(SeenSubnet(subnet, FabricJoin(), before=earlier, at=4600.0))] == [True]


def named(**values: int) -> dict[str, int]:
    """All counters that are judged, 0 where not given."""
    return {**dict.fromkeys(JUDGED, 0), **values}


@pytest.mark.parametrize(("first", "second"), [
    (named(), {"PortXmitData": 5}), ({"PortXmitData": 5}, named(SymbolErrorCounter=900)), ({}, named()),
    (named(), {})])
def test_a_counter_that_one_sample_does_not_show_is_not_measured_and_not_0(first: dict[str, int],
                                                                           second: dict[str, int]) -> None:
    """As of perfquery, which alone does not say that it asked every port."""
    subnet = link(second, zeros=False)
    earlier = CountedBefore(1000.0, {A: first, B: named()}, False)
    (one,) = counted(SeenSubnet(subnet, FabricJoin(), before=earlier, at=4600.0))
    assert (one.unknown and one.place.ends == (A,)
            and one.observed.startswith("counters were not read at both samples: 1 port"))


def test_what_was_read_is_judged_and_what_was_not_is_named() -> None:
    subnet = link({"LinkDownedCounter": 3}, zeros=False)
    earlier = CountedBefore(1000.0, {A: named(), B: named()}, False)
    downs, unread = counted(SeenSubnet(subnet, FabricJoin(), before=earlier, at=4600.0))
    assert (downs.rule, downs.unknown, unread.unknown) == (FabricRule.FLAPPING, False, True)
    assert ("SymbolErrorCounter, PortRcvErrors" in unread.observed
            and "LinkDownedCounter" not in unread.observed)


def test_a_sample_keeps_a_0_that_was_read_where_what_it_does_not_show_is_not_known() -> None:
    kept = sample(link(named(), zeros=False), 1000.0)
    assert kept is not None and read(write([kept]))[0].values[A] == named()
    short = sample(link(named()), 1000.0)
    assert short is not None and short.values[A] == {} and short.count(A, "PortRcvErrors") == 0


def test_going_down_once_is_a_warning_and_twice_in_a_day_is_critical() -> None:
    assert [found({}, {"LinkDownedCounter": downs})[0].severity.value
            for downs in (1, 2)] == ["warning", "critical"]


@given(st.integers(1, 10_000), st.floats(0.001, 1000.0))
def test_chance_gives_more_the_more_is_usual(count: int, usual: float) -> None:
    if beyond_chance(count, usual):
        assert count > usual and beyond_chance(count + 1, usual) and beyond_chance(count, usual / 2)
    else:
        assert not beyond_chance(count, usual * 2)


ENDS = st.builds(FabricEnd, st.integers(1, 2**64 - 1).map(lambda one: f"{one:016x}"), st.integers(0, 254))
SAMPLES = st.builds(CountedBefore, st.floats(0, 4e9),
                    st.dictionaries(ENDS, st.dictionaries(st.sampled_from(["LinkDownedCounter"]),
                                                          st.integers(1, 255))),
                    st.booleans(),
                    st.dictionaries(ENDS, st.frozensets(st.sampled_from(["LinkDownedCounter"]))),
                    st.frozensets(ENDS))


@given(st.lists(SAMPLES, max_size=4))
def test_samples_are_read_as_they_were_written(samples: list[CountedBefore]) -> None:
    assert sorted(read(write(samples)), key=lambda one: one.time) == sorted(samples, key=lambda one: one.time)


@given(st.one_of(st.binary(max_size=60),
                 st.recursive(st.none() | st.integers() | st.text(max_size=5),
                              lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
             st.sampled_from(["schema", "samples", "time", "ports"]), inner,
             max_size=4)).map(lambda one: json.dumps(one).encode())))
def test_a_document_that_is_none_raises_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        read(data)


def test_a_sample_of_the_future_is_no_earlier_one() -> None:
    future, past = CountedBefore(2000.0, {}, True), CountedBefore(500.0, {}, True)
    assert before([past, future], 1000.0) == past and before([future], 1000.0) is None
