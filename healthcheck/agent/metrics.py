"""The text file for node_exporter's textfile collector: the metrics of `muster exporter` for this node.

A text file stays when its agent is dead, so nothing in it claims to be fresh: readers of `muster_node_state`
compare `muster_node_newest_result_timestamp_seconds` with the clock, as the alert rules do, by
`muster_agent_period_seconds`.
"""

from __future__ import annotations

from healthcheck.exporter import nodes
from healthcheck.exporter.fleet import BUILD
from healthcheck.exporter.source import NodeNow
from healthcheck.facts.base import Captures
from healthcheck.model.agentmetric import HEALTHY, PERIOD, RUN_INFO, RUN_TIME, WRITABLE, AgentBasis, samples
from healthcheck.model.exposition import GAUGE, MetricFamily, grouped, text_of
from healthcheck.model.outcome import NodeReport, NodeState
from healthcheck.model.recording import Recording
from healthcheck.store import newest
from healthcheck.store.shown import shown
from healthcheck.store.telemetry import Telemetry
from inventory.model import Node

TOOK = MetricFamily("muster_agent_run_seconds", GAUGE, "Duration of the agent's newest run.", ("node",))
RULES = MetricFamily("muster_agent_info", GAUGE, "Rules and installed version of the agent's newest run; "
                                                 "always 1.", ("bundle", "node", "rules"))
FAMILIES = (PERIOD, HEALTHY, RUN_TIME, TOOK, RULES, RUN_INFO, WRITABLE, BUILD)


def seen(recording: Recording) -> Telemetry | None:
    """A snapshot's telemetry; None without a snapshot."""
    return shown(recording, Captures(recording)) if recording.host is not None else None


def page(
    node: Node, report: NodeReport, snapshot: tuple[bytes, str], *, time: float, took: float, period: float,
    bundle: str, python: str, basis: AgentBasis,
) -> str:
    """The file's text; `snapshot` is `newest.packed` of this snapshot and the earlier counters."""
    now = newest.decoded(node.name, time, basis.rules, *snapshot)
    rows = nodes.rows(NodeNow(node.name, node, now), time, period)
    pairs = ((family, rows.of[at]) for at, family in enumerate(nodes.FAMILIES) if family is not nodes.STALE)
    run = samples(node.name, report.state is NodeState.HEALTHY, time, basis)
    own = ((PERIOD, PERIOD.sample(period, node.name)), (TOOK, TOOK.sample(round(took, 3), node.name)),
           (RULES, RULES.sample(1, bundle, node.name, basis.rules[:12])),
           (BUILD, BUILD.sample(1, python, basis.version)))
    return text_of([*((family, found) for family, found in pairs if found), *grouped((*run, *own)).items()])
