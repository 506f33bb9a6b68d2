"""Reboots nodes that we hold, through a back end that can, and finds out the outcome.

A reboot takes minutes, or hours where a job is still to end, so no one waits for it: a line in the ledger is
written before, with the time since which the node was up, and stays open until someone looks and finds a
later one, or no reboot under way any more. A node without a cordon of ours is not rebooted, whatever holds
it; ours is there before, meanwhile and afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from healthcheck.store import ledger
from healthcheck.store.cordons import Cordon, CordonState, open_cordons
from healthcheck.store.file import Store
from healthcheck.store.marks import mark_of
from inventory.errors import UsageError
from provisioning.actions.base import (
    ActionError,
    Backend,
    Holder,
    NodeHold,
    RebootState,
    SupportsReboot,
    file_of,
    reason_with_mark,
)
from provisioning.actions.cordon import Clock, CordonResult, resolve_pending
from provisioning.actions.ownership import Whose, instead, whose

# slurmd tells for how long its machine is up, in whole seconds, and slurmctld takes that from its own clock:
# the same boot moves by a second or two from one registration to the next. No machine starts twice within
# this.
_JITTER_S = 10.0
_EVIDENCE = re.compile(r"(\S+) up since ([0-9]+)")


def reboot(store: Store, backend: Backend, nodes: Sequence[str], why: str, who: str, clock: Clock, *,
           dry: bool = False) -> list[CordonResult]:
    """Asks for the reboot of these nodes once their jobs have ended; a line for each, in order. Raises
    UsageError for a back end that cannot, ActionError where it cannot be asked."""
    able = _able(backend)
    if not dry:
        resolve_pending(store, backend, clock)
        resolve_reboots(store, backend, clock)
    held, boots = backend.held(nodes), able.boots(nodes)
    ours = {
        one.node: one for one in open_cordons(store, nodes, backend.name, file_of(backend))
        if one.state is CordonState.HELD}
    done: dict[str, CordonResult] = {}
    requested: dict[str, int] = {}
    for node in dict.fromkeys(nodes):
        left = _not_rebooted(node, held[node], ours.get(node), boots.get(node))
        since = boots[node].booted if node in boots else None
        if left is not None or since is None:
            done[node] = left or CordonResult(
                node, f"NOT rebooted: {backend.name} does not know since when it is up", held=True,
                failed=True)
        elif dry:
            done[node] = CordonResult(node, f"would be rebooted: {why}", held=True)
        else:
            with store.writing() as db:
                requested[node] = ledger.begin(
                    db, clock(), who, "reboot", node, why, f"{backend.name} up since {since:.0f}")
    trouble = ""
    if requested:
        try:
            able.reboot(tuple(requested), why)
        except ActionError as error:
            trouble = str(error)
        now, held = able.boots(tuple(requested)), backend.held(tuple(requested))
        entries = {line.id: line for line in ledger.lines(store, tuple(requested))}
        for node, number in requested.items():
            done[node] = _verify(
                store, backend, entries[number], now.get(node), held[node], ours[node], clock, trouble)
    return [done[node] for node in nodes]


def resolve_reboots(store: Store, backend: Backend, clock: Clock) -> list[CordonResult]:
    """Checks every reboot with an unknown outcome, and records those that have ended."""
    begun = _open(store, backend)
    if not begun:
        return []
    nodes = sorted({line.node for line in begun})
    boots, held = _able(backend).boots(nodes), backend.held(nodes)
    ours = {one.node: one for one in open_cordons(store, nodes, backend.name, file_of(backend))}
    return [_verify(store, backend, line, boots.get(line.node), held[line.node], ours.get(line.node), clock)
            for line in begun]


def _able(backend: Backend) -> SupportsReboot:
    if not isinstance(backend, SupportsReboot):
        raise UsageError(
            f"{backend.name} cannot reboot nodes: that needs `cordon: slurm` or a command in the inventory")
    return backend


def _open(store: Store, backend: Backend) -> list[ledger.LedgerEntry]:
    return [line for line in ledger.lines(store) if line.outcome is None and line.action == "reboot"
            and (match := _EVIDENCE.fullmatch(line.evidence)) is not None and match[1] == backend.name]


def _not_rebooted(
    node: str, held: NodeHold, ours: Cordon | None, boot: RebootState | None,
) -> CordonResult | None:
    """Why a node is not rebooted, None where it may be."""
    if held.holder is Holder.ABSENT:
        return CordonResult(node, "NOT rebooted: it is not known there", held=False, failed=True)
    if held.holder is Holder.OTHERS:
        return CordonResult(node, f"NOT rebooted, others hold it: {held.reason}", held=True, failed=True)
    if ours is not None and whose(ours, held) is Whose.PERSON:
        return CordonResult(
            node, f"NOT rebooted, {instead(Whose.PERSON, ours, held)}", held=True, failed=True)
    if held.holder is Holder.NO_ONE or ours is None or held.mark != ours.mark:
        return CordonResult(node, "NOT rebooted: there is no cordon of ours; cordon it first",
                            held=held.holder is Holder.US, failed=True)
    if boot is not None and boot.under_way:
        return CordonResult(node, "a reboot is already requested", held=True)
    return None


def _verify(
    store: Store, backend: Backend, line: ledger.LedgerEntry, boot: RebootState | None, held: NodeHold,
    ours: Cordon | None, clock: Clock, trouble: str = "",
) -> CordonResult:
    """The state of a reboot, recorded if it has ended."""
    match = _EVIDENCE.fullmatch(line.evidence)
    assert match is not None  # noqa: S101  (_open gives no other)
    if boot is not None and boot.under_way:
        return CordonResult(
            line.node, "will be rebooted when its job has ended" if held.busy else "is being rebooted",
            held=True)
    shown = held.reason or held.holder.value
    if ours is not None:
        held = _held_after(backend, ours, held)
    kept = ours is not None and held.mark == ours.mark
    if boot is not None and boot.booted is not None and boot.booted > float(match[2]) + _JITTER_S:
        message, failed = (
            f"rebooted, and {f'held still as {held.mark}' if kept else f'no longer held by us: {shown}'}",
            not kept)
    else:
        why = trouble or (
            "the node is not known there" if boot is None else f"no reboot is under way: {shown}")
        message, failed = f"NOT rebooted: {why}", True
    with store.writing() as db:
        ledger.finish(db, line.id, message, clock())
    return CordonResult(
        line.node, message, held=held.holder not in (Holder.NO_ONE, Holder.ABSENT), failed=failed)


def _held_after(backend: Backend, ours: Cordon, held: NodeHold) -> NodeHold:
    """Who holds a node after its reboot. Slurm makes a late one DOWN, takes its drain away and leaves our
    mark; when it is back it may be given jobs, so it is cordoned again."""
    if held.holder is not Holder.OTHERS or mark_of(held.reason) != ours.mark:
        return held
    with suppress(ActionError):     # then it is as it is seen
        backend.isolate(ours.node, reason_with_mark(ours.mark, ours.why))
    return backend.held([ours.node])[ours.node]
