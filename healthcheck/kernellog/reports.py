"""Which lines are one event: a warning with its call trace, a machine check, an out-of-memory report.

    report_kind("WARNING: CPU: 3 PID: 77 at fs/inode.c:123") -> TRACE   what a line may be part of
    reports(lines, suspects) -> reports, each of two lines or more      suspects: the indices of such lines

A line belongs to a report by its text, never by its position: another driver's line within a call trace, such
as an Xid, stays an event of its own. Each report has a head, the line that names it: of 'cut here', 'WARNING:
...' and 'Call Trace:' the second.

Sources: Linux 4.18 to 6.12, arch/x86/kernel/dumpstack.c, arch/arm64/kernel/traps.c, kernel/panic.c,
kernel/hung_task.c, kernel/watchdog.c, kernel/rcu/tree_stall.h, lib/nmi_backtrace.c, mm/debug.c,
mm/oom_kill.c, mm/page_alloc.c (show_mem), arch/x86/kernel/cpu/mce/core.c, drivers/edac/mce_amd.c,
drivers/firmware/efi/cper.c, drivers/acpi/apei/ghes.c, drivers/pci/pcie/aer.c,
drivers/net/ethernet/mellanox/mlx5/core/health.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from healthcheck.kernellog.model import KernelEventKind, LogLine
from healthcheck.kernellog.reportparts import ReportFamily, ReportPart, Role, part_of

GAP_SECONDS = 5.0       # between two lines of one report
GAP_LINES = 200         # other lines between two lines of one report
MOST_SECONDS = 60.0     # from a report's first line to its last
MOST_TOGETHER = 10_000  # lines of one report; the list of tasks of an out-of-memory report has thousands
_BESIDE_SECONDS = 1.0   # between a trace without a head and the line that announces it

_KINDS = {ReportFamily.TRACE: KernelEventKind.TRACE, ReportFamily.FAULT: KernelEventKind.TRACE,
          ReportFamily.OOM: KernelEventKind.OOM}


@dataclass(frozen=True)
class LogReport:
    """`indices` of its lines, in their order; `head` is the index of the line that names it."""

    kind: KernelEventKind
    indices: tuple[int, ...]
    head: int


@dataclass
class _OpenReport:
    """A report that may still get lines."""

    family: ReportFamily
    caller: str
    first: float | None
    last: float | None
    indices: list[int] = field(default_factory=list)
    head: int = -1
    rank: int = -1

    def add(self, index: int, line: LogLine, rank: int) -> None:
        self.indices.append(index)
        if line.seconds is not None:
            self.last = line.seconds
        if rank > self.rank:
            self.head, self.rank = index, rank

    def accepts(self, index: int, line: LogLine) -> bool:
        """Whether a line may still belong to it, by time and place."""
        if len(self.indices) >= MOST_TOGETHER or index - self.indices[-1] > GAP_LINES:
            return False
        if line.seconds is None or self.last is None or self.first is None:
            return True
        return abs(line.seconds - self.last) <= GAP_SECONDS and line.seconds - self.first <= MOST_SECONDS


def report_kind(text: str) -> KernelEventKind | None:
    """The kind of report that the line may be part of, or None."""
    part = part_of(text)
    return None if part is None else _KINDS.get(part.family, KernelEventKind.HARDWARE)


def reports(lines: Sequence[LogLine], suspects: Sequence[int]) -> list[LogReport]:
    """The reports among the lines, in the order of their first lines. `suspects` are the ascending indices of
    lines for which `report_kind` is not None. Lines are separated by their `caller`, those about a PCI device
    by its address."""
    gathering = _ReportBuilder(lines)
    for index in suspects:
        part = part_of(lines[index].text)
        if part is not None:
            gathering.add_part(index, part)
    return sorted(
        (
            LogReport(_KINDS.get(report.family, KernelEventKind.HARDWARE), tuple(report.indices), report.head)
            for report in gathering.all if len(report.indices) > 1
        ),
        key=lambda report: report.indices[0],
    )


def _continues(report: _OpenReport, part: ReportPart, line: LogLine) -> bool:
    if report.family is ReportFamily.FAULT:
        return part.code and len(report.indices) == 1
    return report.family is part.family or report.caller == line.caller


class _ReportBuilder:
    """Collects lines into reports; the newest of each family and lane may still get lines."""

    def __init__(self, lines: Sequence[LogLine]) -> None:
        self._lines = lines
        self._open: dict[tuple[ReportFamily, str], _OpenReport] = {}
        self._stall: _OpenReport | None = None
        self.all: list[_OpenReport] = []

    def add_part(self, index: int, part: ReportPart) -> None:
        line = self._lines[index]
        # An out-of-memory report's reaper is another thread, and there is one at a time.
        lane = part.lane or ("" if part.family is ReportFamily.OOM else line.caller)
        report = self._open.get((part.family, lane))
        if part.ends and report is not None and report.rank > Role.OPEN.value and report.accepts(index, line):
            report.add(index, line, Role.MORE.value)
            del self._open[part.family, lane]
        elif part.role is Role.OPEN:
            self._start(index, line, part, lane)
        elif part.role is Role.HEAD:
            self._add_head(index, line, part, lane)
        else:
            self._add_line(index, line, part, lane)

    def _start(self, index: int, line: LogLine, part: ReportPart, lane: str) -> _OpenReport:
        report = _OpenReport(part.family, line.caller, line.seconds, line.seconds)
        report.add(index, line, part.role.value)
        self._open[part.family, lane] = report
        self.all.append(report)
        return report

    def _add_head(self, index: int, line: LogLine, part: ReportPart, lane: str) -> None:
        before = self._open.get((part.family, lane))
        if before is not None and before.rank == Role.OPEN.value and before.accepts(index, line):
            before.add(index, line, part.role.value)
        else:
            before = self._start(index, line, part, lane)
        if part.stall:
            self._stall = before

    def _add_line(self, index: int, line: LogLine, part: ReportPart, lane: str) -> None:
        report = self._matching_report(index, line, part, lane)
        if report is not None:
            report.add(index, line, part.role.value)
        elif part.family is ReportFamily.OOM:
            return
        else:
            begun = self._start(index, line, part, lane)
            if part.may_need_head:
                self._adopt_previous_line(begun, index, line)

    def _matching_report(self, index: int, line: LogLine, part: ReportPart, lane: str) -> _OpenReport | None:
        """The report that a further line belongs to: the newest one that the line's family can continue."""
        found = [
            report for family in part.family.within
            if (report := self._open.get((family, "" if family is ReportFamily.OOM else lane))) is not None
            and report.accepts(index, line) and _continues(report, part, line)
        ]
        if found:
            return max(found, key=lambda report: report.indices[-1])
        if part.elsewhere and self._stall is not None and self._stall.accepts(index, line):
            # Other CPUs answer with traces of their own.
            self._open[part.family, lane] = self._stall
            return self._stall
        return None

    def _adopt_previous_line(self, report: _OpenReport, index: int, line: LogLine) -> None:
        """Makes the line before a trace without a head the head."""
        if index == 0:
            return
        before = self._lines[index - 1]
        near = (line.seconds is None or before.seconds is None
                or abs(line.seconds - before.seconds) <= _BESIDE_SECONDS)
        if (near and before.caller == line.caller and not before.text.startswith("NVRM: Xid")
            and part_of(before.text) is None):
            report.indices.insert(0, index - 1)
            report.head, report.rank = index - 1, Role.HEAD.value
