"""What is said where Python is too old to judge: it was recorded, and home judges it; until then the node is unknown. Python 3.8."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any

from healthcheck.agent.said import AgentOutput, nagios

if TYPE_CHECKING:
    from healthcheck.agent.keep import StateFolder
    from healthcheck.agent.recorder import CollectorReply

STATES = ("unhealthy", "unknown", "degraded", "healthy")
# As `healthcheck.exporter.nodes` and `healthcheck.agent.metrics` say it, which this Python cannot read; a test compares them.
_STATE = "Whether a node is in this state, by its newest look; unknown, too, where that is not fresh."
_NEWEST = "When the sweep began whose results are a node's newest, in seconds since 1970; 0 for a node that was never looked at."
_PERIOD = "How often a node's timer looks; a result that is older than two of these says nothing."


def unjudged(look: CollectorReply, result: dict[str, Any], state: StateFolder, began: float) -> AgentOutput:
    """What is said of a look that home is to judge: its answer is kept as it came, with the one before it to compare with."""
    if look.stage:
        return unknown(failed(look, result), result, f"{look.stage}: {look.reason}", "node", began)
    before = state.look() or {}
    held = {"reply": base64.b64encode(look.body).decode(), "previous_reply": before.get("reply"), "previous_time": before.get("time")}
    return unknown(dict(result, **held), result, f"judged at home: Python {result['python']} records only", "muster", began)


def failed(look: CollectorReply, result: dict[str, Any]) -> dict[str, Any]:
    """The document of a look that came to nothing."""
    return dict(result, recording={"schema": "muster.recording/1", "node": result["node"], "received": look.received,
                                   "failure": {"stage": look.stage, "reason": look.reason}})


def unknown(look: dict[str, Any], result: dict[str, Any], reason: str, origin: str, began: float) -> AgentOutput:
    """What is said of a node of which nobody here can say how it is; `look` is the document for home."""
    whole = dict(result, judged=False, state="unknown", reason=reason, origin=origin, code=3, nagios=3, counts={})
    return AgentOutput(
        dict(look, judged=False), whole, page(result["node"], result["time"], result["period"]), f"{result['node']}: unknown: {reason}",
        nagios(3, reason, {}, time.time() - began), lambda: None)


def page(node: str, when: float, period: float) -> str:
    """The text for node_exporter: unknown, and since when."""
    label = node.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    lines = [_head("muster_node_state", _STATE)]
    lines += [f'muster_node_state{{node="{label}",state="{state}"}} {float(state == "unknown")}\n' for state in STATES]
    newest = ("muster_node_newest_result_timestamp_seconds", _NEWEST, when)
    for name, said, value in (newest, ("muster_agent_period_seconds", _PERIOD, period)):
        lines += [_head(name, said), f'{name}{{node="{label}"}} {float(value)!r}\n']
    return "".join(lines)


def _head(name: str, said: str) -> str:
    return f"# HELP {name} {said}\n# TYPE {name} gauge\n"
