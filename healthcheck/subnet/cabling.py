"""The cabling as it is planned: which port of which device is joined to which other, by the names that
people use: a switch's description, a host's inventory name, and what is printed beside a port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType


class Tier(Enum):
    """Where a device stands in the fabric."""

    HOST = "host"
    LEAF = "leaf"
    SPINE = "spine"
    CORE = "core"


@dataclass(frozen=True, order=True)
class PlannedEnd:
    """A port by name: the device ("leaf07", "gpu012"), and the port as it is printed or, of a host, the
    adapter's PCI address or display name ("12", "1/12/1", "0000:18:00.0", "mlx5_0")."""

    device: str
    port: str


@dataclass(frozen=True)
class PlannedCable:
    """One cable of the plan, the lower tier's end first. `plane` names its subnet; `width` (lanes) and
    `speed` (HDR, NDR ...) are what the link is to have, `gigabits` of Ethernet; `metres` its length;
    `serial` and `part` are known once it was delivered. None: not planned."""

    a: PlannedEnd
    b: PlannedEnd
    plane: str = ""
    width: int | None = None
    speed: str | None = None
    gigabits: float | None = None
    metres: float | None = None
    serial: str | None = None
    part: str | None = None


@dataclass(frozen=True)
class PlannedDevice:
    """A device of the plan: its rack, the height unit in it, and its GUID where that is known already."""

    name: str
    tier: Tier
    rack: str | None = None
    unit: int | None = None
    guid: str | None = None


@dataclass(frozen=True)
class CablingPlan:
    """What the fabric is to be: its devices by name, and its cables. No port stands in two cables."""

    devices: Mapping[str, PlannedDevice] = field(default_factory=lambda: MappingProxyType({}))
    cables: tuple[PlannedCable, ...] = ()
