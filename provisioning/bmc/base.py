"""What a machine's management controller can be asked to report and to change, whatever it speaks; values
that every way to speak to one gives in the same form.

A reading is a value, `UNSUPPORTED` (this controller has no such thing) or `Unmeasured(reason)`: an empty
tuple says that it answered and has none. Event log and sensors come in the types that the node's own look at
its controller gives (`healthcheck.facts.bmc`), so that the same checks judge both. Texts are what the
controller said, cleaned and bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Protocol, TypeAlias

from healthcheck.facts.bmc import BmcLog, BmcLogUse, BmcSensors
from healthcheck.facts.values import Unmeasured, Unsupported

Missing: TypeAlias = Unmeasured | Unsupported
_NOT_REPORTED = Unmeasured("it does not say")
LOG_DAYS = 7.0      # as rule bmc-sel-critical


class BmcErrorReason(Enum):
    """Why a controller did not do what it was asked; the value is for people."""

    UNREACHABLE = "unreachable"         # no TCP connection, or it was dropped
    TLS = "certificate"                 # not verified, or not the one that is pinned
    # 401, or IPMI's RAKP refuses: never tried again by itself, accounts lock
    CREDENTIALS = "credentials"
    PASSWORD = "password to be changed"  # noqa: S105  (the account has to set a new one first)
    DENIED = "denied"                   # the account may not (403)
    BUSY = "busy"                       # it asks to come back later (429, 503)
    TIMEOUT = "timeout"
    UNSUPPORTED = "unsupported"         # it has no such thing (404, 405, 501)
    REFUSED = "refused"                 # it understood, and will not (400, 409, 412)
    BROKEN = "broken"                   # 5xx, or an answer that cannot be read
    NO_SECRET = "no secret"  # noqa: S105  (no password can be read)


class BmcError(Exception):
    """A controller did not do what it was asked. `message` is one line without any secret; `done` is None
    where the request went out, and no answer came."""

    def __init__(self, wrong: BmcErrorReason, message: str, done: bool | None = False) -> None:
        super().__init__(f"{wrong.value}: {message}")
        self.wrong = wrong
        self.message = message
        self.done = done


class PowerState(Enum):
    """Whether the machine has power."""

    ON = "on"
    OFF = "off"
    CHANGING = "changing"


class PowerAction(Enum):
    """What is asked of the power. A restart is OFF and then ON, of which either shows afterwards."""

    ON = "on"
    OFF = "off"                 # at once
    SHUTDOWN = "shutdown"       # by the operating system


class BootTarget(Enum):
    """From what a machine boots."""

    NONE = "none"               # as its boot order says
    PXE = "pxe"
    DISK = "disk"
    CD = "cd"
    BIOS = "bios"               # into the setup


@dataclass(frozen=True)
class MachineIdentity:
    """What a controller says that machine and it are; `name` is the system's host name, mostly empty."""

    vendor: str | Missing
    model: str | Missing
    serial: str | Missing
    uuid: str | Missing
    bios: str | Missing             # version
    firmware: str | Missing         # version of the controller's own
    controller: str | Missing       # iDRAC 9, iLO 6, OpenBMC ...
    name: str | Missing = _NOT_REPORTED


@dataclass(frozen=True)
class BootOverride:
    """The override of the boot order, and whether only for the next boot. `progress` is how far the present
    boot has come, in the controller's own word (Redfish: BootProgress.LastState)."""

    target: BootTarget | Missing
    once: bool | Missing
    allowed: tuple[BootTarget, ...] | Missing = _NOT_REPORTED
    progress: str | Missing = _NOT_REPORTED


@dataclass(frozen=True)
class Bios:
    """Settings as they are, and those that wait for the next reset; values as the controller spells them."""

    current: Mapping[str, str | int | bool] | Missing
    pending: Mapping[str, str | int | bool] | Missing


@dataclass(frozen=True)
class Media:
    """One virtual drive. `image` is empty where nothing is in it."""

    name: str
    kinds: tuple[str, ...]
    image: str
    inserted: bool


@dataclass(frozen=True)
class HardwarePart:
    """One piece of hardware: `kind` is cpu, gpu, dimm, drive, nic, switch, psu or fan, `health` OK, Warning
    or Critical (Redfish). Without `present` the seat is empty. `amount` is bytes of a dimm or drive, cores of
    a CPU, watts of a power supply; `address` is a PCI address, or a NIC's MAC addresses joined by commas."""

    kind: str
    slot: str
    model: str | Missing = _NOT_REPORTED
    serial: str | Missing = _NOT_REPORTED
    health: str | Missing = _NOT_REPORTED
    firmware: str | Missing = _NOT_REPORTED
    amount: int | Missing = _NOT_REPORTED
    address: str | Missing = _NOT_REPORTED
    present: bool = True


@dataclass(frozen=True)
class HardwareInventory:
    """All parts by kind; what could not be read is `Unmeasured`, what it does not tell of `UNSUPPORTED`."""

    parts: Mapping[str, tuple[HardwarePart, ...] | Missing] = field(
        default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class FirmwareEntry:
    """One entry of the firmware inventory."""

    name: str
    version: str | Missing
    updateable: bool | Missing = _NOT_REPORTED


@dataclass(frozen=True)
class LogReading:
    """The events of a log that still hold, oldest first, and why `missing` ones may be there, too."""

    log: BmcLog
    missing: str = ""


@dataclass(frozen=True)
class FirmwareImage:
    """What is sent to a controller: the bytes, or the address from which it fetches them itself. `staged`:
    it is to wait for the machine's next reset, where the controller can."""

    name: str
    data: bytes | None = field(repr=False)
    url: str | None
    staged: bool


class ChangeEnd(Enum):
    """How far a change is that a controller goes on making after it has answered."""

    RUNNING = "running"
    RESET = "waits for the next reset"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"     # the controller no longer tells


@dataclass(frozen=True)
class EarlierChange:
    """What became of a change that an earlier call left unended: what it was, what the controller says of it,
    and when it was accepted (epoch seconds)."""

    what: str
    end: ChangeEnd
    message: str
    began: float = field(default=0.0, compare=False)


class Controller(Protocol):
    """One controller, logged in to as late as can be. Each method raises BmcError, and ends within the
    seconds it was made with. Changes give what the controller said when it accepted them, mostly nothing; a
    later reading shows whether it came true. One that takes longer raises TIMEOUT with `done` None; `earlier`
    asks about it, and no other change begins meanwhile (BUSY)."""

    kind: str       # redfish or ipmi
    node: str

    def reachable(self) -> str:
        """Says what it is without credentials, a line. Raises UNREACHABLE, TLS, TIMEOUT or BROKEN."""

    def identity(self) -> MachineIdentity: ...
    def power(self) -> PowerState: ...
    def set_power(self, set_power: PowerAction) -> str: ...
    def boot(self) -> BootOverride: ...
    def set_boot(self, target: BootTarget, once: bool) -> str: ...
    def bios(self) -> Bios: ...
    def set_bios(self, settings: Mapping[str, str | int | bool]) -> str: ...
    def media(self) -> tuple[Media, ...]: ...
    def insert(self, name: str, image: str) -> str: ...
    def eject(self, name: str) -> str: ...
    def hardware(self) -> HardwareInventory: ...
    def firmware(self) -> tuple[FirmwareEntry, ...]: ...
    def log(self, days: float = LOG_DAYS) -> LogReading:
        """The event log, back for so many days at least; `missing` says where it could not be read so far."""

    def log_use(self) -> BmcLogUse: ...
    def sensors(self) -> BmcSensors: ...
    def earlier(self) -> tuple[EarlierChange, ...]: ...

    def update(self, image: FirmwareImage) -> str:
        """Sends firmware, once. What its task says when it has ended, or waits for a reset."""

    def close(self) -> None:
        """Logs out; never raises."""
