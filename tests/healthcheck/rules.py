"""Rules and facts for the engine's tests, made without files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from healthcheck.checks.base import Check, Parameter
from healthcheck.facts.values import Fact
from healthcheck.model.outcome import Severity
from healthcheck.model.probes import Effect
from healthcheck.ruleset.rule import Proven, Rule, Unsupported


@dataclass(frozen=True)
class Thing(Fact):
    """A fact with two readings."""

    name: str
    heat: int
    weight: int = 1


def rule(
    function: Callable[..., Any], facts: tuple[str, ...] = ("things",), *, severity: Severity = Severity.CRITICAL,
    unsupported: Unsupported = Unsupported.UNKNOWN, fleet: bool = False, left_out: str = "", parameters: dict[str, Any] | None = None,
) -> Rule:
    checked = Check("thing.heat", function, facts, {k: Parameter(k, int, True) for k in parameters or {}}, "A test's check.", fleet)
    return Rule("thing-heat", checked, parameters or {}, severity, unsupported, Effect.PASSIVE, "Cool it.", "a test",
                Proven.DOCUMENTED, "here.yaml", left_out=left_out)
