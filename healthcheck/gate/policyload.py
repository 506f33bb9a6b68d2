"""Reads `gate.yaml` of the rules folders into one GatePolicy; every mistake is one line with file, line,
column and key. A later folder's file overrides the earlier ones, key by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from healthcheck.config.entry import kind_of, known_keys
from healthcheck.config.formernames import with_current_names
from healthcheck.config.valuetypes import GLOB, NAME, ValueType, choice, number, parse_value
from healthcheck.gate.policy import STAGES, GatePolicy, read
from healthcheck.ruleset.profile import UnknownPolicy
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList, LocatedMap, load_yaml

FILE = "gate.yaml"
_Stage = Enum("_Stage", {name: name for name in STAGES})    # type: ignore[misc]
_WORD = choice(UnknownPolicy)


def _names(given: Any) -> Any:
    if not isinstance(given, LocatedList) or len(given) > 50:
        raise ValueError
    return given


_FIELDS: Mapping[str, Mapping[str, ValueType]] = {
    "certificate": {"stage": choice(_Stage), "rebooted": _WORD, "changed": _WORD},
    "state": {"degraded": _WORD, "unhealthy": _WORD, "cordoned": _WORD},
    "fresh": {"minutes": number(1, 7 * 24 * 60)},
    "grace": {"hours": number(0, 366 * 24)},
    "unknown": {"node": _WORD, "muster": _WORD, "percent": number(0, 100)},
    "versions": {"equal": ValueType("a list of names of versions, at most 50", _names, item=NAME)},
    "clock": {"minutes": number(0, 24 * 60)},
}


def load_gate_policy(folders: Sequence[Path]) -> GatePolicy:
    """The merged files of all folders; raises RulesError. A folder may also be such a file itself."""
    values: dict[str, dict[str, Any]] = {name: {} for name in _FIELDS}
    values["unknown"]["rules"] = {}
    files = [path for folder in folders if (path := folder if folder.is_file() else folder / FILE).is_file()]
    if not files:
        raise RulesError(f"no rules folder contains a {FILE}: searched {', '.join(map(str, folders))}")
    for path in files:
        _lay(values, path)
    for name, fields in _FIELDS.items():
        for key, form in fields.items():
            if key not in values[name]:
                raise RulesError(f"{name}: {key} is missing: expected {form.phrase}",
                                 Mark(str(files[-1]), 1, 1))
    return read(values)


def with_todays_names(policy: GatePolicy, former: Mapping[str, str]) -> GatePolicy:
    """The policy whose globs also match by the ids that rules had before (`former`: id by former id)."""
    rules: dict[str, str] = {}
    for glob, values in policy.rules:
        for name in with_current_names([glob], former):
            rules.setdefault(name, values)
    return policy._replace(rules=tuple(rules.items()))


def _lay(values: dict[str, dict[str, Any]], path: Path) -> None:
    top = load_yaml(path, error=RulesError)
    if not isinstance(top, LocatedMap):
        raise RulesError(f"expected a map of {', '.join(_FIELDS)}; got {kind_of(top)}", Mark(str(path), 1, 1))
    known_keys(top, tuple(_FIELDS), "")
    for name, section in top.items():
        keys = (*_FIELDS[name], *(("rules",) if name == "unknown" else ()))
        if not isinstance(section, LocatedMap):
            raise RulesError(f"{name}: expected a map of {', '.join(keys)}; got {kind_of(section)}",
                             top.value_marks[name])
        known_keys(section, keys, f"{name}: ")
        for key, given in section.items():
            mark = section.value_marks[key]
            values[name][key] = (_globs(given, mark) if key == "rules"
                                 else _plain(parse_value(f"{name}: {key}", given, mark, _FIELDS[name][key])))


def _globs(given: Any, mark: Mark) -> dict[str, str]:
    if not isinstance(given, LocatedMap):
        raise RulesError("unknown: rules: expected a map of globs over the ids of rules to block or allow, "
                         f"got {kind_of(given)}", mark)
    return {parse_value("unknown: rules", glob, given.key_marks[glob],
                  GLOB): parse_value(f"unknown: rules: {glob}", values, given.value_marks[glob], _WORD).value
            for glob, values in given.items()}


def _plain(found: Any) -> Any:
    return found.value if isinstance(found, Enum) else list(found) if isinstance(found, tuple) else found
