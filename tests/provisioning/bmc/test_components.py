"""What the entries of firmware inventories are, by the names of several makers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.values import UNSUPPORTED, Unmeasured
from healthcheck.model.firmware import KINDS
from provisioning.bmc.base import FirmwareEntry, MachineIdentity
from provisioning.bmc.components import controller_reading, kind_of

WHO = MachineIdentity("Dell Inc.", "GX8", "SN1", "uuid-1", "2.1.5", "7.00.60", "iDRAC 9")


@pytest.mark.parametrize(("name", "kind"), [
    ("HGX_FW_BMC_0", "hgx"), ("HGX_FW_GPU_SXM_1", "vbios"), ("HGX_FW_GPU_0", "vbios"),
    ("HGX_FW_NVSwitch_3", "nvswitch"),
    ("HGX_FW_ConnectX_0", "hca"), ("CX7NIC_0", "hca"), ("CX7_1", "hca"),
    ("Mellanox Network Adapter - B8:CE:F6:CC:6A:16", "hca"),
    ("Mellanox ConnectX-5", "hca"), ("PCIe SSD in Slot 0 in Bay 1", "nvme"), ("Power Supply Firmware", "psu"),
    ("PSU_0", "psu"),
    ("HGX_FW_ERoT_GPU_SXM_1", ""), ("HGX_FW_ERoT_NVSwitch_0", ""), ("HGX_FW_ConnectX_SMA_0", ""),
    ("HGX_InfoROM_GPU_SXM_1", ""),
    ("HGX_FW_PCIeSwitch_0", ""), ("Backup_BIOS", ""), ("DPU_ATF_pending", ""), ("BIOS", ""), ("iLO 5", ""),
    ("CPLD_0", "")])
def test_an_entry_is_known_by_its_makers_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@given(st.text(max_size=40))
def test_any_name_is_a_kind_or_none(name: str) -> None:
    assert kind_of(name) in ("", *KINDS)


def test_a_controller_tells_of_its_machine_itself_and_each_entry_once() -> None:
    look = controller_reading(WHO, (FirmwareEntry("Power Supply", "1"), FirmwareEntry("Power Supply", "2"),
                                    FirmwareEntry("bios", "9"),
                                 FirmwareEntry("x\x1b[2J" + "y" * 200, Unmeasured("it answered 500"))))
    assert look.maker == "Dell Inc." and len({one.name for one in look.versions}) == len(look.versions)
    found = {one.name: (one.kind, one.version) for one in look.versions}
    assert found["bios"] == ("bios",
                             "2.1.5") and found["bmc"] == ("bmc", "7.00.60") and found["bios #2"] == ("", "9")
    assert found["Power Supply"] == ("psu", "1") and found["Power Supply #2"] == ("psu", "2")
    hostile = look.versions[-1]
    assert hostile.version is None and hostile.why == "it answered 500"
    assert "\x1b" not in hostile.name and len(hostile.name) <= 80


def test_what_it_does_not_say_is_no_version() -> None:
    silent = MachineIdentity(UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, "  ", "x")
    look = controller_reading(silent, None)
    assert look.maker == "" and [(one.name, one.version)
                                 for one in look.versions] == [("bios", None), ("bmc", None)]
