"""What is bound to what on a node: drivers to PCI functions, RDMA devices to functions, interfaces to RDMA
devices (uevent files of /sys/bus/pci/devices; Documentation/ABI/stable/sysfs-class-infiniband)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from healthcheck.facts import port as ports_of
from healthcheck.facts.base import Captures, fact
from healthcheck.facts.bond import unlisted
from healthcheck.facts.gpu import PCI, uevent
from healthcheck.facts.port import SYSFS, Port, device_id
from healthcheck.facts.roce import ROCE, unlisted_interfaces
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread, parted, reading
from healthcheck.model.recording import Outcome

# Classes of the PCI code and ID assignment specification whose drivers a node depends on.
_CLASSES: Mapping[str, str] = {
    "01": "storage", "02": "network", "03": "display", "12": "accelerator", "0680": "bridge"}


WITHOUT = "without an interface"
# Display controllers, NVMe, InfiniBand, other bridges.
_JUDGED = ("03", "0108", "0207", "0680")


class FunctionDrivers(Fact):
    """The driver of each storage, network, display and accelerator function and of other bridges (NVSwitch):
    its address, its words ("network 0000:18:00.0"), PCI vendor and device, and the driver, empty where none
    is bound. GPUs, NVMe drives, InfiniBand adapters and NVSwitches without any are left out: rules of their
    own say so of a node without equals."""

    name: str
    functions: tuple[tuple[str, str, str, str], ...]


class RdmaBinding(Fact):
    """What each RDMA device is bound to: its words ("mlx5_0 (0000:18:00.0)"), PCI address, and "mlx5_0 with
    rail0", or "mlx5_0 without an interface". UNSUPPORTED where there is none."""

    name: str
    devices: tuple[tuple[str, str, str], ...]


@fact("function_drivers", PCI)
def function_drivers(captures: Captures) -> FunctionDrivers:
    """From the uevent files of all PCI devices; raises Unread unless all of them were read."""
    files = captures.files(PCI)
    if captures.outcome(PCI) is not Outcome.DONE:
        raise Unread(f"{PCI.id} was not wholly read")
    found = []
    for path in files:
        text = files.text(path)
        held = uevent(text)
        what = _word(held.get("PCI_CLASS", ""))
        driver = held.get("DRIVER", "")
        left_out = not driver and held["PCI_CLASS"].rjust(6, "0").startswith(_JUDGED) if what else True
        if held.get("PCI_ID") and not left_out:
            pci = path.split("/")[-2]
            found.append((pci, f"{what} {pci}", device_id(text), driver))
    return FunctionDrivers("drivers", tuple(found))


def _word(code: str) -> str:
    """The word for a class code, which the kernel prints without leading zeros: "20000" is 02h, 00h."""
    whole = code.rjust(6, "0")
    return _CLASSES.get(whole[:2]) or _CLASSES.get(whole[:4], "")


@fact("rdma_binding", SYSFS, ROCE)
def rdma_binding(captures: Captures) -> RdmaBinding:
    """The RDMA devices by name; raises Unread unless each of them was read."""
    sysfs, roce = captures.files(SYSFS), captures.files(ROCE)
    for probe in (SYSFS, ROCE):
        if captures.outcome(probe) is not Outcome.DONE:
            raise Unread(f"{probe.id} was not wholly read")
    sysfs.require(*unlisted(sysfs, ports_of.BASE))
    roce.require(*unlisted(roce, ports_of.BASE), *unlisted_interfaces(roce))
    interfaces: dict[str, list[str]] = {}
    for path in roce:
        device, _, rest = path[len(ports_of.BASE) + 1:].partition("/device/net/")
        if rest.endswith("/mtu"):
            interfaces.setdefault(device, []).append(rest.removesuffix("/mtu"))
    found = []
    every: tuple[Port, ...] = parted(captures.once(ports_of.ports))[0]
    for device, pci in {port.device: reading(port, "pci") for port in every}.items():
        if isinstance(pci, Unmeasured):
            raise Unread(pci.reason)
        with_them = " and ".join(sorted(interfaces.get(device, ())))
        words = f"with {with_them}" if with_them else WITHOUT
        found.append((f"{device} ({pci})", pci, f"{device} {words}"))
    devices: Any = tuple(found) or UNSUPPORTED
    return RdmaBinding("RDMA devices", devices)
