"""What subnets show is made into places, asked directly: which findings are one link, switch, leaf, subnet or
lot, and which are a node's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from healthcheck.model.outcome import Owner, Severity
from healthcheck.store.fabricfindings import FabricTrouble
from healthcheck.subnet.check.findings import FabricRule, PlaceKind
from healthcheck.subnet.kept import TouchedDevice
from healthcheck.subnet.model import FabricEnd
from healthcheck.triage.fabricplaces import at_node, spots
from tests.healthcheck.triage.made import trouble


def end(number: int, guid: str = "a1") -> FabricEnd:
    return FabricEnd(guid, number)


def port(number: int, *ports: int, rule: FabricRule = FabricRule.LINK, **more: Any) -> FabricTrouble:
    """A link with a name of its own, at these ports or at one of its own."""
    return trouble(number, f"link{number}", rule, ends=tuple(map(end, ports or (number,))), **more)


def of(device: str, rule: FabricRule = FabricRule.FAN, kind: PlaceKind = PlaceKind.LEAF, number: int = 90,
       **more: Any) -> FabricTrouble:
    return trouble(number, device, rule, kind, **more)


def made(*found: FabricTrouble, out: Iterable[str] = ()) -> list[tuple[str, str, list[int]]]:
    """The places with the numbers of their findings."""
    return [(one.kind, one.place, sorted(each.id for each in one.troubles)) for one in spots(found, set(out))]


def touching(name: str, links: int, kind: str = "leaf", up: int = 0) -> dict[str, Any]:
    return {"touched": (TouchedDevice(kind, name, links, up), TouchedDevice("node", "", 8, 7))}


def test_what_is_of_a_subnet_or_of_a_lot_is_its_place_and_what_only_informs_or_is_a_nodes_is_none() -> None:
    subnet = {"rule": FabricRule.MANAGER, "kind": PlaceKind.SUBNET}
    assert made(trouble(1, "ib0", plane="ib0", **subnet), trouble(2, "the fabric", **subnet),
                trouble(3, "cable X of 1", FabricRule.LOT, PlaceKind.LOT),
                of("leaf001", number=4, severity=Severity.INFO), port(5, severity=Severity.INFO),
                trouble(6, "gpu02", FabricRule.HOST, PlaceKind.NODE)) == [
        ("subnet", "ib0", [1]), ("subnet", "of the fabric", [2]), ("lot", "cable X of 1", [3])]


def test_links_that_are_down_at_a_switch_that_is_missing_are_its_and_others_are_not() -> None:
    leaf = touching("leaf001", 40)
    links = [port(1, **leaf), port(2, rule=FabricRule.ERRORS, **leaf), port(3, **touching("leaf002", 40))]
    apart = [("link", f"link{number}", [number]) for number in (2, 3)]
    assert made(of("leaf001", FabricRule.SWITCH), of("leaf001", number=91), *links) == [
        *apart, ("leaf", "leaf001", [1, 90, 91])]
    # one with a bad fan is there
    assert made(of("leaf001", FabricRule.SWITCH), of("leaf003"), *links,
                port(4, **touching("leaf003", 40))) == [
        *apart, ("link", "link4", [4]), ("leaf", "leaf001", [1, 90]), ("leaf", "leaf003", [90])]


@pytest.mark.parametrize(("bad", "links", "is_switch"), [
    (3, 6, True), (3, 7, False), (2, 2, False), (2, 4, False), (4, 6, True), (3, 0, False), (3, 1, True)])
def test_three_links_that_are_half_of_a_switchs_are_the_switch(bad: int, links: int, is_switch: bool) -> None:
    found = made(*(port(number, **touching("leaf001", links)) for number in range(1, bad + 1)))
    assert found == ([("leaf", "leaf001", list(range(1, bad + 1)))] if is_switch else
                     [("link", f"link{number}", [number]) for number in range(1, bad + 1)])


def test_a_switch_has_the_most_links_that_any_of_its_findings_says() -> None:
    for links in ((4, 4, 8), (8, 4, 4)):
        found = made(*(port(number, **touching("leaf001", many)) for number, many in enumerate(links, 1)))
        assert [kind for kind, _, _ in found] == ["link"] * 3


def test_whatever_keeps_links_from_working_counts_together_and_other_faults_each_for_themselves() -> None:
    leaf = touching("leaf001", 6)
    down = [port(number, rule=rule, **leaf)
            for number, rule in enumerate((FabricRule.LINK, FabricRule.STATE, FabricRule.SILENT), 1)]
    slow = [port(number, rule=rule, **leaf)
            for number, rule in enumerate((FabricRule.ERRORS, FabricRule.ERRORS, FabricRule.WIDTH), 1)]
    assert [kind for kind, _, _ in made(*down)] == ["leaf"]
    assert [kind for kind, _, _ in made(*slow)] == ["link"] * 3


def test_of_the_switches_at_both_ends_the_one_with_the_larger_share_is_named() -> None:
    both = {"touched": (TouchedDevice("leaf", "leaf001", 6, 3), TouchedDevice("switch", "spine001", 3, 0))}
    (one,) = spots([port(number, **both) for number in (1, 2, 3)])
    assert (one.kind, one.place, len(one.troubles), one.owner) == ("switch", "spine001", 3, Owner.NETWORK)
    assert [each.owner for each in spots([port(1), of("leaf001", owner=Owner.VENDOR)])] == [
        Owner.DATACENTRE, Owner.VENDOR]


def test_most_links_of_a_switch_with_a_fault_of_its_own_are_one_place_with_that() -> None:
    links = [port(number, **touching("leaf001", 6, kind="switch")) for number in (1, 2, 3)]
    assert made(of("leaf000", number=89), of("leaf001"), *links) == [
        ("leaf", "leaf000", [89]), ("leaf", "leaf001", [1, 2, 3, 90])]


@pytest.mark.parametrize(("links", "up", "of_node", "is_node"), [
    (2, 0, 2, True), (2, 0, 1, False), (1, 0, 1, False), (3, 1, 2, False), (1, 0, 2, False)])
def test_a_node_of_which_several_links_are_down_and_none_is_up_is_off_and_its_links_are_not_to_be_mended(
    links: int, up: int, of_node: int, is_node: bool,
) -> None:
    whole = {"nodes": ("gpu02",), "touched": (TouchedDevice("node", "", links, up),)}
    found = made(*(port(number, **whole) for number in range(1, of_node + 1)), port(9, nodes=("gpu03",)))
    assert [number for _, _, (number,) in found] == ([9] if is_node else [*range(1, of_node + 1), 9])


def test_a_link_that_is_down_to_a_node_in_service_is_one_though_its_other_node_is_not_in_service() -> None:
    assert made(port(1, nodes=("gpu02", "gpu03")), port(2, nodes=("gpu02",)), port(3), out=["gpu02"]) == [
        ("link", "link1", [1]), ("link", "link3", [3])]


UPLINKS = {"rule": FabricRule.UPLINKS, "number": 80, "ends": (end(1), end(2))}


def test_uplinks_of_a_leaf_are_the_leafs_where_several_of_its_own_links_are_down() -> None:
    lost = of("leaf001", **UPLINKS)
    others = [port(3), port(4, 2, rule=FabricRule.ERRORS)]
    apart = [("link", "link3", [3]), ("link", "link4", [4])]
    assert made(lost, port(1), *others) == [("link", "link1", [1]), *apart]
    assert made(lost, port(1), port(2), others[0]) == [
        ("link", "link3", [3]), ("leaf", "leaf001", [1, 2, 80])]


def test_uplinks_go_with_what_else_is_wrong_with_their_switch_whatever_that_is_called() -> None:
    lost, links = of("leaf001", **UPLINKS), (port(1), port(2))
    fans = [of(name, kind=PlaceKind.SWITCH, number=number) for name, number in (("a", 70), ("leaf001", 71))]
    assert made(lost, *fans, *links) == [("switch", "a", [70]), ("switch", "leaf001", [1, 2, 71, 80])]


@pytest.mark.parametrize(("gone", "is_leaf"), [
    (("spine001",), False), (("spine002",), False), (("spine001", "spine002"), False),
    (("spine001", "spine003"), True), (("spine003",), True), ((), True)])
def test_uplinks_to_switches_that_are_known_to_be_wrong_are_no_fault_of_the_leaf(
    gone: tuple[str, ...], is_leaf: bool,
) -> None:
    beyond = [of("spine001", FabricRule.SWITCH, PlaceKind.SWITCH, 70),
              of("spine002", FabricRule.FAN, PlaceKind.SWITCH, 71)]
    found = made(of("leaf001", **UPLINKS, gone=gone), *beyond)
    assert found == [("switch", "spine001", [70]), ("switch", "spine002", [71]),
                     *[("leaf", "leaf001", [80])] * is_leaf]


def test_findings_that_share_a_port_are_of_one_cable_in_whatever_order_they_were_found() -> None:
    assert made(port(1, 8, 9), port(2, 1, 2), port(3, 3, 4), port(4, 2, 3), port(5, 4), port(6, 9)) == [
        ("link", "link1", [1, 6]), ("link", "link2", [2, 3, 4, 5])]


def test_a_cable_is_called_by_its_link_and_else_by_its_gravest_port() -> None:
    at_port = {"rule": FabricRule.OPTICS, "kind": PlaceKind.PORT, "ends": (end(1),)}
    grave = trouble(2, "port 1", severity=Severity.CRITICAL, **at_port)
    assert made(port(1), grave) == [("link", "link1", [1, 2])]
    assert made(trouble(1, "port 9", **at_port), grave) == [("port", "port 1", [1, 2])]


def test_a_place_is_down_where_nothing_else_is_wrong_and_a_node_has_only_its_own_adapters_there() -> None:
    (down,) = spots([port(1, nodes=("gpu02",), parts=("MLX5_0",)),
                     port(2, 1, rule=FabricRule.STATE, nodes=("gpu03",), parts=("mlx5_1",))])
    (more,) = spots([port(1), port(2, 1, rule=FabricRule.ERRORS)])
    assert (down.down, more.down) == (True, False)
    assert list(at_node(down, "gpu02")) == ["mlx5_0"]
