"""The parsers of what nodes say of disks, arrays and mounts: whatever it is, a fact or a reason, and never an
exception."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts import nvme, raid_controller, raid_tools  # noqa: F401  (they register facts)
from healthcheck.facts import raid as md  # noqa: F401
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.disk import read_disk
from healthcheck.facts.files import DeviceOutput
from healthcheck.facts.filesystem import parse_fstab
from healthcheck.facts.values import UNSUPPORTED, Partial, Unmeasured, reading
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Capture, FileCapture, Outcome
from tests.healthcheck import machine, raid

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from((
        "smart_status", "passed", "smartctl", "messages", "string", "nvme_smart_health_information_log",
        "media_errors", "critical_warning",
        "ata_smart_attributes", "table", "id", "raw", "value", "device", "protocol", "model_name",
        "serial_number", "scsi_grown_defect_list", "scsi_error_counter_log",
        "total_uncorrected_errors", "read",
        "scsi_percentage_used_endurance_indicator", "endurance_used", "current_percent",
        "when_failed", "flags",
        "prefailure", "name", "available_spare", "available_spare_threshold", "nvme_self_test_log",
        "self_test_result", "ata_smart_self_test_log", "standard", "status", "scsi_self_test_0", "result",
        "smart_support", "available", "lifetime_hours",
    )), inner, max_size=6), max_leaves=20)
FILE_FACTS = ("nvmes", "nvme_heat", "nvme_bus", "arrays", "pools", "mount_plan", "mount_answers", "lustre")


@given(st.text(max_size=300))
def test_no_text_upsets_the_reader_of_fstab(text: str) -> None:
    try:
        wanted = parse_fstab(text)
    except ValueError:
        return
    assert all(entry.point.startswith("/") for entry in wanted)


_MEMBERS = ("Controllers", "Command Status", "Status", "Controller", "Description", "Response Data",
            "Basics", "Model",
            "PCI Address", "Controller Status", "VD LIST", "Virtual Drives", "DG/VD", "TYPE",
            "State", "PD LIST",
            "Physical Drives", "EID:Slt", "DG", "TOPOLOGY", "Type", "BBU_Info", "Energy Pack Info",
            "Drives List",
            "Drive Information", "Drive Detailed Information", "LU/NS Properties", "Media Error Count",
            "Drive /c0/e252/s0 - Detailed Information", "Drive /c0/e252/s0 State", "Predictive Failure Count")
_VALUES = (st.none() | st.booleans() | st.integers(-1, 300) | st.text(max_size=6)
           | st.sampled_from(("Success", "Optl", "Dgrd", "Onln", "UBad", "DRIVE", "252:0", "Optimal", "Yes")))
RAID = st.recursive(_VALUES, lambda inner: st.lists(inner, max_size=3)
                    | st.dictionaries(st.sampled_from(_MEMBERS), inner, max_size=6), max_leaves=30)
_DATA = st.dictionaries(st.sampled_from(_MEMBERS), RAID, max_size=8)


@given(st.text(max_size=60) | _DATA.map(lambda data: json.dumps({"Controllers": [{
    "Command Status": {"Controller": 0, "Status": "Success"}, "Response Data": data}]}))
       | RAID.map(json.dumps),
    st.sampled_from(("raid.storcli", "raid.storcli-drives", "raid.mvcli")))
def test_no_answer_of_a_raid_controllers_tool_upsets_its_readers(text: str, probe: str) -> None:
    driver = "ahci" if probe == "raid.mvcli" else "megaraid_sas"
    captures = Captures(raid.perc(**{probe.replace(".", "_", 1): raid.answered(driver, text)}))
    for name in ("raid_controllers", "raid_volumes", "raid_drives", "raid_batteries"):
        value = build_fact(FACTS[name], captures)
        assert not (isinstance(value, Unmeasured)
                    and "could not be read from the node's output" in value.reason), (name, value)


@given(st.lists(
    st.tuples(st.sampled_from(("id", "VD ID", "status", "Status", "RAID mode", "VD status", "BGA progress",
                              "Total # of VD")), st.text(max_size=12)), max_size=9))
def test_no_text_of_a_boot_mirrors_tool_passes_for_a_sound_one_unless_it_says_so(
        rows: list[tuple[str, str]]) -> None:
    text = "".join(f"{name}: {value}\n" for name, value in rows)
    value = build_fact(FACTS["raid_volumes"], Captures(raid.boss(text)))
    volumes = [] if isinstance(value, (Unmeasured, Partial)) else value
    assert all(reading(volume, "state") != "optimal" or re.search("(?i)optimal|optl|functional", text)
               for volume in volumes)


@given(st.integers(0, 255), st.text(max_size=100) | JSON.map(json.dumps))
def test_no_answer_of_smartctl_upsets_its_reader_or_passes_for_another_type(code: int, text: str) -> None:
    disk = read_disk("nvme0", DeviceOutput(code, text))
    for field in ("critical_warning", "media_errors", "spare", "used_percent", "reallocated", "unrecovered",
                  "grown_defects"):
        value = reading(disk, field)
        assert value is UNSUPPORTED or isinstance(value, Unmeasured) or (type(value) is int and value >= 0)
    for field in ("passed", "hot", "spare_low"):
        assert (value := reading(disk, field)) is UNSUPPORTED or isinstance(value, (bool, Unmeasured))
    test = reading(disk, "self_test")
    assert test is UNSUPPORTED or isinstance(test, (str, Unmeasured))
    assert isinstance(reading(disk, "failing"),
                      (tuple, Unmeasured)) or reading(disk, "failing") is UNSUPPORTED


def test_an_answer_of_smartctl_cut_at_any_byte_is_no_measurement() -> None:
    entry = next(iter(machine.smart(1).files.values())).text.partition("\n")[2]
    whole = read_disk("nvme0", DeviceOutput(0, entry))
    assert (whole.passed, whole.critical_warning, whole.serial) == (True, 0, "S64FNE0R903600")
    for at in range(len(entry)):
        assert isinstance(reading(read_disk("nvme0", DeviceOutput(0, entry[:at])), "passed"), Unmeasured)


@given(
    st.dictionaries(
        st.sampled_from(sorted(path for name in ("nvme.sysfs", "nvme.temperature", "raid.md", "raid.zfs",
                                                 "filesystem.plan", "filesystem.lustre", "filesystem.mounts")
                               for path in machine.captures()[name].files)),
        st.tuples(st.sampled_from(Outcome), st.text(max_size=30)), max_size=8))
def test_no_text_of_sysfs_or_proc_upsets_a_fact(changes: dict[str, tuple[Outcome, str]]) -> None:
    held = {}
    for name, capture in machine.captures().items():
        held[name.replace(".", "_", 1)] = Capture(capture.outcome, capture.exit, 0.0, 1, capture.text,
                                                  note=capture.note,
                                                  files={path: FileCapture(*changes[path]) if path in changes
                                                         else entry for path, entry in capture.files.items()})
    captures = Captures(machine.recording(**held))
    for name in FILE_FACTS:
        value = build_fact(FACTS[name], captures)
        assert not (isinstance(value, Unmeasured)
                    and "could not be read from the node's output" in value.reason), (name, value)


def test_every_file_cut_at_every_byte_is_what_it_says_or_nothing() -> None:
    """A cut text is captured as truncated; here even one that hides it must not become a fault of the drive's
    state or of its width."""
    held = machine.captures()["nvme.sysfs"]
    path = "/sys/class/nvme/nvme3/state"
    for at in range(4):
        files = {**held.files, path: FileCapture(Outcome.TRUNCATED, "live"[:at])}
        captures = Captures(machine.recording(nvme_sysfs=Capture(Outcome.DONE, None, 0.0, 1, files=files)))
        value = build_fact(FACTS["nvmes"], captures)
        drives = value.value if isinstance(value, Partial) else value
        assert isinstance(reading(drives[3], "state"), Unmeasured)


@pytest.mark.parametrize("exit_status", [2, 4, 6])
def test_a_disk_that_could_not_be_asked_has_no_readings(exit_status: int) -> None:
    disk = read_disk(
        "nvme0", DeviceOutput(
            exit_status,
            json.dumps({"device": {"protocol": "NVMe"}, "serial_number": "S",
                        "nvme_smart_health_information_log": {"available_spare": 90, "percentage_used": 1}})))
    assert (isinstance(reading(disk, "spare"), Unmeasured)
            and isinstance(reading(disk, "used_percent"), Unmeasured))


@pytest.mark.parametrize(("said", "asked"), [
    ("Smartctl open device: /dev/nvme0 failed: Permission denied", ()),
    ("Smartctl open device: /dev/nvme0 failed: Input/output error", ("nvme0",))])
def test_a_disk_that_we_may_not_ask_is_not_accused_and_one_that_gives_no_answer_is(
    said: str, asked: tuple[str, ...],
) -> None:
    document = {"smartctl": {"messages": [{"string": said}]}}
    passed = reading(read_disk("nvme0", DeviceOutput(2, json.dumps(document))), "passed")
    assert isinstance(passed, Unmeasured) and passed.asked == asked


def test_disks_are_reported_in_the_order_of_their_names_in_whatever_order_they_answered() -> None:
    files = {f"/sys/class/nvme/nvme{number}": FileCapture(
                 Outcome.DONE, "exit 0\n"
                 + json.dumps({"device": {"protocol": "NVMe"}, "serial_number": f"S{number}",
                               "nvme_smart_health_information_log": {"available_spare": 90 - number}}))
             for number in (10, 2, 1)}
    found = build_fact(FACTS["disk_health"], Captures(
                           machine.recording(disk_smart=Capture(Outcome.DONE, None, 0.0, 1, files=files))))
    assert [(disk.name, disk.spare, disk.serial) for disk in found] == [(f"nvme{n}", 90 - n, f"S{n}")
                                                                        for n in (1, 2, 10)]


def test_a_controllers_tool_runs_once_by_the_first_of_its_names_with_the_time_that_firmware_needs() -> None:
    assert raid_tools._tool("x", ("show",), "driver", ("a", "b", "c"), 7) == Probe(
        "raid.x", ProbeKind.COMMAND, argv=("a", "show"), tools=("b", "c"),
        each=("/sys/bus/pci/drivers/driver",), most=1,
        seconds=30.0, each_s=28.0, limit=7, root=True)
