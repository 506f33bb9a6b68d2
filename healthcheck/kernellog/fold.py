"""Folds one boot's log into its digest: templates with their counts, phases, and the lines that stand for them.

Most of what a node says was said by others, so what is known of a template is worked out once; what a line costs is its mask, one look
into a table and one number kept.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from healthcheck.kernellog.masking import templates
from healthcheck.kernellog.model import MOST_DISTINCT, MOST_LINES, Digest, KernelEventKind, KernelMessage, LogLine, Phase, Scope
from healthcheck.kernellog.reports import LogReport, opens, reports
from healthcheck.model.construct import construct

SETTLED = 300.0             # seconds of user space, after which a node is taken to have started its services
_FIRST_LINES = 64           # within so many the kernel names itself, if the log begins where the boot does
_MOST_REMEMBERED = 200_000
_MOST_SCOPES, _MOST_LINES_OF_A_SCOPE = 64, 8

# What tells that a phase has begun. Linux: init/main.c (run_init_process, since 4.19), free_initmem_default before that; systemd:
# src/core/main.c and manager.c; dracut and systemd tell the initial RAM disk by its own words.
_INIT = re.compile(r"^Run \S+ as init process|^Freeing unused [^\n]{0,60}memory:")
_IN_INITRD = re.compile(r"^systemd\[1\]: (?:Running in initial RAM disk|Running in initrd)")
_ROOT = re.compile(r"^Run /(?:usr/)?s?bin/\S* as init process|^systemd\[1\]: (?:Switching root|Set hostname to|Detected architecture)"
                   r"|^systemd\[1\]: systemd \S+ running in system mode")
_KERNEL = re.compile(r"^Linux version (\S+)")
_DRIVER = re.compile(r"^NVRM: loading NVIDIA UNIX [^\n]{0,60}Kernel Module[^\n]{0,20}? (\d+\.\d+(?:\.\d+)?)\s")
_FIRMWARE = re.compile(r"^DMI: ([^\n]{1,200}?), BIOS (\S[^\n]{0,60}?)(?: \d\d/\d\d/\d{4})?$")


@dataclass(frozen=True)
class _Of:
    """What is known of every line of a template: whether it belongs to a report, and whether it may tell a phase or a version, or `names` a
    version at least."""

    opens: bool
    tells: bool
    names: bool


_KNOWN: dict[str, _Of] = {}
_SCOPES: dict[tuple[str, ...], Scope] = {}


def fold(lines: Sequence[LogLine], *, texts: Sequence[str] | None = None, node: str = "", boot: str = "",
         caveats: Sequence[str] = ()) -> Digest:
    """The digest of one boot's lines, oldest first.

    `texts` are the lines' texts, where they are at hand: then of most lines nothing else is asked, and they may be made when they are.
    """
    folding = Folding(lines, [line.text for line in lines] if texts is None else texts)
    return replace(folding.made, node=node, boot=boot, caveats=tuple(caveats))


class Folding:
    """A boot's log on its way to its digest: what is cheap to know of it is known, and the rest is worked out when it is first asked for.

    `templates` are those of the lines, which are `alone` where none of them is of a form that reports have.
    """

    def __init__(self, lines: Sequence[LogLine], texts: Sequence[str]) -> None:
        """`texts` are the lines' own."""
        self._lines, self._texts = lines, texts
        self._masked = masked = templates(texts)
        self.templates = frozenset(masked)
        known, found, names = _KNOWN, [], set()
        for template in self.templates:
            of = known.get(template)
            if of is None:
                of = _learn(template, texts[masked.index(template)])
            found.append(of.opens)
            if of.names:
                names.add(template)
        self.alone = True not in found
        self.scope = _scope([text for text, template in zip(texts, masked, strict=True) if template in names]) if names else Scope()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Folding) and self.made == other.made

    def __hash__(self) -> int:
        return hash(self.templates)

    @property
    def told(self) -> tuple[KernelMessage, ...]:
        """As in Digest."""
        return self.made.told

    @property
    def began(self) -> Mapping[Phase, float]:
        """As in Digest."""
        return self._held.began

    @cached_property
    def made(self) -> Digest:
        """The digest, of no node and no boot."""
        lines = self._lines
        newest = max((line.seconds or 0.0 for line in (lines[index] for index in _ends(len(lines)))), default=0.0)
        return Digest("", "", tuple(self.of(self.templates)), len(lines), self.scope, self._held.began, (), newest)

    def of(self, templates: Collection[str]) -> Iterator[KernelMessage]:
        """Of what the digest tells, the lines of these templates, and all reports; in its order."""
        held, lines, texts, masked = self._held, self._lines, self._texts, self._masked
        for template, places in held.places.items():
            if template in templates:
                alone = [index for index in places if index not in held.within] if held.within else places
                if alone:
                    yield _told(template, KernelEventKind.LINE, [(index,) for index in alone], alone, lines, texts, held.starts)
        grouped: dict[tuple[str, KernelEventKind], list[LogReport]] = {}
        for report in held.reports:
            grouped.setdefault((masked[report.head], report.kind), []).append(report)
        for (template, kind), alike in grouped.items():
            yield _told(template, kind, [report.indices for report in alike], [report.head for report in alike], lines, texts, held.starts)

    @cached_property
    def _held(self) -> _Held:
        lines, texts = self._lines, self._texts
        places: dict[str, list[int]] = {}
        suspects, tells = [], []
        for index, template in enumerate(self._masked):
            met = places.get(template)
            if met is None:
                places[template] = [index]
            else:
                met.append(index)
        for template, met in places.items():
            of = _KNOWN.get(template) or _learn(template, texts[met[0]])
            if of.opens:
                suspects += met
            if of.tells:
                tells += met
        found = reports(lines, sorted(suspects)) if suspects else []
        began, starts = _phases(lines, texts, sorted(tells))
        return _Held(places, found, {index for report in found for index in report.indices}, began, starts)


@dataclass(frozen=True)
class _Held:
    """What a log holds: by template the indices of its lines, the reports and the indices of theirs, and the phases."""

    places: Mapping[str, Sequence[int]]
    reports: Sequence[LogReport]
    within: Collection[int]
    began: dict[Phase, float]
    starts: _Starts


def _ends(count: int) -> range:
    """The last lines, one of which is the newest: clocks of other processors may be a little behind."""
    return range(max(0, count - 16), count)


def _learn(template: str, text: str) -> _Of:
    if len(_KNOWN) >= _MOST_REMEMBERED:
        _KNOWN.clear()
    names = any(pattern.search(text) for pattern in (_KERNEL, _DRIVER, _FIRMWARE))
    tells = names or any(pattern.search(text) for pattern in (_INIT, _IN_INITRD, _ROOT))
    _KNOWN[template] = of = _Of(opens(text) is not None, tells, names)
    return of


def _told(template: str, kind: KernelEventKind, events: Sequence[Sequence[int]], heads: Sequence[int], lines: Sequence[LogLine],
          texts: Sequence[str], starts: _Starts) -> KernelMessage:
    first = lines[heads[0]]
    if len(heads) == 1:
        kept = (first,) if kind is KernelEventKind.LINE else tuple(lines[index] for index in events[0][:MOST_LINES])
        last, busiest = first.seconds, 1
    else:
        kept = tuple([lines[index] for index in _distinct(events, texts)])
        last = lines[heads[-1]].seconds
        busiest = _busiest(heads, lines, first.seconds, last)
    return construct(KernelMessage, {
        "template": template, "kind": kind, "count": len(heads), "lines": kept, "phase": starts.phase(heads[0]),
        "first": first.seconds, "last": last, "head": first.text, "busiest": busiest,
        "latest": tuple([lines[index].sequence for index in events[-1][:MOST_LINES]])})


def _distinct(events: Sequence[Sequence[int]], texts: Sequence[str]) -> list[int]:
    """All lines of the first event, and of the others the first that differ, up to MOST_DISTINCT in all where the first has fewer."""
    kept = list(events[0][:MOST_LINES])
    seen = {texts[index] for index in kept}
    for event in events[1:]:
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
    hours = Counter([(lines[index].seconds or 0.0) // 3600 for index in heads])
    return max(hours.values())


class _Starts:
    """At which line each phase begins."""

    def __init__(self, marks: list[tuple[int, Phase]]) -> None:
        self._at = [index for index, _ in marks]
        self._phases = [phase for _, phase in marks]

    def phase(self, index: int) -> Phase:
        place = bisect_right(self._at, index)
        return self._phases[place - 1] if place else Phase.UNKNOWN


def _phases(lines: Sequence[LogLine], texts: Sequence[str], tells: Sequence[int]) -> tuple[dict[Phase, float], _Starts]:
    """When each phase began, as far as the log says, and where."""
    marks: list[tuple[int, Phase]] = []
    if any(_KERNEL.search(texts[index]) for index in tells if index < _FIRST_LINES):
        marks.append((0, Phase.KERNEL))
    initrd = services = -1
    for index in tells:
        text = texts[index]
        if initrd < 0 and (_IN_INITRD.search(text) or (_INIT.search(text) and not _ROOT.search(text))):
            initrd = index
        elif _ROOT.search(text) and services < 0 and not _goes_on_in_initrd(texts, tells, index):
            services = index
    if initrd >= 0 and not 0 <= services < initrd:
        marks.append((initrd, Phase.INITRD))
    if services >= 0:
        marks.append((services, Phase.SERVICES))
    began = {phase: seconds for index, phase in marks if (seconds := lines[index].seconds) is not None}
    up = began.get(Phase.SERVICES, began.get(Phase.INITRD))
    since = SETTLED + (up if up is not None else SETTLED)
    settled = _first_after(lines, since)
    if settled is not None:
        marks.append((settled, Phase.RUNNING))
        if up is not None:
            began[Phase.RUNNING] = since
    return began, _Starts(sorted(marks, key=lambda mark: mark[0]))


def _goes_on_in_initrd(texts: Sequence[str], tells: Sequence[int], index: int) -> bool:
    """Whether systemd says, a few lines on, that it is the initial RAM disk's: its first words are the same in both."""
    return any(index < other < index + 40 and _IN_INITRD.search(texts[other]) for other in tells)


def _first_after(lines: Sequence[LogLine], seconds: float) -> int | None:
    """The first line that is later than that; lines stand in the order of their times, but for a few."""
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high) // 2
        if (lines[middle].seconds or 0.0) < seconds:
            low = middle + 1
        else:
            high = middle
    return low if low < len(lines) else None


def _scope(said: Sequence[str]) -> Scope:
    """What the lines that name it say of the kernel, NVIDIA's driver and the machine's firmware; many nodes say the same."""
    if len(said) > _MOST_LINES_OF_A_SCOPE:
        return _read_scope(said)
    key = tuple(said)
    known = _SCOPES.get(key)
    if known is None:
        if len(_SCOPES) >= _MOST_SCOPES:
            _SCOPES.clear()
        known = _SCOPES[key] = _read_scope(said)
    return known


def _read_scope(said: Sequence[str]) -> Scope:
    kernel = driver = firmware = ""
    for text in said:
        if not kernel and (match := _KERNEL.search(text)):
            kernel = match[1][:80]
        elif not driver and (match := _DRIVER.search(text)):
            driver = match[1]
        elif not firmware and (match := _FIRMWARE.search(text)):
            firmware = f"{match[1]}, {match[2]}"[:200]
    return Scope("", kernel, driver, firmware)
