"""What a finding of a fabric is kept with, how it is known again, what measures it; and what blame and the
exporter make of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.blame.evidence import JobWindow, Weight
from healthcheck.blame.stored import stored_evidence
from healthcheck.exporter.fabric import MOST, MOST_SUBNETS, samples
from healthcheck.model.outcome import Owner, Severity
from healthcheck.store.fabricfindings import (
    WHOLE,
    FabricTrouble,
    SubnetChecked,
    checked,
    lasting,
    remedy,
    write,
)
from healthcheck.store.file import Store, opened
from healthcheck.subnet.check.findings import FabricRule, PlaceKind
from healthcheck.subnet.check.seen import FabricWanted, SeenSubnet
from healthcheck.subnet.check.whole import check_fabric
from healthcheck.subnet.join import FabricJoin
from healthcheck.subnet.kept import KeptFinding, kept
from healthcheck.subnet.measured import not_measured
from healthcheck.subnet.model import (
    DeviceKind,
    FabricDevice,
    FabricEnd,
    FabricPort,
    LinkState,
    ManagerState,
    Subnet,
    SubnetManager,
    SubnetSensor,
)
from inventory.text import clean
from tests.healthcheck.subnet.faulty import FaultyFabric
from tests.healthcheck.triage.made import NOW
from tests.tries import tries

LEAF, HOST = FabricEnd("a" * 16, 1), FabricEnd("b" * 16, 1)
SWITCH = FabricEnd(LEAF.guid, 0)


def found(rule: FabricRule, *ends: FabricEnd, kind: PlaceKind = PlaceKind.LINK, observed: str = "bad",
          expected: str = "",
          place: str = "leaf01 port 1 to gpu001", nodes: tuple[str, ...] = ("gpu001",),
          severity: Severity = Severity.CRITICAL) -> KeptFinding:
    return KeptFinding(rule, kind, place, "", severity, Owner.DATACENTRE, observed, expected,
                       ends or (LEAF, HOST), nodes)


def seen(state: LinkState | None = LinkState.ACTIVE, width: int | None = 4, linked: bool = True,
         **more: object) -> SeenSubnet:
    """A leaf and one host."""
    ports = {end: FabricPort(end, state, "linkup", width, "NDR", port_guid=end.guid,
                             peer=peer if linked else None)
             for end, peer in ((LEAF, HOST), (HOST, LEAF))}
    devices = {LEAF.guid: FabricDevice(LEAF.guid, DeviceKind.SWITCH, "leaf01", ports={1: ports[LEAF]}),
               HOST.guid: FabricDevice(HOST.guid, DeviceKind.ADAPTER, "gpu001 mlx5_0",
                                       ports={1: ports[HOST]})}
    wanted = more.pop("wanted", FabricWanted())
    assert isinstance(wanted, FabricWanted)
    return SeenSubnet(replace(Subnet("", devices), **more), FabricJoin(), wanted=wanted,
                      at=NOW)  # type: ignore[arg-type]


MASTER = SubnetManager(LEAF.guid, ManagerState.MASTER)
FAN = found(FabricRule.FAN, SWITCH, kind=PlaceKind.LEAF, observed="fan 3 turns at 0 a minute", nodes=())


@pytest.mark.parametrize(("one", "subnet", "measured"), [
    (found(FabricRule.LINK), seen(), True),
    (found(FabricRule.LINK), seen(LinkState.DOWN, linked=False), False),
    (found(FabricRule.LINK), seen(LinkState.ACTIVE, linked=False), True),      # it is another fault now
    (found(FabricRule.LINK), seen(None, linked=False), False),
    (found(FabricRule.STATE), seen(), True), (found(FabricRule.STATE), seen(None), False),
    (found(FabricRule.SILENT), seen(), True),
    (found(FabricRule.SILENT, FabricEnd("c" * 16, 1)), seen(), False),
    (found(FabricRule.WIDTH, expected="4x"), seen(), True),
    (found(FabricRule.WIDTH, expected="4x, as links of its kind have"), seen(), True),
    (found(FabricRule.WIDTH, expected="4x"), seen(width=2), False),
    (found(FabricRule.WIDTH, expected="4x"), seen(width=None), False),
    (found(FabricRule.WIDTH, expected="4x"), seen(width=2, wanted=FabricWanted(width=2)), True),
    (found(FabricRule.SPEED, expected="NDR"), seen(), True),
    (found(FabricRule.SPEED, expected="HDR"), seen(), False),
    (found(FabricRule.ERRORS), seen(), False), (found(FabricRule.CABLE), seen(), False),
    (FAN, seen(), False), (FAN, seen(sensors=(SubnetSensor(SWITCH, "fan", "fan 3", 9000.0),)), True),
    (FAN, seen(sensors=(SubnetSensor(SWITCH, "fan", "fan 1", 9000.0),)), False),
    (found(FabricRule.OPTICS, LEAF), seen(sensors=(SubnetSensor(LEAF, "rx power", value=-2.0),)), True),
    (found(FabricRule.ROUTE, SWITCH), seen(), False),
    (found(FabricRule.ROUTE, SWITCH), seen(routes={LEAF.guid: {1: 1}}), True),
    (found(FabricRule.MANAGER), seen(), False), (found(FabricRule.MANAGER), seen(managers=(MASTER,)), True),
    (found(FabricRule.STANDBY), seen(managers=()), False),
    (found(FabricRule.STANDBY), seen(managers=(MASTER,)), True),
    (found(FabricRule.STRANGE_MANAGER, SWITCH), seen(managers=(MASTER,)), False),
    (found(FabricRule.STRANGE_MANAGER, HOST), seen(managers=(MASTER,)), True),
    (found(FabricRule.GUID), seen(), True), (found(FabricRule.GUID), seen(partial=True), False),
    (found(FabricRule.IDENTITY, SWITCH), seen(), True), (found(FabricRule.HOST), seen(), False),
    (found(FabricRule.GUID), SeenSubnet(Subnet("", {}), FabricJoin()), False),
])
def test_what_a_check_must_show_to_say_that_a_finding_is_over(one: KeptFinding, subnet: SeenSubnet,
                                                              measured: bool) -> None:
    assert (not_measured(one, subnet) == "") is measured


def trouble(one: KeptFinding, number: int = 1, **more: object) -> FabricTrouble:
    return replace(FabricTrouble(number, one, NOW - 600, NOW, 1), **more)  # type: ignore[arg-type]


def check(*those: KeptFinding, at: float = NOW, plane: str = "",
          guids: frozenset[str] = frozenset({LEAF.guid}), why: str = "") -> SubnetChecked:
    return SubnetChecked(plane, guids, at, those, lambda one: why)


def test_the_same_place_by_another_name_is_the_same_finding(store: Store) -> None:
    write(store, [check(found(FabricRule.LINK), at=NOW - 60)], NOW)
    done = write(store, [check(found(FabricRule.LINK, place="leaf01 port 1/1/1 to gpu001 mlx5_0"),
                               plane="mlx5_0")], NOW)
    (one,) = lasting(store)
    assert (done.lasting, one.finding.place, one.checks) == (1, "leaf01 port 1/1/1 to gpu001 mlx5_0", 2)
    assert write(store, [check(at=NOW + 1, guids=frozenset({"d" * 16}))], NOW + 1).ended == 0
    assert checked(store, NOW + 1) == [("", NOW + 1), ("mlx5_0", NOW)]


def test_what_claims_to_be_later_than_now_is_of_now_and_of_all_subnets_there_is_one(store: Store) -> None:
    absent = found(FabricRule.ADAPTER, kind=PlaceKind.NODE, place="gpu001 mlx5_3")
    for _ in range(2):
        write(store, [check(absent, at=NOW + 1e6, plane=WHOLE, guids=frozenset())], NOW)
    (one,) = lasting(store)
    assert (one.began, one.seen) == (NOW, NOW) and checked(store, NOW) == []


@settings(deadline=None, max_examples=tries(60))
@given(text=st.text(max_size=600))
def test_whatever_a_device_calls_itself_is_kept_as_bounded_plain_text(
        tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    hostile = replace(found(FabricRule.LINK, place=text, observed=text), where=text, leaf=text, gone=(text,))
    with opened(tmp_path_factory.mktemp("state"), make=True) as store:
        for at in (NOW - 1, NOW):
            write(store, [check(hostile, at=at)], NOW)
        (one,) = lasting(store)
    said = [one.finding.place, one.finding.observed, one.finding.where, remedy(one.finding)]
    assert all(clean(each, 700) == each for each in said) and one.checks == 2


def test_blame_names_the_links_that_a_jobs_nodes_used_and_says_what_is_not_sure(store: Store) -> None:
    optics = found(FabricRule.OPTICS, FabricEnd(LEAF.guid, 9), nodes=("gpu002",), place="leaf01 port 9",
                   severity=Severity.WARNING)
    other = found(FabricRule.LINK, FabricEnd(LEAF.guid, 5), nodes=("gpu009",), place="leaf01 port 5")
    write(store, [check(found(FabricRule.ERRORS), optics, other, at=NOW - 1800)], NOW)
    write(store, [check(optics, at=NOW - 60, why="no earlier sample")], NOW)
    those = stored_evidence(store, JobWindow(NOW - 3600, NOW, ("gpu001", "gpu002"))).evidence
    assert {(one.node, one.weight, one.sure, one.owner) for one in those} == {
        ("gpu001", Weight.NETWORK, False, Owner.DATACENTRE), ("gpu002", Weight.ODD, True, Owner.DATACENTRE)}
    assert "not measured since: no earlier sample" in next(one.said for one in those if one.node == "gpu001")
    assert stored_evidence(store, JobWindow(NOW - 9e5, NOW - 8.9e5, ("gpu001",))).evidence == ()


def test_metrics_of_fabrics_are_bounded_whatever_is_wrong() -> None:
    many = [trouble(found(FabricRule.LINK, place=f"link {number}"), number,
                    missed=NOW if number % 2 else None) for number in range(5000)]
    rows = list(samples(many, [(f"plane{number}", NOW) for number in range(500)]))
    counts = {name: sum(family.name == name for family, _ in rows)
              for name in {family.name for family, _ in rows}}
    assert counts == {"muster_fabric_findings": 1, "muster_fabric_findings_unmeasured": 1,
                      "muster_fabric_finding_began_timestamp_seconds": MOST,
                      "muster_fabric_checked_timestamp_seconds": MOST_SUBNETS}
    assert [row for family, row in rows if family.name
            == "muster_fabric_findings"] == [(5000, ("link", "datacentre", "link-down", "critical"))]


def test_what_is_kept_of_a_leaf_has_its_nodes_and_the_switches_its_uplinks_lead_to(tmp_path: Path) -> None:
    fabric = FaultyFabric()
    fabric.gone.add("spine001")
    fabric.store(tmp_path, NOW)
    with opened(tmp_path) as store:
        leaves = [one.finding for one in lasting(store) if one.finding.rule is FabricRule.UPLINKS]
    assert [one.place for one in leaves] == ["leaf001", "leaf002", "leaf003", "leaf004"]
    assert {one.gone for one in leaves} == {("spine001",)} and leaves[0].nodes == ()
    fabric = FaultyFabric()
    fabric.gone.add("leaf001")
    fabric.store(tmp_path, NOW + 60)
    with opened(tmp_path) as store:
        (leaf,) = [one.finding for one in lasting(store) if one.finding.rule is FabricRule.SWITCH]
    assert (leaf.place, leaf.nodes) == ("leaf001", ("gpu01", "gpu02", "gpu03", "gpu04"))


def test_switches_that_all_have_their_maker_s_name_are_told_apart() -> None:
    """Externally managed ones call themselves "Quantum Mellanox Technologies", each and every one."""
    fabric = FaultyFabric()
    plain = fabric.subnet()
    switches = [guid for guid, device in plain.devices.items() if device.kind is DeviceKind.SWITCH]
    bad = [SubnetSensor(FabricEnd(guid, 0), "fan", "fan 1", 0.0) for guid in switches[:2]]
    alike = replace(plain, sensors=tuple(bad), devices={
        guid: replace(device, description="Quantum Mellanox Technologies") if guid in switches else device
        for guid, device in plain.devices.items()})
    shown = SeenSubnet(alike, fabric.joined())
    names = {guid: shown.device_name(guid) for guid in switches}
    assert len(set(names.values())) == len(switches)
    assert names[switches[0]] == f"Quantum Mellanox Technologies (0x{switches[0]})"
    report = check_fabric([(alike, 1000.0)], fabric.joined())
    fans = [one for one in kept(report.findings, [shown]) if one.rule is FabricRule.FAN]
    assert sorted(one.ends for one in fans) == sorted((FabricEnd(guid, 0),) for guid in switches[:2])
    for one in fans:
        own = {node for port in alike.devices[one.ends[0].guid].ports.values() if port.peer is not None
               and (node := shown.node_of(port.peer)) is not None}
        assert set(one.nodes) == own
    other = SeenSubnet(plain, fabric.joined())
    assert other.device_name(switches[0]) == plain.devices[switches[0]].description
