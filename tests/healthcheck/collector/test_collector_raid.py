"""The real collector on a node with a RAID controller, from its tools' answers to what the rules say of
them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.facts.disk import RAID_SMART, SMART
from healthcheck.facts.gpu import PCI
from healthcheck.facts.raid_tools import TOOLS
from healthcheck.model.outcome import Status
from healthcheck.model.probes import Probe
from healthcheck.model.recording import Recording
from tests.healthcheck import machine, raid
from tests.healthcheck.checks.verdicts import findings_of, verdict
from tests.testbed.collector import collect

STORCLI = """for word in "$@"; do echo "$word"; done > {tree}/asked-$$
case "$1" in /call) cat {tree}/controllers.json;; *) cat {tree}/drives.json;; esac"""
SMARTCTL = """test "$1" = --scan && echo "/dev/bus/0 -d megaraid,8 # /dev/bus/0 [megaraid_disk_08], SCSI device" && exit
test "$*" = "-j -a -d megaraid,8 /dev/bus/0" && cat {tree}/drive.json && exit 8
exit 1"""  # noqa: E501


def node(tree: Path, tool: str = "") -> None:
    """A node with a PERC whose mirror lost a drive, and a drive that fails; with this tool, or with none."""
    held = {
        "sys/bus/pci/drivers/megaraid_sas/bind": "",
        f"sys/bus/pci/devices/"
        f"{raid.PERC}/uevent": f"DRIVER=megaraid_sas\nPCI_CLASS=10400\nPCI_ID=1000:10E2\n"
                               f"PCI_SLOT_NAME={raid.PERC}\n",
        "controllers.json": json.dumps({
            "Controllers": [
                raid.controller(**{
                    "VD LIST": [raid.volume(
                        state="Dgrd")], "PD LIST": [raid.drive(0), raid.drive(1, "Offln")]})]}),
        "drives.json": json.dumps({"Controllers": [raid.drives()]}), "drive.json": json.dumps({
            "device": {"protocol": "SCSI"}, "serial_number": "Z",
            "smart_status": {"passed": False}}), "bin/smartctl": f"#!/bin/sh\n{SMARTCTL.format(tree=tree)}\n",
        **({f"bin/{tool}": f"#!/bin/sh\n{STORCLI.format(tree=tree)}\n"} if tool else {})}
    for path, text in held.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    for path in (tree / "bin").iterdir():
        path.chmod(0o755)
    (tree / "run").mkdir()


def seen(tree: Path, monkeypatch: pytest.MonkeyPatch, smart: Probe = RAID_SMART) -> Recording:
    monkeypatch.setenv("PATH", f"{tree}/bin:/usr/bin:/bin")
    made = collect([PCI, SMART, smart, *TOOLS], tree, seconds=60.0)
    return replace(machine.recording(), captures={**machine.captures(), **made.captures})


@pytest.mark.parametrize("tool", ["storcli64", "perccli64", "perccli"])
def test_a_volume_without_a_drive_and_a_drive_that_fails_are_named_whatever_the_tool_is_called(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    node(tmp_path, tool)
    recording = seen(tmp_path, monkeypatch)
    assert findings_of(verdict("raid-volume-state", recording)) == (
        "volume 0/239 of controller 0 (RAID1): degraded (drive 252:1 offline), expected optimal")
    assert (findings_of(verdict("disk-smart-failed", recording))
            == "megaraid,8 on bus 0: failing, by its own report, expected passed")
    asked = sorted(path.read_text().split() for path in tmp_path.glob("asked-*"))
    assert asked == [["/call", "show", "all", "J", "nolog"], ["/call/eall/sall", "show", "all", "J", "nolog"]]


def test_without_a_tool_its_name_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node(tmp_path)
    result = verdict("raid-controller-state", seen(tmp_path, monkeypatch))
    assert (result.status is Status.UNKNOWN
            and "install storcli64 (Broadcom) or perccli64 (Dell)" in result.reason)


@pytest.mark.parametrize("scan", ["exit 1", "sleep 60", "echo '/dev/bus/0 -d megaraid' && exit",
                                  "printf '\\377\\000\\033[31m' && exit", "exit 0"],
                         ids=["fails", "hangs", "half", "rubbish", "nothing"])
def test_drives_behind_a_controller_that_the_scan_does_not_list_are_no_pass(
        scan: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node(tmp_path, "storcli64")
    (tmp_path / "bin/smartctl").write_text(f"#!/bin/sh\n[ \"$1\" = --scan ] && {scan}\nexit 1\n")
    recording = seen(tmp_path, monkeypatch, replace(RAID_SMART, seconds=2.0))
    result = verdict("disk-smart-failed",
                     replace(recording,
                             captures={**recording.captures, SMART.id: machine.captures()[SMART.id]}))
    assert result.status is Status.UNKNOWN, result
