"""Rules and facts for the engine's tests, made without files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from healthcheck.checks.base import CHECKS, Check, Parameter, check, fleet_check
from healthcheck.facts.base import MEMBERS
from healthcheck.facts.values import Fact
from healthcheck.model.outcome import Severity
from healthcheck.model.probes import Effect
from healthcheck.ruleset.rule import Proven, Rule, UnsupportedPolicy


class Thing(Fact):
    """A fact with two readings."""

    name: str
    heat: int
    weight: int


MEMBERS["thing"] = "things"


def thing(name: str, heat: Any, weight: Any = 1) -> Thing:
    """A thing; its readings may be Unmeasured or UNSUPPORTED."""
    return Thing(name, heat, weight)


def rule(
    function: Callable[..., Any], *, severity: Severity = Severity.CRITICAL,
    unsupported: UnsupportedPolicy = UnsupportedPolicy.UNKNOWN,
    fleet: bool = False, counts: bool = False, over: str = "", left_out: str = "",
    parameters: dict[str, Any] | None = None,
) -> Rule:
    """A rule of this check, which is registered as a check's author would do it, and forgotten again."""
    function.__doc__ = "A test's check."
    (fleet_check("thing.heat") if fleet else check("thing.heat", counts=counts, over=over))(function)
    checked = CHECKS.pop("thing.heat")
    given = {name: Parameter(name, int, True) for name in parameters or {}}
    checked = Check(**{**vars(checked), "parameters": given}) if given else checked
    return Rule("thing-heat", checked.name, parameters or {}, severity, unsupported, Effect.PASSIVE,
                "Cool it.", "a test",
                Proven.DOCUMENTED, "here.yaml", left_out=left_out, own=checked)
