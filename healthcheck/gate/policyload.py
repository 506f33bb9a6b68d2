"""Reads `gate.yaml` of the rules folders into one GatePolicy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from healthcheck.config.entry import kind_of
from healthcheck.config.formernames import with_current_names
from healthcheck.config.sections import Form, load_sections
from healthcheck.config.valuetypes import GLOB, NAME, ValueType, choice, number, parse_value
from healthcheck.gate.policy import STAGES, GatePolicy, read
from healthcheck.ruleset.profile import UnknownPolicy
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList, LocatedMap

FILE = "gate.yaml"
_Stage = Enum("_Stage", {name: name for name in STAGES})    # type: ignore[misc]
_WORD = choice(UnknownPolicy)


def _names(given: Any) -> Any:
    if not isinstance(given, LocatedList) or len(given) > 50:
        raise ValueError
    return given


def _globs(given: Any, mark: Mark) -> dict[str, str]:
    if not isinstance(given, LocatedMap):
        raise RulesError("unknown: rules: expected a map of globs over the ids of rules to block or allow, "
                         f"got {kind_of(given)}", mark)
    return {parse_value("unknown: rules", glob, given.key_marks[glob],
                  GLOB): parse_value(f"unknown: rules: {glob}", values, given.value_marks[glob], _WORD).value
            for glob, values in given.items()}


_FIELDS: Mapping[str, Mapping[str, Form]] = {
    "certificate": {"stage": choice(_Stage), "rebooted": _WORD, "changed": _WORD},
    "state": {"degraded": _WORD, "unhealthy": _WORD, "cordoned": _WORD},
    "fresh": {"minutes": number(1, 7 * 24 * 60)},
    "grace": {"hours": number(0, 366 * 24)},
    "unknown": {"node": _WORD, "muster": _WORD, "percent": number(0, 100),
                "rules": _globs},
    "versions": {"equal": ValueType("a list of names of versions, at most 50", _names, item=NAME)},
    "clock": {"minutes": number(0, 24 * 60)},
}


def load_gate_policy(folders: Sequence[Path]) -> GatePolicy:
    """The merged files of all folders, or files themselves; raises RulesError."""
    values, _ = load_sections(FILE, _FIELDS, folders)
    values["unknown"].setdefault("rules", {})
    return read(values)


def with_todays_names(policy: GatePolicy, former: Mapping[str, str]) -> GatePolicy:
    """The policy whose globs also match by the ids that rules had before (`former`: id by former id)."""
    rules: dict[str, str] = {}
    for glob, values in policy.rules:
        for name in with_current_names([glob], former):
            rules.setdefault(name, values)
    return policy._replace(rules=tuple(rules.items()))
