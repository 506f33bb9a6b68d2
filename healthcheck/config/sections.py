"""Reads a policy of sections of keys, such as `gate.yaml`, from the rules folders; every mistake is one line
with file, line, column and key. A later folder's file overrides the earlier ones, key by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from healthcheck.config.entry import kind_of, known_keys
from healthcheck.config.valuetypes import ValueType, needed, parse_value
from inventory.errors import Mark, RulesError
from inventory.located import LocatedMap, load_yaml

# A key's type, or what reads its value and the place of it; such a key may be missing.
Form = ValueType | Callable[[Any, Mark], Any]


def load_sections(file: str, fields: Mapping[str, Mapping[str, Form]], folders: Sequence[Path],
                  ) -> tuple[dict[str, dict[str, Any]], dict[str, Mark]]:
    """The merged files of all folders by section, and the place of each "section.key"; raises RulesError. A
    folder may also be such a file itself."""
    values: dict[str, dict[str, Any]] = {name: {} for name in fields}
    marks: dict[str, Mark] = {}
    files = [path for folder in folders if (path := folder if folder.is_file() else folder / file).is_file()]
    if not files:
        raise RulesError(f"no rules folder contains a {file}: searched {', '.join(map(str, folders))}")
    for path in files:
        top = load_yaml(path, error=RulesError)
        for name, section, _ in _members(top, fields, "", Mark(str(path), 1, 1)):
            for key, given, mark in _members(section, fields[name], f"{name}: ", top.value_marks[name]):
                form = fields[name][key]
                values[name][key] = (_plain(parse_value(f"{name}: {key}", given, mark, form))
                                     if isinstance(form, ValueType) else form(given, mark))
                marks[f"{name}.{key}"] = mark
    for name, forms in fields.items():
        typed = {key: form for key, form in forms.items() if isinstance(form, ValueType)}
        needed(values[name], typed, typed, name, Mark(str(files[-1]), 1, 1))
    return values, marks


def _members(found: Any, keys: Mapping[str, Any], where: str, mark: Mark) -> list[tuple[str, Any, Mark]]:
    if not isinstance(found, LocatedMap):
        raise RulesError(f"{where}expected a map of {', '.join(keys)}; got {kind_of(found)}", mark)
    known_keys(found, tuple(keys), where)
    return [(key, given, found.value_marks[key]) for key, given in found.items()]


def _plain(found: Any) -> Any:
    return found.value if isinstance(found, Enum) else list(found) if isinstance(found, tuple) else found
