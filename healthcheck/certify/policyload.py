"""Reads `certificate.yaml` of the rules folders into one CertificatePolicy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path

from healthcheck.certify.certificate import NONE, STAGES, CertificatePolicy
from healthcheck.config.sections import load_sections
from healthcheck.config.valuetypes import ValueType, choice, integer, number
from inventory.errors import RulesError

FILE = "certificate.yaml"
_ASKED = choice(Enum("_Asked", {name: name for name in (*STAGES, NONE)}))    # type: ignore[arg-type]
_FIELDS: Mapping[str, Mapping[str, ValueType]] = {
    "age": {"days": number(1, 3660), "jitter_days": number(0, 3660), "at_once": integer(1, 100_000),
            "stage": _ASKED},
    "rebooted": {"stage": _ASKED},
    "changed": {"component": _ASKED, "firmware": _ASKED},
}


def load_certificate_policy(folders: Sequence[Path]) -> CertificatePolicy:
    """The merged files of all folders, or files themselves; raises RulesError."""
    values, marks = load_sections(FILE, _FIELDS, folders)
    age = values["age"]
    if age["jitter_days"] >= age["days"]:
        raise RulesError(f"age: jitter_days: expected less than days, which is {age['days']:g}",
                         marks["age.jitter_days"])
    return CertificatePolicy(age["days"], age["jitter_days"], age["at_once"], age["stage"],
                             values["rebooted"]["stage"], values["changed"]["component"],
                             values["changed"]["firmware"])
