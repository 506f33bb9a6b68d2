"""What lldpctl prints, in each of its forms and whatever it holds, as neighbours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.facts.lldpneighbours import MOST_LETTERS, LldpNeighbour, neighbours
from inventory.text import clean
from tests.tries import tries

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings" / "lldp"


def recorded(name: str, form: str) -> tuple[LldpNeighbour, ...]:
    return neighbours((RECORDINGS / f"{name}.{form}").read_text())


@pytest.mark.parametrize("name", ["many", "one", "two", "none"])
def test_the_three_forms_of_a_real_lldpctl_say_the_same(name: str) -> None:
    assert recorded(name, "json") == recorded(name, "json0") == recorded(name, "xml")


def test_a_real_lldpctl_names_each_switch_and_its_port() -> None:
    assert [(one.interface, one.system, one.port, one.switches) for one in recorded("many", "json0")] == [
        ("ens1f0", "leaf01", "Ethernet1", True), ("ens2f0", "leaf02.dc1.example.com", "Ethernet4", True),
        ("eno1", "tor-r07", "swp7", True),
        ("eno2", "gpu002", "eth0", True), ("eno2", "gpu003", "eth0", True)]
    assert [one.system for one in recorded("one", "json")] == ["leaf01"] and recorded("none", "xml") == ()


# SONiC's, with names changed, as netenglabs/suzieq issue 259 shows it: a list of one interface, and a port
# that is called by its name.
SONIC = {"lldp": {"interface": [{"eth0": {
    "via": "LLDP", "rid": "1", "age": "0 day, 08:40:40", "chassis": {"spine1": {
        "id": {"type": "mac", "value": "00:00:5e:00:53:01"}, "descr": "Cisco IOS Software", "ttl": "120",
        "mgmt-ip": "192.0.2.1",
        "capability": [{"type": "Bridge", "enabled": True}, {"type": "Router", "enabled": False}]}},
    "port": {"id": {"type": "ifname", "value": "Gi3/36"}, "descr": "GigabitEthernet3/36"}}}]}}


def changed(**chassis: Any) -> dict[str, Any]:
    """The same with another chassis."""
    document: dict[str, Any] = json.loads(json.dumps(SONIC))
    document["lldp"]["interface"][0]["eth0"]["chassis"] = chassis
    return document


@pytest.mark.parametrize(("document", "expected"), [
    (SONIC, ("eth0", "spine1", "00:00:5e:00:53:01", "Gi3/36", True)),
    # one interface without a list, several as keys of one map, a chassis without a name, and one that is
    # called id
    ({"lldp": {"interface": SONIC["lldp"]["interface"][0]}},
     ("eth0", "spine1", "00:00:5e:00:53:01", "Gi3/36", True)),  # type: ignore[index]
    (changed(id={"type": "mac", "value": "00:00:5e:00:53:02"},
             capability={"type": "Station", "enabled": True}),
     ("eth0", "", "00:00:5e:00:53:02", "Gi3/36", False)),
    (changed(id={"id": {"type": "local", "value": "x"}}), ("eth0", "id", "x", "Gi3/36", None)),
    (changed(), ("eth0", "", "", "Gi3/36", None)),
])
def test_the_form_json_is_read_however_its_shape_follows_the_numbers(document: Any,
                                                                     expected: tuple[Any, ...]) -> None:
    found, = neighbours(json.dumps(document))
    assert (found.interface, found.system, found.chassis, found.port, found.switches) == expected


def test_several_interfaces_as_keys_of_one_map_are_all_read() -> None:
    one = SONIC["lldp"]["interface"][0]["eth0"]  # type: ignore[index]
    found = neighbours(json.dumps({"lldp": {"interface": {"eth0": one, "eth1": one}}}))
    assert [each.interface for each in found] == ["eth0", "eth1"]


def test_a_port_that_is_known_by_its_mac_address_is_shown_by_its_description() -> None:
    text = (
        '<lldp><interface name="e"><chassis><name>s</name></chassis><port><id '
        'type="mac">00:00:5e:00:53:01</id><descr>Ethernet9</descr></port>'
        "</interface></lldp>")
    assert neighbours(text)[0].port == "Ethernet9" and neighbours(text)[0].switches is None


@pytest.mark.parametrize("text", [
    "", "{}", "[]", "null", '{"lldp"', "<html/>", "<lldp", "<a><b></a></b>", "[" * 100_000, "x" *
    (MOST_LETTERS + 1), '<!DOCTYPE lldp [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><lldp>&b;</lldp>',
    '<!docTYPE lldp SYSTEM "file:///etc/passwd"><lldp/>',
    json.dumps({"lldp": {"interface": [{"eth0": SONIC["lldp"]["interface"][0]["eth0"]}] * 1100}
                }),  # type: ignore[index]
])
def test_whatever_is_no_output_of_lldpctl_is_refused_in_a_line(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        neighbours(text)
    assert str(caught.value) == clean(str(caught.value), 200) and len(str(caught.value)) < 120


WORDS = st.text(max_size=20) | st.sampled_from(["name", "id", "value", "type", "chassis", "port", "via",
                                                "capability", "descr", "eth0", "\x1b[2J", "a\nb"])
JSON = st.recursive(st.none() | st.booleans() | st.integers() | WORDS,
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
                    max_leaves=25)


@settings(max_examples=tries(400))
@given(
    st.fixed_dictionaries(
        {"lldp": JSON | st.fixed_dictionaries(
            {"interface": JSON | st.lists(st.dictionaries(WORDS, JSON, max_size=2), max_size=3)})}))
def test_any_json_gives_clean_neighbours_or_a_line(document: Any) -> None:
    try:
        found = neighbours(json.dumps(document))
    except ValueError as problem:
        assert "\n" not in str(problem)
        return
    for one in found:
        for text in (one.interface, one.system, one.chassis, one.port):
            assert text == clean(text, 120) and "\n" not in text
        assert one.interface


@settings(max_examples=tries(300))
@given(st.text(max_size=200) | st.text(alphabet="<>/!&;\"'= lldpinterfacename\n", max_size=300))
def test_any_text_gives_clean_neighbours_or_a_line(text: str) -> None:
    try:
        neighbours(text)
        neighbours("<lldp>" + text)
    except ValueError as problem:
        assert "\n" not in str(problem)


NAMES = st.text(alphabet=st.characters(codec="utf-8", categories=("L", "N", "P", "S")),
                min_size=1, max_size=20)


@given(st.lists(st.tuples(NAMES, NAMES, NAMES, st.booleans()), max_size=4))
def test_what_a_writer_of_lldpd_writes_is_read_back_from_xml_and_json0(
        ends: list[tuple[str, str, str, bool]]) -> None:
    xml = "".join(
        f"<interface name={quoteattr(name)}><chassis><id "
        f"type=\"mac\">00:00:5e:00:53:01</id><name>{escape(system)}</name>"
        f"<capability type=\"Bridge\" enabled=\"{'on' if on else 'off'}\"/></chassis><port><id "
        f"type=\"ifname\">{escape(port)}</id></port></interface>"
        for name, system, port, on in ends)
    json0 = {"lldp": [{"interface": [
        {"name": name,
         "chassis": [{"id": [{"type": "mac", "value": "00:00:5e:00:53:01"}], "name": [{"value": system}],
                      "capability": [{"type": "Bridge", "enabled": on}]}],
         "port": [{"id": [{"type": "ifname", "value": port}]}]} for name, system, port, on in ends]}]}
    expected = [(name, system, port, on) for name, system, port, on in ends]
    for text in (f"<lldp>{xml}</lldp>", json.dumps(json0)):
        assert [(one.interface, one.system, one.port, one.switches) for one in neighbours(text)] == expected


def of(ends: int) -> str:
    return json.dumps({"lldp": {"interface": [{"name": f"e{n}"} for n in range(ends)]}})


def test_a_text_is_read_up_to_its_limits_of_length_and_of_neighbours() -> None:
    assert neighbours('{"lldp": []}'.ljust(MOST_LETTERS)) == ()
    assert len(neighbours(of(1024))) == 1024
    for text, why in (('{"lldp": []}'.ljust(MOST_LETTERS + 1), "over 1024 KiB"),
                      (of(1025), "over 1024 neighbours")):
        with pytest.raises(ValueError, match=why):
            neighbours(text)
