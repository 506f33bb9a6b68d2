"""The gate's policy as a value: what a node must fulfil before a job starts there, by `rules/gate.yaml` on
the head, or the signed snapshot on nodes. Imports nothing heavy: a launch script waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

STAGES = ("quick", "standard", "soak")      # of burn-in; each includes those before it
ALLOW, BLOCK = "allow", "block"


class GatePolicy(NamedTuple):
    """Spans are in seconds; `rules` are globs over rules' ids, allow or block, the first match counts."""

    stage: str
    rebooted: str
    changed: str
    degraded: str
    unhealthy: str
    cordoned: str
    fresh: float
    grace: float
    node: str
    muster: str
    percent: float
    rules: tuple[tuple[str, str], ...]
    equal: tuple[str, ...]
    skew: float

    def document(self) -> dict[str, Any]:
        """As gate.yaml writes it, for the snapshot; `read` makes the same policy of it."""
        return {
            "certificate": {"stage": self.stage, "rebooted": self.rebooted, "changed": self.changed},
            "state": {"degraded": self.degraded, "unhealthy": self.unhealthy, "cordoned": self.cordoned},
            "fresh": {"minutes": self.fresh / 60}, "grace": {"hours": self.grace / 3600},
            "unknown": {"node": self.node, "muster": self.muster, "percent": self.percent,
                        "rules": dict(self.rules)},
            "versions": {"equal": list(self.equal)}, "clock": {"minutes": self.skew / 60},
        }


def read(document: Any) -> GatePolicy:
    """The policy in a snapshot; raises ValueError for a missing or bad key: there are no defaults."""
    unknown = _section(document, "unknown")
    rules = unknown.get("rules")
    equal = _section(document, "versions").get("equal")
    if not isinstance(rules, dict) or not all(word in (ALLOW, BLOCK) for word in rules.values()):
        raise ValueError("policy: unknown: rules")
    if not isinstance(equal, list) or not all(isinstance(name, str) for name in equal):
        raise ValueError("policy: versions: equal")
    certificate, state = _section(document, "certificate"), _section(document, "state")
    return GatePolicy(
        _word(certificate, "stage", STAGES), _word(certificate, "rebooted"), _word(certificate, "changed"),
        _word(state, "degraded"), _word(state, "unhealthy"), _word(state, "cordoned"),
        _number(_section(document, "fresh"), "minutes") * 60,
        _number(_section(document, "grace"), "hours") * 3600, _word(unknown, "node"),
        _word(unknown, "muster"), _number(unknown, "percent"), tuple(rules.items()), tuple(equal),
        _number(_section(document, "clock"), "minutes") * 60,
    )


def _section(document: Any, name: str) -> Mapping[str, Any]:
    found = document.get(name) if isinstance(document, dict) else None
    if not isinstance(found, dict):
        raise ValueError(f"policy: {name}")
    return found


def _word(section: Mapping[str, Any], key: str, words: tuple[str, ...] = (ALLOW, BLOCK)) -> str:
    found = section.get(key)
    if not isinstance(found, str) or found not in words:
        raise ValueError(f"policy: {key}")
    return found


def _number(section: Mapping[str, Any], key: str) -> float:
    found: Any = section.get(key)
    if type(found) not in (int, float) or not 0 <= found < 1e9:      # neither True nor NaN is a number here
        raise ValueError(f"policy: {key}")
    return float(found)
