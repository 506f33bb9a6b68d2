"""Triage's verdict on each node, as a condition that the back end shows (`SupportsConditions`)."""

from __future__ import annotations

from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import NodeState
from healthcheck.triage.past import FleetHistory
from healthcheck.triage.plan import TriagePlan
from healthcheck.triage.policy import TriagePolicy
from provisioning.actions.base import Condition


def conditions(fleet: FleetHistory, plan: TriagePlan, policy: TriagePolicy) -> dict[str, Condition]:
    """By node False where jobs must keep away or a critical rule fails, Unknown unmeasured, or True."""
    verdicts = {verdict.node: verdict for verdict in plan.verdicts if verdict.isolation is not Isolation.NONE}
    found = {}
    for past in fleet.nodes:
        if (verdict := verdicts.get(past.node)) is not None:
            found[past.node] = Condition("False", _word(verdict.fault), verdict.why, past.seen)
        elif past.state in ("", NodeState.UNKNOWN.value) or fleet.now - past.seen > policy.fresh_hours * 3600:
            message = f"no sweep of the last {policy.fresh_hours:g} h can say how it is"
            found[past.node] = Condition("Unknown", "NotMeasured", message, past.seen)
        elif past.state == NodeState.UNHEALTHY.value:
            found[past.node] = Condition(
                "False", "Unhealthy", "a critical rule fails; triage has not decided on it yet", past.seen)
        else:
            found[past.node] = Condition(
                "True", _word(past.state), "muster found nothing that keeps jobs away", past.seen)
    return found


def _word(text: str) -> str:
    """In the form of a reason: gpu-fell-off is GpuFellOff."""
    return "".join(part.title() for part in text.split("-"))
