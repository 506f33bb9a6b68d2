"""What was delivered against what is there, and what several machines have that only one may have."""

from __future__ import annotations

from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.model.hardware import Now
from inventory.model import Bmc, Inventory, Lifecycle, LifecycleState, Node
from provisioning.discover import duplicates
from provisioning.discover.compare import DeliveryState, compare, differing, places
from provisioning.discover.entries import entries
from provisioning.discover.model import Delivered, DhcpLease, FoundController
from provisioning.discover.page import Discovered


def node(
    name: str, address: str | None = None, state: LifecycleState = LifecycleState.PLANNED,
    rack: str | None = None, **labels: str,
) -> Node:
    return Node(name, bmc=Bmc(address) if address else None, lifecycle=Lifecycle(state), rack=rack,
                labels=MappingProxyType(labels))


def inventory(*nodes: Node) -> Inventory:
    return Inventory(MappingProxyType({one.name: one for one in nodes}), MappingProxyType({}), "muster.yaml")


def found(address: str, serial: str = "", **more: str | tuple[str, ...]) -> FoundController:
    return FoundController(address, ("redfish",), serial=serial, **more)  # type: ignore[arg-type]


def states(
    rows: list[Delivered], there: list[FoundController], nodes: Inventory | None = None,
) -> list[tuple[str, DeliveryState, str]]:
    compared = compare(rows, there, places(there, nodes))
    return [(line.row.serial, line.state, line.at) for line in compared.lines]


def test_a_machine_that_is_where_the_list_says_is_as_listed() -> None:
    there = [found("10.1.0.1", "S1", macs=("aa:aa:aa:aa:aa:01",), model="PowerEdge XE9680")]
    rows = [Delivered(2, "S1", "gpu001", "r01", mac="aa:aa:aa:aa:aa:01", model="XE9680", address="10.1.0.1")]
    assert states(rows, there, inventory(node("gpu001", "10.1.0.1", rack="R01"))) == [
        ("S1", DeliveryState.LISTED, "10.1.0.1")]


def test_two_machines_in_each_others_place_are_swapped_and_said_where() -> None:
    there = [found("10.1.0.1", "S2"), found("10.1.0.2", "S1")]
    rows = [Delivered(2, "S1", "gpu001"), Delivered(3, "S2", "gpu002")]
    compared = compare(
        rows, there, places(there, inventory(node("gpu001", "10.1.0.1"), node("gpu002", "10.1.0.2"))))
    assert [(line.state, line.why) for line in compared.lines] == [
        (DeliveryState.SWAPPED, ("the list says gpu001, it is where the inventory has gpu002",)),
        (DeliveryState.SWAPPED, ("the list says gpu002, it is where the inventory has gpu001",))]


@pytest.mark.parametrize("row",
                         [Delivered(2, "S1", address="10.1.0.9"), Delivered(2, "S1", mac="aa:aa:aa:aa:aa:09"),
                          Delivered(2, "S1", model="XE9640"), Delivered(2, "S1", rack="r02"),
                          Delivered(2, "S1", slot="13"), Delivered(2, "S1", "gpu009")])
def test_whatever_differs_from_the_list_is_swapped(row: Delivered) -> None:
    there = [found("10.1.0.1", "S1", macs=("aa:aa:aa:aa:aa:01",), model="PowerEdge XE9680")]
    assert states([row], there, inventory(node("gpu001", "10.1.0.1", rack="r01", slot="12"))) == [
        ("S1", DeliveryState.SWAPPED, "10.1.0.1")]


def test_what_is_not_there_is_missing_only_where_everybody_told_a_number() -> None:
    assert states([Delivered(2, "S1")], [found("10.1.0.1", "S9")]) == [("S1", DeliveryState.MISSING, "")]
    assert states([Delivered(2, "S1")], [found("10.1.0.1", "S9"), found("10.1.0.2")]) == [
        ("S1", DeliveryState.UNREAD, "")]
    rows = [Delivered(2, "S1", mac="aa:aa:aa:aa:aa:02")]
    assert states(rows, [found("10.1.0.1"), found("10.1.0.2", macs=("aa:aa:aa:aa:aa:02",))]) == [
        ("S1", DeliveryState.UNREAD, "10.1.0.2")]


def test_whoever_sits_in_the_place_of_a_missing_one_is_named() -> None:
    compared = compare([Delivered(2, "S1", address="10.1.0.1")], [found("10.1.0.1", "S9")], {})
    assert compared.lines[0].why == ("at its place, 10.1.0.1, is S9",)
    assert [one.serial for one in compared.extra] == ["S9"]


def test_a_number_twice_on_the_list_or_twice_there_is_doubled() -> None:
    assert states([Delivered(2, "S1"), Delivered(3, "S1")], [found("10.1.0.1", "S1")]) == [
        ("S1", DeliveryState.DOUBLED, "10.1.0.1"), ("S1", DeliveryState.DOUBLED, "10.1.0.1")]
    assert states([Delivered(2, "S1")], [found("10.1.0.1", "S1"), found("10.1.0.2", "S1")]) == [
        ("S1", DeliveryState.DOUBLED, "10.1.0.1")]


def test_a_node_that_is_past_bring_up_is_not_extra() -> None:
    there = [found("10.1.0.1", "S1"), found("10.1.0.2", "S2")]
    nodes = inventory(node("old001", "10.1.0.1", LifecycleState.SERVICE), node("gpu001", "10.1.0.2"))
    compared = compare([Delivered(2, "S3")], there, places(there, nodes))
    assert (
        [one.serial for one in compared.older], [one.serial for one in compared.extra]) == (["S1"], ["S2"])


_NUMBERS = st.sampled_from(("S1", "S2", "S3", "S4", "S5"))
_ADDRESSES = st.sampled_from(("10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"))


@given(st.lists(st.builds(Delivered, st.integers(2, 99), _NUMBERS, st.sampled_from(("", "n1", "n2")),
                          address=st.one_of(st.just(""), _ADDRESSES)), max_size=6),
       st.lists(
           st.tuples(_ADDRESSES, st.one_of(st.just(""), _NUMBERS)), unique_by=lambda one: one[0], max_size=4),
       st.lists(st.tuples(st.sampled_from(("n1", "n2", "n3")), _ADDRESSES, st.sampled_from(LifecycleState)),
                unique_by=(lambda one: one[0], lambda one: one[1]), max_size=3))
def test_rows_and_controllers_are_parted_without_rest_and_without_overlap(
    rows: list[Delivered], seen: list[tuple[str, str]], named: list[tuple[str, str, LifecycleState]],
) -> None:
    there = [found(address, serial) for address, serial in seen]
    at = places(there, inventory(*(node(name, address, state) for name, address, state in named)))
    compared = compare(rows, there, at)
    assert [line.row for line in compared.lines] == rows
    listed = {row.serial for row in rows}
    matched = [one for one in there if one.serial and one.serial in listed]
    parts = [*matched, *compared.extra, *compared.older, *compared.unread]
    assert sorted(one.address for one in parts) == sorted(one.address for one in there)
    for line in compared.lines:
        times = sum(one.serial == line.row.serial for one in there)
        duplicated = times > 1 or sum(row.serial == line.row.serial for row in rows) > 1
        assert (line.state is DeliveryState.DOUBLED) == duplicated
        assert line.state in (
            DeliveryState.LISTED, DeliveryState.SWAPPED) if times == 1 and not duplicated else True
        assert (
            line.state is DeliveryState.MISSING) == (times == 0 and not duplicated and not compared.unread)
    known = Discovered(4, tuple(there), at, (), compared, "d.csv", (), (), login=False)
    fits = not compared.extra and not compared.unread and all(
        line.state is DeliveryState.LISTED for line in compared.lines)
    assert (known.exit_code == 0) == fits


def test_what_the_inventory_says_otherwise_is_named() -> None:
    there = [found("10.1.0.1", "S9"), found("10.1.0.7", "S2")]
    nodes = inventory(node("gpu001", "10.1.0.1", serial="s1"), node("gpu002", "10.1.0.2", serial="S2"),
                      node("gpu003", serial="S3"))
    assert differing(there, places(there, nodes)) == (
        "gpu001: the inventory says serial number S1, the controller at 10.1.0.1 says S9",
        "gpu002: the inventory says its controller is at 10.1.0.2; its serial number is at 10.1.0.7")


def duplicated(*claims: duplicates.Claim) -> list[tuple[str, str, list[str]]]:
    return [
        (one.kind, one.value, [claim.who for claim in one.claims]) for one in duplicates.duplicated(claims)]


def test_a_number_that_two_machines_have_is_doubled_wherever_each_was_seen() -> None:
    nodes = inventory(node("gpu001", "10.1.0.1"), node("gpu002", serial="S1"))
    there = [
        found("10.1.0.1", "S1", uuid="U1"), found("10.1.0.3", "S3", uuid="U1", macs=("aa:aa:aa:aa:aa:03",)),
        found("10.1.0.4", "S4", macs=("aa:aa:aa:aa:aa:03",))]
    hardware = {
        "gpu003": (0.0,
                   Now({"board": {"serial": "s3"}, "nic 0000:18:00.0": {"uuid": "88e9:a4ff:ff01:0203"}},
                       frozenset(), "", {})),
        "gpu004": (
            0.0,
            Now({"gpu 0000:18:00.0": {"serial": "S4"}, "nic 0000:1a:00.0": {"uuid": "88E9:A4FF:FF01:0203"}},
                frozenset(), "", {}))}
    names = {"10.1.0.1": "gpu001"}
    seen = duplicates.of_hardware(hardware, dict.fromkeys(hardware, "today"))
    assert duplicated(*duplicates.of_found(there, names), *duplicates.of_inventory(nodes), *seen) == [
        ("GUID", "88E9:A4FF:FF01:0203", ["gpu003", "gpu004"]),
        ("MAC address", "aa:aa:aa:aa:aa:03", ["10.1.0.3", "10.1.0.4"]),
        ("UUID", "U1", ["10.1.0.3", "gpu001"]),
        ("serial number", "S1", ["gpu001", "gpu002"]),
        # the GPU's S4 is another maker's number than the controller's
        ("serial number", "S3", ["10.1.0.3", "gpu003"])]


def test_one_machine_that_is_seen_three_ways_is_not_doubled() -> None:
    nodes = inventory(node("gpu001", "10.1.0.1", serial="S1"))
    hardware = {"gpu001": (0.0, Now({"board": {"serial": "S1"}}, frozenset(), "", {}))}
    assert not duplicated(
        *duplicates.of_found([found("10.1.0.1", "S1")], {"10.1.0.1": "gpu001"}),
        *duplicates.of_inventory(nodes), *duplicates.of_hardware(hardware, {"gpu001": "today"}))


def test_a_name_that_two_ports_hold_leases_under_is_doubled_and_an_old_lease_counts_for_nothing() -> None:
    def lease(at: int, name: str, held: bool = True) -> DhcpLease:
        return DhcpLease(f"10.1.0.{at}", f"aa:aa:aa:aa:aa:0{at}", name, None, held)

    claims = duplicates.of_leases([lease(1, "bmc-7"), lease(2, "bmc-7"), lease(3, "bmc-8"),
                                   lease(4, "bmc-8", held=False), lease(5, "bmc"), lease(6, "bmc")])
    assert [(one.value, len(one.claims)) for one in duplicates.duplicated(claims)] == [("bmc-7", 2)]


def test_addresses_and_names_that_differ_in_case_only_are_doubled_in_the_inventory() -> None:
    nodes = inventory(node("gpu001", "10.1.0.1"), node("GPU001"), Node("gpu003", address="10.1.0.1"),
                      node("gpu004", "10.1.0.1", LifecycleState.RETIRED))
    assert duplicated(*duplicates.of_inventory(nodes)) == [
        ("address", "10.1.0.1", ["gpu001", "gpu003"]), ("host name", "gpu001", ["GPU001", "gpu001"])]


def test_entries_are_planned_and_named_by_the_list_then_by_the_lease_then_by_the_spare_names() -> None:
    there = [found("10.1.0.1", "S1", model="GX8"), found("10.1.0.2", "S2"), found("10.1.0.3"),
             FoundController("10.1.0.4", ("ipmi",), serial="S4"),
             found("10.1.0.5", "S5"), FoundController("10.1.0.6", (), said="no JSON")]
    known = node("gpu001", "10.1.0.1", LifecycleState.MAINTENANCE)
    made = entries(there, {"10.1.0.1": known}, [Delivered(2, "S2", "gpu002", "r07", "12", model="XE9680")],
                   [DhcpLease("10.1.0.3", "", "gpu003.example", None, held=True)], ["gpu001", "gpu004"],
                   ports=(None, 6230))
    assert {name: dict(values) for name, values in made.nodes.items()} == {
        "gpu001": {"bmc": "10.1.0.1", "lifecycle": "maintenance", "labels": {"serial": "S1", "model": "GX8"}},
        "gpu002": {
            "bmc": "10.1.0.2", "lifecycle": "planned", "rack": "r07",
            "labels": {"serial": "S2", "model": "XE9680", "slot": "12"}},
        "gpu003": {"bmc": "10.1.0.3", "lifecycle": "planned"},
        "gpu004": {
            "bmc": {"address": "10.1.0.4", "port": 6230, "protocol": "ipmi"}, "lifecycle": "planned",
            "labels": {"serial": "S4"}}}
    assert made.notes == ("10.1.0.5 is left out: nothing says its name; --names 'gpu[001-064]' would",)
