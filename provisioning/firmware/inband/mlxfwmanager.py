"""Reads what mlxfwmanager (mlxup, mstfwmanager) prints when it is asked about one adapter: XML, or text,
which is all that older ones have.

Sources. Mellanox/mstflint, mlxfwupdate/: `FW` is what is on the flash, and `FW (Running)` (`FW_Running` in
XML) stands beside it only where another one runs until the restart; "--" and "N/A" are no versions; a device
that cannot be opened has "Failed to open device" for its status. Outputs in tests/recordings/firmware.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping

from inventory.text import clean
from provisioning.firmware.inband.device import MOST_TEXT, BandDevice, ToolOutputError

_NONE = frozenset({"", "--", "N/A"})
_LINE = re.compile(r"^[ \t]*(FW(?: \(Running\))?|Status:)[ \t]+([^\r\n]{1,400})$", re.MULTILINE)
_OPENING = "<Devices>"


def device(pci: str, text: str) -> BandDevice:
    """The adapter at this PCI address, of which alone the tool was asked. Raises ToolOutputError."""
    said = _of_xml(text) if _OPENING in text else _of_text(text)
    name = f"hca {clean(pci.lower(), 40)}"
    flash, running = said.get("flash", ""), said.get("running", "")
    if not flash:
        why = said.get("status", "") or "mlxfwmanager does not say it"
        return BandDevice(pci, name, "hca", None, clean(why, 120))
    if running and running != flash:
        return BandDevice(pci, name, "hca", running, waits=True, written=flash)
    return BandDevice(pci, name, "hca", flash)


def _of_xml(text: str) -> Mapping[str, str]:
    start, end = text.find(_OPENING), text.rfind("</Devices>")
    body = text[start:end + len("</Devices>")] if end > start else ""
    if "<!" in body:        # no document of the tool declares anything, and entities can be made to grow
        raise ToolOutputError("its XML declares something")
    try:
        found = ET.fromstring(body).findall("Device")  # noqa: S314  (nothing is declared in it)
    except (ET.ParseError, ValueError, RecursionError):
        raise ToolOutputError("it is no XML of devices") from None
    if len(found) != 1:
        raise ToolOutputError(f"it tells of {len(found)} devices, and was asked about one")
    (one,) = found
    return {"flash": _current(one.find("Versions/FW")), "running": _current(one.find("Versions/FW_Running")),
            "status": _version(one.findtext("Status") or "")}


def _current(found: ET.Element | None) -> str:
    return "" if found is None else _version(found.get("current") or "")


def _of_text(text: str) -> Mapping[str, str]:
    if text.count("Device #") != 1:
        raise ToolOutputError("it is neither XML nor text about one device")
    said: dict[str, str] = {}
    for word, rest in _LINE.findall(text):
        if word == "Status:":
            said.setdefault("status", _version(rest))
        else:
            said.setdefault("flash" if word == "FW" else "running", _version(rest.split()[0]))
    return said


def _version(text: str) -> str:
    found = clean(text.strip(), MOST_TEXT)
    return "" if found in _NONE else found
