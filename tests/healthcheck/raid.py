"""What RAID controllers' tools print, written anew in the forms of Broadcom's manuals and of output that was
published (prometheus-community's storcli.py, netdata's storcli collector, scality/raidmgmt); tests change one
member at a time."""

from __future__ import annotations

import json
from typing import Any

from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from tests.healthcheck import machine

PERC, NEWER = "0000:65:00.0", "0000:16:00.0"
COMMAND = {"CLI Version": "007.2310.0000.0000 Nov 02, 2022", "Operating system": "Linux 5.15.0-91-generic"}


def drive(slot: int, state: str = "Onln", group: Any = 0, **more: Any) -> dict[str, Any]:
    """A row of the older tool's PD LIST."""
    return {"EID:Slt": f"252:{slot}", "DID": 8 + slot, "State": state, "DG": group, "Size": "893.75 GB",
            "Intf": "SATA", "Med": "SSD",
            "SED": "N", "PI": "N", "SeSz": "512B", "Model": "MZ7L3960HCJR   ", "Sp": "U", "Type": "-", **more}


def newer_drive(slot: int, state: str = "Conf", status: str = "Online", group: Any = 0) -> dict[str, Any]:
    """A row of the newer tool's PD LIST."""
    return {"EID:Slt": f"306:{slot}", "PID": 293 + slot, "State": state, "Status": status, "DG": group,
            "Size": "3.492 TiB", "Intf": "NVMe",
            "Med": "SSD", "SED_Type": "-", "SeSz": "512B", "Model": "KCD8XRUG3T84    ", "Sp": "U",
            "LU/NS Count": 1, "Alt-EID": "-"}


def volume(at: str = "0/239", state: str = "Optl", level: str = "RAID1") -> dict[str, Any]:
    return {"DG/VD": at, "TYPE": level, "State": state, "Access": "RW", "Consist": "Yes", "Cache": "RWBD",
            "Cac": "-", "sCC": "ON",
            "Size": "893.75 GB", "Name": "os"}


def controller(number: int = 0, **more: Any) -> dict[str, Any]:
    """One controller of "/call show all J"; `more` replace members of its data (None: leave it out)."""
    data = {
        "Basics": {"Controller": number, "Model": "PERC H755 Front", "Serial Number": "SK1",
                   "PCI Address": "00:65:00:00"},
        "Version": {"Firmware Version": "5.220.02-3691", "Driver Name": "megaraid_sas"},
        "Status": {"Controller Status": "Optimal", "Memory Correctable Errors": 0,
                   "Memory Uncorrectable Errors": 0, "BBU Status": 0},
        "Drive Groups": 1,
        "TOPOLOGY": [{"DG": 0, "Arr": 0, "Row": row, "EID:Slot": f"252:{row}", "DID": 8 + row,
                      "Type": "DRIVE", "State": "Onln"} for row in range(2)],
        "Virtual Drives": 1, "VD LIST": [volume()], "Physical Drives": 2, "PD LIST": [drive(0), drive(1)],
        "Cachevault_Info": [{"Model": "CVPM05", "State": "Optimal", "Temp": "28C", "Mode": "-",
                             "MfgDate": "2022/01/21"}],
        **more}
    kept = {name: value for name, value in data.items() if value is not None}
    return {"Command Status": {**COMMAND, "Controller": number, "Status": "Success", "Description": "None"},
            "Response Data": kept}


def newer(**more: Any) -> dict[str, Any]:
    """The newer tool's controller: its number is text, its name another member, and its battery an energy
    pack."""
    data = {
        "Basics": {"Product Name": "MegaRAID 9660-16i Tri-Mode Storage Adapter", "Serial Number": "SPE4"},
        "HostInterface": {"PCI Address": "00:16:00:0", "PCIe Link Width": "X8 Lane(s)"},
        "Status": {"Controller Status": "Optimal", "VD Count": 1, "VD Degraded Count": 0,
                   "Memory Uncorrectable Errors": 0},
        "Virtual Drives": 1, "VD LIST": [{"DG/VD": "0/1", "TYPE": "RAID5", "State": "Optl", "Access": "RW",
                                          "CurrentCache": "NR,WB", "Size": "6.9 TiB"}],
        "Physical Drives": 3, "PD LIST": [newer_drive(slot) for slot in range(3)],
        "Energy Pack Info": [{"Type": "Supercap", "SubType": "FBU345", "Voltage(mV)": 9184,
                              "Temperature(C)": 38, "Status": "Optimal"}],
        **more}
    return {"Command Status": {**COMMAND, "Controller": "0", "Status": "Success", "Description": "None"},
            "Response Data": data}


def counters(slot: int, enclosure: int | None = 252, **more: Any) -> dict[str, Any]:
    """What "/call/eall/sall show all J" has of one drive."""
    at = f"Drive /c0/e{enclosure}/s{slot}" if enclosure is not None else f"Drive /c0/s{slot}"
    state = {"Shield Counter": 0, "Media Error Count": 0, "Other Error Count": 0,
             "Drive Temperature": " 33C (91.40 F)",
             "Predictive Failure Count": 0, "S.M.A.R.T alert flagged by drive": "No", **more}
    return {at: [drive(slot)], f"{at} - Detailed Information": {
        f"{at} State": state, f"{at} Device attributes": {"SN": "S6KPNE0W", "Firmware Revision": "HXT7904Q"},
        "Inquiry Data": "00 00"}}


def drives(*found: dict[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for one in found or (counters(0), counters(1)):
        merged |= one
    status = {**COMMAND, "Controller": 0, "Status": "Success",
              "Description": "Show Drive Information Succeeded."}
    return {"Command Status": status, "Response Data": merged}


def newer_drives(**more: Any) -> dict[str, Any]:
    """The newer tool's drives; `more` are counters of drive 306:1."""
    listed = [{"Drive Information": newer_drive(slot), "Drive Detailed Information": {
        "Serial Number": f"X{slot}",
        "LU/NS Properties": {"Media Error Count": 0, "Predictive Failure Count": 0,
                             **(more if slot == 1 else {})}}}
        for slot in range(3)]
    status = {**COMMAND, "Controller": "0", "Status": "Success",
              "Description": "Show Drive Information Succeeded."}
    return {"Command Status": status, "Response Data": {"Drives List": listed}}


def answered(driver: str, document: Any, code: int = 0) -> Capture:
    text = document if isinstance(document, str) else json.dumps({"Controllers": document})
    return Capture(Outcome.DONE, seconds=2.0, bytes=len(text), files={
        f"/sys/bus/pci/drivers/{driver}": FileCapture(Outcome.DONE, f"exit {code}\n{text}")})


def bus(**drivers: str) -> Capture:
    """The PCI bus of the healthy machine with these RAID controllers: driver and address."""
    held = dict(machine.pci().files)
    for driver, address in drivers.items():
        held[f"/sys/bus/pci/devices/{address}/uevent"] = FileCapture(
            Outcome.DONE, f"DRIVER={driver}\nPCI_CLASS=10400\nPCI_ID=1000:10E2\nPCI_SLOT_NAME={address}\n")
    return Capture(Outcome.DONE, seconds=0.01, bytes=1, files=held)


def perc(*controllers: Any, of_drives: Any = None, **more: Capture) -> Recording:
    """The healthy machine with a PERC, and what its tool prints."""
    return machine.recording(**{
        "gpu_pci": bus(megaraid_sas=PERC),
        "raid_storcli": answered("megaraid_sas", list(controllers) or [controller()]),
        "raid_storcli-drives": answered("megaraid_sas", of_drives or [drives()]), **more})


def tri_mode(main: Any = None, of_drives: Any = None) -> Recording:
    """The healthy machine with a MegaRAID of the 9600 series."""
    return machine.recording(**{
        "gpu_pci": bus(mpi3mr=NEWER), "raid_storcli2": answered("mpi3mr", [main or newer()]),
        "raid_storcli2-drives": answered("mpi3mr", [of_drives or newer_drives()])})


MVCLI = """SG driver version 3.5.36.

Virtual Disk Information
-------------------------
id:                  0
name:                VD_R1_1
status:              functional
Stripe size:         64
RAID mode:           RAID1
Cache mode:          Not Support
size:                457798 M
BGA status:          not running
Block ids:           0 4
# of PDs:            2
PD RAID setup:       0 1
Running OS:          no
VD status:           optimal

Total # of VD:       1
"""
MNVCLI = """VD ID:               0
Name:                VD_0
Status:              Functional
Importable:          No
RAID Mode:           RAID1
size:                447 GB
PD Count:            2
PDs:                 0 1
Stripe Block Size:   128K
Sector Size:         512 bytes
VD is secure:        No

Total # of VD:       1
"""


def boss(text: str | None = MVCLI) -> Recording:
    """The healthy machine with a BOSS-S1; without its tool where there is no text."""
    said = answered("ahci", text) if text is not None else Capture(Outcome.MISSING)
    at = "/sys/block/sda"
    return machine.recording(raid_mvcli=said, disk_scsi=machine.done(**{
        f"{at}/removable": "0\n", f"{at}/device/state": "running\n",
        f"{at}/device/model": "DELLBOSS VD     \n",
        f"{at}/device/iodone_cnt": "0x1\n", f"{at}/device/ioerr_cnt": "0x0\n"}))
