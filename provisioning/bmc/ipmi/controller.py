"""A controller that speaks IPMI 2.0, as `provisioning.bmc.base.Controller`: changes ask for more rights than
a look. Before the first login it is asked, over UDP and without a password, whether it is there and what it
offers; then the account is tried once with a command that says why it is refused. A refused account is not
tried again by this object: accounts lock."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from healthcheck.facts.bmc import BmcLog, BmcLogUse, BmcSensors, events, oldest_record, records, sensors
from inventory.errors import UsageError
from inventory.model import Node
from inventory.text import clean
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
    LogReading,
    MachineIdentity,
    Media,
    PowerAction,
    PowerState,
)
from provisioning.bmc.credentials import Hidden
from provisioning.bmc.ipmi import messages, parse, rmcp, tool, udp
from provisioning.bmc.ipmi.tool import Door, IpmitoolOutput, PrivilegeLevel

_POWER_ACTIONS = {PowerAction.ON: "on", PowerAction.OFF: "off", PowerAction.SHUTDOWN: "soft"}
_DEVICES = {
    BootTarget.NONE: "none", BootTarget.PXE: "pxe", BootTarget.DISK: "disk", BootTarget.CD: "cdrom",
    BootTarget.BIOS: "bios"}
# Set System Boot Options, parameter 3, bit 3 (IPMI 2.0, table 28-14): do not drop the override when no boot
# follows within 60 seconds.
_HOLD = ("raw", "0x00", "0x08", "0x03", "0x08")
_RECORDS = (100, 400, 1600, 6400)      # of the event log, from its end
_BEST = (17, 3)         # SHA-256 and SHA-1, both with AES: what ipmitool prefers


class IpmiController:
    """`secret` gives user and password; `seconds` is for one method. Raises UsageError without ipmitool."""

    kind = "ipmi"

    def __init__(
        self, node: Node, secret: Callable[[], tuple[str, str]], seconds: float = 30.0, *, efi: bool = True,
    ) -> None:
        if node.bmc is None:
            raise UsageError(f"{node.name} has no bmc in the inventory: add bmc: {{address: ...}}")
        self.node = node.name
        self._program = tool.found()
        self._address = node.bmc.address
        self._port = node.bmc.port or rmcp.PORT
        self._secret = secret
        self._seconds = seconds
        self._efi = efi
        self._door: Door | None = None
        self._account: tuple[str, str] | None = None
        self._refused: BmcError | None = None

    def reachable(self) -> str:
        """What it says it is. Asked over UDP, without credentials."""
        probed = self._probe(time.monotonic() + self._seconds)
        if not isinstance(probed, rmcp.Capabilities):
            return f"IPMI at {self._address}, which answers the presence ping only"
        anonymous = "; it allows anonymous login" if probed.anonymous else ""
        return f"IPMI {'2.0' if probed.v2 else '1.5'} at {self._address}{anonymous}"

    def identity(self) -> MachineIdentity:
        """From device id, FRU record and GUID; what a controller lacks of them is left unsaid."""
        end = time.monotonic() + self._seconds
        info = self._query(("mc", "info"), end)
        return parse.identity(
            info, self._optional(("fru", "print", "0"), end), self._optional(("mc", "guid"), end))

    def power(self) -> PowerState:
        """Whether the machine has power."""
        found = parse.power(self._query(("chassis", "power", "status"), time.monotonic() + self._seconds))
        if found is None:
            raise BmcError(BmcErrorReason.BROKEN, "ipmitool's power status is not of its form")
        return found

    def set_power(self, set_power: PowerAction) -> str:
        """Asks for it; the power state shows whether it came true."""
        self._change(("chassis", "power", _POWER_ACTIONS[set_power]), time.monotonic() + self._seconds)
        return ""

    def boot(self) -> BootOverride:
        """The override, as the boot flags have it. Reading them takes an operator's rights."""
        found = parse.boot(self._run(("chassis", "bootparam", "get", "5"), PrivilegeLevel.OPERATOR,
                                     time.monotonic() + self._seconds).out)
        if found is None:
            raise BmcError(BmcErrorReason.BROKEN, "ipmitool's boot flags are not of their form")
        return found

    def set_boot(self, target: BootTarget, once: bool) -> str:
        """Sets the override. Most would forget it without a boot in a minute, and are asked not to."""
        end = time.monotonic() + self._seconds
        options = [*([] if once or target is BootTarget.NONE else ["persistent"]),
                   *(["efiboot"] if self._efi else [])]
        try:
            self._change(_HOLD, end)
        except BmcError as problem:
            if problem.wrong not in (
                BmcErrorReason.UNSUPPORTED, BmcErrorReason.REFUSED, BmcErrorReason.BROKEN):
                raise
        self._change(("chassis", "bootdev", _DEVICES[target],
                      *([f"options={','.join(options)}"] if options else [])), end)
        return ""

    def earlier(self) -> tuple[EarlierChange, ...]:
        """IPMI's changes end with their answer."""
        return ()

    def hardware(self) -> HardwareInventory:
        """What sensors and FRU records tell: power supplies, fans, drives, and DIMMs and CPUs if any."""
        end = time.monotonic() + self._seconds
        try:
            listed = self._query(("sdr", "elist", "all"), end)
        except BmcError as problem:
            if problem.wrong is not BmcErrorReason.UNSUPPORTED:
                raise
            listed = ""
        try:
            return parse.hardware(listed, self._optional(("fru", "print"), end))
        except ValueError:
            raise BmcError(BmcErrorReason.BROKEN, "ipmitool's list of sensors is not of its form") from None

    def log(self, days: float = LOG_DAYS) -> LogReading:
        """The events of so many days that still hold; `now` is this machine's clock. A log is read from its
        end, more of it each time: each record takes a controller some hundredths of a second."""
        now, end = time.time(), time.monotonic() + self._seconds
        text, missing = "", ""
        for count in _RECORDS:
            try:
                text = self._query(("sel", "elist", "last", str(count)), end)
            except BmcError as problem:
                if not text or problem.wrong is not BmcErrorReason.TIMEOUT:
                    raise
                missing = (f"its last {records(text)} records are newer than {days:g} days, and no more came "
                           "in time")
                break
            oldest = oldest_record(text)
            if records(text) < count or (oldest is not None and oldest < now - days * 86400):
                break
        else:
            missing = f"its last {_RECORDS[-1]} records are newer than {days:g} days"
        try:
            return LogReading(BmcLog("BMC", events=events(text), now=now), missing)
        except ValueError:
            raise BmcError(BmcErrorReason.BROKEN, "ipmitool's event log is not of its form") from None

    def log_use(self) -> BmcLogUse:
        """How full its log is."""
        percent = parse.pairs(
            self._query(("sel", "info"), time.monotonic() + self._seconds)).get("Percent Used", "")
        if not (percent[:-1].isdecimal() and percent.endswith("%") and len(percent) <= 4):
            raise BmcError(BmcErrorReason.UNSUPPORTED, "it does not say how full its log is")
        return BmcLogUse("BMC", used_percent=int(percent[:-1]))

    def sensors(self) -> BmcSensors:
        """The sensors that have thresholds."""
        text = self._query(("sdr", "elist", "full"), time.monotonic() + self._seconds)
        if not text.strip():
            raise BmcError(BmcErrorReason.UNSUPPORTED, "it has no sensor with thresholds")
        try:
            return BmcSensors("BMC", sensors=sensors(text))
        except ValueError:
            raise BmcError(BmcErrorReason.BROKEN, "ipmitool's list of sensors is not of its form") from None

    def bios(self) -> Bios:
        """IPMI has no such thing, as with the following."""
        raise _unsupported("BIOS settings")

    def set_bios(self, settings: Mapping[str, str | int | bool]) -> str:
        """Raises UNSUPPORTED."""
        raise _unsupported("BIOS settings")

    def media(self) -> tuple[Media, ...]:
        """Raises UNSUPPORTED."""
        raise _unsupported("virtual media")

    def insert(self, name: str, image: str) -> str:
        """Raises UNSUPPORTED."""
        raise _unsupported("virtual media")

    def eject(self, name: str) -> str:
        """Raises UNSUPPORTED."""
        raise _unsupported("virtual media")

    def firmware(self) -> tuple[FirmwareEntry, ...]:
        """Raises UNSUPPORTED; the controller's own version is in its identity."""
        raise _unsupported("an inventory of firmware")

    def update(self, image: FirmwareImage) -> str:
        """Raises UNSUPPORTED."""
        raise _unsupported("updates of firmware; use Redfish or the maker's tool")

    def administer(self, words: Sequence[str], script: Hidden | None = None) -> str:
        """What a command for accounts says, or a script of one line. Raises BmcError."""
        return self._run(
            words, PrivilegeLevel.ADMINISTRATOR, time.monotonic() + self._seconds, script).out

    def console_session(self) -> int:
        """The id of the session that has the serial console now, 0 for none (IPMI 2.0, 24.5, Get Payload
        Instance Info, of instance 1 of SOL). Raises BmcError; UNSUPPORTED where it does not tell."""
        words = self._query(
            ("raw", "0x06", "0x4b", "0x01", "0x01"), time.monotonic() + self._seconds).split()
        try:
            return int.from_bytes(bytes(int(word, 16) for word in words[:4]), "little")
        except ValueError:
            raise BmcError(
                BmcErrorReason.BROKEN, "ipmitool's payload instance is not of its form") from None

    def attach_console(self, level: PrivilegeLevel) -> subprocess.Popen[bytes]:
        """Begins a session on the serial console; its output comes from the process, which ends it when its
        standard input is closed. Raises BmcError."""
        door, account = self._logged_in(time.monotonic() + self._seconds)
        return tool.attached(self._program, door, *account, ("sol", "activate"), level)

    def detach_console(self) -> None:
        """Ends whichever session has the serial console. Raises BmcError."""
        self._change(("sol", "deactivate"), time.monotonic() + self._seconds)

    def close(self) -> None:
        """Forgets the password; each command was a session of its own."""
        self._account = None

    def _probe(self, end: float) -> rmcp.Capabilities | bool:
        try:
            probed = udp.hear(self._address, self._port, end - time.monotonic())
        except udp.PortClosed:
            raise BmcError(BmcErrorReason.UNREACHABLE,
                           f"{self._address} says that nothing listens at UDP port {self._port}") from None
        except OSError as problem:
            raise BmcError(BmcErrorReason.UNREACHABLE,
                           f"{self._address}: {clean(problem.strerror or problem, 100)}") from None
        if probed is False:
            raise BmcError(
                BmcErrorReason.UNREACHABLE, f"nothing answers at {self._address}, UDP port {self._port}")
        return probed

    def _opened(self, end: float) -> Door:
        """Where it is and how it is spoken to, found out at the first need."""
        if self._door is None:
            # A silent controller is found out in half of the time, so that there is some left for the work.
            probed = self._probe(time.monotonic() + min(6.0, (end - time.monotonic()) / 2))
            if isinstance(probed, rmcp.Capabilities) and not probed.v2:
                raise BmcError(
                    BmcErrorReason.UNSUPPORTED,
                    "it does not speak IPMI 2.0: version 1.5 would show the password to the network")
            try:
                offered = udp.suites(self._address, self._port, end - time.monotonic())
            except (udp.PortClosed, OSError):
                offered = ()
            self._door = Door(
                self._address, self._port, next((suite for suite in _BEST if suite in offered), _BEST[-1]))
        return self._door

    def _logged_in(self, end: float) -> tuple[Door, tuple[str, str]]:
        """Tries the account once, by a command that says why (without -v ipmitool does not)."""
        if self._refused is not None:
            raise BmcError(self._refused.wrong, f"{self._refused.message}; not tried again")
        door = self._opened(end)
        if self._account is None:
            account = self._secret()
            tool.usable(*account)
            message = tool.run(self._program, door, *account, ("chassis", "power", "status"),
                               level=PrivilegeLevel.USER, end=end, verbose=True)
            if message.exit:
                problem = messages.error(message)
                problem.done = False
                if problem.wrong is BmcErrorReason.CREDENTIALS:
                    self._refused = problem
                # else it let us in, and has no chassis
                if problem.wrong is not BmcErrorReason.UNSUPPORTED or "session" in message.err:
                    raise problem
            self._account = account
        return door, self._account

    def _run(
        self, words: Sequence[str], level: PrivilegeLevel, end: float, script: Hidden | None = None,
    ) -> IpmitoolOutput:
        try:
            door, account = self._logged_in(end)
        except BmcError as problem:
            problem.done = False        # so far only a reading
            raise
        message = tool.run(self._program, door, *account, words, level=level, end=end, script=script)
        # A script ends well whatever became of its lines.
        if message.exit or (script is not None and "successful" not in message.out):
            raise messages.error(message)
        return message

    def _query(self, words: Sequence[str], end: float) -> str:
        try:
            return self._run(words, PrivilegeLevel.USER, end).out
        except BmcError as problem:
            problem.done = False
            raise

    def _optional(self, words: Sequence[str], end: float) -> str:
        """What there is of it: a controller may lack this, or some devices of it."""
        door, account = self._logged_in(end)
        try:
            return tool.run(self._program, door, *account, words, level=PrivilegeLevel.USER, end=end).out
        except BmcError as problem:
            problem.done = False
            raise

    def _change(self, words: Sequence[str], end: float) -> None:
        self._run(words, PrivilegeLevel.OPERATOR, end)


def _unsupported(what: str) -> BmcError:
    return BmcError(BmcErrorReason.UNSUPPORTED, f"IPMI has no {what}")
