"""Keeps jobs away from machines in bring-up by cordons of ours, each with its line in the ledger, until they
are through. What others hold stays theirs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import NAME, Store, opened
from inventory.errors import UsageError
from inventory.model import Inventory
from provisioning.actions.base import ActionError, Backend, Holder
from provisioning.actions.choose import Options, backend
from provisioning.actions.cordon import CordonResult, cordon, resolve_pending, uncordon

WHY = "bring-up"        # by which our cordons are known from those of other people's commands

Clock = Callable[[], float]


def through(there: Inventory) -> Backend | None:
    """What keeps jobs away: as the inventory says, else Slurm if there, else nothing. Raises UsageError."""
    try:
        return backend(there, Options())
    except UsageError:
        if there.cordon is not None:
            raise
        return None


def hold(
    folder: Path, there: Inventory, nodes: Sequence[str], who: str, clock: Clock,
    on_event: Callable[[str], None] = lambda line: None,
) -> list[CordonResult]:
    """Cordons those of these machines that could be given jobs now, and gives a line for each. Raises
    ActionError, StoreError: what the inventory names must answer. Where it names nothing, and Slurm is here
    and does not answer, `on_event` hears that no one is asked then."""
    base = through(there)
    if base is None:
        return []
    try:
        free = [
            node for node, held in base.held(nodes).items() if held.holder is Holder.NO_ONE] if nodes else []
        if not free:
            return []
        with opened(folder, make=True) as store:
            return cordon(store, base, free, WHY, who, clock)
    except ActionError as error:
        if there.cordon is not None:
            raise
        on_event(f"{error}; the inventory names no back end, so a machine in bring-up counts as idle; to be "
                 f"sure: cordon: {base.name} in {there.source}")
        return []


def held(folder: Path, there: Inventory, nodes: Collection[str]) -> frozenset[str]:
    """Those of these machines that a bring-up cordoned and no one gave to jobs yet, by the store."""
    base = through(there)
    if base is None or not (folder / NAME).exists():
        return frozenset()
    with opened(folder) as store:
        return _ours(store, base, nodes)


def give(
    folder: Path, there: Inventory, nodes: Collection[str], who: str, clock: Clock,
) -> list[CordonResult]:
    """Gives to jobs what a bring-up cordoned of these; a line for each. Raises ActionError, StoreError."""
    base = through(there)
    if base is None:
        return []
    with opened(folder, make=True) as store:
        resolve_pending(store, base, clock)
        ours = _ours(store, base, nodes)
        return uncordon(store, base, sorted(ours), f"{WHY} is over", who, clock) if ours else []


def _ours(store: Store, base: Backend, nodes: Collection[str]) -> frozenset[str]:
    return frozenset(one.node for one in open_cordons(store, nodes, base.name) if one.why == WHY)
