"""The hardware that a certificate holds for: each component's serial number, UUID and firmware, and the
versions that run on the node.

GPUs and adapters are identified by PCI address ("gpu 0000:18:00.0", "nic 0000:1a:00.0"); the machine is
"board". Only root may read an adapter's serial number, so the GUID in the first entry of its port's GID
table, which is set at manufacture, stands for it here. An adapter's node GUID and display name ("mlx5_0")
stand beside it, so that the subnet's view of the fabric can be joined with nodes, and so does its link
layer: an adapter of an Ethernet is rightly in no subnet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from healthcheck.facts.base import BY_BUILDER, Captures, build_fact, subjects_of
from healthcheck.facts.firmware import Firmware, firmware
from healthcheck.facts.gpu import gpus
from healthcheck.facts.hca import hcas
from healthcheck.facts.host import Versions, versions
from healthcheck.facts.limits import COMPONENTS
from healthcheck.facts.modules import plugged_modules
from healthcheck.facts.port import BASE, SYSFS, ports
from healthcheck.facts.values import reading
from healthcheck.model.hardware import Hardware, Now
from healthcheck.model.recording import Recording
from inventory.text import clean

_GID = re.compile(r"(?:[0-9a-f]{4}:){4}((?:[0-9a-f]{4}:){3}[0-9a-f]{4})")
_OF_MODULE = ("vendor", "part", "serial", "revision", "date")
# Placeholders that vendors leave in place of a serial number.
_NO_NUMBER = re.compile(
    r"[0 .:-]*|n/?a|none|unknown|not (specified|available)|default string|to be filled by o\.e\.m\.|"
    r"system serial number", re.IGNORECASE)


def hardware_of(recording: Recording, captures: Captures | None = None) -> Now:
    """The components of a reached node; what could not be read is left out."""
    captures = captures if captures is not None else Captures(recording)
    found: dict[str, dict[str, str]] = {}
    whole = set()
    for kind, builder, keys in (("gpu", gpus, {"serial": "serial", "uuid": "uuid", "firmware": "vbios"}),
                                ("nic", hcas, {"firmware": "firmware", "guid": "guid", "device": "device"})):
        subjects, all_of_them = subjects_of(builder, captures)
        guids, layers = (_guids(captures), _layers(captures)) if kind == "nic" else ({}, {})
        for subject in subjects[:COMPONENTS]:
            pci = reading(subject, "pci")
            if not isinstance(pci, str):
                all_of_them = False
                continue
            if kind == "nic" and reading(subject, "virtual") is True:
                continue
            part = dict(_known_values(subject, keys))
            if kind == "nic" and subject.device in guids:
                part["uuid"] = guids[subject.device]
            if kind == "nic" and subject.device in layers:
                part["layer"] = layers[subject.device]
            found[f"{kind} {clean(pci.lower(), 20)}"] = part
        if all_of_them and subjects:
            whole.add(kind)
    board = build_fact(BY_BUILDER[firmware], captures)
    if (isinstance(board, Firmware)
            and (part := dict(_known_values(board, {"serial": "serial", "firmware": "bios"})))):
        found["board"] = part
    running = build_fact(BY_BUILDER[versions], captures)
    named = (dict(_known_values(running, {"driver": "driver", "kernel": "kernel"}))
             if isinstance(running, Versions) else {})
    boot = recording.host.boot_id if recording.host is not None else ""
    return Now(found, frozenset(whole), clean(boot, 64), named, _parts(captures))


def _parts(captures: Captures) -> dict[str, dict[str, str]]:
    """By adapter what its lot and that of the module in its port are known by."""
    found: dict[str, dict[str, str]] = {}
    for subject in subjects_of(hcas, captures)[0][:COMPONENTS]:
        if reading(subject, "virtual") is not True and (board := dict(_known_values(subject, {
                "adapter": "board", "guid": "guid", "adapter_part": "part", "adapter_serial": "serial"}))):
            found[subject.device] = board
    for module in subjects_of(plugged_modules, captures)[0][:COMPONENTS]:
        found.setdefault(module.name, {}).update(_known_values(module, {key: key for key in _OF_MODULE}))
    return found


def to_document(now: Now) -> dict[str, Any]:
    """The JSON document for the store."""
    return {"hardware": now.hardware, "whole": sorted(now.whole), "versions": now.versions,
            "parts": {name: dict(part) for name, part in now.parts.items()}}


def from_document(document: Any, boot: str) -> Now:
    """The hardware in a document of `to_document`."""
    hardware: Hardware = document["hardware"]
    return Now(hardware, frozenset(document["whole"]), boot, document["versions"], document.get("parts", {}))


def _known_values(subject: Any, keys: dict[str, str]) -> Iterator[tuple[str, str]]:
    for key, field in keys.items():
        value = reading(subject, field)
        if isinstance(value, str) and _NO_NUMBER.fullmatch(value.strip()) is None:
            yield key, clean(value.strip(), 80)


def _guids(captures: Captures) -> dict[str, str]:
    """By adapter, the GUID of its first port."""
    files, found = captures.files_if_any(SYSFS), {}
    for path in files:
        at, _, entry = path.partition("/ports/")
        if (at.startswith(f"{BASE}/") and entry == "1/gids/0"
                and isinstance(text := files.read(path, str), str)):
            match = _GID.fullmatch(text.strip().lower())
            if match is not None and match[1].replace("0", "").strip(":"):
                found[at[len(BASE) + 1:]] = match[1]
    return found


def _layers(captures: Captures) -> dict[str, str]:
    """By adapter "InfiniBand" where any of its ports is, else what they are."""
    found: dict[str, str] = {}
    for port in subjects_of(ports, captures)[0]:
        layer = reading(port, "link_layer")
        if isinstance(layer, str) and found.get(port.device) != "InfiniBand":
            found[port.device] = clean(layer, 20)
    return found
