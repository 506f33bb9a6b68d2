"""A machine without GPUs on which nothing is wrong, as recorded: a rack server of which no one said what it
is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from healthcheck.facts import driver, firmware, gpusigns, kernel, module
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from tests.healthcheck import machine

BRIDGE = "PCI_CLASS=60100\nPCI_ID=8086:1B81\nPCI_SLOT_NAME=0000:00:1f.0\n"
DISPLAY = "PCI_CLASS=30000\nPCI_ID=102B:0538\nPCI_SLOT_NAME=0000:03:00.0\n"
MODULES = "mgag200 40960 0 - Live 0x0000000000000000\nnvme 61440 4 - Live 0x0000000000000000\n"
PRODUCT, MAKER = "PowerEdge R650", "Dell Inc."
NONE = Capture(Outcome.MISSING, note="no NVIDIA device")
# The captures that need an NVIDIA device, which is looked for before they start.
WITHOUT_DEVICE = ("gpu.nvml", "gpu.smi", "service.nvidia", "container.toolkit", "fabric.journal")
LOG = ("6,0,0,-;Linux version 6.5.0-1019 (gcc) #20 SMP\n6,1,1000,-;Command line: BOOT_IMAGE=/vmlinuz "
       "root=UUID=1 ro\n")


def bus(*devices: str) -> Capture:
    """The PCI bus with these devices beside a bridge and the management controller's display."""
    return machine.done(**{f"/sys/bus/pci/devices/0000:{number:02x}:00.0/uevent": text
                           for number, text in enumerate((BRIDGE, DISPLAY, *devices))})


def names(product: str | None = PRODUCT, maker: str = MAKER, **more: str) -> Capture:
    """What firmware calls the machine."""
    texts = {"product_name": product, "sys_vendor": maker, "bios_version": "1.6.7",
             "bios_date": "04/10/2024", **more}
    return files({f"/sys/class/dmi/id/{name}": text for name, text in texts.items()}, *firmware.DMI.paths)


def files(there: dict[str, str | None], *asked: str) -> Capture:
    """Of the files that were asked for these are there."""
    held = {path: FileCapture(Outcome.DONE, text) if (text := there.get(path)) is not None
            else FileCapture(Outcome.MISSING)
            for path in (*there, *asked)}
    return replace(machine.done(), files=held)


def recording(node: str = "login1", **changes: Capture | None) -> Recording:
    """The recording; `changes` by probe id with "_" for "." replace captures, and None takes one away."""
    held: dict[str, Any] = machine.captures()
    held.update(dict.fromkeys(WITHOUT_DEVICE, NONE))
    units = held["service.units"]
    held |= {
        "container.cdi": machine.done(), "container.config": machine.container_config(),
        "container.slurm": machine.done(),
        "service.units": replace(units, text="".join(line for line in units.text.splitlines(True)
                                                     if "nvidia" not in line)),
        "host.versions": machine.done(**{driver.OSRELEASE: "6.5.0-1019\n"}),
        "gpu.pci": bus(), "module.loaded": machine.done(**{module.PATH: MODULES}), "host.firmware": names(),
        "driver.module": files({driver.OSRELEASE: "6.5.0-1019\n"}, *driver.FILES.paths),
        gpusigns.INSTALLED.id: machine.done(),
        "kernel.log": machine.done(**{kernel.KMSG: LOG}), "port.sysfs": machine.done(),
        "port.counters": machine.done(),
        "hca.sysfs": machine.done(), "docker.info": Capture(Outcome.MISSING),
        "docker.ps": Capture(Outcome.MISSING),
        "docker.images": Capture(Outcome.MISSING),
    }
    for name, capture in changes.items():
        held[name.replace("_", ".", 1)] = capture
    return Recording(node, 1000.5, replace(machine.HOST, hostname=node), None,
                     {name: capture for name, capture in held.items() if capture is not None})
