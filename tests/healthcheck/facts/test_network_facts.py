"""The parsers of Ethernet, RoCE and optics: whatever was said or cut, the answer is a value, Unmeasured or
ValueError, never nonsense."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts import optics
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.bond import parse_bond
from healthcheck.facts.files import DeviceOutput, device_output
from healthcheck.facts.netdev import parse_counts
from healthcheck.facts.optics import parse_link
from healthcheck.facts.roce import parse_statistics
from healthcheck.facts.transceiver import read_module
from healthcheck.facts.values import UNSUPPORTED, Unmeasured, reading
from healthcheck.model.recording import FileCapture, Outcome
from tests.healthcheck import machine, network

MINE = ("netdevs", "bonds", "lacp_bonds", "roce_ports", "pfcs", "sensors", "optics")


@given(st.text(max_size=400))
def test_no_text_upsets_a_parser(text: str) -> None:
    for parse in (parse_counts, parse_statistics, lambda device_output: parse_bond("bond0", device_output),
                  lambda device_output: parse_link("mlx5_0", device_output), read_module,
                  lambda device_output: read_module(f"\tIdentifier : 0x11 (QSFP28)\n{device_output}\n")):
        with suppress(ValueError, KeyError):
            parse(text)


_JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=20),
                     lambda inner: st.lists(inner, max_size=3)
                     | st.dictionaries(st.sampled_from([*network.MODULE, "values", "x"]), inner, max_size=4),
                     max_leaves=12)


@given(st.dictionaries(st.sampled_from(list(network.MODULE)), _JSON))
def test_whatever_a_module_says_of_itself_is_a_value_or_unmeasured(changes: dict[str, Any]) -> None:
    found = parse_link("mlx5_0", network.link(network.MODULE | changes))
    for lanes in (reading(found, "rx_dbm"), reading(found, "tx_dbm")):
        assert isinstance(lanes, (tuple, Unmeasured)) or lanes is UNSUPPORTED
    celsius = reading(found, "celsius")
    assert isinstance(celsius, (float, Unmeasured)) or celsius is UNSUPPORTED


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
    assert [(slave.interface, slave.up, slave.aggregator) for slave in truth.slaves] == [
        ("eno1", True, "1"), ("eno2", True, "1")]
    assert (truth.up, truth.lacp, truth.partner, truth.active) == (True, True, "02:01:00:00:01:01", "1")
    for end in range(len(network.BOND)):
        try:
            found = parse_bond("bond0", network.BOND[:end])
        except (ValueError, KeyError):
            continue
        assert {slave.interface for slave in found.slaves} <= {"eno1", "eno2"}


def test_a_copper_cable_has_no_light_and_no_temperature() -> None:
    found = parse_link("mlx5_0", network.link(network.COPPER))
    assert [reading(found, field) for field in ("celsius", "rx_dbm", "tx_dbm", "faults")] == [UNSUPPORTED] * 4
    assert found.effective_ber == 15e-255
    assert found.raw_ber == 2e-9


def test_lanes_come_with_the_modules_thresholds() -> None:
    found = parse_link("mlx5_0", network.link())
    assert (found.rx_dbm, found.rx_low, found.rx_high) == ((1.886, 1.989, 2.281, 1.976), -10.41, 6.0)
    assert (found.up, found.celsius, found.celsius_high, found.faults) == (True, 54.0, 75.0, ())


@pytest.mark.parametrize(("entry", "expected"), [
    (FileCapture(Outcome.DONE, "exit 0\ntext\n"), DeviceOutput(0, "text\n")),
    (FileCapture(Outcome.DONE, "exit 4: sorry: no\ntext"), DeviceOutput(4, "text", "sorry: no")),
    (FileCapture(Outcome.DONE, "text"), Unmeasured("/a: no exit status was captured")),
    (FileCapture(Outcome.TRUNCATED, "exit 0\ntext"),
     Unmeasured("/a: the command's outcome is truncated (exit 0)")),
    (FileCapture(Outcome.WEDGED, "wedged since noon"),
     Unmeasured("/a: the command's outcome is wedged (wedged since noon)")),
])
def test_a_devices_answer_is_taken_only_when_its_command_ended_by_itself(
    entry: FileCapture, expected: DeviceOutput | Unmeasured,
) -> None:
    assert device_output("/a", entry) == expected


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


# As cmis.c prints an OSFP or QSFP-DD module: all flags in one place, channels beyond four, a state of its
# own.
CMIS = ("\tIdentifier                                : 0x18 (QSFP-DD Double Density 8X Pluggable Transceiver "
        "(INF-8628))\n"
        "\tVendor OUI                                : 00:90:65\n"
        "\tRx loss of signal                         : [ Yes, Yes, No, No, No, No, No, No ]\n\tTx fault      "
        "                            : None\n"
        "\tModule State                              : 0x05 (ModuleFault)\n\tModule temperature              "
        "          : 37.53 degrees C / 99.55 degrees F\n"
        "\tTransmit avg optical power (Channel 8)    : 0.0001 mW / -40.00 dBm\n\tRcvr signal avg optical "
        "power(Channel 8)  : 1.3222 mW / 1.21 dBm\n")
# As sfpdiag.c prints an SFP module (SFF-8472): one lane, other names.
SFP = ("\tIdentifier                                : 0x03 (SFP)\n\tTransceiver type                         "
       " : 10G Ethernet: 10G Base-LR\n"
       "\tTransceiver type                          : FC: intermediate distance (I)\n\tLaser bias current    "
       "                    : 39.580 mA\n"
       "\tLaser output power                        : 0.7754 mW / -1.10 dBm\n\tReceiver signal average "
       "optical power     : 0.6724 mW / -1.72 dBm\n"
       "\tModule temperature                        : 41.25 degrees C / 106.25 degrees F\n\tLaser output "
       "power high alarm             : Off\n"
       "\tLaser rx power low alarm                  : On\n\tLaser output power high alarm threshold   : "
       "3.5481 mW / 5.50 dBm\n"
       "\tLaser output power low alarm threshold    : 0.4074 mW / -3.90 dBm\n")


def test_modules_of_other_kinds_are_read_too() -> None:
    cmis, sfp = read_module(CMIS), read_module(SFP)
    assert cmis["faults"] == ("Rx loss of signal channel 1", "Rx loss of signal channel 2",
                              "0x05 (ModuleFault)")
    assert (cmis["rx_dbm"], cmis["tx_dbm"], cmis["celsius"],
            cmis["rx_low"]) == ((1.21,), (-40.0,), 37.53, UNSUPPORTED)
    assert (sfp["rx_dbm"], sfp["tx_dbm"], sfp["tx_low"], sfp["tx_high"]) == ((-1.72,), (-1.1,), -3.9, 5.5)
    assert sfp["faults"] == ("Laser rx power low alarm",)


def test_a_module_cut_anywhere_is_no_answer_or_holds_no_other_number() -> None:
    whole = network.transceiver(Laser_rx_power_low_alarm_Channel_2="On")
    truth = read_module(whole)
    for end in range(len(whole)):
        try:
            found = read_module(whole[:end])
        except ValueError:
            continue
        for name, value in found.items():
            if isinstance(value, tuple):
                assert value == truth[name][:len(value)]
            else:
                assert value in (truth[name], UNSUPPORTED)


def test_a_key_of_a_bond_that_is_cut_before_its_value_is_none() -> None:
    with pytest.raises(KeyError, match="Bonding Mode"):
        parse_bond("bond0", "Bonding Mode\nMII Status: up\n")
