"""SXid checks: what NVSwitches report, by the table (`sxid.yaml`), each number under its one rule."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from healthcheck.checks.base import Findings, check, listed
from healthcheck.checks.xid_events import NVLINK, LogEvents, switch_action
from healthcheck.checks.xid_finding import lines, observation, sentences
from healthcheck.facts.xid import NVSWITCH, SXid, Xid, Xids
from healthcheck.model.outcome import Finding, Owner
from healthcheck.xid.xidtable import (
    OWNERS,
    REPAIRS,
    SERIOUS,
    Action,
    SwitchEntry,
    SxidReach,
    XidTable,
    unlisted,
)

_PORT_SECONDS = 10.0        # within which GPUs report their side of a link that an NVSwitch lost


@check("kernel.sxid")
def kernel_sxid(xids: Xids, xid_table: XidTable, *, everything: bool = False) -> Findings:
    """No NVSwitch reported an error (SXid) that is fatal to partitions, or that is neither in the table nor
    non-fatal by the driver."""
    found = LogEvents(xids, xid_table, everything)
    for subject, group in _by_switch(found.alive(xids.switch_events, lambda event: _fatal(event, xid_table))):
        entry = xid_table.sxid(group[0].number)
        meaning = entry.meaning if entry else f"not in the table of {xid_table.sxids_dated}"
        action = switch_action(entry, group[0].fatal)
        yield _finding(found, xid_table, subject, group, action, meaning,
                       _reach(entry, group, xids.events), now=xids.now)
    yield from found.over()


@check("kernel.sxid_watch")
def kernel_sxid_watch(xids: Xids, xid_table: XidTable, *, everything: bool = False) -> Findings:
    """No NVSwitch reported an error (SXid) that lets jobs continue, such as a corrected one or a noisy
    link."""
    found = LogEvents(xids, xid_table, everything)
    nonfatal = found.alive(xids.switch_events, lambda event: not _fatal(event, xid_table), Action.MONITOR)
    for subject, group in _by_switch(nonfatal):
        entry = xid_table.sxid(group[0].number)
        meaning = (entry.meaning if entry
                   else f"not in the table of {xid_table.sxids_dated}, and non-fatal by the driver's word")
        yield _finding(found, xid_table, subject, group, Action.MONITOR, meaning, now=xids.now)
    yield from found.over()


def _finding(found: LogEvents, table: XidTable, subject: str, group: Sequence[SXid], action: Action,
             *meaning: str, now: float) -> Finding:
    entry = table.sxid(group[0].number)
    # What an entry says is for its own action: the driver may call the same number fatal, or not.
    own = entry if entry and entry.action is action else None
    remedy = own.remedy if own and own.remedy else table.remedy(action)
    owner = own.owner if own else OWNERS.get(action, Owner.OPERATOR)
    return Finding(observation(group, now), "no such SXid", subject, sentences(*meaning, remedy), owner,
                   REPAIRS.get(action), lines(group),
                   found.context(action, entry.ends if entry else None, NVSWITCH).evidence(group))


def _by_switch(events: Iterable[SXid]) -> Iterator[tuple[str, list[SXid]]]:
    groups: dict[tuple[str, int, int], list[SXid]] = {}
    for event in events:
        groups.setdefault((event.pci, event.number,
                           -1 if event.link is None else event.link), []).append(event)
    for (pci, number, link), group in sorted(groups.items()):
        yield f"NVSwitch at PCI {pci}, SXid {number}" + (f", link {link}" if link >= 0 else ""), group


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
    gpus = sorted({event.pci for event in events if event.number == NVLINK
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
