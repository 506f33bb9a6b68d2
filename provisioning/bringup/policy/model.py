"""The policy of bring-up as values: steps, times, how many at once, halts, and wanted settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

from healthcheck.model.outcome import Owner
from provisioning.bmc.accounts import DesiredAccounts
from provisioning.bmc.base import BootTarget
from provisioning.bringup.engine.model import BringupStep, StepEffect
from provisioning.osinstall.registry import OTHERS, OsChoice

FILE = "bringup.yaml"
# A host key is pinned at first contact, from the connection that proved the installed system.
FIRST = "first"
# What a step is called, whether a machine notices it, and whether it takes all machines that are there at
# once.
STEPS: Mapping[str, tuple[str, StepEffect, bool]] = {
    "bmc": ("controller reachable", StepEffect.PASSIVE, False),
    "credentials": ("credentials and firmware known", StepEffect.PASSIVE, False),
    "hardware": ("hardware equals the SKU", StepEffect.PASSIVE, False),
    "bios": ("BIOS settings as wanted", StepEffect.DISRUPTIVE, False),
    "boot": ("boots from where it should", StepEffect.DISRUPTIVE, False),
    "os": ("operating system installed", StepEffect.DISRUPTIVE, False),
    "ssh": ("SSH with a pinned host key", StepEffect.PASSIVE, False),
    "base": ("base configuration", StepEffect.DISRUPTIVE, False),
    "agent": ("agent installed", StepEffect.PASSIVE, False),
    "checks": ("node checks", StepEffect.PASSIVE, True),
    "kernel": ("kernel log known", StepEffect.PASSIVE, True),
    "soak": ("comes back the same from restarts", StepEffect.DISRUPTIVE, False),
    "leased": ("rules under a lease", StepEffect.DISRUPTIVE, True),
    "burnin": ("burn-in", StepEffect.DISRUPTIVE, True),
    "certificate": ("certificate signed", StepEffect.PASSIVE, True),
    "service": ("in service", StepEffect.PASSIVE, True),
}


@dataclass(frozen=True)
class Stop:
    """When a run begins nothing new: the `share` of its machines that are in new trouble, at least so many of
    them; and so many BMCs that refused the login, for then the password is wrong, and accounts lock."""

    share: float
    least: int
    refused_logins: int


@dataclass(frozen=True)
class PowerTimes:
    """For how long a change of power may take to show, and a boot with new settings to make them current; and
    how long a machine that is on is given to answer before it is sent to an installer; seconds."""

    off_s: float
    on_s: float
    bios_s: float
    answer_s: float = 600.0


class MissingAttribute(Enum):
    """What it means that a BIOS has no attribute of the wanted name."""

    TROUBLE = "trouble"
    LEAVE = "leave"         # said, and left: it was renamed, or this model has no such choice


@dataclass(frozen=True)
class Machines:
    """Which machines a setting is for: a glob over the maker's name, and SKUs, () for all."""

    vendor: str = "*"
    skus: tuple[str, ...] = ()

    def has(self, vendor: str, sku: str | None) -> bool:
        """Whether a machine is among them; makers are compared without regard to case."""
        return fnmatchcase(vendor.casefold(), self.vendor.casefold()) and (not self.skus or sku in self.skus)


@dataclass(frozen=True)
class DesiredBios:
    """Settings of the BIOS by their attribute's name, as the controller spells them."""

    id: str
    of: Machines
    settings: Mapping[str, str | int | bool]
    absent: MissingAttribute
    source: str


@dataclass(frozen=True)
class FirmwarePayload:
    """The file that brings a version: a path on this head or a URL of the site, and its SHA-256 in hex."""

    file: Path | None
    url: str | None
    sha256: str


class UpdateRoute(Enum):
    """Who brings a version to a component: its controller, or a tool of the machine's own operating system.
    The value is also the source of what a tool reports (`healthcheck.model.firmware`)."""

    REDFISH = "redfish"
    FWUPD = "fwupd"
    MLXFWMANAGER = "mlxfwmanager"


@dataclass(frozen=True)
class DesiredFirmware:
    """A version that a component must have, exactly or at least. `component` is a kind
    (`healthcheck.model.firmware`), or a glob over the firmware inventory or fwupd's devices; `bios` and `bmc`
    are the machine's BIOS and its controller."""

    id: str
    of: Machines
    component: str
    at_least: str | None
    exactly: str | None
    owner: Owner
    payload: FirmwarePayload | None = None
    by: UpdateRoute = UpdateRoute.REDFISH


@dataclass(frozen=True)
class Parts:
    """How the inventory of parts is judged: kinds whose seats may be empty where the SKU has no number of
    them; how many days of the event log count; and for how long a machine waits for the serial numbers of
    those beside it, so that of two that are equal both are reported."""

    may_be_empty: frozenset[str]
    log_days: float
    doubles_s: float


@dataclass(frozen=True)
class DesiredBurnIn:
    """Which burn-in: a length, and its stages by commas, None for all that the length has."""

    length: str
    stages: str | None


@dataclass(frozen=True)
class DesiredChecks:
    """Which rules' profile has to pass, in how many snapshots in a row, and how long after one another."""

    profile: str
    snapshots: int
    between_s: float


@dataclass(frozen=True)
class DesiredLeased:
    """Which rules have to pass that need a lease: ids, with * for any."""

    rules: tuple[str, ...]


@dataclass(frozen=True)
class DesiredSoak:
    """How often a machine is restarted to see it come back the same: `cold` times by its power, off for
    `off_s`, then `warm` times by its system. It has `boot_s`, and is looked at when up for `settle_s`. A boot
    of `slow` times the median plus `slow_s` seconds is named."""

    cold: int
    warm: int
    off_s: float
    boot_s: float
    settle_s: float
    slow: float
    slow_s: float

    @property
    def kinds(self) -> tuple[str, ...]:
        """What each restart is, in their order."""
        return ("cold",) * self.cold + ("warm",) * self.warm


@dataclass(frozen=True)
class DesiredConsoles:
    """Whether consoles are captured in steps that start machines, and of how many at a time."""

    capture: bool
    at_once: int


@dataclass(frozen=True)
class BringupPolicy:
    """All of it. `steps` are in their order; those in `without` a site leaves out, which is shown and never a
    pass. `boot` is from what a machine without an answering system boots once (NONE: its boot order).
    `delivery` is the CSV file of what was delivered, `base` what the base configuration's reader takes,
    values with places, `host_keys` where expected host keys are listed (None: pinned at first contact), `os`
    who installs the operating system."""

    steps: Mapping[str, BringupStep]
    without: frozenset[str]
    width: int
    grace_s: float
    stop: Stop
    power: PowerTimes
    boot: BootTarget
    parts: Parts
    burnin: DesiredBurnIn
    checks: DesiredChecks
    leased: DesiredLeased
    soak: DesiredSoak
    consoles: DesiredConsoles
    bios: tuple[DesiredBios, ...] = ()
    firmware: tuple[DesiredFirmware, ...] = ()
    delivery: Path | None = None
    base: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    files: tuple[str, ...] = ()
    host_keys: Path | None = None
    os: OsChoice = OTHERS
    accounts: DesiredAccounts = field(default_factory=DesiredAccounts)

    def settings(self, vendor: str, sku: str | None) -> dict[str, tuple[str | int | bool, MissingAttribute]]:
        """What is wanted of one machine's BIOS; where settings differ, the later one holds."""
        return {
            name: (value, entry.absent) for entry in self.bios if entry.of.has(vendor, sku)
                for name, value in entry.settings.items()}

    def needs_maker(self, desired: Sequence[DesiredBios | DesiredFirmware], sku: str | None) -> bool:
        """Whether it takes the maker's name to know which of these settings are for a machine of this SKU."""
        return any(
            entry.of.vendor != "*" and (not entry.of.skus or sku in entry.of.skus) for entry in desired)

    def versions(self, vendor: str, sku: str | None) -> tuple[DesiredFirmware, ...]:
        """What is wanted of one machine's firmware."""
        return tuple(entry for entry in self.firmware if entry.of.has(vendor, sku))
