"""What `muster os serve` answers to each request, and what it writes down of it. No sockets here.

    GET  /boot.ipxe                             the script that asks for the machine's own
    GET  /boot/MAC.ipxe                         the machine's: the installer if it is armed, else its disk
    GET  /seed/NODE/NUMBER/TICKET/FILE          a file of the installer's seed
    GET  /seed/NODE/NUMBER/TICKET/written       the installer has written the disk
    GET, POST /seed/NODE/NUMBER/TICKET/failed   the installer gave up; why=TEXT, or the body, says why
    POST /done/NODE                             the signed phone-home
    GET  /files/PATH                            a file of the folder `files`
    GET  /loader/FILE                           an iPXE, for UEFI's HTTP boot

Whoever asks for what is not his gets one and the same answer, whether it exists or not.
"""

from __future__ import annotations

import hmac
import os
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inventory.entry import mac_address
from inventory.errors import MusterError
from inventory.text import clean
from provisioning.osinstall.pxe import phonehome, record, seed
from provisioning.osinstall.pxe.machines import is_host_name
from provisioning.osinstall.pxe.neighbours import hardware_address
from provisioning.osinstall.pxe.options import DhcpOptions, PxeOptions
from provisioning.osinstall.pxe.record import Installation, InstallationStage
from provisioning.osinstall.pxe.records import InstallationRecords
from provisioning.osinstall.pxe.settingfields import FILE_NAME
from provisioning.osinstall.pxe.templates import Templates

MOST_BODY = phonehome.MOST_BYTES
_MOST_WHY = 300
_WRITTEN, _FAILED = "written", "failed"


@dataclass(frozen=True)
class PxeRequest:
    """What came in. `path` is without the query; header names are in lower case."""

    method: str
    path: str
    query: str = ""
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    peer: str = ""


@dataclass(frozen=True)
class PxeAnswer:
    """What goes out: a text, or a file. `log` is a line for people, empty where nothing is to be said."""

    status: int
    text: str = ""
    file: Path | None = None
    log: str = ""


_NOT_YOURS = PxeAnswer(404, "not found\n")
_NOT_ACCEPTED = PxeAnswer(403, "not accepted\n")


class PxeSite:
    """Answers for one site. Safe for many threads: all state is in the records."""

    def __init__(
        self, options: PxeOptions, records: InstallationRecords, clock: Callable[[], float] = time.time,
        neighbour: Callable[[str], str | None] = hardware_address,
    ) -> None:
        self._options, self._records, self._clock, self._neighbour = options, records, clock, neighbour
        self._templates = Templates(options.templates)

    def answer(self, request: PxeRequest) -> PxeAnswer:
        """The answer; what it is about is in the record before the answer goes out. Never raises."""
        parts = request.path.split("/")[1:]
        reads = request.method in ("GET", "HEAD")
        try:
            if reads and parts == ["boot.ipxe"]:
                return PxeAnswer(200, seed.chain(self._options, self._templates))
            if reads and len(parts) == 2 and parts[0] == "boot":
                return self._boot(parts[1], request)
            if len(parts) == 5 and parts[0] == "seed":
                return self._seed(parts[1], parts[2], parts[3], parts[4], request)
            if request.method == "POST" and len(parts) == 2 and parts[0] == "done":
                return self._done(parts[1], request)
            if reads and len(parts) > 1 and parts[0] == "files" and self._options.files is not None:
                return _file(self._options.files, "/".join(parts[1:]))
            if reads and len(parts) == 2 and parts[0] == "loader" and self._options.dhcp is not None:
                return _loader(self._options.dhcp, parts[1])
        except MusterError as problem:
            return PxeAnswer(503, "muster cannot answer now; see the log of muster os serve\n",
                             log=str(problem))
        return _NOT_YOURS

    def overdue(self) -> tuple[str, ...]:
        """Writes down the installations whose time is over; a line for each."""
        now, lines = self._clock(), []
        for one in self._records.all():
            if not one.ended and now >= one.until:
                self._records.change(one.node, lambda old: None if old is None or old.ended or (
                    now < old.until) else record.failed(old, record.overdue(old), now))
                lines.append(f"{one.node}: installation {one.number} failed: {record.overdue(one)}")
        return tuple(lines)

    def _boot(self, name: str, request: PxeRequest) -> PxeAnswer:
        mac = mac_address(name.removesuffix(".ipxe")) if name.endswith(".ipxe") else None
        now = self._clock()
        found = self._records.by_mac(mac, now) if mac is not None else None
        if mac is None:
            return _NOT_YOURS
        if found is None or found.stage is InstallationStage.WRITTEN:
            return PxeAnswer(200, seed.local(self._templates), log=f"{mac} boots from its disk")
        if why := self._foreign(found, request.peer):
            return PxeAnswer(404, "not found\n", log=why)
        text = seed.boot(self._options, self._templates, found)
        if request.method == "HEAD":
            return PxeAnswer(200, text)
        kept = self._reached(found, InstallationStage.BOOT, now)
        if kept is None or kept.ticket != found.ticket:      # ended meanwhile
            return PxeAnswer(200, seed.local(self._templates))
        return PxeAnswer(200, text, log=f"{found.node}: boots the installer of {found.image}")

    def _seed(self, node: str, number: str, ticket: str, name: str, request: PxeRequest) -> PxeAnswer:
        now = self._clock()
        found = self._records.read(node) if is_host_name(node) else None
        if found is None or not found.active(now) or str(found.number) != number or not _same(
                found.ticket, ticket):
            return _NOT_YOURS
        if why := self._foreign(found, request.peer):
            return PxeAnswer(404, "not found\n", log=why)
        if name == _FAILED and request.method in ("GET", "POST"):
            why = f"its installer reports: {_why(request)}"
            self._same(found, lambda old: record.failed(old, why, now))
            return PxeAnswer(200, "noted\n", log=f"{node}: installation {number} failed: {why}")
        if request.method not in ("GET", "HEAD"):
            return _NOT_YOURS
        if name == _WRITTEN and request.method == "GET":
            self._reached(found, InstallationStage.WRITTEN, now)
            return PxeAnswer(200, "noted\n", log=f"{node}: its disk is written")
        try:
            text = seed.seed(self._options, self._templates, found, name)
        except KeyError:
            return _NOT_YOURS
        if request.method == "GET" and self._reached(found, InstallationStage.SEED, now) is None:
            return _NOT_YOURS
        return PxeAnswer(200, text, log=f"{node}: its installer fetched {name}")

    def _done(self, node: str, request: PxeRequest) -> PxeAnswer:
        """Accepts a phone-home once; the same message again gets the same answer and changes nothing."""
        now = self._clock()
        signature = request.headers.get(phonehome.HEADER.lower(), "")
        found = self._records.read(node) if is_host_name(node) else None
        if found is None:
            return _NOT_ACCEPTED
        digest = phonehome.digest(request.body, signature)
        if found.ended or now >= found.until:
            known = found.stage is InstallationStage.DONE and hmac.compare_digest(found.digest, digest)
            return PxeAnswer(200, "accepted already\n") if known else PxeAnswer(
                410, "spent or over\n", log=f"{node}: a phone-home came after its installation had ended")
        if not phonehome.is_signed(found.token, request.body, signature):
            return PxeAnswer(403, _NOT_ACCEPTED.text, log=f"{node}: a phone-home with a wrong signature, "
                             f"from {clean(request.peer, 60)}")
        try:
            said = phonehome.parse(request.body)
            objection = phonehome.objection(said, found)
        except ValueError as problem:
            objection = str(problem)
        if objection:
            return PxeAnswer(400, f"refused: {objection}\n",
                             log=f"{node}: a signed phone-home was refused: {objection}")
        kept = self._same(found, lambda old: record.done(old, said.host_keys, digest, now))
        if kept is None or kept.digest != digest:
            return PxeAnswer(410, "spent or over\n")
        return PxeAnswer(200, "accepted\n", log=f"{node}: is installed with {found.image}")

    def _reached(self, found: Installation, stage: InstallationStage, now: float) -> Installation | None:
        return self._same(found, lambda old: record.reached(old, stage, now))

    def _same(
        self, found: Installation, how: Callable[[Installation], Installation],
    ) -> Installation | None:
        """The record after a change, where it still is of this installation and has not ended; else None."""
        def changed(old: Installation | None) -> Installation | None:
            return how(old) if old is not None and not old.ended and old.number == found.number else None

        return self._records.change(found.node, changed)

    def _foreign(self, found: Installation, peer: str) -> str:
        """What is wrong with a peer whose hardware address is known and not the machine's."""
        known = self._neighbour(peer) if self._options.neighbours else None
        if known is None or known in found.macs:
            return ""
        return (f"{found.node}: refused {clean(peer, 60)}, whose hardware address {known} is not in its "
                "boot_mac")


def _same(ours: str, given: str) -> bool:
    return bool(ours) and hmac.compare_digest(ours.encode(), given.encode("utf-8", "replace"))


def _why(request: PxeRequest) -> str:
    """What the installer says is wrong, as one clean line: the last part of a long one."""
    if request.body:
        text = request.body.decode("utf-8", "replace")
    else:
        text = urllib.parse.parse_qs(request.query[:2000]).get("why", [""])[0]
    line = " ".join(text.split())
    return clean(line[-_MOST_WHY:], _MOST_WHY) or "no reason"


def _loader(dhcp: DhcpOptions, name: str) -> PxeAnswer:
    """An iPXE for UEFI; Debian's is a link to another folder."""
    if not name or name not in (dhcp.loaders.x64, dhcp.loaders.arm64):
        return _NOT_YOURS
    path = Path(dhcp.tftp, name)
    return PxeAnswer(200, file=path) if path.is_file() else _NOT_YOURS


def _file(folder: Path, name: str) -> PxeAnswer:
    """A regular file below the folder; links lead nowhere else."""
    if FILE_NAME.fullmatch(name) is None:
        return _NOT_YOURS
    path = os.path.realpath(folder / name)
    base = os.path.realpath(folder)
    if os.path.commonpath((base, path)) != base or not os.path.isfile(path):  # noqa: PTH113  (False where we may not look)
        return _NOT_YOURS
    return PxeAnswer(200, file=Path(path))
