"""Which nodes a burn-in's document lets be certified:
those of whom all that its length stands for was asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from healthcheck.burnin.document import Burnin
from healthcheck.burnin.model import BurnInStage, TaskKind
from healthcheck.certify.results import passed_in
from tests.healthcheck.burnin.made import ASKED, FLOORS, PAIRED, RULES, burnin, places, sound

SOAKED = (*PAIRED, (BurnInStage.SOAK, TaskKind.ALLREDUCE))


def asked(burnt: Burnin, *pairs: tuple[BurnInStage, TaskKind], length: str = "quick") -> Burnin:
    return replace(burnt, length=length, burnt=replace(burnt.burnt, asked=pairs))


def test_a_burn_in_of_all_that_its_length_has_certifies_its_nodes() -> None:
    passed, others = passed_in(burnin())
    assert (len(passed), others) == (8, {})
    assert len(passed_in(asked(burnin(), *SOAKED, length="soak"))[0]) == 8
    # Who is alone has no one to meet, and no equal with whom it would be compared
    # where no floor is published.
    alone = places(1)
    unjudged = (*RULES.accept["nccl"], "host_gb_s in node", "host_numa_gb_s in node",
                "busbw_by_size_gb_s in node")
    floors = replace(FLOORS, rules=replace(RULES, accept={**RULES.accept, "nccl": unjudged}))
    assert len(passed_in(burnin(alone, sound(alone, pairs=False), asked=ASKED, floors=floors))[0]) == 1


@pytest.mark.parametrize(("pairs", "length", "why"), [
    (((BurnInStage.NODE, TaskKind.KNOWN),), "quick",
     "it was not asked for all that a node does alone: random, memory, rate, copy, host, allreduce"),
    ((), "quick", "it was not asked for all that a node does alone"),
    (ASKED, "quick", "it was not asked for anything between nodes"),
    (PAIRED, "soak", "it was not asked for the soak itself"),
])
def test_one_that_was_asked_for_less_certifies_no_one(
    pairs: tuple[tuple[BurnInStage, TaskKind], ...], length: str, why: str,
) -> None:
    passed, others = passed_in(asked(burnin(), *pairs, length=length))
    assert passed == [] and len(others) == 8 and all(one.startswith(why) for one in others.values())


def test_a_screening_certifies_no_one_though_it_measured_all_that_a_burn_in_does() -> None:
    passed, others = passed_in(replace(burnin(), length="screen"))
    assert (not passed
            and set(others.values()) == {"one of length screen certifies no one: that is shorter than quick"})


def test_with_which_nccl_settings_a_stage_was_passed_is_on_the_certificate() -> None:
    def told(stage: BurnInStage) -> dict[str, object]:
        burnt = burnin()
        results = tuple(replace(one,
                                task=replace(one.task,
                                             environment={**one.task.environment, "NCCL_IB_TC": "106",
                                                          "NCCL_NET_PLUGIN": "/opt/x.so"}))
                        if one.task.stage is BurnInStage.ALL else one for one in burnt.burnt.results)
        passed, _ = passed_in(replace(burnt, burnt=replace(burnt.burnt, results=results)))
        return dict(next(one for one in passed[0].what if one["stage"] == stage.value))

    assert told(BurnInStage.ALL)["environment"] == {"NCCL_IB_TC": "106", "NCCL_NET_PLUGIN": "/opt/x.so"}
    # What muster itself sets is no setting of the site.
    assert "environment" not in told(BurnInStage.LEAF_PAIRS)
