"""UFM's ports, links and systems, saved from its REST interface, are a subnet like that of any other tool.

`PORT` and `LINK` have the values of the UFM Enterprise REST API guide: "Ports REST API" of 6.22.1 (a port
that is polling) and "Links REST API" of 6.20.0 and 6.11.1, as they are published there. Others are made of
them in the same form.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.subnet.merge import merge
from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricLink, LinkState, Subnet
from healthcheck.subnet.readers import ufm
from healthcheck.subnet.readers.every import source_of
from tests.command import muster

SWITCH, OTHER, CARD = "900a840300ac8c40", "9c0591030085abc0", "b8599f03000a77d0"
PORT: dict[str, Any] = {
    "description": "Switch IB Port", "number": 52, "external_number": 52, "physical_state": "Polling",
    "path": "default(5) / Switch: sw-ufm-ndr03 / 1/26/2",
    "tier": 3, "high_ber_severity": "N/A", "lid": 34, "mirror": "disable", "logical_state": "Down",
    "capabilities": ["reset", "healthy_operations", "disable", "get_cables_info"], "mtu": 4096,
    "peer_port_dname": "N/A", "severity": "Info",
    "active_speed": None, "enabled_speed": [], "supported_speed": [], "active_width": None,
    "enabled_width": [],
    "name": f"{SWITCH}_52", "dname": "1/26/2", "guid": SWITCH, "peer": "N/A",
    "node_description": "sw-ufm-ndr03:1/26/2"}
LINK: dict[str, Any] = {
    "source_guid": SWITCH, "source_port": "5", "destination_guid": OTHER, "destination_port": "5",
    "source_port_dname": "1/3/1",
    "source_port_name": f"{SWITCH}_5", "destination_port_dname": "1/3/1",
    "destination_port_name": f"{OTHER}_5", "width": "4x", "severity": "Info",
    "source_port_node_description": "sw-ufm-ndr03:1/3/1",
    "destination_port_node_description": "sw-ufm-ndr04:1/3/1",
    "name": f"{SWITCH}_5:{OTHER}_5", "capabilities": ["collect_system_dump"]}
HOST_LINK: dict[str, Any] = {
    "destination_port_dname": "HCA-1/2", "severity": "Info", "source_guid": "248a070300f88fe0",
    "width": "IB_4x", "source_port_dname": "20",
    "source_port": "20", "destination_port": "2", "destination_guid": CARD,
    "name": "248a070300f88fe0_20:b8599f03000a77d0_2"}
UP: dict[str, Any] = {**PORT, "number": 5, "name": f"{SWITCH}_5", "dname": "1/3/1",
                      "physical_state": "Link Up", "logical_state": "Active",
                      "active_speed": "NDR", "active_width": "4x", "peer": f"{OTHER}_5",
                      "node_description": "sw-ufm-ndr03:1/3/1"}
ADAPTER: dict[str, Any] = {**UP, "description": "Computer IB Port", "name": f"{CARD}_1", "guid": CARD,
                           "number": 1, "dname": "HCA-1/1",
                           "peer": f"{SWITCH}_7", "node_description": "gpu001 mlx5_0", "active_speed": "HDR",
                           "active_width": "IB_2x"}
SYSTEM: dict[str, Any] = {"type": "switch", "guid": SWITCH, "system_guid": SWITCH,
                          "system_name": "sw-ufm-ndr03", "state": "active"}


def whole(ports: list[Any], links: list[Any], systems: list[Any]) -> Subnet:
    return merge("", [ufm.read_ports(json.dumps(ports)), ufm.read_systems(json.dumps(systems)),
                      ufm.read_links(json.dumps(links))])


def test_a_published_port_is_read_and_what_it_does_not_say_is_not_known() -> None:
    port = ufm.read_ports(json.dumps([PORT])).devices[SWITCH].ports[52]
    assert (port.state, port.physical, port.lid, port.label) == (LinkState.DOWN, "polling", 34, "1/26/2")
    assert (port.width, port.speed, port.peer, port.port_guid) == (None, None, None, None)


def test_the_three_files_are_one_subnet_with_names_kinds_and_links() -> None:
    found = whole([PORT, UP, ADAPTER], [LINK, HOST_LINK], [SYSTEM])
    up, card = found.devices[SWITCH].ports[5], found.devices[CARD]
    assert (up.state, up.physical, up.width, up.speed, up.peer) == (LinkState.ACTIVE, "linkup", 4, "NDR",
                                                                    FabricEnd(OTHER, 5))
    assert (found.devices[SWITCH].kind, found.devices[SWITCH].description,
            found.devices[SWITCH].system) == (DeviceKind.SWITCH, "sw-ufm-ndr03", SWITCH)
    assert (card.kind, card.description, card.ports[1].width,
            card.ports[1].speed) == (DeviceKind.ADAPTER, "gpu001 mlx5_0", 2, "HDR")
    assert FabricLink.of(FabricEnd("248a070300f88fe0", 20), FabricEnd(CARD, 2)) in found.links
    assert found.managers is None and found.counters is None and not found.partial and found.unread == ()


@pytest.mark.parametrize("other", [
    {"physical_state": "LinkUp"}, {"active_width": "4X"}, {"active_width": "IB_4x"},
    {"active_speed": "106.25 Gbps"}, {"active_speed": "ndr"},
    {"logical_state": "active"}, {"name": f"0x{SWITCH.upper()}_5"}])
def test_other_spellings_of_a_port_that_is_up_mean_the_same(other: dict[str, Any]) -> None:
    assert ufm.read_ports(json.dumps([{**UP, **other}])).devices == ufm.read_ports(json.dumps([UP])).devices


@pytest.mark.parametrize(("condition", "expected"),
                         [("MANUAL", {"MANUAL"}), (["manual", "FLAPPING", 7], {"MANUAL", "FLAPPING"}),
                          (None, set())])
def test_unhealthy_ports_are_known_at_both_ends_with_their_conditions(condition: Any,
                                                                      expected: set[str]) -> None:
    row = {"UnhealthyGUID": SWITCH, "UnhealthyPortNumber": 5, "PeerGUID": OTHER, "PeerPortNumber": "5",
           "Condition": condition}
    found = merge("", [ufm.read_ports(json.dumps([UP])),
                       ufm.read_unhealthy(json.dumps([row, {**row, "PeerGUID": "N/A"}]))])
    assert found.unhealthy == {FabricEnd(SWITCH, 5): expected,
                               FabricEnd(OTHER, 5): expected} and set(found.devices) == {SWITCH}
    assert (found.isolated(FabricEnd(OTHER, 5)) is ("MANUAL" in expected) and not found.partial
            and found.unread == ())


@pytest.mark.parametrize(("text", "said"), [("[{}]", "unhealthy port 1 names no GUID and number"),
                                            ("{}", "is no list of objects"),
                                            ('{"data": [], "num_of_pages": 3}', "is one page of several")])
def test_where_unhealthy_ports_are_not_all_read_the_subnet_is_partial(text: str, said: str) -> None:
    found = merge("", [ufm.read_ports(json.dumps([UP])), ufm.read_unhealthy(text)])
    assert found.partial and said in found.unread[0]


def test_a_page_that_is_whole_is_read_as_its_list_is() -> None:
    page = {"total_resources": 1, "filtered_resources": 1, "num_of_pages": 1, "first_index": 1,
            "last_index": 1, "data": [UP]}
    assert ufm.read_ports(json.dumps(page)) == ufm.read_ports(json.dumps([UP]))


def test_a_links_width_is_read_where_no_port_shows_it() -> None:
    assert ufm.read_links(json.dumps([LINK])).devices[OTHER].ports[5].width == 4
    assert ufm.read_links(json.dumps([HOST_LINK])).devices[CARD].kind is DeviceKind.ADAPTER


@pytest.mark.parametrize(("file", "text", "said"), [
    ("ufm-ports.json", "[", "ufm-ports.json: is no JSON, or ends early"),
    ("ufm-links.json", '{"data": 3}', "ufm-links.json: is no list of objects"),
    ("ufm-systems.json", "[3]", "ufm-systems.json: is no list of objects"),
    ("ufm-ports.json", "[" * 100_000, "is no JSON")])
def test_a_file_that_is_no_list_is_partial_and_said(file: str, text: str, said: str) -> None:
    source = source_of(file)
    assert source is not None
    found = source.read(text, False)
    assert found.partial and said in found.unread[0] and not found.devices


@pytest.mark.parametrize(("reader", "row", "said"), [
    (ufm.read_ports, {**PORT, "name": "x\x1b[2J"}, r"port 1: name is no GUID_NUMBER: 'x\x1b[2J'"),
    (ufm.read_links, {**LINK, "source_port": 5.5}, "link 1 does not name two ports"),
    (ufm.read_systems, {**SYSTEM, "guid": None}, "system 1 is a switch without GUID")])
def test_a_row_that_names_nothing_is_said(reader: Any, row: dict[str, Any], said: str) -> None:
    assert said in reader(json.dumps([row])).unread[0]


_VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20),
                    st.lists(st.integers(), max_size=2),
                    st.sampled_from([f"{SWITCH}_5", f"{OTHER}_5", SWITCH, "Active", "4x", "NDR", "switch",
                                     "Switch IB Port", "\x1b[2J\udcff"]))


@given(st.lists(st.dictionaries(st.sampled_from(sorted({*PORT, *LINK, *SYSTEM})), _VALUES), max_size=5))
def test_any_rows_give_clean_names_and_known_values(rows: list[dict[str, Any]]) -> None:
    for device in whole(rows, rows, rows).devices.values():
        assert device.description.isprintable() and len(device.description) < 200
        assert all(port.width in (None, 1, 2, 4, 8, 12) and (port.label or "").isprintable()
                   for port in device.ports.values())


@given(st.text())
def test_any_text_is_read_or_partial(text: str) -> None:
    for reader in (ufm.read_ports, ufm.read_links, ufm.read_systems):
        assert reader(text).partial or isinstance(json.loads(text), list)


def test_fabric_check_reads_a_folder_of_them(tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    for name, rows in (("ufm-ports.json", [PORT, UP, ADAPTER]), ("ufm-links.json", [LINK]),
                       ("ufm-systems.json", [SYSTEM])):
        (tmp_path / "outputs" / name).write_text(json.dumps(rows))
    done = muster("fabric", "check", "--from", "outputs", "--width", "4", "--format", "json", home=tmp_path)
    assert done.returncode == 1, done.stderr
    found = {(one["rule"], one["place"]["name"]) if isinstance(one.get("place"), dict) else one["rule"]
             for one in json.loads(done.stdout)["findings"]}
    assert any("width" in str(one) for one in found), found
