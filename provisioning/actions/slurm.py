"""Slurm: `scontrol update` to DRAIN and UNDRAIN, with our mark in the reason.

A node that is down or drained for any other reason is left alone, whoever did it: Slurm itself, a node's health check, a person.
scontrol(1) of Slurm 22.05 and 23.11: states are joined by "+", a drained node keeps DRAIN among them while jobs end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from inventory.discover import Run, output
from inventory.errors import MusterError
from inventory.importers.slurm import states_of
from inventory.text import short
from provisioning.actions.base import ActionError, Held, Holder, number_of

# States in which Slurm starts no job on a node, and those in which one runs (slurm.h, node_states and its flags). A node that merely
# does not respond ("idle*", for some seconds after each resume, too) is nobody's yet.
_AWAY = frozenset({
    "DRAIN", "DRAINED", "DRAINING", "DOWN", "FAIL", "FAILING", "MAINT", "FUTURE", "POWERED_DOWN", "REBOOT", "REBOOT_REQUESTED",
    "REBOOT_ISSUED", "UNKNOWN", "ERROR",
})
_BUSY = frozenset({"ALLOCATED", "ALLOC", "MIXED", "MIX", "COMPLETING", "COMP", "DRAINING"})


class Slurm:
    """The cluster that this machine belongs to."""

    name = "slurm"

    def __init__(self, run: Run | None = None) -> None:
        self._run = run

    def held(self, nodes: Collection[str]) -> Mapping[str, Held]:
        """Who holds each node, by `scontrol show node`."""
        wanted = set(nodes)
        # All of them: where one name is unknown, scontrol tells of none.
        known = states_of(self._ask("scontrol", "--all", "--oneliner", "show", "node"), "scontrol show node")
        return {node: _held(*known[node]) if node in known else Held(Holder.ABSENT) for node in sorted(wanted)}

    def isolate(self, node: str, reason: str) -> None:
        """Drains it: jobs that run end as they would."""
        self._ask("scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}")

    def release(self, node: str) -> None:
        """Takes the drain away, and that alone: RESUME would also bring back a node that went down meanwhile."""
        self._ask("scontrol", "update", f"NodeName={node}", "State=UNDRAIN")

    def _ask(self, *argv: str) -> bytes:
        try:
            return output(argv, self._run)
        except MusterError as error:
            raise ActionError(str(error)) from None


def _held(states: frozenset[str], reason: str | None) -> Held:
    said = reason or ""
    number = number_of(said)
    busy = bool(states & _BUSY)
    if not states & _AWAY:
        # A reason may outlive its drain: Slurm keeps it until the node is resumed with none.
        return Held(Holder.NOBODY, said, None, busy)
    if number is not None and states & {"DRAIN", "DRAINED", "DRAINING"}:
        return Held(Holder.US, said, number, busy)
    return Held(Holder.OTHERS, said or f"{short('+'.join(sorted(states)))} without a reason", None, busy)
