"""Leases for one sweep: under them `muster check --disruptive` runs probes that must not run beside a job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from healthcheck.model.lease import Granted, Lease
from healthcheck.model.probes import Probe
from healthcheck.store.file import Store, opened
from healthcheck.store.leases import LeaseRecord
from healthcheck.sweep.sweep import SweepPlan, leased_limits, limits
from inventory.cli.chosen import who
from inventory.discover import Run
from inventory.errors import StoreError, UsageError
from inventory.transport.base import Limits, Transport
from provisioning.actions.base import Backend
from provisioning.actions.choose import Options
from provisioning.actions.choose import backend as backend_of
from provisioning.lease.base import LeaseMethod
from provisioning.lease.cordoned import Cordoned
from provisioning.lease.idle import idle
from provisioning.lease.reservation import Reservation
from provisioning.lease.take import LeaseGrant, LeaseManager, give_back, isolate, settle, take, without
from provisioning.lease.watch import BEAT_S, GivesWay, LeaseWatch

# The lease outlasts what is sent under it by so much, however the head ends.
MARGIN_S = 120.0
# Of the look at whether nodes are idle, under a lease that gives way: no one reads the queue meanwhile.
IDLE_CHECK_S = 20.0
# No one means to hold nodes for longer by leaving options out.
LONGEST_S = 86400.0

MakeManager = Callable[[Store], LeaseManager]


def manager(
    kind: str | None, base: Backend, who: str, clock: Callable[[], float] = time.time, run: Run | None = None,
) -> MakeManager:
    """Makes lease managers of this kind for a store; by default reservations for Slurm, else cordons.
    UsageError for a back end without reservations."""
    kind = kind or (Reservation.kind if base.name == "slurm" else Cordoned.kind)
    if kind == Reservation.kind and base.name != "slurm":
        raise UsageError(f"--lease reservation: {base.name} has no reservations; use --lease cordon")

    def made(store: Store) -> LeaseManager:
        method: LeaseMethod = Reservation(
            clock, run) if kind == Reservation.kind else Cordoned(store, base, clock)
        return LeaseManager(store, method, who, clock, run)

    return made


def give_back_abandoned(
    store: Store, base: Backend, who: str, clock: Callable[[], float] = time.time, run: Run | None = None,
) -> list[str]:
    """Releases this back end's leases whose process died or whose time is over; a line for each."""
    kinds = (Reservation.kind, Cordoned.kind) if base.name == "slurm" else (Cordoned.kind,)
    return [message for kind in kinds for message in settle(manager(kind, base, who, clock, run)(store))]


def backend(option: str | None, options: Options) -> Backend:
    """The site's back end, by command line or inventory; raises UsageError where there is none."""
    from inventory.load import usual_inventory

    return backend_of(usual_inventory(option), options)


@dataclass(frozen=True)
class SweepLeases:
    """What the command line says of leases: kind, back end's inventory, state folder, the sweep's bounds."""

    kind: str | None
    inventory: str | None
    folder: Path
    timeout: float | None
    fanout: int

    @contextmanager
    def __call__(self, plan: SweepPlan, transport: Transport) -> Iterator[Granted]:
        """Holds leases of the plan's nodes for one sweep, after printing what it may cost."""
        bounds, probes = leased_limits(plan, self.timeout, self.fanout)
        if not probes:
            raise UsageError("--disruptive: none of the rules that are judged is disruptive; `muster rules "
                             "list` shows which are")
        if bounds.sweep_s > LONGEST_S and self.timeout is None:
            raise UsageError(f"--disruptive: {cost(probes, bounds, len(plan.nodes))}: name fewer nodes, "
                             "choose rules (--only dcgm-diag-medium), or give --timeout")
        made = manager(self.kind, backend(self.inventory, Options()), who())
        click.echo(f"muster: {cost(probes, bounds, len(plan.nodes))}", err=True)
        with leased(plan, transport, bounds, self.folder, made) as granted:
            yield granted


@contextmanager
def leased(
    plan: SweepPlan, transport: Transport, bounds: Limits, folder: Path, made: MakeManager, *,
    beat: float = BEAT_S, why: str = "muster check --disruptive",
    under: Callable[[str], Transport] | None = None, gives_way: GivesWay | None = None,
) -> Iterator[Granted]:
    """Leases the plan's nodes for a sweep within these bounds, and gives them back; nodes without one are in
    `Lease.refused`. With `under` what is sent goes over the transport that it makes for the lease's name (a
    reservation's). With `gives_way` the lease, which stood until then, ends as soon as that says why, with
    what runs under it. Raises ActionError, StoreError, UsageError before anything is sent."""
    names = [node.name for node in plan.nodes]
    with opened(folder, make=True) as store:
        ours = made(store)
        for message in give_back_abandoned(store, ours.method.base, ours.who, ours.clock, ours.run):
            click.echo(f"muster: lease {message}", err=True)
        taken = take(ours, names, bounds.sweep_s + MARGIN_S, why)
        try:
            if under is not None and taken.entry is not None:
                transport = under(taken.entry.name)
            taken = _proven(ours, taken, plan, transport,
                            limits(IDLE_CHECK_S if gives_way is not None else None, bounds.fanout))
            if taken.entry is None:
                yield Granted(transport, bounds, Lease(frozenset(), "no one", taken.refused))
                return
            def isolated(reasons: Mapping[str, str]) -> list[str]:
                nonlocal taken
                taken, done = isolate(ours, taken, reasons)
                return [f"{one.node}: {one.message}" for one in done]

            with LeaseWatch(folder, made, taken.entry, transport, beat=beat, gives_way=gives_way) as watch:
                yield Granted(watch, bounds,
                              Lease(frozenset(taken.nodes), taken.entry.name, taken.refused, watch.stood,
                                    lambda: watch.over, lambda: watch.gave_way, isolated))
            for node, why in sorted(watch.lost.items())[:1]:
                click.echo(f"muster: the lease was lost before the end ({node}: {why}): its results are not "
                           "judged", err=True)
        finally:
            if taken.entry is not None and (trouble := _given_back(ours, taken.entry)):
                click.echo(f"muster: lease {taken.entry.name} was NOT given back: {trouble}; see: muster "
                           "lease list", err=True)


def _given_back(manager: LeaseManager, entry: LeaseRecord) -> str:
    try:
        return give_back(manager, entry, "the sweep is over")
    except StoreError as error:     # what was measured is reported anyway
        return str(error)


def _proven(
    manager: LeaseManager, taken: LeaseGrant, plan: SweepPlan, transport: Transport, bounds: Limits,
) -> LeaseGrant:
    """The lease with those of its nodes on which a look at their GPUs shows no process."""
    nodes = [node for node in plan.nodes if node.name in taken.nodes]
    if not nodes:
        return taken
    looked = idle(nodes, transport, plan.ruleset.skus, plan.default_sku, bounds)
    unproven = dict.fromkeys(
        looked.without & taken.unknown, "it has no GPU, and its scheduler cannot say whether a job is on it")
    return without(manager, taken, {**looked.refused, **unproven})


def cost(probes: tuple[Probe, ...], bounds: Limits, nodes: int) -> str:
    """What a sweep under a lease may take at most, in a line."""
    each = ", ".join(f"{probe.id} {probe.seconds / 60:.0f}" for probe in probes)
    return (f"{nodes} node{'s' if nodes != 1 else ''}, to be held for at most {bounds.sweep_s / 60:.0f} min "
            f"({each} min)")
