"""Entries of rules as their files give them, laid over each other by id, without asking their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TypeVar

from healthcheck.config.entry import Entry, entry_of, kind_of, overlay
from inventory.errors import Mark, RulesError, UsageError
from inventory.located import LocatedList, load_yaml

PROFILE_KEYS = ("profile", "title", "only", "leave_out", "enable", "budget", "unknown")
_KEYS = ("id", "formerly", "check", "with", "severity", "unsupported", "effect", "remedy", "repair",
         "owner", "source", "proven", "enabled")


class RuleEntries:
    """The entries by their present ids, while files are laid over each other."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._former: dict[str, str] = {}

    def lay(self, path: Path) -> None:
        """Lays a file over the earlier ones; raises RulesError."""
        for entry in [_renamed(entry, self._former) for entry in _entries(path)]:
            overlay(self._entries, entry, "id")
            self._former.update(_former(self._entries[entry.name]))

    def all(self) -> Mapping[str, Entry]:
        """By id; raises UsageError where there is none."""
        if not self._entries:
            raise UsageError("no rule was found in any rules folder")
        return self._entries


def whole_file(path: Path, keys: tuple[str, ...], name: str) -> Entry:
    """The one entry of a file with these keys, named by that of `name`; raises RulesError."""
    return entry_of(load_yaml(path, error=RulesError), keys, name, Mark(str(path), 1, 1))


def former_ids(entry: Entry) -> tuple[str, ...]:
    """The earlier ids of a rule."""
    return tuple(name for name in entry.values.get("formerly", ()) if "." not in name)


def mistake(entry: Entry, key: str, text: str, mark: Mark | None = None) -> RulesError:
    """A mistake in a rule under this key, which stands at `mark`."""
    return RulesError(f"rule {entry.name}: {key}: {text}", mark or entry.marks.get(key, entry.mark))


E = TypeVar("E", bound=Enum)


def member(kind: type[E], entry: Entry, key: str, default: E | None) -> E:
    """The value under this key, one of these; raises RulesError."""
    value = entry.values.get(key)
    if value is None and default is not None:
        return default
    known = [member.value for member in kind]
    if value not in known:
        raise mistake(entry, key, f"expected one of {', '.join(known)}; got {kind_of(value)}")
    return kind(value)


def _entries(path: Path) -> list[Entry]:
    document = load_yaml(path, error=RulesError)
    if not isinstance(document, LocatedList):
        raise RulesError(f"expected a list of rules, got {kind_of(document)}", Mark(str(path), 1, 1))
    return [entry_of(item, _KEYS, "id", document.value_marks[index]) for index, item in enumerate(document)]


def _former(entry: Entry) -> dict[str, str]:
    """The present name by each earlier name of the rule or, with a dot, of its check."""
    names = entry.values.get("formerly", [])
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise mistake(entry, "formerly", f"expected a list of names, got {kind_of(names)}")
    return {name: entry.values.get("check", "") if "." in name else entry.name for name in names}


def _renamed(entry: Entry, former: Mapping[str, str]) -> Entry:
    """The entry under present names, where it was written before the rule or its check was renamed."""
    check = entry.values.get("check")
    if isinstance(check, str) and check in former:
        entry = replace(entry, values={**entry.values, "check": former[check]})
    return replace(entry, name=former.get(entry.name, entry.name))
