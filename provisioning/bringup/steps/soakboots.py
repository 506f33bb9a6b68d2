"""What one boot shows: a sweep by the rules of the checks' profile, with the parts and the kernel's log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from healthcheck.baseline.approval import short_id
from healthcheck.baseline.gather import LearningNotes, digests_from_recording
from healthcheck.kernellog.model import KernelEventKind
from healthcheck.model.outcome import NodeReport, Owner, Severity
from healthcheck.model.recording import Recording
from inventory.errors import MusterError
from inventory.model import Node
from inventory.text import clean
from inventory.transport.base import Stage
from provisioning.bringup.engine.model import Machine
from provisioning.bringup.steps.context import StepContext
from provisioning.bringup.steps.sweeps import swept
from provisioning.soak import send
from provisioning.soak.record import BootRecord
from provisioning.soak.send import BootReading

_ERROR = 3      # KERN_ERR (include/linux/kern_levels.h); what is less is written by healthy machines at will
_MOST_FORMS = 200


@dataclass(frozen=True)
class Judged:
    """A boot's record, or why there is none: `message`."""

    record: BootRecord | None
    message: str


class Boots(Protocol):
    """A machine's boots: which one it is in, to have it restarted, and what one shows."""

    def look(self, node: Node) -> BootReading:
        """Which boot it is in; one without an id where it was not reached."""

    def restart(self, node: Node, boot: str) -> tuple[bool | None, str]:
        """Restarts it if it is in this boot: whether it will (None: not known), and what was said."""

    def judged(self, machine: Machine, reading: BootReading, boot: BootTimes) -> Judged:
        """What the boot shows that `reading` saw."""


@dataclass(frozen=True)
class BootTimes:
    """What is known of a boot from outside: what kind it is, and as `BootRecord` has them the times."""

    kind: str
    restarted: float | None
    up: float
    answered: float | None


class NodeBoots:
    """Over the transport; a boot is judged by the rules of this profile."""

    def __init__(self, context: StepContext, profile: str) -> None:
        self._context, self._profile = context, profile

    def look(self, node: Node) -> BootReading:
        """See `Boots.look`."""
        try:
            return send.look(node, self._context.transport())
        except MusterError as error:
            return BootReading(message=clean(str(error), 300))

    def restart(self, node: Node, boot: str) -> tuple[bool | None, str]:
        """See `Boots.restart`."""
        try:
            return send.restart(node, self._context.transport(), boot)
        except MusterError as error:
            return False, clean(f"{Stage.CONNECT.value}: {error}", 300)

    def judged(self, machine: Machine, reading: BootReading, boot: BootTimes) -> Judged:
        """See `Boots.judged`."""
        recordings: list[Recording] = []
        (report,), found = swept(self._context, [machine], (self._profile,), each=recordings.append)
        known = found.get(machine.name)
        if not report.results or known is None or not recordings:
            return Judged(None, clean(f"{report.stage or 'not checked'}: {report.reason}", 300))
        if known.boot and known.boot != reading.boot:
            return Judged(None, "it restarted while it was checked")
        forms, log = _log(recordings[-1], self._context.sku(machine.node) or "")
        parts = {f"{one.kind} {one.slot}": one.serial for one in known.components}
        return Judged(BootRecord(
            boot.kind, reading.boot, boot.restarted, boot.up, boot.answered, parts,
            tuple(sorted(known.kinds)), reading.pci, reading.memory, reading.cpus, _rules(report), forms,
            log), "")


def _rules(report: NodeReport) -> Mapping[str, tuple[str, str, str]]:
    found = {}
    for one in report.results:
        if one.severity is Severity.INFO:
            continue
        finding = one.findings[0] if one.findings else None
        words = f"{finding.subject}: {finding.observed}" if finding is not None else one.reason
        owner = (finding.owner if finding is not None else None) or one.owner or Owner.OPERATOR
        found[one.rule] = (one.status.value, owner.value, clean(words, 160))
    return found


def _log(recording: Recording, sku: str) -> tuple[dict[str, str], bool | None]:
    """The kernel log's errors by form, and whether it has its beginning; None where not read."""
    notes = LearningNotes()
    for digest in digests_from_recording(recording, sku, notes):
        found = {}
        for message in digest.messages:
            priorities = [line.priority for line in message.lines if line.priority is not None]
            if message.kind is not KernelEventKind.LINE or (priorities and min(priorities) <= _ERROR):
                found[short_id(message.template)] = clean(message.template, 200)
        return dict(list(found.items())[:_MOST_FORMS]), recording.node not in notes.caveats
    return {}, None
