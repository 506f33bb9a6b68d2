"""Identity, power, boot override, BIOS, virtual media and firmware, out of Redfish. Source: DMTF's schemas
ComputerSystem, Manager, Bios, VirtualMedia, SoftwareInventory, and DSP0266, 9.10 (settings resources)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from healthcheck.facts.values import UNSUPPORTED, Unmeasured
from inventory.text import clean
from provisioning.bmc.base import (
    Bios,
    BootOverride,
    BootTarget,
    FirmwareEntry,
    MachineIdentity,
    Media,
    Missing,
    PowerState,
)
from provisioning.bmc.redfish import vendors
from provisioning.bmc.redfish.answers import Document
from provisioning.bmc.redfish.read import NOT_REPORTED, first, flag, inner, last, link, text, word

Settings = Mapping[str, str | int | bool]
# The Redfish word of each target: the one that is written first, and others that mean the same.
TARGETS = {
    BootTarget.NONE: ("None",), BootTarget.PXE: ("Pxe",), BootTarget.DISK: ("Hdd",),
    BootTarget.CD: ("Cd", "UsbCd"), BootTarget.BIOS: ("BiosSetup",)}
_TARGET = {name: target for target, names in TARGETS.items() for name in names}
_POWER = {
    "On": PowerState.ON, "Off": PowerState.OFF, "PoweringOn": PowerState.CHANGING,
    "PoweringOff": PowerState.CHANGING, "Paused": PowerState.ON}
_GENERIC = frozenset({"", "software inventory", "firmware inventory"})     # what some call every entry
_ONCE: dict[str, bool | Missing] = {"Once": True, "Continuous": False, "Disabled": False}
_MOST_SETTINGS = 10_000


def identity(
    root: Document, system: Document, manager: Document | None, maker: vendors.Maker,
) -> MachineIdentity:
    """What machine and controller are. Dell's SerialNumber is the board's; the label has the SKU."""
    serial = text(system, "SerialNumber")
    if maker is vendors.DELL:
        serial = first(text(system, "SKU"), serial)
    called = vendors.controller(root, manager, maker)
    return MachineIdentity(
        vendor=first(text(system, "Manufacturer"), text(root, "Vendor")), model=text(system, "Model"),
        serial=serial, uuid=text(system, "UUID"), bios=text(system, "BiosVersion"),
        firmware=text(manager, "FirmwareVersion"), controller=clean(called, 60) if called else NOT_REPORTED,
        name=text(system, "HostName"))


def power(system: Document) -> PowerState | None:
    """Whether it has power; None where that is not said."""
    return _POWER.get(word(system, "PowerState"))


def boot(system: Document) -> BootOverride:
    """The override of the boot order."""
    found = inner(system, "Boot")
    progress = first(text(system, "BootProgress", "LastState"), text(system, "Oem", "Hpe", "PostState"))
    if not isinstance(found, dict):
        return BootOverride(UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, progress)
    enabled = inner(found, "BootSourceOverrideEnabled")
    # `word` takes None for "nothing is said", and here it is one of the values.
    name = inner(found, "BootSourceOverrideTarget")
    target: BootTarget | Missing = NOT_REPORTED
    if isinstance(name, str):
        target = _TARGET.get(name, Unmeasured(f"{clean(name, 40)} is a target that is not known"))
    if enabled == "Disabled":
        target = BootTarget.NONE
    once: bool | Missing = _ONCE.get(enabled, NOT_REPORTED) if isinstance(enabled, str) else NOT_REPORTED
    allowed = inner(found, "BootSourceOverrideTarget@Redfish.AllowableValues")
    if not isinstance(allowed, list):
        return BootOverride(target, once, progress=progress)
    kinds = [kind for one in allowed if isinstance(one, str) and (kind := _TARGET.get(one)) is not None]
    return BootOverride(target, once, tuple(dict.fromkeys(kinds)), progress)


def settings(document: Document | None) -> Settings | Missing:
    """The attributes of a Bios resource, as it spells them; those without a value are left out."""
    found = inner(document, "Attributes")
    if not isinstance(found, dict):
        return NOT_REPORTED
    if len(found) > _MOST_SETTINGS:
        return Unmeasured(f"it tells of over {_MOST_SETTINGS} settings")
    return MappingProxyType({
        clean(key, 200): clean(value, 1000) if isinstance(value, str) else value
            for key, value in found.items() if isinstance(value, (str, int, bool))})


def pending_path(document: Document) -> str | None:
    """Where the settings for the next reset are."""
    return link(document, "@Redfish.Settings", "SettingsObject")


def bios(current: Document, pending: Document | Missing | None) -> Bios:
    """Current settings, and the pending that differ: some services repeat all that is current."""
    now = settings(current)
    if pending is None:
        return Bios(now, UNSUPPORTED)
    if not isinstance(pending, dict):
        return Bios(now, pending)
    then = settings(pending)
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        then = MappingProxyType(
            {key: value for key, value in then.items() if key not in now or not _same(now[key], value)})
    return Bios(now, then)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def media(path: str, document: Document) -> Media:
    """One virtual drive."""
    kinds = inner(document, "MediaTypes")
    image = inner(document, "Image")
    name = inner(document, "Id")
    return Media(
        clean(name, 60) if isinstance(name, str) and name else last(path),
        tuple(clean(one, 20) for one in kinds[:8] if isinstance(one, str)) if isinstance(kinds, list) else (),
        clean(image, 400) if isinstance(image, str) else "", flag(document, "Inserted") is True)


def no_image(address: str) -> str:
    """Why a controller is not sent to this image, or ""; what may be a password is not repeated."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "the image's address is no http(s) address"
    if "@" in parts.netloc:
        return "the image's address holds a user or a password; serve it without one"
    return "" if parts.scheme and parts.netloc else "the image's address is no http(s) address"


def firmware(path: str, document: Document) -> FirmwareEntry:
    """One entry; Dell's names an earlier and a coming version of each, too, which do not run."""
    name = word(document, "Name")
    if name.casefold() in _GENERIC:
        name = word(document, "Id") or last(path)
    return FirmwareEntry(name, text(document, "Version"), flag(document, "Updateable"))


def runs(path: str) -> bool:
    """Whether an entry of the firmware inventory is of what runs now."""
    return not last(path).startswith(("Previous-", "Available-"))
