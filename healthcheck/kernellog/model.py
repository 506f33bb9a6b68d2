"""The values of the kernel-log baseline: lines, events, catalogue entries, and what healthy nodes write.

    LogLine -> KernelEvent (one line, or one report) -> KernelMessage (events of one template) -> Finding

A catalogue entry is a known fault, whatever was learned. A baseline is what healthy nodes of one scope write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from healthcheck.kernellog.emitter import Emitter
from healthcheck.kernellog.ending import DAY, Ending
from healthcheck.model.outcome import Owner, Repair, Severity

LONGEST_LINE = 8192     # characters of one line that are read: the kernel's own limit for a record
MOST_LINES = 500        # lines kept of one event
MOST_DISTINCT = 20      # lines kept of many events that are folded into one


@dataclass(frozen=True)
class LogLine:
    """One record of a kernel log. `text` has neither time nor priority, and shows it if a process wrote the
    record (`healthcheck.kernellog.provenance`). `seconds` are since boot; `priority` is 0 (emergency) to 7
    (debug); None if unknown. `sequence` is the record's number in /dev/kmsg, in a saved file the line number
    from 1. `facility` is 0 for the kernel itself, another for root or systemd. `caller` is the thread (T123)
    or CPU (C4) that wrote it, `subsystem` the SUBSYSTEM=, if the kernel records them."""

    text: str
    seconds: float | None = None
    priority: int | None = None
    sequence: int = 0
    facility: int = 0
    caller: str = ""
    subsystem: str = ""


class KernelEventKind(Enum):
    """What an event is made of: a single line, or the lines of one report."""

    LINE = "line"
    TRACE = "trace"             # warnings, oopses, stalls, hung tasks: with registers and a call trace
    HARDWARE = "hardware"       # a block of '[Hardware Error]', a machine check, a PCIe AER report
    OOM = "oom"                 # from 'invoked oom-killer' to the process that was killed


class Phase(Enum):
    """When in a boot a line was written; in their order."""

    KERNEL = "kernel"           # before the kernel starts its first process
    INITRD = "initrd"           # from there until the real root file system is entered
    SERVICES = "services"       # until user space has been up for STARTUP_SECONDS seconds
    RUNNING = "running"
    UNKNOWN = "unknown"         # the log does not show it


@dataclass(frozen=True)
class KernelMessage:
    """All events of one log that share a template, that of `head`, the line that names it. `lines` are those
    of the event, at most MOST_LINES, those that say something else first; of several all of the first, then
    differing ones of the others up to MOST_DISTINCT. `first` and `last` are seconds since boot of the events,
    None if unknown. `busiest` is the count in the busiest hour; if no line has a time, of all. `latest` are
    the numbers of the last event's records."""

    template: str
    kind: KernelEventKind
    count: int
    lines: tuple[LogLine, ...]
    phase: Phase
    first: float | None
    last: float | None
    head: str
    busiest: int = 1
    latest: tuple[int, ...] = ()


@dataclass(frozen=True)
class CatalogueEntry:
    """One kind of known fault.

    `match` and `unless` are regular expressions over a message, behind the prefix of one of its `emitters`
    (without emitters: of the core kernel, without prefix): `match` holds from there, `unless` anywhere after
    it. Neither depends on what masks hide: all lines of a template match, or none does. `group` is its class
    (the stem of its file). `examples` are lines that it matches. `xid` names the table (`xid` or `sxid`) that
    judges the line by its number instead. Of each group in `needs` one word (in lower case) stands in every
    matching line. `disabled` names the file that switched it off. `ordinary`: healthy machines write it, too;
    a saved log's report mentions it, a sweep does not. `ending`: how it is over. `yields` are the ids of more
    specific entries for the same lines.
    """

    id: str
    match: str
    severity: Severity
    meaning: str
    remedy: str
    owner: Owner
    source: str
    examples: tuple[str, ...]
    group: str = ""
    unless: str = ""
    repair: Repair | None = None
    xid: str = ""
    file: str = ""
    line: int = 0
    overridden: tuple[str, ...] = ()
    needs: tuple[tuple[str, ...], ...] = ()
    disabled: str = ""
    ordinary: bool = False
    emitters: tuple[Emitter, ...] = ()
    ending: Ending = DAY
    yields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scope:
    """For which nodes a baseline holds; an empty field means any. From exact to general: all four, without
    firmware, without driver, SKU and the kernel's series (6.5), SKU alone."""

    sku: str = ""
    kernel: str = ""
    driver: str = ""
    firmware: str = ""


@dataclass(frozen=True)
class KnownTemplate:
    """One template that healthy nodes write. `nodes` and `boots` count where it was seen, of the baseline's
    own. `least` and `most` are counts per boot that has it, `busiest` is the most in one hour. `first_seen`
    and `last_seen` are dates (ISO 8601). `by` and `why` are who approved it, and the reason. `priority` is
    the worst one. `on` is the node set, empty if all nodes have it. `unseen` counts the boots that were
    learned since one had it. `flags` are reasons to look before approval."""

    template: str
    phases: tuple[Phase, ...]
    nodes: int
    boots: int
    least: int
    most: int
    example: str
    first_seen: str
    last_seen: str
    by: str = ""
    why: str = ""
    busiest: int = 1
    kind: KernelEventKind = KernelEventKind.LINE
    priority: int | None = None
    on: str = ""
    unseen: int = 0
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Baseline:
    """What healthy nodes of one scope write: `known` by template, learned from so many `nodes` and `boots`
    (`learned_boots`, by node), on dates from `first` to `last`. `phases` gives the earliest and the latest
    second since boot at which one of those boots entered a phase. `proposed` awaits approval, `expired` was
    approved and not seen for `expires_days`, or in the last `expires_boots` learned boots: neither is
    accepted."""

    name: str
    scope: Scope
    nodes: int
    boots: int
    known: Mapping[str, KnownTemplate]
    phases: Mapping[Phase, tuple[float, float]] = field(default_factory=lambda: MappingProxyType({}))
    file: str = ""
    proposed: Mapping[str, KnownTemplate] = field(default_factory=lambda: MappingProxyType({}))
    expired: Mapping[str, KnownTemplate] = field(default_factory=lambda: MappingProxyType({}))
    first: str = ""
    last: str = ""
    expires_days: int = 180
    expires_boots: int = 200
    learned_boots: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class BootLog:
    """One boot's log as a source of some `format` gave it: `raw[i]` is the line that `lines[i]` was read
    from. `caveats` name what could not be seen (overwritten records, cut lines), `notes` what was left out on
    purpose."""

    lines: tuple[LogLine, ...]
    raw: tuple[str, ...]
    format: str
    caveats: tuple[str, ...] = ()
    boot: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Digest:
    """One boot's log, folded, for learning and judging: bounded by templates, not lines. `scope` holds
    kernel, driver and firmware as the log names them (the SKU is the node's). `began` gives the second since
    boot at which each phase began; `newest` is the time of the newest line."""

    node: str
    boot: str
    messages: tuple[KernelMessage, ...]
    lines: int
    scope: Scope
    began: Mapping[Phase, float] = field(default_factory=lambda: MappingProxyType({}))
    caveats: tuple[str, ...] = ()
    newest: float = 0.0
