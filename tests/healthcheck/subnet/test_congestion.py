"""Ports that wait more than their equals under like load are hot spots; what was not measured or has no
equals is said to be so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.model.outcome import Severity
from healthcheck.subnet.check.congestion import (
    PEERS,
    SENT,
    WAIT,
    Congestion,
    PortLoad,
    congested,
    congestion,
    grown,
)
from healthcheck.subnet.check.findings import FabricRule
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
from healthcheck.subnet.samples import read, sample, write

BUSY = 10**9


def end(at: int) -> FabricEnd:
    return FabricEnd("b8cef60000000100", at)


def loads(waits: list[int], sent: int = BUSY, between: str = "leaf to host",
          first: int = 1) -> list[PortLoad]:
    return [PortLoad(end(first + at), between, wait, sent) for at, wait in enumerate(waits)]


def hot(found: Congestion) -> list[int]:
    return [spot.end.number for spot in found.spots]


USUAL = loads([BUSY // 20] * 12)
ONE_WAITS = [BUSY if at == 4 else BUSY // 20 for at in range(12)]


def test_a_port_that_waits_many_times_as_long_as_its_equals_is_hot() -> None:
    found = congestion(loads(ONE_WAITS))
    assert hot(found) == [5] and found.spots[0].times == 20 and found.spots[0].peers == 11


@pytest.mark.parametrize(("seen", "unlike"), [
    (loads([BUSY * 50] * 12), ()),          # equal waiting everywhere, however long it is
    ([*USUAL, *loads([BUSY], sent=BUSY * 10, first=20)], (end(20),)),                   # under another load
    ([*USUAL, *loads([BUSY], between="leaf to spine", first=20)], (end(20),))])         # between other tiers
def test_where_no_equal_waits_less_there_is_no_hot_spot(seen: list[PortLoad],
                                                        unlike: tuple[FabricEnd, ...]) -> None:
    found = congestion(seen)
    assert not found.spots and found.unlike == unlike


def test_a_port_that_was_not_read_twice_or_was_reset_is_unmeasured_and_an_idle_one_is_not_hot() -> None:
    found = congestion([*loads([0] * 12), PortLoad(end(20), "leaf to host", 5, None),
                        PortLoad(end(21), "leaf to host", None, 10),
                        PortLoad(end(22), "leaf to host", None, BUSY)])
    assert found.unmeasured == (end(20), end(22)) and not found.spots
    assert grown(5, 9) == 4 and grown(9, 5) is None and grown(None, 1) is None


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**12)), max_size=40))
def test_every_port_is_compared_unmeasured_unlike_or_idle(values: list[tuple[int, int]]) -> None:
    given_loads = [PortLoad(end(at), "leaf to host", wait, sent) for at, (wait, sent) in enumerate(values)]
    found = congestion(given_loads)
    for load in given_loads:
        peers = [other for other in given_loads if other is not load and other.share is not None
                 and load.share is not None
                 and max(other.sent or 0, load.sent or 0) <= 2 * min(other.sent or 0, load.sent or 0)]
        assert (load.end in found.unlike) == (load.share is not None and len(peers) < PEERS)


def fabric(waits: list[int], *, zeros: bool = True, sent: bool = True) -> SeenSubnet:
    """A leaf with so many hosts, of which the switch's ports waited so long since the sample before."""
    leaf = "b8cef60000000100"
    hosts = [f"a088c2030000{at:04x}" for at in range(len(waits))]
    devices = {leaf: FabricDevice(leaf, DeviceKind.SWITCH, "leaf01", ports={
        at: FabricPort(end(at), LinkState.ACTIVE, "linkup", 4, "NDR", peer=FabricEnd(guid, 1))
        for at, guid in enumerate(hosts, 1)})}
    for at, guid in enumerate(hosts, 1):
        devices[guid] = FabricDevice(guid, DeviceKind.ADAPTER, f"gpu{at:03d} mlx5_0", ports={
            1: FabricPort(FabricEnd(guid, 1), LinkState.ACTIVE, "linkup", 4, "NDR", peer=end(at))})
    counted = {end(at): {**({WAIT: wait} if wait else {}), **({SENT: BUSY} if sent else {})}
               for at, wait in enumerate(waits, 1)}
    earlier = CountedBefore(1000.0, {one: {SENT: 0} if sent else {} for one in counted}, zeros)
    return SeenSubnet(Subnet("", devices, counters=PortCounters(counted, zeros=zeros)), FabricJoin(),
                      before=earlier, at=1600.0)


def test_a_check_names_the_link_that_waits_as_information_and_nothing_where_equals_wait_equally() -> None:
    (one,) = (found for found in congested(fabric(ONE_WAITS)) if not found.unknown)
    assert (one.rule, one.severity, one.unknown) == (FabricRule.CONGESTION, Severity.INFO, False)
    assert "leaf01 port 5" in one.observed and "20.0 times" in one.observed and "leaf to host" in one.observed
    assert [one for one in congested(fabric([BUSY // 20] * 12)) if not one.unknown] == []


def test_ports_of_which_it_was_not_read_what_they_sent_are_counted_as_not_known() -> None:
    (one,) = congested(fabric([BUSY] + [0] * 11, sent=False))
    assert one.unknown and one.severity is Severity.INFO and "not known of 24 ports" in one.observed


def test_a_port_that_sent_next_to_nothing_is_idle_and_one_that_sent_more_is_not_known() -> None:
    seen = fabric([0] * 12)     # 400 Gb/s for 600 s carry 7.5e12 units
    for sent, ports in ((70_000_000, 12), (80_000_000, 24)):
        counters = PortCounters({end(at): {SENT: sent} for at in range(1, 13)}, zeros=True)
        (one,) = congested(replace(seen, subnet=replace(seen.subnet, counters=counters)))
        # the adapters' own counters were not read
        assert one.unknown and f"not known of {ports} ports" in one.observed


def test_a_wait_that_a_tool_leaves_out_is_none_only_where_equal_ports_show_that_they_have_the_counter(
) -> None:
    waits = [BUSY] + [0] * 11
    assert [one.place.name
            for one in congested(fabric(waits)) if not one.unknown] == ["leaf01 port 1 to gpu001 mlx5_0"]
    (one,) = congested(fabric([0] * 12))
    assert one.unknown and "not known of 24 ports" in one.observed


def test_what_is_kept_for_the_next_check_has_what_ports_sent_and_waited() -> None:
    seen = fabric([BUSY] * 2)
    kept = sample(seen.subnet, 1600.0)
    assert kept is not None and read(write([kept]))[0].values[end(1)] == {WAIT: BUSY, SENT: BUSY}
