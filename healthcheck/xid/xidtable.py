"""The table of Xids and SXids as values: what each number means, who says what about it, and what muster makes of it.

Read from `xid.yaml` and `sxid.yaml` by `healthcheck.xid.xidtableload`; pure, so that checks may use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from healthcheck.facts.values import Fact
from healthcheck.kernellog.ending import DAY, Ending
from healthcheck.model.outcome import Owner, Repair

XID_TABLE = "xid_table"

# The generations that `architectures:` may name, oldest first.
ARCHITECTURES = ("pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell")


class Action(Enum):
    """What muster makes of a number by default; `OBEY` and `DECODE` say that the line itself holds the answer."""

    IGNORE = "ignore"
    APP = "app"
    MONITOR = "monitor"
    UPDATE = "update"
    RESET = "reset"
    REBOOT = "reboot"
    RESTART_FABRIC_MANAGER = "restart_fabric_manager"
    INSPECT = "inspect"
    REPLACE = "replace"
    SUPPORT = "support"
    OBEY = "obey"
    DECODE = "decode"


# What takes a node out of service, and what is only watched.
SERIOUS = frozenset({
    Action.RESET, Action.REBOOT, Action.RESTART_FABRIC_MANAGER, Action.INSPECT, Action.REPLACE, Action.SUPPORT,
})
WATCHED = frozenset({Action.MONITOR, Action.UPDATE})
REPAIRS = {
    Action.APP: Repair.WATCH, Action.MONITOR: Repair.WATCH, Action.UPDATE: Repair.WATCH, Action.RESET: Repair.RESET_GPU,
    Action.REBOOT: Repair.REBOOT, Action.RESTART_FABRIC_MANAGER: Repair.RESTART_SERVICE, Action.INSPECT: Repair.INSPECT,
    Action.REPLACE: Repair.REPLACE, Action.SUPPORT: Repair.INSPECT,
}
OWNERS = {Action.APP: Owner.USER, Action.SUPPORT: Owner.VENDOR, Action.REPLACE: Owner.VENDOR}

# From harmless to worst: where a line says several things, the worst counts.
_RANK = tuple(Action)


def worst(*actions: Action) -> Action:
    """The action that outranks the others; IGNORE where there is none."""
    return max(actions, key=_RANK.index, default=Action.IGNORE)


class SxidReach(Enum):
    """How far an SXid reaches: every partition, those behind its port, the host, or nobody."""

    ALWAYS_FATAL = "always_fatal"
    POTENTIALLY_FATAL = "potentially_fatal"
    HOST = "host"
    NON_FATAL = "non_fatal"
    CORRECTED = "corrected"


@dataclass(frozen=True)
class XidEntry:
    """One Xid, or one Xid on one architecture. `nvidia` is the immediate and the investigatory action of NVIDIA's catalogue.

    `file`, `line` and `overridden` say where it is from; `listed` is False for a number that no table holds. `ends` is how it ends, where
    that differs from others of its action.
    """

    number: int
    mnemonic: str
    meaning: str
    action: Action
    owner: Owner
    nvidia: tuple[str, ...] = ()
    gpud: str = ""
    dcgm: str = ""
    remedy: str = ""
    why: str = ""
    architectures: Mapping[str, XidEntry] = field(default_factory=dict)
    file: str = ""
    line: int = 0
    overridden: tuple[str, ...] = ()
    listed: bool = True
    ends: Ending | None = None

    def on(self, architecture: str) -> XidEntry:
        """The same number as it is on GPUs of this architecture; an empty name is one that is not known."""
        return self.architectures.get(architecture, self)


@dataclass(frozen=True)
class SwitchEntry:
    """One SXid of an NVSwitch."""

    number: int
    meaning: str
    kind: SxidReach
    action: Action
    owner: Owner
    gpud: str = ""
    remedy: str = ""
    why: str = ""
    file: str = ""
    line: int = 0
    overridden: tuple[str, ...] = ()
    listed: bool = True
    ends: Ending | None = None


@dataclass(frozen=True)
class XidRepeat:
    """When Xids that come again say more than one of them does.

    Reports of one GPU (`same: gpu`), or of one GPC and TPC of it (`same: tpc`), that are less than `gap_seconds` apart are one burst,
    and `count` bursts within `hours` are a finding. What a job can cause counts only where no other GPU reports one of the same numbers
    within `alone_seconds` (then it is the workload's), and where the bursts are of at least `jobs` jobs. The log names processes and no
    jobs: a burst is of another job than the one before if it is `apart_seconds` later and of other processes. Reports of a `sticky`
    number within `sticky_hours` of the last are one burst: nobody has mended the GPU in between.

    One that a site does not want is there still, with `enabled` False. `file`, `line` and `overridden` say where it is from.
    """

    id: str
    action: Action
    owner: Owner
    count: int
    hours: float
    why: str
    xids: frozenset[int] = frozenset()
    but: frozenset[int] = frozenset()
    same: str = "gpu"
    gap_seconds: float = 0.0
    alone_seconds: float = 0.0
    jobs: int = 1
    apart_seconds: float = 0.0
    sticky: frozenset[int] = frozenset()
    sticky_hours: float = 0.0
    remedy: str = ""
    enabled: bool = True
    file: str = ""
    line: int = 0
    overridden: tuple[str, ...] = ()

    def covers(self, number: int) -> bool:
        """Whether this rule counts that Xid."""
        return (number in self.xids if self.xids else True) and number not in self.but


@dataclass(frozen=True)
class Bits:
    """What bits of one of Xid 74's registers (counted from 0) mean. `count`: only so many on one link within the window say so;
    `alone`: only where no other bit is set."""

    register: int
    bits: frozenset[int]
    action: Action
    meaning: str
    count: int = 1
    alone: bool = False


@dataclass(frozen=True)
class XidDecodeLine:
    """One line of the decode table of Xids 144 to 150. `units` are the names that drivers print; no `status` or no `subcode` matches all.

    `fatal` is the action where the line says Fatal, if that differs.
    """

    xid: int
    units: frozenset[str]
    action: Action
    meaning: str
    status: frozenset[int] = frozenset()
    subcode: frozenset[int] = frozenset()
    fatal: Action | None = None
    owner: Owner | None = None


@dataclass(frozen=True)
class Recovery:
    """One value of the driver's own recovery action, as Xid 154 prints it."""

    code: int
    says: str
    action: Action
    remedy: str


@dataclass(frozen=True, eq=False, repr=False)     # which the agent's compiled rules hold
class XidTable(Fact):
    """All of it. `dated` is the day of the newest source; `files` are those that were read, in the order in which they override."""

    name: str
    dated: str
    xids: Mapping[int, XidEntry]
    sxids: Mapping[int, SwitchEntry]
    sxids_dated: str
    remedies: Mapping[Action, str]
    endings: Mapping[Action, Ending]
    sources: Mapping[str, str]
    repeats: Mapping[str, XidRepeat]
    registers: frozenset[Bits]
    words: frozenset[XidDecodeLine]
    recoveries: Mapping[int, Recovery]
    files: frozenset[str]

    def xid(self, number: int, architecture: str = "") -> XidEntry:
        """What the table says of this Xid; a number that it does not hold is a case for support, and never ignored."""
        entry = self.xids.get(number)
        if entry is not None:
            return entry.on(architecture)
        return XidEntry(number, "", f"not in the table of {self.dated}", Action.SUPPORT, Owner.VENDOR, listed=False)

    def sxid(self, number: int) -> SwitchEntry | None:
        """What the table says of this SXid, or None."""
        return self.sxids.get(number)

    def ending(self, action: Action, own: Ending | None = None) -> Ending:
        """How what was reported ends: as its own entry says, else as all of this action."""
        return own or self.endings.get(action, DAY)

    def remedy(self, action: Action) -> str:
        """What to do where an entry has no remedy of its own."""
        return self.remedies.get(action, "")
