"""Rules as plain JSON and back: `rule_to_plain`, `rule_from_plain`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from healthcheck.checks.base import Check
from healthcheck.config.codec import to_plain
from healthcheck.model.outcome import Owner, Repair, Severity
from healthcheck.model.probes import Effect
from healthcheck.ruleset.rule import Number, Proven, Rule, UnsupportedPolicy


def rule_to_plain(rule: Rule) -> dict[str, Any]:
    """The SKU's numbers among the parameters become {"number": NAME}, which no rule can set."""
    plain = {field.name: to_plain(getattr(rule, field.name)) for field in dataclasses.fields(rule)
             if field.name not in ("own", "parameters")}
    return {**plain, "fleet": rule.checked.fleet,
            "parameters": {name: {"number": value.name} if isinstance(value, Number) else to_plain(value)
                           for name, value in rule.parameters.items()}}


def rule_from_plain(plain: Mapping[str, Any], own: Check | None = None) -> Rule:
    """The rule, of the check `own` if given; raises KeyError, TypeError or ValueError for anything else."""
    return Rule(
        id=plain["id"], check=plain["check"], own=own, severity=Severity(plain["severity"]),
        parameters={name: _parameter(value) for name, value in plain["parameters"].items()},
        unsupported=UnsupportedPolicy(plain["unsupported"]), effect=Effect(plain["effect"]),
        remedy=plain["remedy"], source=plain["source"], proven=Proven(plain["proven"]),
        origin_file=plain["origin_file"], owner=Owner(plain["owner"]),
        overridden=tuple(plain["overridden"]), left_out=plain["left_out"], disabled=plain["disabled"],
        formerly=tuple(plain.get("formerly", ())),
        repair=Repair(plain["repair"]) if plain.get("repair") else None)


def _parameter(value: Any) -> Any:
    if isinstance(value, dict):
        return Number(value["number"])
    return tuple(value) if isinstance(value, list) else value
