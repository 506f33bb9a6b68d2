"""RDMA adapters: firmware, board, PCI Express link and user-space devices of each, and the adapters on the
bus without an RDMA device.

Part and serial number are those of the PCI vital product data (healthcheck.facts.vpd), which only root may
read (Documentation/ABI/testing/sysfs-bus-pci, vpd).

Formats: Documentation/ABI/stable/sysfs-class-infiniband (fw_ver, board_id, node_guid, sys_image_guid,
infiniband_verbs, infiniband_mad) and Documentation/ABI/testing/sysfs-bus-pci (current_link_speed "32.0 GT/s
PCIe", max_link_width). `device/..`
is the port that the adapter is plugged into: an adapter of generation 5 in a slot of generation 4 rightly
runs at 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.bond import unlisted
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.gpu import PCI, uevent
from healthcheck.facts.netdev import NETDEV, lag_cards
from healthcheck.facts.parsing import matched, natural, nonempty, pcie_lanes, pcie_speed
from healthcheck.facts.pci import PASSED_ON
from healthcheck.facts.port import BASE, SYSFS, VIRTUAL, card, device_id, is_sub_function, pci_of, slot
from healthcheck.facts.team import TEAMD
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread, first_unread, partial_if
from healthcheck.facts.vpd import VpdLabels, labels
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Outcome

_DEVICES = f"{BASE}/"
_VERBS, _MAD = "/sys/class/infiniband_verbs", "/sys/class/infiniband_mad"
_LINK = ("current_link_width", "current_link_speed", "max_link_width", "max_link_speed")
HCA = Probe(
    "hca.sysfs", ProbeKind.FILES,
    paths=(
        f"{BASE}/*/fw_ver", f"{BASE}/*/board_id", f"{BASE}/*/node_guid", f"{BASE}/*/sys_image_guid",
        *(f"{BASE}/*/device/{name}" for name in _LINK),
        f"{BASE}/*/device/../max_link_width", f"{BASE}/*/device/../max_link_speed", f"{_VERBS}/*/ibdev",
        f"{_MAD}/umad*/ibdev",
        f"{BASE}/*/device/uevent", f"{BASE}/*/device/physfn/uevent",
    ),
)

VPD = Probe("hca.vpd", ProbeKind.FILES, paths=(f"{BASE}/*/device/vpd",), root=True)


class Hca(Fact):
    """One RDMA device ("mlx5_0 (0000:18:00.0)"). `kind` is its PCI vendor and device ("15b3:1021"), `board`
    its PSID, which few drivers show; `model` is its PSID, or else `kind`. `guid` is its node GUID and
    `system_guid` the one that it shares with the other devices of its card, as 16 hexadecimal digits: by them
    the subnet knows it. `part` and `serial` are what its maker wrote onto it.

    `width` (lanes) and `gigatransfers` (GT/s a lane) are those of its PCI Express link now, the `_best` ones
    what adapter and slot support. `verbs` and `mads` count its user-space devices (uverbsN, one umadN a
    port).
    """

    IDENTITY = ("pci",)

    name: str
    device: str
    pci: str
    kind: str
    firmware: str
    board: str
    model: str
    guid: str
    system_guid: str
    part: str
    serial: str
    width: int
    width_best: int
    gigatransfers: float
    gigatransfers_best: float
    verbs: int
    mads: int
    virtual: bool


@dataclass(frozen=True)
class Adapter:
    """An InfiniBand or Ethernet adapter on the PCI bus of a maker whose drivers have RDMA; `rdma` says
    whether it has an RDMA device, `own` whether it is NVIDIA's (Mellanox), all of whose adapters do.
    `elsewhere`: it has none on purpose, since another function's of its card stands for both (RoCE LAG), or
    it was passed on to a program (DPDK) or a virtual machine."""

    pci: str
    kind: str
    infiniband: bool
    own: bool
    driver: str
    rdma: bool
    elsewhere: bool


class AdapterBus(Fact):
    """All such adapters, by address, without virtual functions."""

    name: str
    adapters: tuple[Adapter, ...]


@fact("hcas", HCA, besides=(VPD,), each="hca")
def hcas(captures: Captures) -> Any:
    """Every RDMA device that is no sub-function, in natural order of their names."""
    files = captures.files(HCA)
    names = {path[len(_DEVICES):].partition("/")[0] for path in files if path.startswith(_DEVICES)}
    names = {name for name in names if not is_sub_function(files, name)}
    # A folder that could not be listed has an entry of its own.
    users = {folder: [files.read(path, nonempty) for path in files if path.startswith(folder)]
             for folder in (_VERBS, _MAD)}
    try:
        vpd: CapturedFiles | Unmeasured = captures.files(VPD)
    except Unread as error:
        vpd = Unmeasured(str(error))
    result = tuple(_hca(files, vpd, name, users) for name in sorted(names, key=natural))
    return partial_if(result, files.unreadable())


def _hca(files: CapturedFiles, vpd: CapturedFiles | Unmeasured, name: str,
         users: dict[str, list[Any]]) -> Hca:
    at = f"{BASE}/{name}"
    pci = files.read(f"{at}/device/uevent", slot)
    kind = files.read(f"{at}/device/uevent", device_id)
    board: Any = files.optional(f"{at}/board_id", nonempty)
    made: Any = vpd if isinstance(vpd, Unmeasured) else vpd.optional(f"{at}/device/vpd", _labels)
    part: Any
    serial: Any
    part, serial = ((made.part or UNSUPPORTED, made.serial or UNSUPPORTED) if isinstance(made, VpdLabels)
                    else (made, made))
    return Hca(
        name=f"{name} ({pci})" if isinstance(pci, str) else name,
        device=name,
        pci=pci,
        kind=kind,
        firmware=files.optional(f"{at}/fw_ver", _firmware),
        board=board,
        model=kind if board is UNSUPPORTED else board,
        guid=files.optional(f"{at}/node_guid", _guid),
        system_guid=files.optional(f"{at}/sys_image_guid", _guid),
        part=part,
        serial=serial,
        width=files.optional(f"{at}/device/current_link_width", pcie_lanes),
        width_best=_best(files, at, "max_link_width", pcie_lanes),
        gigatransfers=files.optional(f"{at}/device/current_link_speed", pcie_speed),
        gigatransfers_best=_best(files, at, "max_link_speed", pcie_speed),
        verbs=_number(users[_VERBS], name),
        mads=_number(users[_MAD], name),
        virtual=files.has(f"{at}/device/physfn/uevent"),
    )


def _labels(text: str) -> VpdLabels:
    return labels(text.encode("utf-8", "surrogateescape"))


def _best(files: CapturedFiles, at: str, name: str, parse: Callable[[str], Any]) -> Any:
    """The lesser of what the adapter and its slot support; below a root complex there is no slot to read."""
    own, its_slot = (files.optional(f"{at}/device/{way}{name}", parse) for way in ("", "../"))
    if own is UNSUPPORTED or isinstance(own, Unmeasured) or its_slot is UNSUPPORTED:
        return own
    return its_slot if isinstance(its_slot, Unmeasured) else min(own, its_slot)


def _firmware(text: str) -> Any:
    """UNSUPPORTED where it is empty: a device of software, as rxe, has none (ib_get_device_fw_str in
    drivers/infiniband/core/device.c)."""
    return text or UNSUPPORTED


_GUID = re.compile(r"[0-9a-fA-F]{4}(:[0-9a-fA-F]{4}){3}")


def _guid(text: str) -> Any:
    """ "a088c20300000001" of "a088:c203:0000:0001"; UNSUPPORTED where the driver gives none, which is all
    zeros."""
    matched(_GUID, text)
    digits = text.replace(":", "").lower()
    return digits if digits.strip("0") else UNSUPPORTED


def _number(names: list[Any], device: str) -> Any:
    """How many of these devices belong to it; Unmeasured if one of them cannot be read."""
    return first_unread(names) or names.count(device)


_VENDOR = "15b3"
# Broadcom, Intel, AMD Pensando and Amazon (PCI ID database), and their virtual functions: those of E800,
# DSC and of NetXtreme-E by device ID (bnxt_pci_tbl in drivers/net/ethernet/broadcom/bnxt/bnxt.c).
_OTHERS = ("14e4", "8086", "1dd8", "1d0f")
_OTHER_VIRTUAL = ("8086:1889", "8086:145c", "1dd8:1003", *(f"14e4:{device}" for device in (
    "1606", "1607", "1608", "1609", "16bd", "16c1", "16c2", "16c3", "16c4", "16c5", "16cb", "16d3", "16dc",
    "16e1", "16e5", "16e6", "1806", "1807", "1808", "1809", "1819", "181b", "d800")))
# PCI code and ID assignment specification, class 02h
_INFINIBAND, _ETHERNET, _OTHER_NETWORK = "207", "200", "280"
_OF_HARDWARE = ("/device/uevent", "/board_id")      # a device of software has neither


@fact("adapter_bus", PCI, SYSFS, besides=(NETDEV, TEAMD))
def adapter_bus(captures: Captures) -> AdapterBus:
    """From the uevent files of all PCI devices and of all RDMA devices; raises Unread unless all of them were
    read."""
    bus, rdma = captures.files(PCI), captures.files(SYSFS)
    for probe in (PCI, SYSFS):
        if captures.outcome(probe) is not Outcome.DONE:
            raise Unread(f"{probe.id} was not wholly read")
    rdma.require(*unlisted(rdma, BASE))
    devices = {path[len(_DEVICES):].partition("/")[0] for path in rdma if path.endswith(_OF_HARDWARE)}
    with_rdma = {}
    for device in sorted(devices):
        if is_sub_function(rdma, device) or not any(
                rdma.has(f"{BASE}/{device}{file}") for file in _OF_HARDWARE):
            continue
        pci = pci_of(rdma, device)
        if isinstance(pci, Unmeasured):
            raise Unread(pci.reason)
        with_rdma[pci] = device
    lagged = captures.once(lag_cards).cards & {card(pci) for pci in with_rdma}
    adapters = [_adapter(path.split("/")[-2], bus.text(path), with_rdma, lagged) for path in bus]
    return AdapterBus("PCI bus", tuple([adapter for adapter in adapters if adapter is not None]))


def _adapter(pci: str, text: str, with_rdma: Container[str], lagged: Container[str]) -> Adapter | None:
    """A function of the PCI bus by its uevent file, where it is such an adapter; `with_rdma` are the
    addresses of RDMA devices, `lagged` the cards of which one stands for both functions."""
    device = uevent(text)
    family = device.get("PCI_CLASS", "").lstrip("0")[:3]
    if family not in (_INFINIBAND, _ETHERNET, _OTHER_NETWORK) or not device.get("PCI_ID"):
        return None
    kind = device_id(text)
    own = kind.startswith(_VENDOR) and family != _OTHER_NETWORK
    if not (own or kind.startswith(_OTHERS)) or kind in VIRTUAL or kind in _OTHER_VIRTUAL:
        return None
    driver, rdma = device.get("DRIVER", ""), pci in with_rdma
    return Adapter(pci, kind, own and family == _INFINIBAND, own, driver, rdma,
                   elsewhere=driver in PASSED_ON or (not rdma and card(pci) in lagged))
