"""`muster history --summary`: the summary of a fleet's history."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import click

from healthcheck.cli.wrapping import echo
from healthcheck.store.file import opened
from inventory.load import usual_inventory
from inventory.locate import state_dir

if TYPE_CHECKING:
    from healthcheck.store.file import Store
    from inventory.model import Node

BY = ("cause", "component", "rack", "sku")


def print_summary(
    by: str | None, fmt: str, since: float, rules: str | None, inventory: str | None, state: str | None,
    job_nodes: int | None = None, checkpoint_s: float | None = None,
) -> None:
    """Prints the summary of the nodes in service; without an inventory, of all nodes that the store knows.
    With `job_nodes` also the forecast for a job of so many nodes."""
    from healthcheck.accounting.forecast import forecast
    from healthcheck.accounting.read import read
    from healthcheck.accounting.summary import summary
    from healthcheck.report import forecast as forecast_words
    from healthcheck.report import summary as report
    from healthcheck.triage.policyload import policy_of

    there = usual_inventory(inventory)
    nodes = dict(there.nodes) if there is not None else None
    policy = policy_of(rules)
    now = time.time()
    with opened(state_dir(state)) as store:
        groups = {by: grouped[by](store, nodes or {})} if by is not None and by in grouped else {}
        serving = None if nodes is None else {name for name, node in nodes.items() if node.in_service}
        skus = {name: node.sku for name, node in (nodes or {}).items() if node.sku is not None}
        made = summary(read(store, serving, policy, now - since, now, groups, skus), now - since, now,
                       ("cause", "component") if by is None else (by,))
    away = {name: node.lifecycle.state.value for name, node in (nodes or {}).items() if not node.in_service}
    words = report.definitions(policy.repeat.apart_hours, policy.fresh_hours)
    job = forecast(made.total.rate, job_nodes, checkpoint_s) if job_nodes is not None else None
    if job is not None:
        words += forecast_words.DEFINITIONS
    if nodes is None:
        click.echo("note: no inventory found: every node in the store counts as in service", err=True)
    if fmt == "json":
        click.echo(json.dumps(report.document(made, away, words, job), indent=1))
    elif fmt == "csv":
        click.echo(report.as_csv(made), nl=False)
    else:
        for line in report.text(made, away, words, job):
            echo(line)


def _racks(store: Store, nodes: Mapping[str, Node]) -> dict[str, str]:
    return {name: node.rack or "" for name, node in nodes.items()}


def _skus(store: Store, nodes: Mapping[str, Node]) -> dict[str, str]:
    """The SKU from the inventory, else from the newest snapshot."""
    from healthcheck.store.newest import decoded, rows

    snapshots = (decoded(*row) for row in rows(store))
    named = {name: node.sku for name, node in nodes.items() if node.sku is not None}
    return {snapshot.node: snapshot.sku or "" for snapshot in snapshots} | named


grouped: Mapping[str, Callable[[Store, Mapping[str, Node]], dict[str, str]]] = {"rack": _racks, "sku": _skus}
