"""What sushy-tools' emulator has no resources for: parts, power supplies, sensors, firmware and logs of a
machine, as Redfish tells them.

Built from DMTF's schema bundle (DSP8010 2023.3) and the form of its public mockups (DSP2043,
public-rackmount1): Processor, Memory, Storage, Drive, NetworkAdapter, Port, PowerSubsystem and PowerSupply,
the older Power, Sensor, SoftwareInventory, LogService and LogEntry. What the emulator itself answers is only
added to: `more` gives by path what the emulator's system, manager, chassis and root do not say.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.testbed.bmc.driver import gpus, mac
from tests.testbed.bmc.machine import Machine, Wrong

ROOT = "/redfish/v1"
CHASSIS = f"{ROOT}/Chassis/15693887-7984-9484-3272-842188918912"      # the one that the emulator has
PAGE = 50
_WELL = {"State": "Enabled", "Health": "OK"}
_CRITICAL = {"State": "Enabled", "Health": "Critical"}


def system(machine: Machine) -> str:
    return f"{ROOT}/Systems/{machine.uuid}"


def manager(machine: Machine) -> str:
    return f"{ROOT}/Managers/{machine.uuid}"


def tree(machine: Machine) -> dict[str, dict[str, Any]]:
    """All resources that do not change, by path."""
    made: dict[str, dict[str, Any]] = {}
    here, uuid = system(machine), machine.uuid[:6].upper()
    for at in range(machine.cpus):
        made |= _one(f"{here}/Processors/CPU{at}", "Processor.v1_16_0", f"CPU{at}", Name="Processor",
                     Socket=f"CPU{at + 1}", ProcessorType="CPU",
                     Manufacturer="Intel(R) Corporation", Model="Intel(R) Xeon(R) Platinum 8480+",
                     TotalCores=56, TotalThreads=112,
                     ProcessorArchitecture="x86", InstructionSet="x86-64")
    for at in gpus(machine):
        made |= _one(f"{here}/Processors/GPU{at}", "Processor.v1_16_0", f"GPU{at}", Name="Processor",
                     ProcessorType="GPU", Manufacturer="NVIDIA",
                     Model=machine.gpu, SerialNumber=f"16{uuid}{at:02}", PartNumber="2330-885-A1",
                     FirmwareVersion="96.00.74.00.01",
                     **_at(f"GPU_SXM_{at + 1}"))
    for at in range(machine.dimms):
        made |= _one(f"{here}/Memory/DIMM{at}", "Memory.v1_17_0", f"DIMM{at}", Name=f"DIMM {at}",
                     DeviceLocator=f"A{at + 1}", CapacityMiB=65536,
                     MemoryDeviceType="DDR5", OperatingSpeedMhz=4800, Manufacturer="Samsung",
                     SerialNumber=f"DM{uuid}{at:02}",
                     PartNumber="M321R8GA0BB0-CQKZJ", **_at(f"A{at + 1}"))
    drives = [f"{here}/Storage/1/Drives/{at}" for at in range(machine.drives)]
    for at, path in enumerate(drives):
        bad = machine.wrong is Wrong.DRIVE_CRITICAL and at == len(drives) - 1
        made |= _one(path, "Drive.v1_17_0", str(at), Name=f"NVMe {at}", Model="SAMSUNG MZQL23T8HCLS-00A07",
                     SerialNumber=f"DR{uuid}{at:02}",
                     Manufacturer="Samsung", MediaType="SSD", Protocol="NVMe", CapacityBytes=3840755982336,
                     Revision="GDC5602Q",
                     FailurePredicted=bad, PredictedMediaLifeLeftPercent=100, **_at(f"Bay {at}"),
                     Status=_CRITICAL if bad else _WELL)
    made |= _one(f"{here}/Storage/1", "Storage.v1_15_0", "1", Name="NVMe", Drives=_links(drives),
                 **{"Drives@odata.count": len(drives)})
    for at in range(machine.nics):
        made |= _nic(machine, at, uuid)
    for at in range(machine.psus):
        bad = machine.wrong is Wrong.PSU_FAILED and at == machine.psus - 1
        made |= _one(f"{CHASSIS}/PowerSubsystem/PowerSupplies/{at}", "PowerSupply.v1_5_0", str(at),
                     Name=f"PSU {at + 1}", Model="PWR SPLY,3000W",
                     SerialNumber=f"PS{uuid}{at:02}", Manufacturer="Delta", FirmwareVersion="00.1B.53",
                     PowerCapacityWatts=3000,
                     **_at(f"PSU {at + 1}"), Status=_CRITICAL if bad else _WELL)
    supplies = [value for path, value in made.items() if path.startswith(f"{CHASSIS}/PowerSubsystem/")]
    made |= _one(f"{CHASSIS}/PowerSubsystem", "PowerSubsystem.v1_1_0", "PowerSubsystem", Name="Power",
                 PowerSupplies=_link(
                     f"{CHASSIS}/PowerSubsystem/PowerSupplies"))
    made |= _one(f"{CHASSIS}/Power", "Power.v1_7_1", "Power", Name="Power", PowerSupplies=[
        {**one, "@odata.id": f"{CHASSIS}/Power#/PowerSupplies/{at}", "MemberId": str(at)}
        for at, one in enumerate(supplies)])
    for at, (name, kind, unit, value, limit) in enumerate((("Inlet Temp", "Temperature", "Cel", 24.0, 42.0),
                                                           ("Fan 1", "Rotational", "RPM", 9840.0, None),
                                                           ("PSU 1 Input Power", "Power", "W", 412.0, None))):
        made |= _one(f"{CHASSIS}/Sensors/{at}", "Sensor.v1_7_0", str(at), Name=name, ReadingType=kind,
                     ReadingUnits=unit, Reading=value,
                     Thresholds={"UpperCritical": {"Reading": limit}} if limit is not None else {})
    versions = {"BIOS": machine.bios_version, "BMC": machine.firmware, "CPLD": "1.0.4",
                **{f"GPU{at}": "96.00.74.00.01" for at in gpus(machine)},
                **{f"NIC{at}": "28.39.1002" for at in range(machine.nics)}}
    for name, version in versions.items():
        made |= _one(f"{ROOT}/UpdateService/FirmwareInventory/{name}", "SoftwareInventory.v1_10_0", name,
                     Name=name, Version=version,
                     Updateable=name != "CPLD", SoftwareId=name)
    made |= _logs(machine, here) | _logs(machine, manager(machine))
    paths = list(made)
    for path in (f"{here}/Memory", f"{here}/Storage", f"{here}/NetworkInterfaces",
                 f"{CHASSIS}/NetworkAdapters",
                 f"{CHASSIS}/PowerSubsystem/PowerSupplies", f"{CHASSIS}/Sensors",
                 f"{ROOT}/UpdateService/FirmwareInventory",
                 f"{here}/LogServices", f"{manager(machine)}/LogServices"):
        made |= _collection(path, [one for one in paths if one.rpartition("/")[0] == path])
    return made


def more(machine: Machine, state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By path, what is added to an answer of the emulator's own."""
    here = system(machine)
    bad = machine.wrong in (Wrong.PSU_FAILED, Wrong.DRIVE_CRITICAL)
    what = {"Manufacturer": machine.vendor, "Model": machine.model, "SerialNumber": machine.number,
            "PartNumber": "GX8-001", "SKU": "GX8"}
    status = {**_WELL, "HealthRollup": "Critical" if bad else "OK"}
    return {
        ROOT: {"Vendor": machine.vendor, "Product": "Rack BMC",
               "SessionService": _link(f"{ROOT}/SessionService"), "UUID": machine.uuid,
               "Links": {"Sessions": _link(f"{ROOT}/SessionService/Sessions")},
               "ProtocolFeaturesSupported": {"ExpandQuery": {
"NoLinks": machine.expands, "ExpandAll": False, "Links": False, "Levels": False}}},
        here: {**what, "HostName": "", "Status": status, "LastResetTime": _stamp(state["reset"]),
               "BootProgress": {"LastState": _progress(state)},
               "NetworkInterfaces": _link(f"{here}/NetworkInterfaces"),
               "LogServices": _link(f"{here}/LogServices"), "SystemType": "Physical"},
        manager(machine): {"FirmwareVersion": machine.firmware, "Manufacturer": machine.vendor,
                           "Model": "Rack BMC", "DateTime": _stamp(time.time()),
                           "LogServices": _link(f"{manager(machine)}/LogServices")},
        CHASSIS: {**what, "ChassisType": "RackMount", **{name: _link(f"{CHASSIS}/{name}") for name in (
            "NetworkAdapters", "Power", "PowerSubsystem", "Sensors")}},
    }


def boot(state: Mapping[str, Any]) -> dict[str, Any]:
    """The override, of which the emulator does not keep whether it is for one boot."""
    none = state["boot_device"] == "None"
    return {"BootSourceOverrideEnabled": "Disabled" if none else "Once" if state["once"] else "Continuous",
            "BootSourceOverrideTarget": state["boot_device"],
            "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Cd", "Hdd", "BiosSetup"]}


def entries(machine: Machine, path: str, skip: int) -> dict[str, Any]:
    """A page of the event log."""
    all_ = [_entry(path, number, "OK", "System boot") for number in range(1, machine.log_entries + 1)]
    if machine.wrong is Wrong.PSU_FAILED:
        all_.append(_entry(path, len(all_) + 1, "Critical", f"Power supply {machine.psus} failed"))
    page = all_[skip:skip + PAGE]
    rest = {"Members@odata.nextLink": f"{path}?$skip={skip + PAGE}"} if skip + PAGE < len(all_) else {}
    return {"@odata.id": path, "@odata.type": "#LogEntryCollection.LogEntryCollection", "Name": "Log entries",
            "Members@odata.count": len(all_), "Members": page, **rest}


def error(message: str, message_id: str = "Base.1.15.GeneralError") -> dict[str, Any]:
    """An error as DSP0266 section 8.6 wants it."""
    return {"error": {"code": message_id, "message": message, "@Message.ExtendedInfo": [
        {"@odata.type": "#Message.v1_1_1.Message", "MessageId": message_id, "Message": message,
         "Severity": "Critical"}]}}


def _nic(machine: Machine, at: int, uuid: str) -> dict[str, dict[str, Any]]:
    path = f"{CHASSIS}/NetworkAdapters/NIC{at}"
    return {
        **_one(path, "NetworkAdapter.v1_9_0", f"NIC{at}", Name=f"NIC {at}", Manufacturer="NVIDIA",
               Model="ConnectX-7", SerialNumber=f"MT{uuid}{at:02}",
               Ports=_link(f"{path}/Ports"),
               Controllers=[{"FirmwarePackageVersion": "28.39.1002", **_at(f"Slot {at + 1}")}],
               **_at(f"Slot {at + 1}")),
        **_collection(f"{path}/Ports", [f"{path}/Ports/1"]),
        **_one(f"{path}/Ports/1", "Port.v1_9_0", "1", Name="Port 1", LinkStatus="LinkUp",
               CurrentSpeedGbps=400,
               Ethernet={"AssociatedMACAddresses": [mac(machine, at)]}),
        **_one(f"{system(machine)}/NetworkInterfaces/NIC{at}", "NetworkInterface.v1_2_0", f"NIC{at}",
               Name=f"NIC {at}",
               Links={"NetworkAdapter": _link(path)}),
    }


def _logs(machine: Machine, owner: str) -> dict[str, dict[str, Any]]:
    path = f"{owner}/LogServices/SEL"
    return _one(path, "LogService.v1_4_0", "SEL", Name="System event log", LogEntryType="SEL",
                MaxNumberOfRecords=1024, OverWritePolicy="WrapsWhenFull",
                DateTime="2026-01-01T00:00:00Z", Entries=_link(f"{path}/Entries"),
                Actions={"#LogService.ClearLog": {"target": f"{path}/Actions/LogService.ClearLog"}})


def _entry(path: str, number: int, severity: str, message: str) -> dict[str, Any]:
    return {"@odata.id": f"{path}/{number}", "@odata.type": "#LogEntry.v1_15_0.LogEntry", "Id": str(number),
            "Name": f"Log entry {number}",
            "EntryType": "SEL", "EntryCode": "Assert", "SensorType": "System Event", "Severity": severity,
            "Message": message,
            "Created": _stamp(1767225600 + 60 * number)}


def _progress(state: Mapping[str, Any]) -> str:
    if state["power_state"] != "On":
        return "None"
    return "SystemHardwareInitializationComplete" if state["post"] else "OSRunning"


def _stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(seconds))


def _at(label: str) -> dict[str, Any]:
    return {"Location": {"PartLocation": {"ServiceLabel": label, "LocationType": "Slot"}}}


def _link(path: str) -> dict[str, str]:
    return {"@odata.id": path}


def _links(paths: Sequence[str]) -> list[dict[str, str]]:
    return [_link(path) for path in paths]


def _one(path: str, kind: str, name: str, **values: Any) -> dict[str, dict[str, Any]]:
    return {path: {"@odata.id": path, "@odata.type": f"#{kind}.{kind.partition('.')[0]}", "Id": name,
                   "Status": _WELL, **values}}


def _collection(path: str, members: Sequence[str]) -> dict[str, dict[str, Any]]:
    return {path: {"@odata.id": path, "@odata.type": "#ResourceCollection.ResourceCollection",
                   "Name": path.rpartition("/")[2],
                   "Members@odata.count": len(members), "Members": _links(members)}}
