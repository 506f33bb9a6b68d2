"""`muster triage`: decides which nodes to isolate and release, and with --apply does it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli.deliveries import DELIVERY, delivered
from healthcheck.cli.options import STATE
from healthcheck.cli.wrapping import echo
from inventory.cli.chosen import who
from inventory.cli.formatted import formats
from inventory.cli.span import moment, span
from inventory.errors import UsageError
from provisioning.cli.typed import again

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from healthcheck.change.model import SiteChange
    from healthcheck.model.problem import Problem
    from healthcheck.store.file import Store
    from healthcheck.store.silences import Silence
    from healthcheck.triage.lots import PartLot
    from healthcheck.triage.past import FleetHistory
    from healthcheck.triage.plan import TriagePlan
    from healthcheck.triage.policy import TriagePolicy
    from inventory.model import Inventory
    from provisioning.actions.base import Backend
    from provisioning.actions.cordon import CordonResult
    from provisioning.triage.apply import BackendView


@click.command()
@click.option(
    "--apply", "act", is_flag=True, help="Carry out the plan, and write the verdicts into the store.")
@click.option("--at-most", metavar="N", type=click.IntRange(0, 100_000),
              help="Isolate at most N nodes in this run; the rest is listed.")
@click.option("--close-breaker", is_flag=True,
              help="Close the breaker, so that triage isolates nodes again. Needs --reason.")
@click.option("--reason", metavar="TEXT", help="Why the breaker may be closed, for the ledger.")
@click.option("--undo-since", metavar="TIME",
              help="Only give back what just a change of rules, SKU, policy or muster since TIME took.")
@click.option("--take-over", metavar="HOST",
              help="End a run on HOST that never reported its end, after you have made sure that it is dead.")
@click.option(
    "--replay", is_flag=True,
    help="A trial: what --apply would have done in the past, next to what was done. Changes nothing.")
@click.option("--since", metavar="SPAN", callback=span(3600, 3650 * 86400),
              help="With --replay: how far back.  [default: 30d]")
@click.option("--policy", "policy_file", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
              help="With --replay: a policy that overrides the current one.")
@click.option(
    "--close-after", metavar="SPAN", callback=span(0, 3650 * 86400),
    help="With --replay: how long after it opened someone would have closed the breaker.  [default: never]")
@formats()
@click.option("--hostfile", metavar="FILE",
              help="A file of hosts that launch scripts leave out, instead of what `cordon:` says.")
@click.option("--golden", metavar="FILE", help="A file of the nodes that launch scripts may use, instead.")
@click.option(
    "--rules", metavar="DIR", help="A folder of site rules and policy that override the packaged ones.")
@click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check.")
@STATE
@DELIVERY
def triage(
    act: bool, at_most: int | None, close_breaker: bool, reason: str | None, undo_since: str | None,
    take_over: str | None, replay: bool, since: float | None, policy_file: str | None,
    close_after: float | None, fmt: str, hostfile: str | None, golden: str | None, rules: str | None,
    inventory: str | None, state: str | None, delivery: tuple[str, ...],
) -> int:
    """Decide from the sweeps in the store which nodes to keep jobs away from and which to release; without
    --apply only show the plan.

    Faults come from `muster check --store`. A fault keeps jobs away as the policy says (muster explain
    policy). Muster ends no running job: where one should end, the plan shows the command. A node comes back
    after two clean snapshots with --profile bringup since its repair. Triage never touches what people hold.
    The breaker limits new isolations, whatever their cause: to the policy's number of nodes, plus one rack,
    leaf, power or NVLink domain. Once open, it stays open until --close-breaker; releases go on. Nodes with
    one symptom that share a leaf, a rack or the like are one incident, and are isolated and released
    together: muster incident list. Cables, optics and adapters of one delivery lot that fail far more often
    than others are one incident of the vendor, which isolates no node (--delivery: what was delivered). What
    came only with a change of rules, SKU, policy or muster is said so; --undo-since gives that back, once a
    sweep by what held before found the node fit. --replay is a trial: what --apply would have done, next to
    what triage and people did.

    \b
    muster check --store && muster triage
    muster triage --replay --since 7d
    muster triage --apply --at-most 2
    muster triage --apply
    muster triage --undo-since 2h
    muster triage --close-breaker --reason 'PDU 3 is back' --apply
    muster triage --format json | jq '.steps[]'
    muster triage --replay --since 30d --policy draft.yaml

    Exit: 0 nothing to isolate, 1 some node in service is not fit for new jobs or a step failed, 2 usage, 3
    some node in service was not measured, or muster suspects itself, 4 the breaker
    is open or a failure domain is full.
    """
    from healthcheck.config.rulesfolder import folders
    from healthcheck.store import runs
    from healthcheck.store.clock import AHEAD_S
    from healthcheck.store.file import opened
    from healthcheck.store.leases import left
    from healthcheck.store.verdicts import write
    from healthcheck.store.versions import note
    from healthcheck.triage.decidedby import decided_by
    from inventory.errors import MusterError
    from inventory.load import load_inventory
    from inventory.locate import needed_inventory, state_dir
    from provisioning.actions.base import ActionError, SupportsConditions
    from provisioning.actions.choose import Options, backend
    from provisioning.lease.take import overdue
    from provisioning.triage import apply as applying
    from provisioning.triage import newnodes
    from provisioning.triage.conditions import conditions
    from provisioning.triage.onerun import one_run, outcome
    from provisioning.triage.policyfiles import policy_changes
    from provisioning.triage.restore import mend

    if take_over is not None and not act:
        raise UsageError("--take-over ends another --apply: give --apply, too")
    if replay and (act or close_breaker or at_most is not None):
        raise UsageError("--replay changes nothing: leave out --apply, --at-most and --close-breaker")
    if not replay and any(one is not None for one in (since, policy_file, close_after)):
        raise UsageError("--since, --policy and --close-after need --replay; without it triage uses the "
                         "rules folders (--rules)")
    if undo_since is not None and (replay or close_breaker or at_most is not None):
        raise UsageError("--undo-since only gives nodes back: leave out --replay, --close-breaker and "
                         "--at-most")
    undoing = moment(undo_since, "--undo-since", time.time()) if undo_since is not None else None
    if close_breaker and not act:
        raise UsageError("--close-breaker needs --apply")
    if close_breaker and not (reason and reason.strip()):
        raise UsageError("--close-breaker needs --reason: the ledger keeps why it was safe")
    path = needed_inventory(inventory, "no inventory was found, and only it says which nodes are in "
                            "service: see muster inventory --help")
    there = load_inventory(path)
    policy = _policy(rules, policy_file)
    lots = delivered(delivery)
    folder = state_dir(state)
    if replay:
        from provisioning.cli.triagereplay import reported

        reported(there, policy, folder, since if since is not None else 30 * 86400.0, close_after, fmt)
        return 0
    trouble = ""
    through: Backend | None = None
    try:
        through = backend(there, Options(hostfile, golden), lambda line: echo(line, err=True))
    except UsageError:
        if act:
            raise
    if not act:
        with opened(folder) as store:
            try:
                fleet, silences, seen = _fleet(store, there, policy, through, lots)
            except MusterError as error:
                trouble = str(error)
                fleet, silences, seen = _fleet(store, there, policy, None, lots)
            plan = _print(store, fleet, policy, fmt, silences, trouble, at_most, through, undoing)
            if through is not None and not trouble:
                found = [*mend(store, through, "", time.time, dry=True),
                         *(newnodes.admit(store, through, fleet, plan, policy, "", time.time, dry=True)
                           if undoing is None else ())]
                for one in found:
                    echo(f"{one.node}: {one.message}", err=fmt == "json")
            _beside(seen, through)
            _by_name(store, there)
            for late in (*left(store, time.time(), overdue), runs.overdue(store, time.time())):
                if late:
                    echo(f"note: {late}", err=True)
        if fmt == "table" and plan.steps:
            echo(f"This is a plan. To do it: {again('--apply')}")
        return _code(plan, [])
    assert through is not None  # noqa: S101  (or it would have been raised)
    name = f"triage ({who()})"
    with opened(folder) as store, one_run(store, folder, name, time.time, take_over) as run:
        for line in policy_changes(store, folders(rules), name, time.time()):
            echo(line, err=fmt == "json")
        now = time.time()
        with store.writing() as db:
            note(db, decided_by(policy), name, now, latest=now + AHEAD_S)
        if close_breaker:
            _close(store, name, str(reason).strip())
        done: list[CordonResult] = []
        try:
            for one in [
                *applying.settle(store, through, name, time.time), *mend(store, through, name, time.time)]:
                echo(f"{one.node}: {one.message}", err=fmt == "json")
                done.append(one)
            fleet, silences, seen = _fleet(store, there, policy, through, lots, keep=True)
        except ActionError as error:
            fleet, silences, _ = _fleet(store, there, policy, None, lots)
            write(store, _print(store, fleet, policy, fmt, silences, str(error), at_most, through, None),
                  opens=False)
            raise ActionError(f"{error}; the verdicts are stored and nothing was done. Run muster triage "
                              "--apply again") from None
        plan = _print(store, fleet, policy, fmt, silences, "", at_most, through, undoing)
        _beside(seen, through)
        _by_name(store, there)
        done += applying.apply(store, through, plan, name, time.time,
                               lambda one: echo(f"{one.node}: {one.message}", err=fmt == "json"))
        new = newnodes.admit(store, through, fleet, plan, policy, name, time.time) if undoing is None else []
        for one in new:
            echo(f"{one.node}: {one.message}", err=fmt == "json")
        done += new
        run.outcome = outcome(plan, done)
        if isinstance(through, SupportsConditions):
            try:
                through.set_conditions(conditions(fleet, plan, policy))
            except ActionError as error:    # all steps are done
                echo(f"note: the conditions of nodes were not updated: {error}", err=True)
    return _code(plan, done)


def _policy(rules: str | None, file: str | None) -> TriagePolicy:
    from healthcheck.config.rulesfolder import folders
    from healthcheck.ruleset.ruleset import load_ruleset
    from healthcheck.triage.policyload import load_policy

    found = folders(rules)
    return load_policy([*found, *([Path(file)] if file is not None else [])], load_ruleset(found))


def _fleet(
    store: Store, there: Inventory, policy: TriagePolicy, through: Backend | None,
    lots: Mapping[str, PartLot], *, keep: bool = False,
) -> tuple[FleetHistory, list[Silence], BackendView | None]:
    """What is known, the silences now and of late, and what the back end shows; `keep` stores that."""
    from healthcheck.report.silences import SOON_S
    from healthcheck.store import strays
    from healthcheck.store.silences import silenced as whose
    from healthcheck.store.silences import since
    from healthcheck.triage.gather import gather
    from provisioning.triage import apply as applying

    now = time.time()
    silences = since(store, now - SOON_S)
    def quiet(problem: Problem) -> bool:
        return whose(problem, silences, now) is not None

    if through is None:
        return gather(store, there, policy, now, silenced=quiet, delivered=lots), silences, None
    shown = applying.shown(store, through, there.nodes)
    seen = applying.view(store, through, shown)
    if keep:
        strays.keep(store, through.name, shown, seen.strays, now)
    fleet = gather(store, there, policy, now, silenced=quiet, lost=seen.lost, others=seen.others,
                   delivered=lots)
    return fleet, silences, seen


def _beside(seen: BackendView | None, through: Backend | None) -> None:
    """Prints marks that no cordon of this store accounts for, and cordons that the controller lost."""
    from healthcheck.report.strays import lines
    from inventory.nodeset import fold

    if seen is None or through is None:
        return
    for line in lines(seen.strays):
        echo(line, err=True)
    for why in dict.fromkeys(seen.forgot.values()):
        nodes = fold(node for node, message in seen.forgot.items() if message == why)
        echo(f"note: {through.name} lost our cordon on {nodes}, as {why}: muster triage --apply sets "
                   "it again", err=True)


def _by_name(store: Store, there: Inventory) -> None:
    """Prints cordons of nodes not in the inventory, which no plan releases, and renames cut short."""
    from healthcheck.store.cordons import open_cordons
    from healthcheck.store.renaming import unfinished
    from inventory.nodeset import fold

    if strange := {one.node for one in open_cordons(store)} - there.nodes.keys():
        nodes = fold(strange)
        echo(f"note: cordons of nodes that are not in the inventory: {nodes}: muster uncordon {nodes}, "
                   "or muster inventory rename OLD NEW", err=True)
    for one in unfinished(store):
        echo(f"note: a rename was cut short: muster inventory rename {one.old} {one.new}", err=True)


def _changes(store: Store) -> Iterator[SiteChange]:
    """The changes beside this store; one that cannot be read is named, and explains nothing."""
    from healthcheck.change.keep import every
    from healthcheck.change.model import SiteChange

    for one in every(store.path.parent):
        if isinstance(one, SiteChange):
            yield one
        else:
            echo(f"note: a change cannot be read: {one}", err=True)


def _print(store: Store, fleet: FleetHistory, policy: TriagePolicy, fmt: str, silences: list[Silence],
           trouble: str, at_most: int | None, through: Backend | None, undoing: float | None) -> TriagePlan:
    from healthcheck.change.cause import explained
    from healthcheck.report import plan as report
    from healthcheck.report import silences as quiet
    from healthcheck.store.clock import head_clock, newest_sweep
    from healthcheck.store.verdicts import evidence
    from healthcheck.store.versions import OF_NODES
    from healthcheck.triage.gather import every_change
    from healthcheck.triage.plan import make
    from healthcheck.triage.undo import held_for, undo
    from provisioning.actions.base import SupportsEndJobs

    plan = explained(make(fleet, policy, at_most), _changes(store))
    if undoing is not None:
        changes = [one for one in every_change(store, undoing, fleet.now, policy) if one.kind not in OF_NODES]
        plan = undo(fleet, policy, plan, changes, undoing, evidence(store, held_for(fleet)))
    end_jobs = through.end_jobs if isinstance(through, SupportsEndJobs) else report.no_command
    there = [problem for past in fleet.nodes for problem in past.unsilenced.problems] if silences else []
    for line in quiet.notes(silences, there, fleet.now):
        echo(line, err=True)
    if fmt == "json":
        click.echo(json.dumps(report.document(plan, end_jobs, quiet.document(plan, silences)),
                              indent=1))
        return plan
    if trouble:
        echo(f"note: the holders of nodes come from the store alone: {trouble}", err=True)
    if undoing is not None:
        for line in report.undo_text(plan, undoing):
            echo(line)
        return plan
    if said := head_clock(store, fleet.now):
        echo(f"note: {said}", err=True)
    for line in report.text(plan, len(fleet.nodes), sum(past.in_service for past in fleet.nodes),
                            newest_sweep(store, fleet.now), held_back=quiet.held_back(plan, silences),
                            end_jobs=end_jobs):
        echo(line)
    return plan


def _close(store: Store, name: str, reason: str) -> None:
    from healthcheck.store import ledger
    from healthcheck.store.verdicts import close_breaker

    now = time.time()
    with store.writing() as db:
        line = ledger.begin(db, now, name, "close breaker", "", reason)
        was = close_breaker(db, now, name, reason)
        ledger.finish(db, line, "closed" if was else "it was not open", now)
    echo("the breaker is closed" if was else "the breaker was not open", err=True)


def _code(plan: TriagePlan, done: list[CordonResult]) -> int:
    from healthcheck.triage.ours import OURS
    from healthcheck.triage.suspect import suspected

    if plan.is_open or any(one.by_breaker for one in plan.withheld):
        return 4
    if any(one.failed for one in done) or plan.unfit:
        return 1
    doubted = any(one.kind in OURS or suspected(one.kind, one.cause) for one in plan.incidents)
    return 3 if plan.unmeasured or doubted else 0
