"""A node comes back when it has shown that it is well, and for no other reason."""

from __future__ import annotations

from typing import Any

import pytest

from healthcheck.triage.decide import decide
from healthcheck.triage.past import Past
from healthcheck.triage.policy import Isolation
from healthcheck.triage.requalify import requalified
from tests.healthcheck.triage.made import NOW, at, held, looks, policy, problem, repaired

OVER = problem("gpu-count", began=-9, ended=-3)


def node(**more: Any) -> Past:
    return Past("n1", **{"over": (OVER,), "cordons": (held(-8),), "looks": looks(-3, -1), **more})


def test_two_clean_looks_since_the_fault_was_over_return_a_node() -> None:
    well, said = requalified(node(), policy(), NOW)
    assert well and "2 looks under profile bringup" in said
    verdict = decide(node(), policy(), NOW)
    assert verdict is not None and verdict.isolation is Isolation.NONE and verdict.proven == said


@pytest.mark.parametrize("more", [
    {"looks": ()},
    {"looks": looks(-1)},                                            # one is not two
    {"looks": looks(-4, -1)},                                        # the first is from before the fault was over
    {"looks": (*looks(-3, -2), *looks(-1, state="unhealthy"))},      # the newest is not clean
    {"looks": (*looks(-3, state="unknown"), *looks(-1))},            # not measured is not proof
    {"looks": (*looks(-3, state="degraded"), *looks(-1))},
    {"boots": (at(-40), at(-2))},                                    # rebooted since the first of them
    {"repaired": (repaired(-2),)},
    {"cordons": (held(-2),)},
    {"left": at(-2)},                                                # a component failed, and was exchanged since the first of them
    {"looks": looks(-1, 30)},                                        # one of them is of a clock that was wrong
    {"problems": (problem("port-state", "mlx5_0", began=-0.5, sweeps=1),)},         # failing now, though in too few sweeps to isolate it
    {"problems": (problem("gpu-ecc", "", status="unknown", began=-0.5, sweeps=1),)},
    {"problems": (problem("", "", status="unknown", began=-0.5, sweeps=1),)},
    {"over": (OVER, problem("port-state", "mlx5_0", began=-2.5, ended=-2, sweeps=1))},      # it failed once between the looks
    {"over": (OVER, problem("gpu-ecc", "", status="unknown", began=-2.5, ended=-2, sweeps=1))},
    {"in_service": False, "lifecycle": "maintenance"},
    {"away": "RMA 3 is open: fan"},
    {"over": (problem("gpu-count", began=-60, ended=-50),), "looks": looks(-30, -26), "cordons": (held(-55),)},   # long ago
])
def test_a_node_that_has_not_shown_that_it_is_well_stays_held_and_is_told_why(more: dict[str, Any]) -> None:
    well, said = requalified(node(**more), policy(), NOW)
    assert not well and said


def test_a_board_that_is_worn_out_does_not_heal_by_itself() -> None:
    worn = problem("gpu-worn", serial="A", began=-9, ended=-3)
    assert "same board" in requalified(node(over=(worn,)), policy(), NOW)[1]
    assert "same board" in requalified(node(over=(worn,), repaired=(repaired(-4, "reboot"),)), policy(), NOW)[1]
    assert requalified(node(over=(worn,), repaired=(repaired(-4, "returned from the vendor"),)), policy(), NOW)[0]


def test_a_fault_that_is_still_there_returns_nobody_whatever_the_looks_say() -> None:
    verdict = decide(node(problems=(problem("kernel-xid"),)), policy(), NOW)
    assert verdict is not None and verdict.isolation is Isolation.NO_NEW_JOBS and not verdict.proven


def test_a_warning_that_lasts_keeps_no_node_that_its_looks_call_healthy() -> None:
    verdict = decide(node(problems=(problem("fan", severity="warning"),)), policy(), NOW)
    assert verdict is not None and verdict.proven
