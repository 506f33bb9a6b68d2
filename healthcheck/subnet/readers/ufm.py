"""UFM's view of the fabric, as its REST interface gives it: ufm-ports.json, ufm-links.json and
ufm-systems.json of GET /ufmRest/resources/ports, links and systems, ufm-unhealthy.json of GET
/ufmRest/app/unhealthy_ports. A resource is a list, or where pages were asked for an object with it in `data`.

Fields are those of the UFM Enterprise REST API guide ("Ports", "Links" and "Unhealthy Ports REST API"); a
system's, and a port's `type`, `peer` and states of a port that is up, are as NVIDIA's plugins read them
(Mellanox/ufm_sdk_3.0, plugins/pdr_deterministic_plugin), as no example of the guide that was read shows one
that is up:

- a port's `name` is GUID_NUMBER; `guid`, `dname` (what is printed beside it), `lid`, `physical_state`
  ("Polling", "Link Up"), `logical_state` ("Down", "Active"), `active_width`, `active_speed`, `peer` (the
  name of the port at the other end), `description` ("Switch IB Port"), `node_description`;
- a link's `source_guid`, `source_port`, `destination_guid`, `destination_port`, their `..._dname`, `width`;
- a system's `guid`, `system_guid`, `system_name`, `type` ("switch");
- an unhealthy port's `UnhealthyGUID`, `UnhealthyPortNumber`, `PeerGUID`, `PeerPortNumber`, `Condition` (one
  word, or a list of them in 6.22).

So "LinkUp" is read as "Link Up" is, "4X" and "IB_4x" as "4x", and a rate by its name or in Gbps. A row that
cannot be read makes the reading partial: what it lacks is not known to be absent. A value in another form
("N/A", null), and what has no documented meaning or unit (`severity`, temperatures), is not known.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricPort, LinkState
from healthcheck.subnet.readers.building import Building, SubnetReading, UnreadLines
from healthcheck.subnet.readers.toolwords import MOST_TEXT, guid_of, lanes, name_of, rate
from inventory.text import short

TOOL, LINKS, SYSTEMS, UNHEALTHY = "UFM ports", "UFM links", "UFM systems", "UFM unhealthy ports"
_NAME = re.compile(r"((?:0x)?[0-9a-fA-F]{16})_([0-9]{1,3})")
_STATES = {"down": LinkState.DOWN, "init": LinkState.INITIALIZE, "initialize": LinkState.INITIALIZE,
           "armed": LinkState.ARMED, "active": LinkState.ACTIVE}
_WORD = re.compile(r"[A-Za-z][A-Za-z ]{0,30}")
_SWITCH_PORT = "Switch IB Port"
_SIDES = ("source", "destination")
_MOST_CONDITIONS = 16


def read_ports(text: str, cut: bool = False) -> SubnetReading:
    """The ports, and the devices that they are of."""
    unread, building = UnreadLines("ufm-ports.json"), Building()
    rows = _rows(text, unread)
    for number, row in enumerate(rows or (), 1):
        end = _end(_text(row, "name"))
        if end is None:
            unread.note(f"port {number}: name is no GUID_NUMBER: {short(_text(row, 'name')[:60])}")
            continue
        switch = _text(row, "description") == _SWITCH_PORT
        described = _text(row, "node_description")
        if switch:      # "leaf01:1/26/2"
            described = described.rpartition(":")[0] or described
        building.device(end.guid, DeviceKind.SWITCH if switch else DeviceKind.ADAPTER, name_of(described))
        building.port(_port(row, end, switch))
    return SubnetReading(TOOL, building.devices(), unread=unread.lines(),
                         partial=cut or rows is None or bool(unread.lines()))


def _port(row: Mapping[str, Any], end: FabricEnd, switch: bool) -> FabricPort:
    physical, label, lid = _text(row, "physical_state"), name_of(_text(row, "dname")), row.get("lid")
    peer = _end(_text(row, "peer"))
    return FabricPort(
        end, _STATES.get(_text(row, "logical_state").lower()),
        physical.replace(" ", "").lower() if _WORD.fullmatch(physical) else None,
        _width(row, "active_width"), _speed(row),
        lid=lid if isinstance(lid, int) and not isinstance(lid, bool) and 0 < lid < 1 << 20 else None,
        port_guid=None if switch else guid_of(_text(row, "guid")),
        label=label if label not in ("", str(end.number)) else None, peer=peer if peer != end else None)


def _speed(row: Mapping[str, Any]) -> str | None:
    text = _text(row, "active_speed")
    return rate(text) or rate(text.upper())


def read_links(text: str, cut: bool = False) -> SubnetReading:
    """The links, and the devices at their ends. What a device is, links do not say but for an adapter's
    port, which is called "HCA-1/1": of the others, a switch has several."""
    unread, building = UnreadLines("ufm-links.json"), Building()
    rows = _rows(text, unread)
    found: list[tuple[FabricPort, bool]] = []
    for number, row in enumerate(rows or (), 1):
        one, other = (_end(f"{_text(row, f'{side}_guid')}_{_text(row, f'{side}_port')}") for side in _SIDES)
        if one is None or other is None or one == other:
            unread.note(f"link {number} does not name two ports")
            continue
        for end, peer, side in ((one, other, _SIDES[0]), (other, one, _SIDES[1])):
            adapter = _text(row, f"{side}_port_dname").startswith("HCA-")
            found.append((FabricPort(end, width=_width(row, "width"), peer=peer), adapter))
    several = Counter(port.end.guid for port, _ in found)
    for port, adapter in found:
        building.device(port.end.guid, DeviceKind.ADAPTER if adapter or several[port.end.guid] < 2
                        else DeviceKind.SWITCH)
        building.port(port)
    return SubnetReading(LINKS, building.devices(), unread=unread.lines(),
                         partial=cut or rows is None or bool(unread.lines()))


def read_systems(text: str, cut: bool = False) -> SubnetReading:
    """The switches with their names and systems; hosts are those of their ports."""
    unread, building = UnreadLines("ufm-systems.json"), Building()
    rows = _rows(text, unread)
    for number, row in enumerate(rows or (), 1):
        if _text(row, "type").lower() != "switch":
            continue
        guid = guid_of(_text(row, "guid"))
        if guid is None:
            unread.note(f"system {number} is a switch without GUID")
            continue
        building.device(guid, DeviceKind.SWITCH, name_of(_text(row, "system_name")),
                        guid_of(_text(row, "system_guid")))
    return SubnetReading(SYSTEMS, building.devices(), unread=unread.lines(),
                         partial=cut or rows is None or bool(unread.lines()))


def read_unhealthy(text: str, cut: bool = False) -> SubnetReading:
    """The ports that the subnet manager lists as unhealthy, at both ends of links; names no devices."""
    unread = UnreadLines("ufm-unhealthy.json")
    rows = _rows(text, unread)
    found: dict[FabricEnd, frozenset[str]] = {}
    for number, row in enumerate(rows or (), 1):
        end = _end(f"{_text(row, 'UnhealthyGUID')}_{_number(row, 'UnhealthyPortNumber')}")
        peer = _end(f"{_text(row, 'PeerGUID')}_{_number(row, 'PeerPortNumber')}")
        if end is None:
            unread.note(f"unhealthy port {number} names no GUID and number")
            continue
        for each in (end, peer):
            if each is not None:
                found[each] = found.get(each, frozenset()) | _conditions(row)
    return SubnetReading(UNHEALTHY, unhealthy=found if rows is not None and not cut else None,
                         unread=unread.lines(), partial=cut or rows is None or bool(unread.lines()))


def _conditions(row: Mapping[str, Any]) -> frozenset[str]:
    value = row.get("Condition")
    words = value[:_MOST_CONDITIONS] if isinstance(value, list) else [value]
    return frozenset(name_of(word).upper() for word in words if isinstance(word, str))


def _number(row: Mapping[str, Any], key: str) -> str:
    """A port's number, which UFM writes as a number, or as a word."""
    value = row.get(key)
    return str(value)[:8] if isinstance(value, int | str) and not isinstance(value, bool) else ""


def _rows(text: str, unread: UnreadLines) -> Sequence[Mapping[str, Any]] | None:
    """The objects of the list; None where there is no whole list."""
    try:
        found = json.loads(text[:MOST_TEXT])
    except (ValueError, RecursionError):
        unread.note("is no JSON, or ends early")
        return None
    if isinstance(found, dict) and isinstance(found.get("data"), list):
        if found.get("num_of_pages", 1) not in (0, 1):
            unread.note("is one page of several")       # and so is partial, but for what it has
        found = found["data"]
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        unread.note("is no list of objects")
        return None
    return found


def _text(row: Mapping[str, Any], key: str) -> str:
    """A word of an object; empty where it is none, or "N/A"."""
    value = row.get(key)
    return value[:1000] if isinstance(value, str) and value != "N/A" else ""


def _end(name: str) -> FabricEnd | None:
    found = _NAME.fullmatch(name)
    guid = guid_of(found[1]) if found is not None else None
    return FabricEnd(guid, int(found[2])) if found is not None and guid is not None else None


def _width(row: Mapping[str, Any], key: str) -> int | None:
    return lanes(_text(row, key).removeprefix("IB_"))
