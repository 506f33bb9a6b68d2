"""Xid and SXid checks: the reports of NVIDIA's drivers, by the tables (`xid.yaml`, `sxid.yaml`), each number
under its one rule.

The tables say how long a report counts (`ends`). What a job caused ends by quiet. What a reset ends is over
once the GPU was reset: the driver asked for the reset after it (Xid 154) and no longer asks, and the flag in
the GPU that makes it ask is cleared only by a reset; or root wrote so to the log. The rest counts until the
next boot, or until a person reports the repair.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from healthcheck.checks.base import LONGEST_QUOTE, Findings, NotJudged, check, listed
from healthcheck.facts.kernel import as_dmesg, moment
from healthcheck.facts.xid import NVRM, NVSWITCH, SXid, Xid, Xids
from healthcheck.kernellog.carried import representative
from healthcheck.kernellog.ending import Ending, EndKind
from healthcheck.kernellog.model import MOST_DISTINCT
from healthcheck.model.outcome import Finding, LogEvidence, Note, Owner, Repair
from healthcheck.xid.nvlinkdecode import Decoded, decode
from healthcheck.xid.xidtable import (
    OWNERS,
    REPAIRS,
    SERIOUS,
    WATCHED,
    Action,
    Recovery,
    SwitchEntry,
    SxidReach,
    XidEntry,
    XidRepeat,
    XidTable,
    unlisted,
)

_BESIDE_SECONDS = 60.0      # within which a companion comes, such as the 45 after a 79
_PORT_SECONDS = 10.0        # within which GPUs report their side of a link that an NVSwitch lost
_TORN_DOWN = 45
_NVLINK = 74
# NVML's word where the driver asks for nothing, and the recovery actions that a flag in the GPU itself asks
# for until it is reset: GPU reset, drain and reset, bus reset.
_NOTHING = "none"
_HELD_BY_THE_GPU = (1, 4, 6)
_NO_COMPANIONS = (_NVLINK, _TORN_DOWN, 154)

E = TypeVar("E", Xid, SXid)


@check("kernel.xid")
def kernel_xid(xids: Xids, xid_table: XidTable, *, everything: bool = False) -> Findings:
    """The GPU driver reported no Xid that needs a reset, a reboot, an inspection or the vendor, and none that
    is in no table.

    `everything`, here and in the other checks of Xids, also reports what time has ended.
    """
    found = _Events(xids, xid_table, everything)
    alive = found.alive(xids.events, lambda event: _entry(event, xid_table).action in SERIOUS)
    for event, group in _by_number(alive):
        entry = _entry(event, xid_table)
        yield _finding(_subject(event), group, entry.meaning, entry.remedy or xid_table.remedy(entry.action),
                       entry.owner, entry.action, found.context(entry.action, entry.ends))
    yield from found.over()


@check("kernel.xid_watch")
def kernel_xid_watch(xids: Xids, xid_table: XidTable, *, everything: bool = False) -> Findings:
    """The GPU driver reported no Xid to watch: repairs that wait for a reset, many corrected errors, bit
    errors of links."""
    found = _Events(xids, xid_table, everything)
    watched = found.alive(xids.events, lambda event: _entry(event, xid_table).action in WATCHED)
    for event, group in _by_number(watched):
        entry = _entry(event, xid_table)
        yield _finding(_subject(event), group, entry.meaning, entry.remedy or xid_table.remedy(entry.action),
                       entry.owner, entry.action, found.context(entry.action, entry.ends))
    for subject, group, decoded, context in found.decoded(WATCHED):
        yield _finding(subject, group, decoded.meaning, xid_table.remedy(decoded.action), decoded.owner,
                       decoded.action, context)
    yield from found.over()


@check("kernel.xid_job")
def kernel_xid_job(xids: Xids, xid_table: XidTable, *, everything: bool = False) -> Findings:
    """No job made the GPU driver report an Xid. Such an Xid is for the job's user, and no fault of the
    node."""
    found = _Events(xids, xid_table, everything)
    of_jobs = found.alive(xids.events, lambda event: _entry(event, xid_table).action is Action.APP)
    for event, group in _by_number(of_jobs):
        entry = _entry(event, xid_table)
        remedy = entry.remedy or xid_table.remedy(entry.action)
        if event.number == _TORN_DOWN and (cause := _cause(group[0], xids.events)) is not None:
            remedy = f"It follows Xid {cause} of this GPU: see there."
        yield _finding(_subject(event), group, entry.meaning, remedy, entry.owner, entry.action,
                       found.context(entry.action, entry.ends))
    for subject, group, decoded, context in found.decoded((Action.APP,)):
        yield _finding(subject, group, decoded.meaning, xid_table.remedy(decoded.action), Owner.USER,
                       decoded.action, context)
    ignored = found.alive(xids.events, lambda event: _entry(event, xid_table).action is Action.IGNORE)
    counts = [f"{_subject(event)}" + (f" ({len(group)} times)" if len(group) > 1 else "")
              for event, group in _by_number(ignored)]
    if counts:
        yield Note(f"ignored, as the table says: {listed(counts)}")


@check("kernel.xid_recovery")
def kernel_xid_recovery(xids: Xids, xid_table: XidTable) -> Findings:
    """In its newest report (Xid 154), the driver asks for no recovery of any GPU."""
    newest = {event.pci: event for event in xids.events if _entry(event, xid_table).action is Action.OBEY}
    wanted = dict(xids.wanted)
    found, met = _Events(xids, xid_table), []
    for _, event in sorted(newest.items()):
        words = event.recovery
        known = xid_table.recoveries.get(words[0]) if words is not None else None
        if known is not None and known.action is Action.IGNORE:
            continue
        # The driver itself remembers a requested reboot, until it is loaded again; the GPU or its fabric
        # remember the others.
        held = known is not None and (known.action is not Action.REBOOT or known.code in _HELD_BY_THE_GPU)
        if held and wanted.get(event.pci) == _NOTHING:
            met.append(event)
            continue
        recovery = known or Recovery(-1, "", Action.SUPPORT, xid_table.remedy(Action.SUPPORT))
        meaning = (f"the driver asks for: {recovery.says}"
                   if known else "the driver asks for what no table holds")
        owner = OWNERS.get(recovery.action, Owner.OPERATOR)
        yield Finding(_observed([event], xids.now), "no recovery action", _subject(event),
                      _sentences(meaning, recovery.remedy), owner, REPAIRS.get(recovery.action),
                      _lines([event]), found.context(Action.OBEY).evidence([event]))
    if met:
        yield Note(f"no longer asked for, by NVML: {listed([_subject(event) for event in met])}")


@check("kernel.xid_nvlink")
def kernel_xid_nvlink(xids: Xids, xid_table: XidTable, *, everything: bool = False) -> Findings:
    """The GPU driver reported no NVLink error (Xid 74; 144 to 150 on NVLink 5), except those whose decoded
    details are harmless."""
    found = _Events(xids, xid_table, everything)
    for subject, group, decoded, context in found.decoded((*SERIOUS, Action.IGNORE)):
        if decoded.action is Action.IGNORE:
            yield Note(f"ignored, as the table says: {subject} ({decoded.meaning})")
            continue
        owner = decoded.owner or OWNERS.get(decoded.action, Owner.OPERATOR)
        yield _finding(subject, group, decoded.meaning, xid_table.remedy(decoded.action), owner,
                       decoded.action, context)
    yield from found.over()


@check("kernel.xid_repeat")
def kernel_xid_repeat(xids: Xids, xid_table: XidTable) -> Findings:
    """No GPU reports Xids repeatedly in a way that means more than a single one (`repeats` in xid.yaml).

    Xids that a job can cause count only where they follow one GPU from job to job.
    """
    judged = [repeat for repeat in xid_table.repeats.values() if repeat.enabled]
    if not judged:
        raise NotJudged("xid.yaml has no rule of repeats that is enabled")
    if len(judged) < len(xid_table.repeats):
        yield Note(f"disabled in xid.yaml: "
                   f"{listed(sorted(xid_table.repeats.keys() - {repeat.id for repeat in judged}))}")
    for repeat in judged:
        events = [event for event in xids.events if repeat.covers(event.number)
                  and xids.age_hours(event.seconds) <= repeat.hours]
        others = _Others(events)
        places: dict[tuple[str, tuple[int, int] | None], list[Xid]] = {}
        for event in events:
            tpc = event.tpc if repeat.same == "tpc" else None
            if repeat.same == "gpu" or tpc is not None:
                places.setdefault((event.pci, tpc), []).append(event)
        for (pci, tpc), here in sorted(places.items(), key=lambda item: (item[0][0], item[0][1] or (-1, -1))):
            bursts = _counted(repeat, here, others, xid_table)
            if len(bursts) >= repeat.count:
                where = f"GPU at PCI {pci}" + (f", GPC {tpc[0]} TPC {tpc[1]}" if tpc else "")
                numbers = ", ".join(
                    str(number) for number in sorted({event.number for burst in bursts for event in burst}))
                firsts = [burst[0] for burst in bursts]
                observed = (f"{len(bursts)} bursts in {repeat.hours:g} h{_processes(bursts)}, "
                            f"{_observed(firsts, xids.now, count=False)}")
                remedy = _sentences(repeat.why, repeat.remedy or xid_table.remedy(repeat.action))
                yield Finding(
                    observed, f"fewer than {repeat.count} bursts", f"{where}, Xid {numbers}", remedy,
                    repeat.owner, REPAIRS.get(repeat.action),
                    _lines([event for burst in bursts for event in burst]),
                    _Context(NVRM, Ending(EndKind.QUIET, round(repeat.hours)), xids.now).evidence(firsts))


@check("kernel.sxid")
def kernel_sxid(xids: Xids, xid_table: XidTable, *, everything: bool = False) -> Findings:
    """No NVSwitch reported an error (SXid) that is fatal to partitions, or that is neither in the table nor
    non-fatal by the driver."""
    found = _Events(xids, xid_table, everything)
    for subject, group in _by_switch(found.alive(xids.switch_events, lambda event: _fatal(event, xid_table))):
        entry = xid_table.sxid(group[0].number)
        meaning = entry.meaning if entry else f"not in the table of {xid_table.sxids_dated}"
        action = _switch_action(entry, group[0].fatal)
        # What an entry says is for its own action: the driver may call the same number fatal, or not.
        own = entry if entry and entry.action is action else None
        remedy = own.remedy if own and own.remedy else xid_table.remedy(action)
        owner = own.owner if own else OWNERS.get(action, Owner.OPERATOR)
        words = _sentences(meaning, _reach(entry, group, xids.events), remedy)
        yield Finding(_observed(group, xids.now), "no such SXid", subject, words, owner, REPAIRS.get(action),
                      _lines(group),
                      found.context(action, entry.ends if entry else None, NVSWITCH).evidence(group))
    yield from found.over()


@check("kernel.sxid_watch")
def kernel_sxid_watch(xids: Xids, xid_table: XidTable, *, everything: bool = False) -> Findings:
    """No NVSwitch reported an error (SXid) that lets jobs continue, such as a corrected one or a noisy
    link."""
    found = _Events(xids, xid_table, everything)
    nonfatal = found.alive(xids.switch_events, lambda event: not _fatal(event, xid_table), Action.MONITOR)
    for subject, group in _by_switch(nonfatal):
        entry = xid_table.sxid(group[0].number)
        meaning = (entry.meaning if entry
                   else f"not in the table of {xid_table.sxids_dated}, and non-fatal by the driver's word")
        own = entry if entry and entry.action is Action.MONITOR else None
        remedy = own.remedy if own and own.remedy else xid_table.remedy(Action.MONITOR)
        owner = own.owner if own else Owner.OPERATOR
        yield Finding(_observed(group, xids.now), "no such SXid", subject, _sentences(meaning, remedy), owner,
                      Repair.WATCH, _lines(group),
                      found.context(Action.MONITOR, entry.ends if entry else None, NVSWITCH).evidence(group))
    yield from found.over()


@dataclass(frozen=True)
class _Context:
    """The context of a finding: the emitter of its messages, how they end, the uptime of the snapshot, and
    the numbers of records without which it would mean something else."""

    emitter: str
    ends: Ending
    now: float
    beside: tuple[int, ...] = ()

    def evidence(self, group: Sequence[Xid] | Sequence[SXid]) -> LogEvidence:
        times = [event.seconds for event in group]
        records = representative([number for event in group for number in event.records])
        return LogEvidence(self.emitter, str(self.ends), len(times), min(times), max(times),
                           (*records, *self.beside))


class _Events:
    """Divides the events of a log into those that still count and those that are over, which it remembers."""

    def __init__(self, xids: Xids, table: XidTable, everything: bool = False) -> None:
        self._xids, self._table, self._everything = xids, table, everything
        self._resets = _Resets(xids, table)
        self._quiet: list[Xid | SXid] = []
        self._reset: list[Xid | SXid] = []

    def context(self, action: Action, own: Ending | None = None, emitter: str = NVRM) -> _Context:
        """The context of events with this action."""
        return _Context(emitter, self._table.ending(action, own), self._xids.now)

    def alive(self, events: Iterable[E], wanted: Callable[[E], bool],
              action: Action | None = None) -> list[E]:
        """The wanted events that are not over; `action` replaces that of their entries."""
        return [event for event in events if wanted(event)
                and self._holds(event, self._ending(event, action))]

    def decoded(self, actions: Collection[Action]) -> Iterator[tuple[str, list[Xid], Decoded, _Context]]:
        """The NVLink errors by GPU, number and link, decoded, where the action is one of these and they are
        not over."""
        groups: dict[tuple[str, int, int], list[Xid]] = {}
        for event in self._xids.events:
            if _entry(event, self._table).action is Action.DECODE:
                found = event.registers if event.number == _NVLINK else None
                words = event.nvlink5 if event.number != _NVLINK else None
                link = found[0] if found else words.link if words else -1
                groups.setdefault((event.pci, event.number, link), []).append(event)
        beside = _Companions(self._xids) if groups else None
        for (pci, number, link), group in sorted(groups.items()):
            companion = beside.records(pci, group) if beside is not None else ()
            result = decode(number, group, self._table, alone=not companion)
            ends = self._table.ending(result.action, _entry(group[0], self._table).ends)
            if result.action in actions and (alive := [event for event in group if self._holds(event, ends)]):
                yield (_subject(group[0]) + (f", link {link}" if link >= 0 else ""), alive, result,
                       _Context(NVRM, ends, self._xids.now, companion))

    def over(self) -> Findings:
        """Notes on what was left out, and why."""
        if self._reset:
            yield Note(f"over, since the GPU was reset: "
                       f"{listed(list(dict.fromkeys(map(_named, self._reset))))}")
        if self._quiet:
            ages = {_named(event): self._xids.age_hours(event.seconds) for event in self._quiet}
            quiet = listed([f"{what}, {age:.0f} h ago" for what, age in ages.items()])
            yield Note(f"over, quiet for long enough: {quiet}")

    def _ending(self, event: Xid | SXid, action: Action | None) -> Ending:
        if isinstance(event, Xid):
            entry = _entry(event, self._table)
            return self._table.ending(entry.action, entry.ends)
        switch = self._table.sxid(event.number)
        return self._table.ending(action or _switch_action(switch, event.fatal),
                                  switch.ends if switch is not None else None)

    def _holds(self, event: Xid | SXid, ends: Ending) -> bool:
        if not self._everything and ends.over(self._xids.age_hours(event.seconds)):
            self._quiet.append(event)
            return False
        if ends.ends is EndKind.RESET and self._resets.after(event):
            self._reset.append(event)
            return False
        return True


def resets(xids: Xids, table: XidTable) -> tuple[tuple[str, int], ...]:
    """The resets that the log and the driver prove, as in LogView."""
    return tuple(_Resets(xids, table).proven(xids))


def _switch_action(entry: SwitchEntry | None, fatal: bool | None) -> Action:
    """The action for a fatal one."""
    return unlisted(fatal) if entry is None else entry.action if entry.action in SERIOUS else Action.RESET


def _entry(event: Xid, table: XidTable) -> XidEntry:
    return table.xid(event.number, event.architecture)


def _by_number(events: Iterable[Xid]) -> Iterator[tuple[Xid, list[Xid]]]:
    groups: dict[tuple[str, int], list[Xid]] = {}
    for event in events:
        groups.setdefault((event.pci, event.number), []).append(event)
    for _, group in sorted(groups.items()):
        yield group[0], group


def _by_switch(events: Iterable[SXid]) -> Iterator[tuple[str, list[SXid]]]:
    groups: dict[tuple[str, int, int], list[SXid]] = {}
    for event in events:
        groups.setdefault((event.pci, event.number,
                           -1 if event.link is None else event.link), []).append(event)
    for (pci, number, link), group in sorted(groups.items()):
        yield f"NVSwitch at PCI {pci}, SXid {number}" + (f", link {link}" if link >= 0 else ""), group


class _Resets:
    """Whether a GPU was reset after its event; for an NVSwitch, whether all GPUs were, which resets the
    switches too."""

    def __init__(self, xids: Xids, table: XidTable) -> None:
        self._wanted = wanted = dict(xids.wanted)
        self._last: dict[str, float] = {}
        for reset in xids.resets:
            self._last[reset.pci] = max(reset.seconds, self._last.get(reset.pci, reset.seconds))
        newest = {event.pci: event for event in xids.events if _entry(event, table).action is Action.OBEY}
        self._asked = {pci: event for pci, event in newest.items() if event.recovery is not None
                       and event.recovery[0] in table.recoveries and event.recovery[0] in _HELD_BY_THE_GPU}
        for pci, event in self._asked.items():
            if wanted.get(pci) == _NOTHING:
                self._last[pci] = max(event.seconds, self._last.get(pci, event.seconds))

    def proven(self, xids: Xids) -> Iterator[tuple[str, int]]:
        """The address of each GPU that was reset, and the number of the record that proves it; "" for all
        GPUs, and so the switches."""
        met = [pci for pci, want in self._wanted.items() if want in (_NOTHING, "")]
        for reset in xids.resets:
            yield from ((pci, reset.sequence) for pci in met if reset.pci in (pci, ""))
            if not reset.pci and met and len(met) == len(self._wanted):
                yield "", reset.sequence
        for pci, event in self._asked.items():
            if self._wanted.get(pci) == _NOTHING:
                yield pci, event.records[-1]

    def after(self, event: Xid | SXid) -> bool:
        """Whether a reset followed; not where the driver still asks for an action or could not be read,
        whatever was written."""
        alone = isinstance(event, Xid)
        wants = [self._wanted.get(event.pci)] if alone else list(self._wanted.values())
        of = (event.pci, "") if alone else ("",)
        met = bool(wants) and all(want in (_NOTHING, "") for want in wants)
        return met and any(pci in self._last and event.seconds <= self._last[pci] for pci in of)


class _Companions:
    """Finds reports near NVLink errors of a GPU, by it or an NVSwitch, except those of jobs' ends."""

    def __init__(self, xids: Xids) -> None:
        self._switches = sorted((event.seconds, event.records) for event in xids.switch_events)
        self._gpus: dict[str, list[tuple[float, tuple[int, ...]]]] = {}
        for event in sorted(xids.events, key=lambda event: event.seconds):
            if event.number not in _NO_COMPANIONS:
                self._gpus.setdefault(event.pci, []).append((event.seconds, event.records))

    def records(self, pci: str, group: Sequence[Xid]) -> tuple[int, ...]:
        """The record numbers of the first companion, (0,) if it has none; empty without a companion."""
        for events in (self._switches, self._gpus.get(pci, [])):
            for event in group:
                at = bisect_left(events, (event.seconds - _BESIDE_SECONDS,))
                if at < len(events) and events[at][0] <= event.seconds + _BESIDE_SECONDS:
                    return events[at][1] or (0,)
        return ()


def _cause(event: Xid, events: Sequence[Xid]) -> int | None:
    """The Xid that an Xid 45 follows."""
    if event.cause is not None:
        return event.cause
    before = [other.number for other in events if other.pci == event.pci and other.number != _TORN_DOWN
              and 0 <= event.seconds - other.seconds <= _BESIDE_SECONDS]
    return before[0] if before else None


class _Others:
    """Whether another GPU reported one of the same numbers at about the same time."""

    def __init__(self, events: Iterable[Xid]) -> None:
        self._times: dict[int, list[float]] = {}
        self._gpus: dict[int, list[str]] = {}
        self._change: dict[int, list[int]] = {}
        for event in sorted(events, key=lambda event: event.seconds):
            self._times.setdefault(event.number, []).append(event.seconds)
            self._gpus.setdefault(event.number, []).append(event.pci)
        for number, gpus in self._gpus.items():
            change = [len(gpus)] * len(gpus)
            for at in range(len(gpus) - 2, -1, -1):
                change[at] = change[at + 1] if gpus[at] == gpus[at + 1] else at + 1
            self._change[number] = change

    def beside(self, burst: Sequence[Xid], seconds: float) -> bool:
        """Whether there is one within so many seconds of the burst."""
        for number in {event.number for event in burst}:
            first = bisect_left(self._times[number], burst[0].seconds - seconds)
            past = bisect_right(self._times[number], burst[-1].seconds + seconds)
            if first < past and (self._gpus[number][first] != burst[0].pci
                                 or self._change[number][first] < past):
                return True
        return False


def _counted(repeat: XidRepeat, events: Sequence[Xid], others: _Others, table: XidTable) -> list[list[Xid]]:
    """The bursts that count: those of Xids that no job causes, and those that follow the GPU from job to
    job."""
    counted: list[list[Xid]] = []
    of_jobs: list[list[Xid]] = []
    for burst in _bursts(repeat, events):
        if not all(_entry(event, table).action is Action.APP for event in burst):
            counted.append(burst)
        elif not others.beside(burst, repeat.alone_seconds):
            of_jobs.append(burst)
    if _jobs(of_jobs, repeat.apart_seconds) >= repeat.jobs:
        counted += of_jobs
    return sorted(counted, key=lambda burst: burst[0].seconds)


def _jobs(bursts: Iterable[Sequence[Xid]], apart_seconds: float) -> int:
    """The least number of jobs behind the bursts: another job comes some time after the last and has other
    processes."""
    jobs, last = 0, 0.0
    pids: set[str] = set()
    for burst in bursts:
        own = {event.pid for event in burst if event.pid}
        if not jobs or (burst[0].seconds - last >= apart_seconds and not own & pids):
            jobs, pids = jobs + 1, set()
        pids |= own
        last = burst[-1].seconds
    return jobs


def _processes(bursts: Iterable[Sequence[Xid]]) -> str:
    named = dict.fromkeys(f"{event.process or 'process'} {event.pid}" for burst in bursts for event in burst
                          if event.pid)
    return f" ({listed(list(named))})" if named else ""


def _bursts(repeat: XidRepeat, events: Sequence[Xid]) -> list[list[Xid]]:
    bursts: list[list[Xid]] = []
    last = sticky = float("-inf")
    for event in sorted(events, key=lambda event: event.seconds):
        stuck = event.number in repeat.sticky and event.seconds - sticky <= repeat.sticky_hours * 3600
        if bursts and (event.seconds - last < repeat.gap_seconds or stuck):
            bursts[-1].append(event)
        else:
            bursts.append([event])
        last = event.seconds
        if event.number in repeat.sticky:
            sticky = event.seconds
    return bursts


def _fatal(event: SXid, table: XidTable) -> bool:
    """The driver's own report counts where the line has one; else the table's."""
    entry = table.sxid(event.number)
    if event.fatal is not None or entry is None:
        return unlisted(event.fatal) in SERIOUS
    return entry.kind in (SxidReach.ALWAYS_FATAL, SxidReach.POTENTIALLY_FATAL)


def _reach(entry: SwitchEntry | None, group: Sequence[SXid], events: Sequence[Xid]) -> str:
    """Which partitions a fatal SXid affects, as far as the log shows."""
    if entry is not None and entry.kind is SxidReach.ALWAYS_FATAL:
        return "It is fatal to every partition"
    times = sorted(event.seconds for event in group)
    gpus = sorted({event.pci for event in events if event.number == _NVLINK
                   and bisect_left(times, event.seconds - _PORT_SECONDS) < bisect_right(
                       times, event.seconds + _PORT_SECONDS)})
    if len(gpus) == 1:
        return (f"GPU at PCI {gpus[0]} reports Xid 74 with it: by that an access port, so the partition of "
                "that GPU is hit and no other")
    if gpus:
        return (f"{len(gpus)} GPUs report Xid 74 with it ({listed(gpus)}): a trunk port, by that, so every "
                "partition that crosses it is hit")
    return ("On an access port the partition behind it is hit, on a trunk port every one that crosses it; "
            "the log does not say which")


def _subject(event: Xid) -> str:
    return f"GPU at PCI {event.pci}, Xid {event.number}"


def _finding(
    subject: str, group: Sequence[Xid], meaning: str, remedy: str, owner: Owner | None, action: Action,
    context: _Context,
) -> Finding:
    return Finding(_observed(group, context.now), "no such Xid", subject, _sentences(meaning, remedy), owner,
                   REPAIRS.get(action), _lines(group), context.evidence(group))


def _lines(group: Sequence[Xid] | Sequence[SXid]) -> tuple[str, ...]:
    """The reports themselves, the first that differ."""
    return tuple(dict.fromkeys(as_dmesg(event.seconds, event.text) for event in group))[:MOST_DISTINCT]


def _observed(group: Sequence[Xid] | Sequence[SXid], now: float, *, count: bool = True) -> str:
    """The first line, which is nearest to the cause, and how many there are; `now` is the uptime, 0 where it
    is not known."""
    first = group[0]
    more = f"{len(group)} lines, the first " if count and len(group) > 1 else "" if count else "the first "
    return f"{more}{moment(first.seconds, now)}: {first.text[:LONGEST_QUOTE]}"


def _sentences(*parts: str) -> str:
    return " ".join(f"{part[0].upper()}{part[1:].rstrip('.')}." for part in parts if part)


def _named(event: Xid | SXid) -> str:
    return f"{'SXid' if isinstance(event, SXid) else 'Xid'} {event.number} at PCI {event.pci}"
