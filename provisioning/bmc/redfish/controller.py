"""A controller that speaks Redfish, for bring-up and `muster bmc`; nothing is sent before a question."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from healthcheck.facts.bmc import BmcLogUse, BmcSensors
from healthcheck.facts.values import Unmeasured
from inventory.text import clean
from provisioning.bmc.base import (
    LOG_DAYS,
    Bios,
    BmcError,
    BmcErrorReason,
    BootOverride,
    BootTarget,
    ChangeEnd,
    EarlierChange,
    FirmwareEntry,
    FirmwareImage,
    HardwareInventory,
    LogReading,
    MachineIdentity,
    Media,
    Missing,
    PowerAction,
    PowerState,
)
from provisioning.bmc.credentials import Hidden
from provisioning.bmc.redfish import hardware, log, sensors, state, task, update
from provisioning.bmc.redfish.answers import Document
from provisioning.bmc.redfish.changes import Changes
from provisioning.bmc.redfish.console import RedfishConsole, console
from provisioning.bmc.redfish.crawl import KeptDocuments
from provisioning.bmc.redfish.leftover import OpenSessions
from provisioning.bmc.redfish.pending import PendingTask, PendingTasks
from provisioning.bmc.redfish.read import last, link, word
from provisioning.bmc.redfish.service import RedfishService
from provisioning.bmc.redfish.session import Session
from provisioning.bmc.redfish.walk import ENDS, CollectionMember, members
from provisioning.bmc.redfish.wire import RedfishEndpoint

_ENDS = {task.TaskEnd.RUNNING: ChangeEnd.RUNNING, task.TaskEnd.RESET: ChangeEnd.RESET,
         task.TaskEnd.DONE: ChangeEnd.DONE, task.TaskEnd.FAILED: ChangeEnd.FAILED,
         task.TaskEnd.UNKNOWN: ChangeEnd.UNKNOWN}


class RedfishController:
    """See `provisioning.bmc.base.Controller`."""

    kind = "redfish"

    def __init__(self, place: RedfishEndpoint, login: Callable[[], tuple[str, Hidden]], seconds: float,
                 clock: Callable[[], float] = time.time, folder: Path | None = None,
                 answer_s: float | None = None, kept: KeptDocuments | None = None) -> None:
        """`folder` is the state folder, where open sessions are kept beyond a kill; `answer_s` as for a
        session; `kept` is for what is read of the parts, should the try not come to its end."""
        self.node = place.node
        self.session = Session(
            place, login, seconds, kept=OpenSessions(folder, place.node) if folder is not None else None,
            answer_s=answer_s)
        self._service = RedfishService(self.session, place.system)
        self._clock = clock
        self._kept = kept
        self._tasks = PendingTasks(folder, place.node)

    def reachable(self) -> str:
        """Reads the service root as a stranger."""
        with self.session.call():
            root = self.session.greeting()
        if root is None:
            return "answers, and shows nothing without a login"
        product = " ".join(part for part in (word(root, "Vendor"), word(root, "Product")) if part)
        return clean(f"Redfish {word(root, 'RedfishVersion')} {product}".strip(), 120)

    def identity(self) -> MachineIdentity:
        """Out of the system and its manager."""
        with self.session.call():
            system = self._service.system()
            manager = next(self._service.managers(), None)
            return state.identity(self.session.root, system,
                                  manager.document if manager is not None else None, self._service.maker)

    def power(self) -> PowerState:
        """Out of the system."""
        with self.session.call():
            found = state.power(self._service.system(fresh=True))
        if found is None:
            raise BmcError(BmcErrorReason.UNSUPPORTED, "it does not say whether the machine has power")
        return found

    def set_power(self, set_power: PowerAction) -> str:
        """Asks for it unless the machine is so already: some refuse what is so."""
        with self.session.call():
            wanted = PowerState.ON if set_power is PowerAction.ON else PowerState.OFF
            now = state.power(self._service.system(fresh=True))
            if now is wanted:
                return ""
            return self._changes().set_power(set_power, push=now is PowerState.OFF)

    def boot(self) -> BootOverride:
        """Out of the system."""
        with self.session.call():
            return state.boot(self._service.system(fresh=True))

    def set_boot(self, target: BootTarget, once: bool) -> str:
        """Sets the override."""
        with self.session.call():
            self._service.system()
            return self._changes().set_boot(target, once)

    def bios(self) -> Bios:
        """Current settings, and those that wait."""
        with self.session.call():
            current = self.session.get(self._bios())
            where = state.pending_path(current)
            pending: Document | Missing | None = None
            if where is not None:
                try:
                    pending = self.session.get(where)
                except BmcError as problem:
                    if problem.wrong in ENDS:
                        raise
                    pending = Unmeasured(problem.message)
            return state.bios(current, pending)

    def set_bios(self, settings: Mapping[str, str | int | bool]) -> str:
        """Writes settings for the next reset."""
        with self.session.call():
            return self._changes().set_bios(self._bios(), settings)

    def media(self) -> tuple[Media, ...]:
        """The virtual drives of the machine's controller, or of the machine, as newer schemas have it."""
        with self.session.call():
            return tuple(
                state.media(one.path, one.document) for one in self._drives() if one.document is not None)

    def insert(self, name: str, image: str) -> str:
        """Puts an image into a drive; one that is in it already is left there."""
        if why := state.no_image(image):
            raise BmcError(BmcErrorReason.REFUSED, why)
        with self.session.call():
            drive = self._drive(name)
            held = state.media(drive.path, drive.document or {})
            if held.inserted and held.image == image:
                return ""
            if held.inserted:
                raise BmcError(BmcErrorReason.REFUSED, f"{name} has another image in it; eject that first")
            return self._changes().insert(drive.path, image)

    def eject(self, name: str) -> str:
        """Takes out what is in a drive; one that is empty is left so."""
        with self.session.call():
            drive = self._drive(name)
            held = state.media(drive.path, drive.document or {})
            return self._changes().eject(drive.path) if held.inserted or held.image else ""

    def earlier(self) -> tuple[EarlierChange, ...]:
        """Looks at the tasks that earlier calls left."""
        if not self._tasks.any():
            return ()
        with self.session.call():
            return tuple(self._earlier())

    def _earlier(self) -> Iterator[EarlierChange]:
        for one in self._tasks.left():
            if isinstance(one, PendingTask):
                yield EarlierChange(one.what, ChangeEnd.RUNNING, "another process waits for it")
                continue
            found = task.again(self.session, one.task)
            if found.end in (task.TaskEnd.RUNNING, task.TaskEnd.RESET):
                one.stays()
            yield EarlierChange(one.task.what, _ENDS[found.end], found.summary, one.task.began)

    def hardware(self) -> HardwareInventory:
        """All parts."""
        with self.session.call(), self.session.keeping(self._kept):
            return hardware.hardware(self._service)

    def firmware(self) -> tuple[FirmwareEntry, ...]:
        """The firmware inventory."""
        with self.session.call():
            service = link(self.session.root, "UpdateService")
            collection = link(self.session.get(service), "FirmwareInventory") if service is not None else None
            if collection is None:
                raise BmcError(BmcErrorReason.UNSUPPORTED, "it reports no firmware")
            return tuple(_firmware(one) for one in members(self.session, collection) if state.runs(one.path))

    def update(self, image: FirmwareImage) -> str:
        """Sends firmware by the way that the service has for it."""
        with self.session.call():
            self._not_busy()
            service = link(self.session.root, "UpdateService")
            if service is None:
                raise BmcError(BmcErrorReason.UNSUPPORTED, "it has no service for updates")
            return update.sent(
                self.session, update.update_ways(self.session.get(service), service), image, self._tasks)

    def log(self, days: float = LOG_DAYS) -> LogReading:
        """The event log, all of it."""
        with self.session.call():
            return log.bmc_log(self._service, self._clock())

    def log_use(self) -> BmcLogUse:
        """How full it is."""
        with self.session.call():
            return log.bmc_log_use(self._service)

    def sensors(self) -> BmcSensors:
        """All sensors."""
        with self.session.call():
            return sensors.bmc_sensors(self._service)

    def console(self) -> RedfishConsole:
        """What there is of the machine's serial console."""
        with self.session.call():
            return console(self._service)

    def close(self) -> None:
        """Logs out."""
        self.session.close()

    def _not_busy(self) -> None:
        """Raises BmcError(BUSY) while an earlier change is under way: it may be the same."""
        for one in self._earlier():
            if one.end is ChangeEnd.RUNNING:
                raise BmcError(
                    BmcErrorReason.BUSY, f"it still works on an earlier change, {one.what}: {one.message}")

    def _changes(self) -> Changes:
        self._not_busy()
        return Changes(self.session, self._service.system_path, self._service.maker, self._tasks)

    def _bios(self) -> str:
        path = link(self._service.system(), "Bios")
        if path is None:
            raise BmcError(BmcErrorReason.UNSUPPORTED, "it reports no BIOS settings")
        return path

    def _drives(self) -> Iterator[CollectionMember]:
        managers = (one.document for one in self._service.managers())
        owners: list[Document | None] = [self._service.system(), *managers]
        for owner in owners:
            if (collection := link(owner, "VirtualMedia")) is not None:
                yield from members(self.session, collection)
                return
        raise BmcError(BmcErrorReason.UNSUPPORTED, "it reports no virtual media")

    def _drive(self, name: str) -> CollectionMember:
        known: list[str] = []
        for one in self._drives():
            if one.document is not None:
                known.append(state.media(one.path, one.document).name)
                if known[-1] == name:
                    return one
        raise BmcError(
            BmcErrorReason.UNSUPPORTED,
            f"it has no virtual drive {clean(name, 40)}, but {clean(', '.join(known), 120) or 'none'}")


def _firmware(one: CollectionMember) -> FirmwareEntry:
    if one.document is None:
        return FirmwareEntry(
            last(one.path), Unmeasured(one.wrong.message if one.wrong is not None else "it cannot be read"))
    return state.firmware(one.path, one.document)
