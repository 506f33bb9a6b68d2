"""`muster nodes`: how the nodes stand, a line each."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

import click

from inventory.cli.span import span
from inventory.errors import UsageError

if TYPE_CHECKING:
    from healthcheck.report.nodes import NodeRow, Paint
    from healthcheck.store.file import Store
    from healthcheck.triage.policy import TriagePolicy
    from inventory.model import Inventory

_STATES = ("unhealthy", "unknown", "degraded", "healthy", "never-seen")
_COLOURS = {"unhealthy": "red", "unknown": "magenta", "never-seen": "magenta", "degraded": "yellow", "healthy": "green"}


@click.command()
@click.argument("nodes", required=False)
@click.option("--is", "states", metavar="STATE", type=click.Choice(_STATES), multiple=True, help=f"Only these: {', '.join(_STATES)}.")
@click.option("--isolation", type=click.Choice(("none", "no-new-jobs", "evict")), multiple=True, help="Only with this verdict.")
@click.option("--owner", type=click.Choice(("user", "operator", "network", "datacentre", "vendor")), multiple=True,
              help="Only what they are to repair.")
@click.option("--all", "every", is_flag=True, help="A line for each healthy node, too.")
@click.option("--stale", metavar="SPAN", callback=span(60, 366 * 86400), help="A look so old is not believed. Default: the policy's (24h).")
@click.option("--format", "form", type=click.Choice(("table", "json")), default="table", show_default=True)
@click.option("--rules", metavar="DIR", help="A folder of site rules and policy that override the packaged ones.")
@click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check; without one, the nodes that the store knows.")
@click.option("--state", metavar="DIR", help="Where the store is. Default: MUSTER_STATE, XDG, /var/lib/muster.")
def nodes(
    nodes: str | None, states: tuple[str, ...], isolation: tuple[str, ...], owner: tuple[str, ...], every: bool, stale: float | None,
    form: str, rules: str | None, inventory: str | None, state: str | None,
) -> None:
    """Say how NODES (all, without it) stand: lifecycle, state, verdict, who repairs what since when, cordon, silences, RMA.

    All of it is from the store: the sweeps of `muster check --store`, judged by the policy of triage; no node and no scheduler is asked.
    The verdict is what `muster triage` would say now, the cordon what we hold. A state with a question mark is older than --stale.

    \b
    muster nodes
    muster nodes @rack4 --all
    muster nodes --is unknown --is never-seen
    muster nodes --isolation evict --isolation no-new-jobs --owner vendor
    muster nodes --format json | jq -r '.nodes[] | select(.stale) | .node'

    Exit: 0 printed, 2 usage.
    """
    from healthcheck.config.rulesfolder import folders
    from healthcheck.report import nodes as report
    from healthcheck.report.strays import lines as strange
    from healthcheck.ruleset.ruleset import load_ruleset
    from healthcheck.store import runs
    from healthcheck.store.file import opened
    from healthcheck.store.leases import left
    from healthcheck.store.strays import strays
    from healthcheck.triage.policyload import load_policy
    from inventory.load import load_inventory
    from inventory.locate import find_inventory, state_dir
    from inventory.nodeset import fold

    path = find_inventory(inventory)
    there = load_inventory(path) if path is not None else None
    found = folders(rules)
    policy = load_policy(found, load_ruleset(found))
    old = stale if stale is not None else policy.fresh_hours * 3600
    now = time.time()
    with opened(state_dir(state)) as store:
        rows, strangers = _rows(store, there, nodes, policy, now, old)
        newest = store.rows("SELECT max(started) FROM sweep")[0][0]
        beside = strays(store)
        late = [one for one in (*left(store, now), runs.overdue(store, now)) if one]
    rows = [row for row in rows if (not states or row.state in states) and (not isolation or row.isolation.value in isolation)
            and (not owner or row.owner in owner)]
    if form == "json":
        click.echo(json.dumps(report.document(rows, newest, now), indent=1))
        return
    for line in report.remarks(rows, newest, now, old, fold):
        click.echo(line, err=True)
    for line in late:
        click.echo(f"note: {line}", err=True)
    if strangers and nodes is None:
        click.echo(f"note: the store knows nodes that are not in {there.source if there is not None else ''}: {fold(strangers)}", err=True)
    shown = {row.node for row in rows}
    for line in strange([one for one in beside if one.node in shown or nodes is None], fold):
        click.echo(line, err=True)
    for line in report.lines(rows, now, fold, _paint(), every=every):
        click.echo(line)


def _rows(
    store: Store, there: Inventory | None, text: str | None, policy: TriagePolicy, now: float, stale_s: float,
) -> tuple[list[NodeRow], list[str]]:
    """A row for each node that is meant, in natural order, and the nodes that only the store knows."""
    from healthcheck.report.nodes import row
    from healthcheck.store.history import known_nodes, newest_spells
    from healthcheck.store.rmas import RmaState, alarms, rmas
    from healthcheck.store.silences import active
    from healthcheck.store.silences import silenced as whose
    from healthcheck.triage.gather import gather
    from healthcheck.triage.plan import make
    from inventory.model import Node
    from inventory.nodeset import expand, natural
    from inventory.select import select

    known = known_nodes(store)
    if there is not None:
        names = [node.name for node in select(there, text)]
    else:
        names = list(expand(text, everything=known)) if text is not None else known
        if strange := sorted(set(names) - set(known)):
            raise UsageError(f"{strange[0]}: no stored sweep has seen this node, and there is no inventory that names it")
    silences = active(store, now)
    # All nodes, whichever are meant: what is the matter with many is not theirs.
    fleet = gather(store, list(there) if there is not None else [Node(name) for name in known], policy, now,
                   silenced=lambda problem: whose(problem, silences, now) is not None)
    plan = make(fleet, policy)
    verdicts = {verdict.node: verdict for verdict in plan.verdicts}
    shared: dict[str, tuple[int, ...]] = {}
    for incident in plan.incidents:
        for node in incident.nodes:
            shared[node] = (*shared.get(node, ()), incident.id)
    spells = newest_spells(store)
    past_rmas = rmas(store)
    away: dict[str, list[str]] = {}
    for one in past_rmas:
        if one.state is not RmaState.RETURNED:
            away.setdefault(one.node, []).append(f"{one.id}:{one.state.value}")
    wrong = alarms(store, past_rmas)
    alarm = {one.node: wrong[one.id] for one in past_rmas if one.id in wrong}
    pasts = {past.node: past for past in fleet.nodes}
    rows = [row(pasts[name], spells.get(name), verdicts.get(name), now, stale_s, ",".join(away.get(name, ())), alarm.get(name, ""),
                shared.get(name, ()))
            for name in sorted(names, key=natural)]
    return rows, sorted(set(known) - set(there.nodes), key=natural) if there is not None else []


def _paint() -> Paint:
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return lambda text, kind: text
    return lambda text, kind: click.style(text, fg=_COLOURS.get(kind), bold=kind == "head")
