"""Makes a baseline of a file's document as YAML gives it; every mistake is one line with file, line and key."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from healthcheck.baseline.file import SCHEMA, unescaped
from healthcheck.config.entry import kind_of, known_keys, nearest
from healthcheck.kernellog.masking import VERSION
from healthcheck.kernellog.model import Baseline, KernelEventKind, KnownTemplate, Phase, Scope
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList, LocatedMap
from inventory.nodeset import NAME
from inventory.text import short

_KEYS = ("schema", "masks", "scope", "learned", "phases", "approved", "proposed")
_SCOPE = ("sku", "kernel", "driver", "firmware")
_LEARNED = ("first", "last", "nodes", "boots", "expires_days", "expires_boots", "looks")
_ENTRY = ("template", "phases", "nodes", "on", "boots", "times", "busiest", "priority", "kind", "first_seen", "last_seen", "unseen", "by",
          "why", "flags", "example")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIMES = re.compile(r"(\d{1,12})-(\d{1,12})")
_MOST = 10**12


class _Map:
    """A map of the document whose keys are asked for by type."""

    def __init__(self, item: Any, keys: Sequence[str], what: str, mark: Mark) -> None:
        if not isinstance(item, LocatedMap):
            raise RulesError(f"{what}: expected a map, got {kind_of(item)}", mark)
        if item.keys() - set(keys):
            known_keys(item, keys, f"{what}: ")
        self.item, self.what = item, what

    def mark(self, key: str) -> Mark:
        return self.item.value_marks.get(key, self.item.mark)

    def fail(self, key: str, expected: str, hint: str = "") -> RulesError:
        if key not in self.item:
            return RulesError(f"{self.what}: {key}: is missing: expected {expected}", self.item.mark)
        return RulesError(f"{self.what}: {key}: expected {expected}, got {kind_of(self.item[key])}{hint}", self.mark(key))

    def text(self, key: str, default: str | None = None) -> str:
        value = self.item.get(key, default)
        if not isinstance(value, str):
            raise self.fail(key, "text, in quotes")
        if "\\" not in value:
            return value
        try:
            return unescaped(value)
        except ValueError as error:
            raise RulesError(f"{self.what}: {key}: {error}", self.mark(key)) from None

    def number(self, key: str, most: int = _MOST, default: int | None = None, least: int = 0) -> int:
        value = self.item.get(key, default)
        if type(value) is not int or not least <= value <= most:
            raise self.fail(key, f"a number from {least} to {most}" if most < _MOST else f"a number from {least}")
        return value

    def amount(self, key: str, all_: int) -> int:
        return all_ if self.item.get(key) == "all" else self.number(key, all_)

    def date(self, key: str) -> str:
        value = self.item.get(key)
        if isinstance(value, str) and _DATE.fullmatch(value):
            try:
                return dt.date.fromisoformat(value).isoformat()
            except ValueError:
                pass
        raise self.fail(key, "a date, as 2026-11-21")

    def items(self, key: str) -> LocatedList:
        value = self.item.get(key)
        if not isinstance(value, LocatedList):
            raise self.fail(key, "a list")
        return value


def baseline(document: Any, path: Path) -> tuple[Baseline, dict[str, Mark]]:
    """What it says, named as the file is, and where each template stands; raises RulesError."""
    top = _Map(document, _KEYS, "baseline", Mark(str(path), 1, 1))
    if top.item.get("schema") != SCHEMA:
        raise top.fail("schema", SCHEMA)
    top.number("masks", default=VERSION)
    said = _Map(top.item.get("scope"), _SCOPE, "scope", top.mark("scope"))
    scope = Scope(*(said.text(key, "") for key in _SCOPE))
    learned = _Map(top.item.get("learned"), _LEARNED, "learned", top.mark("learned"))
    looks = _looks(learned)
    boots, last = learned.number("boots"), learned.date("last")
    if learned.number("nodes") != len(looks):
        raise learned.fail("nodes", f"{len(looks)}, as many as looks names")
    marks: dict[str, Mark] = {}
    held = Baseline(
        path.stem, scope, len(looks), boots, {}, _phases_of(top), str(path), first=learned.date("first"), last=last,
        expires_days=learned.number("expires_days", 36500, 180, 1), expires_boots=learned.number("expires_boots", _MOST, 200, 1),
        looks=looks,
    )
    known = _entries(top, "approved", held, marks)
    proposed = _entries(top, "proposed", held, marks)
    return replace(held, known=known, proposed=proposed), marks


def _looks(learned: _Map) -> dict[str, tuple[str, ...]]:
    held = learned.item.get("looks")
    if not isinstance(held, LocatedMap):
        raise learned.fail("looks", "a map of nodes to the boots that were learned")
    looks = _Map(held, list(held), "looks", learned.mark("looks"))
    for node in held:
        if not NAME.fullmatch(node):
            raise RulesError(f"looks: expected the name of a node, got {short(node)}", held.key_marks[node])
    return {node: tuple(looks.text(node).split()) for node in held}


def _phases_of(top: _Map) -> dict[Phase, tuple[float, float]]:
    if "phases" not in top.item:
        return {}
    names = [phase.value for phase in Phase]
    said = _Map(top.item["phases"], names, "phases", top.mark("phases"))
    found = {}
    for name in names:
        if name in said.item:
            pair = said.item[name]
            if not isinstance(pair, list) or len(pair) != 2 or not all(type(n) in (int, float) and 0 <= n < _MOST for n in pair):
                raise said.fail(name, "two numbers of seconds, as [1.5, 2.5]")
            found[Phase(name)] = (float(pair[0]), float(pair[1]))
    return found


def _entries(top: _Map, kind: str, held: Baseline, marks: dict[str, Mark]) -> dict[str, KnownTemplate]:
    if kind not in top.item:
        return {}
    rows = top.items(kind)
    found = {}
    for at, item in enumerate(rows):
        row = _Map(item, _ENTRY, kind, rows.value_marks[at])
        one = _known(row, held, approved=kind == "approved")
        if one.template in marks:
            raise RulesError(f"{kind}: template: {short(one.template)} stands at line {marks[one.template].line} already",
                             row.mark("template"))
        marks[one.template] = row.mark("template")
        found[one.template] = one
    return found


def _known(row: _Map, held: Baseline, *, approved: bool) -> KnownTemplate:
    times = row.item.get("times")
    match = _TIMES.fullmatch(times) if isinstance(times, str) else None
    if match is None or not 0 < int(match[1]) <= int(match[2]):
        raise row.fail("times", "the least and the most in one boot, as 1-3")
    most = int(match[2])
    by, why = row.text("by", ""), row.text("why", "")
    if approved and not (by and why):
        raise row.fail("why" if by else "by", "who approved it, and why: `muster baseline approve` writes both")
    if not approved and (by or why):
        raise RulesError("proposed: by: what is proposed is approved by nobody: `muster baseline approve` moves it", row.mark("by"))
    template = row.text("template")
    if not template:
        raise row.fail("template", "what the lines have in common")
    return KnownTemplate(
        template, _phases(row), row.amount("nodes", held.nodes), row.amount("boots", held.boots), int(match[1]), most,
        row.text("example"), row.date("first_seen"), held.last if row.item.get("last_seen") == "last" else row.date("last_seen"), by, why,
        row.number("busiest", most, most), _kind(row), row.number("priority", 7) if "priority" in row.item else None, row.text("on", ""),
        row.number("unseen", _MOST, 0), tuple(str(flag) for flag in row.items("flags")) if "flags" in row.item else (),
    )


def _phases(row: _Map) -> tuple[Phase, ...]:
    try:
        return tuple(Phase(name) for name in row.items("phases"))
    except ValueError as error:
        names = [phase.value for phase in Phase]
        wrong = next(str(name) for name in row.item["phases"] if name not in names)
        raise row.fail("phases", f"some of {', '.join(names)}", nearest(wrong, names)) from error


def _kind(row: _Map) -> KernelEventKind:
    try:
        return KernelEventKind(row.item.get("kind", "line"))
    except ValueError:
        names = [kind.value for kind in KernelEventKind]
        raise row.fail("kind", f"one of {', '.join(names)}", nearest(str(row.item["kind"]), names)) from None
