"""Reads `certificate.yaml` of the rules folders into one CertificatePolicy; every mistake is one line with
file, line, column and key. A later folder's file overrides the earlier ones, key by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from healthcheck.certify.certificate import NONE, STAGES, CertificatePolicy
from healthcheck.config.entry import kind_of, known_keys
from healthcheck.config.valuetypes import ValueType, choice, integer, number, parse_value
from inventory.errors import Mark, RulesError
from inventory.located import LocatedMap, load_yaml

FILE = "certificate.yaml"
_ASKED = choice(Enum("_Asked", {name: name for name in (*STAGES, NONE)}))    # type: ignore[arg-type]
_FIELDS: Mapping[str, Mapping[str, ValueType]] = {
    "age": {"days": number(1, 3660), "jitter_days": number(0, 3660), "at_once": integer(1, 100_000),
            "stage": _ASKED},
    "rebooted": {"stage": _ASKED},
    "changed": {"component": _ASKED, "firmware": _ASKED},
}


def load_certificate_policy(folders: Sequence[Path]) -> CertificatePolicy:
    """The merged files of all folders; raises RulesError. A folder may also be such a file itself."""
    values: dict[str, dict[str, Any]] = {name: {} for name in _FIELDS}
    files = [path for folder in folders if (path := folder if folder.is_file() else folder / FILE).is_file()]
    if not files:
        raise RulesError(f"no rules folder contains a {FILE}: searched {', '.join(map(str, folders))}")
    marks: dict[str, Mark] = {}
    for path in files:
        top = load_yaml(path, error=RulesError)
        if not isinstance(top, LocatedMap):
            raise RulesError(f"expected a map of {', '.join(_FIELDS)}; got {kind_of(top)}",
                             Mark(str(path), 1, 1))
        known_keys(top, tuple(_FIELDS), "")
        for name, section in top.items():
            if not isinstance(section, LocatedMap):
                raise RulesError(f"{name}: expected a map of {', '.join(_FIELDS[name])}; got "
                                 f"{kind_of(section)}", top.value_marks[name])
            known_keys(section, tuple(_FIELDS[name]), f"{name}: ")
            for key, given in section.items():
                marks[f"{name}.{key}"] = mark = section.value_marks[key]
                found = parse_value(f"{name}: {key}", given, mark, _FIELDS[name][key])
                values[name][key] = found.value if isinstance(found, Enum) else found
    for name, fields in _FIELDS.items():
        for key, form in fields.items():
            if key not in values[name]:
                raise RulesError(f"{name}: {key} is missing: expected {form.phrase}",
                                 Mark(str(files[-1]), 1, 1))
    age = values["age"]
    if age["jitter_days"] >= age["days"]:
        raise RulesError(f"age: jitter_days: expected less than days, which is {age['days']:g}",
                         marks["age.jitter_days"])
    return CertificatePolicy(age["days"], age["jitter_days"], age["at_once"], age["stage"],
                             values["rebooted"]["stage"], values["changed"]["component"],
                             values["changed"]["firmware"])
