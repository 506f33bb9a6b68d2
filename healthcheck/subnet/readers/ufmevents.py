"""UFM's events: its event log (event.log), or what GET /ufmRest/app/events answered, saved as JSON.

Codes and the form of a line are those of Mellanox/ufm_sdk_3.0, plugins/events_history_plugin
(constants/events_constants.py): 328 link up, 329 link down, 331 node down, 332 node up, 907 switch down, 908
switch up, 909 director switch down, 910 up. What a link's event names its ends by is taken from lines that
were published (IBM/CAST, csmd's RAS decoders: "Link [Source GUID_PORT  TO Dest: GUID_PORT]"; the event logs
of imbue-ai/cluster-health: "(Switch:NAME:LABEL)GUID:PORT - (...)"). JSON is that of the UFM Enterprise REST
API guide, "Events REST API": "type" has the code up to 6.16, "event_type" from 6.17 on.

Times are those of UFM's own clock, without a zone: they are read as if they were UTC.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, NamedTuple

from healthcheck.subnet.linkhistory import DeviceEvent, LinkEvent
from healthcheck.subnet.model import FabricEnd
from healthcheck.subnet.readers.building import UnreadLines
from healthcheck.subnet.readers.toolwords import guid_of, numbered
from inventory.text import short

TOOL = "UFM events"
MOST_EVENTS_TEXT = 64 * 1024 * 1024
# Whether the link or device is up, by the event's code.
_LINKS = {"328": True, "329": False}
_DEVICES = {"332": True, "331": False, "908": True, "907": False, "910": True, "909": False}
_LINE = re.compile(
    r"(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?) \[[0-9]{1,20}\] "
    r"\[(?P<code>[0-9]{1,6})\] \w{1,20} "
    r"(?P<rest>.*)")
_REST = re.compile(
    r"(?:Site \[[^\]]{1,200}\] )?\[[^\]]{1,100}\] \w{1,60} \[(?P<path>[^\]]{0,1000})\]"
    r"(?: \[dev_id:? ?(?P<device>[^\]]{1,60})\])?[^:]{0,100}: (?P<description>.*)")
_GUID = r"((?:0x)?[0-9a-fA-F]{16})"
# A link's ends in the event's object, and in its description as earlier and later versions write it. They
# are matched whole: a device may call itself anything, also what looks like an end.
_OBJECT = (re.compile(rf"Source {_GUID}_([0-9]{{1,3}}) {{1,4}}TO Dest: ?{_GUID}_([0-9]{{1,3}})"),
           re.compile(rf"{_GUID}_([0-9]{{1,3}}):{_GUID}_([0-9]{{1,3}})"))
_DESCRIPTION = (
    re.compile(rf"[^:(]{{1,60}}: {_GUID} \([^()]{{1,200}}\) ?: ?([0-9]{{1,3}}) - {_GUID} \([^()]{{1,200}}\)"
               r" ?: ?([0-9]{1,3})(?:, [^()]{0,300})?"),
    re.compile(rf"[^:(]{{1,60}}: \([^()]{{1,200}}\){_GUID}:([0-9]{{1,3}}) - \([^()]{{1,200}}\){_GUID}:"
               r"([0-9]{1,3})(?:, [^()]{0,300})?"))


@dataclass(frozen=True)
class UfmEvents:
    """The events of links and devices, how many events of any kind there were, the times of the first and
    the last of them (None where there is none), and what was not understood, a line each."""

    links: tuple[LinkEvent, ...]
    devices: tuple[DeviceEvent, ...]
    number: int
    first: float | None
    last: float | None
    unread: tuple[str, ...]


class _Event(NamedTuple):
    """An event as either form has it; `objects` name what it is of."""

    time: str
    code: str
    objects: tuple[str, ...]
    device: str
    description: str


def read(text: str, name: str, cut: bool = False) -> UfmEvents:
    """The events in a file of this name; `cut`: whether its end was dropped."""
    unread = UnreadLines(name)
    links: list[LinkEvent] = []
    devices: list[DeviceEvent] = []
    times: list[float] = []
    events = _saved(text, unread) if text.lstrip()[:1] in ("[", "{") else _logged(text, unread)
    for number, event in events:
        at = _time(event.time)
        if at is None or not event.code.isdecimal():
            unread.note(f"event {number} has no time or no code: {short(event.time[:60])}")
            continue
        times.append(at)
        if event.code in _LINKS:
            ends = _ends(event)
            if ends is None:
                unread.note(f"event {number} names no link: {short(event.description[:200])}")
            else:
                links.append(LinkEvent(at, ends[0], _LINKS[event.code], ends[1]))
        elif event.code in _DEVICES:
            guid = guid_of(event.device)
            if guid is None:
                unread.note(f"event {number} names no GUID of a device: {short(event.description[:200])}")
            else:
                devices.append(DeviceEvent(at, guid, _DEVICES[event.code]))
    if cut:
        unread.note("the file is too long; its end was not read")
    return UfmEvents(tuple(links), tuple(devices), len(times), min(times, default=None),
                     max(times, default=None), unread.lines())


def _logged(text: str, unread: UnreadLines) -> Iterator[tuple[int, _Event]]:
    """Events of the log, by line; those of other kinds keep their time only."""
    for number, line in numbered(text):
        found = _LINE.fullmatch(line)
        if found is None:
            unread.add(number, line)
            continue
        path = device = description = ""
        if found["code"] in _LINKS or found["code"] in _DEVICES:
            rest = _REST.fullmatch(found["rest"])
            if rest is None:
                unread.add(number, line)
                continue
            path, device, description = rest["path"], rest["device"] or "", rest["description"]
        yield number, _Event(found["time"], found["code"], (path,), device, description)


def _saved(text: str, unread: UnreadLines) -> Iterator[tuple[int, _Event]]:
    """Events of the REST interface, by their place in the list."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        unread.note("is no JSON, or ends early")
        return
    if not isinstance(found, list):
        unread.note("is no list of events")
        return
    for number, one in enumerate(found, 1):
        if not isinstance(one, dict):
            unread.note(f"event {number} is no object")
            continue
        event_type, kind = _word(one, "event_type"), _word(one, "type")
        name = _word(one, "object_name")
        yield number, _Event(_word(one, "timestamp"), event_type or kind, (name, _word(one, "object_path")),
                             name, _word(one, "description"))


def _word(event: dict[Any, Any], key: str) -> str:
    value = event.get(key)
    return str(value)[:1000] if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _time(text: str) -> float | None:
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError):
        return None


def _ends(event: _Event) -> tuple[FabricEnd, FabricEnd] | None:
    """Both ends of the link: as the object has them, or as the description does."""
    tried = [pattern.fullmatch(one.strip()) for one in event.objects for pattern in _OBJECT]
    tried += [pattern.fullmatch(event.description) for pattern in _DESCRIPTION]
    for found in tried:
        if found is None:
            continue
        one, other = guid_of(found[1]), guid_of(found[3])
        if one is not None and other is not None and (one, found[2]) != (other, found[4]):
            return FabricEnd(one, int(found[2])), FabricEnd(other, int(found[4]))
    return None
