"""PCI facts: NVIDIA's devices on the bus, with or without a driver, and who else may drive a device."""

from __future__ import annotations

from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.gpu import NVIDIA_VENDOR, PCI, is_gpu, uevent
from healthcheck.facts.values import Fact, Unread
from healthcheck.model.recording import Outcome

# PCI code and ID assignment specification: class 06h (bridges), subclass 80h (other), as NVSwitches of HGX
# boards have it.
_BRIDGE_CLASS = "68000"

PCI_BUS = "pci_bus"
# Drivers that hand a device to a program or a virtual machine (Documentation/driver-api/vfio.rst and
# uio-howto.rst; SPDK's and DPDK's guides to Linux drivers).
PASSED_ON = ("vfio-pci", "uio_pci_generic", "igb_uio", "pci-stub", "pciback", "xen-pciback")


class PciBus(Fact):
    """NVIDIA's devices on the PCI bus: GPUs as sorted "10de:2330", one for each, and the number of
    NVSwitches."""

    name: str
    gpus: tuple[str, ...]
    nvswitches: int


@fact(PCI_BUS, PCI)
def pci_bus(captures: Captures) -> Any:
    """From the uevent files of every device; raises Unread unless all of them were read."""
    files = captures.files(PCI)
    devices = [uevent(files.text(path)) for path in files]
    if not devices or captures.outcome(PCI) is not Outcome.DONE:
        raise Unread("the PCI bus was not wholly read")
    ours = [device for device in devices
            if device.get("PCI_ID", "").partition(":")[0].upper() == NVIDIA_VENDOR]
    gpus = sorted(device["PCI_ID"].lower()[:9] for device in ours if is_gpu(device))
    return PciBus("PCI bus", tuple(gpus),
                  sum(device.get("PCI_CLASS", "").lstrip("0") == _BRIDGE_CLASS for device in ours))
