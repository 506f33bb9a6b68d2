"""What cables and optical modules state of themselves, by mlxlink and by ethtool -m."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.base import Captures
from healthcheck.facts.components import from_document, hardware_of, to_document
from healthcheck.facts.modules import plugged_modules
from healthcheck.facts.values import Unread, reading
from healthcheck.model.recording import Capture, Outcome
from tests.healthcheck import machine, network

# The form of ethtool 6.1 for a QSFP28 module (sff-common.c, qsfp.c), cut to what is read and its neighbours.
ETHTOOL = """\tIdentifier                                : 0x11 (QSFP28)
\tVendor name                               : Mellanox
\tVendor OUI                                : 00:02:c9
\tVendor PN                                 : MCP1600-C003
\tVendor rev                                : A4
\tVendor SN                                 : MT2014VS04012
\tDate code                                 : 200331
"""


def of(link: Capture | None = None, module: Capture | None = None) -> dict[str, dict[str, object]]:
    captures = Captures(machine.recording("n1", **{
        "optics.mlxlink": link or Capture(Outcome.MISSING),
        "optics.ethtool": module or Capture(Outcome.MISSING)}))
    return {one.name: {field: reading(one, field) for field in ("vendor", "part", "serial", "date")
                       if isinstance(reading(one, field), str)}
            for one in plugged_modules(captures)}


def ethtool(**texts: str) -> Capture:
    """By adapter, what ethtool said of its interface; the others have no module."""
    return network.modules(**{**{f"mlx5_{at}": "exit 1\n" for at in range(8)},
                              **{device: f"exit 0\n{text}" for device, text in texts.items()}})


def mlxlink(**modules: dict[str, str]) -> Capture:
    """By adapter, mlxlink's section of the module; the others are not asked."""
    return network.mlxlink(**{**{f"mlx5_{at}": "exit 1\n" for at in range(8)},
                              **{device: f"exit 0\n{network.link(module)}"
                                 for device, module in modules.items()}})


SHOWN = {"Vendor Name": "Mellanox", "Vendor Part Number": "MCP1600-C003",
         "Vendor Serial Number": "MT2014VS04012", "Rev": "A4", "OUI": "Mellanox"}
STATED = {"vendor": "Mellanox", "part": "MCP1600-C003", "serial": "MT2014VS04012"}


def test_ethtool_shows_maker_part_serial_and_date() -> None:
    assert of(module=ethtool(mlx5_0=ETHTOOL)) == {"mlx5_0": {**STATED, "date": "200331"}}


def test_mlxlink_shows_maker_part_and_serial_and_ethtool_adds_the_date_of_the_same_module() -> None:
    assert of(mlxlink(mlx5_3=SHOWN)) == {"mlx5_3": STATED}
    assert of(mlxlink(mlx5_3=SHOWN), ethtool(mlx5_3=ETHTOOL)) == {"mlx5_3": {**STATED, "date": "200331"}}
    other = {**SHOWN, "Vendor Serial Number": "MT9"}
    assert of(mlxlink(mlx5_3=other), ethtool(mlx5_3=ETHTOOL)) == {"mlx5_3": {**STATED, "serial": "MT9"}}


def test_a_port_without_a_module_states_nothing() -> None:
    assert of(mlxlink(mlx5_0=dict.fromkeys(SHOWN, "N/A")), ethtool()) == {}


def test_modules_that_no_tool_could_be_asked_for_were_not_measured() -> None:
    with pytest.raises(Unread, match=r"^mlxlink is not there$"):
        of()


def test_they_are_stored_with_the_hardware_and_are_no_part_of_what_a_certificate_holds_for() -> None:
    now = hardware_of(machine.recording("n1", **{"optics.ethtool": ethtool(mlx5_0=ETHTOOL),
                                                 "optics.mlxlink": Capture(Outcome.MISSING)}))
    assert now.parts["mlx5_0"] == {**STATED, "date": "200331", "revision": "A4",
                                   "guid": "a088c20300000000", **(
                                       {"adapter": now.parts["mlx5_0"]["adapter"]}
                                       if "adapter" in now.parts["mlx5_0"] else {})}
    assert "serial" not in now.hardware["nic 0000:40:00.0"]
    assert from_document(json.loads(json.dumps(to_document(now))), now.boot).parts == now.parts


@given(st.text(max_size=300) | st.dictionaries(st.sampled_from([*SHOWN, "x"]),
                                               st.text(max_size=20) | st.none() | st.integers()).map(
                                                   lambda module: json.dumps(
                                                       {"result": {"output": {"Module Info": module}}})))
def test_any_answer_gives_short_clean_words_or_nothing(text: str) -> None:
    for words in of(network.mlxlink(mlx5_0=f"exit 0\n{text}"), ethtool(mlx5_1=text)).values():
        assert all("\n" not in str(word) and "\x1b" not in str(word) and 0 < len(str(word)) <= 80
                   for word in words.values())
