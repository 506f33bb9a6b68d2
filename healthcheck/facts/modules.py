"""What the cable or optical module in each adapter's port states of itself: maker, part number, serial number
and date code. By them faults are compared between what a maker made together.

mlxlink's "Module Info" has maker, part and serial number (prepareStaticInfoSection of
mlxlink/modules/mlxlink_commander.cpp in Mellanox/mstflint), and the date where its firmware shows one;
`ethtool -m` has all of them ("Vendor name", "Vendor PN", "Vendor SN", "Vendor rev", "Date code";
sff-common.c, sfpid.c and cmis.c of ethtool). The date code is year, month, day and the maker's lot (SFF-8636,
bytes 212 to 219; CMIS, bytes 182 to 189).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.optics import MLXLINK, MODULES
from healthcheck.facts.parsing import natural
from healthcheck.facts.port import BASE
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread
from inventory.text import clean

# By the field, what mlxlink and ethtool call it.
_MLXLINK = {"vendor": "Vendor Name", "part": "Vendor Part Number", "serial": "Vendor Serial Number",
            "revision": "Rev", "date": "Manufacturing Date"}
_ETHTOOL = {"vendor": "Vendor name", "part": "Vendor PN", "serial": "Vendor SN", "revision": "Vendor rev",
            "date": "Date code"}
_LINE = re.compile(r"^\s+(Vendor name|Vendor PN|Vendor SN|Vendor rev|Date code)\s*: ([^\n]{0,100})$",
                   re.MULTILINE)
_LONGEST = 40       # the fields have at most 16 characters


class PluggedModule(Fact):
    """What is plugged into the port of an adapter ("mlx5_0"), as it states it; what it leaves empty is
    UNSUPPORTED. `date` is the date code as it is written there. A port without a module has none."""

    IDENTITY = ("serial",)

    name: str
    vendor: str
    part: str
    serial: str
    revision: str
    date: str


@fact("plugged_modules", MLXLINK, besides=(MODULES,), each="plugged_module")
def plugged_modules(captures: Captures) -> tuple[PluggedModule, ...]:
    """The modules of all adapters that mlxlink or ethtool can ask, in natural order; ethtool adds what
    mlxlink does not show of the same module."""
    found: dict[str, dict[str, str]] = {}
    unread: list[str] = []
    for probe, parse in ((MLXLINK, _by_mlxlink), (MODULES, _by_ethtool)):
        try:
            answers = captures.devices(probe)
        except Unread as error:
            unread.append(str(error))
            continue
        for path, answer in answers.items():
            device = path.removeprefix(f"{BASE}/").partition("/")[0]
            if isinstance(answer, Unmeasured) or not (shown := parse(answer.text)):
                continue
            known = found.setdefault(device, dict(shown))
            if known.get("serial") == shown.get("serial"):
                found[device] = {**shown, **known}
    if len(unread) == 2:
        raise Unread(unread[0])
    return tuple(_module(device, shown) for device, shown in sorted(
        found.items(), key=lambda at: natural(at[0])))


def _module(device: str, shown: Mapping[str, Any]) -> PluggedModule:
    return PluggedModule(device, **{field: shown.get(field, UNSUPPORTED) for field in _MLXLINK})


def _by_mlxlink(text: str) -> Mapping[str, str]:
    try:
        document: Any = json.loads(text)
        module = document["result"]["output"]["Module Info"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return {}
    if not isinstance(module, dict):
        return {}
    return _kept({field: module.get(name) for field, name in _MLXLINK.items()})


def _by_ethtool(text: str) -> Mapping[str, str]:
    shown = dict(_LINE.findall(text))
    return _kept({field: shown.get(name) for field, name in _ETHTOOL.items()})


def _kept(values: Mapping[str, object]) -> dict[str, str]:
    """What says anything; nothing where neither part nor serial number does."""
    found = {field: clean(value.strip(), _LONGEST) for field, value in values.items()
             if isinstance(value, str) and value.strip() not in ("", "N/A", "_")}
    return found if found.keys() & {"part", "serial"} else {}
