"""Rules of rules/disk.yaml and rules/raid.yaml: what passes and what fails, at the limit and beyond it, and
what could not be seen."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from healthcheck.checks.growth import HOUR
from healthcheck.model.outcome import Repair, Status
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from tests.healthcheck import machine, raid
from tests.healthcheck.checks.verdicts import after, findings_of, ids, status_findings, verdict

NAME = "nvme3 (SAMSUNG MZWLJ3T8HBLS-00007)"


def files(**changes: str) -> Recording:
    """The healthy machine with some texts of its drives and its array replaced ("nvme3.state",
    "md0.degraded")."""
    held = machine.disks(**changes)
    return machine.recording(**{name.replace(".", "_", 1): capture for name, capture in held.items()})


def smart(**log: Any) -> Recording:
    return machine.recording(disk_smart=machine.smart(nvme3=dict(log)))


def logged(*lines: str, seconds: float = 100.0, later: float = 0.0) -> Recording:
    """The healthy machine, whose kernel said this, and so much later something harmless."""
    text = machine.KMSG + "".join(f"3,{100 + n},{int(seconds * 1e6)},-;{line}\n"
                                  for n, line in enumerate(lines))
    text += f"6,900,{int((seconds + later) * 1e6)},-;perf: interrupt took too long\n"
    return machine.recording(kernel_log=machine.done(**{"/dev/kmsg": text}))


def ata(**raw: int) -> Recording:
    """One SATA disk with these attributes (a5, a187, a197, a198)."""
    return of_ata(*({"id": int(name[1:]), "name": "x", "raw": {"value": value, "string": str(value)}}
                    for name, value in raw.items()))


def of_ata(*table: dict[str, Any], **more: Any) -> Recording:
    """One SATA disk with this table of attributes, and more members."""
    return one_disk("sda", {"device": {"protocol": "ATA"}, "model_name": "INTEL SSDSC2KG480G8",
                            "serial_number": "PHYG0", "smart_status": {"passed": True},
                            "ata_smart_attributes": {"table": list(table)}, **more})


def wear(number: int, name: str, left: int) -> dict[str, Any]:
    return {"id": number, "name": name, "value": left, "worst": left, "thresh": 0, "when_failed": "",
            "raw": {"value": 3}}


def at_threshold(number: int, name: str, prefailure: bool, when: str = "now") -> dict[str, Any]:
    return {"id": number, "name": name, "value": 1, "thresh": 10, "when_failed": when,
            "flags": {"prefailure": prefailure}, "raw": {"value": 0}}


def scsi(**members: Any) -> Recording:
    return one_disk("sda", {"device": {"protocol": "SCSI"}, "smart_status": {"passed": True}, **members})


def nvme_test(*results: int) -> Recording:
    """The results of self-tests, newest first."""
    table = [{"self_test_code": {"value": 1},
              "self_test_result": {"value": value, "string": f"result {value}"},
              "power_on_hours": 900 - at} for at, value in enumerate(results)]
    return one_disk("nvme0", {"smart_status": {"passed": True}, "nvme_self_test_log": {"table": table}})


def ata_test(*passed: bool | None) -> Recording:
    table = [{"type": {"value": 1},
              "status": {"value": 0, "string": "Completed: read failure" if ended is False else "x"}
              | ({} if ended is None else {"passed": ended}), "lifetime_hours": 12} for ended in passed]
    return of_ata(ata_smart_self_test_log={"standard": {"table": table}})


def one_disk(device: str, document: Any, code: int = 0) -> Recording:
    text = document if isinstance(document, str) else machine.json.dumps(document)
    entry = FileCapture(Outcome.DONE, f"exit {code}\n{text}")
    return machine.recording(disk_smart=Capture(Outcome.DONE, seconds=0.1, bytes=1,
                                                files={f"/sys/block/{device}": entry}))


def paths(**states: str | None) -> Recording:
    """A disk over two paths, sdb and sdc, beside a volume of LVM; `states` replace those of paths, None takes
    one away."""
    held = {"sdb": "running\n", "sdc": "running\n", **states}
    texts = {f"/sys/block/dm-0/slaves/{path}/device/state": state
             for path, state in held.items() if state is not None}
    return machine.recording(disk_multipath=machine.done(**{
        "/sys/block/dm-0/dm/name": "mpatha\n",
        "/sys/block/dm-0/dm/uuid": "mpath-3600508b400105e210000900000490000\n",
        "/sys/block/dm-1/dm/name": "vg-root\n", "/sys/block/dm-1/dm/uuid": "LVM-o2hsJR\n",
        "/sys/block/dm-1/slaves/sda/device/state": "offline\n", **texts}))


PASSING: list[tuple[str, Recording]] = [
    ("disk-nvme-state", files()), ("disk-nvme-pcie", files()), ("disk-nvme-driven", files()),
    ("disk-nvme-pcie",
     files(**{"nvme3.max_link_speed": "32.0 GT/s PCIe\n", "nvme3.../max_link_speed": "16.0 GT/s PCIe\n"})),
    ("disk-nvme-temperature", files(**{"nvme3.temp1_input": "81850\n"})),
    ("disk-nvme-temperature", files(**{"nvme3.temp1_input": "75000\n", "nvme3.temp1_max": "-273150\n"})),
    ("disk-smart-failed", smart()), ("disk-smart-warning", smart(critical_warning=0)),
    ("disk-smart-media-errors", smart(media_errors=0)),
    ("disk-smart-spare", smart(available_spare=20)),
    ("disk-smart-spare", smart(available_spare=100, available_spare_threshold=97)),
    ("disk-multipath-path", paths()), ("disk-multipath-path", paths(sdc="live\n")),
    # Half used in 360 days: as many are left. A tenth of the life is the least that is judged, and 90% are
    # worn.
    ("disk-smart-life", smart(percentage_used=50, power_on_hours=180 * 24)),
    ("disk-smart-life", smart(percentage_used=9, power_on_hours=24)),
    ("disk-smart-life", smart(percentage_used=90, power_on_hours=24)),
    ("disk-smart-life", smart(percentage_used=50, power_on_hours=0)),
    ("disk-smart-wear", smart(percentage_used=89)), ("disk-smart-reallocated", ata(a5=10)),
    ("disk-smart-pending", ata(a197=0)), ("disk-smart-uncorrectable", ata(a198=0, a197=9)),
    ("disk-smart-unrecovered", ata(a187=0)),
    ("disk-smart-unrecovered", scsi(scsi_error_counter_log={"read": {"total_uncorrected_errors": 0}})),
    ("disk-smart-wear", of_ata(wear(177, "Wear_Leveling_Count", 11))),
    ("disk-smart-wear", scsi(scsi_percentage_used_endurance_indicator=89)),
    # smartctl's own figure goes before the maker's attribute.
    ("disk-smart-wear",
     of_ata(wear(233, "Media_Wearout_Indicator", 1), endurance_used={"current_percent": 9})),
    ("disk-smart-failed", of_ata(at_threshold(190, "Airflow_Temperature_Cel", False))),
    ("disk-smart-failed", of_ata(at_threshold(5, "Reallocated_Sector_Ct", True, "past"))),
    # All that these sum up has rules of its own.
    ("disk-smart-failed", smart(passed=False, critical_warning=0x02)),
    ("disk-smart-warning", smart(passed=False, critical_warning=0x03)),
    ("disk-smart-spare-low", smart(available_spare=10)), ("disk-smart-spare", smart(available_spare=4)),
    ("disk-smart-self-test", nvme_test(1, 0, 7)), ("disk-smart-self-test", ata_test(None, True, False)),
    ("disk-smart-self-test", scsi(scsi_self_test_0={"result": {"value": 1}},
                                  scsi_self_test_1={"result": {"value": 0}},
                                  scsi_self_test_2={"result": {"value": 4}})),
    ("disk-smart-temperature", machine.recording(nvme_temperature=machine.done())),
    ("disk-nvme-pcie-speed", files()), ("disk-nvme-namespace", files()), ("disk-nvme-read-only", files()),
    ("disk-smart-defects", one_disk("sda", {"smart_status": {"passed": True}, "scsi_grown_defect_list": 10})),
    ("raid-state", files(**{"md0.array_state": "readonly\n"})), ("raid-degraded", files()),
    ("raid-rebuilding", files(**{"md0.sync_action": "check\n"})), ("raid-frozen", files()),
    # As the kernel has a container of Intel's firmware RAID: level_show gives nothing without a personality.
    ("raid-state", files(**{"md0.level": "", "md0.raid_disks": "", "md0.array_state": "inactive\n",
                            "md0.metadata_version": "external:imsm\n"})),
    ("raid-mismatch", files(**{"md0.mismatch_cnt": "128\n"})), ("zpool-healthy", files()),
    ("disk-log-io-errors", logged("Buffer I/O error on dev sr0, logical block 0, async page read")),
    ("disk-log-io-errors", logged("critical target error, dev sda, sector 2048 op 0x3:(DISCARD) flags 0x800 "
                                  "phys_seg 1 prio class 0")),
    ("disk-log-io-errors",
     logged("operation not supported error, dev nvme0n1, sector 8 op 0x9:(WRITE_ZEROES) flags 0x0")),
    # An unprivileged user's own file system, of an image that is shorter than it says, has the kernel say
    # this.
    ("disk-log-io-errors", logged("python3: attempt to access beyond end of device")),
    ("disk-log-nvme-resets", logged("nvme nvme0: 128/0/0 default/read/poll queues")),
    ("disk-log-nvme-dead", logged("nvme nvme3: I/O 1 QID 2 timeout, reset controller")),
    ("disk-log-filesystem",
     logged("EXT4-fs (sda1): re-mounted ro. Quota mode: none.", "XFS (md0): Ending clean mount")),
]
FAILING: list[tuple[str, Recording, str]] = [
    ("disk-nvme-state", files(**{"nvme3.state": "resetting\n"}),
     "nvme3 (0000:83:00.0): resetting, expected live"),
    ("disk-nvme-pcie", files(**{"nvme3.current_link_width": "2\n"}), "nvme3 (0000:83:00.0): x2, expected x4"),
    ("disk-nvme-pcie-speed", files(**{"nvme3.current_link_speed": "8.0 GT/s PCIe\n"}),
     "nvme3 (0000:83:00.0): 8 GT/s, expected 16 GT/s"),
    ("disk-nvme-temperature", files(**{"nvme3.temp1_input": "82850\n"}),
     "nvme3: 83 C, expected at most 81.85 C"),
    ("disk-nvme-temperature", files(**{"nvme3.temp1_input": "75850\n", "nvme3.temp1_max": "0\n"}),
     "nvme3: 76 C, expected at most 75 C"),
    ("disk-smart-failed", smart(passed=False), f"{NAME}: failing, by its own report, expected passed"),
    ("disk-smart-warning", smart(critical_warning=0x88),
     f"{NAME}: 0x88: the media is read-only; bit 7, expected no critical warning"),
    ("disk-smart-media-errors", smart(media_errors=1),
     f"{NAME}: 1 media and data integrity errors, expected at most 0"),
    ("disk-smart-spare", smart(available_spare=19),
     f"{NAME}: 19% spare (its threshold is 10%), expected at least 20%"),
    ("disk-multipath-path", paths(sdc="transport-offline\n"),
     "mpatha: 1 of 2 paths lost: sdc transport-offline, expected every path in use"),
    ("disk-smart-life", smart(percentage_used=50, power_on_hours=179 * 24),
     f"{NAME}: 50% of its life used in 179 days of operation: 179 days left at that rate, expected at least "
     f"180 days"),
    ("disk-smart-life", of_ata(wear(177, "Wear_Leveling_Count", 60), power_on_time={"hours": 40 * 24}),
     "sda (INTEL SSDSC2KG480G8): 40% of its life used in 40 days of operation: 60 days left at that rate, "
     "expected at least 180 days"),
    ("disk-smart-wear", smart(percentage_used=90), f"{NAME}: 90% of its life used, expected below 90%"),
    ("disk-smart-wear", smart(percentage_used=255), f"{NAME}: 255% of its life used, expected below 90%"),
    ("disk-smart-reallocated", ata(a5=11, a197=0),
     "sda (INTEL SSDSC2KG480G8): 11 reallocated sectors, expected at most 10"),
    ("disk-smart-pending", ata(a197=1),
     "sda (INTEL SSDSC2KG480G8): 1 pending sectors, expected at most 0"),
    ("disk-smart-uncorrectable", ata(a5=0, a198=2),
     "sda (INTEL SSDSC2KG480G8): 2 uncorrectable sectors, expected at most 0"),
    ("disk-smart-unrecovered", ata(a187=3),
     "sda (INTEL SSDSC2KG480G8): 3 errors that were not corrected, expected at most 0"),
    ("disk-smart-unrecovered",
     scsi(scsi_error_counter_log={"read": {"total_uncorrected_errors": 1},
                                  "write": {"total_uncorrected_errors": 0},
                                  "verify": {"total_uncorrected_errors": 2}}),
     "sda: 3 errors that were not corrected, expected at most 0"),
    *((("disk-smart-wear", of_ata(wear(number, name, 7)),
        "sda (INTEL SSDSC2KG480G8): 93% of its life used, expected below 90%"))
      for number,
      name in ((202, "Percent_Lifetime_Remain"), (231, "SSD_Life_Left"), (169, "Remaining_Lifetime_Perc"),
               (233, "Media_Wearout_Indicator"), (177, "Wear_Leveling_Count"))),
    ("disk-smart-wear", scsi(scsi_percentage_used_endurance_indicator=101),
     "sda: 101% of its life used, expected below 90%"),
    ("disk-smart-failed", of_ata(at_threshold(5, "Reallocated_Sector_Ct", True)),
     "sda (INTEL SSDSC2KG480G8): failing now: attribute 5 Reallocated_Sector_Ct, expected every "
     "attribute above "
     "its threshold"),
    ("disk-smart-temperature",
     machine.recording(nvme_temperature=machine.done(),
                       disk_smart=machine.smart(nvme3={"critical_warning": 2})),
     f"{NAME}: a temperature is beyond its threshold, expected within its thresholds"),
    ("disk-nvme-temperature", files(**{"nvme3.temp1_alarm": "1\n"}),
     "nvme3: 39 C, and its temperature alarm is on, expected no alarm"),
    ("disk-smart-spare-low", smart(critical_warning=1),
     f"{NAME}: the spare is below its threshold, expected above it"),
    ("disk-smart-spare-low", smart(available_spare=9),
     f"{NAME}: the spare is below its threshold, expected above it"),
    ("disk-smart-self-test", nvme_test(2, 7, 0),
     "nvme0: result 7, after 899 h of operation, expected a self-test that passes"),
    ("disk-smart-self-test", ata_test(None, False, True),
     "sda (INTEL SSDSC2KG480G8): Completed: read failure, after 12 h of operation, expected a self-test "
     "that passes"),
    ("disk-smart-self-test",
     scsi(scsi_self_test_0={"result": {"value": 6, "string": "Failed in second segment"}}),
     "sda: Failed in second segment, expected a self-test that passes"),
    ("disk-nvme-namespace", files(**{"nvme3n1.size": "0\n"}),
     "nvme3 (0000:83:00.0): no namespace, or none with any bytes, expected at least one"),
    ("disk-nvme-read-only", files(**{"nvme3n1.ro": "1\n"}), "nvme3n1: read-only, expected writable"),
    ("disk-smart-defects", one_disk("sda", {"scsi_grown_defect_list": 11}),
     "sda: 11 grown defects, expected at most 10"),
    ("raid-state", files(**{"md0.array_state": "inactive\n"}),
     "md0 (raid1): inactive, expected active or clean"),
    # A raid0 without one of its disks is never started, and the kernel knows no level for it either.
    *(("raid-state", files(**{"md0.level": "", "md0.raid_disks": "0\n", "md0.array_state": "inactive\n",
                              "md0.metadata_version": version}),
       "md0 (): inactive, expected active or clean")
      for version in ("1.2\n", "external:/md127/0\n", "external:-md127/0\n")),
    ("raid-degraded", files(**{"md0.degraded": "1\n", "md0.dev-nvme1n1p2/state": "faulty,timeout\n"}),
     "md0 (raid1): 1 of 2 members missing (faulty: nvme1n1p2), expected all members"),
    ("raid-degraded", files(**{"md0.degraded": "1\n", "md0.raid_disks": "", "md0.sync_action": "",
                               "md0.dev-nvme1n1p2/state": ""}),
     "md0 (raid1): 1 member missing, expected all members"),
    ("raid-degraded", files(**{"md0.degraded": "1\n", "md0.sync_action": "recover\n",
                               "md0.sync_completed": "250 / 1000\n",
                               "md0.dev-nvme1n1p2/state": "spare\n"}),
     "md0 (raid1): 1 of 2 members missing, rebuilt now, expected all members"),
    ("raid-degraded", files(**{"md0.level": "raid6\n", "md0.raid_disks": "4\n", "md0.degraded": "2\n",
                               "md0.sync_action": "recover\n", "md0.dev-nvme1n1p2/state": "spare\n"}),
     "md0 (raid6): 2 of 4 members missing, expected all members"),
    ("raid-frozen", files(**{"md0.sync_action": "frozen\n"}),
     "md0 (raid1): frozen: no rebuild and no check begins, expected idle"),
    ("raid-rebuilding", files(**{"md0.sync_action": "recover\n", "md0.sync_completed": "250 / 1000\n"}),
     "md0 (raid1): recover, 25% done, expected idle"),
    ("raid-mismatch", files(**{"md0.level": "raid6\n", "md0.mismatch_cnt": "8\n"}),
     "md0 (raid6): 8 sectors disagree with their parity, expected 0"),
    ("zpool-healthy",
     machine.recording(raid_zfs=machine.done(**{"/proc/spl/kstat/zfs/tank/state": "SUSPENDED\n"})),
     "pool tank: SUSPENDED, expected ONLINE"),
    ("disk-nvme-driven", machine.recording(gpu_pci=machine.done(**{
        "/sys/bus/pci/devices/0000:90:00.0/uevent": "PCI_CLASS=10802\nPCI_ID=144D:A824\n"})),
     "NVMe drive 0000:90:00.0: on the PCI bus, and no driver runs it, expected a controller below "
     "/sys/class/nvme"),
]
LINES: list[tuple[str, str, str]] = [
    ("disk-log-io-errors", "sda",
     "I/O error, dev sda, sector 1953 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2"),
    ("disk-log-io-errors", "sda", "blk_update_request: I/O error, dev sda, sector 1953"),
    ("disk-log-io-errors", "sdb",
     "critical medium error, dev sdb, sector 7 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2"),
    ("disk-log-io-errors", "dm-3", "Buffer I/O error on dev dm-3, logical block 12, lost async page write"),
    ("disk-log-io-errors", "nvme0n1", "block nvme0n1: no available path - failing I/O"),
    ("disk-log-io-errors", "sdc1", "md/raid1:md0: Disk failure on sdc1, disabling device."),
    ("disk-log-io-errors", "nvme2n1",
     "nvme2n1: I/O Cmd(0x2) @ LBA 80034816, 256 blocks, I/O Error (sct 0x2 / sc 0x81) DNR: Media Error"),
    ("disk-log-io-errors", "sda1", "EXT4-fs (sda1): I/O error while writing superblock"),
    ("disk-log-filesystem", "sda2",
     "EXT4-fs error (device sda2): ext4_lookup:1785: inode #2: comm ls: deleted inode referenced: 12"),
    ("disk-log-filesystem", "nvme0n1p2", "EXT4-fs (nvme0n1p2): Remounting filesystem read-only"),
    ("disk-log-filesystem", "md1",
     "XFS (md1): metadata I/O error in \"xfs_trans_read_buf_map\" at daddr 0x2 len 1 error 5"),
    ("disk-log-filesystem", "dm-0", "BTRFS error (device dm-0 state EA): forced readonly"),
    ("disk-log-nvme-resets", "nvme1", "nvme nvme1: I/O 402 (I/O Cmd) QID 17 timeout, aborting"),
    ("disk-log-nvme-resets", "nvme1",
     "nvme nvme1: I/O tag 12 (a00c) opcode 0x1 (Admin Cmd) QID 0 timeout, reset controller"),
    ("disk-log-nvme-resets", "nvme1",
     "nvme nvme1: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10"),
    ("disk-log-nvme-dead", "nvme5", "nvme nvme5: Disabling device after reset failure: -19"),
    ("disk-log-nvme-dead", "nvme5", "nvme nvme5: Removing after probe failure status: -19"),
    ("disk-log-nvme-dead", "nvme5", "nvme nvme5: Device not ready; aborting initialisation, CSTS=0x0"),
]
TRENDS = {"disk-smart-media-errors-growing": "media_errors",
          "disk-smart-unsafe-shutdowns": "unsafe_shutdowns"}
# Trends with tests of their own below.
OWN = {"disk-smart-life-now", "disk-multipath-lost"}


@pytest.mark.parametrize(("rule", "recording"), PASSING)
def test_a_disk_at_its_limit_passes(rule: str, recording: Recording) -> None:
    assert status_findings(rule, recording) == (Status.PASS, "")


@pytest.mark.parametrize(("rule", "recording", "words"), FAILING)
def test_a_disk_beyond_it_is_named_and_no_other(rule: str, recording: Recording, words: str) -> None:
    assert status_findings(rule, recording) == (Status.FAIL, words)


@pytest.mark.parametrize(("rule", "device", "line"), LINES)
def test_a_line_of_the_kernel_fails_for_the_device_that_it_names(rule: str, device: str, line: str) -> None:
    (found,) = verdict(rule, logged(line)).findings
    assert (found.subject, found.observed) == (device, f"100 s after boot, 20 s ago: {line}")
    older = verdict(rule, logged(line, later=24 * 3600 + 1))
    if rule == "disk-log-nvme-resets":
        assert (older.status, older.reason) == (Status.PASS, f"over, quiet for 24 h: {device}, 24 h ago")
    else:                   # a disk's error does not end by age
        assert [(f.subject, f.log and f.log.count) for f in older.findings] == [(device, 1)]


@pytest.mark.parametrize(("rule", "counter"), TRENDS.items())
def test_a_counter_of_a_disk_is_compared_with_the_earlier_look(rule: str, counter: str) -> None:
    assert verdict(rule, smart(**{counter: 20})).status is Status.SKIPPED
    assert verdict(rule, smart(**{counter: 20}), smart(**{counter: 20})).status is Status.PASS
    result = verdict(rule, smart(**{counter: 20}), smart(**{counter: 18}))
    assert result.status is Status.FAIL and findings_of(result).startswith(f"{NAME}: 2 more")
    assert verdict(rule, smart(**{counter: 1}), smart(**{counter: 20})).status is Status.UNKNOWN


def test_a_drive_that_is_new_and_has_lost_data_cannot_be_compared() -> None:
    before = machine.recording(disk_smart=machine.smart(2))
    assert verdict("disk-smart-media-errors-growing", smart(), before).status is Status.PASS
    assert verdict("disk-smart-media-errors-growing", smart(media_errors=1), before).status is Status.UNKNOWN


def test_life_that_goes_fast_between_two_looks_is_named_with_the_days_that_are_left() -> None:
    def used(percent: int, hours: float = 0) -> Recording:
        return after(smart(percentage_used=percent), hours * HOUR)

    rule = "disk-smart-life-now"
    assert verdict(rule, used(60)).status is Status.SKIPPED
    # One per cent may be a step that was due; two in a day are 20 days for the other 40.
    assert verdict(rule, used(60, 24), used(59)).status is Status.PASS
    result = verdict(rule, used(60, 24), used(58))
    assert (findings_of(result)
            == f"{NAME}: 2% of its life used in 24.0 h: 20.0 days left at that rate, expected at "
               f"least 30 days")
    assert verdict(rule, used(60, 36), used(58)).status is Status.PASS
    assert verdict(rule, used(60, 1), used(58)).status is Status.FAIL
    assert verdict(rule, used(60, 0.9), used(58)).status is Status.PASS
    assert findings_of(verdict(rule, used(103, 24),
                               used(99))).startswith(f"{NAME}: 4% of its life used in 24.0 h: 0.0 days left")
    assert verdict(rule, used(50, 24), used(58)).status is Status.UNKNOWN


def test_a_path_that_the_kernel_took_out_is_missed() -> None:
    rule = "disk-multipath-lost"
    assert verdict(rule, paths()).status is Status.SKIPPED
    assert verdict(rule, paths(), paths()).status is Status.PASS
    assert verdict(rule, paths(sdd="running\n"), paths()).status is Status.PASS
    assert findings_of(verdict(rule, paths(sdc=None),
                               paths())) == "mpatha: 1 paths, expected 2, as in the earlier snapshot"


@pytest.mark.parametrize("path", ["slaves/sdc/device/state", "dm/uuid"])
def test_a_path_that_cannot_be_read_is_unknown(path: str) -> None:
    held = paths().captures["disk.multipath"]
    files = {name: entry._replace(outcome=Outcome.DENIED, text="") if name.endswith(path) else entry
             for name, entry in held.files.items()}
    result = verdict("disk-multipath-path", machine.recording(disk_multipath=replace(held, files=files)))
    assert result.status is Status.UNKNOWN


# ---- drives behind a RAID controller, by smartctl -d megaraid,N


def behind(*drives: tuple[str, dict[str, Any]], **more: Any) -> Recording:
    """A node with a PERC: smartctl sees the volume, which it cannot ask, and these drives behind it."""
    said = json.dumps(
        {"smartctl": {
            "messages": [{"string": "DELL or MegaRaid controller, please try adding '-d megaraid,N'"}]}})
    shown = {"/sys/block/sda": FileCapture(Outcome.DONE, f"exit 2\n{said}")}
    entries = {f"/dev/bus/0/{kind}": FileCapture(Outcome.DONE, f"exit 0\n{json.dumps(document)}")
               for kind, document in drives}
    held: dict[str, Any] = {
        "gpu_pci": raid.bus(megaraid_sas=raid.PERC),
        "disk_smart": Capture(Outcome.DONE, bytes=1, files=shown),
        "disk_raid-smart": Capture(Outcome.DONE, bytes=1, files=entries), **more}
    return machine.recording(**{name: capture for name, capture in held.items() if capture is not None})


def sas(serial: str, **members: Any) -> dict[str, Any]:
    return {"device": {"protocol": "SCSI", "type": "megaraid,8"}, "scsi_model_name": "SEAGATE ST18000NM000D",
            "serial_number": serial,
            "smart_status": {"passed": True}, "scsi_grown_defect_list": 0, **members}


def test_drives_behind_a_raid_controller_are_judged_by_their_own_smart() -> None:
    seen = behind(("megaraid,8", sas("A")),
                  ("sat+megaraid,12", {**sas("B"), "smart_status": {"passed": False}}))
    result = verdict("disk-smart-failed", seen)
    assert (findings_of(result)
            == "sat+megaraid,12 on bus 0 (SEAGATE ST18000NM000D): failing, by its own report, "
               "expected passed")
    assert verdict("disk-smart-defects",
                   behind(("megaraid,8", sas("A", scsi_grown_defect_list=11)))).status is Status.FAIL


def test_a_drive_that_its_controller_passes_on_is_judged_once() -> None:
    broken = {**sas("A"), "smart_status": {"passed": False}}
    shown = Capture(Outcome.DONE, bytes=1,
                    files={"/sys/block/sda": FileCapture(Outcome.DONE, f"exit 8\n{json.dumps(broken)}")})
    result = verdict("disk-smart-failed",
                     behind(("megaraid,8", broken), ("megaraid,9", sas("B")), disk_smart=shown))
    assert [finding.subject for finding in result.findings] == ["sda (SEAGATE ST18000NM000D)"]


@pytest.mark.parametrize("outcome", [None, Outcome.TIMEOUT, Outcome.DENIED, Outcome.UNABLE, Outcome.CRASHED])
def test_drives_behind_a_controller_that_were_not_asked_are_no_pass_and_need_no_asking_without_one(
        outcome: Outcome | None) -> None:
    lacking = {"disk_raid-smart": Capture(outcome)} if outcome else {}
    seen = behind(**lacking)
    captures = {name: one for name, one in seen.captures.items() if outcome or name != "disk.raid-smart"}
    assert verdict("disk-smart-failed", replace(seen, captures=captures)).status is Status.UNKNOWN
    without = {**captures, "gpu.pci": machine.pci(), "disk.smart": machine.smart(1)}
    assert verdict("disk-smart-failed", replace(seen, captures=without)).status is Status.PASS


@pytest.mark.parametrize(("above", "how"), [
    ("device/../../iscsi_session/session1/state", "over iSCSI"),
    ("device/../../fc_remote_ports/rport-1:0-0/port_state", "over Fibre Channel")])
def test_a_disk_over_a_fabric_is_not_asked_for_smart(above: str, how: str) -> None:
    held = machine.smart(2)
    broken = FileCapture(Outcome.DONE, "exit 4\n{}")
    seen = machine.recording(disk_smart=replace(held, files={**held.files, "/sys/block/sdb": broken}),
                             disk_scsi=machine.done(**{"/sys/block/sdb/removable": "0\n",
                                                       f"/sys/block/sdb/{above}": "x\n"}))
    result = verdict("disk-smart-failed", seen)
    assert result.status is Status.PASS and f"sdb ({how})" in result.reason


# Tested elsewhere: what counts disks, and what SCSI says.
_ELSEWHERE = {"disk-nvme-count", "disk-nvme-driven", "disk-scsi-errors-growing", "disk-scsi-state",
              "disk-scsi-timeouts"}
FILE_PROBES = ("nvme_sysfs", "nvme_namespaces", "nvme_temperature", "raid_md", "raid_zfs", "disk_multipath")
SMART_RULES = sorted(rule for rule in ids("disk.yaml") if rule.startswith("disk-smart-"))
LOG_RULES = sorted(rule for rule in ids("disk.yaml") if rule.startswith("disk-log-"))
FILE_RULES = sorted(ids("raid.yaml") | ids("disk.yaml") - OWN - _ELSEWHERE - set(SMART_RULES)
                    - set(LOG_RULES))


@pytest.mark.parametrize("rule", FILE_RULES)
def test_a_node_without_such_a_device_is_skipped_and_says_so(rule: str) -> None:
    result = verdict(rule, machine.recording(**dict.fromkeys(FILE_PROBES, machine.done())))
    assert result.status is Status.SKIPPED and "(none here)" in result.reason


@pytest.mark.parametrize("rule", FILE_RULES)
def test_what_was_not_captured_is_unknown(rule: str) -> None:
    crashed = Capture(Outcome.CRASHED, seconds=5.0, bytes=0, note="its turn never came")
    assert verdict(rule, machine.recording(**dict.fromkeys(FILE_PROBES, crashed))).status is Status.UNKNOWN


@pytest.mark.parametrize("rule", SMART_RULES)
def test_smart_is_skipped_without_smartctl_and_unknown_where_it_may_not_be_asked(rule: str) -> None:
    for capture, status, reason in (
        (Capture(Outcome.MISSING, note="smartctl is not in the path"), Status.SKIPPED,
         "smartctl is not installed"),
        (Capture(Outcome.DENIED), Status.UNKNOWN, "permission denied")):
        seen = machine.recording(disk_smart=capture)
        result = verdict(rule, seen, seen)
        assert result.status is status and reason in result.reason


def not_opened(why: str) -> Recording:
    """smartctl could not open the disk."""
    told = {"string": f"Smartctl open device: /dev/sda failed: {why}", "severity": "error"}
    return one_disk("sda", {"smartctl": {"exit_status": 2, "messages": [told]}}, code=2)


@pytest.mark.parametrize("rule", [rule for rule in SMART_RULES if rule != "disk-smart-defects"])
def test_a_drive_that_smartctl_could_not_ask_is_unknown_and_says_why(rule: str) -> None:
    seen = not_opened("No such device")
    result = verdict(rule, seen, seen)
    assert result.status is Status.UNKNOWN and "No such device" in result.reason


def test_a_disk_behind_a_raid_controller_is_not_supported_and_no_fault() -> None:
    result = verdict("disk-smart-failed",
                     not_opened("DELL or MegaRaid controller, please try adding '-d megaraid,N'"))
    assert result.status is Status.SKIPPED and "sda (behind a RAID controller)" in result.reason


@pytest.mark.parametrize(("code", "said", "reason"), [
    (1, {"smartctl": {"messages": [{"string": "/dev/sda: Unknown USB bridge [0x046b:0xff31 (0x100)]"}]}},
     "sda (on USB)"),
    (4, {"model_name": "QEMU HARDDISK", "smart_support": {"available": False}},
     "sda (QEMU HARDDISK) (has no SMART)"),
])
def test_a_disk_that_has_no_smart_concerns_itself_only(code: int, said: dict[str, Any], reason: str) -> None:
    for rule in SMART_RULES:
        now = one_disk("sda", said, code)
        result = verdict(rule, now, now)
        assert result.status is Status.SKIPPED and reason in result.reason, rule


def test_a_disk_whose_smart_is_switched_off_is_not_measured() -> None:
    """smartctl ends then, with exit status 0, and has read nothing (ataprint.cpp, "SMART Disabled")."""
    now = one_disk("sda", {"device": {"protocol": "ATA"}, "model_name": "X1", "serial_number": "S1",
                           "smart_support": {"available": True, "enabled": False}})
    for rule in SMART_RULES:
        result = verdict(rule, now, now)
        assert result.status is Status.UNKNOWN and "sda (X1)" in result.reason, rule
        assert "SMART is switched off (smartctl -s on /dev/sda)" in result.reason
    kept_on = one_disk("sda", {"device": {"protocol": "SCSI"}, "smart_status": {"passed": True},
                               "smart_support": {"available": True, "enabled": False}})
    assert verdict("disk-smart-failed", kept_on).status is Status.PASS


@pytest.mark.parametrize("rule", ["disk-smart-failed", "disk-smart-reallocated", "disk-smart-pending",
                                  "disk-smart-uncorrectable", "disk-smart-unrecovered", "disk-smart-wear"])
def test_attributes_that_a_disk_did_not_give_are_not_those_it_has_not(rule: str) -> None:
    """A sick disk may answer for its overall health and refuse its attributes (ataprint.cpp, "Read SMART Data
    failed": exit status 4, and it goes on)."""
    said = {"device": {"protocol": "ATA"}, "smart_status": {"passed": True}, "smartctl": {"messages": [
        {"string": "Read SMART Data failed: scsi error aborted command", "severity": "error"}]}}
    result = verdict(rule, one_disk("sda", said, 4))
    assert result.status is Status.UNKNOWN and "Read SMART Data failed" in result.reason
    # One that has none is another matter, and so is one that answers, and lacks a log.
    assert verdict(rule, one_disk("sda", said)).status in (Status.PASS, Status.SKIPPED)
    read = {**said, "ata_smart_attributes": {"table": [{"id": 9, "name": "x", "raw": {"value": 1}}]}}
    assert verdict(rule, one_disk("sda", read, 4)).status in (Status.PASS, Status.SKIPPED)


def test_a_disk_that_fails_by_its_own_word_needs_no_attributes() -> None:
    said = {"device": {"protocol": "ATA"}, "smart_status": {"passed": False}}
    assert (findings_of(verdict("disk-smart-failed", one_disk("sda", said, 4 + 8)))
            == "sda: failing, by its own report, expected passed")


@pytest.mark.parametrize("kind", ["a virtual drive of the BMC", "a drive over a network"])
def test_what_the_kernel_says_is_no_disk_of_the_node_is_asked_for_nothing(kind: str) -> None:
    held = machine.smart(2)
    broken = FileCapture(Outcome.DONE, "exit 4\nRead NVMe SMART/Health Information failed")
    if kind == "a drive over a network":
        more = {"disk_smart": replace(held, files={**held.files, "/sys/class/nvme/nvme1": broken}),
                "nvme_sysfs": machine.disks(**{"nvme1.transport": "tcp\n"})["nvme.sysfs"]}
    else:
        more = {"disk_smart": replace(held, files={**held.files, "/sys/block/sda": broken}),
                "disk_scsi": machine.done(**{"/sys/block/sda/removable": "1\n"})}
    result = verdict("disk-smart-failed", machine.recording(**more))
    assert result.status is Status.PASS
    assert ("nvme1 (over a network)" in result.reason) is (kind == "a drive over a network")


# Every reading that a rule has of a SATA and of an NVMe disk, each beyond its limit.
_SATA = [wear(177, "Wear_Leveling_Count", 2), *(
    {"id": number, "name": "x", "raw": {"value": 5000}} for number in (5, 187, 197, 198)), at_threshold(
        10, "Spin_Retry_Count", True)]


@pytest.mark.parametrize("left_out", range(len(_SATA)))
def test_an_attribute_that_a_disk_does_not_count_hides_no_other(left_out: int) -> None:
    # disk-smart-life is the trend of the wear that disk-smart-wear judges.
    whole = {rule: verdict(rule, of_ata(*_SATA))
             for rule in SMART_RULES if rule not in TRENDS.keys() | OWN | {"disk-smart-life"}}
    less = of_ata(*(row for at, row in enumerate(_SATA) if at != left_out))
    changed = [rule for rule, result in whole.items() if verdict(rule, less) != result]
    assert len(changed) == 1, changed
    assert whole[changed[0]].status is Status.FAIL


def test_a_bad_figure_of_an_nvme_drive_hides_no_other() -> None:
    bad = {"critical_warning": 8, "media_errors": 4, "available_spare": 3, "percentage_used": 99}
    rules = ("disk-smart-warning", "disk-smart-media-errors", "disk-smart-spare-low", "disk-smart-wear")
    for gone, rule in zip(bad, rules, strict=True):
        text = machine.smart(1, nvme0=dict(bad)).files["/sys/class/nvme/nvme0"].text
        without = "\n".join((text.partition("\n")[0], text.partition("\n")[2].replace(f'"{gone}"', '"gone"')))
        capture = Capture(Outcome.DONE, bytes=1,
                          files={"/sys/class/nvme/nvme0": FileCapture(Outcome.DONE, without)})
        failed = [each for each in rules
                  if verdict(each, machine.recording(disk_smart=capture)).status is Status.FAIL]
        assert failed == [each for each in rules if each != rule], gone


def test_a_drive_that_is_dead_is_accused_of_that_and_not_of_the_namespace_that_went_with_it() -> None:
    seen = files(**{"nvme3.state": "dead\n", "nvme3n1.size": "0\n"})
    assert verdict("disk-nvme-state", seen).status is Status.FAIL
    assert verdict("disk-nvme-namespace", seen).status is Status.PASS


@pytest.mark.parametrize("driver", ["vfio-pci", "uio_pci_generic", "igb_uio", "pci-stub"])
def test_a_drive_that_was_passed_on_is_not_missing(driver: str) -> None:
    bus = {
        "/sys/bus/pci/devices/0000:90:00.0/uevent": f"DRIVER={driver}\nPCI_CLASS=10802\nPCI_ID=144D:A824\n"}
    assert verdict("disk-nvme-driven", machine.recording(gpu_pci=machine.done(**bus))).status is Status.PASS


def test_a_disk_that_smartctl_calls_failing_in_its_exit_status_is_read_all_the_same() -> None:
    result = verdict("disk-smart-failed",
                     one_disk("sda", {"model_name": "X1", "smart_status": {"passed": False}},
                              code=8 + 16 + 64))
    assert findings_of(result) == "sda (X1): failing, by its own report, expected passed"


@pytest.mark.parametrize("rule", LOG_RULES)
def test_a_kernel_log_that_may_not_be_read_is_unknown(rule: str) -> None:
    assert verdict(rule, machine.recording(kernel_log=machine.denied("/dev/kmsg"))).status is Status.UNKNOWN


def test_a_drive_that_hangs_when_its_temperature_is_read_is_unknown_and_the_others_are_judged() -> None:
    held = machine.disks()["nvme.temperature"]
    path = "/sys/class/nvme/nvme3/hwmon3/temp1_input"
    hung = replace(held, files={**held.files, path: FileCapture(Outcome.TIMEOUT)})
    result = verdict("disk-nvme-temperature", machine.recording(nvme_temperature=hung))
    assert result.status is Status.UNKNOWN and "nvme3" in result.reason


@pytest.mark.parametrize(("count", "status"),
                         [(9, Status.FAIL), (10, Status.PASS), (11, Status.FAIL), (None, Status.SKIPPED)])
def test_a_node_has_as_many_drives_on_its_bus_as_its_sku_says(count: int | None, status: Status) -> None:
    bus = {f"/sys/bus/pci/devices/0000:{n:02x}:00.0/uevent": "PCI_CLASS=10802\nPCI_ID=144D:A824\n"
           for n in range(10)}
    result = verdict("disk-nvme-count", machine.recording(gpu_pci=machine.done(**bus)), nvme_count=count)
    assert result.status is status
    assert findings_of(result) == (f"NVMe drives: 10 on PCI, expected {count}"
                                   if status is Status.FAIL else "")


def test_every_rule_of_both_files_is_in_a_table() -> None:
    tested = ({rule for rule, _ in PASSING} & {rule for rule, _, _ in FAILING}
              | {rule for rule, _, _ in LINES} | TRENDS.keys() | OWN | {"disk-nvme-count"})
    # which have test_scsi.py
    assert tested == {rule for rule in ids("disk.yaml") | ids("raid.yaml")
                      if not rule.startswith("disk-scsi-")}


@pytest.mark.parametrize(("faulty", "repair"), [("spare\n", Repair.WATCH), ("faulty,timeout\n", None)])
def test_an_array_that_is_rebuilt_asks_for_no_other_disk_unless_one_of_its_members_is_faulty(
    faulty: str, repair: Repair | None,
) -> None:
    seen = files(**{"md0.degraded": "1\n", "md0.sync_action": "recover\n", "md0.dev-nvme1n1p2/state": faulty})
    finding, = verdict("raid-degraded", seen).findings
    assert finding.repair is repair and ("wait" in finding.remedy) is (repair is Repair.WATCH)
