"""What MAAS learned of a machine in commissioning: its switches (lldpctl's XML) and interfaces' PCI
addresses. Both are outputs of MAAS's own scripts (`nodes/ID/results/`), by their names in MAAS 2.x and 3.x
(canonical/maas: src/provisioningserver/refresh/node_info_scripts.py). The resources are LXD's, with the PCI
address of each card and the interfaces at its ports."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from inventory.entry import pci_address
from inventory.model import Node
from inventory.text import clean
from provisioning.osinstall.base import OsError
from provisioning.osinstall.maas.backend import MaasBackend
from provisioning.osinstall.maas.machines import MaasMachine

_LLDP = ("maas-capture-lldpd", "maas-capture-lldp", "99-maas-02-capture-lldp", "99-maas-02-capture-lldpd")
_RESOURCES = ("50-maas-01-commissioning", "20-maas-03-machine-resources")
_RACK = ("rack-", "rack_")      # a tag's name has letters, digits, - and _
_NO_PLACE = ("", "default")


@dataclass(frozen=True)
class Commissioned:
    """`lldp` is the XML, "" where there is none; `pci` has the address of each interface. `racks` are those
    that tags name, with the tag; `unread` says what could not be read."""

    node: str
    machine: str = ""
    lldp: str = ""
    pci: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    racks: tuple[tuple[str, str], ...] = ()
    zone: str = ""
    pool: str = ""
    unread: tuple[str, ...] = ()


def commissioned(backend: MaasBackend, node: Node) -> Commissioned:
    """What MAAS knows of a node's machine; what cannot be read is said in the answer."""
    try:
        one = backend.found(node)
        if one is None:
            return Commissioned(node.name, unread=("MAAS does not have this machine",))
        results = backend.results(one.system_id, (*_LLDP, *_RESOURCES))
    except OsError as problem:
        return Commissioned(node.name, unread=(str(problem),))
    lldp, resources = _newest(results, _LLDP), _newest(results, _RESOURCES)
    unread = () if lldp else (f"MAAS kept no output of lldpctl for {one.called}: commission it with lldpd",)
    return Commissioned(
        node.name, one.called, lldp, addresses(resources), tuple(_racks(one)),
        one.zone if one.zone not in _NO_PLACE else "", one.pool if one.pool not in _NO_PLACE else "", unread)


def addresses(resources: str) -> Mapping[str, str]:
    """Each interface's PCI address, in JSON of MAAS's resources script; empty for anything else."""
    try:
        document = json.loads(resources)
    except (ValueError, RecursionError):
        return {}
    found: dict[str, str] = {}
    for part in ("resources", "network"):
        document = document.get(part) if isinstance(document, dict) else None
    for card in _maps(document.get("cards") if isinstance(document, dict) else None):
        at = card.get("pci_address")
        address = pci_address(at) if isinstance(at, str) else None
        for port in _maps(card.get("ports")):
            name = port.get("id")
            if address is not None and isinstance(name, str) and 0 < len(name) <= 60:
                found[clean(name, 60)] = address
    return found


def _racks(one: MaasMachine) -> Iterator[tuple[str, str]]:
    for tag in one.tags:
        if tag.lower().startswith(_RACK) and len(tag) > len(_RACK[0]):
            yield tag[len(_RACK[0]):], f"MAAS: tag {tag} of {one.called}"


def _newest(results: object, names: tuple[str, ...]) -> str:
    """The output of the newest run that passed of any of these scripts."""
    best, found = -1, ""
    for script_set in _maps(results):
        number = script_set.get("id")
        if not isinstance(number, int) or number <= best:
            continue
        for result in _maps(script_set.get("results")):
            text = _decoded(result.get("stdout")) or _decoded(result.get("output"))
            if result.get("name") in names and result.get("exit_status") == 0 and text:
                best, found = number, text
    return found


def _decoded(value: object) -> str:
    if not isinstance(value, str):
        return ""
    try:
        return base64.b64decode(value, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""


def _maps(value: object) -> Iterator[Mapping[str, Any]]:
    return (one for one in (value if isinstance(value, list) else []) if isinstance(one, dict))
