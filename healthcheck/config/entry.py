"""Entries: rules, SKUs and profiles as merged from folders of YAML, before their values are interpreted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from inventory.errors import Mark, RulesError
from inventory.located import LocatedMap


@dataclass
class Entry:
    """One entry: each key's value with its place. `what` is what messages call it."""

    name: str
    values: dict[str, Any]
    marks: dict[str, Mark]
    mark: Mark
    overridden: tuple[str, ...] = ()
    what: str = "entry"


def entry_of(item: object, keys: Sequence[str], identity: str, mark: Mark, what: str = "entry") -> Entry:
    """The entry in a document or a member of one; raises RulesError for an unknown key or no name."""
    if not isinstance(item, LocatedMap):
        raise RulesError(f"expected a map with {identity}, got {kind_of(item)}", mark)
    known_keys(item, keys, "")
    name = item.get(identity)
    if not isinstance(name, str) or not name:
        raise RulesError(f"{identity}: expected a name, got {kind_of(name)}",
                         item.value_marks.get(identity, item.mark))
    return Entry(name, dict(item), dict(item.value_marks), item.mark, what=what)


def known_keys(item: LocatedMap, keys: Sequence[str], where: str) -> None:
    """Raises RulesError for an unknown key; `where` begins the message."""
    for key in item:
        if key not in keys:
            raise RulesError(f"{where}unknown key {key!r}{nearest(str(key), keys)}", item.key_marks[key])


def overlay(entries: dict[str, Entry], new: Entry, identity: str) -> None:
    """Adds an entry, or its keys to one of its name; twice in one file raises RulesError."""
    old = entries.get(new.name)
    if old is None:
        entries[new.name] = new
        return
    if old.mark.file == new.mark.file:
        raise RulesError(f"{identity} {new.name} is defined twice; the first is at line {old.mark.line}",
                         new.mark)
    nested = {key: merged(old.values[key], new.values[key]) for key in ("with", "numbers", "ports")
              if isinstance(old.values.get(key), LocatedMap) and isinstance(new.values.get(key), LocatedMap)}
    entries[new.name] = Entry(
        new.name, {**old.values, **new.values, **nested}, {**old.marks, **new.marks}, new.mark,
        (*old.overridden, old.mark.file), new.what,
    )


def merged(old: LocatedMap, new: LocatedMap) -> LocatedMap:
    """Both maps; each key keeps its place."""
    both = LocatedMap(new.mark)
    for one in (old, new):
        both.update(one)
        both.key_marks |= one.key_marks
        both.value_marks |= one.value_marks
        both.written |= one.written
    return both


def kind_of(value: object) -> str:
    """A value in the words of a message."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a map"
    return "a list" if isinstance(value, list) else repr(value)[:60]


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the nearest known one, if any."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
