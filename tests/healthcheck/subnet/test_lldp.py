"""An Ethernet fabric as lldpd knows it, as the same model: from recordings, from any text, and from real
lldpd behind veth pairs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.subnet import plancsv
from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedDevice, PlannedEnd, Tier
from healthcheck.subnet.check.findings import FabricReport, FabricRule
from healthcheck.subnet.check.whole import check_fabric
from healthcheck.subnet.difference import DifferenceKind, compare
from healthcheck.subnet.join import KnownAdapter, join
from healthcheck.subnet.model import DeviceKind, FabricEnd, LinkState, Subnet
from healthcheck.subnet.plannednames import names_of
from healthcheck.subnet.readers.lldp import file_of, number_of_name, read
from healthcheck.subnet.seencabling import cabled as seen_cabled
from healthcheck.sweep.fabricoutput import FabricOutput, ToolOutput, saved
from inventory.model import Node, PortPlan
from tests.command import muster
from tests.documents import validate
from tests.testbed.lldpfabric import LldpFabric, cabled, require_lldp

RECORDINGS = Path(__file__).parents[2] / "recordings" / "lldp"


def rails(hosts: int = 4, gigabits: float | None = None) -> CablingPlan:
    """Hosts with two ports, each to a leaf of its own, and the leaves to a spine."""
    names = [f"gpu{at:03d}" for at in range(1, hosts + 1)]
    devices = {**{name: PlannedDevice(name, Tier.HOST, "r1") for name in names},
               **{name: PlannedDevice(name, Tier.LEAF, "r1") for name in ("leaf01", "leaf02")},
               "spine01": PlannedDevice("spine01", Tier.SPINE, "r2")}
    cables = [PlannedCable(PlannedEnd(name, f"ens{rail}f0"), PlannedEnd(f"leaf0{rail}", f"swp{at}"),
                           gigabits=gigabits)
              for at, name in enumerate(names, 1) for rail in (1, 2)]
    cables += [PlannedCable(PlannedEnd(leaf, "swp30"), PlannedEnd("spine01", f"swp{at}"), gigabits=gigabits)
               for at, leaf in enumerate(("leaf01", "leaf02"), 1)]
    return CablingPlan(devices, tuple(cables))


def json0(*neighbours: tuple[str, str, str, str], router: bool = True) -> str:
    """lldpctl's json0 of interfaces with a neighbour each: interface, system, chassis, port."""
    return json.dumps({"lldp": [{"interface": [{
        "name": interface,
        "chassis": [{"id": [{"type": "mac", "value": chassis}], "name": [{"value": system}],
                     "capability": [{"type": "Router", "enabled": router}]}],
        "port": [{"id": [{"type": "ifname", "value": port}]}]}
                                               for interface, system, chassis, port in neighbours]}]})


def written(plan: CablingPlan, **facts: str) -> dict[str, str]:
    """What the hosts of a plan say; `facts` are those of interfaces by host."""
    found = {f"lldp-{name}.json0": json0(*((cable.a.port, cable.b.device,
                                            f"02:00:00:00:00:{cable.b.device[-1]}0", cable.b.port)
                                           for cable in plan.cables if cable.a.device == name))
             for name, device in plan.devices.items() if device.tier is Tier.HOST}
    return {**found, **{f"interfaces-{name}.json": text for name, text in facts.items()}}


def seen(outputs: dict[str, str]) -> Subnet:
    return FabricOutput("", {name: ToolOutput(text) for name, text in outputs.items()}, 1000.0).subnet()


def checked(subnet: Subnet, plan: CablingPlan) -> FabricReport:
    return check_fabric([(subnet, 1000.0)], join([subnet], ()), plan)


def test_a_recording_is_a_node_with_its_switches() -> None:
    reading = read({"lldp-gpu001.json0": (RECORDINGS / "many.json0").read_text()})
    switches = {one.description: one for one in reading.devices.values() if one.kind is DeviceKind.SWITCH}
    assert {"leaf01", "leaf02.dc1.example.com", "tor-r07"} <= set(switches) and reading.ethernet
    port = reading.devices["gpu001/ens1f0"].ports[1]
    assert (port.state, port.label) == (LinkState.ACTIVE, "ens1f0")
    assert port.peer == FabricEnd(switches["leaf01"].guid, number_of_name("Ethernet1"))
    assert reading.devices[port.peer.guid].ports[port.peer.number].peer == port.end
    assert reading.devices["gpu001/eno2"].ports[1].peer is None and any("eno2: 2 neighbours" in line
                                                                        for line in reading.unread)


@pytest.mark.parametrize("form", ["json", "json0", "xml"])
@pytest.mark.parametrize("name", ["many", "one", "two", "none"])
def test_each_form_is_read_alike(name: str, form: str) -> None:
    text, other = ((RECORDINGS / f"{name}.{one}").read_text() for one in (form, "json0"))
    assert read({f"lldp-n1.{form}": text}).devices == read({"lldp-n1.json0": other}).devices


@pytest.mark.parametrize(("name", "found"), [
    ("lldp-gpu001.json0", ("gpu001", False)), ("lldp-gpu001.dc1.xml", ("gpu001.dc1", False)),
    ("interfaces-gpu001.json", ("gpu001", True)),
    ("lldp-.json", None), ("lldp.json", None), ("lldp-a b.json", None), ("iblinkinfo.txt", None)])
def test_files_are_known_by_their_names(name: str, found: tuple[str, bool] | None) -> None:
    assert file_of(name) == found


def test_facts_of_interfaces_give_the_address_the_rate_and_links_that_are_down() -> None:
    plan = rails(2)
    facts = json.dumps({"ens1f0": {"pci": "0000:18:00.0", "link": True, "mbps": 400000},
                        "ens9f0": {"pci": "0000:99:00.0", "link": False, "mbps": 100}})
    subnet = seen(written(plan, gpu001=facts))
    up, down = subnet.devices["gpu001/ens1f0"].ports[1], subnet.devices["gpu001/ens9f0"].ports[1]
    assert (up.gigabits, up.label, down.state, down.gigabits) == (400.0, "0000:18:00.0", LinkState.DOWN, None)
    known = KnownAdapter("gpu001", "0000:18:00.0", "mlx5_0", "a" * 16)
    place = join([subnet], [known],
                 {"gpu001": Node("gpu001",
                                 ports={"0000:18:00.0": PortPlan(rail=3)})}).adapters["gpu001/ens1f0"]
    assert (place.node, place.pci, place.device, place.rail) == ("gpu001", "0000:18:00.0", "mlx5_0", 3)
    assert join([subnet], [known]).absent == ()      # LLDP knows no GUID


NO_COUNTERS = "LLDP shows no counters: muster check reads those of nodes"


def test_a_healthy_fabric_gives_nothing_but_the_rates_that_no_one_states() -> None:
    found = checked(seen(written(rails())), CablingPlan(rails().devices, rails().cables[:-2]))
    assert [(one.rule, one.unknown, one.observed) for one in found.findings] == [
        (FabricRule.SPEED, True, "the rate of 8 links is not shown"),
        (FabricRule.SPEED, True, "no plan says which rate 8 links should have"),
        (FabricRule.ERRORS, True, NO_COUNTERS)]
    facts = json.dumps({f"ens{rail}f0": {"link": True, "mbps": 400000} for rail in (1, 2)})
    plan = rails(gigabits=400)
    measured = checked(seen(written(plan, **{f"gpu00{at}": facts for at in range(1, 5)})),
                       CablingPlan(plan.devices, plan.cables[:-2]))
    assert [one.observed for one in measured.findings] == [NO_COUNTERS] and measured.exit_code == 0


def test_a_slow_link_a_swap_and_a_link_that_is_down_are_named() -> None:
    plan = rails(gigabits=400)
    facts = {f"gpu00{at}": json.dumps({f"ens{rail}f0": {"link": True, "mbps": 400000} for rail in (1, 2)})
             for at in range(1, 5)}
    facts["gpu003"] = json.dumps({"ens1f0": {"link": True, "mbps": 100000},
                                  "ens2f0": {"link": True, "mbps": 400000}})
    swapped = [replace(one, b=plan.cables[2].b) if one == plan.cables[0] else replace(one, b=plan.cables[0].b)
               if one == plan.cables[2] else one
               for one in plan.cables]
    facts["gpu004"] = json.dumps({"ens1f0": {"link": True, "mbps": 400000}, "ens2f0": {"link": False}})
    gone = CablingPlan(plan.devices, tuple(one for one in swapped if one.a != PlannedEnd("gpu004", "ens2f0")))
    found = checked(seen(written(gone, **facts)), CablingPlan(plan.devices, plan.cables[:-2])).findings
    assert [(one.rule, one.place.name, one.observed) for one in found if not one.unknown] == [
        (FabricRule.LINK, "leaf02 port swp4 to gpu004 ens2f0", "down (no link)"),
        (FabricRule.CABLE, "leaf01 port swp1", "its cable leads to gpu002 ens1f0"),
        (FabricRule.CABLE, "leaf01 port swp2", "its cable leads to gpu001 ens1f0"),
        (FabricRule.SPEED, "leaf01 port swp3 to gpu003 ens1f0", "100 Gb/s")]


def test_what_was_not_asked_is_unknown_and_not_missing() -> None:
    plan = rails()
    outputs = {name: text for name, text in written(plan).items() if "gpu004" not in name}
    found = checked(seen(outputs), plan)
    assert {one.rule for one in found.findings if not one.unknown} == set() and found.exit_code == 3
    assert (FabricRule.HOST, ("gpu004",)) in {(one.rule, one.place.nodes) for one in found.findings}


def test_a_port_that_is_up_and_hears_no_one_is_unknown() -> None:
    plan = rails(2)
    outputs = written(CablingPlan(plan.devices, plan.cables[1:]),
                      gpu001=json.dumps({"ens1f0": {"link": True, "mbps": 400000}}))
    found = checked(seen(outputs), plan)
    assert [one.observed for one in found.findings
            if one.rule is FabricRule.SILENT] == ["up, and no source shows where its cable leads"]
    assert all(one.unknown for one in found.findings)


def test_infiniband_and_ethernet_in_one_folder_are_two_fabrics(tmp_path: Path) -> None:
    from tests.testbed import fabricoutputs
    from tests.testbed.ibfabric import two_tiers

    fabricoutputs.write(two_tiers(4, 2, 1), tmp_path / "a")
    for name, text in written(rails()).items():
        (tmp_path / "a" / name).write_text(text)
    one, other = (output.subnet() for output in saved(tmp_path / "a"))
    assert (one.name, one.ethernet, one.partial, other.name,
            other.ethernet) == ("", False, False, "ethernet", True)


def test_a_burn_is_not_planned_by_it(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name, text in written(rails()).items():
        (tmp_path / "out" / name).write_text(text)
    done = muster("fabric", "burn", "gpu[001-004]", "--from", "out", home=tmp_path)
    assert (done.returncode == 2 and "out: LLDP shows no routes" in done.stderr
            and len(done.stderr.splitlines()) == 1)


@given(st.dictionaries(st.sampled_from(["lldp-a.json0", "interfaces-a.json", "lldp-b.xml",
                                        "interfaces-b.json"]), st.one_of(
                                            st.text(max_size=200),
                                            st.recursive(st.none() | st.booleans() | st.integers() | st.text(
                                                max_size=8), lambda inner: st.lists(inner, max_size=3)
                                                         | st.dictionaries(st.sampled_from(
                                                             ["lldp", "interface", "name", "chassis", "port",
                                                              "id", "value", "eth0", "pci", "mbps"]), inner,
                                                                           max_size=4)).map(json.dumps))))
def test_any_text_is_a_fabric_or_a_line(outputs: dict[str, str]) -> None:
    reading = read(outputs)
    assert all("\n" not in line for line in reading.unread)
    for device in reading.devices.values():
        assert all(port.end.guid == device.guid for port in device.ports.values())


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LldpFabric]:
    require_lldp()
    plan = rails()
    crossed = [replace(one, b=plan.cables[4].b) if one == plan.cables[6] else replace(one, b=plan.cables[6].b)
               if one == plan.cables[4] else one
               for one in plan.cables]
    with cabled(tmp_path_factory.mktemp("lldp"), plan, crossed) as made:
        yield made


@pytest.mark.parametrize("form", ["json0", "json", "xml"])
def test_real_lldpd_on_hosts_shows_a_swap(bed: LldpFabric, tmp_path: Path, form: str) -> None:
    """The cables of gpu003 and gpu004 on rail 1 are swapped."""
    bed.look(tmp_path / "out", form=form)
    (output,) = saved(tmp_path / "out")
    subnet = output.subnet()
    assert (len([one for one in subnet.devices.values() if one.kind is DeviceKind.SWITCH]) == 2
            and len(subnet.links) == 8)
    found = [one for one in checked(subnet, rails()).findings if not one.unknown]
    assert [(one.rule, one.place.name, one.observed) for one in found] == [
        (FabricRule.CABLE, "leaf01 port swp3", "its cable leads to gpu004 ens1f0"),
        (FabricRule.CABLE, "leaf01 port swp4", "its cable leads to gpu003 ens1f0")]


def test_real_lldpd_on_hosts_and_switches_shows_every_link_once(bed: LldpFabric, tmp_path: Path) -> None:
    bed.look(tmp_path / "out", devices=list(bed.plan.devices))
    (output,) = saved(tmp_path / "out")
    subnet = output.subnet()
    assert (len(subnet.devices), len(subnet.links)) == (3 + 8, 10)
    assert {one.rule for one in checked(subnet, rails()).findings if not one.unknown} == {FabricRule.CABLE}


def test_the_commands_take_it(bed: LldpFabric, tmp_path: Path) -> None:
    bed.look(tmp_path / "out", devices=list(bed.plan.devices))
    (tmp_path / "plan.csv").write_text(plancsv.write(rails()))
    words = ("--plan", "plan.csv", "--from", "out", "--format", "json")
    checked_ = muster("fabric", "check", *words, home=tmp_path)
    document = json.loads(checked_.stdout)
    validate(document, "fabric-check-1")
    assert checked_.returncode == 1 and "cable" in {one["rule"]
                                                    for one in document["findings"]}, checked_.stderr
    compared = muster("fabric", "diff", *words, home=tmp_path)
    assert [one["kind"] for one in json.loads(compared.stdout)["differences"]] == ["swapped"], compared.stdout
    drawn = json.loads(muster("fabric", "map", *words, home=tmp_path).stdout)
    assert sorted(one["state"] for one in drawn["links"]) == ["as planned"] * 8 + ["wrong"] * 2


def test_a_port_of_another_module_with_the_same_number_is_another_port() -> None:
    """Ethernet2/1 is not Ethernet1/1, and Management1 not Ethernet1; a plan's plain 12 is Ethernet12."""
    for planned, shown, same in (("Ethernet1/1", "Ethernet2/1", False), ("Ethernet1", "Management1", False),
                                 ("12", "Ethernet12", True), ("1", "Ethernet2/1", False)):
        plan = rails(1)
        cables = (replace(plan.cables[0], b=PlannedEnd("leaf01", planned)), *plan.cables[1:])
        there = (replace(plan.cables[0], b=PlannedEnd("leaf01", shown)), *plan.cables[1:])
        subnet = seen(written(CablingPlan(plan.devices, there)))
        wanted = CablingPlan(plan.devices, cables)
        found = compare(wanted, seen_cabled(wanted, [(subnet, names_of(wanted, subnet, join([subnet], ())))]))
        assert ([one.kind for one in found.differences] == [DifferenceKind.UNKNOWN] if same
                else DifferenceKind.MISPLACED in [one.kind for one in found.differences])


def test_a_node_s_other_networks_are_no_extra_cables_and_a_port_keeps_its_printed_name() -> None:
    plan = rails(1)
    mine = [("ens1f0", "leaf01", "02:00:00:00:00:10", "swp1"),
            ("ens2f0", "leaf02", "02:00:00:00:00:20", "swp1"),
            ("eno1", "mgmt01", "02:00:00:00:00:99", "Gi1/0/1")]
    subnet = seen({"lldp-gpu001.json0": json0(*mine)})
    found = compare(plan, seen_cabled(plan, [(subnet, names_of(plan, subnet, join([subnet], ())))]))
    assert [one.kind for one in found.differences if one.kind is not DifferenceKind.UNKNOWN] == []
    moved = seen({"lldp-gpu001.json0": json0(("ens1f0", "strange", "02:00:00:00:00:99", "Gi1/0/1"), mine[1])})
    lines = [one.what
             for one in compare(plan,
                                seen_cabled(plan,
                                            [(moved, names_of(plan, moved, join([moved], ())))])).differences]
    assert any("strange (02:00:00:00:00:99) port Gi1/0/1" in line for line in lines), lines
