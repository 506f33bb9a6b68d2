"""The output where Python is too old to judge: the head judges the recording;
until then the node is unknown. Python 3.8."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any

from healthcheck.agent.output import LINE, AgentOutput, nagios
from inventory.text import fit

if TYPE_CHECKING:
    from healthcheck.agent.keep import StateFolder
    from healthcheck.agent.recorder import CollectorReply

STATES = ("unhealthy", "unknown", "degraded", "healthy")
# Equal to texts of `healthcheck.exporter.nodes` and `healthcheck.agent.metrics`,
# which this Python cannot read; a test compares them.
_STATE = "Whether a node is in this state, by its newest result; unknown if that is not fresh."
_NEWEST = "When the sweep of a node's newest result began, in seconds since 1970; 0 for none."
_WRITABLE = ("Whether the agent's newest run could write at this place (state, textfile); if not, see its "
             "journal and `muster agent status`.")
_PERIOD = "Interval of a node's agent; a result older than two of these counts as unknown."


def unjudged(reply: CollectorReply, result: dict[str, Any], state: StateFolder, began: float) -> AgentOutput:
    """The output of a recording for the head to judge: the raw answer,
    with the previous one for comparison."""
    if reply.stage:
        return unknown(failed(reply, result), result, f"{reply.stage}: {reply.reason}", "node", began)
    before = state.look() or {}
    held = {"reply": base64.b64encode(reply.body).decode(), "previous_reply": before.get("reply"),
            "previous_time": before.get("time")}
    return unknown(dict(result, **held), result, f"judged at home: Python {result['python']} records only",
                   "muster", began)


def failed(reply: CollectorReply, result: dict[str, Any]) -> dict[str, Any]:
    """The document of a failed recording."""
    return dict(result, recording={"schema": "muster.recording/1", "node": result["node"],
                                   "received": reply.received,
                                   "failure": {"stage": reply.stage, "reason": reply.reason}})


def unknown(
    snapshot: dict[str, Any], result: dict[str, Any], reason: str, origin: str, began: float,
) -> AgentOutput:
    """The output of an unknown state; `snapshot` is the document for the head."""
    whole = dict(result, judged=False, state="unknown", reason=reason, origin=origin, code=3, nagios=3,
                 counts={})
    return AgentOutput(dict(snapshot, judged=False), whole,
                       page(result["node"], result["time"], result["period"]),
                       fit([reason], LINE, f"{result['node']}: unknown: "),
                       nagios(3, lambda most, head: fit([reason], most, head), {}, time.time() - began),
                       lambda: None)


def page(node: str, when: float, period: float) -> str:
    """The text for node_exporter: unknown, and the time."""
    label = _label(node)
    lines = [_head("muster_node_state", _STATE)]
    lines += [f'muster_node_state{{node="{label}",state="{state}"}} {float(state == "unknown")}\n'
              for state in STATES]
    newest = ("muster_node_newest_result_timestamp_seconds", _NEWEST, when)
    for name, said, value in (newest, ("muster_agent_period_seconds", _PERIOD, period)):
        lines += [_head(name, said), f'{name}{{node="{label}"}} {float(value)!r}\n']
    return "".join(lines)


def writable(node: str, state: bool) -> str:
    """The text for node_exporter: whether the state folder could be written."""
    name = "muster_agent_writable"
    return f'{_head(name, _WRITABLE)}{name}{{node="{_label(node)}",place="state"}} {float(state)}\n'


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _head(name: str, said: str) -> str:
    return f"# HELP {name} {said}\n# TYPE {name} gauge\n"
