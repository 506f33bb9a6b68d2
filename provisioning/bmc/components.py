"""What the entries of a controller's firmware inventory are, by the names that makers give them.

Sources of the names. NVIDIA: nvfwupd's guide and output (CX7NIC_0, HGX_FW_BMC_0, HGX_FW_GPU_SXM_1,
HGX_FW_NVSwitch_0; on newer boards HGX_FW_GPU_0 and HGX_FW_ConnectX_0, beside HGX_FW_ConnectX_SMA_0, which
is no adapter). Dell: inventories in public Redfish clients ("PCIe SSD in Slot 0 in Bay 1", "Mellanox
Network Adapter - MAC"). HPE: iLO's inventory ("Power Supply Firmware"). Supermicro: Redfish reference guide
(BIOS, BMC; Backup_, Golden_, Staging_ and Capsule_ are copies, which do not run). BlueField's BMC:
DPU_ATF_pending waits for a reset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase

from healthcheck.facts.values import Unmeasured
from healthcheck.model.firmware import BMC, ComponentVersion, FirmwareReading
from inventory.text import clean
from provisioning.bmc.base import FirmwareEntry, MachineIdentity, Missing

# Globs over names in lower case; the first that fits counts. BIOS and BMC are reported by system and manager.
_NAMES = (
    ("hgx", ("hgx_fw_bmc_*",)),
    ("nvswitch", ("hgx_fw_nvswitch_*", "nvswitch*")),
    ("vbios", ("hgx_fw_gpu_*", "gpu[0-9]*", "gpu_sxm_*")),
    ("hca", ("hgx_fw_connectx_[0-9]*", "cx[0-9]_*", "cx[0-9]nic_*", "*connectx*", "mellanox network adapter*",
             "nvidia network adapter*", "nic[0-9]*")),
    ("nvme", ("*nvme*", "pcie ssd*")),
    ("psu", ("psu*", "power supply*")),
)
_NOT_RUNNING = ("backup_*", "golden_*", "staging_*", "capsule_*", "*_pending", "*_sma_*", "*backplane*")
_MOST = 80


def kind_of(name: str) -> str:
    """The kind of an entry of the firmware inventory, "" for what is none of `healthcheck.model.firmware`."""
    lower = name.casefold()
    if any(fnmatchcase(lower, glob) for glob in _NOT_RUNNING):
        return ""
    return next((kind for kind, globs in _NAMES if any(fnmatchcase(lower, glob) for glob in globs)), "")


def controller_reading(
    identity: MachineIdentity, entries: tuple[FirmwareEntry, ...] | None,
) -> FirmwareReading:
    """What a controller reported; `entries` is None where it has no inventory of firmware."""
    maker = clean(identity.vendor, _MOST) if isinstance(identity.vendor, str) else ""
    own = [_version("bios", "bios", identity.bios), _version("bmc", "bmc", identity.firmware)]
    return FirmwareReading(maker, (*own, *_listed(entries or ())), frozenset({"bmc"}))


def _listed(entries: tuple[FirmwareEntry, ...]) -> Iterator[ComponentVersion]:
    """Entries of one name are reported apart: several power supplies may be called the same."""
    met: Counter[str] = Counter({"bios": 1, "bmc": 1})
    for entry in entries:
        name = clean(entry.name, _MOST) or "?"
        met[name] += 1
        yield _version(name if met[name] == 1 else f"{name} #{met[name]}", kind_of(name), entry.version)


def _version(name: str, kind: str, found: str | Missing) -> ComponentVersion:
    if isinstance(found, str) and found.strip():
        return ComponentVersion(name, kind, clean(found.strip(), _MOST), 0.0, BMC)
    why = clean(found.reason, 200) if isinstance(found, Unmeasured) else "its BMC does not say it"
    return ComponentVersion(name, kind, None, 0.0, BMC, why)
