"""An NVL72 as one machine: what is wrong with its domain is said once, of those whose fault it is, and of no
one else."""

from __future__ import annotations

import json

import pytest

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.model.outcome import NodeReport, Result, Status
from healthcheck.model.recording import to_json
from healthcheck.scrub import scrub
from inventory.model import Node
from tests.healthcheck.nvl72.expect import EXPECTED, Says
from tests.healthcheck.nvl72.plant import PLANTS
from tests.healthcheck.nvl72.rack import RULES, changed, rack, recording, sweep

# Judged of each node alone, and of growth between two looks, of which these recordings have one.
GROWTH = {rule.id for rule in RULES.rules if rule.checked.trend}


def told(result: Result) -> str:
    """Everything that a result says, with its advice."""
    return " | ".join((*(f"{f.subject}: {f.observed}, expected {f.expected} {f.remedy or result.remedy}"
                         for f in result.findings), result.reason))


def lacking(says: Says, result: Result) -> list[str]:
    """What of this the result does not say."""
    text = told(result)
    wrong = [f"{word!r} is not in: {text}" for word in says.words if word not in text]
    if says.status == "fail":
        owners = {(finding.owner or result.owner) for finding in result.findings}
        wrong += [f"goes to {owner}" for owner in owners if owner is None or owner.value != says.owner]
        if result.severity.value != says.severity:
            wrong.append(f"is {result.severity.value}")
    return wrong


def remarkable(reports: dict[str, NodeReport]) -> dict[tuple[str, str, str], Result]:
    """By node, rule and status all that is neither a PASS nor left out of this sweep."""
    return {(node, result.rule, result.status.value): result
            for node, report in reports.items() for result in report.results
            if result.status is not Status.PASS and "left out by" not in result.reason
            and result.rule not in GROWTH}


def test_every_state_that_is_planted_is_expected() -> None:
    assert PLANTS.keys() == EXPECTED.keys()


@pytest.mark.parametrize("name", sorted(PLANTS))
def test_a_domains_fault_is_said_of_those_whose_it_is_and_nothing_of_anyone_else(name: str) -> None:
    reports = sweep(PLANTS[name]())
    found = remarkable(reports)
    expected = {(node, says.rule, says.status): says for says in EXPECTED[name] for node in says.nodes}
    assert found.keys() == expected.keys(), {key: told(found[key]) for key in found.keys() - expected.keys()}
    assert [f"{key}: {wrong}" for key, says in expected.items() for wrong in lacking(says, found[key])] == []


def test_a_scrubbed_tray_says_the_same_of_its_domain_under_other_names() -> None:
    tray = changed(rack(), 7, imex="failed/failed")
    node = Node("r3-06", rack="r3", nvlink_domain="r3", sku="gb200-nvl72")
    clean = scrub(recording(tray[6], tray), node, key=b"k" * 32).recording
    text = json.dumps(to_json(clean))
    assert not [secret for secret in (tray[6].address, tray[7].address, tray[6].chassis, tray[6].cluster)
                if secret in text]
    seen = build_fact(FACTS["imex_domain"], Captures(clean))
    assert (seen.status, [member.status for member in seen.members]) == ("DEGRADED", ["READY"] * 7
                                                                         + ["UNAVAILABLE"] + ["READY"] * 10)
    assert (seen.own, [member.host for member in seen.members]) == (seen.members[6],
                                                                    list(build_fact(FACTS["imex_nodes"],
                                                                                    Captures(clean)).nodes))
    assert {host for host, _ in seen.members[0].unconnected} == {seen.members[7].host}
