"""What nodes show of themselves: True only for what was measured lately and is fit."""

from __future__ import annotations

import pytest

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import Owner, Repair
from healthcheck.model.verdict import Verdict
from healthcheck.triage.past import FleetHistory, NodeHistory
from healthcheck.triage.plan import TriagePlan
from healthcheck.triage.policyload import load_policy
from provisioning.actions.base import Condition
from provisioning.triage.conditions import conditions
from tests.packagedrules import RULES

POLICY = load_policy([packaged()], RULES)
NOW = 1e9


def shown(state: str, hours: float = 0.1, isolation: Isolation | None = None) -> Condition:
    verdicts = () if isolation is None else (
        Verdict("n1", isolation, Repair.WATCH, Owner.OPERATOR, "gpu-fell-off", "7 of 8 GPUs"),)
    plan = TriagePlan(NOW, verdicts, (), (), ())
    return conditions(
        FleetHistory(NOW, (NodeHistory("n1", state=state, seen=NOW - hours * 3600),)), plan, POLICY)["n1"]


@pytest.mark.parametrize(
    ("state", "status", "reason"),
    [("healthy", "True", "Healthy"), ("degraded", "True", "Degraded"), ("unhealthy", "False", "Unhealthy"),
     ("unknown", "Unknown", "NotMeasured"), ("", "Unknown", "NotMeasured")])
def test_a_node_without_a_verdict_shows_what_the_newest_sweep_said(
    state: str, status: str, reason: str,
) -> None:
    assert (shown(state).status, shown(state).reason) == (status, reason)


@pytest.mark.parametrize("state", ["healthy", "degraded", "unhealthy"])
def test_a_look_that_is_old_says_nothing(state: str) -> None:
    assert shown(state, hours=POLICY.fresh_hours + 1).status == "Unknown"


@pytest.mark.parametrize("state", ["healthy", "unknown", ""])
def test_what_jobs_must_keep_away_from_is_not_fit_whatever_the_newest_sweep_said(state: str) -> None:
    for isolation in (Isolation.NO_NEW_JOBS, Isolation.EVICT):
        assert shown(state, hours=1e3, isolation=isolation) == Condition(
            "False", "GpuFellOff", "7 of 8 GPUs", NOW - 1e3 * 3600)
    assert shown("healthy", isolation=Isolation.NONE).status == "True"
