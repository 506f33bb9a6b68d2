"""Own PXE as a back end of step os: arms a machine in the records, and reads from them how it stands."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from inventory.model import Node
from inventory.text import clean
from inventory.times import second
from provisioning.bmc.base import BootTarget
from provisioning.osinstall.base import OsError, OsReport, OsState
from provisioning.osinstall.pxe import record, seed
from provisioning.osinstall.pxe.machines import PxeMachine, machine
from provisioning.osinstall.pxe.options import PxeOptions
from provisioning.osinstall.pxe.record import Installation, InstallationStage
from provisioning.osinstall.pxe.records import InstallationRecords
from provisioning.osinstall.pxe.templates import Templates

_TICKET_BYTES, _TOKEN_BYTES = 16, 32


@dataclass(frozen=True)
class PxeBackend:
    """See `provisioning.osinstall.base.OsBackend`. `muster os serve` has to run, and dnsmasq."""

    options: PxeOptions
    records: InstallationRecords
    clock: Callable[[], float] = time.time
    name: str = "pxe"
    target: BootTarget = BootTarget.PXE
    drives_power: bool = False

    def state(self, node: Node) -> OsReport:
        """Out of the records."""
        try:
            found = self.records.read(node.name)
        except OsError as problem:
            return OsReport(OsState.UNKNOWN, clean(problem))
        return report(found, self.clock(), node)

    def changes(self, node: Node) -> tuple[str, ...]:
        """What is armed, and what it means for the disk."""
        wanted = self._checked(node)
        disk = wanted.image.disk or "its largest disk"
        return (f"arm {node.name} ({', '.join(wanted.macs)}) for the image {wanted.image.name}",
                f"its next boot over the network erases {disk}")

    def install(self, node: Node) -> None:
        """Arms it: from now on its boot script starts the installer, once."""
        wanted, now = self._checked(node), self.clock()
        ticket, token = secrets.token_hex(_TICKET_BYTES), secrets.token_hex(_TOKEN_BYTES)
        self.records.change(node.name, lambda old: record.armed(
            old, wanted, now, self.options.minutes * 60, ticket, token))

    def _checked(self, node: Node) -> PxeMachine:
        """The machine, when all that it will fetch can be rendered. Raises OsError."""
        found = machine(node, self.options)
        sample = record.armed(None, found, 0.0, 1.0, "0" * 2 * _TICKET_BYTES, "0" * 2 * _TOKEN_BYTES)
        seed.check(self.options, Templates(self.options.templates), sample)
        return found


def pxe_backend(options: PxeOptions, state: Path) -> PxeBackend:
    """The back end over a state folder."""
    return PxeBackend(options, InstallationRecords(state))


def report(found: Installation | None, now: float, node: Node) -> OsReport:
    """How the record of a node stands. Pure."""
    if found is not None and not record.is_of(found, node.boot_mac):
        return OsReport(OsState.PLANNED, clean(
            f"installation {found.number} was of another machine, with the ports {', '.join(found.macs)}"))
    if found is None or found.stage is InstallationStage.DISARMED:
        return OsReport(OsState.PLANNED, "it is not armed" if found is None else
                        f"installation {found.number} was ended by hand; it is not armed")
    since = f"since {second(found.since)}"
    if found.stage is InstallationStage.DONE:
        return OsReport(OsState.INSTALLED, f"installed with {found.image}, proven {since}", found.image,
                        found.host_keys)
    if found.stage is InstallationStage.FAILED or now >= found.until:
        why = found.why or record.overdue(found)
        return OsReport(OsState.FAILED, clean(f"installation {found.number} of {found.image} failed: {why}"),
                        advice="look at its console and at muster os serve's log")
    return OsReport(OsState.INSTALLING, f"{record.at_stage(found.stage)}, {since}")
