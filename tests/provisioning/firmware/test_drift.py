"""Wanted firmware against what machines run: nothing that was not read is as wanted, and equals are
folded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.firmware import BMC, SWEEP, ComponentVersion, MachineFirmware
from provisioning.bringup.policy.load import load
from provisioning.bringup.policy.model import BringupPolicy
from provisioning.firmware.drift import Drift, FleetMachine, JudgedMachine, groups, judged, wanted
from provisioning.firmware.page import FirmwareReport, lines, recap, reported
from tests.provisioning.bringup.controllers import site

NOW = 100_000.0


def policy(folder: Path, text: str) -> BringupPolicy:
    return load([packaged(), site(folder / "rules", f"firmware:\n{text}")])


def version(name: str, kind: str, found: str | None, at: float = NOW - 60,
            source: str = BMC) -> ComponentVersion:
    return ComponentVersion(name, kind, found, at, source, "" if found else "it answered 500")


def known(*versions: ComponentVersion, maker: str = "Dell Inc.",
          whole: tuple[tuple[str, str], ...] = ()) -> MachineFirmware:
    looked = {source: max(one.time for one in versions if one.source == source)
              for source in {one.source for one in versions}}
    return MachineFirmware(maker, versions, looked, dict.fromkeys(whole, NOW - 60))


def states(machine: JudgedMachine) -> list[tuple[str, Drift, str | None]]:
    return [(one.name, one.state, one.version) for one in machine.components]


BMC_7 = '- {id: bmc, component: bmc, at_least: "7.20"}\n'


@pytest.mark.parametrize(("found", "state"),
                         [("7.20", Drift.AS_WANTED), ("7.30.1", Drift.AS_WANTED), ("7.10", Drift.DRIFT),
                          (None, Drift.UNKNOWN), ("unknown", Drift.UNKNOWN)])
def test_a_version_is_as_wanted_or_drifts_or_is_unknown(tmp_path: Path, found: str | None,
                                                        state: Drift) -> None:
    one = judged(FleetMachine("n1", None, known(version("bmc", "bmc", found))), policy(tmp_path, BMC_7))
    assert one.state is state and len(one.components) == 1


def test_what_was_never_read_is_unknown_and_says_by_whom(tmp_path: Path) -> None:
    wanted_of = policy(tmp_path,
                       BMC_7
                       + '- {id: psu, component: psu, exactly: "1"}\n- {id: nvme, component: nvme, '
                         'exactly: "1"}\n')

    def why(firmware: MachineFirmware) -> list[str]:
        machine = judged(FleetMachine("n1", None, firmware), wanted_of)
        assert {one.state for one in machine.components} == {Drift.UNKNOWN}
        return [one.why for one in machine.components]

    assert why(MachineFirmware()) == ["never read"] * 3
    assert why(known(version("bios", "bios", "2", source=SWEEP))) == [
        "its BMC was never read", "its BMC was never read",
        "no sweep has reported one, and its BMC was never read"]
    assert why(known(version("CPLD", "", "2"))) == [
        "its BMC tells of no such component", "its BMC tells of no such component",
        "neither a sweep nor its BMC has reported one"]


def test_every_part_of_a_kind_counts_and_those_that_no_sweep_saw_are_unknown(tmp_path: Path) -> None:
    gpus = [version(f"gpu {at}", "vbios", "96.00.BC.00.01" if at else "96.00.9F.00.01", source=SWEEP)
            for at in range(3)]
    wanted_of = policy(tmp_path, '- {id: vbios, component: vbios, at_least: "96.00.A0.00.01"}\n')
    one = judged(FleetMachine("n1", None, known(*gpus, whole=((SWEEP, "vbios"),))), wanted_of)
    assert [state for _, state, _ in states(one)] == [Drift.DRIFT, Drift.AS_WANTED,
                                                      Drift.AS_WANTED] and one.state is Drift.DRIFT
    partly = judged(FleetMachine("n1", None, known(*gpus[1:])), wanted_of)
    assert partly.state is Drift.UNKNOWN and partly.components[-1].why == "no sweep has seen all of them"


def test_of_the_bios_the_newest_reading_counts_whoever_made_it(tmp_path: Path) -> None:
    wanted_of = policy(tmp_path, '- {id: bios, component: bios, exactly: "2.2"}\n')
    old, new = version("bios", "bios", "2.1", NOW - 900, SWEEP), version("bios", "bios", "2.2", NOW - 60)
    assert judged(FleetMachine("n1", None, known(old, new)), wanted_of).state is Drift.AS_WANTED
    stale = judged(FleetMachine("n1", None, known(replace(old, time=NOW), new)), wanted_of)
    assert states(stale) == [("bios", Drift.DRIFT, "2.1")] and stale.components[0].source == SWEEP
    unread = judged(FleetMachine("n1", None, known(replace(old, time=NOW, version=None), new)), wanted_of)
    assert states(unread) == [("bios", Drift.AS_WANTED, "2.2")] and unread.components[0].read == NOW - 60


def test_what_a_controller_told_of_drives_before_a_sweep_saw_them_all_is_past(tmp_path: Path) -> None:
    wanted_of = policy(tmp_path, '- {id: nvme, component: nvme, exactly: "B2"}\n')
    told_by_bmc = version("PCIe SSD in Slot 0", "nvme", "A1", NOW - 900)
    swept = version("nvme nvme0", "nvme", "B2", source=SWEEP)
    whole = known(told_by_bmc, swept, whole=((SWEEP, "nvme"),))
    assert states(judged(FleetMachine("n1", None, whole), wanted_of)) == [("nvme nvme0",
                                                                           Drift.AS_WANTED, "B2")]
    later = known(replace(told_by_bmc, time=NOW), swept, whole=((SWEEP, "nvme"),))
    assert judged(FleetMachine("n1", None, later), wanted_of).state is Drift.DRIFT


def test_entries_are_by_sku_and_maker_and_a_machine_of_which_neither_is_known_is_unknown(
        tmp_path: Path) -> None:
    wanted_of = policy(tmp_path,
                       '- {id: a, skus: [hgx-h100], component: bmc, at_least: "9"}\n- {id: b, vendor: '
                       '"dell*", component: bmc, exactly: "7"}\n')
    here = known(version("bmc", "bmc", "7"))
    assert [one.entry
            for one in judged(FleetMachine("n1", "hgx-h100", here), wanted_of).components] == ["a", "b"]
    assert [one.entry for one in judged(FleetMachine("n1", "dgx-h100", here), wanted_of).components] == ["b"]
    hpe = judged(FleetMachine("n1", "dgx-h100", replace(here, maker="HPE")), wanted_of)
    assert hpe.components == () and hpe.state is Drift.NOT_WANTED
    lost = judged(FleetMachine("n1", None, replace(here, maker="")), wanted_of)
    assert [one.why for one in lost.components] == ["its SKU is not known, and this version is wanted by it",
                                                    "its maker is not known, and this version is "
                                                    "wanted by it"]


def test_what_was_read_of_another_machine_of_this_name_does_not_count(tmp_path: Path) -> None:
    firmware = known(version("bmc", "bmc", "7.20"))
    assert judged(FleetMachine("n1", None, firmware, since=NOW),
                  policy(tmp_path, BMC_7)).components[0].why == "never read"


def test_what_was_read_too_long_ago_is_unknown_and_is_to_be_read_again(tmp_path: Path) -> None:
    wanted_of = policy(tmp_path, BMC_7)
    one = judged(FleetMachine("n1", None, known(version("bmc", "bmc", "7.20")), fresh=NOW), wanted_of)
    assert one.state is Drift.UNKNOWN and one.components[0].why == "read too long ago"
    assert "  unknown       1  n1  bmc: 7.20, read too long ago, read 60 s ago" in list(
        lines(report([one], wanted_of)))
    assert any("muster firmware status n1 --read" in line for line in lines(report([one], wanted_of)))


def test_a_glob_is_over_the_controllers_names_alone(tmp_path: Path) -> None:
    wanted_of = policy(tmp_path, '- {id: g, component: "*0*", exactly: "1"}\n')
    firmware = known(version("CPLD_0", "", "1"), version("bmc", "bmc", "0"),
                     version("gpu 0000:18:00.0", "vbios", "0", source=SWEEP))
    assert states(judged(FleetMachine("n1", None, firmware), wanted_of)) == [("CPLD_0", Drift.AS_WANTED, "1")]


def report(found: list[JudgedMachine], wanted_of: BringupPolicy, **unanswered: str) -> FirmwareReport:
    return FirmwareReport(wanted(wanted_of.firmware), tuple(found), groups(found), unanswered, NOW)


def test_a_fleet_is_folded_by_entry_and_version_with_ages_and_what_to_do(tmp_path: Path) -> None:
    text = (
        f'- {{id: bmc, vendor: "Dell*", component: bmc, at_least: "7.20", payload: {{file: a.bin, sha256: '
        f'{"ab" * 32}}}}}\n'
        '- {id: psu, component: psu, exactly: "00.1D", owner: vendor}\n')
    wanted_of = policy(tmp_path, text)
    fleet = [FleetMachine(f"n{at}", None, known(
        version("bmc", "bmc", "7.10" if at < 4 else "7.30", NOW - 3600 * at),
        *(version(f"PSU_{psu}", "psu", "00.1B" if (at, psu) == (5, 1) else "00.1D") for psu in range(2))))
             for at in range(1, 9)]
    found = [judged(one, wanted_of) for one in [*fleet, FleetMachine("n9", None, MachineFirmware())]]
    shown = list(lines(report(found, wanted_of, n3="timeout: 30 s")))
    assert shown == [
        "bmc: bmc at least 7.20 (Dell*)",
        "  drift         3  n[1-3]  bmc: 7.10, read 60 min to 3 h ago",
        "  unknown       1  n9  its maker is not known, and this version is wanted by it",
        "  as wanted     5  n[4-8]  read 4 h to 8 h ago",
        f"  next: operator: update it with {tmp_path}/rules/a.bin, sha256 {'ab' * 32}",
        "psu: psu exactly 00.1D",
        "  drift         1  n5  PSU_1: 00.1B, read 60 s ago",
        "  unknown       1  n9  never read",
        "  as wanted     8  n[1-8]  read 60 s ago",
        "  next: vendor: update it by the maker's means (no `payload:` says by which file)",
        "not read now  n3  timeout: 30 s",
        "next: to read what is unknown: muster firmware status n9 --read, and for GPUs, adapters and drives: "
        "muster check n9 --store",
        "9 machines: 4 drift, 1 unknown, 4 as wanted"]
    assert recap(report(found[:1], wanted_of)) == "1 machine: 1 drift"
    listed = list(reported(found))
    assert any(line.split()[:3] == ["psu", "00.1B", "1"] for line in listed)


def test_what_a_controller_makes_up_is_escaped_and_does_not_flood_the_report(tmp_path: Path) -> None:
    wanted_of = policy(tmp_path, '- {id: all, component: "*", exactly: "1"}\n')
    odd = [version(f"part {at}", "", f"\x1b[2J9.{at}") for at in range(300)]
    shown = list(lines(report([judged(FleetMachine("n1", None, known(*odd)), wanted_of)], wanted_of)))
    assert len(shown) < 50 and "  and 260 more groups, which --format json has" in shown
    assert "\x1b" not in "".join(shown) and "\\x1b" in shown[1]


_FOUND = st.none() | st.sampled_from(["7.10", "7.20", "7.30", "x", "7.2a"])


@given(st.lists(st.tuples(st.sampled_from(["bmc", "PSU_0", "PSU_1", "odd"]),
                          st.sampled_from(["bmc", "psu", ""]), _FOUND,
                          st.sampled_from([BMC, SWEEP])), max_size=5))
def test_a_machine_is_as_wanted_only_where_each_entry_has_a_version_that_fits(
    tmp_path_factory: pytest.TempPathFactory, told_of: list[tuple[str, str, str | None, str]],
) -> None:
    wanted_of = policy(tmp_path_factory.mktemp("p"),
                       BMC_7 + '- {id: psu, component: psu, at_least: "7.20"}\n')
    firmware = known(*(version(name, kind, found, source=source) for name, kind, found, source in told_of))
    one = judged(FleetMachine("n1", None, firmware), wanted_of)
    assert {each.entry for each in one.components} == {"bmc", "psu"}
    if one.state is Drift.AS_WANTED:
        assert all(each.version in ("7.20", "7.30") and each.read is not None for each in one.components)
