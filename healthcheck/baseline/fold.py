"""Folds one boot's log into its digest: templates with their counts, phases, and the lines that stand for them.

Most of what a node says was said by others, so what is known of a template is worked out once; what a line costs is its mask, one look
into a table and one number kept.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from healthcheck.baseline.masking import templates
from healthcheck.baseline.model import MOST_DISTINCT, MOST_LINES, Digest, Kind, Line, Phase, Scope, Told
from healthcheck.baseline.reports import opens, reports
from healthcheck.facts.base import made

SETTLED = 300.0             # seconds of user space, after which a node is taken to have started its services
_FIRST_LINES = 64           # within so many the kernel names itself, if the log begins where the boot does
_MOST_REMEMBERED = 200_000

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
    """What is known of every line of a template: whether it belongs to a report, and whether it may tell a phase or a version."""

    opens: bool
    tells: bool


_KNOWN: dict[str, _Of] = {}


def fold(lines: Sequence[Line], *, texts: Sequence[str] | None = None, node: str = "", boot: str = "",
         caveats: Sequence[str] = ()) -> Digest:
    """The digest of one boot's lines, oldest first.

    `texts` are the lines' texts, where they are at hand: then of most lines nothing else is asked, and they may be made when they are.
    """
    said: Sequence[str] = [line.text for line in lines] if texts is None else texts
    masked = templates(said)
    at: dict[str, list[int]] = {}
    known = _KNOWN
    suspects, tells = [], []
    for index, template in enumerate(masked):
        of = known.get(template)
        if of is None:
            of = _learn(template, said[index])
        if of.opens:
            suspects.append(index)
        if of.tells:
            tells.append(index)
        places = at.get(template)
        if places is None:
            at[template] = [index]
        else:
            places.append(index)
    began, starts = _phases(lines, said, tells)
    found = reports(lines, suspects) if suspects else []
    within = {index for report in found for index in report.indices}
    told = []
    for template, places in at.items():
        alone = [index for index in places if index not in within] if within else places
        if alone:
            told.append(_told(template, Kind.LINE, [(index,) for index in alone], alone, lines, said, starts))
    grouped: dict[tuple[str, Kind], list[int]] = {}
    for number, report in enumerate(found):
        grouped.setdefault((masked[report.head], report.kind), []).append(number)
    for (template, kind), numbers in grouped.items():
        heads = [found[number].head for number in numbers]
        told.append(_told(template, kind, [found[number].indices for number in numbers], heads, lines, said, starts))
    newest = max((line.seconds or 0.0 for line in (lines[index] for index in _ends(len(lines)))), default=0.0)
    return Digest(node, boot, tuple(told), len(said), _scope(said, tells), began, tuple(caveats), newest)


def _ends(count: int) -> range:
    """The last lines, one of which is the newest: clocks of other processors may be a little behind."""
    return range(max(0, count - 16), count)


def _learn(template: str, text: str) -> _Of:
    if len(_KNOWN) >= _MOST_REMEMBERED:
        _KNOWN.clear()
    tells = any(pattern.search(text) for pattern in (_INIT, _IN_INITRD, _ROOT, _KERNEL, _DRIVER, _FIRMWARE))
    _KNOWN[template] = of = _Of(opens(text) is not None, tells)
    return of


def _told(template: str, kind: Kind, events: Sequence[Sequence[int]], heads: Sequence[int], lines: Sequence[Line],
          texts: Sequence[str], starts: _Starts) -> Told:
    first = lines[heads[0]]
    if len(heads) == 1:
        kept = (first,) if kind is Kind.LINE else tuple(lines[index] for index in events[0][:MOST_LINES])
        last, busiest = first.seconds, 1
    else:
        kept = tuple([lines[index] for index in _distinct(events, texts)])
        last = lines[heads[-1]].seconds
        busiest = _busiest(heads, lines, first.seconds, last)
    return made(Told, {"template": template, "kind": kind, "count": len(heads), "lines": kept, "phase": starts.phase(heads[0]),
                       "first": first.seconds, "last": last, "head": first.text, "busiest": busiest})


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


def _busiest(heads: Sequence[int], lines: Sequence[Line], first: float | None, last: float | None) -> int:
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


def _phases(lines: Sequence[Line], texts: Sequence[str], tells: Sequence[int]) -> tuple[dict[Phase, float], _Starts]:
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


def _first_after(lines: Sequence[Line], seconds: float) -> int | None:
    """The first line that is later than that; lines stand in the order of their times, but for a few."""
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high) // 2
        if (lines[middle].seconds or 0.0) < seconds:
            low = middle + 1
        else:
            high = middle
    return low if low < len(lines) else None


def _scope(texts: Sequence[str], tells: Sequence[int]) -> Scope:
    """What the log says of the kernel, NVIDIA's driver and the machine's firmware."""
    kernel = driver = firmware = ""
    for index in tells:
        text = texts[index]
        if not kernel and (match := _KERNEL.search(text)):
            kernel = match[1][:80]
        elif not driver and (match := _DRIVER.search(text)):
            driver = match[1]
        elif not firmware and (match := _FIRMWARE.search(text)):
            firmware = f"{match[1]}, {match[2]}"[:200]
    return Scope("", kernel, driver, firmware)
