"""Who goes when there is no room: the slowest of whoever holds most, and never a client that waits for us."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.exporter.admission import ConnectionPhase, full, slowest
from inventory.peeraddress import peer_of

NOW = 1000.0


@dataclass(frozen=True)
class Made:
    peer: str
    phase: ConnectionPhase = ConnectionPhase.REQUEST
    since: float = NOW - 10


def test_an_address_makes_room_for_itself_at_its_own_bound() -> None:
    own = [Made("a", since=NOW - 3), Made("a", since=NOW - 5), Made("a", ConnectionPhase.ANSWER, NOW - 9)]
    there = full([*own, Made("b", since=NOW - 99)], "a", most=100, most_of_peer=3)
    assert there == own and slowest(there, NOW) == own[1]


def test_at_the_bound_of_all_the_address_that_holds_most_makes_room_for_another() -> None:
    held = [*(Made("many") for _ in range(5)), Made("few", since=NOW - 99), Made("other")]
    assert {one.peer for one in full(held, "new", most=7, most_of_peer=6)} == {"many"}
    assert full(held, "new", most=8, most_of_peer=6) == []


def test_a_request_that_does_not_come_goes_before_an_answer_that_is_not_taken() -> None:
    stalled, coming = Made("a", ConnectionPhase.TAKEN, NOW - 30), Made("a", since=NOW - 1)
    assert slowest([stalled, coming], NOW) is coming and slowest([stalled], NOW) is stalled


def test_no_one_goes_who_waits_for_us_or_takes_what_is_given() -> None:
    assert slowest([Made("a", ConnectionPhase.ANSWER), Made("a", ConnectionPhase.TAKEN, NOW - 0.1)],
                   NOW) is None


@given(st.lists(st.sampled_from("abcd"), max_size=40), st.integers(1, 20), st.integers(1, 10))
def test_whoever_comes_alone_always_finds_room(peers: list[str], most: int, of_peer: int) -> None:
    held: list[Made] = []
    for peer in peers:
        there = full(held, peer, most, of_peer)
        if there:
            gone = slowest(there, NOW)
            assert gone is not None
            held.remove(gone)
        held.append(Made(peer))
    assert len(held) <= most and all(sum(one.peer == peer for one in held) <= of_peer for peer in "abcd")
    there = full(held, "new", most, of_peer)
    assert not there or slowest(there, NOW) is not None


@pytest.mark.parametrize(("address", "peer"), [
    ("192.0.2.7", "192.0.2.7"), ("::ffff:192.0.2.7", "192.0.2.7"), ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
    ("fe80::1%eth0", "fe80::/64"), ("::1", "::/64"), ("", ""),
])
def test_an_address_stands_for_one_host(address: str, peer: str) -> None:
    assert peer_of(address) == peer
