"""A simulated node's disks: sysfs of NVMe drives and an md array, smartctl's JSON, fstab."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence

from provisioning.demo.machine import DemoMachine

# `smartctl -j -a /dev/nvme3`; a fault replaces the file.
_SMARTCTL = """\
for device in "$@"; do :; done
exec cat "$MUSTER_ROOT/.muster/smart-${device#/dev/}.json"
"""


def install(
    machine: DemoMachine, drives: Sequence[str], data: Sequence[str], folder: Callable[[str], str],
    rng: random.Random,
) -> None:
    """NVMe drives at these PCI addresses, those of `data` as one striped array; `folder` is sysfs's."""
    for index, address in enumerate(drives):
        at = f"{folder(address)}/nvme/nvme{index}"
        serial = f"S64FNE0R{rng.randrange(10**6):06d}"
        model, firmware = ("SAMSUNG MZWLJ3T8HBLS-00007", "EPK9CB5Q") if address in data else (
            "SAMSUNG MZ1L21T9HCLS-00A07", "GDC7302Q")
        machine.links[f"/sys/class/nvme/nvme{index}"] = f"../../{at.removeprefix('/sys/')}"
        machine.links[f"{at}/device"] = f"../../../{address}"
        celsius = rng.randrange(31, 44)
        texts = {
            "state": "live", "model": model, "serial": serial, "firmware_rev": firmware, "transport": "pcie",
            "address": address, "hwmon0/temp1_input": f"{celsius}850", "hwmon0/temp1_max": "81850",
            "hwmon0/temp1_alarm": "0", f"nvme{index}n1/ro": "0",
            f"nvme{index}n1/size": "7501476528" if address in data else "3750748848"}
        for path, value in texts.items():
            machine.files[f"{at}/{path}"] = f"{value}\n"
        for place in (folder(address), folder(address).rpartition("/")[0]):
            for speed in ("max", "current"):
                machine.files[f"{place}/{speed}_link_speed"] = "16.0 GT/s PCIe\n"
            machine.files[f"{place}/max_link_width"] = machine.files[f"{place}/current_link_width"] = "4\n"
        machine.files[f"/.muster/smart-nvme{index}.json"] = json.dumps({
            "json_format_version": [1, 0], "smartctl": {"version": [7, 2], "exit_status": 0},
            "device": {"name": f"/dev/nvme{index}", "type": "nvme", "protocol": "NVMe"}, "model_name": model,
            "serial_number": serial,
            "firmware_version": firmware, "smart_status": {"passed": True, "nvme": {"value": 0}},
            "nvme_smart_health_information_log": {
                "critical_warning": 0, "temperature": celsius + 1, "available_spare": 100,
                "available_spare_threshold": 10,
                "percentage_used": rng.randrange(0, 4), "data_units_read": rng.getrandbits(30),
                "data_units_written": rng.getrandbits(30),
                # Nodes that were switched off at the wall a few times: unsafe, and no fault of the drive.
                "power_cycles": 44, "power_on_hours": rng.randrange(9000, 12000),
                "unsafe_shutdowns": rng.randrange(3, 30),
                "media_errors": 0, "num_err_log_entries": rng.choice((0, 0, 3)), "warning_temp_time": 0,
                "critical_comp_time": 0,
            },
        }) + "\n"
    machine.tools["smartctl"] = _SMARTCTL
    array = {"level": "raid0", "raid_disks": str(len(data)), "array_state": "clean"}
    array |= {
        f"dev-nvme{index}n1/state": "in_sync" for index, address in enumerate(drives) if address in data}
    for path, value in array.items():
        machine.files[f"/sys/block/md1/md/{path}"] = f"{value}\n"
    machine.files["/etc/fstab"] = (
        "# <file system> <mount point> <type> <options> <dump> <pass>\n"
        "UUID=5a1e7c1e-0a43-4fd1-9a0c-2f6d3d5b8f11 / ext4 errors=remount-ro 0 1\n"
        "UUID=5E1B-7F10 /boot/efi vfat umask=0077 0 1\n"
        "/dev/md1 /raid xfs defaults,nofail 0 2\n"
        "filer:/home /mnt/home nfs4 rw,hard,_netdev 0 0\n"
        "/dev/sr0 /media/cdrom iso9660 noauto,ro 0 0\n"
    )
