"""What a policy decides by, as digests and in words: its faults, their order and its numbers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from healthcheck.model.faultkind import FaultKind, Isolation, Of
from healthcheck.model.outcome import Repair, Severity
from healthcheck.store.versions import POLICY, Version
from healthcheck.triage.digest import version
from healthcheck.triage.policy import TriagePolicy

# What of a policy is noted beside its faults.
ORDER, SECTION = "order of faults", "section "
_SECTIONS = ("climb", "repeat", "flap", "requalify", "ours", "breaker", "wedged", "fresh_hours")


def decided_by(policy: TriagePolicy) -> tuple[Version, ...]:
    """What decides which of it keeps jobs away, and when nodes come back: each fault of the policy, their
    order, and its numbers, section by section."""
    numbers = {name: getattr(policy, name) for name in _SECTIONS}
    places = policy.incidents
    incidents = {field.name: value for field in fields(places)
                 if isinstance(value := getattr(places, field.name), int | float)}
    return (*(version(POLICY, kind.id, _fault(kind)) for kind in policy.kinds),
            version(POLICY, ORDER, {"faults": [kind.id for kind in policy.kinds]}),
            *(version(POLICY, SECTION + name.partition("_")[0], _section(name, held))
              for name, held in numbers.items()),
            version(POLICY, f"{SECTION}incidents", incidents | {
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


def _fault(kind: FaultKind) -> Mapping[str, Any]:
    severities = None if kind.severities is None else sorted(one.value for one in kind.severities)
    return {"rules": list(kind.rules), "of": kind.of.value, "severities": severities,
            "isolation": kind.isolation.value,
            "repair": kind.repair.value if kind.repair is not None else None, "confirm": kind.confirm,
            "lasting": kind.lasting}
