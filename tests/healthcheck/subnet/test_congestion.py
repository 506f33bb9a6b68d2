"""Ports that wait more than their equals under like load are hot spots; what was not measured or has no equals is said to be so."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from healthcheck.subnet.cabling import PlannedEnd
from healthcheck.subnet.congestion import PEERS, SENT, WAIT, Congestion, PortLoad, congestion, grown

BUSY = 10**9


def end(at: int) -> PlannedEnd:
    return PlannedEnd("leaf01", str(at))


def loads(waits: list[int], sent: int = BUSY, between: str = "leaf to host", first: int = 1) -> list[PortLoad]:
    return [PortLoad(end(first + at), between, wait, sent) for at, wait in enumerate(waits)]


def hot(found: Congestion) -> list[str]:
    return [spot.end.port for spot in found.spots]


def test_a_port_that_waits_many_times_as_long_as_its_equals_is_hot_and_names_its_jobs() -> None:
    waits = [BUSY // 20] * 12
    waits[4] = BUSY
    found = congestion(loads(waits), {end(5): ["4711"], end(6): ["4712"]})
    assert hot(found) == ["5"] and found.spots[0].jobs == ("4711",) and found.spots[0].times == 20 and found.spots[0].peers == 11
    assert found.by_job == {"4711": 20.0, "4712": 1.0}


def test_equal_waiting_everywhere_is_no_hot_spot_however_long_it_is() -> None:
    assert not congestion(loads([BUSY * 50] * 12), {}).spots


def test_a_port_under_another_load_is_not_compared_with_the_others() -> None:
    found = congestion([*loads([BUSY // 20] * 12), *loads([BUSY], sent=BUSY * 10, first=20)], {})
    assert not found.spots and found.unlike == (end(20),)


def test_ports_between_other_tiers_are_no_equals() -> None:
    found = congestion([*loads([BUSY // 20] * 12), *loads([BUSY], between="leaf to spine", first=20)], {})
    assert not found.spots and found.unlike == (end(20),)


def test_a_port_that_was_not_read_twice_or_was_reset_is_unmeasured_and_an_idle_one_is_not_hot() -> None:
    found = congestion([*loads([0] * 12), PortLoad(end(20), "leaf to host", None, 5), PortLoad(end(21), "leaf to host", 900, 10)], {})
    assert found.unmeasured == (end(20),) and not found.spots
    assert grown({WAIT: 5}, {WAIT: 9}, WAIT) == 4 and grown({WAIT: 9}, {WAIT: 5}, WAIT) is None and grown({}, {SENT: 1}, SENT) is None


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**12)), max_size=40))
def test_every_port_is_compared_unmeasured_unlike_or_idle(values: list[tuple[int, int]]) -> None:
    given_loads = [PortLoad(end(at), "leaf to host", wait, sent) for at, (wait, sent) in enumerate(values)]
    found = congestion(given_loads, {})
    for load in given_loads:
        peers = [other for other in given_loads if other is not load and other.share is not None and load.share is not None
                 and max(other.sent or 0, load.sent or 0) <= 2 * min(other.sent or 0, load.sent or 0)]
        assert (load.end in found.unlike) == (load.share is not None and len(peers) < PEERS)
