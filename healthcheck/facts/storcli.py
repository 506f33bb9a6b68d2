"""What tools of hardware RAID controllers print: Broadcom's storcli and storcli2, which Dell calls perccli
and perccli2, in JSON; Marvell's mvcli and mnv_cli, for the boot mirror BOSS, as text.

Names of members and states: Broadcom's StorCLI and StorCLI2 reference manuals ("show all"; the legends below
its tables), and output that was published: prometheus-community's storcli.py and netdata's storcli collector
(storcli 7), scality/raidmgmt (storcli2 8). The older tool has one word for what a drive is and how it is
("State": Onln, UBad), the newer one two ("State": Conf, "Status": Online). Dell's guides show mvcli's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.parsing import json_object, member
from healthcheck.facts.values import UNSUPPORTED, Unmeasured, Unread
from inventory.text import clean

MOST = 1024     # drives, volumes and controllers that are read of one document

# Volumes, by their legend: Rec=Recovery, OfLn=OffLine, Pdgd=Partially Degraded, Dgrd=Degraded, Optl=Optimal.
OPTIMAL = "optimal"
_VOLUMES = {"optl": OPTIMAL, "dgrd": "degraded", "pdgd": "partially degraded", "ofln": "offline",
            "rec": "recovering", "fail": "failed", "functional": OPTIMAL, "optimal": OPTIMAL,
            "degraded": "degraded", "degrade": "degraded", "offline": "offline", "failed": "failed",
            "missing": "missing"}
ONLINE, REBUILDING, COPYING = "online", "rebuilding", "copied to a spare"
MISSING, UNCONFIGURED = "missing", "unconfigured"
SOUND = frozenset((ONLINE, REBUILDING, COPYING, UNCONFIGURED, "a spare", "not in a volume", "being erased"))
# Drives: UGood, UBad (unconfigured), Onln, Offln, Msng, GHS and DHS (spares), Rbld, Cpybck, Sntze; a shielded
# drive (Shld) is tested by the controller after errors; Unsp, one that it cannot use.
_DRIVES = {"onln": ONLINE, "offln": "offline", "ubad": "unconfigured, bad", "ugood": UNCONFIGURED,
           "ghs": "a spare", "dhs": "a spare", "rbld": REBUILDING, "cpybck": COPYING,
           "jbod": "not in a volume",
           "sntze": "being erased", "msng": MISSING, "missing": MISSING, "failed": "failed", "fail": "failed",
           "ugunsp": "not supported by its controller", "ubunsp": "not supported by its controller",
           "ugshld": "shielded after errors", "hspshld": "shielded after errors",
           "cfshld": "shielded after errors", "cbshld": "shielded after errors",
           # The newer tool's status.
           "online": ONLINE, "good": UNCONFIGURED, "bad": "unconfigured, bad", "offline": "offline",
           "rebuild": REBUILDING, "rebuilding": REBUILDING, "copyback": COPYING, "replacing": COPYING,
           "unusable": "not supported by its controller", "unusbl": "not supported by its controller",
           "sanitize": "being erased", "shielded": "shielded after errors", "hotspare": "a spare"}
_ADDRESS = re.compile(r"([0-9A-Fa-f]{2,4}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2}):0?([0-7])")


@dataclass(frozen=True)
class Response:
    """What a tool printed of one controller: its number there, and the data."""

    number: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class DriveErrors:
    """What a controller counted of one drive, each a number or why there is none."""

    media: Any
    predicted: Any
    alert: Any


def responses(text: str) -> tuple[Response, ...]:
    """The controllers that a document is about, none where it finds none; raises Unread where it is none, or
    says that it failed."""
    listed = member(json_object(text), "Controllers")
    if not isinstance(listed, list) or not listed:
        raise Unread("its answer is no JSON of storcli's form")
    found = []
    for entry in listed[:MOST]:
        status, data = member(entry, "Command Status"), member(entry, "Response Data")
        words = str(member(status, "Description"))
        if member(status, "Status") != "Success":
            if re.search(r"controller[ 0-9]*not found|no controller found", words, re.IGNORECASE):
                continue
            raise Unread(f"its answer is a failure: {clean(words, 100)}")
        number = str(member(status, "Controller"))
        if not isinstance(data, dict) or not number.isdigit():
            raise Unread("its answer has no data of a controller")
        found.append(Response(number, data))
    return tuple(found)


def pci_address(data: Mapping[str, Any]) -> str:
    """A controller's PCI address as the kernel has it ("0000:0a:00.0"); empty where it is not shown."""
    for block in ("Basics", "HostInterface"):
        found = _ADDRESS.fullmatch(str(member(data, block, "PCI Address")).strip())
        if found is not None:
            domain, bus, device, function = found.groups()
            return f"{domain.rjust(4, '0')}:{bus}:{device}.{function}".lower()
    return ""


def model(data: Mapping[str, Any]) -> str:
    """A controller's name."""
    return clean(str(member(data, "Basics", "Model") or member(data, "Basics", "Product Name") or "RAID"), 60)


def table(data: Mapping[str, Any], name: str, count: str) -> tuple[list[dict[str, Any]], str]:
    """The rows of one of a controller's tables, and what is missing of it by the number beside it."""
    rows = data.get(name)
    rows = [row for row in rows[:MOST] if isinstance(row, dict)] if isinstance(rows, list) else []
    said = data.get(count)
    short = f"{name} shows {len(rows)} of {said}" if isinstance(said, int) and said > len(rows) else ""
    return rows, short


def number(value: Any, what: str) -> Any:
    """A count; UNSUPPORTED where it is not there."""
    if value is None or value in ("N/A", "NA", "-"):
        return UNSUPPORTED
    return int(value) if str(value).isascii() and str(value).isdigit() else Unmeasured(
        f"{what} is {clean(str(value), 30)!r}, which is no whole number")


def volume_state(word: Any) -> Any:
    """A volume's state in words."""
    return _word(word, _VOLUMES, "state of the volume")


def drive_state(row: Mapping[str, Any]) -> Any:
    """A drive's state in words: the newer tool's status where it has one, else the older one's state."""
    state, status = str(row.get("State", "")), row.get("Status")
    if status is None:
        return _word(state, _DRIVES, "state of the drive")
    found = _word(status, _DRIVES, "status of the drive")
    if "shld" in state.lower():
        return "shielded after errors"
    if "unsp" in state.lower():
        return "not supported by its controller"
    if found in (ONLINE, UNCONFIGURED) and state.upper().startswith(("GHS", "DHS")):
        return "a spare"
    return "not in a volume" if found == ONLINE and state.upper().startswith("JBOD") else found


def _word(word: Any, words: Mapping[str, str], what: str) -> Any:
    text = clean(str(word), 40).strip()
    return words.get(text.lower()) or Unmeasured(f"the {what} is {text!r}, which is no word of the manual")


def place(row: Mapping[str, Any]) -> str:
    """Where a drive is: enclosure and slot, "252:3", or the slot alone."""
    return clean(str(row.get("EID:Slt", "?")), 20).strip().lstrip(":").strip()


def of_drives(data: Mapping[str, Any]) -> dict[str, DriveErrors]:
    """What the controller counted of each of its drives, by place ("show all" of drives, either form)."""
    found = {}
    drives = data.get("Drives List")
    for entry in drives[:MOST] if isinstance(drives, list) else ():
        detail = member(entry, "Drive Detailed Information")
        units = member(detail, "LU/NS Properties")
        units = units if isinstance(units, list) and units else [units]
        row = member(entry, "Drive Information")
        if isinstance(row, dict):
            alert = member(detail, "S.M.A.R.T alert flagged by drive")
            found[place(row)] = DriveErrors(_sum(units, "Media Error Count"),
                                       _sum(units, "Predictive Failure Count"), _yes(alert))
    for name, detail in data.items():
        at = re.fullmatch(
            r"(Drive /c[0-9]{1,4}(?:/e([0-9]{1,6}))?/s([0-9]{1,6})) - Detailed Information", name)
        if at is not None and isinstance(detail, dict):
            state = detail.get(f"{at[1]} State")
            found[f"{at[2]}:{at[3]}" if at[2] else at[3]] = DriveErrors(
                number(member(state, "Media Error Count"), "Media Error Count"),
                number(member(state, "Predictive Failure Count"), "Predictive Failure Count"),
                _yes(member(state, "S.M.A.R.T alert flagged by drive")))
    return found


def _sum(units: list[Any], name: str) -> Any:
    counts = [number(member(unit, name), name) for unit in units]
    return next((count for count in counts if not isinstance(count, int)), None) or sum(counts)


def _yes(value: Any) -> Any:
    if value is None:
        return UNSUPPORTED
    return value == "Yes" if value in ("Yes", "No") else Unmeasured(
        f"the drive's alert is {clean(str(value), 20)!r}, which is neither Yes nor No")


def marvell(text: str) -> Iterator[tuple[str, Any, str]]:
    """The volumes of mvcli and mnv_cli (info -o vd): name, state, and what is being done; raises Unread where
    the text is of another form, or has not as many as it says."""
    blocks: list[dict[str, str]] = []
    total = None
    for line in text.splitlines():
        name, colon, value = (word.strip() for word in line.partition(":"))
        if not colon:
            continue
        if name.lower() in ("id", "vd id"):
            blocks.append({})
        if name.lower() == "total # of vd":
            total = value
        elif blocks:
            blocks[-1][name.lower()] = value
    if total != str(len(blocks)):
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        raise Unread(f"its answer is not of the documented form: {clean(lines[-1] if lines else '', 80)}")
    for number_, block in enumerate(blocks):
        state = volume_state(block.get("status"))
        if state == OPTIMAL and "vd status" in block:
            state = volume_state(block["vd status"])
        level = clean(block.get("raid mode", "?"), 12)
        yield f"{number_} ({level})", state, clean(block.get("bga progress", ""), 60)
