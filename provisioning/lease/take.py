"""Takes leases, gives them back, and gives back those of whoever died. Ledger line before the deed, outcome after a look.

Nothing is leased that others hold, or on which a job may run; both are looked at before the nodes are held and again afterwards.
"""

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
class Lessor:
    """Who leases: the store, the way to hold nodes, the person behind the command, and the clock. `run` asks Slurm."""

    store: Store
    way: LeaseMethod
    who: str
    clock: Clock
    run: Run | None = None


@dataclass
class Taken:
    """What a lease has (None: nothing) and by node why the others are not in it; `unsaid` are those of whose jobs nothing can be said."""

    entry: LeaseRecord | None
    refused: dict[str, str] = field(default_factory=dict)
    unsaid: frozenset[str] = frozenset()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that are held."""
        return self.entry.nodes if self.entry is not None else ()


def take(lessor: Lessor, nodes: Sequence[str], seconds: float, why: str) -> Taken:
    """Holds those of the nodes on which no job runs, for so long; none is left held when it raises (ActionError, StoreError)."""
    way, clock = lessor.way, lessor.clock
    now = clock()
    settle(lessor)
    refused = {**unfit(lessor, nodes, now + seconds)}
    refused.update(jobs(way.base, [node for node in nodes if node not in refused], lessor.run).busy)
    fit = [node for node in nodes if node not in refused]
    if not fit:
        return Taken(None, refused)
    entry, taken = leases.begin(lessor.store, way.kind, way.base.name, fit, why, lessor.who, me(), now, now + seconds)
    refused.update({node: f"it is leased already (lease {number}; see: muster lease list)" for node, number in taken.items()})
    if entry is None:
        return Taken(None, refused)
    try:
        entry, trouble, others = _hold(lessor, entry)
        refused.update(others)
        gone = way.gone(entry)
        refused.update({node: trouble or lost for node, lost in gone.items()})
        looked = jobs(way.base, entry.nodes, lessor.run)
        refused.update(looked.busy)
        held = len(entry.nodes) - len(gone)
        said = f"held, {held} of {len(entry.nodes)}" if held else f"not done: {clean(trouble, 200)}"
        leases.told(lessor.store, entry, said, clock())
        return without(lessor, Taken(entry, refused, looked.unsaid), refused)
    except BaseException:
        give_back(lessor, entry, "taking it was cut short")
        raise


def _hold(lessor: Lessor, entry: LeaseRecord) -> tuple[LeaseRecord, str, dict[str, str]]:
    """Holds the nodes, without those that somebody else took meanwhile; what the back end complained of, and by node who was faster."""
    try:
        lessor.way.hold(entry)
    except ActionError as error:
        trouble = str(error)        # what came of it all the same is looked at
    else:
        return entry, "", {}
    if len(lessor.way.gone(entry)) < len(entry.nodes):
        return entry, trouble, {}
    others = unfit(lessor, entry.nodes, entry.until)
    rest = [node for node in entry.nodes if node not in others]
    if not others or not rest:
        return entry, trouble, others
    entry = leases.narrow(lessor.store, entry, rest)
    try:
        lessor.way.hold(entry)
    except ActionError as error:
        return entry, str(error), others
    return entry, "", others


def unfit(lessor: Lessor, nodes: Collection[str], until: float) -> dict[str, str]:
    """By node, why it is not ours to hold. A cordon that is ours by the store is no hindrance: such a node is what one wants to test."""
    held = lessor.way.base.held(nodes)
    known = {one.node: one for one in open_cordons(lessor.store, nodes, lessor.way.base.name)}
    found = {}
    for node in nodes:
        one = held[node]
        if one.holder is Holder.ABSENT:
            found[node] = f"{lessor.way.base.name} does not know it"
        elif one.holder is Holder.OTHERS or (one.holder is Holder.US and (
                node not in known or whose(known[node], one) is not Whose.OURS)):
            found[node] = f"others hold it: {clean(one.reason, 200)}"
    if lessor.way.base.name == "slurm":
        found.update(reserved([node for node in nodes if node not in found], until, lessor.run))
    return found


def without(lessor: Lessor, taken: Taken, refused: Mapping[str, str]) -> Taken:
    """The lease without these nodes, which are given back at once; the whole of it where none is left."""
    entry = taken.entry
    if entry is None or not set(entry.nodes) & refused.keys():
        return taken
    kept = [node for node in entry.nodes if node not in refused]
    told = {**taken.refused, **refused}
    if not kept:
        give_back(lessor, entry, "none of its nodes is idle")
        return Taken(None, told, taken.unsaid)
    lessor.way.keep(entry, kept)
    return Taken(leases.narrow(lessor.store, entry, kept), told, taken.unsaid)


def isolate(lessor: Lessor, taken: Taken, whys: Mapping[str, str]) -> tuple[Taken, list[CordonResult]]:
    """Gives back its other nodes, and has jobs kept from these, by node for what reason: by a cordon that is made while the lease holds
    them, so that no job starts in between, and that stays when it is over. Raises ActionError, StoreError."""
    entry = taken.entry
    if entry is None or not (mine := [node for node in entry.nodes if node in whys]):
        return taken, []
    taken = without(lessor, taken, dict.fromkeys(set(entry.nodes) - set(mine), "it is given back"))
    store, base = lessor.store, lessor.way.base
    # A lease by cordon: another one of ours takes its place.
    by_cordon = {one.node for one in open_cordons(store, mine, base.name) if one.why.startswith(f"{entry.name}: ")}
    done = cordon_each(store, base, [CordonRequest(node, whys[node]) for node in mine if node not in by_cordon], lessor.who, lessor.clock)
    for node in mine:
        if node in by_cordon:
            done += adopt(store, base, [node], whys[node], lessor.who, lessor.clock, anew=True)
    return taken, done


def give_back(lessor: Lessor, entry: LeaseRecord, why: str) -> str:
    """Gives a lease back; says why not, where that did not succeed, and "" where nothing of it is left. Raises StoreError only."""
    store, way, clock = lessor.store, lessor.way, lessor.clock
    line = leases.ending(store, entry, why, lessor.who, clock())
    trouble = ""
    try:
        was = way.left(entry)
        try:
            way.free(entry)
        except ActionError as error:
            trouble = str(error)
        if way.left(entry):
            trouble = trouble or f"{way.kind} {entry.name} is still there"
        else:
            leases.end(store, entry, line, "released" if was else "it was gone already", clock())
            return ""
    except ActionError as error:
        trouble = trouble or str(error)
    leases.kept(store, line, f"not done: {clean(trouble, 300)}", clock())
    return trouble


def settle(lessor: Lessor) -> list[str]:
    """Gives back leases of this way whose process died or whose time is over; a line for each.

    A holder on another boot or machine is waited for until then: what it sent may still run, and ends by then.
    """
    said = []
    for entry in mine(lessor.way, leases.open_leases(lessor.store)):
        over = overdue(entry, lessor.clock())
        if over:
            trouble = give_back(lessor, entry, over)
            said.append(f"{entry.name}: {f'NOT given back: {trouble}' if trouble else f'given back: {over}'}")
    return said


def overdue(entry: LeaseRecord, now: float) -> str:
    """Why a lease is to be given back by whoever sees it, or ""."""
    return leases.expired(entry, now) or ("the process that held it is gone" if life(entry.holder) is HolderState.DEAD else "")


def mine(way: LeaseMethod, entries: Iterable[LeaseRecord]) -> list[LeaseRecord]:
    """Those that this way holds."""
    return [entry for entry in entries if (entry.kind, entry.backend) == (way.kind, way.base.name)]
