"""Judges the lines of a console by the kernel catalogue: whatever that knows. Pure. A console shows what
anyone writes to it, so a line proves less than the kernel's own log, and decides nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from healthcheck.baseline.catalogue import WORST_FIRST, Catalogue
from healthcheck.kernellog.model import CatalogueEntry
from healthcheck.model.outcome import Severity
from inventory.text import clean

_KERNEL = re.compile(r"(?:<\d{1,4}>)?\[ {0,12}\d{1,12}\.\d{1,9}\](?:\[ {0,8}[TC]\d{1,10}\])? ?", re.ASCII)
# What systemd shows of a job that failed (systemd, src/core/job.c, job_print_done_status_message).
_STATUS = re.compile(r"\[ {0,2}(?:FAILED|DEPEND|TIME) {0,2}\] ?", re.ASCII)
_SHOWN = (Severity.CRITICAL, Severity.WARNING)
MOST = 8


@dataclass(frozen=True)
class ConsoleFinding:
    """What the catalogue knows of lines of the console: the first of them, and how many."""

    entry: CatalogueEntry
    line: str
    count: int


def judged(lines: Sequence[str], catalogue: Catalogue) -> tuple[ConsoleFinding, ...]:
    """What is wrong, the worst first, then in the order of the lines; `MOST` at most."""
    known: dict[str, CatalogueEntry | None] = {}
    first: dict[str, str] = {}
    count: dict[str, int] = {}
    entries: dict[str, CatalogueEntry] = {}
    for line in lines:
        text = message(line)
        if text not in known:
            known[text] = catalogue.find(text)
        entry = known[text]
        if entry is None or entry.ordinary or entry.severity not in _SHOWN:
            continue
        entries[entry.id] = entry
        first.setdefault(entry.id, clean(line, 200))
        count[entry.id] = count.get(entry.id, 0) + 1
    worst = sorted(entries, key=lambda name: WORST_FIRST.index(entries[name].severity))
    return tuple(ConsoleFinding(entries[name], first[name], count[name]) for name in worst[:MOST])


def message(line: str) -> str:
    """A line without what the console puts before a message."""
    if status := _STATUS.match(line):
        return f"systemd[1]: {line[status.end():]}"
    kernel = _KERNEL.match(line)
    return line[kernel.end():] if kernel is not None else line
