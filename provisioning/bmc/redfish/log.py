"""A controller's event log in the terms in which the node's own look at it is judged
(`healthcheck.facts.bmc`), and how full it is.

Makers word the same event differently. What the checks know by ipmitool's words is named by these in front of
the maker's own, after DMTF's schema LogEntry, Dell's event and error message reference (MEM0001, PSU0001,
PSU0003, RDU0012, CPU0000, PCI1318, PCI1320) and HPE's IML messages. An event that the controller calls
critical and that no such words are known of ends with `CRITICAL`: no one judged it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

from healthcheck.facts.bmc import BmcEvent, BmcLog, BmcLogUse
from healthcheck.facts.values import UNSUPPORTED
from inventory.text import clean
from provisioning.bmc.base import BmcError, BmcErrorReason, LogReading
from provisioning.bmc.redfish.answers import Document
from provisioning.bmc.redfish.read import inner, last, link, links, number, objects, text, word
from provisioning.bmc.redfish.service import RedfishService
from provisioning.bmc.redfish.session import Session
from provisioning.bmc.redfish.walk import ENDS, expands

CRITICAL = "[critical]"
_MOST_READ = 65_536
_MOST_PAGES = 1024
_TOGETHER = 32
_KEPT = 0.25            # of a call's time, for what is asked after the entries
# The words that the checks know, and how makers say it.
_WORDS = tuple(
    (known, re.compile(pattern)) for known, pattern in (
        ("Uncorrectable ECC", r"multi-bit memory error|uncorrect\w* (?:memory|ecc)|memory.{0,40}uncorrect"),
        ("Memory device disabled", r"memory.{0,40} (?:disabled|mapped out)|dimm.{0,40} disabled"),
        ("IERR", r"\bierr\b|processor.{0,20}internal error"),
        ("Uncorrectable machine check", r"uncorrect\w* machine check"), ("Thermal trip", r"thermal.?trip"),
        ("Bus fatal error", r"bus fatal error|fatal error was detected on a component|uncorrect\w* pci ?e"),
        ("AC lost",
         r"power (?:input|cord).{0,60} lost|input (?:power )?(?:is |was )?lost|no power "
         r"(?:detected|input)|\bac lost"), ("Redundancy lost", r"redundancy.{0,20} lost|lost redundancy"),
        ("Failure detected", r"power supply.{0,30} (?:failed|failure)|psu.{0,20} fail")))
_POWER = frozenset({"AC lost", "Redundancy lost", "Failure detected"})
_ASSERTED = re.compile(r"[\s:|-]*(?:de)?assert(?:ed)?[. ]*$")
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(?:\.\d+)?(Z|[+-]\d{2}:?\d{2})?", re.ASCII)
_MONTHS_AGO = 946_684_800.0     # the year 2000: a controller that says less does not know the time


class ClearScope(Enum):
    """What an entry says is over."""

    NOTHING = "nothing"
    ITSELF = "itself"       # it was repaired
    SAME = "same"           # the same event of the same sensor before it
    SENSOR = "sensor"       # all that was wrong with its sensor


class RedfishLogEntry(NamedTuple):
    """One entry; `sensor` is what its later entries are about, too, and `same` which event of it this is."""

    order: tuple[float, int]
    sensor: str
    same: str
    event: BmcEvent
    ends: ClearScope


def bmc_log(service: RedfishService, now: float) -> LogReading:
    """The events that still hold, and what of the logs was not read. Raises BmcError where none of it can
    be; UNSUPPORTED's text where there is no log."""
    entries: list[RedfishLogEntry] = []
    missing: list[str] = []
    read_any = False
    wrong: BmcError | None = None
    for found in _logs(service):
        if isinstance(found, BmcError):
            wrong = wrong or found
            missing.append(found.message)
            continue
        reading = _Entries(service.session, found.entries)
        try:
            entries += [entry for document in reading if (entry := read(document)) is not None]
        except BmcError as problem:
            if problem.wrong in ENDS and not entries:
                raise
            wrong = wrong or problem
            missing.append(problem.message)
            continue
        read_any = True
        missing += reading.missing
    if wrong is not None and not read_any and not entries:
        raise wrong
    return LogReading(BmcLog("BMC", events=held(entries), now=_now(service, now)), "; ".join(missing[:3]))


def _now(service: RedfishService, now: float) -> float:
    """The controller's own clock, which dated the events; where it tells none, this machine's."""
    for manager in service.managers():
        if (clock := epoch(inner(manager.document, "DateTime"))) is not None:
            return clock
        break
    return now


def bmc_log_use(service: RedfishService) -> BmcLogUse:
    """How full the fullest log is; one that overwrites its oldest entries is never full."""
    used: list[int] = []
    for found in _logs(service):
        if isinstance(found, BmcError):
            raise found
        most = number(found.document, "MaxNumberOfRecords")
        if word(found.document, "OverWritePolicy") == "WrapsWhenFull" or not isinstance(
            most, int) or most == 0:
            continue
        count = number(service.session.get(found.entries), "Members@odata.count")
        if isinstance(count, int):
            used.append(min(100, 100 * count // most))
    percent: Any = max(used) if used else UNSUPPORTED
    return BmcLogUse("BMC", used_percent=percent)


class _Log(NamedTuple):
    """A log: where its entries are, and what it says of itself."""

    entries: str
    document: Document


def _logs(service: RedfishService) -> Iterator[_Log | BmcError]:
    """The log of machine, boards and controllers with the machine's events, or why one does not tell."""
    service.system()
    found = False
    for owner in (*service.systems(), *service.managers()):
        if owner.document is None:
            if owner.wrong is not None and owner.wrong.wrong is not BmcErrorReason.UNSUPPORTED:
                found = True
                yield owner.wrong
            continue
        collection = link(owner.document, "LogServices")
        if collection is None:
            continue
        by_name: dict[str, str] = {}
        for path in links(service.session.get(collection), "Members"):
            by_name.setdefault(last(path).casefold(), path)
        for name in service.maker.logs:
            if (chosen := by_name.get(name.casefold())) is None:
                continue
            try:
                document = service.session.get(chosen)
            except BmcError as problem:
                if problem.wrong is not BmcErrorReason.UNSUPPORTED:
                    raise
                continue
            if (entries := link(document, "Entries")) is not None:
                found = True
                yield _Log(entries, document)
                break
    if not found:
        raise BmcError(BmcErrorReason.UNSUPPORTED, "it has no known event log")


class _Entries:
    """The entries of one log, page after page; where they are links alone, the newest first by number, as
    far as the time of the call goes. Afterwards `missing` says what was not read."""

    def __init__(self, session: Session, path: str) -> None:
        self._session = session
        self._path = path
        self.missing: list[str] = []

    def __iter__(self) -> Iterator[Document]:
        """Raises BmcError where not even the first page can be read."""
        first = self._first()
        counted = number(first, "Members@odata.count")
        named: list[str] = []
        given = 0
        for page in self._pages(first):
            members = inner(page, "Members")
            if not isinstance(members, list) or not all(isinstance(one, dict) for one in members):
                self.missing.append("what it gives is no list of entries")
            for one in objects(page, "Members"):
                given += 1
                if any(not key.startswith("@") for key in one):
                    yield one
                elif (where := link(one)) is not None:
                    named.append(where)
            if given >= _MOST_READ:
                self.missing.append(f"it has over {_MOST_READ} entries")
                break
        else:
            if isinstance(counted, int) and counted > given and not self.missing:
                self.missing.append(f"it counts {counted} entries and gave {given}")
        yield from self._at(sorted(named, key=_numbered, reverse=True))

    def _first(self) -> Document:
        page = self._session.get(self._path)
        if not any(any(not key.startswith("@") for key in one) for one in objects(page, "Members")) and (
            query := expands(self._session)):
            try:
                return self._session.get(self._path + query)
            except BmcError as problem:
                if problem.wrong not in (
                    BmcErrorReason.REFUSED, BmcErrorReason.UNSUPPORTED, BmcErrorReason.BROKEN):
                    raise
        return page

    def _pages(self, page: Document) -> Iterator[Document]:
        seen: set[str] = set()
        for _ in range(_MOST_PAGES):
            yield page
            after = inner(page, "Members@odata.nextLink")
            if not isinstance(after, str) or not after:
                return
            if after in seen:
                self.missing.append("a page of it leads back to one before it")
                return
            seen.add(after)
            try:
                page = self._session.get(after)
            except BmcError as problem:
                self.missing.append(f"page {len(seen) + 1}: {problem.message}")
                return
        self.missing.append(f"it has over {_MOST_PAGES} pages")

    def _at(self, paths: Sequence[str]) -> Iterator[Document]:
        refused = 0
        for place, path in enumerate(paths):
            if place % _TOGETHER == 0:
                self._session.prefetch(paths[place:place + _TOGETHER])
            if self._session.share_left() < _KEPT:
                self.missing.append(f"{len(paths) - place} older entries: there was no time for them")
                return
            try:
                yield self._session.get(path)
            except BmcError as problem:
                if problem.wrong is BmcErrorReason.UNSUPPORTED:     # the log was cleared, or wrapped, since
                    continue
                if not refused:
                    self.missing.append(f"entry {last(path)}: {problem.message}")
                refused += 1
                if problem.wrong in ENDS:
                    return


def _numbered(path: str) -> int:
    digits = re.findall(r"\d{1,15}", last(path))
    return int(digits[-1]) if digits else 0


def read(document: Document) -> RedfishLogEntry | None:
    """One entry; None for what says nothing. What is critical and has no words has at least its id."""
    severity = word(document, "Severity") or word(document, "MessageSeverity")
    message = text(document, "Message", most=300)
    if not isinstance(message, str):
        if severity != "Critical":
            return None
        message = word(document, "MessageId") or f"entry {word(document, 'Id') or 'without a number'}"
    bare = message.casefold()
    known = next((name for name, pattern in _WORDS if pattern.search(bare)), "")
    kind = _text(document, "SensorType")
    count = number(document, "SensorNumber")
    origin = link(document, "Links", "OriginOfCondition")
    sensor = f"{kind} #0x{count:02x}" if kind and isinstance(count, int) else kind
    shown = sensor or (last(origin) if origin is not None else "") or word(
        document, "Oem", "Hpe", "ClassDescription") or "BMC"
    if known in _POWER and not any(
        part in shown.casefold() for part in ("power supply", "psu", "power unit", "redundancy")):
        shown = f"Power supply ({shown})"
    message = message if not known or known.casefold() in bare else f"{known}: {message}"
    if severity == "Critical" and not known:
        message = f"{clean(message, 140)} {CRITICAL}"
    time, when = _when(document)
    identity = text(document, "Id")
    order = time if time is not None else 0.0, _numbered(identity) if isinstance(identity, str) else 0
    # Some number all sensors 0 or 255: then an entry is about nothing but what it says.
    numbered = isinstance(count, int) and 0 < count < 255
    ends = _ends(document, severity, bare)
    if ends is ClearScope.SENSOR and not numbered and origin is None:
        ends = ClearScope.ITSELF
    event = BmcEvent(clean(shown, 60), clean(message, 160), time, when)
    return RedfishLogEntry(
        order, sensor if numbered else origin or shown, _ASSERTED.sub("", bare), event, ends)


def _ends(document: Document, severity: str, message: str) -> ClearScope:
    if inner(document, "Resolved") is True or inner(document, "Oem", "Hpe", "Repaired") is True:
        return ClearScope.ITSELF
    if _text(document, "EntryCode").casefold().startswith(
        "deassert") or message.rstrip(". ").endswith("deasserted"):
        return ClearScope.SAME
    return ClearScope.SENSOR if severity == "OK" else ClearScope.NOTHING


def _text(document: Document, key: str) -> str:
    """Text, or the text in the first object of a list, as older Dell wrote it."""
    return word(document, key) or word(document, key, "0", "Member")


def held(entries: Iterable[RedfishLogEntry]) -> tuple[BmcEvent, ...]:
    """The events that were not taken back by a later entry, oldest first."""
    holds: dict[str, dict[str, tuple[int, BmcEvent]]] = {}
    for place, entry in enumerate(sorted(entries, key=lambda entry: entry.order)):
        of_sensor = holds.setdefault(entry.sensor, {})
        if entry.ends is ClearScope.NOTHING:
            of_sensor[entry.same] = place, entry.event
        elif entry.ends is ClearScope.SAME:
            of_sensor.pop(entry.same, None)
        elif entry.ends is ClearScope.SENSOR:
            of_sensor.clear()
    left = sorted((one for of_sensor in holds.values() for one in of_sensor.values()), key=lambda one: one[0])
    return tuple(event for _, event in left)


def _when(document: Document) -> tuple[float | None, str]:
    for key in ("EventTimestamp", "Created"):
        found = inner(document, key)
        time = epoch(found)
        if time is not None and time >= _MONTHS_AGO:
            return time, dt.datetime.fromtimestamp(time, dt.timezone.utc).strftime("%Y-%m-%d %H:%M")
    return None, "undated"


def epoch(found: Any) -> float | None:
    """A Redfish time as epoch seconds; one without a zone is taken as UTC. None for what is none."""
    match = _TIME.fullmatch(found) if isinstance(found, str) and len(found) < 64 else None
    if match is None:
        return None
    zone = ("+00:00" if match[3] in (None, "Z") else
            match[3] if ":" in match[3] else f"{match[3][:3]}:{match[3][3:]}")
    try:
        return dt.datetime.fromisoformat(f"{match[1]}T{match[2]}{zone}").timestamp()
    except (ValueError, OverflowError):
        return None
