"""The seven makers' services, small and whole: the same machine, told in the way of each.

Sources, by maker. Supermicro: Redfish reference guide (account service: POST with RoleId; Bios/SD; Log1) and
dumps of X10 and GB300 boards in github.com/spyroot/redfish_ctl. Dell: iDRAC9 Redfish API guide and Redfish
scripting examples (accounts are slots below Managers/iDRAC.Embedded.1/Accounts, PATCH of an empty one; a
changed password ends its sessions; BIOS settings become a job, `Scheduled` with JCP001 until the reset). HPE:
iLO 5 and 6 Redfish reference and python-ilorest-library's add_user_account (POST with Oem.Hpe.LoginName;
paths with a slash; Bios/settings; IML). Lenovo: python-redfish-lenovo's lenovo_create_bmc_user (PATCH of the
first account whose name is empty, with If-Match) and XCC's REST guide (Bios/Pending, PlatformLog). AMI:
MegaRAC SP-X as sushy and OpenStack Ironic know it (Systems/Self; If-Match wanted for each PATCH; Bios/SD).
OpenBMC: bmcweb, Redfish.md (system, bmc, EventLog; PowerSubsystem and ThermalSubsystem;
PasswordChangeRequired for an expired password; account ids are names). NVIDIA: DGX H100 user guide and
nvidia-bmcweb (HGX_Baseboard_0 has the GPUs, Fabrics the NVSwitches; PATCH wants If-Match), no `$expand` on
HGX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.testbed.redfish.service import ROOT, SERVICE, SESSIONS, Service, Ways

OK = {"State": "Enabled", "Health": "OK"}
USER, DELIVERED = "root", "Delivered-0Pw."
Documents = dict[str, dict[str, Any]]
# What every one of them has: by kind, how many parts.
PARTS = {"cpu": 2, "gpu": 8, "dimm": 4, "drive": 2, "nic": 2, "psu": 2, "fan": 2}


def ref(path: str) -> dict[str, str]:
    return {"@odata.id": path}


def of(documents: Documents, path: str, members: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """A collection of these, by their ids; the link to it."""
    documents[path] = {"Members": [ref(f"{path}/{name}") for name in members]}
    for name, document in members.items():
        documents[f"{path}/{name}"] = {"Id": name, "Status": OK, **document}
    return ref(path)


def whole(
    vendor: str, system: str, manager: str, chassis: str, *, ways: Ways, log: str, pending: str,
    root: dict[str, Any],
    machine: dict[str, Any], newer: bool = False, gpus_at: str = "", log_of: str = "system",
    attributes: Mapping[str, Any] | None = None, installed: str = "",
) -> Service:
    """One machine as such a service tells of it. `newer`: power and cooling are subsystems; `gpus_at` is the
    system that has the GPUs where it is another; `installed` begins the names of firmware that runs."""
    d: Documents = {}
    here, bmc, case = f"{ROOT}/Systems/{system}", f"{ROOT}/Managers/{manager}", f"{ROOT}/Chassis/{chassis}"
    board = f"{ROOT}/Systems/{gpus_at}" if gpus_at else here
    cpus = {f"CPU{at}": {"ProcessorType": "CPU", "Model": "Xeon", "TotalCores": 56, "Socket": f"CPU{at}"}
            for at in (1, 2)}
    gpus = {f"GPU_SXM_{at}": {"ProcessorType": "GPU", "Model": "NVIDIA H100 80GB HBM3",
                              "SerialNumber": f"G{at}"}
            for at in range(1, 9)}
    of(d, f"{here}/Processors", cpus if gpus_at else {**cpus, **gpus})
    of(d, f"{here}/Memory",
       {f"DIMM{at}": {"DeviceLocator": f"A{at}", "CapacityMiB": 65536, "MemoryDeviceType": "DDR5"}
        for at in range(1, 5)})
    drives = {str(at): {"Model": "NVMe", "SerialNumber": f"D{at}", "CapacityBytes": 3840755982336}
              for at in (0, 1)}
    of(d, f"{here}/Storage", {"1": {"Drives": [ref(f"{here}/Storage/1/Drives/{at}") for at in drives]}})
    of(d, f"{here}/Storage/1/Drives", drives)
    of(d, f"{here}/EthernetInterfaces",
       {f"NIC{at}": {"MACAddress": f"02:00:00:00:00:0{at}"} for at in (1, 2)})
    of(d, f"{case}/NetworkAdapters",
       {f"NIC{at}": {"Model": "ConnectX-7", "SerialNumber": f"M{at}"} for at in (1, 2)})
    supplies = {f"PSU{at}": {"Name": f"PSU {at}", "PowerCapacityWatts": 3000} for at in (1, 2)}
    fans = {f"FAN{at}": {"Name": f"Fan {at}", "Status": OK} for at in (1, 2)}
    cooling: dict[str, Any]
    if newer:
        d[f"{case}/PowerSubsystem"] = {"PowerSupplies": of(d,
                                                           f"{case}/PowerSubsystem/PowerSupplies", supplies)}
        d[f"{case}/ThermalSubsystem"] = {"Fans": of(d, f"{case}/ThermalSubsystem/Fans", fans)}
        of(d, f"{case}/Sensors", {"inlet": {"Name": "Inlet", "Reading": 24, "ReadingUnits": "Cel"}})
        cooling = {name: ref(f"{case}/{name}") for name in ("PowerSubsystem", "ThermalSubsystem", "Sensors")}
    else:
        d[f"{case}/Power"] = {"PowerSupplies": [{"Status": OK, **one} for one in supplies.values()]}
        d[f"{case}/Thermal"] = {"Fans": [{**one, "Reading": 9000, "ReadingUnits": "RPM"}
                                         for one in fans.values()],
                                "Temperatures": [{"Name": "Inlet", "ReadingCelsius": 24, "Status": OK}]}
        cooling = {"Power": ref(f"{case}/Power"), "Thermal": ref(f"{case}/Thermal")}
    owner = here if log_of == "system" else bmc
    entry = {"EntryType": "SEL", "Severity": "OK", "Message": "System boot",
             "Created": "2026-11-22T10:00:00Z"}
    of(d, f"{owner}/LogServices", {log: {"Entries": ref(f"{owner}/LogServices/{log}/Entries"),
                                         "MaxNumberOfRecords": 512}})
    of(d, f"{owner}/LogServices/{log}/Entries", {"1": entry})
    own = {"BootMode": "Uefi", "SriovGlobalEnable": "Disabled", **(attributes or {})}
    bios = f"{here}/Bios"
    d[bios] = {"Id": "Bios", "Attributes": dict(own), "@Redfish.Settings": {
        "SettingsObject": ref(f"{bios}/{pending}"), "SupportedApplyTimes": ["OnReset"]}}
    d[f"{bios}/{pending}"] = {"Id": pending, "Attributes": dict(own)}
    of(d, f"{ROOT}/UpdateService/FirmwareInventory", {
        f"{installed}BIOS": {"Name": "BIOS", "Version": "2.1.5"},
        f"{installed}BMC": {"Name": "BMC", "Version": "7.0"}})
    d[f"{ROOT}/UpdateService"] = {"FirmwareInventory": ref(f"{ROOT}/UpdateService/FirmwareInventory")}
    d[here] = {
        "Id": system, "SystemType": "Physical", "PowerState": "Off", "Manufacturer": vendor, "Model": "GX8",
        "SerialNumber": "SN1", "UUID": "00000000-0000-0000-0000-000000000001",
        "BiosVersion": "2.1.5", "Status": OK,
        "Bios": ref(bios), "Boot": {
            "BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None",
            "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Hdd", "Cd", "BiosSetup"]},
        "Actions": {"#ComputerSystem.Reset": {"target": f"{here}/Actions/ComputerSystem.Reset",
                                              "ResetType@Redfish.AllowableValues": [
                                                  "On", "ForceOff", "GracefulShutdown", "ForceRestart"]}},
        "Links": {"ManagedBy": [ref(bmc)], "Chassis": [ref(case)]},
        **{name: ref(f"{here}/{name}") for name in ("Processors", "Memory", "Storage", "EthernetInterfaces")},
        **({"LogServices": ref(f"{here}/LogServices")} if log_of == "system" else {}), **machine}
    systems = [here]
    if gpus_at:
        of(d, f"{board}/Processors", gpus)
        d[board] = {"Id": gpus_at, "SystemType": "Physical", "Status": OK,
                    "Processors": ref(f"{board}/Processors")}
        systems.append(board)
    d[f"{ROOT}/Systems"] = {"Members": [ref(path) for path in systems]}
    of(d, f"{ROOT}/Managers", {manager: {"FirmwareVersion": "7.0", **(
        {"LogServices": ref(f"{bmc}/LogServices")} if log_of == "manager" else {})}})
    of(d, f"{ROOT}/Chassis",
       {chassis: {"ChassisType": "RackMount", "NetworkAdapters": ref(f"{case}/NetworkAdapters"),
                  **cooling}})
    expand = {"ProtocolFeaturesSupported": {"ExpandQuery": {"NoLinks": True,
                                                            "Levels": True}}} if ways.expands else {}
    d[ROOT] = {"RedfishVersion": "1.15.0", "Vendor": vendor, "Links": {"Sessions": ref(SESSIONS)},
               "AccountService": ref(SERVICE), "UpdateService": ref(f"{ROOT}/UpdateService"),
               **{name: ref(f"{ROOT}/{name}") for name in ("Systems", "Managers", "Chassis")},
               **expand, **root}
    return Service(d, ways, here, bios, f"{bios}/{pending}")


def supermicro() -> Service:
    """X13, H13."""
    return whole("Supermicro", "1", "1", "1", ways=Ways(if_match=True, least=8, most=20),
                 log="Log1", pending="SD",
                 root={"Oem": {"Supermicro": {}}}, machine={}, attributes={"QuietBoot_0061": True})


def idrac() -> Service:
    """PowerEdge with iDRAC 9."""
    jobs = f"{ROOT}/Managers/iDRAC.Embedded.1/Oem/Dell/Jobs"
    return whole("Dell Inc.", "System.Embedded.1", "iDRAC.Embedded.1", "System.Embedded.1", log="Sel",
                 pending="Settings",
                 ways=Ways(accounts=f"{ROOT}/Managers/iDRAC.Embedded.1/Accounts", slots=16, expands=True,
                           token_dies=True,
                           job=jobs, most=40), root={"Oem": {"Dell": {}}, "Vendor": "Dell"},
                 machine={"SKU": "7JX2K04"}, log_of="manager", installed="Installed-")


def ilo() -> Service:
    """ProLiant with iLO 6."""
    return whole("HPE", "1", "1", "1", log="IML", pending="settings", ways=Ways(
        slash=True, least=8, most=39, account_oem=("Hpe", "LoginName")), root={"Oem": {"Hpe": {}}},
        machine={"Oem": {"Hpe": {"PostState": "PowerOff"}}})


def xcc() -> Service:
    """ThinkSystem with XCC."""
    return whole("Lenovo", "1", "1", "1", log="PlatformLog", pending="Pending",
                 root={"Oem": {"Lenovo": {}}}, machine={},
                 ways=Ways(slots=12, if_match=True, expands=True, least=10, most=32))


def megarac() -> Service:
    """A board with AMI's MegaRAC SP-X."""
    return whole("AMI", "Self", "Self", "Self", log="SEL", pending="SD", ways=Ways(
        if_match=True, shows_tags=True, tasks=frozenset({"power"})), root={"Oem": {"Ami": {}}},
        machine={"Manufacturer": "Gigabyte"})


def openbmc() -> Service:
    """A board with OpenBMC."""
    return whole("OpenBMC", "system", "bmc", "chassis", log="EventLog", pending="Settings",
                 newer=True, ways=Ways(
                     expands=True, least=8, tasks=frozenset({"power"})), root={"Product": "OpenBMC"},
                 machine={"Manufacturer": "Quanta"})


def dgx() -> Service:
    """DGX or HGX H100: the GPUs are those of a board in the machine."""
    found = whole("NVIDIA", "DGX", "BMC", "DGX", log="SEL", pending="Settings", newer=True,
                  gpus_at="HGX_Baseboard_0",
                  ways=Ways(if_match=True, tasks=frozenset({"power", "bios"})),
                  root={"Fabrics": ref(f"{ROOT}/Fabrics")},
                  machine={})
    fabric = f"{ROOT}/Fabrics/HGX_NVLinkFabric_0"
    of(found.documents, f"{ROOT}/Fabrics", {"HGX_NVLinkFabric_0": {"FabricType": "NVLink", "Switches": ref(
        f"{fabric}/Switches")}})
    of(found.documents, f"{fabric}/Switches", {f"NVSwitch_{at}": {"SwitchType": "NVLink"} for at in range(4)})
    for path, document in found.documents.items():
        document.setdefault("@odata.id", path)
    return found


MAKERS: Mapping[str, Callable[[], Service]] = {
    "supermicro": supermicro, "idrac": idrac, "ilo": ilo, "xcc": xcc, "megarac": megarac,
    "openbmc": openbmc, "dgx": dgx}
