"""Virtual media as a back end of step os: an image in the drive of the machine's controller, which starts the
same boot script, seed and phone-home as own PXE, for networks without DHCP of ours.

The image is put in first and the machine armed then, so that one which is armed has it; whoever is killed in
between, the next `install` goes on. The image is taken out by `finish`, after the phone-home.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from inventory.errors import MusterError
from inventory.model import Node
from inventory.text import clean
from provisioning.bmc.ask import Connect, connector
from provisioning.bmc.base import BmcError, BootTarget, Controller, Media
from provisioning.bmc.redfish.media import cd_drive
from provisioning.osinstall.base import OsError, OsReport, OsState
from provisioning.osinstall.pxe.backend import PxeBackend
from provisioning.osinstall.pxe.options import MediaOptions, PxeOptions
from provisioning.osinstall.pxe.record import InstallationStage
from provisioning.osinstall.pxe.records import InstallationRecords

_SECONDS = 60.0     # controllers look at the image before they answer
_NEEDS_IMAGE = (InstallationStage.ARMED, InstallationStage.BOOT, InstallationStage.SEED)


@dataclass(frozen=True)
class VirtualMediaBackend:
    """See `provisioning.osinstall.base.OsBackend`. `muster os serve` has to run."""

    media: MediaOptions
    pxe: PxeBackend
    reach: Connect
    name: str = "virtual-media"
    target: BootTarget = BootTarget.CD
    drives_power: bool = False

    def state(self, node: Node) -> OsReport:
        """Out of the records; of a machine that still needs its image, out of the drive, too."""
        found = self.pxe.state(node)
        if found.state is not OsState.INSTALLING:
            return found
        record = self.pxe.records.read(node.name)
        if record is None or record.stage not in _NEEDS_IMAGE:
            return found
        try:
            with self._controller(node) as controller:
                held = self._drive(controller)
        except OsError as problem:
            return OsReport(OsState.UNKNOWN, clean(f"{found.message}; {problem}"))
        if self._holds(held, node):
            return found
        return OsReport(OsState.PLANNED, clean(f"it is armed, and {held.name} does not hold its image"))

    def changes(self, node: Node) -> tuple[str, ...]:
        """The image, and what is armed."""
        lines = self.pxe.changes(node)
        with self._controller(node) as controller:
            held = self._drive(controller)
            self._free(held, node)
        return (f"put {self._image(node)} into {held.name} of its controller", *lines)

    def install(self, node: Node) -> None:
        """Puts the image in and arms the machine."""
        self.pxe.changes(node)      # nothing is put in for what cannot be armed
        with self._controller(node) as controller:
            held = self._drive(controller)
            self._free(held, node)
            controller.insert(held.name, self._image(node))
        self.pxe.install(node)

    def finish(self, node: Node) -> None:
        """Takes the image out where it is ours; asked again, nothing happens. Raises OsError."""
        with self._controller(node) as controller:
            held = self._drive(controller)
            if self._holds(held, node):
                controller.eject(held.name)

    def _image(self, node: Node) -> str:
        return self.media.image.replace("{node}", node.name)

    def _drive(self, controller: Controller) -> Media:
        return cd_drive(controller.media(), self.media.drive)

    def _holds(self, held: Media, node: Node) -> bool:
        return held.inserted and held.image == self._image(node)

    def _free(self, held: Media, node: Node) -> None:
        if held.inserted and held.image and not self._holds(held, node):
            raise OsError(f"{held.name} of its controller has another image in it, {clean(held.image, 120)}; "
                          f"take it out: muster bmc media {node.name} eject")

    @contextmanager
    def _controller(self, node: Node) -> Iterator[Controller]:
        """Its controller, logged out of afterwards; what goes wrong with it is an OsError."""
        try:
            found = self.reach(node)
        except MusterError as problem:
            raise OsError(str(problem)) from None
        try:
            yield found
        except BmcError as problem:
            raise OsError(f"its controller: {problem.wrong.value}: {problem.message}") from None
        finally:
            found.close()


def virtual_media_backend(
    options: PxeOptions, state: Path, clock: Callable[[], float] = time.time,
) -> VirtualMediaBackend:
    """The back end over a state folder with pinned certificates. Raises OsError without `media`."""
    if options.media is None:
        raise OsError("pxe.yaml has no media section, which says what image goes into the virtual drive")
    return VirtualMediaBackend(options.media, PxeBackend(options, InstallationRecords(state), clock),
                               connector(state, _SECONDS))
