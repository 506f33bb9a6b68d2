"""Devices that do not say who they are, or say it in other words than the plan: they stand in the place that
their cables give them, and no cable of theirs is called misplaced."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedEnd, Tier
from healthcheck.subnet.check.findings import FabricFinding, FabricRule
from healthcheck.subnet.check.seen import FabricWanted
from healthcheck.subnet.check.whole import check_fabric
from healthcheck.subnet.difference import CablingComparison, DifferenceKind, compare
from healthcheck.subnet.join import join, known_adapters
from healthcheck.subnet.merge import merge
from healthcheck.subnet.model import Subnet
from healthcheck.subnet.plannednames import names_of
from healthcheck.subnet.readers import topology as reader
from healthcheck.subnet.seencabling import cabled
from healthcheck.sweep import fabricoutput
from inventory.errors import UsageError
from tests.testbed.fabricoutputs import write
from tests.testbed.ibfabric import node_guids, two_tiers

PLAN = two_tiers(6, 3, 2, rails=2)
NEW = "MF0;switch-9a8b7c:MQM9700/U1"
UNNAMED = "MT4129 ConnectX7   Mellanox Technologies"
BY_ADDRESS = {"mlx5_0": "0000:18:00.0", "mlx5_1": "0000:5e:00.0"}


def see(there: CablingPlan, descriptions: Mapping[tuple[str, str], str] = MappingProxyType({})) -> Subnet:
    """What ibnetdiscover shows of this cabling, of devices that call themselves so."""
    with tempfile.TemporaryDirectory() as folder:
        text = (write(there, Path(folder) / "outputs") / "ibnetdiscover.txt").read_text()
    for name, port in descriptions:
        text = text.replace(f'"{name} {port}"' if port else f'"{name}"', f'"@{name} {port}@"')
    for (name, port), said in descriptions.items():
        text = text.replace(f'"@{name} {port}@"', f'"{said}"')
    return merge("", [reader.read(text)])


def plan_by_address(plan: CablingPlan) -> CablingPlan:
    return CablingPlan(plan.devices,
                       tuple(replace(one, a=replace(one.a, port=BY_ADDRESS.get(one.a.port, one.a.port)))
                             for one in plan.cables))


def swapped(plan: CablingPlan, one: int, other: int) -> CablingPlan:
    cables = list(plan.cables)
    cables[one], cables[other] = replace(cables[one],
                                         b=cables[other].b), replace(cables[other], b=cables[one].b)
    return CablingPlan(plan.devices, tuple(cables))


def diff(plan: CablingPlan, subnet: Subnet,
         hardware: Mapping[str, Mapping[str, Mapping[str, str]]] | None = None) -> CablingComparison:
    joined = join([subnet], known_adapters(hardware or {}))
    return compare(plan, cabled(plan, [(subnet, names_of(plan, subnet, joined))]))


def check(plan: CablingPlan, subnet: Subnet) -> Sequence[FabricFinding]:
    rules = (FabricRule.HOST, FabricRule.SWITCH, FabricRule.CABLE, FabricRule.LINK, FabricRule.IDENTITY,
             FabricRule.NAME)
    return [one for one in check_fabric([(subnet, 1.0)], join([subnet], ()), plan).findings
            if one.rule in rules]


def kinds(found: CablingComparison) -> list[DifferenceKind]:
    return [one.kind for one in found.differences]


def hosts(plan: CablingPlan) -> list[int]:
    return [at for at, cable in enumerate(plan.cables) if plan.devices[cable.a.device].tier is Tier.HOST]


def test_adapters_that_their_firmware_named_are_unknown_and_not_misplaced() -> None:
    subnet = see(PLAN, {(host, port): UNNAMED for host, port in node_guids(PLAN) if port})
    found = diff(PLAN, subnet)
    assert (kinds(found) == [DifferenceKind.UNKNOWN] and found.plugs == 0
            and found.same == len(PLAN.cables) - len(hosts(PLAN)))
    assert {one.rule for one in check(PLAN, subnet)} == {FabricRule.NAME, FabricRule.IDENTITY}


def test_a_host_of_another_name_in_a_planned_one_s_place_is_named_and_keeps_its_cables() -> None:
    subnet = see(PLAN, {("gpu003", "mlx5_0"): "node-x mlx5_0", ("gpu003", "mlx5_1"): "node-x mlx5_1"})
    assert set(kinds(diff(PLAN, subnet))) == {DifferenceKind.UNKNOWN} and diff(PLAN, subnet).plugs == 0
    found = check(PLAN, subnet)
    assert {(one.rule, one.place.nodes) for one in found} == {(FabricRule.IDENTITY, ("gpu003",))}
    assert {one.observed for one in found} == {"calls itself node-x mlx5_0", "calls itself node-x mlx5_1"}


def test_a_plan_by_address_without_snapshots_is_unknown_and_with_them_as_planned() -> None:
    plan, subnet = plan_by_address(PLAN), see(PLAN)
    found = diff(plan, subnet)
    assert (kinds(found) == [DifferenceKind.UNKNOWN] and "muster check --store" in found.differences[0].what
            and found.plugs == 0)
    assert [(one.rule, one.unknown) for one in check(plan, subnet)] == [(FabricRule.IDENTITY, True)]
    guids = node_guids(PLAN)
    stated = {host: {f"nic {address}": {"guid": guids[host, device], "device": device}
                     for device, address in BY_ADDRESS.items()}
              for host in PLAN.devices if host.startswith("gpu")}
    assert diff(plan, subnet, stated).differences == ()


def test_a_swap_between_hosts_shows_where_their_other_adapters_are_known_by_place() -> None:
    first, second = hosts(PLAN)[0], hosts(PLAN)[2]
    assert PLAN.cables[first].a.device != PLAN.cables[second].a.device
    found = diff(plan_by_address(PLAN), see(swapped(PLAN, first, second)))
    assert kinds(found)[0] is DifferenceKind.SWAPPED and found.plugs == 2


def test_a_new_switch_stands_in_the_place_of_the_old_one_and_a_swap_on_it_shows() -> None:
    first, second = (at for at in hosts(PLAN)[:4] if PLAN.cables[at].b.device == "leaf01")
    subnet = see(swapped(PLAN, first, second), {("leaf01", ""): NEW})
    found = diff(PLAN, subnet)
    assert kinds(found) == [DifferenceKind.SWAPPED] and found.plugs == 2
    assert [note for note in found.notes if note.startswith("leaf01: no switch calls itself so")]
    named = check(PLAN, subnet)
    assert (FabricRule.SWITCH not in {one.rule for one in named}
            and f"calls itself {NEW}" in {one.observed for one in named})


def test_switches_none_of_which_has_a_name_are_found_tier_by_tier() -> None:
    unnamed = {(device.name, ""): "Quantum Mellanox Technologies"
               for device in PLAN.devices.values() if device.tier is not Tier.HOST}
    found = diff(PLAN, see(PLAN, unnamed))
    assert (found.differences == ()
            and len([note for note in found.notes if "no switch calls itself so" in note]) == len(unnamed))


def test_two_adapters_of_one_name_are_neither_s() -> None:
    subnet = see(PLAN, {("gpu002", "mlx5_0"): "gpu001 mlx5_0"})
    found = diff(PLAN, subnet)
    assert set(kinds(found)) == {DifferenceKind.UNKNOWN} and sum(len(one.planned)
                                                                 for one in found.differences) == 2
    assert FabricRule.CABLE not in {one.rule for one in check(PLAN, subnet)}


def test_names_in_other_letters_are_the_same_names() -> None:
    loud = {(name, port): f"{name.upper()} {port}".strip() for name, port in node_guids(PLAN)}
    assert diff(PLAN, see(PLAN, loud)).differences == ()


def test_a_planned_host_s_name_elsewhere_is_still_misplaced() -> None:
    first, second = hosts(PLAN)[0], hosts(PLAN)[2]
    assert kinds(diff(PLAN, see(swapped(PLAN, first, second)))) == [DifferenceKind.SWAPPED]


def test_a_switch_with_another_guid_than_the_plan_has_is_named() -> None:
    devices = {**PLAN.devices, "leaf01": replace(PLAN.devices["leaf01"], guid="b8cef6000000ff00")}
    plan, subnet = CablingPlan(devices, PLAN.cables), see(PLAN)
    assert [one.expected for one in check(plan, subnet)] == ["0xb8cef6000000ff00, as the plan has it"]
    assert diff(plan, subnet).differences == () and any("in the plan 0xb8cef6000000ff00" in note
                                                        for note in diff(plan, subnet).notes)


@pytest.mark.parametrize("label", ["swp{}s0", "0{}00", "leaf-port-{}"])
def test_a_port_whose_number_cannot_be_read_is_one_line_and_no_work_for_hands(label: str) -> None:
    cables = tuple(replace(one, b=PlannedEnd(one.b.device, label.format(one.b.port)))
                   if one.b.device == "leaf01" else one for one in PLAN.cables)
    with pytest.raises(UsageError, match=r"leaf01 port .*: no port number can be read from its label"):
        diff(CablingPlan(PLAN.devices, cables), see(PLAN))


@given(st.sets(st.sampled_from(sorted(node_guids(PLAN))), max_size=8))
def test_whoever_does_not_say_its_name_where_the_cables_are_right_nothing_is_to_be_plugged(
        silent: set[tuple[str, str]]) -> None:
    found = diff(PLAN, see(PLAN, dict.fromkeys(silent, UNNAMED)))
    assert found.plugs == 0 and set(kinds(found)) <= {DifferenceKind.UNKNOWN}
    unsure = {cable for one in found.differences for cable in one.planned}
    assert unsure >= {cable for cable in PLAN.cables if (cable.a.device, cable.a.port) in silent}


def test_a_whole_folder_of_outputs_is_as_planned(tmp_path: Path) -> None:
    (output,) = fabricoutput.saved(write(PLAN, tmp_path / "outputs"))
    found = diff(PLAN, output.subnet())
    assert found.differences == () and found.same == len(PLAN.cables)


def test_a_cable_between_unplanned_ports_is_no_place() -> None:
    extra = PlannedCable(PlannedEnd("leaf01", "20"), PlannedEnd("leaf02", "20"))
    assert kinds(diff(PLAN, see(CablingPlan(PLAN.devices, (*PLAN.cables, extra))))) == [DifferenceKind.EXTRA]


def test_a_fabric_none_of_whose_devices_the_plan_names_is_unknown_and_nothing_is_pulled() -> None:
    found = diff(PLAN, see(PLAN, {key: f"other{at}" for at, key in enumerate(node_guids(PLAN))}))
    assert set(kinds(found)) == {DifferenceKind.UNKNOWN} and found.plugs == 0 and found.same == 0
    assert f"not compared: {len(PLAN.cables)} links of devices that the plan does not name" in found.notes


def test_a_plan_of_hosts_cables_alone_has_no_uplink_pulled() -> None:
    plan = CablingPlan({name: one for name, one in PLAN.devices.items() if one.tier is not Tier.SPINE},
                       tuple(PLAN.cables[at] for at in hosts(PLAN)))
    found = diff(plan, see(PLAN))
    assert (found.differences == ()
            and found.notes
            == (f"not compared: {len(PLAN.cables) - len(plan.cables)} links of devices that the plan does "
                f"not name",))


def test_a_node_on_which_a_manager_may_run_is_known_by_its_description_where_nothing_else_is(
        tmp_path: Path) -> None:
    (output,) = fabricoutput.saved(write(PLAN, tmp_path / "outputs"))
    subnet = output.subnet()
    for names, strange in (({"gpu001"}, 0), ({"gpu001 mlx5_0", "gpu001 mlx5_1"}, 0), ({"gpu002"}, 2)):
        found = check_fabric([(subnet, 1.0)], join([subnet], ()),
                             wanted=FabricWanted(managers=frozenset(names))).findings
        assert sum(one.rule is FabricRule.STRANGE_MANAGER for one in found) == strange, (names, found)
