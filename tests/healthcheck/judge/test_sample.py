"""Fleet rules where nodes were left out: the sick do not become the majority, and without a sample no one
passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from healthcheck.judge.fleetjudge import judge_fleet
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.judge.samplejudge import FleetSample, judge_by_sample
from healthcheck.model.outcome import Origin, Result, Status
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed
from tests.healthcheck.judge.test_fleet import BY_ID, FLEET, HEALTHY, gpus
from tests.healthcheck.rules import Thing, rule, thing
from tests.packagedrules import RULES

SKU = RULES.skus["hgx-h100"]
RULE = BY_ID["fleet-vbios"]
OLD = gpus(vbios="96.00.61.00.01")


def judged(sick: int, sample: int, left_out: int = 900) -> dict[str, Result]:
    cohort = {f"sick{n:03d}": NodeFacts({"gpus": OLD}) for n in range(sick)}
    well = {f"well{n:03d}": NodeFacts({"gpus": HEALTHY}) for n in range(sample)}
    return judge_by_sample(RULE, {**cohort, **well}, FleetSample(frozenset(well), left_out), SKU)


@pytest.mark.parametrize("sick", [1, 20, 100])
def test_a_hundred_sick_nodes_do_not_make_twenty_healthy_ones_the_outliers(sick: int) -> None:
    found = judged(sick, 20)
    assert {name
            for name, one in found.items()
            if one.status is Status.FAIL} == {f"sick{n:03d}" for n in range(sick)}
    assert {one.status for name, one in found.items() if name.startswith("well")} == {Status.PASS}
    # As all that were visited would have been compared, the healthy are the odd ones.
    cohort = {**{f"sick{n}": NodeFacts({"gpus": OLD}) for n in range(100)},
              **{f"well{n}": NodeFacts({"gpus": HEALTHY}) for n in range(20)}}
    assert judge_fleet(RULE, cohort, SKU)["well0"].status is Status.FAIL


def test_with_less_than_three_of_the_sample_every_fleet_rule_is_unknown_of_origin_muster() -> None:
    for sample in (0, 1, 2):
        found = judged(8, sample)
        assert {(one.status, one.origin) for one in found.values()} == {(Status.UNKNOWN, Origin.MUSTER)}
        assert (f"900 nodes of this SKU were left out, healthy by their agents, and of those that stand for "
                f"them only {sample} could be judged") \
            in next(iter(found.values())).reason
    assert {one.status for one in judged(0, 3).values()} == {Status.PASS}


def swept(samples: dict[str, FleetSample], *names: str) -> dict[str, dict[str, Result]]:
    reports = assessed(*map(machine.recording, names), samples=samples).reports
    return {report.node: {one.rule: one for one in report.results} for report in reports}


def test_a_sweep_without_its_sample_passes_no_fleet_rule(tmp_path: Any) -> None:
    names = [f"n{number}" for number in range(5)]
    whole = swept({}, *names)
    alone = swept({"hgx-h100": FleetSample(frozenset({"gone1", "gone2", "gone3"}), 40)}, *names)
    well = swept({"hgx-h100": FleetSample(frozenset(names[:4]), 40)}, *names)
    for each in FLEET:
        if not each.left_out:
            assert {(alone[name][each.id].status, alone[name][each.id].origin)
                    for name in names} == {(Status.UNKNOWN, Origin.MUSTER)}
            assert [well[name][each.id].status for name in names] == [whole[name][each.id].status
                                                                      for name in names]
    # Another SKU's sample is none of theirs.
    other = swept({"cpu-only": FleetSample(frozenset(), 40)}, *names)
    assert other == whole


@pytest.mark.parametrize(("sample", "sizes"), [(8, [8, 10, 10, 9]), (3, [3, 4, 4, 4, 4, 4])])
def test_the_others_are_compared_with_the_sample_a_few_at_a_time(sample: int, sizes: list[int]) -> None:
    seen = []

    def counted(things: Mapping[str, Thing]) -> Any:
        seen.append(len(things))
        return iter(())

    facts = NodeFacts({"things": thing("thing", 20)})
    well = [f"well{n}" for n in range(sample)]
    found = judge_by_sample(rule(counted, fleet=True),
                            dict.fromkeys([*well, *(f"other{n}" for n in range(5))], facts),
                            FleetSample(frozenset(well), 40))
    assert seen == sizes
    assert [one.status for one in found.values()] == [Status.PASS] * (sample + 5)
