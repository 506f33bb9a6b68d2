"""Slurm: `scontrol update` to DRAIN and UNDRAIN, with our mark in the reason, and `scontrol reboot` of what is drained so.

A node that is down or drained for any other reason is left alone, whoever did it: Slurm itself, a node's health check, a person.
scontrol(1) of Slurm 22.05 and 23.11: states are joined by "+", a drained node keeps DRAIN among them while jobs end.

Of a reboot the same page says that Slurm takes DRAIN away after one that was "ASAP" or has a nextstate; of a node that is drained before,
ASAP gains nothing, and loses our cordon (22.05.8 shows NextState=RESUME, and the node is IDLE afterwards). So a drained node is rebooted
with neither, and with no reason of its own, which would replace our mark; Slurm appends to the one that stands there:

    IDLE+DRAIN                     Reason=muster#12: fan
    IDLE+DRAIN+REBOOT_REQUESTED    Reason=muster#12: fan                      (MIXED+... as long as a job runs)
    DOWN+DRAIN+REBOOT_ISSUED       Reason=muster#12: fan : reboot issued      (RebootProgram has been started)
    IDLE+DRAIN                     Reason=muster#12: fan : reboot issued      (BootTime is new)
    DOWN                           Reason=muster#12: fan : reboot issued : reboot timed out       (or ResumeTimeout went by)

ResumeTimeout is 60 s where slurm.conf does not say otherwise, and a GPU server takes minutes: sites set it to what theirs take.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from inventory.discover import Run, output
from inventory.errors import MusterError
from inventory.importers.slurm import Seen, states_of
from inventory.nodeset import fold
from inventory.text import short
from provisioning.actions.base import ActionError, Boot, Held, Holder, number_of

# States in which Slurm starts no job on a node, and those in which one runs (slurm.h, node_states and its flags). A node that merely
# does not respond ("idle*", for some seconds after each resume, too) is nobody's yet.
_AWAY = frozenset({
    "DRAIN", "DRAINED", "DRAINING", "DOWN", "FAIL", "FAILING", "MAINT", "FUTURE", "POWERED_DOWN", "REBOOT", "REBOOT_REQUESTED",
    "REBOOT_ISSUED", "UNKNOWN", "ERROR", "MAINTENANCE", "POWERING_DOWN", "POWER_DRAIN", "INVALID_REG",
})
_REBOOT = frozenset({"REBOOT", "REBOOT_REQUESTED", "REBOOT_ISSUED"})
_BUSY = frozenset({"ALLOCATED", "ALLOC", "MIXED", "MIX", "COMPLETING", "COMP", "DRAINING"})


class Slurm:
    """The cluster that this machine belongs to."""

    name = "slurm"

    def __init__(self, run: Run | None = None) -> None:
        self._run = run

    def held(self, nodes: Collection[str]) -> Mapping[str, Held]:
        """Who holds each node, by `scontrol show node`."""
        known = self._seen()
        return {node: _held(known[node]) if node in known else Held(Holder.ABSENT) for node in sorted(set(nodes))}

    def isolate(self, node: str, reason: str) -> None:
        """Drains it: jobs that run end as they would."""
        self._ask("scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}")

    def release(self, node: str) -> None:
        """Takes the drain away, and that alone: RESUME would also bring back a node that went down meanwhile."""
        self._ask("scontrol", "update", f"NodeName={node}", "State=UNDRAIN")

    def reboot(self, nodes: Collection[str], reason: str) -> None:
        """Asks for it in one call. `reason` is for the ledger: Slurm keeps one a node, and that carries our mark."""
        self._ask("scontrol", "reboot", fold(nodes))

    def boots(self, nodes: Collection[str]) -> Mapping[str, Boot]:
        """As Slurm shows BootTime, and the flags of a reboot."""
        known = self._seen()
        return {node: Boot(known[node].booted, bool(known[node].states & _REBOOT)) for node in nodes if node in known}

    def _seen(self) -> Mapping[str, Seen]:
        # All of them: where one name is unknown, scontrol tells of none.
        return states_of(self._ask("scontrol", "--all", "--oneliner", "show", "node"), "scontrol show node")

    def _ask(self, *argv: str) -> bytes:
        try:
            return output(argv, self._run)
        except MusterError as error:
            raise ActionError(str(error)) from None


def _held(seen: Seen) -> Held:
    states, said = seen.states, seen.reason or ""
    number = number_of(said)
    busy = bool(states & _BUSY)
    if not states & _AWAY:
        # A reason may outlive its drain: Slurm keeps it until the node is resumed with none.
        return Held(Holder.NOBODY, said, None, busy)
    if number is not None and states & {"DRAIN", "DRAINED", "DRAINING"}:
        return Held(Holder.US, said, number, busy)
    return Held(Holder.OTHERS, said or f"{short('+'.join(sorted(states)))} without a reason", None, busy)
