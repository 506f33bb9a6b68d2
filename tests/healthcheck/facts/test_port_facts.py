"""Which ports are a machine's compute ports where no plan names them, and where a port's counters stay."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.counter import TABLE, PortCounter
from healthcheck.facts.port import Port, most_common_kind
from healthcheck.facts.values import Unmeasured, changed
from tests.healthcheck import machine

CX7, CX6, VF, OWN_VF = ("15b3:1021 InfiniBand", "15b3:101d InfiniBand", "15b3:101e InfiniBand",
                        "8086:1592 Ethernet")


def port(name: str, kind: str | Unmeasured, virtual: bool = False) -> Port:
    return changed(Port.absent(name), kind=kind, virtual=virtual)


@pytest.mark.parametrize(("ports", "compute"), [
    ((port("a", CX7), port("b", CX7), port("c", CX6)), "a b"),
    ((port("a", CX7), port("b", CX6)), "a b"),
    ((port("a", CX7), port("b", ""), port("c", ""), port("d", "")), "a b c d"),
    ((port("a", CX7), port("b", CX7), port("c", CX6), port("d", Unmeasured("denied"))), "a b"),
    ((port("a", CX7), port("b", VF), port("c", VF), port("d", OWN_VF, True), port("e", OWN_VF, True)), "a"),
    ((port("a", VF, True), port("b", VF, True), port("c", OWN_VF, True)), "a b"),
    ((port("a", ""),), "a"),
    ((), ""),
])
def test_compute_ports_are_those_of_the_most_common_kind_and_those_of_none(ports: Sequence[Port],
                                                                           compute: str) -> None:
    assert " ".join(port.name for port in most_common_kind(ports)) == compute


def test_a_counter_that_has_a_highest_value_stays_there_and_no_other_does() -> None:
    ours = changed(PortCounter.absent("symbol_error"), most=65535)
    assert (ours.full("value"), ours.full("number"),
            changed(ours, most=0).full("value")) == (65535, None, None)
    assert (port("a", CX7).full("link_downed"), port("a", CX7).full("lid")) == (255, None)


def test_narrow_counters_are_those_with_a_highest_value_alone() -> None:
    found = build_fact(FACTS["narrow_counters"], Captures(machine.recording()))
    narrow = {counter.name
              for counter in TABLE if 0 < counter.bits < 32} - {"port_rcv_remote_physical_errors"}
    assert {one.counter for one in found} == narrow | {"link_downed"}
