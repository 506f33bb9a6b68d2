"""The values of the kernel-log baseline: lines and events of a log, entries of the catalogue, and what healthy nodes say; plain and frozen.

    Line -> Event (one line, or all lines of one report) -> Told (events of one template, folded) -> Findings

A catalogue entry is known to be bad, whatever was learned; a baseline is what nodes of one scope say when they are healthy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from healthcheck.kernellog.emitter import Emitter
from healthcheck.kernellog.ending import DAY, Ending
from healthcheck.model.outcome import Owner, Repair, Severity

LONGEST_LINE = 8192     # characters of one line that are looked at: the kernel's own limit for a record
MOST_LINES = 500        # of one event that are kept
MOST_DISTINCT = 20      # of many events that are folded into one


@dataclass(frozen=True)
class LogLine:
    """One record of a kernel log.

    `text` is what was said, without time and priority. `seconds` are since boot, and None where the log does not say. `priority` is 0
    (emergency) to 7 (debug), None where it does not say. `sequence` is the record's number in /dev/kmsg, and in a saved file the number
    of its line, from 1. `facility` is 0 for the kernel itself; what root or systemd writes to the log carries another. `caller` is the
    thread (T123) or CPU (C4) that said it, where the kernel was built to tell. `subsystem` is the SUBSYSTEM= that the kernel attached to
    the record, empty where it attached none. Where a process wrote the record, `text` says so (`healthcheck.kernellog.provenance`).
    """

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
    """When in a boot it was said; in the order in which they come."""

    KERNEL = "kernel"           # before the kernel starts its first process
    INITRD = "initrd"           # from there until the real root file system is entered
    SERVICES = "services"       # until user space has been up for SETTLED seconds
    RUNNING = "running"
    UNKNOWN = "unknown"         # the log does not say


@dataclass(frozen=True)
class KernelEvent:
    """One thing that was said: `lines` in their order, the first the one that names it."""

    kind: KernelEventKind
    lines: tuple[LogLine, ...]


@dataclass(frozen=True)
class KernelMessage:
    """All events of one log that share a template.

    `template` is that of `head`, the line that names it. `lines` are those of the event, at most MOST_LINES; of several events all of the
    first, and of the others as many that differ as make MOST_DISTINCT. `first` and `last` are seconds since boot of the first and the
    last event, None where the log does not say. `busiest` is how many there were in the hour that had most of them; where no line has a
    time, all of them. `latest` are the numbers of the last event's records.
    """

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
    """One kind of known fault. `match` and `unless` are regular expressions over a message, behind the prefix of one of its `emitters`:
    `match` holds from there, `unless` anywhere after. An entry without emitters is the core kernel's, whose messages have no prefix.

    They say nothing of what masks hide: lines of one template all match, or none does. `group` is the class it belongs to (the stem of
    its file). `examples` are lines that it matches. `xid` names the table (`xid` or `sxid`) that judges the line by its number instead.
    Of each group in `needs` one word (in lower case) stands in every line that it matches. `disabled` says which file switched it off.
    `ordinary`: healthy machines say it, too; of a saved log it is told, and in a sweep it is as any line is, for a baseline to know.
    `ending` is how what it reports ends. `yields` are the ids of entries that say more of a line that both know.
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
    """For which nodes a baseline holds; empty is any. From exact to general: all four, without firmware, without driver, SKU and the
    kernel's series (6.5), SKU alone."""

    sku: str = ""
    kernel: str = ""
    driver: str = ""
    firmware: str = ""


@dataclass(frozen=True)
class KnownTemplate:
    """One template that healthy nodes say.

    `nodes` and `boots` are on how many it was seen, of the baseline's own `nodes` and `boots`. `least` and `most` are how often in one
    boot that said it, `busiest` the most in one hour. `first_seen` and `last_seen` are dates (ISO 8601). `by` and `why` are who approved
    it, and the reason. `priority` is the worst that was given. `on` names the nodes (a node set), and is empty where all said it.
    `unseen` is how many boots were learned since one said it. `flags` say why a person should look before it is approved.
    """

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
    """What nodes of one scope say when they are healthy: `known` by template, learned of so many `nodes` and `boots`.

    `phases` gives, for each phase, the earliest and the latest second since boot at which one of those boots entered it. `proposed` was
    seen and awaits approval; `expired` was approved and has not been seen for `expires_days`, or in the last `expires_boots` boots that
    were learned: neither is accepted. `first` and `last` are the dates of learning; `looks` are the boots that were learned, by node.
    """

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
    looks: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class BootLog:
    """One boot's log as some source gave it: `raw[i]` is the line that `lines[i]` was read from, as it stood there.

    `form` names the source's form. `caveats` say what could not be seen: records that were overwritten, lines that were cut.
    `notes` say what was left alone with good reason: lines of other programs.
    """

    lines: tuple[LogLine, ...]
    raw: tuple[str, ...]
    form: str
    caveats: tuple[str, ...] = ()
    boot: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Digest:
    """One boot's log, folded: what learning and judging go by; its size is bounded by the templates, not by the lines.

    `scope` is what the log says of kernel, driver and firmware (the SKU is the node's). `began` gives the second since boot at which each
    phase that was seen began. `newest` is the time of the newest line.
    """

    node: str
    boot: str
    told: tuple[KernelMessage, ...]
    lines: int
    scope: Scope
    began: Mapping[Phase, float] = field(default_factory=lambda: MappingProxyType({}))
    caveats: tuple[str, ...] = ()
    newest: float = 0.0
