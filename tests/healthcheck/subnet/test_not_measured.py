"""What a source of the fabric does not show is unknown in a check, and never good."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.subnet.cabling import CablingPlan, PlannedDevice, PlannedEnd, Tier
from healthcheck.subnet.check.findings import FabricFinding, FabricRule
from healthcheck.subnet.check.seen import CountedBefore
from healthcheck.subnet.check.whole import check_fabric
from healthcheck.subnet.join import join
from healthcheck.subnet.merge import merge
from healthcheck.subnet.model import DeviceKind, FabricDevice, FabricEnd, FabricPort, LinkState, Subnet
from healthcheck.subnet.readers import counters, smp
from healthcheck.subnet.samples import sample
from healthcheck.sweep.fabricoutput import saved
from tests.testbed import fabricoutputs
from tests.testbed.fabrictables import write as write_tables
from tests.testbed.ibfabric import two_tiers

PLAN = two_tiers(8, 4, 2)


def looked(folder: Path, *without: str, **instead: str) -> Subnet:
    """A healthy fabric's outputs without some, and with others in their places."""
    fabricoutputs.write(PLAN, folder)
    for name in without:
        (folder / f"{name}.txt").unlink()
    for name, text in instead.items():
        (folder / name.replace("_", "-", 1)).write_text(text)
    (found,) = saved(folder)
    return found.subnet()


def unknown(subnet: Subnet, earlier: CountedBefore | None = None) -> list[FabricFinding]:
    """What the check cannot say; nothing else is wrong."""
    known = earlier or sample(subnet, 1000.0)
    report = check_fabric([(subnet, 4600.0)], join([subnet], ()), PLAN, before={"": known} if known else None)
    assert all(one.unknown for one in report.findings), report.findings
    return list(report.findings)


def test_a_whole_look_leaves_nothing_unknown(tmp_path: Path) -> None:
    assert unknown(looked(tmp_path / "a")) == []


@pytest.mark.parametrize(("without", "rule", "words"), [
    (("iblinkinfo",), FabricRule.STATE, "the state of 12 links is not shown"),
    (("saquery-smir",), FabricRule.MANAGER, "no source shows subnet managers"),
    (("ibqueryerrors",), FabricRule.ERRORS, "counters were not read at both samples: 24 ports"),
    (("ibqueryerrors-data",), FabricRule.CONGESTION, "not known of 24 ports"),
])
def test_each_output_that_is_missing_leaves_something_unknown(tmp_path: Path, without: tuple[str, ...],
                                                              rule: FabricRule, words: str) -> None:
    found = unknown(looked(tmp_path / "a", *without))
    assert any(one.rule is rule and one.observed.startswith(words) for one in found), found


def test_one_manager_that_answers_does_not_say_that_it_is_the_only_one(tmp_path: Path) -> None:
    subnet = looked(tmp_path / "a", "saquery-smir",
                    **{"sminfo_.txt": "sminfo: sm lid 5 sm guid 0xa088c20300000001, activity count 9 "
                                      "priority 5 state 3 SMINFO_MASTER\n"})
    (one,) = unknown(subnet)
    assert one.rule is FabricRule.MANAGER and "no source lists all subnet managers" in one.observed


def test_counters_of_switches_only_are_no_zeros_of_adapters(tmp_path: Path) -> None:
    """ibqueryerrors --switch: its summary counts 4 of 12 nodes."""
    folder = fabricoutputs.write(PLAN, tmp_path / "a")
    path = folder / "ibqueryerrors.txt"
    path.write_text(path.read_text().replace("12 nodes checked", "4 nodes checked"))
    (output,) = saved(folder)
    found = unknown(output.subnet())
    assert any("counters were asked of 4 of 12 devices" in one.observed for one in found)
    assert any(one.observed.startswith("counters were not read at both samples: 24 ports") for one in found)


@pytest.mark.parametrize("name",
                         ["iblinkinfo", "ibnetdiscover", "ibnetdiscover-p", "ibqueryerrors", "saquery-smir"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_an_output_that_ends_early_is_named(tmp_path: Path, name: str, share: float) -> None:
    folder = fabricoutputs.write(PLAN, tmp_path / "a")
    path = folder / f"{name}.txt"
    text = path.read_text()
    path.write_text(text[:int(len(text) * share)].rstrip("\n"))
    (output,) = saved(folder)
    assert [one.observed for one in unknown(output.subnet()) if "ends early" in one.observed]


def test_without_any_device_nothing_is_missing_for_certain(tmp_path: Path) -> None:
    found = unknown(looked(tmp_path / "a", "iblinkinfo", "ibnetdiscover", "ibnetdiscover-p"))
    assert {FabricRule.SOURCE, FabricRule.SWITCH, FabricRule.HOST} <= {one.rule for one in found}


def test_switches_without_a_table_beside_others_that_have_one_are_named(tmp_path: Path) -> None:
    folder = fabricoutputs.write(PLAN, tmp_path / "a")
    write_tables(folder)
    (output,) = saved(folder)
    subnet = output.subnet()
    whole = [one for one in unknown(subnet) if one.rule is FabricRule.ROUTE]
    gone = next(iter(subnet.routes))
    short = Subnet(subnet.name, subnet.devices, subnet.managers, counters=subnet.counters,
                   routes={guid: table for guid, table in subnet.routes.items() if guid != gone})
    (one,) = (one for one in unknown(short) if one.rule is FabricRule.ROUTE)
    assert (whole == [] and one.observed.startswith("no table was read of 1 switches")
            and one.place.ends == (FabricEnd(gone, 0),))


def test_a_power_supply_that_states_nothing_is_unknown_and_a_chip_without_a_limit_is_said_to_have_none(
        tmp_path: Path) -> None:
    (switch,) = [guid
                 for guid, device in looked(tmp_path / "a").devices.items() if device.description == "leaf01"]
    table = (f"START_POWER_SUPPLIES\nNodeGuid,PSUIndex,DCState\n0x{switch},1,n/a\nEND_POWER_SUPPLIES\n"
             f"START_TEMP_SENSING\nNodeGuid,CurrentTemperature\n0x{switch},120\nEND_TEMP_SENSING\n")
    folder = fabricoutputs.write(PLAN, tmp_path / "b")
    (folder / "ibdiagnet2.db_csv").write_text(table)
    (output,) = saved(folder)
    found = {one.rule: one.observed for one in unknown(output.subnet())}
    assert found == {FabricRule.SUPPLY: "power supply 1 states nothing that is understood",
                     FabricRule.TEMPERATURE: "no source states the limit of 1 temperature of switches"}


def test_a_counter_of_which_the_tool_does_not_say_that_it_leaves_out_zeros_is_none() -> None:
    reading = counters.read_errors(
        "\n## Summary: 2 nodes checked, 0 bad nodes found\n##          2 ports checked, 0 ports have errors "
        "beyond threshold\n")
    assert reading.counters is not None and reading.counters.zeros
    assert reading.counters.count(FabricEnd("a" * 16, 1), "SymbolErrorCounter") == 0
    assert reading.counters.count(FabricEnd("a" * 16, 1), "PortXmitWait") is None


def test_a_port_that_is_up_is_not_said_to_lead_to_a_silent_device_where_no_source_shows_links() -> None:
    end = FabricEnd("b8cef60000000100", 1)
    port = FabricPort(end, LinkState.ACTIVE, "linkup", 4, "NDR")
    shown = FabricDevice(end.guid, DeviceKind.SWITCH, "leaf01", ports={1: port})
    found = [one for one in check_fabric([(Subnet("", {end.guid: shown}), 1000.0)], join([], ())).findings
             if one.rule is FabricRule.SILENT]
    assert [(one.unknown, one.observed)
            for one in found] == [(True, "up, and no source shows where its cable leads")]


def test_a_plane_of_which_nothing_was_read_is_unknown(tmp_path: Path) -> None:
    cables = (*(replace(one, plane="rail1") for one in PLAN.cables),
              replace(PLAN.cables[0], plane="rail2", a=PlannedEnd("leaf09", "1"),
                      b=PlannedEnd("spine09", "1")))
    devices = {**PLAN.devices, "leaf09": PlannedDevice("leaf09", Tier.LEAF),
               "spine09": PlannedDevice("spine09", Tier.SPINE)}
    subnet = replace(looked(tmp_path / "a"), name="rail1")
    known = sample(subnet, 1000.0)
    report = check_fabric([(subnet, 4600.0)], join([subnet], ()), CablingPlan(devices, cables),
                          before={"rail1": known} if known else None)
    assert [(one.rule, one.plane, one.unknown)
            for one in report.findings] == [(FabricRule.SOURCE, "rail2", True)]
    assert report.exit_code == 3


def test_managers_of_which_not_all_are_listed_are_not_said_to_lack_a_master(tmp_path: Path) -> None:
    text = "SMInfoRecord dump:\n\t\tGUID..................0xa088c20300000001\n\t\tPriority..............5\n"
    found = unknown(looked(tmp_path / "a", "saquery-smir", saquery_smir=text))
    assert {one.rule for one in found} == {FabricRule.MANAGER, FabricRule.SOURCE}


def test_what_was_asked_of_single_devices_makes_no_other_missing() -> None:
    text = (
        "# Node info: Lid 1\nNodeType:........................Switch\nNumPorts:........................64\n"
        "Guid:............................0xb8cef60000000100\nNode Description:........leaf01\n")
    subnet = merge("", [smp.read(text)])
    assert (subnet.partial and all(one.unknown for one in check_fabric([(subnet, 1000.0)], join([subnet], ()),
                                                                       PLAN).findings))


@pytest.mark.parametrize(("was", "now", "rule"),
                         [("4X", "1X", FabricRule.WIDTH), ("53.125 Gbps", "25.78125 Gbps", FabricRule.SPEED)])
@pytest.mark.parametrize("at_switch", [True, False])
def test_a_link_is_as_wanted_only_where_both_of_its_ends_say_so(tmp_path: Path, was: str, now: str,
                                                                rule: FabricRule, at_switch: bool) -> None:
    folder = fabricoutputs.write(PLAN, tmp_path / "a")
    for name in ("ibnetdiscover", "ibnetdiscover-p"):
        (folder / f"{name}.txt").unlink()
    lines = (folder / "iblinkinfo.txt").read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines)
              if line.partition('==(')[0].count("gpu003 mlx5_0") != at_switch and "gpu003 mlx5_0" in line)
    lines[at] = lines[at].replace(was, now)
    (folder / "iblinkinfo.txt").write_text("".join(lines))
    (output,) = saved(folder)
    subnet = output.subnet()
    assert {one.rule for one in check_fabric([(subnet, 4600.0)], join([subnet], ()), PLAN).findings
            if not one.unknown} == {rule}
