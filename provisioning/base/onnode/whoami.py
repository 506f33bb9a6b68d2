"""Which machine this is: names, boot, and its board's numbers. Python 3.8. machine-id(5), random(4) on
boot_id, Documentation/ABI/testing/sysfs-class-dmi (product_serial and product_uuid are for root only)."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

from provisioning.base.onnode.answer import LocalHost, Unseen, answered, clean_environment

PLACES = {
    "name": "/proc/sys/kernel/hostname", "machine": "/etc/machine-id",
    "boot": "/proc/sys/kernel/random/boot_id", "serial": "/sys/class/dmi/id/product_serial",
    "uuid": "/sys/class/dmi/id/product_uuid", "tree": "/proc/device-tree/serial-number"}
BOARD = ("serial", "uuid", "tree")


def who(host: LocalHost) -> dict[str, Any]:
    """Each as text, or None with a reason among `unseen`."""
    report: dict[str, Any] = {"root": os.geteuid() == 0, "container": host.container(), "unseen": {}}
    for name, path in PLACES.items():
        report[name] = None
        if name in BOARD and report["container"]:
            report["unseen"][name] = "a container (%s) shows its host's" % report["container"]
            continue
        try:
            text = host.read(path, 4096)
        except Unseen as error:
            report["unseen"][name] = str(error)
        else:
            report[name] = None if text is None else text.strip("\0 \t\r\n")[:200]
    return report


def main(nonce: str, request: bytes, source: BinaryIO) -> None:
    """Answers; nothing is asked but that."""
    clean_environment()
    answered(nonce, who(LocalHost()))
