"""Reads the two lists of a policy beside its faults: which kinds of place can cause what (`places`),
and change windows (`windows`).

Of `places` a later file lays its entries over the earlier ones by id, new ones before all earlier ones; its
`windows` take the place of all earlier ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any

from healthcheck.config.entry import Entry, entry_of, kind_of, known_keys, nearest, overlay
from healthcheck.config.formernames import with_current_names
from healthcheck.config.valuetypes import (
    FLAG,
    GLOB,
    NAME,
    TEXT,
    ValueType,
    choice,
    list_of,
    needed,
    parse_value,
)
from healthcheck.model.faultkind import Of
from healthcheck.triage.policy import KINDS, Causes
from healthcheck.triage.windows import ChangeWindow, Weekly, moment
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList, LocatedMap

_PLACE: Mapping[str, ValueType] = {
    "why": TEXT, "of": choice(Of), "rules": list_of("globs over the ids of rules", GLOB), "enabled": FLAG,
    "kinds": list_of("kinds of place",
                     ValueType(f"one of {', '.join(KINDS)}", lambda given: _kind(given), KINDS)),
}
WHEN = ValueType("a time such as 2026-11-28T22:00Z, or weekly such as Sat 22:00 Europe/Berlin",
            lambda given: _moment(given))
_WINDOW: Mapping[str, ValueType] = {"from": WHEN, "until": WHEN, "why": TEXT,
                               "but": list_of("ids of faults", NAME)}


def _moment(given: Any) -> float | Weekly:
    if not isinstance(given, str):
        raise ValueError
    return moment(given)


def items(top: LocatedMap, name: str, what: str) -> list[tuple[Any, Mark]]:
    """The members of a list of the file, with their places; none where it is not there. Raises RulesError."""
    if name not in top:
        return []
    found = top[name]
    if not isinstance(found, LocatedList):
        raise RulesError(f"{name}: expected a list of {what}, got {kind_of(found)}", top.value_marks[name])
    return [(item, found.value_marks[at]) for at, item in enumerate(found)]


def lay_places(
    entries: dict[str, Entry], top: LocatedMap, ids: Collection[str] | None, former: Mapping[str, str],
) -> dict[str, Entry]:
    """The entries with those of a file over them; its globs must each match some of these ids, where ids are
    given, or a former one. Raises RulesError."""
    new: dict[str, Entry] = {}
    for item, mark in items(top, "places", "what places can cause"):
        entry = entry_of(item, ("id", *_PLACE), "id", mark)
        parse_value("id", entry.name, entry.marks["id"], NAME)
        for key, form in _PLACE.items():
            if key in entry.values:
                entry.values[key] = parse_value(f"place {entry.name}: {key}", entry.values[key],
                                          entry.marks[key], form)
        if ids is not None and "rules" in item:
            for at, glob in enumerate(item["rules"]):
                if not any(fnmatchcase(rule, glob) for rule in (*ids, *former)):
                    said = f"no rule matches {glob!r}{nearest(glob, ids)}; `muster rules list` names them"
                    raise RulesError(f"place {entry.name}: rules: {said}", item["rules"].value_marks[at])
        if "rules" in entry.values:
            entry.values["rules"] = with_current_names(entry.values["rules"], former)
        overlay(entries if entry.name in entries else new, entry, "id")
    return {**new, **entries}


def causes(entries: Mapping[str, Entry]) -> tuple[Causes, ...]:
    """What the entries say, in their order; raises RulesError where one says too little or too much."""
    return tuple(_causes(entry) for entry in entries.values() if entry.values.get("enabled", True))


def _causes(entry: Entry) -> Causes:
    held, where = entry.values, f"place {entry.name}"
    of = held.get("of", Of.FAIL)
    needed(held, ("why", "kinds", *(("rules",) if of is not Of.UNREACHED else ())), _PLACE, where, entry.mark)
    if of is Of.UNREACHED and "rules" in held:
        raise RulesError(f"{where}: rules does not go with of: unreached: no rule is judged then",
                         entry.marks["rules"])
    return Causes(entry.name, held["why"], frozenset(held["kinds"]), held.get("rules", ()), of)


def windows(top: LocatedMap, faults: Collection[str], worst: Collection[str]) -> tuple[ChangeWindow, ...]:
    """The change windows of a file; `worst` are the faults that isolate in one which names none.
    Raises RulesError."""
    return tuple(_window(item, mark, faults, worst) for item, mark in items(top, "windows", "change windows"))


def _window(item: Any, mark: Mark, faults: Collection[str], worst: Collection[str]) -> ChangeWindow:
    if not isinstance(item, LocatedMap):
        raise RulesError(f"window: expected a map of {', '.join(_WINDOW)}; got {kind_of(item)}", mark)
    known_keys(item, tuple(_WINDOW), "window: ")
    held = {key: parse_value(f"window: {key}", item[key], item.value_marks[key], form)
            for key, form in _WINDOW.items() if key in item}
    for key in ("from", "until", "why"):
        if key not in held:
            raise RulesError(f"window: {key} is missing: expected {_WINDOW[key].phrase}", item.mark)
    begins, ends = held["from"], held["until"]
    if isinstance(begins, Weekly) is not isinstance(ends, Weekly):
        raise RulesError("window: until: expected a time of the same form as from: both once, or both weekly",
                         item.value_marks["until"])
    if isinstance(begins, Weekly) and begins.zone != ends.zone:
        raise RulesError(f"window: until: expected the timezone of from, {begins.zone}",
                         item.value_marks["until"])
    if begins == ends or (not isinstance(begins, Weekly) and ends < begins):
        raise RulesError("window: until: expected a time after from", item.value_marks["until"])
    for at, name in enumerate(held.get("but", ())):
        if name not in faults:
            raise RulesError(f"window: but: no such fault: {name!r}{nearest(name, faults)}",
                             item["but"].value_marks[at])
    return ChangeWindow(begins, ends, held["why"], frozenset(held.get("but", worst)))


def _kind(given: Any) -> str:
    if given not in KINDS:
        raise ValueError
    return str(given)
