"""What an emulated machine and its controller are, and what can be wrong with them: values that a test gives
and the emulator's process reads."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

ELSEWHERE = "elsewhere"     # where a machine that redirects sends everybody; it is logged like a machine

# Names and values as in the BIOS registry that sushy-tools brings (templates/bios_registry.json), and one
# that vendors have.
BIOS: Mapping[str, str | int | bool] = {
    "BootMode": "Uefi", "EmbeddedSata": "Raid", "NicBoot1": "NetworkBoot", "NumCores": "All",
    "ProcTurboMode": "Disabled",
    "QuietBoot": "true", "SecureBootStatus": "Enabled", "SriovGlobalEnable": "Enabled",
}


class Wrong(Enum):
    """What is wrong with a machine or its controller; the value is for people."""

    NO_ONE = "nobody listens"
    SILENT = "accepts connections, and says nothing"
    CERTIFICATE = "shows another certificate than it had"
    PASSWORD = "does not take our password"
    SLOW = "takes its time for each answer"
    SICK_AT_FIRST = "answers 503 at first, and is well then"
    SICK = "answers 500 for ever"
    DROPS = "drops every connection in the middle of an answer"
    LOSES_ANSWERS = "does each change, and drops the connection instead of saying so"
    FLOODS = "answers with a body that never ends"
    REDIRECTS = "sends everybody elsewhere"
    NO_POWER = "takes the order to power on, and stays off"
    NO_OS = "powers on, and its operating system never comes"
    GPU_MISSING = "one GPU is not there"
    PSU_FAILED = "one power supply failed"
    DRIVE_CRITICAL = "one drive says that it is failing"
    BIOS_REFUSED = "refuses to take BIOS settings"
    BIOS_IGNORED = "takes BIOS settings, and never applies them"
    TWIN = "has the serial number of another machine"


@dataclass(frozen=True)
class Machine:
    """One machine in the rack. What is not said is a sound small GPU server that is off.

    `bios` changes or adds to the settings that it has now; no other is taken. `seconds` are the answer's of
    one that is slow, `sick` is how many answers are 503 at first. With `expands` it knows `$expand`.
    """

    name: str
    wrong: Wrong | None = None
    on: bool = False
    vendor: str = "Contoso"
    model: str = "GX8"
    serial: str = ""
    bios: Mapping[str, str | int | bool] = field(default_factory=dict)
    bios_version: str = "2.1.5"
    firmware: str = "7.00.60"
    cpus: int = 2
    gpus: int = 8
    gpu: str = "NVIDIA H100 80GB HBM3"
    dimms: int = 4
    drives: int = 2
    nics: int = 2
    psus: int = 2
    log_entries: int = 3
    seconds: float = 5.0
    sick: int = 6
    expands: bool = False

    @property
    def uuid(self) -> str:
        """Its system's UUID, by which all its resources are called; the same in each run."""
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{self.name}.rack"))

    @property
    def number(self) -> str:
        return self.serial or f"SN{self.uuid[:8].upper()}"

    def document(self) -> dict[str, Any]:
        """All of it for the emulator's process."""
        return {**asdict(self), "wrong": self.wrong.name if self.wrong else None}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Machine:
        """What `document` gave."""
        return cls(**{**document, "wrong": Wrong[document["wrong"]] if document["wrong"] else None})
