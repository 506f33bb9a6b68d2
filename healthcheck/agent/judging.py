"""Judges the recording just made on this node as the head would: same facts, checks and judge,
by compiled rules."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any

from healthcheck.agent import metrics
from healthcheck.agent.compiled import on_a_node, read_rules
from healthcheck.agent.output import LINE, AgentOutput, nagios
from healthcheck.agent.unjudged import failed, unknown
from healthcheck.collector.reply import decode
from healthcheck.config.codec import from_plain
from healthcheck.config.nodeentry import entry_digest
from healthcheck.facts.carried_log import with_earlier
from healthcheck.judge.nodereport import summary_line
from healthcheck.model.agentmetric import AgentBasis
from healthcheck.model.outcome import NodeReport, Origin, Severity, Status, exit_code, origin_of
from healthcheck.model.recording import to_json
from healthcheck.report import document
from healthcheck.store import newest
from healthcheck.sweep.assess import Assessment
from healthcheck.sweep.snapshots import KeptSnapshots
from inventory.errors import MusterError
from inventory.model import Node
from inventory.text import clean
from inventory.transport.base import Reply

if TYPE_CHECKING:
    from healthcheck.agent.keep import StateFolder
    from healthcheck.agent.main import Installed
    from healthcheck.agent.recorder import CollectorReply

_CRITICAL = 2


def judged(
    found: Installed, look: CollectorReply, result: dict[str, Any], state: StateFolder, began: float,
) -> AgentOutput:
    """The output of this snapshot; unknown with an origin if it cannot be judged."""
    if look.stage:
        return unknown(failed(look, result), result, f"{look.stage}: {look.reason}", Origin.NODE.value, began)
    recording = decode(Reply(result["node"], look.body, None, began, look.received))
    snapshots = KeptSnapshots(state.path)
    try:
        own: Node = from_plain(Node, found.node["node"])
        ruleset = on_a_node(read_rules(found.rules))
    except MusterError as error:
        return unknown(dict(result, recording=to_json(recording)), result, clean(error),
                       Origin.MUSTER.value, began)
    profiles = (result["profile"],) if result["profile"] else ()
    previous = snapshots.read(own.name) if state.trusted else None
    recording = with_earlier(recording, previous)
    assessment = Assessment([own], ruleset, found.node.get("default_sku"), (), profiles)
    assessment.add(recording, previous)
    (report,) = assessment.finish().reports
    code = exit_code([report], lambda one: ruleset.allows(one, profiles))
    held = state.result() or {}
    packed = newest.packed(held.get("kept"), report, metrics.seen(recording))
    counts = {status.value: sum(one.status is status for one in report.results) for status in Status}
    severe = _CRITICAL if code == 1 and _critical(report) else code
    took = time.time() - began
    basis = AgentBasis(clean(recording.host.boot_id, 64) if recording.host is not None else "",
                       entry_digest(result["words"]), result["profile"], result["rules"], report.sku or "",
                       result["version"])
    origin = origin_of(report)
    outside = "" if own.in_service else f"{own.lifecycle.state.value}: "

    def remember() -> None:
        snapshots.clear()
        snapshots.write(recording, previous, own.lifecycle.state, assessment.unusual(own.name),
                        assessment.rests(own.name))

    return AgentOutput(
        dict(result, judged=True, recording=to_json(recording),
             previous=None if previous is None else to_json(previous)),
        dict(result, judged=True, state=report.state.value, reason=report.reason,
             origin=None if origin is None else origin.value, code=code,
             nagios=severe, counts=counts, seconds=round(took, 3), report=document.node(report),
             kept=packed[1], snapshot=base64.b64encode(packed[0]).decode()),
        metrics.page(own, report, packed, time=result["time"], took=took, period=result["period"],
                     bundle=result["bundle"], python=result["python"], basis=basis),
        summary_line(report, LINE, f"{own.name}: {outside}", f"{took:.1f} s"),
        nagios(severe, lambda most, head: summary_line(report, most, head + outside), counts, took),
        remember)


def _critical(report: NodeReport) -> bool:
    return any(one.status is Status.FAIL and one.severity is Severity.CRITICAL for one in report.results)
