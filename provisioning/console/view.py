"""What of a captured console is shown of a machine that is stuck: its last lines, what the catalogue knows of
them, and where nothing was captured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from healthcheck.baseline.catalogue import Catalogue
from inventory.text import clean
from provisioning.console.log import CaptureMark, ConsoleLine, tail
from provisioning.console.verdict import ConsoleFinding, judged

LAST = 5
_WIDE = 160
_LACKS = (CaptureMark.GAP, CaptureMark.MISSING, CaptureMark.CUT)


@dataclass(frozen=True)
class ConsoleView:
    """`last` are its last lines, `since` from which on they count (epoch seconds); `missing` says where
    nothing was captured, "" where all was; `captured` that there is a line of the machine at all."""

    since: float
    captured: bool
    last: tuple[str, ...]
    findings: tuple[ConsoleFinding, ...]
    missing: str

    @property
    def message(self) -> str:
        """How it was captured, in a line."""
        if not self.captured:
            return f"console: {self.missing or 'captured, and it wrote nothing'}"
        return f"console{f' (not all of it: {self.missing})' if self.missing else ''}:"

    def lines(self) -> list[str]:
        """All of it for people."""
        shown = [self.message]
        shown += [
            f"  ! {clean(one.entry.meaning, 120)} [{one.entry.id}, {one.count}x, {one.entry.owner.value}]"
            for one in self.findings]
        return shown + [f"  | {clean(line, _WIDE)}" for line in self.last]

    def document(self) -> dict[str, Any]:
        """The same for a document."""
        return {"since": self.since, "captured": self.captured, "missing": self.missing,
                "last": [clean(line, _WIDE) for line in self.last],
                "findings": [{"entry": one.entry.id, "severity": one.entry.severity.value,
                              "owner": one.entry.owner.value, "meaning": one.entry.meaning,
                              "line": one.line, "count": one.count} for one in self.findings]}


def view(folder: Path, node: str, since: float, catalogue: Callable[[], Catalogue | None]) -> ConsoleView:
    """Of what was captured since then; the catalogue is loaded where there is something to judge."""
    return _view(tail(folder, node, since), since, catalogue)


def _view(
    found: Sequence[ConsoleLine], since: float, catalogue: Callable[[], Catalogue | None],
) -> ConsoleView:
    text = [one.text for one in found if one.mark is None]
    marks = [one for one in found if one.mark is not None]
    missing = "; ".join(dict.fromkeys(one.text for one in marks if one.mark in _LACKS))
    if not marks and not text:
        missing = "not captured"
    elif not text and missing:
        missing = f"not captured: {missing}"
    known = catalogue() if text else None
    return ConsoleView(since, bool(text), tuple(text[-LAST:]),
                       judged(text, known) if known is not None else (), clean(missing, 300))


def last_lines(folder: Path, node: str, since: float) -> str:
    """The last lines in one, for the words of a trouble; "" where there are none."""
    text = [one.text for one in tail(folder, node, since) if one.mark is None]
    return clean(" | ".join(text[-3:]), 200)
