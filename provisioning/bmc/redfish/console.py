"""What a Redfish service says of the machine's serial console: a log of it that can be read, or how one
connects.

The log is OpenBMC's HostLogger, one entry a line (openbmc/bmcweb,
redfish-core/lib/systems_logservices_hostlogger.hpp; phosphor-hostlogger). Its entries are numbered by their
place, which moves when the oldest file is dropped, so what is new is found behind the lines that were read
last. How one connects: DMTF, ComputerSystem.SerialConsole (v1.13.0: IPMI, SSH, Telnet, WebSocket) and
Manager.SerialConsole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inventory.text import clean
from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.redfish.answers import Document
from provisioning.bmc.redfish.read import inner, last, link, links, number, objects
from provisioning.bmc.redfish.service import RedfishService
from provisioning.bmc.redfish.session import Session

_LOG = "hostlogger"
_WAYS = ("SSH", "Telnet", "WebSocket")
_KNOWN = 8              # lines by which the end of what was read is found again
_BACK = 1000            # entries, where that end has moved
_MOST_PAGES = 16
_LONGEST = 4000


@dataclass(frozen=True)
class RedfishConsole:
    """`entries` is where its log is read, `ipmi` the port at which serial over LAN is offered (0: the usual
    one), None where it is not; `others` names further ways, which muster does not use."""

    entries: str | None
    ipmi: int | None
    others: tuple[str, ...]


def console(service: RedfishService) -> RedfishConsole:
    """What there is. Raises BmcError."""
    system, entries = service.system(), None
    collection = link(system, "LogServices")
    paths = links(service.session.get(collection), "Members") if collection is not None else []
    for path in paths:
        if last(path).casefold() == _LOG:
            entries = link(service.session.get(path), "Entries")
    ipmi, others = _offered(system)
    for manager in service.managers():
        types = inner(manager.document, "SerialConsole", "ConnectTypesSupported")
        if inner(manager.document, "SerialConsole", "ServiceEnabled") is True and isinstance(types, list):
            ipmi = 0 if ipmi is None and "IPMI" in types else ipmi
            others += tuple(kind for kind in _WAYS if kind in types and kind not in others)
        break
    return RedfishConsole(entries, ipmi, others)


def _offered(system: Document) -> tuple[int | None, tuple[str, ...]]:
    held = inner(system, "SerialConsole")

    def enabled(kind: str) -> bool:
        return inner(held, kind, "ServiceEnabled") is True

    port = number(held, "IPMI", "Port")
    return ((port if isinstance(port, int) and port < 65536 else 0) if enabled("IPMI") else None,
            tuple(kind for kind in _WAYS if enabled(kind)))


class HostLog:
    """Reads what is new in such a log; what was there at the first look is not."""

    def __init__(self, session: Session, entries: str) -> None:
        self._session, self._path = session, entries
        self._count: int | None = None
        self._known: list[str] = []

    def new(self) -> tuple[list[str], bool]:
        """The lines since the last look, and whether there may have been others between. Raises BmcError."""
        with self._session.call():
            if self._count is None:
                self._count = _count(self._session.get(f"{self._path}?$top=1"))
                self._known, _ = self._from(max(0, self._count - _KNOWN))
                self._known = self._known[-_KNOWN:]
                return [], False
            lines, count = self._from(max(0, self._count - len(self._known)))
            fresh = _behind(self._known, lines) if lines[:len(self._known)] == self._known else None
            if fresh is None:
                lines, count = self._from(max(0, count - _BACK))
                fresh = _behind(self._known, lines)
        lost = fresh is None
        fresh = lines if fresh is None else fresh
        self._count, self._known = count, (self._known + fresh)[-_KNOWN:]
        return fresh, lost

    def _from(self, skip: int) -> tuple[list[str], int]:
        """The lines from this place on, and how many there are in all."""
        found: list[str] = []
        page = self._session.get(f"{self._path}?$skip={skip}", fresh=True)
        count = _count(page)
        for _ in range(_MOST_PAGES):
            found += [clean(inner(one, "Message") or "", _LONGEST) for one in objects(page, "Members")]
            after = inner(page, "Members@odata.nextLink")
            if not isinstance(after, str) or not after:
                break
            page = self._session.get(after, fresh=True)
        return found, max(count, skip + len(found))


def _count(page: Document) -> int:
    found = number(page, "Members@odata.count")
    if not isinstance(found, int):
        raise BmcError(BmcErrorReason.BROKEN, "its console log does not say how many entries it has")
    return found


def _behind(known: Sequence[str], lines: Sequence[str]) -> list[str] | None:
    """What follows where `known` was last seen; None where it is not there."""
    for at in range(len(lines) - len(known), -1, -1):
        if list(lines[at:at + len(known)]) == list(known):
            return list(lines[at + len(known):])
    return None
