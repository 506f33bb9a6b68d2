"""The table of Xids and SXids: what each number means, what vendors advise, muster's default action. Pure."""

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
    """muster's default action for a number; with `OBEY` and `DECODE` the line itself holds the answer."""

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
    Action.RESET, Action.REBOOT, Action.RESTART_FABRIC_MANAGER, Action.INSPECT, Action.REPLACE,
    Action.SUPPORT,
})
WATCHED = frozenset({Action.MONITOR, Action.UPDATE})
REPAIRS = {
    Action.APP: Repair.WATCH, Action.MONITOR: Repair.WATCH, Action.UPDATE: Repair.WATCH,
    Action.RESET: Repair.RESET_GPU, Action.REBOOT: Repair.REBOOT,
    Action.RESTART_FABRIC_MANAGER: Repair.RESTART_SERVICE, Action.INSPECT: Repair.INSPECT,
    Action.REPLACE: Repair.REPLACE, Action.SUPPORT: Repair.INSPECT,
}
OWNERS = {Action.APP: Owner.USER, Action.SUPPORT: Owner.VENDOR, Action.REPLACE: Owner.VENDOR}

# From harmless to worst: of several actions in a line the worst counts.
_RANK = tuple(Action)


def worst(*actions: Action) -> Action:
    """The worst of the actions; IGNORE if there is none."""
    return max(actions, key=_RANK.index, default=Action.IGNORE)


def unlisted(fatal: bool | None) -> Action:
    """What becomes of a report whose number or details no table holds, by the driver's own word in the line:
    what it calls non-fatal is watched; what it calls fatal, or gives no word for, is a case for support."""
    return Action.MONITOR if fatal is False else Action.SUPPORT


class SxidReach(Enum):
    """How far an SXid reaches: every partition, those behind its port, the host, or nothing."""

    ALWAYS_FATAL = "always_fatal"
    POTENTIALLY_FATAL = "potentially_fatal"
    HOST = "host"
    NON_FATAL = "non_fatal"
    CORRECTED = "corrected"


@dataclass(frozen=True)
class XidEntry:
    """One Xid, or one Xid on one architecture. `nvidia` is the immediate and the investigatory action of
    NVIDIA's catalogue. `file`, `line` and `overridden` name its source; `listed` is False for a number that
    no table holds. `ends` is how it ends, if not as others of its action."""

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
        """The same number on GPUs of this architecture; an empty name stands for an unknown one."""
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
    """When repeated Xids mean more than a single one.

    Reports of one GPU (`same: gpu`), or of one GPC and TPC of it (`same: tpc`), that are less than
    `gap_seconds` apart are one burst, and `count` bursts within `hours` are a finding. What a job can cause
    counts only if no other GPU reports one of the same numbers within `alone_seconds` (then it is the
    workload's), and if the bursts are of at least `jobs` jobs. The log names processes, not jobs: a burst is
    of another job than the one before if it is `apart_seconds` later and of other processes. Reports of a
    `sticky` number within `sticky_hours` of the last are one burst: no one has repaired the GPU in between.

    One that a site does not want stays in the table with `enabled` False. `file`, `line` and `overridden`
    name its source.
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
    """What bits of one of Xid 74's registers (counted from 0) mean.

    `count`: only if so many are seen on one link within the window. `alone`: only if no other bit is set.
    """

    register: int
    bits: frozenset[int]
    action: Action
    meaning: str
    count: int = 1
    alone: bool = False


@dataclass(frozen=True)
class XidDecodeLine:
    """One line of the decode table of Xids 144 to 150.

    `units` are the names that drivers print. An empty `status` or `subcode` matches all. `fatal` is the
    action for a line with Fatal, if it differs.
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
    """The whole table. `dated` is the day of the newest source; `files` are those that were read."""

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
        """The entry of this Xid; an unknown number is a case for support: the line has no word for it."""
        entry = self.xids.get(number)
        if entry is not None:
            return entry.on(architecture)
        return XidEntry(number, "", f"not in the table of {self.dated}", unlisted(None), Owner.VENDOR,
                        listed=False)

    def sxid(self, number: int) -> SwitchEntry | None:
        """The entry of this SXid, or None."""
        return self.sxids.get(number)

    def ending(self, action: Action, own: Ending | None = None) -> Ending:
        """How the fault ends: as its own entry says, else as all of this action."""
        return own or self.endings.get(action, DAY)

    def remedy(self, action: Action) -> str:
        """The remedy for an entry without its own."""
        return self.remedies.get(action, "")
