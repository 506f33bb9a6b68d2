"""`muster check --from-prometheus URL`: asks Prometheus which nodes are healthy by their agents, and leaves
those out."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from healthcheck.config.nodeentry import entry_digest, plain_entry
from healthcheck.model.outcome import NodeReport, NodeState
from inventory.errors import UsageError
from inventory.times import second

if TYPE_CHECKING:
    from healthcheck.sweep.fromagents import SweepChoice, WantedNode
    from healthcheck.sweep.sweep import SweepPlan, SweepResult
    from inventory.model import Node


def refuse(options: Mapping[str, object]) -> None:
    """Raises UsageError for the first of these options that was given: none goes with --from-prometheus."""
    for name, value in options.items():
        if value:
            raise UsageError(f"{name} does not go with --from-prometheus")


class FromPrometheus:
    """Chooses the nodes to visit, sweep by sweep; raises UsageError for a URL or a login that cannot be
    used."""

    def __init__(self, url: str, auth: str | None, most_age: float | None, seconds: float | None) -> None:
        """`seconds` are those of the whole sweep, of which the question to Prometheus may take a quarter."""
        from healthcheck.sweep.prometheus import SECONDS, login_of, url_of

        self._url = url_of(url)
        self._login = login_of(auth, self._url)
        self._most_age = most_age
        self._seconds = SECONDS if seconds is None else min(SECONDS, max(1.0, seconds / 4))

    def choose(self, plan: SweepPlan, state: Path) -> SweepChoice:
        """Which nodes of the plan to visit, by the store in this state folder; raises StoreError."""
        from healthcheck.store.clock import newest_sweep
        from healthcheck.store.file import opened
        from healthcheck.store.leftout import known_to_head
        from healthcheck.sweep import agentseries, fromagents
        from healthcheck.sweep.prometheus import PrometheusError, ask
        from inventory.release import VERSION

        nodes = wanted(plan)
        with opened(state, make=True) as store:
            known, swept = known_to_head(store), newest_sweep(store, time.time())
        try:
            body = ask(self._url, agentseries.QUERY, self._login, self._seconds)
            claims = agentseries.claims(body, {node.name for node in nodes})
        except PrometheusError as error:
            return fromagents.visit_all(nodes, f"{self._url}: {error}")
        (profile,) = plan.profiles
        head = fromagents.HeadBasis(VERSION, plan.ruleset.digest, profile, time.time(),
                                    swept, self._most_age)
        return fromagents.choose(nodes, claims, known, head, random.SystemRandom())


def wanted(plan: SweepPlan) -> list[WantedNode]:
    """The plan's nodes as the head would judge them."""
    from healthcheck.sweep.fromagents import WantedNode

    return [WantedNode(node.name, node.sku or plan.default_sku or "", entry_digest(plain_entry(node)),
                       node.profile or "") for node in plan.nodes]


def to_visit(plan: SweepPlan, choice: SweepChoice) -> SweepPlan:
    """The plan of the nodes to visit."""
    return replace(plan, nodes=[node for node in plan.nodes if node.name in choice.visits],
                   samples=choice.samples)


def with_left_out(plan: SweepPlan, choice: SweepChoice, outcome: SweepResult) -> SweepResult:
    """The outcome with a report of each node that was left out, in the plan's order, and a line on the
    choice."""
    from healthcheck.sweep.fromagents import line

    visited = {report.node: report for report in outcome.assessed.reports}
    reports = tuple(visited[node.name] if node.name in visited else _left_out(node, plan, choice)
                    for node in plan.nodes)
    return replace(outcome, assessed=replace(outcome.assessed, reports=reports),
                   troubles=(*outcome.troubles, line(choice)))


def _left_out(node: Node, plan: SweepPlan, choice: SweepChoice) -> NodeReport:
    evidence = choice.left_out[node.name]
    at = second(evidence.at)
    return NodeReport(node.name, NodeState.HEALTHY, f"healthy, by its agent, at {at}; not visited", (),
                      node.in_service, sku=node.sku or plan.default_sku, agent=evidence)
