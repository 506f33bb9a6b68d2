"""Xid checks: the reports of NVIDIA's driver, by the table (`xid.yaml`), each number under its one rule."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence

from healthcheck.checks.base import Findings, NotJudged, check, listed
from healthcheck.checks.xid_bursts import OtherGpus, counted, processes
from healthcheck.checks.xid_events import (
    BESIDE_SECONDS,
    HELD_BY_THE_GPU,
    NOTHING,
    TORN_DOWN,
    LogEvents,
    entry_of,
)
from healthcheck.checks.xid_finding import EventContext, finding, lines, observation, sentences, subject_of
from healthcheck.facts.xid import NVRM, Xid, Xids
from healthcheck.kernellog.ending import Ending, EndKind
from healthcheck.model.outcome import Finding, Note, Owner
from healthcheck.xid.xidtable import OWNERS, REPAIRS, SERIOUS, WATCHED, Action, Recovery, XidEntry, XidTable


@check("kernel.xid")
def kernel_xid(xids: Xids, xid_table: XidTable, *, everything: bool = False) -> Findings:
    """The GPU driver reported no Xid that needs a reset, a reboot, an inspection or the vendor, and none that
    is in no table.

    `everything`, here and in the other checks of Xids, also reports what time has ended.
    """
    found = LogEvents(xids, xid_table, everything)
    yield from _by_entry(found, xids, xid_table, SERIOUS)
    yield from found.over()


@check("kernel.xid_watch")
def kernel_xid_watch(xids: Xids, xid_table: XidTable, *, everything: bool = False) -> Findings:
    """The GPU driver reported no Xid to watch: repairs that wait for a reset, many corrected errors, bit
    errors of links."""
    found = LogEvents(xids, xid_table, everything)
    yield from _by_entry(found, xids, xid_table, WATCHED)
    for subject, group, decoded, context in found.decoded(WATCHED):
        yield finding(subject, group, decoded.meaning, xid_table.remedy(decoded.action), decoded.owner,
                      decoded.action, context)
    yield from found.over()


@check("kernel.xid_job")
def kernel_xid_job(xids: Xids, xid_table: XidTable, *, everything: bool = False) -> Findings:
    """No job made the GPU driver report an Xid. Such an Xid is for the job's user, and no fault of the
    node."""
    found = LogEvents(xids, xid_table, everything)
    of_jobs = found.alive(xids.events, lambda event: entry_of(event, xid_table).action is Action.APP)
    causes = _Causes(xids, xid_table) if of_jobs else None
    for event, group in _by_number(of_jobs):
        entry = entry_of(event, xid_table)
        remedy, owner = entry.remedy or xid_table.remedy(entry.action), entry.owner
        if causes is not None and (cause := causes.of(group)) is not None:
            remedy = f"It follows Xid {cause.number} of this GPU: see there."
            owner = cause.owner if causes.failing(event.pci, cause.number) else owner
        yield finding(subject_of(event), group, entry.meaning, remedy, owner, entry.action,
                      found.context(entry.action, entry.ends))
    for subject, group, decoded, context in found.decoded((Action.APP,)):
        yield finding(subject, group, decoded.meaning, xid_table.remedy(decoded.action), Owner.USER,
                      decoded.action, context)
    ignored = found.alive(xids.events, lambda event: entry_of(event, xid_table).action is Action.IGNORE)
    counts = [f"{subject_of(event)}" + (f" ({len(group)} times)" if len(group) > 1 else "")
              for event, group in _by_number(ignored)]
    if counts:
        yield Note(f"ignored, as the table says: {listed(counts)}")


@check("kernel.xid_recovery")
def kernel_xid_recovery(xids: Xids, xid_table: XidTable) -> Findings:
    """In its newest report (Xid 154), the driver asks for no recovery of any GPU."""
    newest = {event.pci: event for event in xids.events if entry_of(event, xid_table).action is Action.OBEY}
    wanted = dict(xids.wanted)
    found, met = LogEvents(xids, xid_table), []
    for _, event in sorted(newest.items()):
        words = event.recovery
        known = xid_table.recoveries.get(words[0]) if words is not None else None
        if known is not None and known.action is Action.IGNORE:
            continue
        # The driver itself remembers a requested reboot, until it is loaded again; the GPU or its fabric
        # remember the others.
        held = known is not None and (known.action is not Action.REBOOT or known.code in HELD_BY_THE_GPU)
        if held and wanted.get(event.pci) == NOTHING:
            met.append(event)
            continue
        recovery = known or Recovery(-1, "", Action.SUPPORT, xid_table.remedy(Action.SUPPORT))
        meaning = (f"the driver asks for: {recovery.says}"
                   if known else "the driver asks for what no table holds")
        owner = OWNERS.get(recovery.action, Owner.OPERATOR)
        yield Finding(observation([event], xids.now), "no recovery action", subject_of(event),
                      sentences(meaning, recovery.remedy), owner, REPAIRS.get(recovery.action),
                      lines([event]), found.context(Action.OBEY).evidence([event]))
    if met:
        yield Note(f"no longer asked for, by NVML: {listed([subject_of(event) for event in met])}")


@check("kernel.xid_nvlink")
def kernel_xid_nvlink(xids: Xids, xid_table: XidTable, *, everything: bool = False) -> Findings:
    """The GPU driver reported no NVLink error (Xid 74; 144 to 150 on NVLink 5), except those whose decoded
    details are harmless."""
    found = LogEvents(xids, xid_table, everything)
    for subject, group, decoded, context in found.decoded((*SERIOUS, Action.IGNORE)):
        if decoded.action is Action.IGNORE:
            yield Note(f"ignored, as the table says: {subject} ({decoded.meaning})")
            continue
        owner = decoded.owner or OWNERS.get(decoded.action, Owner.OPERATOR)
        yield finding(subject, group, decoded.meaning, xid_table.remedy(decoded.action), owner,
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
        others = OtherGpus(events)
        places: dict[tuple[str, tuple[int, int] | None], list[Xid]] = {}
        for event in events:
            tpc = event.tpc if repeat.same == "tpc" else None
            if repeat.same == "gpu" or tpc is not None:
                places.setdefault((event.pci, tpc), []).append(event)
        for (pci, tpc), here in sorted(places.items(), key=lambda item: (item[0][0], item[0][1] or (-1, -1))):
            bursts = counted(repeat, here, others, xid_table)
            if len(bursts) >= repeat.count:
                where = f"GPU at PCI {pci}" + (f", GPC {tpc[0]} TPC {tpc[1]}" if tpc else "")
                numbers = ", ".join(
                    str(number) for number in sorted({event.number for burst in bursts for event in burst}))
                firsts = [burst[0] for burst in bursts]
                observed = (f"{len(bursts)} bursts in {repeat.hours:g} h{processes(bursts)}, "
                            f"{observation(firsts, xids.now, count=False)}")
                remedy = sentences(repeat.why, repeat.remedy or xid_table.remedy(repeat.action))
                yield Finding(
                    observed, f"fewer than {repeat.count} bursts", f"{where}, Xid {numbers}", remedy,
                    repeat.owner, REPAIRS.get(repeat.action),
                    lines([event for burst in bursts for event in burst]),
                    EventContext(NVRM, Ending(EndKind.QUIET, round(repeat.hours)), xids.now).evidence(firsts))


def _by_entry(
    found: LogEvents, xids: Xids, table: XidTable, actions: Collection[Action],
) -> Iterator[Finding]:
    """A finding for each GPU and number that counts, where the table has one of these actions for it."""
    for event, group in _by_number(found.alive(
            xids.events, lambda event: entry_of(event, table).action in actions)):
        entry = entry_of(event, table)
        yield finding(subject_of(event), group, entry.meaning, entry.remedy or table.remedy(entry.action),
                      entry.owner, entry.action, found.context(entry.action, entry.ends))


def _by_number(events: Iterable[Xid]) -> Iterator[tuple[Xid, list[Xid]]]:
    groups: dict[tuple[str, int], list[Xid]] = {}
    for event in events:
        groups.setdefault((event.pci, event.number), []).append(event)
    for _, group in sorted(groups.items()):
        yield group[0], group


# Xids that are not about what a job did, and by which none of its errors is explained.
_NO_CAUSES = (Action.APP, Action.IGNORE, Action.OBEY)


# Of one GPU or, under MIG, of one instance of it, by address and instance.
_Reports = dict[tuple[str, str], list[tuple[float, int]]]


class _Causes:
    """What the errors of jobs follow from: a GPU that fails makes what runs on it report errors of its own.
    What an instance under MIG reports explains nothing on another."""

    def __init__(self, xids: Xids, table: XidTable) -> None:
        self._table = table
        self._any: _Reports = {}
        self._failing: _Reports = {}
        for event in sorted(xids.events, key=lambda event: event.seconds):
            place, report = (event.pci, _gpu_instance(event)), (event.seconds, event.number)
            if event.number != TORN_DOWN:
                self._any.setdefault(place, []).append(report)
            if entry_of(event, table).action not in _NO_CAUSES:
                self._failing.setdefault(place, []).append(report)

    def of(self, group: Sequence[Xid]) -> XidEntry | None:
        """The entry of the Xid that all these reports of a job follow within a minute, the first one's; an
        Xid 45 follows any other, or the one that its line names."""
        known = self._any if group[0].number == TORN_DOWN else self._failing
        found = [event.cause or _before(known, event) for event in group]
        first = found[0]
        return None if first is None or None in found else self._table.xid(first, group[0].architecture)

    def failing(self, pci: str, number: int) -> bool:
        """Whether the log holds this Xid of the GPU, and it is the GPU's own failure."""
        return any(number == held for place, reports in self._failing.items() if place[0] == pci
                   for _, held in reports)


def _gpu_instance(event: Xid) -> str:
    """The GPU instance under MIG, without its compute instance."""
    return event.instance.partition(" ")[0]


def _before(known: _Reports, event: Xid) -> int | None:
    """The first report of the GPU, or of the event's instance of it, in the minute before."""
    found: list[tuple[float, int]] = []
    for instance in {"", _gpu_instance(event)}:
        reports = known.get((event.pci, instance), [])
        at = bisect_left(reports, (event.seconds - BESIDE_SECONDS,))
        found += [one for one in reports[at:at + 1] if one[0] <= event.seconds]
    return min(found)[1] if found else None
