"""A rule as a value: which check with which parameters, how severe, what to do, and its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from healthcheck.checks.base import CHECKS, Check
from healthcheck.facts.base import FACTS
from healthcheck.model.outcome import Owner, Repair, Result, Severity, Status
from healthcheck.model.probes import Effect, Probe
from healthcheck.ruleset.sku import Sku


class UnsupportedPolicy(Enum):
    """What a rule does about a field that the device does not have."""

    SKIP = "skip"
    UNKNOWN = "unknown"
    FAIL = "fail"


class Proven(Enum):
    """How a rule was shown to work, from best to least."""

    HARDWARE = "hardware"
    AUTHORS_OUTPUT = "authors-output"
    DOCUMENTED = "documented"
    SIMULATED = "simulated"


@dataclass(frozen=True)
class Number:
    """A parameter whose value the node's SKU gives: `$gpu_count`."""

    name: str


@dataclass(frozen=True)
class Rule:
    """One rule. `parameters` holds plain values and `Number`s; `origin_file` defines it, `overridden` are the
    files that it hides. `formerly` are its earlier ids, which people's files may still use.

    `check` names what is judged. `own` is that check where the registry does not have it.

    `left_out` is empty, or says why the rule is not judged in this sweep; it is then SKIPPED, and visible.
    `disabled` is empty, or says why it is not judged unless a profile enables it. `repair` is what the remedy
    asks for in one word, None where that is for the policy to say.
    """

    id: str
    check: str
    parameters: Mapping[str, Any]
    severity: Severity
    unsupported: UnsupportedPolicy
    effect: Effect
    remedy: str
    source: str
    proven: Proven
    origin_file: str
    owner: Owner = Owner.OPERATOR
    overridden: tuple[str, ...] = ()
    left_out: str = ""
    disabled: str = ""
    formerly: tuple[str, ...] = ()
    repair: Repair | None = None
    own: Check | None = None

    @cached_property
    def checked(self) -> Check:
        """Its check. Who only names rules does not wait for all checks to be loaded."""
        if self.own is not None:
            return self.own
        from healthcheck.checks import catalogue  # noqa: F401  (registers them)

        return CHECKS[self.check]

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The SKU's numbers that this rule takes."""
        return tuple(value.name for value in self.parameters.values() if isinstance(value, Number))

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The numbers without which it cannot be judged: its check has no default for them."""
        return tuple(value.name for key, value in self.parameters.items()
                     if isinstance(value, Number) and self.checked.parameters[key].required)

    @cached_property
    def fact_names(self) -> tuple[str, ...]:
        """The facts of the present snapshot that this rule needs."""
        return self.checked.facts

    @cached_property
    def probes(self) -> tuple[Probe, ...]:
        """The probes behind those facts and those of the earlier snapshot, each once."""
        # An earlier snapshot's are among them
        names = (name for name in self.checked.facts if name in FACTS)
        found = (probe for name in names for probe in (*FACTS[name].probes, *FACTS[name].besides))
        return tuple(dict.fromkeys(found))

    @cached_property
    def disruptive(self) -> tuple[Probe, ...]:
        """Those of its probes that must not run beside a job."""
        return tuple(probe for probe in self.probes if probe.effect is not Effect.PASSIVE)

    @cached_property
    def passed(self) -> Result:
        """The result for a node on which everything was measured and nothing found."""
        return Result(self.id, self.check, Status.PASS, self.severity)

    def without_number(self, sku: Sku | None) -> str | None:
        """The first needed number that the SKU does not give, or None when the rule can be judged."""
        for name in self.needed:
            if sku is None or sku.numbers.get(name) is None:
                return name
        return None

    def values(self, sku: Sku | None) -> Mapping[str, Any]:
        """The check's keyword arguments for a node of this SKU; every needed number must be there."""
        if not self.numbers:
            return self.parameters
        given: Mapping[str, Any] = {} if sku is None else sku.numbers
        return {key: given[value.name] if isinstance(value, Number) else value
                for key, value in self.parameters.items() if not isinstance(value, Number)
                or given.get(value.name) is not None}
