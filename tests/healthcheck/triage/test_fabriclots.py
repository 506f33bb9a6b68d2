"""Links that fail far more often where their cables are of one lot are one finding of the vendor beside those
of the links."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from healthcheck.model.outcome import Owner, Severity
from healthcheck.subnet.check.findings import FabricFinding, FabricPlace, FabricReport, FabricRule, PlaceKind
from healthcheck.subnet.model import DeviceKind, FabricDevice, FabricEnd, Subnet
from healthcheck.sweep.fabricoutput import saved
from healthcheck.triage.fabriclots import with_lots
from healthcheck.triage.lots import PartLot
from healthcheck.triage.partslist import guid_key, parse
from tests.testbed import fabricoutputs
from tests.testbed.ibfabric import two_tiers

OLD, NEW = PartLot("NVIDIA", "MFP7E10", "2306"), PartLot("NVIDIA", "MFP7E10", "2311")


def subnet(folder: Path, one_piece: bool = True) -> Subnet:
    """64 hosts, of which every fourth cable is of the new lot; each end states its serial number, one for
    both of a cable in one piece."""
    fabricoutputs.write(two_tiers(64, 16, 2, 8), folder)
    (plain,) = (output.subnet() for output in saved(folder))
    rows = []
    for at, link in enumerate(sorted(plain.links)):
        for end, side in ((link.a, ""), (link.b, "" if one_piece else "B")):
            lot = NEW if at % 4 == 0 else OLD
            rows.append(f"0x{end.guid},{end.number},{lot.vendor},{lot.part},MT{at:04d}{side},{lot.date}")
    (folder / "ibdiagnet2.db_csv").write_text(
        "START_CABLE_INFO\nNodeGuid,PortNum,Vendor,PN,SN,ManufacturingDate\n" + "\n".join(rows)
        + "\nEND_CABLE_INFO\n")
    (whole,) = (output.subnet() for output in saved(folder))
    return whole


def failing(links: list[tuple[FabricEnd, FabricEnd]], rule: FabricRule = FabricRule.ERRORS,
            unknown: bool = False) -> FabricReport:
    return FabricReport(tuple(FabricFinding(rule, FabricPlace(PlaceKind.LINK, f"{a.guid[-4:]}/{a.number}",
                                                              (a, b)), "", unknown=unknown)
                              for a, b in links), ())


def of_lot(seen: Subnet, lot: PartLot, count: int) -> list[tuple[FabricEnd, FabricEnd]]:
    links = [link for link in sorted(seen.links) if seen.modules[link.a].date == lot.date]
    return [(link.a, link.b) for link in links[:count]]


def test_the_links_of_one_lot_are_one_finding_of_the_vendor_beside_them(tmp_path: Path) -> None:
    seen = subnet(tmp_path / "a")
    report = failing([*of_lot(seen, NEW, 8), *of_lot(seen, OLD, 2)])
    found = with_lots(report, [seen], {})
    (one,) = (one for one in found.findings if one.rule is FabricRule.LOT)
    assert (one.owner, one.severity, one.unknown, one.place.name) == (Owner.VENDOR, Severity.WARNING, False,
                                                                      f"cable {NEW}")
    assert one.observed.startswith("link-errors at 8 of its 32, of 10 with it among 128 whose lot is known")
    assert len(found.findings) == len(report.findings) + 1 and len(one.place.ends) == 16


def test_what_was_delivered_goes_before_what_a_cable_states(tmp_path: Path) -> None:
    seen = subnet(tmp_path / "a")
    links = [link for link in sorted(seen.links) if seen.modules[link.a].date == NEW.date]
    rows = "".join(f"{seen.modules[link.a].serial},PN9,{'A' if at < 8 else 'B'}\n"
                   for at, link in enumerate(links))
    found = with_lots(failing(of_lot(seen, NEW, 6)), [seen], parse("serial,part,lot\n" + rows, "parts.csv"))
    assert [one.place.name for one in found.findings if one.rule is FabricRule.LOT] == ["cable PN9 of A"]


def test_two_modules_of_a_lot_at_one_link_count_once(tmp_path: Path) -> None:
    seen = subnet(tmp_path / "a", one_piece=False)
    found = with_lots(failing(of_lot(seen, NEW, 2)), [seen], {})
    assert not any(one.rule is FabricRule.LOT for one in found.findings)
    (one,) = (one for one in with_lots(failing(of_lot(seen, NEW, 8)), [seen], {}).findings
              if one.rule is FabricRule.LOT)
    assert one.observed.startswith("link-errors at 8 of its 64")


def test_switches_are_known_by_the_delivery_list(tmp_path: Path) -> None:
    seen = subnet(tmp_path / "a")
    many = [f"{at:016x}" for at in range(1, 61)]
    delivered = {guid_key(guid): PartLot("", "MQM9700", "2316" if at < 15 else "2320")
                 for at, guid in enumerate(many)}
    there = Subnet("",
                   {guid: next(iter(seen.devices.values())).__class__(guid,
                                                                      next(one.kind
                                                                           for one in seen.devices.values()
                                                                           if "leaf" in one.description))
                    for guid in many})
    bad = FabricReport(tuple(FabricFinding(FabricRule.FAN,
                                           FabricPlace(PlaceKind.SWITCH, guid, (FabricEnd(guid, 0),)),
                                           "fan 1 stands") for guid in many[:6]), ())
    (one,) = (one for one in with_lots(bad, [there], delivered).findings if one.rule is FabricRule.LOT)
    assert one.place.name == "switch MQM9700 of 2316"


@pytest.mark.parametrize(("kind", "rule", "called"), [
    (DeviceKind.ADAPTER, FabricRule.SILENT, "adapter"), (DeviceKind.SWITCH, FabricRule.FAN, "switch")])
@pytest.mark.parametrize(("failing", "names"), [(4, "0001; 0002; 0003; 0004"),
                                                (5, "0001; 0002; 0003; 0004 ...")])
def test_a_lot_of_devices_is_of_one_kind_of_them_and_names_the_first_four(
    kind: DeviceKind, rule: FabricRule, called: str, failing: int, names: str,
) -> None:
    guids = [f"{number:016x}" for number in range(1, 121)]
    other = DeviceKind.SWITCH if kind is DeviceKind.ADAPTER else DeviceKind.ADAPTER
    seen = Subnet("", {guid: FabricDevice(guid, kind if number < 60 else other)
                       for number, guid in enumerate(guids)})
    delivered = {guid_key(guid): PartLot("", "P1", "2316" if number < 5 else "2320")
                 for number, guid in enumerate(guids)}
    bad = FabricReport(tuple(FabricFinding(rule, FabricPlace(PlaceKind.PORT, guid[-4:],
                                                             (FabricEnd(guid, 1),)), "")
                             for guid in guids[:failing]), ())
    (one,) = (one for one in with_lots(bad, [seen], delivered).findings if one.rule is FabricRule.LOT)
    assert (one.place.kind, one.place.name) == (PlaceKind.LOT, f"{called} P1 of 2316")
    assert f"at {failing} of its 5, of {failing} with it among 60 whose lot is known" in one.observed
    assert one.observed.endswith(f": {names}")


@pytest.mark.parametrize("report", [failing([], unknown=True), FabricReport((), ())])
def test_nothing_wrong_names_no_lot(report: FabricReport, tmp_path: Path) -> None:
    assert with_lots(report, [subnet(tmp_path / "a")], {}) == report


def test_what_is_unknown_is_no_evidence(tmp_path: Path) -> None:
    seen = subnet(tmp_path / "a")
    report = failing(of_lot(seen, NEW, 20), unknown=True)
    assert with_lots(report, [seen], {}) == report


@pytest.mark.parametrize("seed", range(20))
def test_faults_at_random_links_name_no_lot(seed: int, tmp_path: Path) -> None:
    seen = subnet(tmp_path / "a")
    links = random.Random(seed).sample([(link.a, link.b) for link in sorted(seen.links)], 15)
    report = failing(links)
    assert with_lots(report, [seen], {}) == report
