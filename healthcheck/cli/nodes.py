"""`muster nodes`: the state of each node, one line each."""

from __future__ import annotations

import json
import os
import sys
import time
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.options import POLICY, STATE
from healthcheck.cli.wrapping import echo
from healthcheck.store.clock import head_clock, newest_sweep
from healthcheck.store.file import opened
from healthcheck.store.history import known_nodes
from healthcheck.store.leases import left
from healthcheck.store.strays import strays
from inventory.cli.formatted import formats
from inventory.cli.span import span
from inventory.errors import UsageError
from inventory.load import usual_inventory
from inventory.locate import state_dir
from inventory.model import Node
from inventory.nodeset import expand, fold, natural
from inventory.select import select

if TYPE_CHECKING:
    from healthcheck.report.nodes import NodeRow, Paint
    from healthcheck.store.file import Store
    from healthcheck.triage.policy import TriagePolicy
    from inventory.model import Inventory

_STATES = ("unhealthy", "unknown", "degraded", "healthy", "never-seen")
_COLOURS = {"unhealthy": "red", "unknown": "magenta", "never-seen": "magenta", "degraded": "yellow",
            "healthy": "green"}


@click.command()
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@click.option("--is", "states", metavar="STATE", type=click.Choice(_STATES), multiple=True,
              help=f"Only these: {', '.join(_STATES)}.")
@click.option("--isolation", type=click.Choice(("none", "no-new-jobs", "evict")), multiple=True,
              help="Only with this verdict. For evict running jobs should end; muster ends none.")
@click.option("--owner", type=click.Choice(("user", "operator", "network", "datacentre", "vendor")),
              multiple=True, help="Only nodes that this owner must repair.")
@click.option("--all", "every", is_flag=True, help="Also list each healthy node.")
@click.option("--stale", metavar="SPAN", callback=span(60, 366 * 86400),
              help="Age from which a state is stale. Default: the policy's (24h).")
@formats()
@POLICY
@click.option("--inventory", "-i", metavar="FILE",
              help="Default: as for muster check; without one, the nodes in the store.")
@STATE
def nodes(
    nodes: str | None, states: tuple[str, ...], isolation: tuple[str, ...], owner: tuple[str, ...],
    every: bool, stale: float | None, fmt: str, rules: str | None, inventory: str | None, state: str | None,
) -> None:
    """Show lifecycle, state, verdict, who repairs what since when, cordon,
    silences and RMA of NODES (default: all).

    All data is from the store: the sweeps of `muster check --store`, judged by triage's policy. It asks no
    node and no scheduler. The verdict is what `muster triage` would decide now; the cordon is ours. A state
    with a question mark is older than --stale.

    \b
    muster nodes
    muster nodes @rack4 --all
    muster nodes --is unknown --is never-seen
    muster nodes --isolation evict --isolation no-new-jobs --owner vendor
    muster nodes --format json | jq -r '.nodes[] | select(.stale) | .node'

    Exit: 0 printed, 2 usage.
    """
    from healthcheck.report import nodes as report
    from healthcheck.report.strays import lines as strange
    from healthcheck.store import runs
    from healthcheck.triage.policyload import policy_of

    there = usual_inventory(inventory)
    policy = policy_of(rules)
    old = stale if stale is not None else policy.fresh_hours * 3600
    now = time.time()
    with opened(state_dir(state)) as store:
        rows, strangers = _rows(store, there, nodes, policy, now, old)
        newest = newest_sweep(store, now)
        beside = strays(store)
        late = [one for one in (head_clock(store, now), *left(store, now), runs.overdue(store, now)) if one]
    rows = [row for row in rows if (not states or row.state in states)
            and (not isolation or row.isolation.value in isolation) and (not owner or row.owner in owner)]
    if fmt == "json":
        click.echo(json.dumps(report.document(rows, newest, now), indent=1))
        return
    for line in report.remarks(rows, newest, now, old):
        echo(line, err=True)
    for line in late:
        echo(f"note: {line}", err=True)
    if strangers and nodes is None:
        echo(f"note: the store has nodes that are not in {there.source if there is not None else ''}: "
                   f"{fold(strangers)}", err=True)
    shown = {row.node for row in rows}
    for line in strange([one for one in beside if one.node in shown or nodes is None]):
        echo(line, err=True)
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    for line in report.lines(rows, now, _paint(), every=every, width=width):
        echo(line)


def _rows(
    store: Store, there: Inventory | None, text: str | None, policy: TriagePolicy, now: float, stale_s: float,
) -> tuple[list[NodeRow], list[str]]:
    """A row for each selected node, in natural order, and the nodes that only the store has."""
    from healthcheck.report.fleetrows import fleet_rows

    known = known_nodes(store)
    if there is not None:
        names = [node.name for node in select(there, text)]
    else:
        names = list(expand(text, everything=known)) if text is not None else known
        if strange := sorted(set(names) - set(known)):
            raise UsageError(f"{strange[0]}: no stored sweep has seen this node, and no inventory names it")
    nodes = list(there) if there is not None else [Node(name) for name in known]
    rows = fleet_rows(store, nodes, policy, now, stale_s, names).rows
    return rows, sorted(set(known) - set(there.nodes), key=natural) if there is not None else []


def _paint() -> Paint:
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return lambda text, kind: text
    return lambda text, kind: click.style(text, fg=_COLOURS.get(kind), bold=kind == "head")
