"""A link at its planned ends is shown as planned only where nothing shows that it is less than planned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from healthcheck.subnet.cabling import CablingPlan
from healthcheck.subnet.linkstates import CableState, link_states
from healthcheck.subnet.model import FabricPort, LinkState, Subnet
from healthcheck.subnet.plannednames import names_of
from healthcheck.subnet.seencabling import cabled
from tests.healthcheck.subnet.faulty import PLAN, FaultyFabric

WIDE = CablingPlan(PLAN.devices,
                   tuple(replace(cable, width=4, speed="NDR", gigabits=400.0) for cable in PLAN.cables))


def not_as_planned(fabric: FaultyFabric, subnet: Subnet) -> dict[int, CableState]:
    """By the number of the plan's cable, without those that are as planned."""
    seen = cabled(fabric.plan, [(subnet, names_of(fabric.plan, subnet, fabric.joined()))])
    states = link_states(fabric.plan, seen)
    return {number: states[cable]
            for number, cable in enumerate(fabric.plan.cables) if states[cable] is not CableState.AS_PLANNED}


def with_port(fabric: FaultyFabric, number: int, upper: bool, **changes: object) -> Subnet:
    """The sound fabric with another port at one end of this cable."""
    subnet, cable = fabric.subnet(), fabric.planned(number)
    end = fabric.end(cable.b if upper else cable.a)
    device = subnet.devices[end.guid]
    port: FabricPort = replace(device.ports[end.number], **changes)  # type: ignore[arg-type]
    return replace(subnet, devices={**subnet.devices,
                                    end.guid: replace(device, ports={**device.ports, end.number: port})})


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("changes", [{"state": LinkState.INITIALIZE}, {"state": LinkState.ARMED},
                                     {"width": 1}, {"speed": "HDR"}, {"gigabits": 100.0}])
def test_a_link_that_either_end_shows_to_be_less_than_planned_is_degraded_and_no_other_is(
        changes: dict[str, object], upper: bool) -> None:
    fabric = FaultyFabric(WIDE)
    assert not_as_planned(fabric, with_port(fabric, 5, upper, **changes)) == {5: CableState.DEGRADED}


@pytest.mark.parametrize("changes", [{}, {"state": None}, {"width": None}, {"speed": None}])
def test_what_no_tool_shows_of_a_link_says_nothing_against_it(changes: dict[str, object]) -> None:
    fabric = FaultyFabric(WIDE)
    assert not_as_planned(fabric, with_port(fabric, 5, True, **changes)) == {}


def test_a_link_that_the_subnet_manager_leaves_out_is_degraded() -> None:
    fabric = FaultyFabric(WIDE)
    subnet = replace(fabric.subnet(), unhealthy={fabric.end(fabric.planned(5).b): frozenset({"MANUAL"})})
    assert not_as_planned(fabric, subnet) == {5: CableState.DEGRADED}


def test_a_plan_without_rates_accuses_no_link_of_its_rate_and_a_missing_one_stays_missing() -> None:
    fabric = FaultyFabric()
    fabric.narrow = {3}
    assert not_as_planned(fabric, fabric.subnet()) == {}
    fabric.down = {3}
    assert not_as_planned(fabric, fabric.subnet()) == {3: CableState.MISSING}
