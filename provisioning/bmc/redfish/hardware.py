"""A machine's parts, kind by kind, out of Redfish; an unreadable kind costs no other. Source: DMTF's schemas
Processor, Memory, Drive, NetworkAdapter, Switch, PowerSupply, Fan, and Power and Thermal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from healthcheck.facts.values import UNSUPPORTED, Unmeasured
from provisioning.bmc.base import BmcError, BmcErrorReason, HardwareInventory, HardwarePart, Missing
from provisioning.bmc.redfish import vendors
from provisioning.bmc.redfish.answers import Document
from provisioning.bmc.redfish.crawl import Onward, ToRead
from provisioning.bmc.redfish.read import (
    NOT_REPORTED,
    first,
    flag,
    inner,
    last,
    link,
    links,
    number,
    objects,
    text,
    word,
)
from provisioning.bmc.redfish.service import RedfishService
from provisioning.bmc.redfish.walk import ENDS, CollectionMember, expands, linked, members

_MIB, _GPU = 2**20, ("GPU", "Accelerator")
_MODULES = ("HBM", "HBM2", "HBM2E", "HBM3", "HBM3E", "GDDR")    # memory of a GPU, which is no module
Parts = list[HardwarePart]
Kinds = dict[str, Parts | BmcError | None]
_NVLINK = "NVLink"


def hardware(service: RedfishService) -> HardwareInventory:
    """All kinds. Raises BmcError only where not even the machine itself can be read."""
    _prefetch(service)
    service.system()
    reader = _Reader(service)
    kinds: tuple[tuple[tuple[str, ...], Callable[[], Kinds]], ...] = (
        (("cpu", "gpu"), reader.processors), (("dimm",), reader.memory), (("drive",), reader.drives),
        (("nic",), reader.nics), (("psu",), reader.supplies), (("fan",), reader.fans),
        (("switch",), reader.switches))
    found: dict[str, tuple[HardwarePart, ...] | Missing] = {}
    ended: BmcError | None = None
    for names, read in kinds:
        try:
            if ended is not None:
                raise ended
            for name, parts in read().items():
                found[name] = _missing(parts) if isinstance(
                    parts, BmcError) else UNSUPPORTED if parts is None else tuple(parts)
        except BmcError as problem:
            ended = problem if problem.wrong in ENDS else ended
            found |= dict.fromkeys(names, _missing(problem))
    service.session.cut_short(ended is not None)
    return HardwareInventory(MappingProxyType(found))


def _prefetch(service: RedfishService) -> None:
    """Reads over several connections what the readers will ask for: one answer after the other takes a
    controller without `$expand` some hundred times as long as one answer."""
    session = service.session
    leads = _Leads(expands(session), service.named)
    session.read_on([one for key, each in (("Systems", leads.system), ("Chassis", leads.case),
                                           ("Fabrics", leads.fabric))
                     for one in leads.collection(session.root, key, each)])


class _Leads:
    """What each kind of document leads to that the readers ask for."""

    def __init__(self, query: str, named: str | None) -> None:
        self._query = query
        self._named = named

    def collection(self, document: Any, key: str, each: Onward | None = None) -> Iterator[ToRead]:
        """The collection under a key, whose members lead on as `each` says."""
        if (path := link(document, key)) is not None:
            yield ToRead(path + self._query, lambda found: self._members(found, each))

    def _members(self, found: Document, each: Onward | None) -> Iterator[ToRead]:
        for one in objects(found, "Members"):
            if any(not key.startswith("@") for key in one):
                yield from each(one) if each is not None else ()
            elif (path := link(one)) is not None:
                yield ToRead(path, each)
        if isinstance(after := found.get("Members@odata.nextLink"), str) and after:
            yield ToRead(after, lambda page: self._members(page, each))

    def system(self, found: Document) -> Iterator[ToRead]:
        """A machine, or a board in one; of others' parts nothing is asked."""
        path = link({"": found}, "") or ""
        if vendors.is_board(path) and not vendors.has_gpus(path):
            return
        if self._named is not None and last(path) != self._named and not vendors.has_gpus(path):
            return
        for key in ("Processors", "Memory", "EthernetInterfaces"):
            yield from self.collection(found, key)
        yield from self.collection(found, "Storage", self.storage)

    def storage(self, found: Document) -> Iterator[ToRead]:
        """A storage subsystem: its drives are a list of links, or a collection."""
        yield from self.collection(found, "Drives")
        yield from (ToRead(path) for path in links(found, "Drives"))

    def case(self, found: Document) -> Iterator[ToRead]:
        """A chassis: adapters, supplies and fans, these in the newer way or the older."""
        yield from self.collection(found, "NetworkAdapters")
        for newer, older, parts in (("PowerSubsystem", "Power", "PowerSupplies"),
                                    ("ThermalSubsystem", "Thermal", "Fans")):
            if (path := link(found, newer)) is not None:
                yield ToRead(path, partial(self.collection, key=parts))
            elif (path := link(found, older)) is not None:
                yield ToRead(path)

    def fabric(self, found: Document) -> Iterator[ToRead]:
        """A fabric that may have NVLink's switches."""
        if word(found, "FabricType") in ("", _NVLINK):
            yield from self.collection(found, "Switches")


def _missing(problem: BmcError) -> Missing:
    """Why a kind is not there: one that leads to nothing is not reported."""
    return UNSUPPORTED if problem.wrong is BmcErrorReason.UNSUPPORTED else Unmeasured(problem.message)


class _Reader:
    """Each method gives the parts of its kinds, None for an untold kind, or why it is not known."""

    def __init__(self, service: RedfishService) -> None:
        self._service = service
        self._session = service.session
        self._chassis: list[CollectionMember] | None = None

    def _systems(self) -> Iterator[Any]:
        for one in self._service.systems():
            if one.document is None:
                raise one.wrong or _BROKEN
            yield one.document

    def _cases(self) -> list[CollectionMember]:
        if self._chassis is None:
            self._chassis = list(self._service.chassis())
        return self._chassis

    def processors(self) -> Kinds:
        systems = list(self._service.systems())
        cpus, gpus = self._processors(systems[0].document)
        # which knows its GPUs better than the host that it is in, and may have the only CPUs
        for board in systems[1:]:
            if board.document is None:
                return {"cpu": cpus or None, "gpu": board.wrong or _BROKEN}
            more, better = self._processors(board.document)
            cpus, gpus = cpus or more, better or gpus
        # Older services know GPUs as cards only.
        return {"cpu": cpus or None, "gpu": gpus or self._cards() or None}

    def _processors(self, system: Any) -> tuple[Parts, Parts]:
        collection = link(system, "Processors")
        cpus: Parts = []
        gpus: Parts = []
        for one in members(self._session, collection) if collection is not None else ():
            kind = _kind(one)
            if kind == "cpu":
                cpus.append(replace(_part(kind, one, "Socket"), amount=number(one.document, "TotalCores")))
            elif kind == "gpu":
                gpus.append(_part(kind, one))
        return cpus, gpus

    def _cards(self) -> Parts:
        system = self._service.system()
        return [_part("gpu", one) for one in linked(self._session, system, "PCIeDevices")
                if "gpu" in (word(one.document, "DeviceType").casefold(),
                             word(one.document, "Oem", "Supermicro", "GPUDevice").casefold())
                    or "gpu" in word(one.document, "Name").casefold().replace("-", " ").split()
                    or last(one.path).upper().startswith("GPU")]

    def memory(self) -> Kinds:
        found: Parts | None = None
        for system in self._systems():
            collection = link(system, "Memory")
            for one in members(self._session, collection) if collection is not None else ():
                if word(one.document, "MemoryDeviceType").upper().startswith(
                    _MODULES) or last(one.path).upper().startswith("GPU"):
                    continue
                found = found or []
                amount = number(one.document, "CapacityMiB", times=_MIB)
                part = replace(_part("dimm", one, "DeviceLocator"), amount=amount)
                # Empty seats of older services have neither size nor state.
                found.append(replace(part, present=False) if amount == 0 else part)
            if collection is not None:
                found = found or []
        return {"dimm": found}

    def drives(self) -> Kinds:
        found: Parts | None = None
        for system in self._systems():
            collection = link(system, "Storage")
            if collection is not None:
                found = found or []
                for storage in members(self._session, collection):
                    if storage.document is None:
                        raise storage.wrong or _BROKEN
                    for one in linked(self._session, storage.document, "Drives"):
                        firmware = first(
                            text(one.document, "FirmwareVersion"), text(one.document, "Revision"))
                        part = _part("drive", one)
                        # Some services call a drive well until it is gone.
                        if flag(one.document, "FailurePredicted") is True and part.health != "Critical":
                            part = replace(part, health="Warning")
                        found.append(
                            replace(part, amount=number(one.document, "CapacityBytes"), firmware=firmware))
            elif found is None and (simple := link(system, "SimpleStorage")) is not None:
                found = [replace(_part("drive", CollectionMember("", device)),
                                 amount=number(device, "CapacityBytes"))
                         for storage in members(self._session, simple)
                         for device in objects(storage.document, "Devices")]
        return {"drive": found}

    def nics(self) -> Kinds:
        macs = self._macs()
        found: Parts = []
        error_text = macs is not None
        for case in self._cases():
            collection = link(case.document, "NetworkAdapters")
            if collection is None:
                continue
            error_text = True
            for one in members(self._session, collection):
                # Dell's interfaces are called after their card: NIC.Slot.3-1-1 of NIC.Slot.3
                card = last(one.path)
                own = [mac for name, mac in (macs or {}).items()
                       if name == card or name.startswith((f"{card}-", f"{card}."))]
                own = own or self._functions(one.document)
                found.append(
                    replace(_part("nic", one), address=",".join(own) or NOT_REPORTED,
                            firmware=first(text(one.document, "Controllers", "0", "FirmwarePackageVersion"),
                                           text(one.document, "FirmwareVersion"))))
        if not found:
            found = [
                HardwarePart("nic", name, address=mac or NOT_REPORTED) for name, mac in (macs or {}).items()]
        return {"nic": found if error_text else None}

    def _functions(self, adapter: Any) -> list[str]:
        """MAC addresses by the functions of an adapter, where that costs one request."""
        collection = link(adapter, "NetworkDeviceFunctions")
        if collection is None or not expands(self._session):
            return []
        try:
            found = [
                word(one.document, "Ethernet", "PermanentMACAddress")
                or word(one.document, "Ethernet", "MACAddress") for one in members(self._session, collection)]
        except BmcError as problem:
            if problem.wrong in ENDS:
                raise
            return []
        return [mac.lower() for mac in dict.fromkeys(found) if mac]

    def _macs(self) -> dict[str, str] | None:
        """MAC addresses by the name of the interface; None where the service tells of no interfaces."""
        collection = link(self._service.system(), "EthernetInterfaces")
        if collection is None:
            return None
        return {
            last(one.path): first_word(one, "PermanentMACAddress", "MACAddress").lower()
            for one in members(self._session, collection)}

    def supplies(self) -> Kinds:
        return {
            "psu": self._of_cases("psu", "PowerSubsystem", "PowerSupplies", "Power", "PowerCapacityWatts")}

    def fans(self) -> Kinds:
        return {"fan": self._of_cases("fan", "ThermalSubsystem", "Fans", "Thermal", "")}

    def _of_cases(self, kind: str, newer: str, name: str, older: str, amount: str) -> Parts | None:
        found: Parts | None = None
        for case in self._cases():
            for one in self._newer(
                case.document, newer, name) or self._older(case.document, older, name) or ():
                part = _part(kind, one, "Name", "FanName")
                watts = first_number(
                    one.document, "PowerCapacityWatts", "PowerInputRating") if amount else NOT_REPORTED
                model = first(text(one.document, "Model"), text(one.document, "PartNumber"))
                found = [*(found or ()), replace(part, amount=watts, model=model)]
        return found

    def _newer(self, case: Any, subsystem: str, name: str) -> list[CollectionMember] | None:
        where = link(case, subsystem)
        try:
            collection = link(self._session.get(where), name) if where is not None else None
            return list(members(self._session, collection)) if collection is not None else None
        except BmcError as problem:
            if problem.wrong is BmcErrorReason.UNSUPPORTED:
                return None
            raise

    def _older(self, case: Any, resource: str, name: str) -> list[CollectionMember] | None:
        where = link(case, resource)
        try:
            return ([CollectionMember("", one) for one in objects(self._session.get(where), name)]
                    if where is not None else None)
        except BmcError as problem:
            if problem.wrong is BmcErrorReason.UNSUPPORTED:
                return None
            raise

    def switches(self) -> Kinds:
        """NVLink's alone: HGX boards tell of their PCIe switches and retimers in the same collection."""
        collection = link(self._session.root, "Fabrics")
        found: Parts | None = None
        for fabric in members(self._session, collection) if collection is not None else ():
            if fabric.document is None:
                raise fabric.wrong or _BROKEN
            kind = word(fabric.document, "FabricType")
            if (inside := link(fabric.document, "Switches")) is None or kind not in ("", _NVLINK):
                continue
            if kind == _NVLINK:
                found = found or []
            for one in members(self._session, inside):
                nvlink = _is_nvlink(one, kind)
                if nvlink is None:
                    why = f"switch {last(one.path)} of fabric {last(fabric.path)} does not tell its type"
                    return {"switch": BmcError(BmcErrorReason.BROKEN, why)}
                if nvlink:
                    found = [*(found or ()), _part("switch", one)]
        return {"switch": found}


def _is_nvlink(one: CollectionMember, fabric: str) -> bool | None:
    """Whether a switch is NVLink's: by its own type, its fabric's, or a name of NVIDIA's; None where none of
    these says. Source: DMTF's schemas Switch.SwitchType and Fabric.FabricType (the values of Protocol)."""
    name = last(one.path).casefold()
    kind = word(one.document, "SwitchType") or fabric
    if kind:
        return kind == _NVLINK
    return True if name.startswith("nvswitch") else False if name.startswith("pcie") else None


_BROKEN = BmcError(BmcErrorReason.BROKEN, "it cannot be read")


def _kind(one: CollectionMember) -> str:
    """cpu, gpu, or nothing for what is neither (an FPGA, a core of a CPU)."""
    kind = word(one.document, "ProcessorType")
    if kind in _GPU or (not kind and last(one.path).upper().startswith("GPU")):
        return "gpu"
    return "cpu" if kind in ("", "CPU") else ""


def first_word(member: CollectionMember, *keys: str) -> str:
    """The first of these that is said, else nothing."""
    return next((found for key in keys if (found := word(member.document, key))), "")


def first_number(document: Any, *keys: str) -> int | Missing:
    """The first of these that is said."""
    return next((found for key in keys if isinstance(found := number(document, key), int)), NOT_REPORTED)


def _part(kind: str, one: CollectionMember, *slots: str) -> HardwarePart:
    """What any part says of itself. Of one that could not be read there is the seat, and why."""
    if one.document is None:
        why = Unmeasured(one.wrong.message if one.wrong is not None else "it could not be read")
        return HardwarePart(kind, last(one.path), why, why, why, why, why, why)
    document = one.document
    label = first(*(text(document, place, "PartLocation", "ServiceLabel")
                    for place in ("Location", "PhysicalLocation")), *(text(document, slot) for slot in slots),
                  text(document, "Id"), text(document, "MemberId"), text(document, "Name"))
    slot = label if isinstance(label, str) else last(one.path)
    return HardwarePart(kind, slot, first(text(document, "Model"), text(document, "PartNumber")),
                        text(document, "SerialNumber"), text(document, "Status", "Health"),
                        first(text(document, "FirmwareVersion"), text(document, "FirmwareVersionOverride")),
                        present=inner(document, "Status", "State") != "Absent")
