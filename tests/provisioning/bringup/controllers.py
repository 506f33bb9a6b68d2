"""A controller that is an object: what it says and does stands in its fields, so that every kind of answer
can be had; and a world with a clock.

It is the lowest seam that shows answers no emulator gives; real controllers over TLS are in
`tests/testbed/bmcs.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from healthcheck.config.rulesfolder import packaged
from healthcheck.facts.bmc import BmcEvent, BmcLog, BmcLogUse, BmcSensor, BmcSensors
from healthcheck.facts.values import UNSUPPORTED, Unmeasured
from healthcheck.ruleset.sku import Sku
from inventory.model import Bmc, Lifecycle, LifecycleState, Node
from provisioning.bmc.base import (
    LOG_DAYS,
    Bios,
    BmcError,
    BmcErrorReason,
    BootOverride,
    BootTarget,
    EarlierChange,
    FirmwareEntry,
    FirmwareImage,
    HardwareInventory,
    HardwarePart,
    LogReading,
    MachineIdentity,
    Media,
    Missing,
    PowerAction,
    PowerState,
)
from provisioning.bringup.engine.model import Machine, PastOperation
from provisioning.bringup.policy.load import load

POLICY = load([packaged()])
SKU = Sku(
    "gx8", "eight GPUs",
    {"gpu_count": 8, "dimm_count": 4, "nvme_count": 2, "port_count": 2, "memory_gib": 256, "cpu_count": 224},
    frozenset(), "")
NODE = Node("gx01", "192.0.2.7", bmc=Bmc("198.51.100.7", user="admin"), rack="r12",
            lifecycle=Lifecycle(LifecycleState.BRINGUP))
GIB = 2**30


def parts(**changes: tuple[HardwarePart, ...] | Missing) -> HardwareInventory:
    """Those of SKU, all well, but for the kinds that are given."""
    well = {
        "cpu": tuple(HardwarePart("cpu", f"CPU{at}", health="OK", amount=56) for at in (1, 2)),
        "gpu": tuple(HardwarePart("gpu", f"GPU_SXM_{at}", "H100", f"G{at}", "OK") for at in range(1, 9)),
        "dimm": tuple(
            HardwarePart("dimm", f"A{at}", "DDR5", f"D{at}", "OK", amount=64 * GIB) for at in range(1, 5)),
        "drive": tuple(HardwarePart("drive", f"Bay {at}", "NVMe", f"N{at}", "OK") for at in (0, 1)),
        "nic": tuple(HardwarePart("nic", f"Slot {at}", "CX-7", f"M{at}", "OK",
                                  address=f"02:00:00:00:00:0{at}") for at in (1, 2)), "switch": (),
        "psu": tuple(HardwarePart("psu", f"PSU {at}", "3000W", f"P{at}", "OK") for at in (1, 2)),
        "fan": (HardwarePart("fan", "Fan 1", health="OK"),)}
    return HardwareInventory({**well, **changes})


IDENTITY = MachineIdentity("Dell Inc.", "GX8", "SN1", "uuid-1", "2.1.5", "7.00.60", "iDRAC 9")


@dataclass
class Scripted:
    """`fails` is by method what it raises, always or for the first of a list; `operations` what was done to
    it, in order. What may be unmeasured in a fact, may be here."""

    node: str = "gx01"
    kind: str = "redfish"
    on: PowerState = PowerState.ON
    who: MachineIdentity = IDENTITY
    settings: dict[str, str | int | bool] | Missing = field(default_factory=dict)
    pending: dict[str, str | int | bool] | Missing = field(default_factory=dict)
    override: BootOverride = field(default_factory=lambda: BootOverride(BootTarget.NONE, False))
    hard: HardwareInventory = field(default_factory=parts)
    versions: tuple[FirmwareEntry, ...] = ()
    events: tuple[BmcEvent, ...] | Missing = ()
    unread: str = ""            # of the event log
    readings: tuple[BmcSensor, ...] | Missing = ()
    fails: dict[str, BmcError | list[BmcError | None]] = field(default_factory=dict)
    operations: list[str] = field(default_factory=list)
    opened: int = 0
    closed: int = 0
    says: str = ""              # of a change that it accepted
    left: tuple[EarlierChange, ...] = ()
    stays: bool = False         # the power, whatever it is told
    applies: bool = True        # pending settings in the next boot

    def _ask(self, name: str) -> None:
        found = self.fails.get(name)
        if isinstance(found, list):
            found = found.pop(0) if found else None
        if found is not None:
            raise found

    def reachable(self) -> str:
        self._ask("reachable")
        return "iDRAC 9, Redfish 1.17"

    def identity(self) -> MachineIdentity:
        self._ask("identity")
        return self.who

    def power(self) -> PowerState:
        self._ask("power")
        return self.on

    def set_power(self, set_power: PowerAction) -> str:
        self._ask("turn")
        self.operations.append(set_power.value)
        self._turned(set_power)
        self._ask("turned")
        return self.says

    def _turned(self, set_power: PowerAction) -> None:
        if self.stays:
            return
        self.on = PowerState.ON if set_power is PowerAction.ON else PowerState.OFF
        if set_power is PowerAction.ON and isinstance(self.settings, dict) and isinstance(self.pending, dict):
            if self.applies:
                self.settings |= self.pending
            self.pending = {}

    def boot(self) -> BootOverride:
        self._ask("boot")
        return self.override

    def set_boot(self, target: BootTarget, once: bool) -> str:
        self._ask("set_boot")
        self.operations.append(f"boot {target.value}")
        self.override = replace(self.override, target=target, once=once)
        return self.says

    def bios(self) -> Bios:
        self._ask("bios")
        return Bios(self.settings if not isinstance(self.settings, dict) else dict(self.settings),
                    self.pending if not isinstance(self.pending, dict) else dict(self.pending))

    def set_bios(self, settings: Mapping[str, str | int | bool]) -> str:
        self._ask("set_bios")
        self.operations.append(f"write {','.join(f'{name}={value}' for name, value in settings.items())}")
        if isinstance(self.pending, dict):
            self.pending |= settings
        self._ask("written")
        return self.says

    def earlier(self) -> tuple[EarlierChange, ...]:
        self._ask("earlier")
        return self.left

    def media(self) -> tuple[Media, ...]:
        return ()

    def insert(self, name: str, image: str) -> str:
        raise BmcError(BmcErrorReason.UNSUPPORTED, "no media")

    def eject(self, name: str) -> str:
        raise BmcError(BmcErrorReason.UNSUPPORTED, "no media")

    def hardware(self) -> HardwareInventory:
        self._ask("hardware")
        return self.hard

    def firmware(self) -> tuple[FirmwareEntry, ...]:
        self._ask("firmware")
        return self.versions

    def update(self, image: FirmwareImage) -> str:
        raise BmcError(BmcErrorReason.UNSUPPORTED, "no updates")

    def log(self, days: float = LOG_DAYS) -> LogReading:
        self._ask("log")
        return LogReading(BmcLog("BMC", self.events, 1e9), self.unread)      # type: ignore[arg-type]

    def log_use(self) -> BmcLogUse:
        return BmcLogUse("BMC", 3)

    def sensors(self) -> BmcSensors:
        self._ask("sensors")
        return BmcSensors("BMC", self.readings)     # type: ignore[arg-type]

    def close(self) -> None:
        self.closed += 1

    def __call__(self, node: Node) -> Scripted:
        """Opens it, as `connect.controller` would."""
        self.opened += 1
        return self


def machine(node: Node = NODE, *, after: float = 0.0, kept: Mapping[str, str] | None = None,
            operations: tuple[PastOperation, ...] = ()) -> Machine:
    """This machine, so many seconds after it came to its step."""
    return Machine(node, 1000.0, 1000.0 + after, kept or {}, operations)


def past(key: str, done: bool | None = True, *, at: float = 0.0, message: str = "accepted") -> PastOperation:
    """An operation that was begun and ended so many seconds after the machine came to its step."""
    return PastOperation(key, key, 1000.0 + at, 1000.0 + at, done, message)


def sku_of(node: Node) -> Sku | None:
    return SKU


def unmeasured() -> Unmeasured:
    return Unmeasured("it answered 500")


def site(folder: Path, text: str) -> Path:
    """A folder of rules that says this of bring-up."""
    folder.mkdir(exist_ok=True)
    (folder / "bringup.yaml").write_text(text)
    return folder


__all__ = ["GIB", "IDENTITY", "NODE", "POLICY", "SKU", "UNSUPPORTED", "Scripted", "machine", "parts", "past",
           "site", "sku_of", "unmeasured"]
