"""Plants the commonest faults of disks, arrays and mounts, as sysfs, smartctl, mountinfo and the kernel's log
show them.

In the run of Llama 3 405B (table 5 of its paper) SSDs stopped 3 and host maintenance, mounts among it, 32 of
419 times; which lines the kernel writes stands in drivers/nvme, drivers/md, block and fs, and gpud and
node-problem-detector look for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from provisioning.demo.h100 import BOOT_NVMES, NVMES, device_folder
from provisioning.demo.machine import DemoMachine
from tests.scenarios import node as scenario
from tests.scenarios.plant import files, plant, planted, says
from tests.scenarios.repair import reboot, wait

_DRIVES = BOOT_NVMES + NVMES
_OURS = ("/sys/devices/", "/sys/block/", "/.muster/smart", "/etc/fstab", "/sys/fs/lustre")


def _mend(node: DemoMachine) -> None:
    """Drives, arrays and mounts are as they should be again."""
    healthy = scenario.machine(node.name)
    node.files = {path: text for path, text in node.files.items() if not path.startswith(_OURS)}
    node.files |= {path: text for path, text in healthy.files.items() if path.startswith(_OURS)}
    node.links, node.mounts = healthy.links, healthy.mounts


def _mended_and_booted(node: DemoMachine) -> None:
    """The drive is another one, or its file system was repaired, and the node was booted."""
    _mend(node)
    reboot(node)


def _day_later(node: DemoMachine) -> None:
    _mend(node)
    wait(node, 25)


def _drive(node: DemoMachine, index: int, name: str, text: str) -> None:
    node.files[f"{device_folder(_DRIVES[index])}/nvme/nvme{index}/{name}"] = f"{text}\n"


def _smart(node: DemoMachine, index: int, passed: bool = True, **log: Any) -> None:
    path = f"/.muster/smart-nvme{index}.json"
    said = json.loads(node.files[path])
    said["smart_status"]["passed"] = passed
    said["nvme_smart_health_information_log"] |= log
    node.files[path] = json.dumps(said) + "\n"


@planted(_mended_and_booted)
def nvme_given_up(node: DemoMachine) -> None:
    """nvme4 did not come back from a reset: the kernel let go of it, and the array on it broke."""
    node.say("nvme nvme4: I/O tag 12 (a00c) opcode 0x2 (I/O Cmd) QID 3 timeout, reset controller", 4)
    node.say("nvme nvme4: Device not ready; aborting reset, CSTS=0x1", 3)
    node.say("nvme nvme4: Disabling device after reset failure: -19", 4)
    node.say("I/O error, dev nvme4n1, sector 1953525 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2", 3)
    del node.links["/sys/class/nvme/nvme4"]
    node.files["/sys/block/md1/md/array_state"] = "broken\n"


plant("nvme-dead", "The controller of nvme2 is dead; the log is overwritten already.", _mended_and_booted,
      lambda node: _drive(node, 2, "state", "dead"))
plant("nvme-narrow", "nvme6 trained at two lanes of its four.", _mend,
      files({f"{device_folder(_DRIVES[6])}/current_link_width": "2\n"}))
plant("nvme-hot",
      "nvme3 is hotter than the limit at which it warns, and it warns: for smartctl that is a failed disk.",
      _mend,
      lambda node: _drive(node, 3, "hwmon0/temp1_input", "84850"),
      lambda node: _drive(node, 3, "hwmon0/temp1_alarm", "1"),
      lambda node: _smart(node, 3, passed=False, critical_warning=2, temperature=85))


@planted(_mend)
def nvme_hot_without_a_sensor(node: DemoMachine) -> None:
    """nvme3 warns of its temperature, on a kernel that shows none."""
    at = f"{device_folder(_DRIVES[3])}/nvme/nvme3/hwmon0/"
    node.files = {path: text for path, text in node.files.items() if not path.startswith(at)}
    _smart(node, 3, passed=False, critical_warning=2, temperature=85)


plant("nvme-read-only", "nvme6 takes no more writes: its media is worn, which it warns of.",
      _mended_and_booted,
      lambda node: _drive(node, 6, "nvme6n1/ro", "1"),
      lambda node: _smart(node, 6, passed=False, critical_warning=8))
plant("nvme-without-a-namespace",
      "The controller of nvme7 lives, and the kernel could not read its namespace.", _mended_and_booted,
      lambda node: _drive(node, 7, "nvme7n1/size", "0"))


@planted(_mend)
def nvme_passed_on(node: DemoMachine) -> None:
    """No fault: nvme9 was given to a program on purpose (SPDK), by vfio-pci."""
    at = device_folder(_DRIVES[9])
    node.files = {path: text for path, text in node.files.items() if not path.startswith(f"{at}/nvme/")}
    del node.links["/sys/class/nvme/nvme9"]
    node.files[f"{at}/uevent"] = node.files[f"{at}/uevent"].replace("DRIVER=nvme\n", "DRIVER=vfio-pci\n")
    del node.files["/.muster/smart-nvme9.json"]


plant("nvme-resets", "nvme7 let commands time out, and came back.", _day_later,
      says("nvme nvme7: I/O 402 (I/O Cmd) QID 17 timeout, aborting", 4),
      says("nvme nvme7: I/O 402 QID 17 timeout, reset controller", 4),
      says("nvme nvme7: 128/0/0 default/read/poll queues"))
plant("disk-fails", "nvme5 calls itself failing: its spare is used up, and so is its life, almost.",
      _mended_and_booted,
      lambda node: _smart(node, 5, passed=False, critical_warning=1, available_spare=4, percentage_used=88))
plant("disk-worn", "nvme1 has used up its life and says nothing of it.", _mended_and_booted,
      lambda node: _smart(node, 1, percentage_used=93))
plant("disk-loses-data", "nvme8 could not read back what was written to it, since the earlier look.",
      _mended_and_booted,
      lambda node: _smart(node, 8, media_errors=7),
      says(
          "critical medium error, dev nvme8n1, sector 80034816 op 0x0:(READ) flags 0x0 phys_seg 2 "
          "prio class 2", 3),
      says("Buffer I/O error on dev nvme8n1, logical block 10004352, async page read", 3))
plant("filesystem-damaged", "XFS on the array found damage and shut itself down.", _mended_and_booted,
      says(
          "XFS (md1): Corruption of in-memory data (0x8) detected at xfs_defer_finish_noroll+0x4a0 "
          "(fs/xfs/libxfs/xfs_defer.c:591).  "
          "Shutting down filesystem.", 1))


@planted(_mend)
def mirror_lost_a_disk(node: DemoMachine) -> None:
    """A mirror of the boot drives threw one of them out."""
    for path, text in {"level": "raid1", "raid_disks": "2", "array_state": "active", "degraded": "1",
                       "sync_action": "idle",
                       "sync_completed": "none", "mismatch_cnt": "0", "dev-nvme0n1p3/state": "in_sync",
                       "dev-nvme1n1p3/state": "faulty"}.items():
        node.files[f"/sys/block/md0/md/{path}"] = f"{text}\n"


@planted(_mend)
def scratch_not_mounted(node: DemoMachine) -> None:
    """/raid, which fstab calls nofail, was not mounted: jobs would write to the small root disk."""
    node.mounts = [mount for mount in node.mounts if mount.point != "/raid"]


plant("lustre-unhealthy", "A client of Lustre met an LBUG.", _mend,
      files({"/sys/fs/lustre/health_check": "LBUG\nNOT HEALTHY\n"}))


@planted(_mend)
def a_disk_that_has_seen_much(node: DemoMachine) -> None:
    """No fault: a BMC's virtual CD without a medium, a disk that declines a discard, many error log entries,
    an old unsafe shutdown."""
    node.say("I/O error, dev sr0, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2", 3)
    node.say("Buffer I/O error on dev sr0, logical block 0, async page read", 3)
    node.say(
        "critical target error, dev nvme2n1, sector 2048 op 0x3:(DISCARD) flags 0x800 phys_seg 1 "
        "prio class 2", 3)
    _smart(node, 2, num_err_log_entries=4021)


# A SATA disk from which the node boots (drivers/scsi/scsi_sysfs.c)

_SATA = {"removable": "0", "device/state": "running", "device/model": "INTEL SSDSC2KG480G8",
         "device/iodone_cnt": "0x1d4c0",
         "device/ioerr_cnt": "0x2c", "device/iotmo_cnt": "0x0"}
_SATA_SMART = ('{"device": {"protocol": "ATA"}, "model_name": "INTEL SSDSC2KG480G8", "serial_number": '
               '"PHYG0", "smart_status": {"passed": true}}')


def _sata(node: DemoMachine, changes: Mapping[str, str]) -> None:
    node.files |= {f"/sys/block/sda/{name}": f"{text}\n" for name, text in {**_SATA, **changes}.items()}
    node.files["/.muster/smart-sda.json"] = _SATA_SMART + "\n"


def _sound(node: DemoMachine) -> None:
    _sata(node, {})


def _replaced(node: DemoMachine) -> None:
    """Another disk is in its place; its counters begin anew."""
    _sata(node, {"device/iodone_cnt": "0x1f4", "device/ioerr_cnt": "0x4"})


plant("sata-disk-given-up",
      "The disk did not come back from error handling: the kernel took it offline, after commands that it "
      "never answered.", _replaced,
      lambda node: _sata(node, {"device/state": "offline", "device/iodone_cnt": "0x1d9ff",
                                "device/ioerr_cnt": "0x60", "device/iotmo_cnt": "0x7"}),
      before=_sound)
plant("sata-disk-fails-commands", "Every third command fails.", _replaced,
      lambda node: _sata(node, {"device/iodone_cnt": "0x1d8a8", "device/ioerr_cnt": "0x174"}), before=_sound)
plant("sata-disk-that-smartctl-asks",
      "No fault: nothing but smartctl asks the disk, and what it passes through counts as failed.", _replaced,
      lambda node: _sata(node, {"device/iodone_cnt": "0x1d4f0", "device/ioerr_cnt": "0x50"}), before=_sound)
