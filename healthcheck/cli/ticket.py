"""`muster ticket`: a repair ticket for a node, ready to paste."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.options import POLICY, STATE
from healthcheck.store.file import opened
from healthcheck.store.history import known_nodes, trails
from healthcheck.store.ledger import lines
from healthcheck.store.rmas import rmas
from healthcheck.store.silences import active
from healthcheck.store.silences import silenced as whose
from inventory.cli.formatted import formats
from inventory.errors import UsageError
from inventory.load import usual_inventory
from inventory.locate import state_dir
from inventory.model import Node
from inventory.nodeset import did_you_mean
from inventory.text import short

if TYPE_CHECKING:
    from healthcheck.store.file import Store
    from healthcheck.triage.ticket import Ticket


@click.command()
@click.argument("node", shell_complete=completing.node)
@formats()
@POLICY
@click.option("--inventory", "-i", metavar="FILE",
              help="For rack, BMC and ports. Default: as for muster check.")
@STATE
def ticket(node: str, fmt: str, rules: str | None, inventory: str | None, state: str | None) -> None:
    """Print a repair ticket for NODE in Markdown, for the vendor, the data centre,
    the network team or the operators.

    It gives the findings and their start, the part and its earlier failures, what was tried, and the request,
    from the sweeps stored by `muster check --store` and by triage's policy.

    \b
    muster ticket gpu017
    muster ticket gpu017 --format json | jq -r .title
    muster evidence gpu017 && muster ticket gpu017 | mail -s gpu017 support@example.com

    Exit: 0 printed, 2 usage or nothing to repair.
    """
    from healthcheck.triage.ticket import document, markdown

    folder = state_dir(state)
    with opened(folder) as store:
        said = _ticket(store, node, _nodes(inventory), rules, folder)
    click.echo(json.dumps(document(said), indent=1) if fmt == "json" else markdown(said), nl=fmt == "json")


def _nodes(option: str | None) -> dict[str, Node]:
    """The inventory's nodes; none without an inventory."""
    there = usual_inventory(option)
    return dict(there.nodes) if there is not None else {}


def _ticket(store: Store, name: str, nodes: dict[str, Node], rules: str | None, folder: Path) -> Ticket:
    from healthcheck.model.verdict import RMA
    from healthcheck.sweep.evidence import newest_bundle
    from healthcheck.triage.gather import gather
    from healthcheck.triage.plan import make
    from healthcheck.triage.policyload import policy_of
    from healthcheck.triage.ticket import ticket as write

    known = known_nodes(store)
    if name not in known:
        raise UsageError(f"{short(name)}: no stored sweep has seen this node{did_you_mean(name, known)}")
    policy = policy_of(rules)
    now = time.time()
    silences = active(store, now)
    fleet = gather(store, nodes.values() if name in nodes else [Node(name)], policy, now,
                   silenced=lambda problem: whose(problem, silences, now) is not None)
    plan = make(fleet, policy)
    (past,) = (one for one in fleet.nodes if one.node == name)
    verdict = next((one for one in plan.verdicts if one.node == name), None)
    if verdict is None or not (verdict.faults or verdict.fault == RMA):
        shared = "; ".join(incident.why for incident in plan.incidents if name in incident.nodes)
        shared = shared or (verdict.why if verdict is not None and verdict.incident else "")
        quiet = (f"{past.silenced} problem{'s are' if past.silenced > 1 else ' is'} silenced" if past.silenced
                 else "")
        why = (shared or (verdict.why if verdict is not None else "") or quiet
               or "it has no problem that the policy covers")
        raise UsageError(f"{name}: there is nothing to repair: {why}")
    began = min((fault.began for fault in verdict.faults), default=0.0)
    of = tuple(f"incident {incident.id}, one cause with {len(incident.nodes) - 1} other nodes: {incident.why}"
               for incident in plan.incidents if name in incident.nodes)
    return write(verdict, past, trails(store, name), lines(store, [name]), nodes.get(name),
                 bundle=newest_bundle(folder, name, began), shared=of,
                 part=_part(store, name, verdict.why) if verdict.fault == RMA else "")


def _part(store: Store, node: str, why: str) -> str:
    """What the RMA is of that a verdict's reason begins with."""
    return next((one.part for one in rmas(store, [node]) if re.match(rf"RMA {one.id}\b", why)), "")
