"""Which firmware a machine's components run, as one look at it reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

# What a component is, whoever tells of it; "" is anything else. `hgx` is the controller of an HGX baseboard,
# whose version is that of the board's release ("HGX-22.10-1").
KINDS = ("bios", "bmc", "hgx", "vbios", "hca", "nvme", "nvswitch", "psu")
# Those that a sweep reads on the node itself.
IN_BAND = ("bios", "vbios", "hca", "nvme")
# Who reported: sweeps, controllers, and tools of the machine's own operating system.
SWEEP, BMC, FWUPD, MLXFWMANAGER = "sweep", "bmc", "fwupd", "mlxfwmanager"
LISTS_ALL = frozenset({BMC, FWUPD, MLXFWMANAGER})      # what one of these does not tell of is not there
MOST_COMPONENTS = 512           # of one machine and one source: the largest tell of some 150


@dataclass(frozen=True)
class ComponentVersion:
    """One component's version as it was read at `time` (epoch seconds); None where it could not be read, and
    `why` says why. `name` is the place for what a sweep read ("gpu 0000:18:00.0"), and the controller's own
    name for it for what that reported."""

    name: str
    kind: str
    version: str | None
    time: float
    source: str
    why: str = ""


@dataclass(frozen=True)
class FirmwareReading:
    """What one look reported: `maker` is the machine's, "" where it is not known; `whole` the kinds of which
    every component was seen. Versions have no times yet: the store gives them the look's."""

    maker: str
    versions: tuple[ComponentVersion, ...]
    whole: frozenset[str]


@dataclass(frozen=True)
class MachineFirmware:
    """What the store knows of one machine. `looked` is by source when it last reported anything, `whole` by
    source and kind when all of that kind were last seen."""

    maker: str = ""
    versions: tuple[ComponentVersion, ...] = ()
    looked: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    whole: Mapping[tuple[str, str], float] = field(default_factory=lambda: MappingProxyType({}))
