"""Repairs recorded by people: they end what kernel logs reported, and start the count of clean snapshots.

Each word is one line of the ledger. What it is of is written down with the number of each newest report: what
is reported after that is not covered, and a line that stands in the log of the same boot since before accuses
no one (`healthcheck.kernellog.carried.RepairStatement`).
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from healthcheck.kernellog.carried import RepairStatement
from healthcheck.model.outcome import Status
from healthcheck.store import ledger
from healthcheck.store.file import NAME, Store, opened
from healthcheck.store.history import ComponentLocation, seats
from inventory.errors import StoreError

ACTION = "repaired"
ALL = "all"
_NEWEST = 200       # words of one node that are heard: each is of one boot
_PCI = re.compile(r"\b(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?(?![0-9a-f:])")
_GPU = re.compile(r"gpu ?(\d{1,3})")


@dataclass(frozen=True)
class Logged:
    """An open problem that was read from a kernel log, or that a burn-in found:
    no sweep ends it by itself."""

    id: int
    rule: str
    subject: str
    serial: str
    ends: str
    boot: str
    sequence: int | None


def logged(store: Store, node: str) -> list[Logged]:
    """What kernel logs of a node reported, or burn-ins found, and nothing has ended. What was last reported
    by a sweep that could not read the boot counts for the last one that was read: a boot that was not read is
    not another one."""
    return [Logged(*row) for row in store.rows(
        "SELECT problem.id, rule, subject, coalesce(serial, ''), coalesce(ends, ''), "
        "coalesce(nullif(problem.boot, ''), (SELECT boot.boot FROM boot WHERE boot.node = problem.node "
        "ORDER BY seen DESC LIMIT 1), ''), sequence FROM problem JOIN node ON node.id = problem.node "
        "LEFT JOIN component ON component.id = component WHERE name = ? AND ended IS NULL AND status = ? "
        "AND (coalesce(ends, '') != '' OR evidence IS NOT NULL) ORDER BY problem.id", node,
        Status.FAIL.value)]


class RepairTarget:
    """What a person names: a subject as muster shows it, a serial number, a PCI address, a slot,
    a GPU's number, or `all`."""

    def __init__(self, text: str, parts: Sequence[ComponentLocation]) -> None:
        """`parts` are what sits and sat in the node."""
        self._all = text.strip().lower() == ALL
        wanted = {text.strip().lower()}
        slots = sorted({part.slot for part in parts if part.kind == "gpu"})
        if (numbered := _GPU.fullmatch(text.strip().lower())) and int(numbered[1]) < len(slots):
            wanted.add(slots[int(numbered[1])].lower())
        self.parts = [part for part in parts if self._all or _names(part, wanted)]
        self._words = wanted | {word.lower() for part in self.parts for word in (part.slot, part.serial)}
        self._places = {place for word in self._words if (place := _place(word)) is not None}

    def covers(self, subject: str, serial: str) -> bool:
        """Whether a finding of this subject, on the component with this serial number where it has one,
        is of it."""
        said = subject.lower()
        if (self._all or said in self._words or said.partition(",")[0] in self._words
            or (serial and serial.lower() in self._words)):
            return True
        return any(_same(place, there) for place in self._places for found in _PCI.finditer(said)
                   if (there := _place(found[0])) is not None)


def meant(store: Store, node: str, component: str) -> tuple[list[Logged], bool]:
    """What the repair ends on this node, and whether the node has or reported such a component."""
    named = RepairTarget(component, seats(store, [node], 0))
    found = [one for one in logged(store, node) if named.covers(one.subject, one.serial)]
    other = store.rows(
        "SELECT subject, coalesce(serial, '') FROM problem JOIN node ON node.id = problem.node "
        "LEFT JOIN component ON component.id = component WHERE name = ?", node)
    return (found, bool(found or named.parts) or component.strip().lower() == ALL
            or any(named.covers(*row) for row in other))


def say(
    db: sqlite3.Connection, node: str, component: str, found: Sequence[Logged], why: str, who: str,
    now: float,
) -> int:
    """Stores the repair inside a transaction and ends what it covers; returns the ledger's line."""
    evidence = {"component": component,
                "found": [[one.boot, one.rule, one.subject, one.sequence] for one in found]}
    line = ledger.begin(db, now, who, ACTION, node, why, json.dumps(evidence, separators=(",", ":")))
    db.executemany("UPDATE problem SET ended = ? WHERE id = ? AND ended IS NULL",
                   [(now, one.id) for one in found])
    ledger.finish(db, line, f"done: {component}, {len(found)} of the kernel log ended", now)
    return line


def words(store: Store, nodes: Collection[str] | None = None) -> dict[str, tuple[RepairStatement, ...]]:
    """By node the recorded repairs, for judging its kernel log."""
    found: dict[str, list[RepairStatement]] = defaultdict(list)
    said = store.rows(
        "SELECT node, why, evidence FROM ledger WHERE action = ? AND outcome IS NOT NULL ORDER BY id", ACTION)
    for node, why, evidence in said:
        if nodes is None or node in nodes:
            found[node] += _words(evidence, why)
    return {node: tuple(heard[-_NEWEST:]) for node, heard in found.items()}


def words_in(folder: Path, nodes: Collection[str] | None = None) -> Mapping[str, tuple[RepairStatement, ...]]:
    """The same of the store in a state folder; none where there is no store that can be read:
    then what was repaired accuses on."""
    if not (folder / NAME).exists():
        return {}
    try:
        with opened(folder) as store:
            return words(store, nodes)
    except StoreError:
        return {}


def word_of(store: Store, node: str, evidence: str) -> frozenset[str]:
    """The subjects and serial numbers, of all that the node ever reported,
    that a word of the ledger is of; empty where it is of all."""
    try:
        component = str(json.loads(evidence)["component"])
    except (ValueError, KeyError, TypeError):
        return frozenset()
    if component.strip().lower() == ALL:
        return frozenset()
    named = RepairTarget(component, seats(store, [node], 0))
    reported = store.rows(
        "SELECT DISTINCT subject, coalesce(serial, '') FROM problem JOIN node ON node.id = problem.node "
        "LEFT JOIN component ON component.id = component WHERE name = ?", node)
    return frozenset({component, *(word for row in reported if named.covers(*row) for word in row if word)})


def _words(evidence: str, why: str) -> list[RepairStatement]:
    try:
        listed: Any = json.loads(evidence)["found"]
        subjects: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
        for boot, rule, subject, sequence in listed:
            if boot and type(sequence) is int:
                subjects[boot][rule, subject] = sequence
    except (ValueError, KeyError, TypeError):
        return []
    return [RepairStatement(boot, of, why) for boot, of in subjects.items()]


def _names(part: ComponentLocation, wanted: Collection[str]) -> bool:
    if part.slot.lower() in wanted or part.serial.lower() in wanted:
        return True
    there = _place(part.slot.lower())
    return (there is not None
            and any(_same(place, there) for word in wanted if (place := _place(word)) is not None))


def _place(word: str) -> tuple[str, str, str, str] | None:
    """A PCI address: its domain in four digits, bus, device, and function where it says one."""
    found = _PCI.fullmatch(word)
    return ((found[1] or "0000")[-4:], found[2], found[3], found[4] or "") if found is not None else None


def _same(one: tuple[str, str, str, str], other: tuple[str, str, str, str]) -> bool:
    return one[:3] == other[:3] and (one[3] == other[3] or "" in (one[3], other[3]))
