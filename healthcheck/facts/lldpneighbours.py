"""What lldpd knows of a machine's neighbours: the output of `lldpctl -f json`, `json0` or `xml`; pure.

The forms are those of lldpd's writers (src/client/json_writer.c, xml_writer.c): `json0` and `xml` always have
the same shape; `json` leaves out lists of one, moves names into keys and puts a lone value in the place of
its object, so that its shape depends on how many there are. MAAS keeps the XML that its commissioning script
captured (src/metadataserver/builtin_scripts/commissioning_scripts/capture_lldpd.py). Texts are what switches
say, cleaned and bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from inventory.text import clean

MOST_LETTERS = 1024 * 1024
_MOST = 1024        # neighbours
_SWITCHES = ("bridge", "router")
_OWN = frozenset(("via", "rid", "age", "chassis", "port"))      # of an interface, and no interface's name


@dataclass(frozen=True)
class LldpNeighbour:
    """Who is at the other end of one interface: `system` is its name, `chassis` its id, `port` its own name
    of the port. `switches` says whether it has the capability Bridge or Router turned on, None where it does
    not say.
    """

    interface: str
    system: str
    chassis: str
    port: str
    switches: bool | None


def neighbours(text: str) -> tuple[LldpNeighbour, ...]:
    """All neighbours that an output of lldpctl names. Raises ValueError, one line, for another form."""
    if len(text) > MOST_LETTERS:
        raise ValueError(f"over {MOST_LETTERS // 1024} KiB")
    found = []
    for one in _of_xml(text) if text.lstrip().startswith("<") else _of_json(text):
        if one.interface:
            found.append(one)
        if len(found) > _MOST:
            raise ValueError(f"over {_MOST} neighbours")
    return tuple(found)


def _of_json(text: str) -> Iterator[LldpNeighbour]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("no JSON of lldpctl") from None
    if not isinstance(document, dict) or "lldp" not in document:
        raise ValueError("no output of lldpctl: it has no lldp")
    for lldp in _maps(document["lldp"]):
        for holder in _maps(lldp.get("interface")):
            for name, interface in _named(holder, _is_interface):
                for system, chassis in _chassis(interface.get("chassis")):
                    yield _neighbour(name, system, chassis, next(_maps(interface.get("port")), {}))


def _is_interface(holder: Mapping[str, Any]) -> bool:
    return "name" in holder or bool(_OWN & holder.keys() and not any(
        isinstance(value, dict) and _OWN & value.keys() for value in holder.values()))


def _is_chassis(holder: Mapping[str, Any]) -> bool:
    """Whether these are a chassis' own fields: its id is one, and not a system that is called id."""
    return "name" in holder or any("type" in one or "value" in one for one in _maps(holder.get("id")))


def _named(holder: Mapping[str, Any], own: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects of a map that is one with its name in it (json0), or has each under its name (json)."""
    if own(holder):
        yield _value(holder.get("name")), holder
        return
    for name, value in holder.items():
        for one in _maps(value):
            yield name, one


def _chassis(value: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    any_there = False
    for holder in _maps(value):
        for found in _named(holder, _is_chassis):
            any_there = True
            yield found
    if not any_there:
        yield "", {}


def _neighbour(
    name: str, system: str, chassis: Mapping[str, Any], port: Mapping[str, Any],
) -> LldpNeighbour:
    said = [(str(one.get("type", "")).lower(), one.get("enabled") is True)
            for one in _maps(chassis.get("capability"))]
    identity = next(_maps(port.get("id")), {})
    return _made(name, system, _value(chassis.get("id")), str(identity.get("type", "")), _value(identity),
                 _value(port.get("descr")), said)


def _of_xml(text: str) -> Iterator[LldpNeighbour]:
    # Neither has any use here, and either can make a small text a large one.
    if "<!doctype" in text.lower() or "<!entity" in text.lower():
        raise ValueError("XML with a document type of its own, which lldpctl does not print")
    try:
        root = ElementTree.fromstring(text.lstrip())  # noqa: S314  (no entities are left to expand)
    except (ElementTree.ParseError, ValueError, RecursionError):
        raise ValueError("no XML of lldpctl") from None
    if root.tag != "lldp":
        raise ValueError("no output of lldpctl: it has no lldp")
    for interface in root.iter("interface"):
        chassis, port = interface.find("chassis"), interface.find("port")
        said = [(one.get("type", "").lower(), one.get("enabled") == "on")
                for one in (chassis.findall("capability") if chassis is not None else ())]
        identity = port.find("id") if port is not None else None
        yield _made(interface.get("name", ""), _inner(chassis, "name"), _inner(chassis, "id"),
                    identity.get("type", "") if identity is not None else "", _inner(port, "id"),
                    _inner(port, "descr"), said)


def _made(
    interface: str, system: str, chassis: str, kind: str, port: str, description: str,
    capabilities: Iterable[tuple[str, bool]],
) -> LldpNeighbour:
    known = list(capabilities)
    switches = any(on for name, on in known if name in _SWITCHES) if known else None
    # The MAC address of a port says little to a person.
    shown = description if description and kind == "mac" else port or description
    texts = [clean(part, 120).strip() for part in (interface, system, chassis, shown)]
    return LldpNeighbour(texts[0], texts[1], texts[2], texts[3], switches)


def _inner(element: ElementTree.Element | None, tag: str) -> str:
    found = element.findtext(tag) if element is not None else None
    return found or ""


def _maps(value: object) -> Iterator[Mapping[str, Any]]:
    """The objects of a list, or the one that stands in its place."""
    for one in value if isinstance(value, list) else (value,):
        if isinstance(one, dict):
            yield one


def _value(value: object) -> str:
    """A text, as it is, or in an object or a list of one."""
    if isinstance(value, list):
        value = value[0] if value else ""
    if isinstance(value, dict):
        value = value.get("value", "")
    return value if isinstance(value, str) else ""
