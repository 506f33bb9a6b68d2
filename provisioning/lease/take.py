"""Takes and releases leases, also of dead processes, each operation in the ledger before. Nothing is leased
that others hold, or on which a job may run: checked before the nodes are held and again afterwards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from healthcheck.store import leases
from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import Store
from healthcheck.store.leases import LeaseRecord
from inventory.discover import Run
from inventory.text import clean
from provisioning.actions.base import ActionError, Holder
from provisioning.actions.cordon import CordonRequest, CordonResult, cordon_each
from provisioning.actions.ownership import Whose, whose
from provisioning.actions.strays import adopt
from provisioning.lease.base import LeaseMethod
from provisioning.lease.holder import HolderState, life, me
from provisioning.lease.jobs import jobs
from provisioning.lease.reservation import reserved

Clock = Callable[[], float]


@dataclass
class LeaseManager:
    """Who leases: store, way to hold nodes, person, clock; `run` asks Slurm."""

    store: Store
    method: LeaseMethod
    who: str
    clock: Clock
    run: Run | None = None


@dataclass
class LeaseGrant:
    """What a lease has (None: nothing), by node why not the others; `unknown`: nothing is known of jobs."""

    entry: LeaseRecord | None
    refused: dict[str, str] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that are held."""
        return self.entry.nodes if self.entry is not None else ()


def take(manager: LeaseManager, nodes: Sequence[str], seconds: float, why: str) -> LeaseGrant:
    """Holds those nodes on which no job runs, for so long; none when it raises (ActionError, StoreError)."""
    method, clock = manager.method, manager.clock
    now = clock()
    settle(manager)
    refused = {**unfit(manager, nodes, now + seconds)}
    refused.update(jobs(method.base, [node for node in nodes if node not in refused], manager.run).busy)
    fit = [node for node in nodes if node not in refused]
    if not fit:
        return LeaseGrant(None, refused)
    entry, taken = leases.begin(
        manager.store, method.kind, method.base.name, fit, why, manager.who, me(), now, now + seconds)
    refused.update({node: f"it is leased already (lease {number}; see: muster lease list)"
                    for node, number in taken.items()})
    if entry is None:
        return LeaseGrant(None, refused)
    try:
        entry, trouble, others = _hold(manager, entry)
        refused.update(others)
        gone = method.gone(entry)
        refused.update({node: trouble or lost for node, lost in gone.items()})
        looked = jobs(method.base, entry.nodes, manager.run)
        refused.update(looked.busy)
        held = len(entry.nodes) - len(gone)
        message = f"held, {held} of {len(entry.nodes)}" if held else f"not done: {clean(trouble, 200)}"
        leases.record_outcome(manager.store, entry, message, clock())
        return without(manager, LeaseGrant(entry, refused, looked.unknown), refused)
    except BaseException:
        give_back(manager, entry, "taking it was cut short")
        raise


def _hold(manager: LeaseManager, entry: LeaseRecord) -> tuple[LeaseRecord, str, dict[str, str]]:
    """Holds the nodes without those taken meanwhile; the back end's complaint, and by node who was faster."""
    try:
        manager.method.hold(entry)
    except ActionError as error:
        trouble = str(error)        # what came of it anyway is checked
    else:
        return entry, "", {}
    if len(manager.method.gone(entry)) < len(entry.nodes):
        return entry, trouble, {}
    others = unfit(manager, entry.nodes, entry.until)
    rest = [node for node in entry.nodes if node not in others]
    if not others or not rest:
        return entry, trouble, others
    entry = leases.narrow(manager.store, entry, rest)
    try:
        manager.method.hold(entry)
    except ActionError as error:
        return entry, str(error), others
    return entry, "", others


def unfit(manager: LeaseManager, nodes: Collection[str], until: float) -> dict[str, str]:
    """By node, why it is not ours to hold. A cordon of ours is no hindrance: one wants to test its node."""
    held = manager.method.base.held(nodes)
    known = {one.node: one for one in open_cordons(manager.store, nodes, manager.method.base.name)}
    found = {}
    for node in nodes:
        one = held[node]
        if one.holder is Holder.ABSENT:
            found[node] = f"{manager.method.base.name} does not know it"
        elif one.holder is Holder.OTHERS or (one.holder is Holder.US and (
                node not in known or whose(known[node], one) is not Whose.OURS)):
            found[node] = f"others hold it: {clean(one.reason, 200)}"
    if manager.method.base.name == "slurm":
        found.update(reserved([node for node in nodes if node not in found], until, manager.run))
    return found


def without(manager: LeaseManager, taken: LeaseGrant, refused: Mapping[str, str]) -> LeaseGrant:
    """The lease without these nodes, which are given back at once; the whole of it where none is left."""
    entry = taken.entry
    if entry is None or not set(entry.nodes) & refused.keys():
        return taken
    kept = [node for node in entry.nodes if node not in refused]
    refusals = {**taken.refused, **refused}
    if not kept:
        give_back(manager, entry, "none of its nodes is idle")
        return LeaseGrant(None, refusals, taken.unknown)
    manager.method.keep(entry, kept)
    return LeaseGrant(leases.narrow(manager.store, entry, kept), refusals, taken.unknown)


def isolate(
    manager: LeaseManager, taken: LeaseGrant, reasons: Mapping[str, str],
) -> tuple[LeaseGrant, list[CordonResult]]:
    """Gives back its other nodes, and keeps jobs from these, by node for what reason: by a cordon made while
    the lease holds them, which stays when it is over. Raises ActionError, StoreError."""
    entry = taken.entry
    if entry is None or not (mine := [node for node in entry.nodes if node in reasons]):
        return taken, []
    taken = without(manager, taken, dict.fromkeys(set(entry.nodes) - set(mine), "it is given back"))
    store, base = manager.store, manager.method.base
    # A lease by cordon: another one of ours takes its place.
    by_cordon = {
        one.node for one in open_cordons(store, mine, base.name) if one.why.startswith(f"{entry.name}: ")}
    done = cordon_each(
        store, base, [CordonRequest(node, reasons[node]) for node in mine if node not in by_cordon],
        manager.who, manager.clock)
    for node in mine:
        if node in by_cordon:
            done += adopt(store, base, [node], reasons[node], manager.who, manager.clock, replace_ours=True)
    return taken, done


def give_back(manager: LeaseManager, entry: LeaseRecord, why: str) -> str:
    """Gives a lease back; says why not, "" where nothing of it is left. Raises StoreError only."""
    store, method, clock = manager.store, manager.method, manager.clock
    line = leases.ending(store, entry, why, manager.who, clock())
    trouble = ""
    try:
        was = method.left(entry)
        try:
            method.free(entry)
        except ActionError as error:
            trouble = str(error)
        if method.left(entry):
            trouble = trouble or f"{method.kind} {entry.name} is still there"
        else:
            leases.end(store, entry, line, "released" if was else "it was gone already", clock())
            return ""
    except ActionError as error:
        trouble = trouble or str(error)
    leases.kept(store, line, f"not done: {clean(trouble, 300)}", clock())
    return trouble


def settle(manager: LeaseManager) -> list[str]:
    """Gives back leases whose process died or whose time is over; a line for each. A holder on another boot
    or machine is waited for until then: what it sent may still run, and ends by then."""
    message = []
    for entry in mine(manager.method, leases.open_leases(manager.store)):
        over = overdue(entry, manager.clock())
        if over:
            trouble = give_back(manager, entry, over)
            message.append(
                f"{entry.name}: {f'NOT given back: {trouble}' if trouble else f'given back: {over}'}")
    return message


def overdue(entry: LeaseRecord, now: float) -> str:
    """Why a lease is to be given back by whoever sees it, or ""."""
    return leases.expired(
        entry, now) or ("the process that held it is gone" if life(entry.holder) is HolderState.DEAD else "")


def mine(method: LeaseMethod, entries: Iterable[LeaseRecord]) -> list[LeaseRecord]:
    """Those that this way holds."""
    return [entry for entry in entries if (entry.kind, entry.backend) == (method.kind, method.base.name)]
