"""Reads `certificate.yaml` of the rules folders into one CertificatePolicy; every mistake is one line with file, line, column and key.

A later folder's file is laid over the earlier ones, key by key. It is data: nothing in it is ever executed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from healthcheck.certify.certificate import STAGES
from healthcheck.certify.policy import NONE, CertificatePolicy
from healthcheck.config.entry import kind_of, known_keys
from healthcheck.config.valuetypes import ValueType, choice, integer, number, parse_value
from inventory.errors import Mark, RulesError
from inventory.located import LocatedMap, load_yaml

FILE = "certificate.yaml"
_ASKED = choice(Enum("_Asked", {name: name for name in (*STAGES, NONE)}))    # type: ignore[arg-type]
_FORMS: Mapping[str, Mapping[str, ValueType]] = {
    "age": {"days": number(1, 3660), "jitter_days": number(0, 3660), "at_once": integer(1, 100_000), "stage": _ASKED},
    "rebooted": {"stage": _ASKED},
    "changed": {"component": _ASKED, "firmware": _ASKED},
}


def load_certificate_policy(folders: Sequence[Path]) -> CertificatePolicy:
    """What the files of all folders say together; raises RulesError. Among the folders may be such a file itself, whatever its name."""
    said: dict[str, dict[str, Any]] = {name: {} for name in _FORMS}
    files = [path for folder in folders if (path := folder if folder.is_file() else folder / FILE).is_file()]
    if not files:
        raise RulesError(f"no rules folder holds a {FILE}: looked in {', '.join(map(str, folders))}")
    marks: dict[str, Mark] = {}
    for path in files:
        top = load_yaml(path, error=RulesError)
        if not isinstance(top, LocatedMap):
            raise RulesError(f"expected a map of {', '.join(_FORMS)}; got {kind_of(top)}", Mark(str(path), 1, 1))
        known_keys(top, tuple(_FORMS), "")
        for name, section in top.items():
            if not isinstance(section, LocatedMap):
                raise RulesError(f"{name}: expected a map of {', '.join(_FORMS[name])}; got {kind_of(section)}", top.value_marks[name])
            known_keys(section, tuple(_FORMS[name]), f"{name}: ")
            for key, given in section.items():
                marks[f"{name}.{key}"] = mark = section.value_marks[key]
                found = parse_value(f"{name}: {key}", given, mark, _FORMS[name][key])
                said[name][key] = found.value if isinstance(found, Enum) else found
    for name, forms in _FORMS.items():
        for key, form in forms.items():
            if key not in said[name]:
                raise RulesError(f"{name}: {key} is missing: expected {form.phrase}", Mark(str(files[-1]), 1, 1))
    age = said["age"]
    if age["jitter_days"] >= age["days"]:
        raise RulesError(f"age: jitter_days: expected less than days, which is {age['days']:g}", marks["age.jitter_days"])
    return CertificatePolicy(age["days"], age["jitter_days"], age["at_once"], age["stage"], said["rebooted"]["stage"],
                             said["changed"]["component"], said["changed"]["firmware"])
