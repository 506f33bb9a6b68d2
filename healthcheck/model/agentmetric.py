"""What an agent reports of its newest run to Prometheus, and by what `muster check --from-prometheus` leaves
a node out.

No other program of ours exports these names, so that a head's exporter beside the agents makes no duplicate.
"""

from __future__ import annotations

from dataclasses import dataclass

from healthcheck.model.exposition import GAUGE, MetricFamily, Sample

PERIOD = MetricFamily("muster_agent_period_seconds", GAUGE, "Interval of a node's agent; a result older than "
                                                            "two of these counts as unknown.", ("node",))
HEALTHY = MetricFamily("muster_agent_healthy", GAUGE,
                       "Whether the agent's newest run judged its node healthy; a text file stays when its "
                       "agent is dead, so compare the run's timestamp with the clock.", ("node",))
RUN_TIME = MetricFamily("muster_agent_run_timestamp_seconds", GAUGE,
                        "When the recording that the agent judged was complete, in seconds since 1970, by "
                        "the node's clock.", ("node",))
RUN_INFO = MetricFamily("muster_agent_run_info", GAUGE,
                        "By what the agent's newest run judged: boot, digests of inventory entry and rules, "
                        "profile of the occasion, SKU, version; always 1.",
                        ("boot_id", "entry", "node", "profile", "rules", "sku", "version"))
# Its text is also in `healthcheck.agent.unjudged`, for Python 3.8; a test compares them.
WRITABLE = MetricFamily("muster_agent_writable", GAUGE,
                        "Whether the agent's newest run could write at this place (state, textfile); if not, "
                        "see its journal and `muster agent status`.", ("node", "place"))
FAMILIES = (PERIOD, HEALTHY, RUN_TIME, RUN_INFO)
# Prometheus drops an empty label, and a target's label of that name would take its place.
NONE = "-"


@dataclass(frozen=True)
class AgentBasis:
    """By what a run judged, as RUN_INFO has it: equal on node and head, or the node is visited.

    `boot_id` is the kernel's, `entry` a digest of the node's inventory entry (`config.nodeentry`), `profile`
    that of the occasion, `rules` the ruleset's whole digest. A text may be empty.
    """

    boot_id: str
    entry: str
    profile: str
    rules: str
    sku: str
    version: str


@dataclass(frozen=True)
class AgentEvidence:
    """Why a sweep left a node out: its agent judged it healthy at `at` (epoch seconds, by the node's clock),
    as Prometheus scraped it from `target` (job and instance)."""

    at: float
    basis: AgentBasis
    target: str


def samples(node: str, healthy: bool, at: float, basis: AgentBasis) -> tuple[Sample, ...]:
    """The samples of one judged run, without PERIOD."""
    labels = {name: value or NONE for name, value in vars(basis).items()}
    labels["node"] = node
    return ((HEALTHY, HEALTHY.sample(healthy, node)), (RUN_TIME, RUN_TIME.sample(at, node)),
            (RUN_INFO, RUN_INFO.sample(1, *(labels[name] for name in RUN_INFO.labels))))
