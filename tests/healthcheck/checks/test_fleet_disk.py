"""Fleet rules of disks: sizes by node, firmware and namespaces by model, among nodes of one kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from healthcheck.model.outcome import Status
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import cohort

SIZES, FIRMWARE, SPACES = "fleet-disk-sizes", "fleet-disk-firmware", "fleet-disk-namespaces"


def node(count: int = 8, more: dict[str, str] | None = None, **changes: str) -> Recording:
    """A node with so many NVMe drives and a SATA disk; `changes` as in machine.disks ("nvme3n1.size"), or of
    "sda.rev"."""
    held = machine.disks(count, **changes)
    for path, text in (more or {}).items():
        probe = "nvme.namespaces"
        held[probe] = Capture(Outcome.DONE, bytes=1,
                              files={**held[probe].files, path: FileCapture(Outcome.DONE, text)})
    texts = {"removable": "0\n", "size": "937703088\n", "device/state": "running\n",
             "device/model": "INTEL SSDSC2KG480G8\n",
             "device/rev": "0100\n", "device/iodone_cnt": "0x1\n", "device/ioerr_cnt": "0x0\n"}
    held["disk.scsi"] = machine.done(
        **{f"/sys/block/sda/{name}": changes.get(f"sda.{name.rpartition('/')[2]}", text)
           for name, text in texts.items()})
    return machine.recording(**{name.replace(".", "_", 1): capture for name, capture in held.items()})


ALIKE = [node() for _ in range(5)]
USUAL = "8 of 3.84 TB, 1 of 480 GB"
HALVES = {f"/sys/class/nvme/nvme3/nvme3n2/{name}": text
          for name, text in (("ro", "0\n"), ("size", "3750738264\n"))}
DRIVE = "nvme3 (0000:83:00.0)"


@pytest.mark.parametrize(("rule", "odd", "words"), [
    (SIZES, node(7), f"disks: 7 of 3.84 TB, 1 of 480 GB, expected {USUAL}, as on 5 of 6 nodes"),
    (SIZES, node(**{"nvme3n1.size": "3750748848\n"}),
     f"disks: 7 of 3.84 TB, 1 of 1.92 TB, 1 of 480 GB, expected {USUAL}, as on 5 of 6 nodes"),
    (SIZES, node(**{"sda.size": "1875385008\n"}),
     f"disks: 8 of 3.84 TB, 1 of 960 GB, expected {USUAL}, as on 5 of 6 nodes"),
    # Another maker rounds otherwise.
    (SIZES, node(**{"nvme3n1.size": "7501476400\n"}), ""),
    (FIRMWARE, node(**{"nvme3.firmware_rev": "EPK9AB5Q\n"}),
     f"{DRIVE}: EPK9AB5Q, expected EPK9CB5Q, as on 47 of 48 drives SAMSUNG MZWLJ3T8HBLS-00007"),
    (FIRMWARE, node(**{"sda.rev": "0080\n"}),
     "sda (INTEL SSDSC2KG480G8): 0080, expected 0100, as on 5 of 6 disks INTEL SSDSC2KG480G8"),
    # Another model has other firmware.
    (FIRMWARE, node(**{"nvme3.model": "KCD8XRUG3T84\n", "nvme3.firmware_rev": "0104\n"}), ""),
    (SPACES, node(more=HALVES, **{"nvme3n1.size": "3750738264\n"}),
     f"{DRIVE}: 2 namespaces, expected 1 namespaces, as on 47 of 48 drives SAMSUNG MZWLJ3T8HBLS-00007"),
])
def test_a_node_that_differs_is_named_by_one_rule_and_its_peers_pass(rule: str, odd: Recording,
                                                                     words: str) -> None:
    judged = {each: cohort(each, *ALIKE, odd) for each in (SIZES, FIRMWARE, SPACES)}
    assert {status for each in judged.values() for status, _ in each[:5]} == {Status.PASS}
    found = {each: said for each, results in judged.items()
             for status, said in results[5:] if status is Status.FAIL}
    assert found == ({rule: words} if words else {})


@pytest.mark.parametrize(("rule", "how"), [
    (SIZES, {"nvme3n1.size": "?\n"}), (SIZES, {"sda.size": ""}), (FIRMWARE, {"nvme3.firmware_rev": ""}),
    (SPACES, {"nvme3n1.size": "x\n"})])
def test_a_node_of_which_one_disk_was_not_read_is_unknown_and_its_peers_pass(rule: str,
                                                                             how: dict[str, str]) -> None:
    results = cohort(rule, *ALIKE, node(**how))
    assert [status for status, _ in results] == [Status.PASS] * 5 + [Status.UNKNOWN]


def remote(**more: Any) -> Recording:
    """A node with a namespace over a network, a LUN over iSCSI and a disk on USB, which its peers do not
    have."""
    held = machine.disks()
    far = {"state": "live", "model": "Linux", "serial": "1", "firmware_rev": "6.8.0", "transport": "tcp",
           "address": "traddr=10.0.0.1,trsvcid=4420"}
    drives = {f"/sys/class/nvme/nvme8/{name}": FileCapture(Outcome.DONE, f"{text}\n")
              for name, text in far.items()}
    spaces = {f"/sys/class/nvme/nvme8/nvme8n1/{name}": FileCapture(Outcome.DONE, text)
              for name, text in (("ro", "0\n"), ("size", "2048\n"))}
    scsi = dict(node().captures["disk.scsi"].files)
    for name, above in (("sdb", "device/../../iscsi_session/session1/state"),
                        ("sdc", "device/../../../bInterfaceClass")):
        scsi |= {path.replace("/sda/", f"/{name}/"): entry
                 for path, entry in list(scsi.items()) if "/sda/" in path}
        scsi[f"/sys/block/{name}/{above}"] = FileCapture(Outcome.DONE, "LOGGED_IN\n")
        scsi[f"/sys/block/{name}/size"] = FileCapture(Outcome.DONE, "4096\n")
        scsi[f"/sys/block/{name}/device/rev"] = FileCapture(Outcome.DONE, "4.0\n")
    held["nvme.sysfs"] = Capture(Outcome.DONE, bytes=1, files={**held["nvme.sysfs"].files, **drives})
    held["nvme.namespaces"] = Capture(Outcome.DONE, bytes=1,
                                      files={**held["nvme.namespaces"].files, **spaces})
    held["disk.scsi"] = Capture(Outcome.DONE, bytes=1, files=scsi)
    return machine.recording(**{name.replace(".", "_", 1): capture for name, capture in held.items()}, **more)


@pytest.mark.parametrize("rule", [SIZES, FIRMWARE, SPACES])
def test_disks_that_are_not_the_nodes_own_are_not_compared(rule: str) -> None:
    assert [status for status, _ in cohort(rule, *ALIKE, remote())] == [Status.PASS] * 6


@pytest.mark.parametrize("lacking", [
    {"gpu_pci": machine.done(
        **{"/sys/bus/pci/devices/0000:90:00.0/uevent": f"{driver}PCI_CLASS=10802\nPCI_ID=144D:A824\n"})}
    for driver in ("DRIVER=vfio-pci\n", "")]
                         + [{"nvme_namespaces": node(**{"nvme3n1.size": "0\n"}).captures["nvme.namespaces"]},
{"disk_scsi": machine.done(**{"/sys/block/sda/removable": "0\n",
                              "/sys/block/sda/device/state": "running\n"})}])
def test_a_node_of_which_the_kernel_lacks_a_drive_is_accused_of_that_and_not_of_its_sizes(
        lacking: dict[str, Capture]) -> None:
    whole = node()
    odd = replace(whole, captures={**whole.captures, **{name.replace("_", ".", 1): capture
                                                        for name, capture in lacking.items()}})
    results = cohort(SIZES, *ALIKE, odd)
    assert [status for status, _ in results] == [Status.PASS] * 5 + [Status.SKIPPED]
    assert "a drive is there that the kernel does not have in whole" in results[5][1]


@pytest.mark.parametrize("rule", [SIZES, FIRMWARE, SPACES])
def test_nodes_without_a_disk_are_skipped(rule: str) -> None:
    nothing = {name: machine.done() for name in ("nvme_sysfs", "nvme_namespaces", "disk_scsi")}
    assert {status for status,
            _ in cohort(rule, *(machine.recording(**nothing) for _ in range(4)))} == {Status.SKIPPED}
