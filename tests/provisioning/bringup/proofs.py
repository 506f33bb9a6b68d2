"""Machines' operating systems for steps boot, os and ssh: proofs and a back end that is a list."""

from __future__ import annotations

from dataclasses import dataclass, field

from inventory.model import Node
from provisioning.bmc.base import BootTarget
from provisioning.bringup.steps.osproof import Proof
from provisioning.osinstall.base import OsReport, OsState
from provisioning.osinstall.others import ByOthers

DEAD = OsReport(OsState.PLANNED, "nothing answers: 192.0.2.7 port 22: no route to host",
                advice="see its console")
ALIVE = OsReport(OsState.INSTALLED, "/etc/site-image is there", "site-7", answered=True)
INSTALLER = OsReport(OsState.INSTALLING, "an installer runs there: subiquity", advice="see its console")
READY = OsReport(OsState.PLANNED, "is ready")
UNPROVEN = OsReport(OsState.UNKNOWN, "its root file system is overlay", advice="name a marker", answered=True)


def always(report: OsReport) -> Proof:
    """Of every machine, at any time."""
    return lambda node: report


def others() -> ByOthers:
    """Nothing is installed by muster."""
    return ByOthers(always(DEAD))


@dataclass
class Installer:
    """A back end; `asked` is what it was to install, in order; `raises` what install raises, once each."""

    target: BootTarget = BootTarget.NONE
    drives_power: bool = False
    report: OsReport = READY
    asked: list[str] = field(default_factory=list)
    raises: list[Exception] = field(default_factory=list)
    name: str = "scripted"

    def state(self, node: Node) -> OsReport:
        return self.report

    def changes(self, node: Node) -> tuple[str, ...]:
        return (f"deploy {node.name}",)

    def install(self, node: Node) -> None:
        self.asked.append(node.name)
        if self.raises:
            raise self.raises.pop(0)
        self.report = OsReport(OsState.INSTALLING, "is deploying")
