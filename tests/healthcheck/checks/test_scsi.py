"""Rules of SCSI and SATA disks: state, commands without an answer, failing commands at and beyond their
limits, and what was not seen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.parsing import hexadecimal
from healthcheck.facts.scsi import state
from healthcheck.model.outcome import Status
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import status_findings, verdict

SDB = "sdb (INTEL SSDSC2KG480G8)"
STATE, TIMEOUTS, ERRORS = "disk-scsi-state", "disk-scsi-timeouts", "disk-scsi-errors-growing"
TRENDS = (TIMEOUTS, ERRORS)


def disks(**changes: str | FileCapture | None) -> Recording:
    """Two SATA disks and a BMC's virtual one; `changes` of sdb by file ("state", "ioerr_cnt") replace one, or
    take it away."""
    files: dict[str, FileCapture] = {}
    for name in ("sda", "sdb", "sdc"):
        texts: dict[str, str | FileCapture | None] = {
            "removable": "1\n" if name == "sdc" else "0\n", "device/state": "running\n",
            "device/model": "INTEL SSDSC2KG480G8\n",
            "device/iodone_cnt": "0x2710\n", "device/ioerr_cnt": "0x2a\n", "device/iotmo_cnt": "0x1\n",
        }
        if name == "sdb":
            texts |= {f"device/{file}": text for file, text in changes.items()}
        for file, text in texts.items():
            if text is not None:
                files[f"/sys/block/{name}/{file}"] = (text if isinstance(text, FileCapture)
                                                      else FileCapture(Outcome.DONE, text))
    return machine.recording(disk_scsi=Capture(Outcome.DONE, seconds=0.01, bytes=1, files=files))


@pytest.mark.parametrize(("rule", "now", "words"), [
    (STATE, disks(), ""),
    (STATE, disks(state="offline\n"), f"{SDB}: offline, expected running"),
    (STATE, disks(state="transport-offline\n"), f"{SDB}: transport-offline, expected running"),
    (STATE, disks(state="blocked\n"), f"{SDB}: blocked, expected running"),
    (TIMEOUTS, disks(), ""),
    (TIMEOUTS, disks(iotmo_cnt="0x3\n"),
     f"{SDB}: 2 commands without an answer since the earlier snapshot, expected at most 0"),
    (ERRORS, disks(), ""),
    # 100 of 1000 is not more than a tenth; one more is; of few commands 99 may fail.
    (ERRORS, disks(iodone_cnt="0x2af8\n", ioerr_cnt="0x8e\n"), ""),
    (ERRORS, disks(iodone_cnt="0x2af8\n", ioerr_cnt="0x8f\n"),
     f"{SDB}: 101 of 1000 commands failed since the earlier snapshot, expected at most 10%"),
    (ERRORS, disks(iodone_cnt="0x2774\n", ioerr_cnt="0x8d\n"), ""),
    (ERRORS, disks(iodone_cnt="0x2774\n", ioerr_cnt="0x8e\n"),
     f"{SDB}: 100 of 100 commands failed since the earlier snapshot, expected at most 10%"),
])
def test_a_disk_at_its_limit_passes_and_one_beyond_it_is_named(rule: str, now: Recording, words: str) -> None:
    assert status_findings(rule, now, disks()) == (Status.FAIL if words else Status.PASS, words)


def test_a_medium_that_comes_and_goes_is_no_ones_disk() -> None:
    gone = disks()
    entry = gone.captures["disk.scsi"].files["/sys/block/sdc/device/state"]._replace(text="offline\n")
    files = {**gone.captures["disk.scsi"].files, "/sys/block/sdc/device/state": entry}
    seen = machine.recording(disk_scsi=replace(gone.captures["disk.scsi"], files=files))
    assert verdict(STATE, seen).status is Status.PASS


@pytest.mark.parametrize("rule", [STATE, *TRENDS])
def test_a_node_without_such_disks_skips_the_rule(rule: str) -> None:
    result = verdict(rule, machine.recording(), machine.recording())
    assert result.status is Status.SKIPPED and "SCSI disks (none here)" in result.reason
    # the last one was taken away
    assert verdict(rule, machine.recording(), disks()).status is Status.SKIPPED


@pytest.mark.parametrize("rule", TRENDS)
def test_without_an_earlier_look_nothing_can_have_grown(rule: str) -> None:
    assert verdict(rule, disks()).status is Status.SKIPPED


@pytest.mark.parametrize("rule", TRENDS)
def test_a_disk_that_is_new_or_was_found_again_cannot_be_compared(rule: str) -> None:
    result = verdict(rule, disks(model="SAMSUNG MZ7LH480\n"), disks())
    assert (result.status, result.reason) == (Status.UNKNOWN, "sdb (SAMSUNG MZ7LH480): the earlier snapshot "
                                              "has no such scsi disk")
    assert verdict(rule, disks(), machine.recording()).status is Status.UNKNOWN
    fresh = {"iodone_cnt": "0x10\n", "ioerr_cnt": "0x0\n", "iotmo_cnt": "0x0\n"}
    assert verdict(rule, disks(**fresh), disks()).status is Status.UNKNOWN


def test_a_kernel_that_counts_no_timeouts_leaves_the_others_judged() -> None:
    result = verdict(TIMEOUTS, disks(iotmo_cnt=None), disks(iotmo_cnt=None))
    assert (result.status, result.reason) == (Status.PASS, f"not supported: timeouts of {SDB}")


@pytest.mark.parametrize(("rule", "file"), [(STATE, "state"), (TIMEOUTS, "iotmo_cnt"), (ERRORS, "ioerr_cnt"),
                                            (ERRORS, "iodone_cnt")])
@pytest.mark.parametrize("text",
                         ["", "0x\n", "12\n", "0x123456789\n", "sleeping\n", FileCapture(Outcome.DENIED)])
def test_what_could_not_be_read_is_unknown(rule: str, file: str, text: str | FileCapture) -> None:
    result = verdict(rule, disks(**{file: text}), disks())
    assert result.status is Status.UNKNOWN and SDB in result.reason


@pytest.mark.parametrize("rule", [STATE, *TRENDS])
def test_disks_that_could_not_be_listed_or_captured_are_unknown(rule: str) -> None:
    closed = machine.recording(disk_scsi=Capture(Outcome.DONE,
                                                 files={"/sys/block": FileCapture(Outcome.DENIED)}))
    assert verdict(rule, closed, disks()).status is Status.UNKNOWN
    late = machine.recording(disk_scsi=Capture(Outcome.WEDGED, note="wedged since noon"))
    assert verdict(rule, late, disks()).status is Status.UNKNOWN
    half = disks()
    files = {path: entry for path, entry in half.captures["disk.scsi"].files.items() if "/sda/" in path}
    cut = machine.recording(disk_scsi=replace(half.captures["disk.scsi"], outcome=Outcome.TRUNCATED,
                                              files=files))
    assert verdict(rule, cut, disks()).status is Status.UNKNOWN


@given(st.text(max_size=30))
def test_no_text_upsets_a_parser(text: str) -> None:
    for parse in (state, hexadecimal):
        try:
            assert parse(text) == (text if parse is state else int(text, 16))
        except ValueError:
            continue
