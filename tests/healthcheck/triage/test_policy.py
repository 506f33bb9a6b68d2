"""What a policy that was read says: how many ports may be disabled, what a problem asks for, and which places
isolate."""

from __future__ import annotations

import json

import pytest

from healthcheck.model.faultkind import FaultKind, Isolation, Of
from healthcheck.model.outcome import Owner, Repair
from healthcheck.triage.decidedby import decided_by
from healthcheck.triage.policy import IncidentKind, IncidentPolicy, PortPolicy
from tests.healthcheck.triage.made import policy, problem


@pytest.mark.parametrize(("links", "most"), [(0, 1), (199, 1), (200, 2), (399, 3), (400, 4), (12_000, 4)])
def test_a_share_of_the_links_may_be_disabled_one_always_and_never_more_than_the_number(
    links: int, most: int,
) -> None:
    assert PortPolicy(number=4, percent=1.0).most(links) == most


@pytest.mark.parametrize(("of", "isolation", "asks"), [
    (Of.FAIL, Isolation.NONE, Repair.WATCH), (Of.FAIL, Isolation.NO_NEW_JOBS, Repair.INSPECT),
    (Of.FAIL, Isolation.EVICT, Repair.INSPECT), (Of.UNKNOWN, Isolation.NONE, Repair.WATCH)])
def test_where_neither_policy_nor_remedy_says_more_a_person_looks_if_jobs_are_kept_away(
    of: Of, isolation: Isolation, asks: Repair,
) -> None:
    kind = FaultKind("x", "why", ("gpu-*",), of, isolation=isolation)
    assert policy().asked(kind, "gpu-count") is asks


def test_the_driver_is_before_the_policy_that_before_the_remedy_and_a_remedy_is_of_failures_alone() -> None:
    held = policy(repairs={"gpu-count": Repair.REBOOT})
    said = FaultKind("x", "why", ("gpu-*",), isolation=Isolation.NO_NEW_JOBS, repair=Repair.REPLACE)
    silent = FaultKind("x", "why", ("gpu-*",), isolation=Isolation.NO_NEW_JOBS)
    unknown = FaultKind("x", "why", ("gpu-*",), Of.UNKNOWN, isolation=Isolation.NO_NEW_JOBS)
    assert held.repair(said, problem(repair="reset-gpu")) is Repair.RESET_GPU
    assert held.repair(said, problem()) is Repair.REPLACE
    assert held.repair(silent, problem()) is Repair.REBOOT
    assert held.repair(unknown, problem()) is Repair.INSPECT


def test_only_places_that_isolate_are_noted_as_such() -> None:
    kinds = {"rack": IncidentKind(Owner.OPERATOR, isolates=True), "row": IncidentKind(Owner.OPERATOR)}
    (noted,) = (one for one in decided_by(policy(incidents=IncidentPolicy(kinds=kinds)))
                if one.name == "section incidents")
    assert json.loads(noted.said)["isolates"] == ["rack"]
