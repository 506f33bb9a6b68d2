"""Folds one boot's log into its digest: templates with counts and phases, and lines that stand for them.

Most lines of a node were written by other nodes, too. What is known of a template is therefore worked out
once. A line costs its mask, one look-up in a table and one number that is kept.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from healthcheck.kernellog.masking import templates
from healthcheck.kernellog.model import (
    MOST_DISTINCT,
    MOST_LINES,
    Digest,
    KernelEventKind,
    KernelMessage,
    LogLine,
    Phase,
    Scope,
)
from healthcheck.kernellog.reports import LogReport, report_kind, reports
from healthcheck.model.construct import construct

STARTUP_SECONDS = 300.0     # of user space, after which a node is taken to have started its services
_FIRST_LINES = 64           # the kernel names itself within these, if the log begins where the boot does
_NEWEST_AMONG = 16          # last lines, one of them the newest: clocks of other CPUs may be behind
_MOST_TEMPLATES = 200_000

# What shows that a phase has begun. Linux: init/main.c (run_init_process, since 4.19), free_initmem_default
# before that; systemd: src/core/main.c and manager.c; dracut and systemd name the initial RAM disk in their
# own words.
_INIT = re.compile(r"^Run \S+ as init process|^Freeing unused [^\n]{0,60}memory:")
_IN_INITRD = re.compile(r"^systemd\[1\]: (?:Running in initial RAM disk|Running in initrd)")
_ROOT = re.compile(
    r"^Run /(?:usr/)?s?bin/\S* as init process"
    r"|^systemd\[1\]: (?:Switching root|Set hostname to|Detected architecture"
    r"|systemd \S+ running in system mode)")
_KERNEL = re.compile(r"^Linux version (\S+)")
_DRIVER = re.compile(
    r"^NVRM: loading NVIDIA UNIX [^\n]{0,60}Kernel Module[^\n]{0,20}? (\d+\.\d+(?:\.\d+)?)\s")
_FIRMWARE = re.compile(r"^DMI: ([^\n]{1,200}?), BIOS (\S[^\n]{0,60}?)(?: \d\d/\d\d/\d{4})?$")


@dataclass(frozen=True)
class _Traits:
    """What holds for every line of a template."""

    in_report: bool         # it may belong to a report
    shows_phase: bool       # or name a version
    names_version: bool


_TRAITS: dict[str, _Traits] = {}


def fold(lines: Sequence[LogLine], *, texts: Sequence[str] | None = None, node: str = "", boot: str = "",
         caveats: Sequence[str] = ()) -> Digest:
    """The digest of one boot's lines, oldest first; with their `texts`, most lines are never read."""
    lazy = LazyDigest(lines, [line.text for line in lines] if texts is None else texts)
    return replace(lazy.complete, node=node, boot=boot, caveats=tuple(caveats))


class LazyDigest:
    """A boot's log on its way to its digest: only what is cheap is known before it is used, the `templates`
    of the lines, and whether none can belong to a report (`single_lines`)."""

    def __init__(self, lines: Sequence[LogLine], texts: Sequence[str]) -> None:
        """`texts` are the lines' own."""
        self._lines, self._texts = lines, texts
        self._masked = masked = templates(texts)
        self.templates = frozenset(masked)
        traits = {template: _TRAITS.get(template) or _learn(template, texts[masked.index(template)])
                  for template in self.templates}
        self.single_lines = not any(found.in_report for found in traits.values())
        naming = {template for template, found in traits.items() if found.names_version}
        named = ([text for text, template in zip(texts, masked, strict=True) if template in naming] if naming
                 else [])
        self.scope = _scope(named)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LazyDigest) and self.complete == other.complete

    def __hash__(self) -> int:
        return hash(self.templates)

    @property
    def messages(self) -> tuple[KernelMessage, ...]:
        """As in Digest."""
        return self.complete.messages

    @property
    def began(self) -> Mapping[Phase, float]:
        """As in Digest."""
        return self._index.began

    @cached_property
    def complete(self) -> Digest:
        """The digest, of no node and no boot."""
        lines = self._lines
        newest = max(
            (lines[index].seconds or 0.0 for index in range(max(0, len(lines) - _NEWEST_AMONG), len(lines))),
            default=0.0)
        messages = tuple(self.select(self.templates))
        return Digest("", "", messages, len(lines), self.scope, self._index.began, (), newest)

    def select(self, templates: Collection[str]) -> Iterator[KernelMessage]:
        """Of the digest's messages those of these templates, and all reports, in the digest's order."""
        yield from self._of_lines(templates)
        yield from self._of_reports(lambda report: frozenset())

    def select_apart(self, templates: Collection[str]) -> Iterator[KernelMessage]:
        """The same, but reports are one message only if all their lines have equal templates: how bad a
        report is may stand in any of its lines, and a later report may be worse than the first."""
        masked = self._masked
        yield from self._of_lines(templates)
        yield from self._of_reports(lambda report: frozenset([masked[place] for place in report.indices]))

    def _of_lines(self, templates: Collection[str]) -> Iterator[KernelMessage]:
        index = self._index
        for template, places in index.places.items():
            if template in templates:
                alone = [place for place in places if place not in index.within] if index.within else places
                if alone:
                    yield self._message(template, KernelEventKind.LINE, [(place,) for place in alone], alone)

    def _of_reports(self, key: Callable[[LogReport], Collection[str]]) -> Iterator[KernelMessage]:
        """The reports; those of one template are one message where `key` is equal."""
        grouped: dict[tuple[str, KernelEventKind, Collection[str]], list[LogReport]] = defaultdict(list)
        for report in self._index.reports:
            grouped[self._masked[report.head], report.kind, key(report)].append(report)
        for (template, kind, _), group in grouped.items():
            yield self._message(template, kind, [report.indices for report in group],
                                [report.head for report in group])

    @cached_property
    def _index(self) -> _LogIndex:
        lines, texts = self._lines, self._texts
        places: dict[str, list[int]] = defaultdict(list)
        for place, template in enumerate(self._masked):
            places[template].append(place)
        suspects: list[int] = []
        markers: list[int] = []
        for template, held in places.items():
            traits = _TRAITS.get(template) or _learn(template, texts[held[0]])
            suspects += held if traits.in_report else ()
            markers += held if traits.shows_phase else ()
        found = reports(lines, sorted(suspects)) if suspects else []
        began, starts = _phases(lines, texts, sorted(markers))
        return _LogIndex(places, found, {place for report in found for place in report.indices}, began,
                         starts)

    def _message(self, template: str, kind: KernelEventKind, events: Sequence[Sequence[int]],
                 heads: Sequence[int]) -> KernelMessage:
        lines = self._lines
        first = lines[heads[0]]
        if len(heads) == 1:
            single = kind is KernelEventKind.LINE
            kept = (first,) if single else tuple([lines[place] for place in self._shown(events[0])])
            last, busiest = first.seconds, 1
        else:
            shown = self._shown(events[0])
            kept = tuple([lines[place] for place in _distinct(shown, events[1:], self._texts)])
            last = lines[heads[-1]].seconds
            busiest = _busiest(heads, lines, first.seconds, last)
        return construct(KernelMessage, {
            "template": template, "kind": kind, "count": len(heads), "lines": kept,
            "phase": self._index.starts.phase(heads[0]), "first": first.seconds, "last": last,
            "head": first.text, "busiest": busiest,
            "latest": tuple([lines[place].sequence for place in self._shown(events[-1])])})

    def _shown(self, event: Sequence[int]) -> Sequence[int]:
        """Of an event with more than MOST_LINES lines those that say something else, such as the last line of
        an out-of-memory report below its list of processes, and as many others as there is room for."""
        if len(event) <= MOST_LINES:
            return event
        first: dict[str, int] = {}
        for place in event:
            first.setdefault(self._masked[place], place)
        return sorted([*dict.fromkeys([*first.values(), *event])][:MOST_LINES])


class _Starts:
    """At which line each phase begins."""

    def __init__(self, starts: list[tuple[int, Phase]]) -> None:
        self._at = [index for index, _ in starts]
        self._phases = [phase for _, phase in starts]

    def phase(self, index: int) -> Phase:
        place = bisect_right(self._at, index)
        return self._phases[place - 1] if place else Phase.UNKNOWN


@dataclass(frozen=True)
class _LogIndex:
    """By template the indices of its lines; the reports and the indices of their lines; the phases."""

    places: Mapping[str, Sequence[int]]
    reports: Sequence[LogReport]
    within: Collection[int]
    began: dict[Phase, float]
    starts: _Starts


def _learn(template: str, text: str) -> _Traits:
    if len(_TRAITS) >= _MOST_TEMPLATES:
        _TRAITS.clear()
    names = any(pattern.search(text) for pattern in (_KERNEL, _DRIVER, _FIRMWARE))
    shows = names or any(pattern.search(text) for pattern in (_INIT, _IN_INITRD, _ROOT))
    _TRAITS[template] = found = _Traits(report_kind(text) is not None, shows, names)
    return found


def _distinct(first: Sequence[int], others: Iterable[Sequence[int]], texts: Sequence[str]) -> list[int]:
    """All of the first event's lines, then those of the others that differ, up to MOST_DISTINCT."""
    kept = list(first)
    seen = {texts[index] for index in kept}
    for event in others:
        if len(kept) >= MOST_DISTINCT:
            break
        for index in event:
            if texts[index] not in seen and len(kept) < MOST_DISTINCT:
                seen.add(texts[index])
                kept.append(index)
    return kept


def _busiest(heads: Sequence[int], lines: Sequence[LogLine], first: float | None, last: float | None) -> int:
    if len(heads) < 3 or first is None or last is None or first // 3600 == last // 3600:
        return len(heads)
    return max(Counter([(lines[index].seconds or 0.0) // 3600 for index in heads]).values())


def _phases(
    lines: Sequence[LogLine], texts: Sequence[str], markers: Sequence[int],
) -> tuple[dict[Phase, float], _Starts]:
    """When each phase began, as far as the log says, and where."""
    starts: list[tuple[int, Phase]] = []
    if any(_KERNEL.search(texts[index]) for index in markers if index < _FIRST_LINES):
        starts.append((0, Phase.KERNEL))
    initrd = services = -1
    for index in markers:
        text = texts[index]
        if initrd < 0 and (_IN_INITRD.search(text) or (_INIT.search(text) and not _ROOT.search(text))):
            initrd = index
        elif _ROOT.search(text) and services < 0 and not _still_in_initrd(texts, markers, index):
            services = index
    if initrd >= 0 and not 0 <= services < initrd:
        starts.append((initrd, Phase.INITRD))
    if services >= 0:
        starts.append((services, Phase.SERVICES))
    began = {phase: seconds for index, phase in starts if (seconds := lines[index].seconds) is not None}
    up = began.get(Phase.SERVICES, began.get(Phase.INITRD))
    since = STARTUP_SECONDS + (up if up is not None else STARTUP_SECONDS)
    running = _first_after(lines, since)
    if running is not None:
        starts.append((running, Phase.RUNNING))
        if up is not None:
            began[Phase.RUNNING] = since
    return began, _Starts(sorted(starts, key=lambda start: start[0]))


def _still_in_initrd(texts: Sequence[str], markers: Sequence[int], index: int) -> bool:
    """Whether systemd shows, a few lines on, that it is the initial RAM disk's: both begin the same way."""
    return any(index < other < index + 40 and _IN_INITRD.search(texts[other]) for other in markers)


def _first_after(lines: Sequence[LogLine], seconds: float) -> int | None:
    """The first line that is later than that. All but a few lines stand in the order of their times."""
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high) // 2
        if (lines[middle].seconds or 0.0) < seconds:
            low = middle + 1
        else:
            high = middle
    return low if low < len(lines) else None


def _scope(texts: Sequence[str]) -> Scope:
    """The kernel, NVIDIA's driver and the machine's firmware, as these lines name them."""
    kernel = driver = firmware = ""
    for text in texts:
        if not kernel and (match := _KERNEL.search(text)):
            kernel = match[1][:80]
        elif not driver and (match := _DRIVER.search(text)):
            driver = match[1]
        elif not firmware and (match := _FIRMWARE.search(text)):
            firmware = f"{match[1]}, {match[2]}"[:200]
    return Scope("", kernel, driver, firmware)
