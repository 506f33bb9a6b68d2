"""What decides, as digests and in words: each rule and SKU, what the kernel's log is held against, muster
itself, and the faults of the policy. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from healthcheck.model.faultkind import FaultKind, Isolation, Of
from healthcheck.model.outcome import Repair, Severity
from healthcheck.ruleset.rule import Number, Rule
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.ruleset.sku import Sku
from healthcheck.store.versions import POLICY, RULESET, Version
from healthcheck.triage.policy import TriagePolicy

# What of a policy is noted beside its faults.
ORDER, SECTION = "order of faults", "section "
_SECTIONS = ("climb", "repeat", "flap", "requalify", "ours", "breaker", "wedged", "fresh_hours")


def judged_by(ruleset: Ruleset, muster: str) -> tuple[Version, ...]:
    """What a sweep is judged by; `muster` is the version that runs. Of a rule only what can change its result
    counts, and how bad that is, and of a SKU all but its words."""
    return tuple(_all(ruleset, muster))


def decided_by(policy: TriagePolicy) -> tuple[Version, ...]:
    """What decides which of it keeps jobs away, and when nodes come back: each fault of the policy, their
    order, and its numbers, section by section."""
    numbers = {name: getattr(policy, name) for name in _SECTIONS}
    places = policy.incidents
    incidents = {field.name: value for field in fields(places)
                 if isinstance(value := getattr(places, field.name), int | float)}
    return (*(_version(POLICY, kind.id, _fault(kind)) for kind in policy.kinds),
            _version(POLICY, ORDER, {"faults": [kind.id for kind in policy.kinds]}),
            *(_version(POLICY, SECTION + name.partition("_")[0], _section(name, held))
              for name, held in numbers.items()),
            _version(POLICY, f"{SECTION}incidents", incidents | {
                "isolates": [kind for kind, said in sorted(places.kinds.items()) if said.isolates]}))


def _section(name: str, held: Any) -> Mapping[str, Any]:
    if not is_dataclass(held):
        return {name: held}
    values = {field.name: getattr(held, field.name) for field in fields(held)}
    return {key: dict(value) if isinstance(value, Mapping) else value for key, value in values.items()}


def faults_of(said: Mapping[str, Mapping[str, Any]]) -> tuple[FaultKind, ...]:
    """The faults of a policy in their order, by what `decided_by` said of each; none where it is not all
    there."""
    found = []
    for name in said.get(ORDER, {}).get("faults", ()):
        one = said.get(name)
        if not one:
            return ()
        severities = one["severities"]
        found.append(FaultKind(
            name, "", tuple(one["rules"]), Of(one["of"]),
            None if severities is None else frozenset(map(Severity, severities)), Isolation(one["isolation"]),
            Repair(one["repair"]) if one["repair"] is not None else None, one["confirm"],
            lasting=one["lasting"]))
    return tuple(found)


def _all(ruleset: Ruleset, muster: str) -> Iterator[Version]:
    yield Version("muster", "muster", muster)
    yield _version(RULESET, RULESET, {"rules": [rule.id for rule in ruleset.rules]})
    for rule in ruleset.rules:
        digest = _digest(rule.checked.name, sorted(rule.parameters.items()), rule.unsupported.value)
        yield Version("rule", rule.id, digest, _json(_rule(rule)))
    for name, sku in sorted(ruleset.skus.items()):
        digest = _digest(sorted(sku.numbers.items()), sorted(sku.empty), sorted(sku.ports.items()))
        yield Version("sku", name, digest, _json(_sku(sku)))
    for name, digest in sorted(ruleset.baselines.items()):
        yield Version("baseline", name, digest)


def _rule(rule: Rule) -> Mapping[str, Any]:
    return {"check": rule.checked.name, "with": dict(sorted(rule.parameters.items())),
            "unsupported": rule.unsupported.value, "severity": rule.severity.value,
            "enabled": not rule.disabled}


def _sku(sku: Sku) -> Mapping[str, Any]:
    return {"numbers": dict(sorted(sku.numbers.items())), "empty": sorted(sku.empty),
            "ports": {address: str(plan) for address, plan in sorted(sku.ports.items())}}


def _fault(kind: FaultKind) -> Mapping[str, Any]:
    severities = None if kind.severities is None else sorted(one.value for one in kind.severities)
    return {"rules": list(kind.rules), "of": kind.of.value, "severities": severities,
            "isolation": kind.isolation.value,
            "repair": kind.repair.value if kind.repair is not None else None, "confirm": kind.confirm,
            "lasting": kind.lasting}


def _version(kind: str, name: str, said: Mapping[str, Any]) -> Version:
    text = _json(said)
    return Version(kind, name, _digest(text), text)


def _json(said: Mapping[str, Any]) -> str:
    return json.dumps(said, default=_plain, separators=(",", ":"))


def _plain(value: object) -> str:
    return f"${value.name}" if isinstance(value, Number) else str(value)


def _digest(*said: object) -> str:
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]
