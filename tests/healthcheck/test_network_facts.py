"""The parsers of Ethernet, RoCE and optics: whatever was said or cut, the answer is a value, Unmeasured or ValueError, never nonsense."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts import optics
from healthcheck.facts.base import FACTS, UNSUPPORTED, Captures, Said, Unmeasured, build_fact, said
from healthcheck.facts.netdev import parse_bond, parse_counts
from healthcheck.facts.optics import parse_link
from healthcheck.facts.roce import parse_statistics
from healthcheck.recording import FileCapture, Outcome
from tests.healthcheck import machine, network

MINE = ("netdevs", "bonds", "lacp_bonds", "roce_ports", "pfcs", "sensors", "optics")


@given(st.text(max_size=400))
def test_no_text_upsets_a_parser(text: str) -> None:
    for parse in (parse_counts, parse_statistics, lambda said: parse_bond("bond0", said), lambda said: parse_link("mlx5_0", said)):
        with suppress(ValueError, KeyError):
            parse(text)


_JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=20), lambda inner: st.lists(inner, max_size=3)
                     | st.dictionaries(st.sampled_from([*network.MODULE, "values", "x"]), inner, max_size=4), max_leaves=12)


@given(st.dictionaries(st.sampled_from(list(network.MODULE)), _JSON))
def test_whatever_a_module_says_of_itself_is_a_value_or_unmeasured(changes: dict[str, Any]) -> None:
    found: Any = parse_link("mlx5_0", network.link(network.MODULE | changes))
    for lanes in (found.rx_dbm, found.tx_dbm):
        assert isinstance(lanes, (tuple, Unmeasured)) or lanes is UNSUPPORTED
    assert isinstance(found.celsius, (float, Unmeasured)) or found.celsius is UNSUPPORTED


def test_mlxlinks_answer_cut_anywhere_is_no_answer() -> None:
    whole = network.link()
    for end in range(len(whole)):
        with pytest.raises(ValueError, match="the answer"):
            parse_link("mlx5_0", whole[:end])


def test_ethtools_answer_cut_anywhere_never_holds_another_number() -> None:
    whole = network.statistics(rx_prio3_pause_duration=123456)
    truth = parse_statistics(whole)
    for end in range(len(whole)):
        try:
            found = parse_statistics(whole[:end])
        except ValueError:
            continue
        assert found.items() <= truth.items()


def test_a_bond_cut_anywhere_never_has_a_member_that_it_has_not() -> None:
    truth = parse_bond("bond0", network.BOND)
    assert [(slave.interface, slave.up, slave.aggregator) for slave in truth.slaves] == [("eno1", True, "1"), ("eno2", True, "1")]
    assert (truth.up, truth.lacp, truth.partner, truth.active) == (True, True, "02:01:00:00:01:01", "1")
    for end in range(len(network.BOND)):
        try:
            found = parse_bond("bond0", network.BOND[:end])
        except (ValueError, KeyError):
            continue
        assert {slave.interface for slave in found.slaves} <= {"eno1", "eno2"}


def test_a_copper_cable_has_no_light_and_no_temperature() -> None:
    found: Any = parse_link("mlx5_0", network.link(network.COPPER))
    assert (found.celsius, found.rx_dbm, found.tx_dbm, found.faults) == (UNSUPPORTED,) * 4
    assert found.effective_ber == 15e-255
    assert found.raw_ber == 2e-9


def test_lanes_come_with_the_modules_thresholds() -> None:
    found = parse_link("mlx5_0", network.link())
    assert (found.rx_dbm, found.rx_low, found.rx_high) == ((1.886, 1.989, 2.281, 1.976), -10.41, 6.0)
    assert (found.up, found.celsius, found.celsius_high, found.faults) == (True, 54.0, 75.0, ())


@pytest.mark.parametrize(("entry", "expected"), [
    (FileCapture(Outcome.DONE, "exit 0\ntext\n"), Said(0, "text\n")),
    (FileCapture(Outcome.DONE, "exit 4: sorry: no\ntext"), Said(4, "text", "sorry: no")),
    (FileCapture(Outcome.DONE, "text"), Unmeasured("/a: no exit status was captured")),
    (FileCapture(Outcome.TRUNCATED, "exit 0\ntext"), Unmeasured("/a: the command's outcome is truncated (exit 0)")),
    (FileCapture(Outcome.WEDGED, "wedged since noon"), Unmeasured("/a: the command's outcome is wedged (wedged since noon)")),
])
def test_a_devices_answer_is_taken_only_when_its_command_ended_by_itself(entry: FileCapture, expected: Said | Unmeasured) -> None:
    assert said("/a", entry) == expected


@pytest.mark.parametrize("name", MINE)
@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.WEDGED, Outcome.CRASHED, Outcome.DENIED])
def test_a_probe_that_did_not_end_well_is_never_a_whole_fact(name: str, outcome: Outcome) -> None:
    seen = machine.recording()
    captures = {probe: replace(held, outcome=outcome) for probe, held in seen.captures.items()}
    found = build_fact(FACTS[name], Captures(replace(seen, captures=captures)))
    assert not isinstance(found, tuple)


def test_the_probe_of_mlxlink_is_passive_needs_root_and_names_only_devices() -> None:
    assert optics.MLXLINK.root
    assert optics.MLXLINK.argv == ("mlxlink", "-d", "{name}", "-m", "-c", "--json")
