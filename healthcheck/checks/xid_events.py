"""Which Xids and SXids of a log still count: what has ended, by time or by a reset, is over.

The tables say how long a report counts (`ends`). What a job caused ends by quiet. What a reset ends is over
once the GPU was reset: the driver asked for the reset after it (Xid 154) and no longer asks, and the flag in
the GPU that makes it ask is cleared only by a reset; or root wrote so to the log. The rest counts until the
next boot, or until a person reports the repair.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar

from healthcheck.checks.base import Findings, listed
from healthcheck.checks.xid_finding import EventContext, named, subject_of
from healthcheck.facts.xid import NVRM, SXid, Xid, Xids
from healthcheck.kernellog.ending import Ending, EndKind
from healthcheck.model.outcome import Note
from healthcheck.xid.nvlinkdecode import Decoded, decode
from healthcheck.xid.xidtable import SERIOUS, Action, SwitchEntry, XidEntry, XidTable, unlisted

BESIDE_SECONDS = 60.0       # within which a companion comes, such as the 45 after a 79
TORN_DOWN = 45
NVLINK = 74
# NVML's word where the driver asks for nothing, and the recovery actions that a flag in the GPU itself asks
# for until it is reset: GPU reset, drain and reset, bus reset.
NOTHING = "none"
HELD_BY_THE_GPU = (1, 4, 6)
_NO_COMPANIONS = (NVLINK, TORN_DOWN, 154)

E = TypeVar("E", Xid, SXid)


class LogEvents:
    """Divides the events of a log into those that still count and those that are over, which it remembers."""

    def __init__(self, xids: Xids, table: XidTable, everything: bool = False) -> None:
        self._xids, self._table, self._everything = xids, table, everything
        self._resets = _Resets(xids, table)
        self._quiet: list[Xid | SXid] = []
        self._reset: list[Xid | SXid] = []

    def context(self, action: Action, own: Ending | None = None, emitter: str = NVRM) -> EventContext:
        """The context of events with this action."""
        return EventContext(emitter, self._table.ending(action, own), self._xids.now)

    def alive(self, events: Iterable[E], wanted: Callable[[E], bool],
              action: Action | None = None) -> list[E]:
        """The wanted events that are not over; `action` replaces that of their entries."""
        return [event for event in events if wanted(event)
                and self._holds(event, self._ending(event, action))]

    def decoded(self, actions: Collection[Action]) -> Iterator[tuple[str, list[Xid], Decoded, EventContext]]:
        """The NVLink errors by GPU, number and link, decoded, where the action is one of these and they are
        not over."""
        groups: dict[tuple[str, int, int], list[Xid]] = {}
        for event in self._xids.events:
            if entry_of(event, self._table).action is Action.DECODE:
                found = event.registers if event.number == NVLINK else None
                words = event.nvlink5 if event.number != NVLINK else None
                link = found[0] if found else words.link if words else -1
                groups.setdefault((event.pci, event.number, link), []).append(event)
        beside = _Companions(self._xids) if groups else None
        for (pci, number, link), group in sorted(groups.items()):
            companion = beside.records(pci, group) if beside is not None else ()
            result = decode(number, group, self._table, alone=not companion)
            ends = self._table.ending(result.action, entry_of(group[0], self._table).ends)
            if result.action in actions and (alive := [event for event in group if self._holds(event, ends)]):
                yield (subject_of(group[0]) + (f", link {link}" if link >= 0 else ""), alive, result,
                       EventContext(NVRM, ends, self._xids.now, companion))

    def over(self) -> Findings:
        """Notes on what was left out, and why."""
        if self._reset:
            yield Note(f"over, since the GPU was reset: "
                       f"{listed(list(dict.fromkeys(map(named, self._reset))))}")
        if self._quiet:
            ages = {named(event): self._xids.age_hours(event.seconds) for event in self._quiet}
            quiet = listed([f"{what}, {age:.0f} h ago" for what, age in ages.items()])
            yield Note(f"over, quiet for long enough: {quiet}")

    def _ending(self, event: Xid | SXid, action: Action | None) -> Ending:
        if isinstance(event, Xid):
            entry = entry_of(event, self._table)
            return self._table.ending(entry.action, entry.ends)
        switch = self._table.sxid(event.number)
        return self._table.ending(action or switch_action(switch, event.fatal),
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


class _Resets:
    """Whether a GPU was reset after its event; for an NVSwitch, whether all GPUs were, which resets the
    switches too."""

    def __init__(self, xids: Xids, table: XidTable) -> None:
        self._wanted = wanted = dict(xids.wanted)
        self._last: dict[str, float] = {}
        for reset in xids.resets:
            self._last[reset.pci] = max(reset.seconds, self._last.get(reset.pci, reset.seconds))
        newest = {event.pci: event for event in xids.events if entry_of(event, table).action is Action.OBEY}
        self._asked = {pci: event for pci, event in newest.items() if event.recovery is not None
                       and event.recovery[0] in table.recoveries and event.recovery[0] in HELD_BY_THE_GPU}
        for pci, event in self._asked.items():
            if wanted.get(pci) == NOTHING:
                self._last[pci] = max(event.seconds, self._last.get(pci, event.seconds))

    def proven(self, xids: Xids) -> Iterator[tuple[str, int]]:
        """The address of each GPU that was reset, and the number of the record that proves it; "" for all
        GPUs, and so the switches."""
        met = [pci for pci, want in self._wanted.items() if want in (NOTHING, "")]
        for reset in xids.resets:
            yield from ((pci, reset.sequence) for pci in met if reset.pci in (pci, ""))
            if not reset.pci and met and len(met) == len(self._wanted):
                yield "", reset.sequence
        for pci, event in self._asked.items():
            if self._wanted.get(pci) == NOTHING:
                yield pci, event.records[-1]

    def after(self, event: Xid | SXid) -> bool:
        """Whether a reset followed; not where the driver still asks for an action or could not be read,
        whatever was written."""
        alone = isinstance(event, Xid)
        wants = [self._wanted.get(event.pci)] if alone else list(self._wanted.values())
        of = (event.pci, "") if alone else ("",)
        met = bool(wants) and all(want in (NOTHING, "") for want in wants)
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
                at = bisect_left(events, (event.seconds - BESIDE_SECONDS,))
                if at < len(events) and events[at][0] <= event.seconds + BESIDE_SECONDS:
                    return events[at][1] or (0,)
        return ()


def entry_of(event: Xid, table: XidTable) -> XidEntry:
    """What the table says of an event."""
    return table.xid(event.number, event.architecture)


def switch_action(entry: SwitchEntry | None, fatal: bool | None) -> Action:
    """The action for a fatal one."""
    return unlisted(fatal) if entry is None else entry.action if entry.action in SERIOUS else Action.RESET
