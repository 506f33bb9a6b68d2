"""Reads what `fwupdmgr --json` prints.

Sources. fwupd, src/fwupdmgr.md (`--json` is what may be parsed) and libfwupd/fwupd-enums.h: flags, and
UpdateState: 2 success, 3 failed, 4 needs reboot. Before 2.0, `needs-reboot` stands also of drives that no one
has updated, as what an update of them would need; only with an UpdateState it says that one waits. Outputs in
tests/recordings/firmware.
"""

from __future__ import annotations

import json
import re
from typing import Any

from inventory.text import clean
from provisioning.firmware.inband.device import MOST_DEVICES, MOST_TEXT, BandDevice, ToolOutputError

_ID = re.compile(r"[0-9a-f]{40}", re.ASCII)
_WRITTEN = (2, 4)
_WAITS = frozenset({"needs-reboot", "needs-shutdown", "needs-activation"})
_NVME = "nvme"      # the plugin of NVMe drives, whose versions are as the drive says them


def devices(text: str) -> tuple[BandDevice, ...]:
    """The devices with firmware of `fwupdmgr get-devices --json`; those without a version that cannot be
    updated (virtual processors) are left out. Raises ToolOutputError."""
    found = _document(text)
    listed = found.get("Devices")
    if not isinstance(listed, list):
        raise ToolOutputError(error_of(text) or "it lists no devices")
    read = (_device(one) for one in listed[:MOST_DEVICES] if isinstance(one, dict))
    return tuple(one for one in read if one is not None)


def error_of(text: str) -> str:
    """What fwupdmgr says went wrong, "" where it says nothing of that."""
    try:
        error = _document(text).get("Error")
    except ToolOutputError:
        return ""
    message = error.get("Message") if isinstance(error, dict) else None
    return clean(message, 200) if isinstance(message, str) else ""


def _document(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ToolOutputError("it is no JSON") from None
    if not isinstance(found, dict):
        raise ToolOutputError("it is no JSON object")
    return found


def _device(found: dict[str, Any]) -> BandDevice | None:
    address, version = found.get("DeviceId"), found.get("Version")
    listed = found.get("Flags")
    flags = {one for one in listed if isinstance(one, str)} if isinstance(listed, list) else set()
    if not isinstance(address, str) or _ID.fullmatch(address) is None:
        return None
    has = isinstance(version, str) and bool(version.strip())
    if not has and "updatable" not in flags:
        return None
    state = found.get("UpdateState")
    waits = bool(flags & _WAITS) and type(state) is int and state in _WRITTEN
    name = clean(found.get("Name") if isinstance(found.get("Name"), str) else "", MOST_TEXT) or address[:8]
    kind = _NVME if found.get("Plugin") == _NVME else ""
    if not isinstance(version, str) or not has:
        return BandDevice(address, name, kind, None, "fwupd does not say it", waits)
    return BandDevice(address, name, kind, clean(version.strip(), MOST_TEXT), waits=waits)
