"""Plants faults of a SATA disk, as sysfs shows them (drivers/scsi/scsi_sysfs.c), on a node that boots from one."""

from __future__ import annotations

from collections.abc import Mapping

from provisioning.demo.machine import DemoMachine
from tests.scenarios.plant import plant

_HEALTHY = {"removable": "0", "device/state": "running", "device/model": "INTEL SSDSC2KG480G8", "device/iodone_cnt": "0x1d4c0",
            "device/ioerr_cnt": "0x2c", "device/iotmo_cnt": "0x0"}
_SMART = '{"device": {"protocol": "ATA"}, "model_name": "INTEL SSDSC2KG480G8", "serial_number": "PHYG0", "smart_status": {"passed": true}}'


def _disk(node: DemoMachine, changes: Mapping[str, str]) -> None:
    node.files |= {f"/sys/block/sda/{name}": f"{text}\n" for name, text in {**_HEALTHY, **changes}.items()}
    node.files["/.muster/smart-sda.json"] = _SMART + "\n"


def _sound(node: DemoMachine) -> None:
    _disk(node, {})


def _replaced(node: DemoMachine) -> None:
    """Another disk is in its place; its counters begin anew."""
    _disk(node, {"device/iodone_cnt": "0x1f4", "device/ioerr_cnt": "0x4"})


plant("sata-disk-given-up",
      "The disk did not come back from error handling: the kernel took it offline, after commands that it never answered.", _replaced,
      lambda node: _disk(node, {"device/state": "offline", "device/iodone_cnt": "0x1d9ff", "device/ioerr_cnt": "0x60", "device/iotmo_cnt": "0x7"}),
      before=_sound)
plant("sata-disk-fails-commands", "Every third command fails.", _replaced,
      lambda node: _disk(node, {"device/iodone_cnt": "0x1d8a8", "device/ioerr_cnt": "0x174"}), before=_sound)
plant("sata-disk-that-smartctl-asks", "No fault: nothing but smartctl asks the disk, and what it passes through counts as failed.", _replaced,
      lambda node: _disk(node, {"device/iodone_cnt": "0x1d4f0", "device/ioerr_cnt": "0x50"}), before=_sound)
