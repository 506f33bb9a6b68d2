"""Slurm: `scontrol update` to DRAIN and UNDRAIN, with our mark in the reason, and `scontrol reboot` of what
is drained so.

A node that is down or drained for any other reason is left alone, whoever did it: Slurm itself, a node's
health check, a person. scontrol(1) of Slurm 22.05 and 23.11: states are joined by "+", a drained node keeps
DRAIN among them while jobs end.

Of a reboot the same page says that Slurm takes DRAIN away after one that was "ASAP" or has a nextstate; of a
node that is drained before, ASAP gains nothing, and loses our cordon (22.05.8 shows NextState=RESUME, and the
node is IDLE afterwards). So a drained node is rebooted with neither, and with no reason of its own, which
would replace our mark; Slurm appends to the one that stands there:

    IDLE+DRAIN                     Reason=muster#12: fan
    IDLE+DRAIN+REBOOT_REQUESTED    Reason=muster#12: fan                      (MIXED+... while a job runs)
    DOWN+DRAIN+REBOOT_ISSUED       Reason=muster#12: fan : reboot issued      (RebootProgram has been started)
    IDLE+DRAIN                     Reason=muster#12: fan : reboot issued      (BootTime is new)
    DOWN                           Reason=muster#12: fan : reboot issued : reboot timed out

ResumeTimeout is 60 s where slurm.conf does not say otherwise, and a GPU server takes minutes: sites set it to
what theirs take.

A CLOUD node that is powered down 22.05.8 shows to no one, not by `scontrol --all` either, unless slurm.conf
has PrivateData=cloud: it can neither be read nor cordoned, and what it is held with shows again once it is
up. 24.11.5 shows it.

A node that is powered down (power saving), or on its way down or up, has no holder: DRAIN and UNDRAIN keep
that state, and no job wakes a drained one (22.05.8). A job that waits for such a node to come up is queued
again by DRAIN. SuspendTime keeps DRAIN, but a person's State=POWER_DOWN takes it away and leaves the reason,
which a person's UNDRAIN or RESUME would have taken, too (22.05.8):

    IDLE+DRAIN                     Reason=muster#12: fan
    IDLE+POWERING_DOWN             Reason=muster#12: fan                      (and the next job wakes it)

There is no compare-and-set: `scontrol show node NAME` is asked just before each change. A person who drains a
node between these two calls is overwritten without a trace. One who takes a node over between them that we
give back is found in 24.11.5, where UNDRAIN leaves the reason, and gets it back; 22.05.8 forgets the reason
with the drain.

slurmctld saves the state of nodes some seconds after a change. Killed before, it starts without what it had
acknowledged.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Collection, Mapping, Sequence

from healthcheck.store.marks import mark_of
from inventory.discover import Run, output
from inventory.errors import MusterError
from inventory.importers.slurm import SlurmNodeState, date_of, states_of
from inventory.nodeset import fold
from inventory.text import short
from provisioning.actions import slurmqueue
from provisioning.actions.base import AcknowledgedChange, ActionError, Holder, NodeHold, RebootState

# States in which Slurm starts no job on a node, and those in which one runs (slurm.h, node_states and its
# flags). A node that merely does not respond ("idle*", for some seconds after each resume, too) has no holder
# yet.
_AWAY = frozenset(
    {
        "DRAIN", "DRAINED", "DRAINING", "DOWN", "FAIL", "FAILING", "MAINT", "FUTURE", "REBOOT",
        "REBOOT_REQUESTED", "REBOOT_ISSUED", "UNKNOWN", "ERROR", "MAINTENANCE", "POWER_DRAIN", "INVALID_REG"})
_DRAINED = frozenset({"DRAIN", "DRAINED", "DRAINING"})
# What slurmctld itself writes of a node that is not there (ping_nodes.c, node_mgr.c, power_save.c).
_ITSELF = re.compile(
    r"(?:^|^muster.* : )(?:Not responding|ResumeTimeout reached|Node unexpectedly rebooted)\Z")
_HIDDEN = "older Slurms show a CLOUD node without power only with PrivateData=cloud in slurm.conf"
_DOWNWARDS = frozenset({"POWER_DOWN", "POWERING_DOWN", "POWERED_DOWN"})
_REBOOT = frozenset({"REBOOT", "REBOOT_REQUESTED", "REBOOT_ISSUED"})
_BUSY = frozenset({"ALLOCATED", "ALLOC", "MIXED", "MIX", "COMPLETING", "COMP", "DRAINING"})


class SlurmBackend:
    """The cluster that this machine belongs to."""

    name = "slurm"

    def __init__(self, run: Run | None = None) -> None:
        self._run = run

    def held(self, nodes: Collection[str]) -> Mapping[str, NodeHold]:
        """Who holds each node, by `scontrol show node`."""
        known = self._seen()
        return {
            node: _held(known[node]) if node in known else NodeHold(Holder.ABSENT, _HIDDEN)
                for node in sorted(set(nodes))}

    def marked(self, names: Collection[str]) -> Mapping[str, NodeHold]:
        """All drained nodes whose reason begins with a mark, by `scontrol show node`."""
        shown = {node: _held(one) for node, one in self._seen().items()}
        return {node: held for node, held in shown.items() if held.mark is not None}

    def isolate(self, node: str, reason: str) -> None:
        """Drains it: jobs that run end as they would."""
        self._ask("scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}")

    def release(self, node: str, shown: str = "") -> None:
        """Takes the drain away alone: RESUME would bring back a node that went down meanwhile, too."""
        self._ask("scontrol", "update", f"NodeName={node}", "State=UNDRAIN")

    def end_jobs(self, nodes: Sequence[str]) -> str:
        """scancel cancels each job that uses any of the nodes."""
        return f"scancel --nodelist={fold(nodes)}"

    def taken_from(self, before: NodeHold, after: NodeHold) -> str:
        """24.11 leaves the reason where it takes the drain: another than before was written in between."""
        return after.reason if after.holder is Holder.NO_ONE and after.reason != before.reason else ""

    def rewrite(self, node: str, shown: str, reason: str) -> None:
        """Drains it with other words; it stays drained all the while."""
        self.isolate(node, reason)

    def forgot(self, changes: Mapping[str, AcknowledgedChange]) -> Mapping[str, str]:
        """Changes that were made before slurmctld started, by BOOT_TIME of `scontrol show config`, and that
        no one undid by the events of slurmdbd, where it runs."""
        config = self._ask("scontrol", "show", "config").decode("utf-8", "backslashreplace")
        found = _STARTED.search(config)
        started = date_of(found[1]) if found is not None else None
        if started is None:
            raise ActionError(
                "scontrol show config has no BOOT_TIME: it is not known since when slurmctld is up")
        lost = {node: one for node, one in changes.items() if started >= math.floor(one.time)}
        undone: Collection[str] = ()
        if lost and _EVENTS.search(config):
            undone = undone_by(
                self._ask("sacctmgr", "--noheader", "--parsable2", "show", "event", "where",
                          f"nodes={fold(lost)}", f"start={_utc(min(one.time for one in lost.values()))}",
                          "format=nodename,timestart,timeend,reason"), lost, started)
        return {
            node: f"slurmctld started at {_utc(started)}Z, after it, and had not saved it" for node in lost
                if node not in undone}

    def reboot(self, nodes: Collection[str], reason: str) -> None:
        """Asks in one call. `reason` is for the ledger: Slurm keeps one a node, which has our mark."""
        self._ask("scontrol", "reboot", fold(nodes))

    def boots(self, nodes: Collection[str]) -> Mapping[str, RebootState]:
        """As Slurm shows BootTime, and the flags of a reboot."""
        known = self._seen()
        return {
            node: RebootState(known[node].booted, bool(known[node].states & _REBOOT)) for node in nodes
                if node in known}

    def waiting(self, nodes: Collection[str]) -> str:
        """By squeue, and by sinfo where a job waits."""
        jobs = list(slurmqueue.waiting(self._ask(*slurmqueue.SQUEUE).decode("utf-8", "backslashreplace")))
        if not jobs:
            return ""
        return slurmqueue.could_start(
            jobs, slurmqueue.partitions(self._ask(*slurmqueue.SINFO).decode("utf-8", "backslashreplace")),
            nodes)

    def _seen(self) -> Mapping[str, SlurmNodeState]:
        # All of them: where one name is unknown, scontrol tells of none.
        return states_of(self._ask("scontrol", "--all", "--oneliner", "show", "node"), "scontrol show node")

    def now(self, node: str) -> NodeHold:
        """Who holds one node, asked alone: its name stands in no brackets, whatever slurm.conf wrote."""
        reason = self._ask("scontrol", "--all", "--oneliner", "show", "node", node)
        seen = states_of(reason, f"scontrol show node {node}").get(node)
        if seen is None:
            raise ActionError(f"scontrol show node {node} does not mention it")
        return _held(seen)

    def _ask(self, *argv: str) -> bytes:
        try:
            return output(argv, self._run)
        except MusterError as error:
            raise ActionError(str(error)) from None


# When this slurmctld was started (`scontrol reconfigure` does so, too, since 23.11), and whether slurmdbd
# keeps events.
_STARTED = re.compile(r"^BOOT_TIME\s*=\s*(\S+)", re.MULTILINE)
_EVENTS = re.compile(r"^AccountingStorageType\s*=\s*accounting_storage/slurmdbd\s*$", re.MULTILINE)
# A controller that starts reports each node again, which ends the events of those that are free by its
# memory.
_REPORTED_S = 10.0


def undone_by(events: bytes, changes: Mapping[str, AcknowledgedChange], started: float) -> frozenset[str]:
    """Nodes whose newest event with our mark was ended by someone, not by slurmctld as it started. `events`
    is what `sacctmgr -nP show event` prints: node|start|end|reason, open ends "Unknown"."""
    ends: dict[str, str] = {}
    for line in events.decode("utf-8", "backslashreplace").split("\n"):
        node, _, rest = line.partition("|")
        _, _, rest = rest.partition("|")
        end, _, reason = rest.partition("|")
        if node in changes and mark_of(reason) == changes[node].mark:
            ends[node] = end
    found = {node: date_of(end) for node, end in ends.items()}
    return frozenset(
        node for node, end in found.items() if end is not None and not 0 <= end - started <= _REPORTED_S)


def _utc(time: float) -> str:
    return dt.datetime.fromtimestamp(time, dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")


def _held(seen: SlurmNodeState) -> NodeHold:
    states, reason = seen.states, seen.reason or ""
    mark = mark_of(reason)
    busy = bool(states & _BUSY)
    if not states & _AWAY:
        # A reason may outlive its drain: Slurm keeps it until the node is resumed with none.
        dropped = ("Slurm removes the drain of a node that is powered down by hand"
                   if mark is not None and states & _DOWNWARDS else "")
        return NodeHold(Holder.NO_ONE, reason, None, busy, dropped=dropped)
    if mark is not None and states & _DRAINED:
        return NodeHold(Holder.US, reason, mark, busy, user=seen.user, since=seen.since)
    # A reason may have outlived its drain here, too (24.11 leaves it at UNDRAIN).
    itself = not states & _DRAINED and (
        not reason or states & _AWAY == {"UNKNOWN"} or _ITSELF.search(reason) is not None)
    return NodeHold(Holder.OTHERS, reason or f"{short('+'.join(sorted(states)))} without a reason", None,
                    busy, user=seen.user, since=seen.since, itself=itself)
