"""How makers differ in Redfish, as values: which system is the host, which log has the events, what a BIOS
write needs.

Sources. Dell: iDRAC9 Redfish API guide (`System.Embedded.1`; Bios/Settings with @Redfish.SettingsApplyTime
makes the job that applies it at the next reset; logs Sel and Lclog). HPE: iLO 5 and 6 Redfish reference,
servermanagementportal.ext.hpe.com (Systems/1/LogServices/IML; paths end with a slash). Supermicro: Redfish
reference guide (Bios/SD is what is pending; LogServices/Log1; boots virtual media as UsbCd, which sushy
knows). NVIDIA: DGX H100 user guide and Infra Controller's Redfish endpoints reference, docs.nvidia.com
(Systems/DGX or System_0 is the host, HGX_Baseboard_0 has the GPUs; changes want If-Match). OpenBMC: bmcweb,
Redfish.md (Systems/system, EventLog).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from provisioning.bmc.redfish.answers import Document
from provisioning.bmc.redfish.read import inner, last, word


@dataclass(frozen=True)
class Maker:
    """`logs` are names of logs with the machine's events, the best first; `apply` is what a BIOS write says
    of its time; `match_any`: a change needs If-Match also where the resource shows no ETag."""

    name: str
    controller: str
    logs: tuple[str, ...]
    apply: str = ""
    match_any: bool = False


_SEL = ("SEL", "Sel", "IML", "Log1", "EventLog", "Log")
DELL = Maker("Dell", "iDRAC", ("Sel",), apply="OnReset")
HPE = Maker("HPE", "iLO", ("IML",))
SUPERMICRO = Maker("Supermicro", "Supermicro", ("Log1", "SEL"), match_any=True)
NVIDIA = Maker("NVIDIA", "NVIDIA", ("SEL", "EventLog"), match_any=True)
LENOVO = Maker("Lenovo", "XCC", ("PlatformLog", "StandardLog", "SEL"))
AMI = Maker("AMI", "MegaRAC", ("SEL", "EventLog"), match_any=True)
OPENBMC = Maker("OpenBMC", "OpenBMC", ("SEL", "EventLog"))
OTHER = Maker("", "", _SEL)
# A word in the service root's Vendor or Oem, or in the system's Manufacturer.
_WORDS = (
    ("dell", DELL), ("hpe", HPE), ("hewlett", HPE), ("supermicro", SUPERMICRO), ("super micro", SUPERMICRO),
    ("lenovo", LENOVO), ("nvidia", NVIDIA), ("ami", AMI), ("openbmc", OPENBMC))
# Systems that are boards within a host.
_BOARDS = ("hgx_", "gpu_", "dpu", "bluefield")


def maker(root: Document, system: Document | None = None) -> Maker:
    """Who made the controller, by what it says of itself; OTHER where that is no one known."""
    oem = inner(root, "Oem")
    message = [word(root, "Vendor"), *(oem if isinstance(oem, dict) else ()), word(root, "Product")]
    if system is not None:
        message.append(word(system, "Manufacturer"))
    for text in message:
        for name, found in _WORDS:
            lower = str(text).casefold()
            if lower.startswith(name) or (len(name) > 3 and name in lower):
                return found
    return OTHER


def is_board(path: str) -> bool:
    """Whether the system at this path is a board within a machine."""
    return last(path).casefold().startswith(_BOARDS)


def has_gpus(path: str) -> bool:
    """Whether it is the board that knows a machine's GPUs."""
    return last(path).casefold().startswith("hgx_")


def hosts(systems: Sequence[tuple[str, Document]]) -> list[tuple[str, Document]]:
    """Of a service's systems the machines themselves, not boards in one; several where it is the controller
    of several. One that tells no power state is a machine only where no other is."""
    whole = [one for one in systems
             if not is_board(one[0]) and word(one[1], "SystemType") not in ("DPU", "Composed")]
    physical = [one for one in whole or systems if one[1].get("PowerState") is not None]
    return physical or list(whole or systems)[:1]


def controller(root: Document, manager: Any, found: Maker) -> str:
    """What the controller is called: iDRAC 9, iLO 6, OpenBMC ..."""
    model = word(manager, "Model")
    if found is HPE or found is LENOVO or found is NVIDIA or not found.controller:
        return model or word(root, "Product") or found.controller
    if found is DELL:
        return f"iDRAC ({model})" if model else word(root, "Product") or "iDRAC"
    return f"{found.controller} {model}".strip() if model and model != found.controller else found.controller
