"""What `muster bringup run` and `resume` do: a dry run, or the real one, with a summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from healthcheck.store.bringupnotes import SO, TROUBLE
from inventory.cli.chosen import who
from inventory.errors import UsageError
from provisioning.bringup.engine.model import ORDER
from provisioning.bringup.engine.site import LOCK, LOGIN_STEP
from provisioning.cli.bringupconsole import stuck_consoles
from provisioning.cli.bringupshow import painted, progress_of
from provisioning.cli.bringupsite import Surroundings
from provisioning.lease.runlock import taken

if TYPE_CHECKING:
    from inventory.model import Node
    from provisioning.bringup.engine.choose import MachineSelection
    from provisioning.bringup.engine.site import BringupOutcome, RunEvent
    from provisioning.bringup.pages.progress import BringupStatus
    from provisioning.bringup.policy.model import BringupPolicy

    _OnEvent = Callable[[RunEvent], None]


def carried_out(
    site: Surroundings, found: MachineSelection, *, act: bool, until: str | None, fanout: int, quiet: bool,
) -> int:
    """Brings the chosen machines up, or without `act` only checks them; returns the exit code."""
    from inventory.nodeset import fold
    from provisioning.bringup.pages.plan import refusals

    for line in refusals(found.refused, fold):
        click.echo(f"muster: {line}", err=True)
    # Machines past the requested step are done; those that may not go on are taken out of bring-up.
    nodes = [plan.node for plan in found.plans
             if until is None or (plan.steps and ORDER.index(plan.steps[0]) <= ORDER.index(until))]
    nodes += [site.inventory.nodes[one.node] for one in found.refused if one.taken_off and act]
    if not nodes and found.refused:
        raise UsageError("no machine is left to bring up; the reasons are above")
    if not nodes:
        click.echo(f"nothing to do: all are through{f' {until}' if until is not None else ''}", err=True)
        return 0
    policy = ending(site.policy, until)
    code = _acted(site, nodes, policy, until, fanout, quiet) if act else _observed(
        site, nodes, policy, until, fanout, quiet)
    return code or (3 if found.refused else 0)


def ending(policy: BringupPolicy, until: str | None) -> BringupPolicy:
    """The policy under which no machine has a place in a step after this one, so that all end there."""
    if until is None:
        return policy
    return replace(policy,
                   steps={
                       name: replace(step, in_parallel=0) if ORDER.index(name) > ORDER.index(until) else step
                           for name, step in policy.steps.items()})


def _observed(
    site: Surroundings, nodes: Sequence[Node], policy: BringupPolicy, until: str | None, fanout: int,
    quiet: bool,
) -> int:
    from healthcheck.report.progress import progress
    from inventory.nodeset import fold
    from provisioning.bringup.pages import dryrun
    from provisioning.bringup.pages.dryrun import DryRunResult, First

    seen = DryRunResult({})
    with progress(len(nodes), "bringup", quiet=quiet) as shown:
        def on_event(event: RunEvent) -> None:
            if seen.on_event(event):
                shown.done(event.node, event.stand != dryrun.UNKNOWN)

        outcome = _prepared(site, nodes, policy, fanout, dry=True)(on_event)
    why = "; ".join(
        outcome.halted.values()) or ("the run was ended" if outcome.interrupted else "it was not reached")
    for node in outcome.queued:
        first = seen.firsts.get(node)
        if first is None or (
            first.stand == SO and (until is None or ORDER.index(first.step) < ORDER.index(until))):
            seen.firsts[node] = First(dryrun.REFUSED, first.step if first is not None else "", why)
    for node in outcome.trouble:
        seen.firsts.setdefault(node,
                                First(dryrun.REFUSED, LOGIN_STEP,
                                      "its controller refused the login, and accounts lock; once it is "
                                      "repaired: muster bringup retry"))
    with suppress(BrokenPipeError):
        for line in dryrun.lines(seen.firsts, fold, painted()):
            click.echo(line)
        click.echo("This was a dry run. Run again with --apply to do it.")
    if any(first.step == LOGIN_STEP and first.stand == TROUBLE for first in seen.firsts.values()):
        click.echo("note: a dry run keeps nothing, so the next one tries a refused login again, and accounts "
                   "lock", err=True)
    return 130 if outcome.interrupted else 4 if outcome.halted else dryrun.code(
        seen.firsts, [node.name for node in nodes])


def _acted(
    site: Surroundings, nodes: Sequence[Node], policy: BringupPolicy, until: str | None, fanout: int,
    quiet: bool,
) -> int:
    from inventory.nodeset import fold
    from provisioning.bringup.engine.hold import held
    from provisioning.bringup.pages.live import live
    from provisioning.bringup.pages.masked import word
    from provisioning.bringup.pages.progress import past
    from provisioning.bringup.pages.status import lines
    from provisioning.lease.runlock import locked

    names = {node.name for node in nodes}
    if locked(site.folder / LOCK):
        raise UsageError(taken(site.folder / LOCK, "bringup run"))
    work = _prepared(site, nodes, policy, fanout, dry=False)
    _begun(site, nodes)
    owners = {name: step.owner for name, step in policy.steps.items()}

    def observe() -> BringupStatus:
        return progress_of(site.folder, names, owners)

    with live(observe, fold, quiet=quiet) as shown:
        outcome = work(lambda event: shown.on_event(event.node, event.step, event.stand, event.message))
    found = observe()
    if policy.consoles.capture:
        found = stuck_consoles(site.folder, site.rules)(found)
    with suppress(BrokenPipeError):
        for line in lines(found, fold, painted()):
            click.echo(line)
    halted = {
        step: why for step, why in outcome.halted.items()
            if until is None or ORDER.index(step) <= ORDER.index(until)}
    for step, why in halted.items():
        click.echo(f"muster: halted at {step}: {why}", err=True)
    # No later run handles machines that left bring-up, and their cordon would stay for ever.
    if kept := held(site.folder, site.inventory, outcome.left):
        names_kept = fold(kept)
        click.echo(f"muster: {names_kept}: still cordoned by bring-up; to give it to jobs: muster uncordon "
                   f"{word(names_kept)}", err=True)
    if outcome.interrupted:
        click.echo("muster: interrupted; to go on: muster bringup resume", err=True)
    if outcome.interrupted or halted or outcome.trouble or outcome.left:
        return replace(outcome, halted=halted).exit_code
    return 0 if all(past(spot, until) for spot in found.spots) else 3


def _begun(site: Surroundings, nodes: Sequence[Node]) -> None:
    """Sets lifecycle bringup in the inventory, and keeps jobs away from all these machines."""
    from inventory.model import LifecycleState
    from inventory.nodeset import fold
    from provisioning.bringup.engine.hold import hold
    from provisioning.bringup.steps.service import set_lifecycle

    planned = [node.name for node in nodes if node.lifecycle.state is LifecycleState.PLANNED]
    if planned:
        set_lifecycle(site.path, planned, LifecycleState.BRINGUP, site.ruleset.skus)
        click.echo(f"muster: {fold(planned)}: lifecycle bringup, written to {site.path}", err=True)
    coming = [node.name for node in nodes
              if node.lifecycle.state in (LifecycleState.PLANNED, LifecycleState.BRINGUP)]
    done = hold(site.folder, site.inventory, coming, f"bringup ({who()})", time.time,
                lambda line: click.echo(f"muster: {line}", err=True))
    if well := [one.node for one in done if not one.failed]:
        click.echo(f"muster: {fold(well)}: cordoned while in bring-up", err=True)
    for one in done:
        if one.failed:
            click.echo(f"muster: {one.node}: {one.message}", err=True)


def _prepared(
    site: Surroundings, nodes: Sequence[Node], policy: BringupPolicy, fanout: int, *, dry: bool,
) -> Callable[[_OnEvent], BringupOutcome]:
    """The run, to be started with its event handler; a wrong setup raises now, before any change."""
    from inventory.transport.remote import RemoteTransport
    from provisioning.bringup.engine.idle import idle
    from provisioning.bringup.engine.run import run
    from provisioning.bringup.engine.site import RunContext, no_jobs
    from provisioning.bringup.steps.console import ending_with_steps, with_consoles
    from provisioning.bringup.steps.context import StepContext
    from provisioning.bringup.steps.executors import executors
    from provisioning.console.capture import ConsoleCaptures

    name = f"bringup ({who()})"
    context = StepContext(site.folder, site.path, site.inventory, site.ruleset, site.rules, RemoteTransport,
                          name, site.default_sku, fanout)
    # A dry run disturbs no job, so the scheduler is not asked.
    may = no_jobs if dry else idle(site.folder, site.inventory, [node.name for node in nodes], site.path)
    made = executors(context, policy)
    run_context = RunContext(site.folder, name, time.time, idle=may)
    if dry or not policy.consoles.capture:
        return lambda on_event: run(run_context, nodes, made, policy, on_event, dry=dry)

    def captured(on_event: _OnEvent) -> BringupOutcome:
        captures = ConsoleCaptures(site.folder, policy.consoles.at_once)
        try:
            return run(run_context, nodes, with_consoles(made, captures), policy,
                       ending_with_steps(captures, on_event))
        finally:
            captures.close()
    return captured
