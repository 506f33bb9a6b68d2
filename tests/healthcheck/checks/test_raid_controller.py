"""Rules of rules/raid-controller.yaml: what passes, what fails, and what could not be asked, in each tool's
form."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from healthcheck.model.outcome import Repair, Status
from healthcheck.model.recording import Capture, Outcome, Recording
from tests.healthcheck import machine, raid
from tests.healthcheck.checks.verdicts import findings_of, ids, verdict
from tests.healthcheck.raid import (
    boss,
    controller,
    counters,
    drive,
    newer,
    newer_drive,
    newer_drives,
    perc,
    tri_mode,
    volume,
)

RULES = sorted(ids("raid-controller.yaml"))
OF_VOLUMES = {"raid-volume-state"}
WELL: list[tuple[str, Recording]] = [
    ("a PERC", perc()), ("a MegaRAID 9660", tri_mode()),
    ("spares and free drives", perc(controller(**{"Physical Drives": 5, "PD LIST": [
        drive(0), drive(1), drive(2, "GHS", "-"), drive(3, "UGood", "-"), drive(4, "JBOD", "-")]}),
        of_drives=[raid.drives(*(counters(slot) for slot in range(5)))])),
    ("a battery that learns",
     perc(controller(BBU_Info=[{"Model": "iBBU08", "State": "Learning"}], Cachevault_Info=None))),
]


def sick(rule: str, name: str, expected: str, words: str, recording: Recording) -> Any:
    return pytest.param(rule, recording, f"{name}: {words}, expected {expected}", id=f"{rule}-{words[:40]}")


PD, CTL = "drive 252:1 of controller 0 (MZ7L3960HCJR)", "controller 0 (PERC H755 Front)"
FAILING = [
    sick("raid-controller-state", CTL, "Optimal", "Failed",
         perc(controller(Status={"Controller Status": "Failed"}))),
    sick("raid-controller-state", CTL, "Optimal", "Needs Attention",
         perc(controller(Status={"Controller Status": "Needs Attention"}))),
    sick("raid-controller-memory", CTL, "none", "2 memory errors that were not corrected",
         perc(controller(Status={"Controller Status": "Optimal", "Memory Uncorrectable Errors": 2}))),
    sick("raid-volume-state", "volume 0/239 of controller 0 (RAID1)", "optimal",
         "degraded (drive 252:1 failed)",
         perc(controller(**{"VD LIST": [volume(state="Dgrd")], "PD LIST": [drive(0), drive(1, "Failed")]}))),
    sick("raid-volume-state", "volume 0/239 of controller 0 (RAID1)", "optimal", "degraded (1 missing)",
         perc(controller(**{"VD LIST": [volume(state="Dgrd")], "Physical Drives": 1,
                            "PD LIST": [drive(0)], "TOPOLOGY": [
                                {"DG": 0, "Arr": 0, "Row": 1, "EID:Slot": "-", "DID": "-", "Type": "DRIVE",
                                 "State": "Msng"}]}))),
    sick("raid-volume-state", "volume 0/239 of controller 0 (RAID1)", "optimal", "offline",
         perc(controller(**{"VD LIST": [volume(state="OfLn")]}))),
    sick("raid-volume-state", "volume 0/1 of controller 0 (RAID5)", "optimal",
         "degraded (drive 306:1 offline)",
         tri_mode(newer(**{"VD LIST": [{"DG/VD": "0/1", "TYPE": "RAID5", "State": "Dgrd"}],
                           "PD LIST": [newer_drive(0), newer_drive(1, "ConfDgrd", "Offline"),
                                       newer_drive(2)]}))),
    sick("raid-drive-state", PD, "online, or free", "unconfigured, bad",
         perc(controller(**{"PD LIST": [drive(0), drive(1, "UBad", "-")]}))),
    sick("raid-drive-state", PD, "online, or free", "shielded after errors",
         perc(controller(**{"PD LIST": [drive(0), drive(1, "UGShld", "-")]}))),
    sick("raid-drive-state", "drive 306:1 of controller 0 (KCD8XRUG3T84)", "online, or free",
         "unconfigured, bad",
         tri_mode(
             newer(**{"PD LIST": [newer_drive(0), newer_drive(1, "UConf", "Bad", "-"), newer_drive(2)]}))),
    sick("raid-drive-foreign", PD, "the configuration of its controller", "holds a foreign configuration",
         perc(controller(**{"PD LIST": [drive(0), drive(1, "UGood", "F")]}))),
    sick("raid-drive-failing", PD, "no warning", "3 warnings that it will fail",
         perc(of_drives=[raid.drives(counters(0), counters(1, **{"Predictive Failure Count": 3}))])),
    sick("raid-drive-failing", PD, "no warning", "its SMART says that it fails",
         perc(of_drives=[raid.drives(counters(0),
                                     counters(1, **{"S.M.A.R.T alert flagged by drive": "Yes"}))])),
    sick("raid-drive-media-errors", PD, "at most 0", "1 media errors",
         perc(of_drives=[raid.drives(counters(0), counters(1, **{"Media Error Count": 1}))])),
    sick("raid-drive-media-errors", "drive 306:1 of controller 0 (KCD8XRUG3T84)", "at most 0",
         "7 media errors",
         tri_mode(of_drives=newer_drives(**{"Media Error Count": 7}))),
    sick("raid-drive-rebuilding", PD, "online, or free", "rebuilding",
         perc(controller(**{"VD LIST": [volume(state="Dgrd")], "PD LIST": [drive(0), drive(1, "Rbld")]}))),
    sick("raid-battery-state", "CacheVault of controller 0", "Optimal or Learning or Charging", "Failed",
         perc(controller(Cachevault_Info=[{"Model": "CVPM05", "State": "Failed"}]))),
    sick("raid-battery-state", "battery of controller 0", "Optimal or Learning or Charging",
         "Dgd(Needs Attention)",
         perc(controller(BBU_Info=[{"Model": "iBBU08", "State": "Dgd(Needs Attention)"}],
                         Cachevault_Info=None))),
    sick("raid-battery-state", "energy pack of controller 0", "Optimal or Learning or Charging", "Failed",
         tri_mode(newer(**{"Energy Pack Info": [{"Type": "Supercap", "Status": "Failed"}]}))),
]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("what", "recording"), WELL, ids=[what for what, _ in WELL])
def test_a_sound_controller_passes(rule: str, what: str, recording: Recording) -> None:
    result = verdict(rule, recording)
    assert (result.status, findings_of(result), result.reason) == (Status.PASS, "", result.reason)


@pytest.mark.parametrize(("rule", "recording", "words"), FAILING)
def test_a_fault_is_named_once_and_by_its_own_rule(rule: str, recording: Recording, words: str) -> None:
    found = {each: findings_of(verdict(each, recording)) for each in RULES}
    assert found.pop(rule) == words
    # A volume is degraded while a drive is rebuilt: that is a fault, and the rebuild a matter of information.
    of_both = OF_VOLUMES if rule == "raid-drive-rebuilding" else set()
    assert {each for each, said in found.items() if said} <= of_both


REBUILT = volume(state="Dgrd")


@pytest.mark.parametrize(("recording", "waits"), [
    (perc(controller(**{"VD LIST": [REBUILT], "PD LIST": [drive(0), drive(1, "Rbld")]})), True),
    (perc(controller(**{"VD LIST": [REBUILT],
                        "PD LIST": [drive(0), drive(1, "Rbld"), drive(2, "Offln")]})), False),
    (perc(controller(**{"VD LIST": [volume(state="OfLn")], "PD LIST": [drive(0), drive(1, "Rbld")]})), False),
    (perc(controller(**{"VD LIST": [REBUILT]})), False),
    (boss(raid.MVCLI.replace("functional", "degraded").replace(
        "VD status:           optimal", "BGA progress:    rebuilding is 15% done")), True),
    (boss(raid.MVCLI.replace("functional", "degraded")), False),
], ids=["rebuilt", "another one is gone", "offline", "no reason shown", "boot mirror", "a mirror at rest"])
def test_a_volume_that_is_rebuilt_asks_nobody_to_replace_the_new_drive(recording: Recording,
                                                                       waits: bool) -> None:
    finding, = verdict("raid-volume-state", recording).findings
    assert (finding.repair is Repair.WATCH) is waits and ("wait" in finding.remedy) is waits


def test_every_rule_fails_for_something() -> None:
    assert {param.values[0] for param in FAILING} == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_node_without_a_controller_is_skipped_and_needs_no_tool(rule: str) -> None:
    missing = Capture(Outcome.MISSING)
    for recording in (machine.recording(), machine.recording(**{f"raid_{name}": missing for name in (
            "storcli", "storcli-drives", "storcli2", "storcli2-drives", "mvcli", "mnvcli")})):
        result = verdict(rule, recording)
        assert result.status is Status.SKIPPED and "here)" in result.reason


@pytest.mark.parametrize(("driver", "address", "tool"), [
    ("megaraid_sas", raid.PERC, "storcli64 (Broadcom) or perccli64 (Dell)"),
    ("mpi3mr", raid.NEWER, "storcli2 (Broadcom) or perccli2 (Dell)")])
def test_without_its_tool_one_rule_is_unknown_and_names_what_to_install(driver: str, address: str,
                                                                        tool: str) -> None:
    names = ("storcli", "storcli-drives", "storcli2", "storcli2-drives")
    recording = machine.recording(gpu_pci=raid.bus(**{driver: address}),
                                  **{f"raid_{name}": Capture(Outcome.MISSING) for name in names})
    results = {rule: verdict(rule, recording) for rule in RULES}
    unknown = results.pop("raid-controller-state")
    assert (unknown.status is Status.UNKNOWN and unknown.reason
            == f"controller {address} ({driver}): a RAID controller, and no tool to ask it: install {tool}")
    assert {result.status for result in results.values()} == {Status.SKIPPED}


NOTHING = [{"Command Status": {**raid.COMMAND, "Status Code": 0, "Status": "Failure",
                               "Description": "No Controller found"}}]


@pytest.mark.parametrize(("recording", "status", "words"), [
    (perc(raid_storcli=raid.answered("megaraid_sas", NOTHING, 1)), Status.UNKNOWN,
     "the tool that is installed does not find it: install storcli64"),
    *((machine.recording(gpu_pci=raid.bus(**{driver: "0000:5c:00.0"})), Status.SKIPPED,
       f"0000:5c:00.0 ({driver}, whose tool is not read)") for driver in ("smartpqi", "hpsa", "aacraid")),
    # What only looks like a RAID controller asks for no tool.
    *((machine.recording(gpu_pci=raid.bus(**{driver: "0000:00:0e.0"}), raid_storcli=Capture(Outcome.MISSING)),
       Status.SKIPPED, "no controller here") for driver in ("vmd", "ahci", "vfio-pci", "")),
])
def test_a_controller_that_no_tool_can_be_asked_of_is_told_by_why(recording: Recording, status: Status,
                                                                  words: str) -> None:
    result = verdict("raid-controller-state", recording)
    assert result.status is status and words in result.reason


@pytest.mark.parametrize("capture", [
    raid.answered("megaraid_sas", "Unable to open device\n", 1), raid.answered("megaraid_sas", "", 255),
    raid.answered("megaraid_sas",
                  [{"Command Status": {"Status": "Failure", "Description": "Un-supported command"}}], 1),
    raid.answered("megaraid_sas", json.dumps({"Controllers": [controller()]})[:900]),
    replace(raid.answered("megaraid_sas", [controller()]), files={
        "/sys/bus/pci/drivers/megaraid_sas": raid.FileCapture(Outcome.TIMEOUT, "")}),
    Capture(Outcome.DENIED), None,
])
@pytest.mark.parametrize("rule", RULES)
def test_a_tool_that_gives_no_answer_leaves_its_rules_unknown(rule: str, capture: Capture | None) -> None:
    recording = perc()
    held = {name: one for name, one in recording.captures.items() if name != "raid.storcli"}
    if capture is not None:
        held["raid.storcli"] = capture
    assert verdict(rule, replace(recording, captures=held)).status is Status.UNKNOWN


OF_COUNTERS = ("raid-drive-failing", "raid-drive-media-errors")


@pytest.mark.parametrize("capture", [Capture(Outcome.DENIED), raid.answered("megaraid_sas", "no JSON"),
                                     raid.answered("megaraid_sas", [raid.drives(counters(0))])])
def test_counters_that_are_not_there_leave_their_own_rules_unknown(capture: Capture) -> None:
    recording = perc(**{"raid_storcli-drives": capture})
    assert {rule: verdict(rule, recording).status for rule in RULES} == {
        rule: Status.UNKNOWN if rule in OF_COUNTERS else Status.PASS for rule in RULES}


def test_a_drive_on_no_enclosure_has_no_counters_and_is_judged_by_its_state() -> None:
    recording = perc(controller(**{"PD LIST": [drive(0, **{"EID:Slt": " :0"}),
                                               drive(1, "UBad", "-", **{"EID:Slt": " :1"})]}))
    assert findings_of(verdict("raid-drive-state", recording)).startswith("drive 1 of controller 0")
    assert verdict("raid-drive-failing", recording).status is Status.SKIPPED


def test_a_word_that_is_not_the_manuals_is_no_pass_and_hides_no_other_drive() -> None:
    recording = perc(controller(**{"PD LIST": [drive(0, "Wobbly"), drive(1, "UBad", "-")]}))
    result = verdict("raid-drive-state", recording)
    assert ((result.status, len(result.findings)) == (Status.FAIL, 1)
            and "'Wobbly', which is no word of the manual" in result.reason)


def test_a_list_that_is_shorter_than_its_number_is_no_pass() -> None:
    recording = perc(controller(**{"Virtual Drives": 2}))
    result = verdict("raid-volume-state", recording)
    assert result.status is Status.UNKNOWN and "VD LIST shows 1 of 2" in result.reason


# Members without which a judgement is another: those that it reads.
READS = {"Status": {"raid-controller-state", "raid-controller-memory"}, "VD LIST": {"raid-volume-state"},
         "PD LIST": {rule for rule in RULES if "drive" in rule}, "Cachevault_Info": {"raid-battery-state"}}


@pytest.mark.parametrize("gone", sorted(raid.controller()["Response Data"]))
def test_a_member_that_is_not_there_changes_no_other_judgement(gone: str) -> None:
    whole = {rule: verdict(rule, perc()).status for rule in RULES}
    less = {rule: verdict(rule, perc(controller(**{gone: None}))).status for rule in RULES}
    assert {rule for rule in RULES if whole[rule] != less[rule]} == READS.get(gone, set())


def test_two_controllers_are_told_apart() -> None:
    second = controller(1, Basics={"Model": "PERC H965i", "PCI Address": "00:c1:00:00"},
                        **{"VD LIST": [volume(state="OfLn")]})
    recording = perc(controller(), second, gpu_pci=raid.bus(megaraid_sas=raid.PERC))
    assert (findings_of(verdict("raid-volume-state", recording))
            == "volume 0/239 of controller 1 (RAID1): offline, expected optimal")


@pytest.mark.parametrize(("text", "words"), [
    (raid.MVCLI, ""), (raid.MNVCLI, ""),
    (raid.MVCLI.replace("functional", "degraded").replace("VD status:           optimal",
                                                          "BGA progress:    rebuilding is 15% done"),
     "boot mirror 0 (RAID1): degraded (rebuilding is 15% done), expected optimal"),
    (raid.MNVCLI.replace("Functional", "Degrade"), "boot mirror 0 (RAID1): degraded, expected optimal"),
    (raid.MVCLI.replace("optimal", "offline"), "boot mirror 0 (RAID1): offline, expected optimal"),
])
def test_a_boot_mirror_is_judged_by_its_tool(text: str, words: str) -> None:
    result = verdict("raid-volume-state", boss(text))
    assert (findings_of(result), result.status) == (words, Status.FAIL if words else Status.PASS)


@pytest.mark.parametrize("text",
                         ["No Adapter Found\n", raid.MVCLI.replace("functional", "wobbly"), raid.MVCLI[:200]])
def test_a_boot_mirror_whose_tool_says_nothing_of_use_is_unknown(text: str) -> None:
    assert verdict("raid-volume-state", boss(text)).status is Status.UNKNOWN


def test_a_boot_mirror_without_its_tool_names_it_and_concerns_one_rule() -> None:
    results = {rule: verdict(rule, boss(None)) for rule in RULES}
    assert results["raid-controller-state"].status is Status.UNKNOWN
    assert ("boot mirror sda: a boot mirror (BOSS), and no tool to ask it: install mvcli"
            in results["raid-controller-state"].reason)
    assert results["raid-volume-state"].status is Status.SKIPPED
