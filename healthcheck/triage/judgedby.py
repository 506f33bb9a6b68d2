"""What results are judged by, as digests and in words: each rule and SKU, what the kernel's log is held
against, and muster itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from healthcheck.ruleset.rule import Number, Rule
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.ruleset.sku import Sku
from healthcheck.store.versions import RULESET, Version
from healthcheck.triage.digest import digest, in_words, version


def judged_by(ruleset: Ruleset, muster: str) -> tuple[Version, ...]:
    """What a sweep is judged by; `muster` is the version that runs. Of a rule only what can change its result
    counts, and how bad that is, and of a SKU all but its words."""
    return tuple(_all(ruleset, muster))


def _all(ruleset: Ruleset, muster: str) -> Iterator[Version]:
    yield Version("muster", "muster", muster)
    yield version(RULESET, RULESET, {"rules": [rule.id for rule in ruleset.rules]})
    for rule in ruleset.rules:
        judged = digest(rule.check, sorted(rule.parameters.items()), rule.unsupported.value)
        yield Version("rule", rule.id, judged, in_words(_rule(rule), _plain))
    for name, sku in sorted(ruleset.skus.items()):
        judged = digest(sorted(sku.numbers.items()), sorted(sku.empty), sorted(sku.ports.items()))
        yield Version("sku", name, judged, in_words(_sku(sku), _plain))
    for name, content in sorted(ruleset.baselines.items()):
        yield Version("baseline", name, content)


def _rule(rule: Rule) -> Mapping[str, Any]:
    return {"check": rule.check, "with": dict(sorted(rule.parameters.items())),
            "unsupported": rule.unsupported.value, "severity": rule.severity.value,
            "enabled": not rule.disabled}


def _sku(sku: Sku) -> Mapping[str, Any]:
    return {"numbers": dict(sorted(sku.numbers.items())), "empty": sorted(sku.empty),
            "ports": {address: str(plan) for address, plan in sorted(sku.ports.items())}}


def _plain(value: object) -> str:
    return f"${value.name}" if isinstance(value, Number) else str(value)
