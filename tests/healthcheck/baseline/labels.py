"""Reads the labelled fault events of tests/recordings/kernel/faults: what real kernels print, how bad it is,
and who says so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

FAULTS = Path(__file__).resolve().parents[2] / "recordings" / "kernel" / "faults"
BAD = ("critical", "warning", "info")
KEYS = frozenset({"bad", "why", "source", "lines"})


@dataclass(frozen=True)
class Labelled:
    """One fault: its `lines` as they were printed, all of the event, and how bad it is held to be for a node
    that trains."""

    group: str
    bad: str
    why: str
    source: str
    lines: tuple[str, ...]
    file: str
    number: int

    @property
    def where(self) -> str:
        return f"{self.file}: event {self.number} ({self.lines[0][:100]})"


def labelled(folder: Path = FAULTS) -> tuple[Labelled, ...]:
    """Every labelled event, by file and place. Raises ValueError, one line with file and event, for what is
    not of the form."""
    return tuple(event for file in sorted(folder.glob("*.yaml")) for event in _of_file(file))


def _of_file(file: Path) -> tuple[Labelled, ...]:
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    if not isinstance(document, dict) or set(document) != {"class", "events"}:
        raise ValueError(f"{file}: expected the keys class and events")
    if document["class"] != file.stem:
        raise ValueError(
            f"{file}: class: expected {file.stem}, the name of the file, not {document['class']}")
    return tuple(_event(file, number, event) for number, event in enumerate(document["events"], 1))


def _event(file: Path, number: int, event: object) -> Labelled:
    where = f"{file}: event {number}"
    if not isinstance(event, dict) or set(event) != KEYS:
        raise ValueError(f"{where}: expected the keys {', '.join(sorted(KEYS))}")
    for key in sorted(KEYS):
        if not isinstance(event[key], str) or not event[key].strip():
            raise ValueError(f"{where}: {key}: expected text")
    if event["bad"] not in BAD:
        raise ValueError(f"{where}: bad: expected one of {', '.join(BAD)}, not {event['bad']}")
    lines = tuple(event["lines"].split("\n"))
    return Labelled(file.stem, event["bad"], event["why"], event["source"], lines, file.name, number)
