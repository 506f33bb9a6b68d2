"""Takes machines through their steps; killed anywhere, the next run goes on from the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from healthcheck.store import bringupnotes as notes
from healthcheck.store import bringups
from healthcheck.store.file import NAME, Store, opened
from inventory.model import Node
from provisioning.bringup.engine.loop import Engine
from provisioning.bringup.engine.model import Executor
from provisioning.bringup.engine.signals import stop_signals
from provisioning.bringup.engine.site import LOCK, BringupOutcome, EnginePolicy, RunContext, RunEvent, unfit
from provisioning.bringup.engine.state import read
from provisioning.lease.runlock import alone


def run(
    site: RunContext, nodes: Sequence[Node], executors: Mapping[str, Executor], policy: EnginePolicy,
    on_event: Callable[[RunEvent], None], *, dry: bool = False,
) -> BringupOutcome:
    """Has these machines begin or go on; gives how they stand at the end. `on_event` hears of each, in this
    thread. With `dry` each is checked up to its first step that is not so, and nothing is written;
    `BringupOutcome.seen` is the plan. One run at a time acts on a state folder: UsageError for another."""
    with _store(site, dry) as store:
        rows = {row.node: row for row in bringups.progress(store)} if store is not None else {}
        last, first = tuple(policy.steps)[-1], next(iter(policy.steps))
        left: dict[str, str] = {}
        for node in nodes:
            row = rows.get(node.name)
            if why := unfit(node, row.step if row is not None and row.on_its_way else None, last):
                left[node.name] = why
        fit = [node for node in nodes if node.name not in left]
        if store is not None and not dry:
            _taken_off(store, left, site.clock())
            bringups.begin(store, [node.name for node in fit], first, site.who, site.clock())
        for name, why in left.items():
            on_event(RunEvent(name, "", notes.LEFT, why))
        engine = Engine(site, read(store, fit, first), executors, policy, on_event, store, dry=dry)
        with stop_signals(engine.interrupt):
            engine.run()
        return _outcome(engine, nodes, left)


@contextmanager
def _store(site: RunContext, dry: bool) -> Iterator[Store | None]:
    """The store, and no one else acting; for a dry run the store as it is, None where there is none."""
    if dry and not (site.folder / NAME).exists():
        yield None
    elif dry:
        with opened(site.folder) as store:
            yield store
    else:
        with opened(site.folder, make=True) as store, alone(site.folder, LOCK, "bringup run"):
            yield store


def _taken_off(store: Store, left: Mapping[str, str], now: float) -> None:
    """Machines that are on their way, and may not be any more."""
    with store.writing() as db:
        for name, why in left.items():
            notes.taken_off(db, name, why, now)


def _outcome(engine: Engine, nodes: Sequence[Node], left: Mapping[str, str]) -> BringupOutcome:
    states = engine.states.values()
    queued = [state for state in states if not state.out]
    halted = {
        step: why for step, why in engine.scheduler.halts.items()
            if any(state.step == step for state in queued)}
    if halted:
        with engine.journal.transaction():
            for state in queued:
                if state.step in halted and not state.came:
                    engine.journal.stood(state.name, notes.QUEUED, halted[state.step])
    return BringupOutcome(
        tuple(state.name for state in states if state.done),
        tuple(state.name for state in states if state.out and not state.done),
        tuple(state.name for state in queued), tuple(node.name for node in nodes if node.name in left),
        MappingProxyType(halted),
        MappingProxyType({state.name: state.seen for state in states if state.seen is not None}),
        engine.stopping)
