"""Every fault that the simulator can make is found and named, and a healthy fabric gives nothing: ibsim,
opensm and infiniband-diags."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from healthcheck.subnet.cabling import CablingPlan, PlannedCable
from healthcheck.subnet.check.findings import FabricReport, FabricRule, PlaceKind
from healthcheck.subnet.check.seen import FabricWanted
from healthcheck.subnet.check.whole import check_fabric
from healthcheck.subnet.join import join
from healthcheck.subnet.model import Subnet
from healthcheck.subnet.samples import sample
from healthcheck.sweep.fabricoutput import saved
from tests.testbed import plantfabric as plant
from tests.testbed.ibfabric import Fabric, fabric, require_fabric, topology, two_tiers
from tests.testbed.sshd import wait_until
from tests.tries import tries

_FOLDERS = itertools.count()
_LOOKS = 4
MANAGERS = ("gpu001", "gpu002")


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    require_fabric()
    with fabric(tmp_path_factory.mktemp("fabric") / "f", two_tiers(), managers=MANAGERS) as made:
        yield made


def look(bed: Fabric, host: str | None = None) -> Subnet:
    """What the tools print. While the manager changes routes, the simulator loses packets, and a tool ends
    early: then they are asked again."""
    for _ in range(_LOOKS):
        (found,) = saved(bed.look(bed.folder / f"look{next(_FOLDERS)}", host=host))
        subnet = found.subnet()
        if not any("ends early" in line or "queries of counters failed" in line for line in subnet.unread):
            break
    return subnet


def checked(bed: Fabric, before: Subnet, after: Subnet, wanted: FabricWanted | None = None,
            seconds: float = 60.0,
            plan: CablingPlan | None = None) -> FabricReport:
    earlier = sample(before, 1000.0)
    assert earlier is not None
    return check_fabric([(after, 1000.0 + seconds)], join([after], ()), plan or bed.plan, wanted,
                        {"": earlier})


def rules(report: FabricReport) -> list[FabricRule]:
    return [one.rule for one in report.findings]


def without(bed: Fabric, cable: PlannedCable) -> FabricReport:
    """What is found while this cable is out."""
    before = look(bed)
    plant.pull(bed, cable)
    try:
        return checked(bed, before, look(bed))
    finally:
        plant.plug(bed, cable)


def test_a_healthy_fabric_gives_nothing(bed: Fabric) -> None:
    report = checked(bed, look(bed), look(bed), FabricWanted(managers=frozenset(MANAGERS)))
    assert report.findings == () and report.exit_code == 0
    assert report.subnets == (("", 6, 32, 40),)


@pytest.mark.slow      # beside much other work a simulated manager loses packets
def test_an_uplink_that_is_down_is_named_with_its_leaf(bed: Fabric) -> None:
    report = without(bed, plant.uplink(bed, "leaf02"))
    assert rules(report) == [FabricRule.UPLINKS, FabricRule.LINK]
    leaf, link = report.findings
    assert (leaf.place.kind, leaf.place.name, leaf.observed) == (PlaceKind.LEAF, "leaf02",
                                                                 "1 of 2 uplinks are up")
    assert (link.place.name, link.observed) == ("leaf02 port 9 to spine01 port 2", "down (polling)")


def test_a_pulled_cable_is_named_once_the_manager_lost_its_host_and_nothing_is_wrong_when_it_is_back(
        tmp_path: Path) -> None:
    """The manager itself sweeps the host away, and brings its port up again."""
    require_fabric()
    with fabric(tmp_path / "f", two_tiers(4, 2, 1), managers=MANAGERS) as bed:
        before, cable = look(bed), plant.host_cable(bed, "gpu004")
        watcher = "gpu003"      # gpu004, which looks otherwise, is the one that goes

        def known() -> bool:
            return '"gpu004 mlx5_0"' in bed.run("iblinkinfo", "--line", host=watcher).stdout

        assert known()
        plant.pull(bed, cable)
        wait_until(lambda: "gpu004" not in bed.run("saquery", "NR", host=watcher).stdout, seconds=30,
                   what="a sweep of the manager")
        report = checked(bed, before, look(bed, watcher))
        plant.plug(bed, cable)
        after = checked(bed, before, look(bed))
    assert [(one.rule, one.place.nodes) for one in report.findings] == [(FabricRule.HOST, ("gpu004",))]
    assert "leaf02 port 2 is down (polling)" in report.findings[0].observed
    assert after.findings == ()


@pytest.mark.slow      # beside much other work a simulated manager loses packets
def test_a_host_that_is_gone_is_named_with_the_port_where_it_should_be(bed: Fabric) -> None:
    (found,) = without(bed, plant.host_cable(bed, "gpu011")).findings
    assert (found.rule, found.place.nodes) == (FabricRule.HOST, ("gpu011",))
    assert "leaf02 port 3 is down (polling)" in found.observed


def test_counters_are_judged_by_what_was_added(bed: Fabric) -> None:
    symbols, downs, errors = (plant.host_cable(bed, host) for host in ("gpu003", "gpu018", "gpu031"))
    plant.count(bed, symbols.b, "SymbolErrorCounter", 1000)
    before = look(bed)
    assert rules(checked(bed, before, look(bed))) == []      # the old thousand is no news
    plant.count(bed, symbols.b, "SymbolErrorCounter", 1400)
    plant.count(bed, downs.b, "LinkDownedCounter", 3)
    plant.count(bed, errors.a, "PortRcvErrors", 90)
    report = checked(bed, before, look(bed))
    assert [(one.rule, one.place.name) for one in report.findings] == [
        (FabricRule.ERRORS, "leaf01 port 3 to gpu003 mlx5_0"),
        (FabricRule.FLAPPING, "leaf03 port 2 to gpu018 mlx5_0"),
        (FabricRule.ERRORS, "leaf04 port 7 to gpu031 mlx5_0")]
    assert "400 symbol errors" in report.findings[0].observed


@pytest.mark.slow      # beside much other work a simulated manager loses packets
def test_a_host_that_loses_a_third_of_its_management_packets_is_named_and_is_never_missing(
        bed: Fabric) -> None:
    before = look(bed)
    plant.deaf(bed, "gpu010", 33)
    try:
        reports = [checked(bed, before, look(bed)) for _ in range(5)]
    finally:
        plant.deaf(bed, "gpu010", 0)
    found = {(one.rule, one.place.name) for report in reports for one in report.findings if not one.unknown}
    where = "leaf02 port 2 to gpu010 mlx5_0"
    assert (FabricRule.SILENT, where) in found and found <= {(FabricRule.SILENT, where),
                                                             (FabricRule.ERRORS, where)}, found


@pytest.mark.slow      # beside much other work a simulated manager loses packets
def test_a_subnet_manager_where_none_is_wanted_is_named(bed: Fabric) -> None:
    before = look(bed)
    bed.manager("gpu005", 3, state="Entering STANDBY state")
    try:
        bed.settled()
        after = look(bed)
    finally:
        bed.stop("gpu005")
    report = checked(bed, before, after, FabricWanted(managers=frozenset(MANAGERS)))
    assert ([(one.rule, one.place.nodes) for one in report.findings] == [(FabricRule.STRANGE_MANAGER, ())]
            or \
        [(one.rule, one.place.name) for one in report.findings]
        == [(FabricRule.STRANGE_MANAGER, "gpu005 mlx5_0")])


def test_without_a_standby_there_is_a_warning_and_two_masters_that_ignore_each_other_are_found(
    tmp_path: Path,
) -> None:
    require_fabric()
    with fabric(tmp_path / "f", two_tiers(8, 4, 2), managers=("gpu001",)) as bed:
        before = look(bed)
        assert rules(checked(bed, before, look(bed))) == [FabricRule.STANDBY]
        plant.stray_master(bed, "gpu005")
        report = checked(bed, before, look(bed))
    assert FabricRule.STRANGE_MANAGER in rules(report), report.findings
    assert report.exit_code == 1


def test_without_a_manager_that_is_what_is_wrong(tmp_path: Path) -> None:
    require_fabric()
    with fabric(tmp_path / "f", two_tiers(8, 4, 2)) as bed:
        subnet = look(bed)
        report = check_fabric([(subnet, 1000.0)], join([subnet], ()), bed.plan)
    found = {one.rule for one in report.findings if not one.unknown}
    assert FabricRule.STATE in found and report.exit_code == 1
    assert any(one.rule is FabricRule.MANAGER for one in report.findings)


def test_narrow_and_slow_links_are_measured_by_the_plan(tmp_path: Path) -> None:
    require_fabric()
    plan = two_tiers(8, 4, 2)
    narrow, slow = plan.cables[-1], plan.cables[0]
    with fabric(tmp_path / "f", plan, topology(plan, {narrow: "1xHDR", slow: "4xEDR"}), MANAGERS) as bed:
        before = look(bed)
        report = checked(bed, before, look(bed))
        bare = check_fabric([(before, 1000.0)], join([before], ()), wanted=FabricWanted(4, "HDR"))
    assert [(one.rule, one.place.name, one.observed, one.expected) for one in report.findings] == [
        (FabricRule.WIDTH, "leaf02 port 4 to gpu008 mlx5_0", "1x", "4x"),
        (FabricRule.SPEED, "leaf01 port 5 to spine01 port 1", "EDR", "HDR")]
    assert {one.rule for one in bare.findings if not one.unknown} == {FabricRule.WIDTH, FabricRule.SPEED}


def test_a_description_that_two_devices_give_is_found(tmp_path: Path) -> None:
    require_fabric()
    plan = two_tiers(8, 4, 2)
    text = topology(plan, descriptions={("gpu008", "mlx5_0"): "gpu007 mlx5_0"})
    with fabric(tmp_path / "f", plan, text, MANAGERS) as bed:
        report = checked(bed, look(bed), look(bed))
    assert rules(report) == [FabricRule.NAME, FabricRule.IDENTITY], report.findings


def test_a_cut_output_makes_nothing_missing(bed: Fabric) -> None:
    before, folder = look(bed), bed.look(bed.folder / "cut")
    for name in ("ibnetdiscover", "ibnetdiscover-p", "iblinkinfo"):
        path = folder / f"{name}.txt"
        path.write_text(path.read_text()[:2000])
    (found,) = saved(folder)
    report = checked(bed, before, found.subnet())
    assert report.exit_code == 3 and all(one.unknown for one in report.findings), report.findings


FAULTS = ("down", "swap", "symbols", "flap", "deaf")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=tries(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(FAULTS), st.integers(3, 31)), min_size=1, max_size=6,
                unique_by=lambda one: one[1]))
def test_random_faults_are_all_named_and_nothing_else(bed: Fabric, planted: list[tuple[str, int]]) -> None:
    """Plants each fault on the hosts of these numbers; swaps are with the next host that has none."""
    before = look(bed)
    base = {(end, name): value for end, named in (before.counters.values if before.counters else {}).items()
            for name, value in named.items()}
    taken = {number for _, number in planted}
    expected: set[tuple[FabricRule, str]] = set()
    swapped, pulled, deafened = [], [], []
    for fault, number in planted:
        host = f"gpu{number:03d}"
        cable = plant.host_cable(bed, host)
        end = bed.there[cable.b]
        where = f"{cable.b.device} port {cable.b.port}"
        if fault == "down":
            pulled.append(cable)
            expected.add((FabricRule.HOST, host))
        elif fault == "deaf":
            deafened.append(host)
            expected.add((FabricRule.SILENT, f"{where} to {host} mlx5_0"))
        elif fault == "swap":
            other = next((n for n in range(3, 32) if n not in taken), None)
            if other is None:
                continue
            taken.add(other)
            second = plant.host_cable(bed, f"gpu{other:03d}")
            swapped.append((cable, second))
            expected |= {(FabricRule.CABLE, f"{one.b.device} port {one.b.port}") for one in (cable, second)}
        else:
            counter = "SymbolErrorCounter" if fault == "symbols" else "LinkDownedCounter"
            known = next((value for (one, name),
                          value in base.items() if name == counter and one.number == end.number
                          and f"S-{one.guid}" == end.node), 0)
            plant.count(bed, cable.b, counter,
                        min(known + (300 if fault == "symbols" else 2), 60000 if fault == "symbols" else 200))
            expected.add((FabricRule.ERRORS if fault == "symbols" else FabricRule.FLAPPING,
                          f"{where} to {host} mlx5_0"))
    try:
        for one, two in swapped:
            plant.swap(bed, one, two)
        plant.pull(bed, *pulled)
        for host in deafened:
            plant.deaf(bed, host)
        report = checked(bed, before, look(bed))
    finally:
        for host in deafened:
            plant.deaf(bed, host, 0)
        for one, two in swapped:
            plant.unswap(bed, one, two)
        plant.plug(bed, *pulled)
    # Where the manager sweeps meanwhile, it takes the port of one that does not answer out of service again.
    named = {(FabricRule.SILENT if one.rule is FabricRule.STATE else one.rule, one.place.name)
             for one in report.findings}
    assert named == expected, report.findings


@pytest.mark.slow
def test_the_same_with_512_hosts_and_64_switches(tmp_path: Path) -> None:
    require_fabric()
    plan = two_tiers(512, 16, 32)
    with fabric(tmp_path / "f", plan, managers=MANAGERS) as bed:
        before = look(bed)
        # As far apart as checks are: what the tools themselves send is then next to nothing.
        assert checked(bed, before, look(bed), seconds=600.0).findings == ()
        one, other = plant.uplink(bed, "leaf07", 3), plant.uplink(bed, "leaf21", 9)
        plant.swap(bed, one, other)
        plant.deaf(bed, "gpu300")
        plant.count(bed, plant.host_cable(bed, "gpu100").b, "SymbolErrorCounter", 500)
        report = checked(bed, before, look(bed), seconds=600.0)
    found = {(one.rule, one.place.name) for one in report.findings if one.rule is not FabricRule.UPLINKS}
    assert {FabricRule.CABLE, FabricRule.SILENT, FabricRule.ERRORS} == {rule for rule, _ in found}
    assert (FabricRule.SILENT, "leaf19 port 12 to gpu300 mlx5_0") in found


def test_a_plan_of_other_rates_is_what_counts_and_not_what_ports_could_do(bed: Fabric) -> None:
    plan = replace(bed.plan, cables=tuple(replace(cable, speed="EDR") for cable in bed.plan.cables))
    report = checked(bed, look(bed), look(bed), plan=plan)
    assert set(rules(report)) == {FabricRule.SPEED} and len(report.findings) == len(plan.cables)
