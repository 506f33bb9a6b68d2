"""What cannot be in a plan is found and named, and a possible plan has nothing."""

from __future__ import annotations

from dataclasses import replace

from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedDevice, PlannedEnd, Tier
from healthcheck.subnet.plancheck import FaultOfPlan, faults
from tests.healthcheck.subnet.made import rails


def kinds(plan: CablingPlan) -> list[tuple[FaultOfPlan, str]]:
    return [(one.kind, one.subject) for one in faults(plan)]


def test_a_port_in_two_cables_is_named() -> None:
    plan = rails()
    twice = replace(plan.cables[1], b=plan.cables[0].b)
    assert (FaultOfPlan.PORT_TWICE,
            "leaf001 port 1") in kinds(CablingPlan(plan.devices, (plan.cables[0], twice, *plan.cables[2:])))


def test_a_leaf_without_uplinks_and_one_with_fewer_are_named() -> None:
    plan = rails()
    up = [cable for cable in plan.cables if cable.a.device == "leaf002"]
    assert (kinds(CablingPlan(plan.devices, tuple(cable for cable in plan.cables if cable not in up)))
            == [(FaultOfPlan.NO_UPLINKS, "leaf002")])
    assert (kinds(CablingPlan(plan.devices, tuple(cable for cable in plan.cables if cable != up[0])))
            == [(FaultOfPlan.UNEQUAL_UPLINKS, "leaf002")])


def test_leaves_alone_need_no_uplinks() -> None:
    assert not faults(rails(tiers=1))


def test_a_cable_that_carries_another_rate_than_the_hosts_port_is_named() -> None:
    plan = rails(per_leaf=4)
    fast = replace(plan.cables[0], speed="NDR", width=4)
    slow = replace(plan.cables[1], speed="HDR", width=4)
    found = faults(CablingPlan(plan.devices, (fast, slow, *plan.cables[2:])), {"gpu01": 400.0})
    assert [(one.kind, one.subject) for one in found] == [(FaultOfPlan.SPEEDS, "gpu01 port mlx5_1")]
    assert found[0].what == "the plan has 200 Gb/s for its cable, its SKU 400 Gb/s for its port"


def test_tiers_that_do_not_meet_a_switch_of_two_planes_and_serials_twice_are_named() -> None:
    plan = rails()
    far = PlannedCable(PlannedEnd("gpu01", "mlx5_9"), PlannedEnd("spine001", "60"), serial="A")
    other = replace(plan.cables[-1], plane="other", serial="A")
    found = kinds(CablingPlan(plan.devices, (*plan.cables[:-1], other, far)))
    assert (FaultOfPlan.TIERS, "gpu01 port mlx5_9") in found and (FaultOfPlan.SERIAL_TWICE, "A") in found
    assert {subject
            for kind, subject in found if kind is FaultOfPlan.PLANES} == {other.a.device, other.b.device}


def test_a_device_that_is_not_in_the_plan_is_named() -> None:
    plan = rails()
    devices = {name: device for name, device in plan.devices.items() if name != "gpu03"}
    assert (FaultOfPlan.UNKNOWN_DEVICE,
            "gpu03") in kinds(CablingPlan({**devices, "x": PlannedDevice("x", Tier.HOST)}, plan.cables))


def test_two_words_for_one_port_of_a_subnet_are_named_and_two_ports_of_ethernet_are_two() -> None:
    plan = rails(per_leaf=4)
    first, second = (replace(cable, b=PlannedEnd("leaf001", port))
                     for cable, port in zip(plan.cables, ("1/12/2", "24"), strict=False))
    assert (FaultOfPlan.PORT_TWICE,
            "leaf001 port 1/12/2") in kinds(CablingPlan(plan.devices, (first, second, *plan.cables[2:])))
    modular = tuple(replace(cable, b=PlannedEnd("leaf001", port), gigabits=400.0)
                    for cable, port in zip(plan.cables, ("Ethernet1/1", "Ethernet2/1"), strict=False))
    assert FaultOfPlan.PORT_TWICE not in {kind for kind,
                                          _ in kinds(CablingPlan(plan.devices, (*modular, *plan.cables[2:])))}
