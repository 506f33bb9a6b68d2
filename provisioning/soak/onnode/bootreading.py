"""Says which boot this is and what the kernel enumerated, and restarts the machine if it is still that boot.
Python 3.8.

random(4) on boot_id, proc(5) on uptime and meminfo, Documentation/ABI/testing/sysfs-bus-pci (class, vendor,
device, current_link_width, current_link_speed, physfn), systemctl(1).
"""

from __future__ import annotations

import json
import os
from typing import Any, BinaryIO

from provisioning.agent.onnode.files import InstallError
from provisioning.base.onnode.answer import LocalHost, Unseen, answered, clean_environment

MOST_DEVICES = 4096


def looked(host: LocalHost) -> dict[str, Any]:
    """The boot, since when (seconds), memory (kB), processors, and by address what each PCI function is."""
    report: dict[str, Any] = {
        "boot": (host.read("/proc/sys/kernel/random/boot_id") or "").strip(), "uptime": None, "memory": None,
        "cpus": os.sysconf("SC_NPROCESSORS_ONLN"), "pci": {}, "container": host.container()}
    report["uptime"] = float((host.read("/proc/uptime") or "").split()[0])
    for line in (host.read("/proc/meminfo") or "").split("\n"):
        if line.startswith("MemTotal:"):
            report["memory"] = int(line.split()[1])
    for path in host.found("/sys/bus/pci/devices/*")[:MOST_DEVICES]:
        if host.there(path + "/physfn"):        # a virtual function is made by software, at its time
            continue
        values = [(host.read(path + "/" + name, 4096) or "").strip()[:40]
                  for name in ("class", "vendor", "device", "current_link_width", "current_link_speed")]
        report["pci"][os.path.basename(path)] = values
    return report


def restarted(host: LocalHost, boot: str) -> None:
    """Asks systemd for a restart, unless this is another boot by now."""
    now = (host.read("/proc/sys/kernel/random/boot_id") or "").strip()
    if now != boot:
        raise InstallError("it is another boot by now")
    if host.container():
        raise InstallError("it is a container (%s)" % host.container())
    if not host.systemd():
        raise InstallError("it has no systemd to restart it")
    if os.geteuid() != 0:
        raise InstallError("only root may restart it: set become: true for it")
    host.systemctl("--no-block", "reboot")


def main(nonce: str, request: bytes, source: BinaryIO) -> None:
    """Does what is asked."""
    clean_environment()
    host, asked = LocalHost(), json.loads(request)
    report: dict[str, Any] = {"message": "", "ok": True}
    try:
        report.update(looked(host))
        if asked["restart"]:
            restarted(host, asked["restart"])
    except (InstallError, Unseen, OSError, ValueError, IndexError) as error:
        report.update(ok=False, message=str(error))
    answered(nonce, report)
