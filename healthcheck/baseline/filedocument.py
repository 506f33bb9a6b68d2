"""Makes a baseline of a file's YAML document; RulesError names file, line and key."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from dataclasses import replace
from pathlib import Path

from healthcheck.baseline.file import SCHEMA, unescaped
from healthcheck.config.documentmap import DocumentMap
from healthcheck.config.entry import nearest
from healthcheck.kernellog.masking import VERSION
from healthcheck.kernellog.model import Baseline, KernelEventKind, KnownTemplate, Phase, Scope
from inventory.errors import Mark, RulesError
from inventory.located import LocatedMap
from inventory.nodeset import NAME
from inventory.text import short

_KEYS = ("schema", "masks", "scope", "learned", "phases", "approved", "proposed")
_SCOPE = ("sku", "kernel", "driver", "firmware")
_LEARNED = ("first", "last", "nodes", "boots", "expires_days", "expires_boots", "node_boots")
_FORMER = "looks"           # what earlier versions wrote for node_boots
_ENTRY = ("template", "phases", "nodes", "on", "boots", "times", "busiest", "priority", "kind", "first_seen",
          "last_seen", "unseen", "by", "why", "flags", "example")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIMES = re.compile(r"(\d{1,12})-(\d{1,12})")
_MOST = 10**12


class _BaselineMap(DocumentMap):
    """A map of a baseline's file."""

    def quoted(self, key: str, default: str | None = None) -> str:
        value = self.item.get(key, default)
        if not isinstance(value, str):
            raise self.fail(key, "text, in quotes")
        try:
            return unescaped(value)
        except ValueError as error:
            raise RulesError(f"{self.what}: {key}: {error}", self.mark(key)) from None

    def count(self, key: str, most: int = _MOST, default: int | None = None, least: int = 0) -> int:
        value = self.item.get(key, default)
        if type(value) is not int or not least <= value <= most:
            raise self.fail(key, f"a number from {least}" + (f" to {most}" if most < _MOST else ""))
        return value

    def count_or_all(self, key: str, all_: int) -> int:
        return all_ if self.item.get(key) == "all" else self.count(key, all_)

    def date(self, key: str) -> str:
        value = self.item.get(key)
        if isinstance(value, str) and _DATE.fullmatch(value):
            with contextlib.suppress(ValueError):
                return dt.date.fromisoformat(value).isoformat()
        raise self.fail(key, "a date, as 2026-11-21")


def baseline(document: object, path: Path) -> tuple[Baseline, dict[str, Mark]]:
    """The baseline, named after the file, and where each template stands; raises RulesError."""
    top = _BaselineMap(document, _KEYS, "baseline", Mark(str(path), 1, 1))
    if top.item.get("schema") != SCHEMA:
        raise top.fail("schema", SCHEMA)
    top.count("masks", default=VERSION)
    said = _BaselineMap(top.item.get("scope"), _SCOPE, "scope", top.mark("scope"))
    scope = Scope(*(said.quoted(key, "") for key in _SCOPE))
    learned = _BaselineMap(top.item.get("learned"), (*_LEARNED, _FORMER), "learned", top.mark("learned"))
    node_boots = _node_boots(learned)
    boots, last = learned.count("boots"), learned.date("last")
    if learned.count("nodes") != len(node_boots):
        raise learned.fail("nodes", f"{len(node_boots)}, as many as {_key(learned)} names")
    marks: dict[str, Mark] = {}
    held = Baseline(
        path.stem, scope, len(node_boots), boots, {}, _phases_of(top), str(path), first=learned.date("first"),
        last=last, expires_days=learned.count("expires_days", 36500, 180, 1),
        expires_boots=learned.count("expires_boots", _MOST, 200, 1),
        learned_boots=node_boots,
    )
    known = _entries(top, "approved", held, marks)
    proposed = _entries(top, "proposed", held, marks)
    return replace(held, known=known, proposed=proposed), marks


def _key(learned: _BaselineMap) -> str:
    return _FORMER if _FORMER in learned else "node_boots"


def _node_boots(learned: _BaselineMap) -> dict[str, tuple[str, ...]]:
    key = _key(learned)
    if key == _FORMER and "node_boots" in learned:
        raise RulesError(f"learned: {_FORMER} is node_boots by its former name; write it once",
                         learned.item.key_marks[_FORMER])
    held = learned.item.get(key)
    if not isinstance(held, LocatedMap):
        raise learned.fail(key, "a map of nodes to the boots that were learned")
    node_boots = _BaselineMap(held, list(held), key, learned.mark(key))
    for node in held:
        if not NAME.fullmatch(node):
            raise RulesError(f"{key}: expected the name of a node, got {short(node)}", held.key_marks[node])
    return {node: tuple(node_boots.quoted(node).split()) for node in held}


def _phases_of(top: _BaselineMap) -> dict[Phase, tuple[float, float]]:
    if "phases" not in top:
        return {}
    names = [phase.value for phase in Phase]
    said = _BaselineMap(top.item["phases"], names, "phases", top.mark("phases"))
    found = {}
    for name in names:
        if name in said:
            pair = said.item[name]
            if (not isinstance(pair, list) or len(pair) != 2
                or not all(type(n) in (int, float) and 0 <= n < _MOST for n in pair)):
                raise said.fail(name, "two numbers of seconds, as [1.5, 2.5]")
            found[Phase(name)] = (float(pair[0]), float(pair[1]))
    return found


def _entries(
    top: _BaselineMap, kind: str, held: Baseline, marks: dict[str, Mark],
) -> dict[str, KnownTemplate]:
    if kind not in top:
        return {}
    rows = top.items(kind)
    found = {}
    for at, item in enumerate(rows):
        row = _BaselineMap(item, _ENTRY, kind, rows.value_marks[at])
        one = _known(row, held, approved=kind == "approved")
        if one.template in marks:
            raise RulesError(
                f"{kind}: template: {short(one.template)} stands at line {marks[one.template].line} already",
                row.mark("template"))
        marks[one.template] = row.mark("template")
        found[one.template] = one
    return found


def _known(row: _BaselineMap, held: Baseline, *, approved: bool) -> KnownTemplate:
    times = row.item.get("times")
    match = _TIMES.fullmatch(times) if isinstance(times, str) else None
    if match is None or not 0 < int(match[1]) <= int(match[2]):
        raise row.fail("times", "the least and the most in one boot, as 1-3")
    most = int(match[2])
    by, why = row.quoted("by", ""), row.quoted("why", "")
    if approved and not (by and why):
        raise row.fail("why" if by else "by",
                       "who approved it, and why: `muster baseline approve` writes both")
    if not approved and (by or why):
        raise RulesError("proposed: by: no one has approved a proposal: `muster baseline approve` moves it",
                         row.mark("by"))
    template = row.quoted("template")
    if not template:
        raise row.fail("template", "what the lines have in common")
    return KnownTemplate(
        template, _phases(row), row.count_or_all("nodes", held.nodes), row.count_or_all("boots", held.boots),
        int(match[1]), most, row.quoted("example"), row.date("first_seen"),
        held.last if row.item.get("last_seen") == "last" else row.date("last_seen"), by, why,
        row.count("busiest", most, most),
        row.member("kind", KernelEventKind) if "kind" in row else KernelEventKind.LINE,
        row.count("priority", 7) if "priority" in row else None, row.quoted("on", ""),
        row.count("unseen", _MOST, 0), tuple(str(flag) for flag in row.items("flags")) if "flags" in row
        else (),
    )


def _phases(row: _BaselineMap) -> tuple[Phase, ...]:
    try:
        return tuple(Phase(name) for name in row.items("phases"))
    except ValueError as error:
        names = [phase.value for phase in Phase]
        wrong = next(str(name) for name in row.item["phases"] if name not in names)
        raise row.fail("phases", f"some of {', '.join(names)}", nearest(wrong, names)) from error
