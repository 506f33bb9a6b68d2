"""The policy of triage, as frozen values: kinds of fault with what is done about them, and every number that a decision rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from functools import cached_property
from types import MappingProxyType

from healthcheck.outcome import Owner, Repair, Severity
from healthcheck.triage.remediation import Remediation


class Isolation(Enum):
    """What jobs may do on a node; the order of the members is from least to most."""

    NONE = "none"
    NO_NEW_JOBS = "no-new-jobs"
    EVICT = "evict"


class Of(Enum):
    """What a kind of fault is made from."""

    FAIL = "fail"           # a rule that failed
    UNKNOWN = "unknown"     # a rule that could not be measured, for as many sweeps as `wedged` says, and the node is to blame
    UNREACHED = "unreached"     # no sweep has reached the node, for as many sweeps as `wedged` says


@dataclass(frozen=True)
class FaultKind:
    """One kind of fault. A problem is of the first kind that covers it, in the policy's order, which is also the order of urgency.

    `rules` are globs over rule ids; `severities` None: all. It isolates after `confirm` sweeps that saw it. `reserve`: it may use the
    breaker's reserve. `owner` None: the rule's own. `lasting`: only another component, or a person's word, ends it. `decides`: its repair
    goes before that of other faults of the same place, as the driver speaks in it.
    """

    id: str
    why: str
    rules: tuple[str, ...]
    of: Of = Of.FAIL
    severities: frozenset[Severity] | None = None
    isolation: Isolation = Isolation.NONE
    repair: Repair = Repair.WATCH
    confirm: int = 1
    reserve: bool = False
    owner: Owner | None = None
    lasting: bool = False
    decides: bool = False
    file: str = ""

    def covers(self, of: Of, rule: str, severity: Severity) -> bool:
        """Whether a problem of this rule and severity is of this kind."""
        if of is not self.of or (self.severities is not None and severity not in self.severities):
            return False
        return of is Of.UNREACHED or any(fnmatchcase(rule, glob) for glob in self.rules)


@dataclass(frozen=True)
class Climb:
    """`failures` returns of a fault after so many reboots, within `days`, make it one of hardware."""

    failures: int = 2
    days: float = 30.0


@dataclass(frozen=True)
class Repeat:
    """A component, or a node, with a score of `score` is a repeat offender; a failure counts 1, and half after `half_life_days`."""

    score: float = 3.0
    half_life_days: float = 14.0
    days: float = 60.0
    apart_hours: float = 6.0    # what comes back sooner is the same failure


@dataclass(frozen=True)
class Flap:
    """A fault that came `times` within `hours` holds on until it was gone for `calm_hours`."""

    times: int = 3
    hours: float = 24.0
    calm_hours: float = 12.0


@dataclass(frozen=True)
class Requalify:
    """A node is returned when its newest `sweeps` looks under `profile`, all later than its repair, had nothing against it."""

    profile: str = "bringup"
    sweeps: int = 2


@dataclass(frozen=True)
class Ours:
    """The same UNKNOWN on more than `percent` of the nodes in service, and on `nodes` at least, is not theirs: muster's, or the site's."""

    percent: float = 5.0
    nodes: int = 2


@dataclass(frozen=True)
class BreakerPolicy:
    """New isolations within `hours`: at most `number`, at most `percent` of the nodes in service (but `least` are allowed always),
    and at most `domains[kind]` in one failure domain of that kind (rack, leaf, power, nvlink_domain).

    `reserve` more are kept for the worst kinds. Once it opened it closes when there was room for `close_hours`; None: by hand alone.
    """

    number: int = 8
    percent: float = 5.0
    hours: float = 1.0
    domains: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    reserve: int = 2
    close_hours: float | None = None
    least: int = 1


@dataclass(frozen=True)
class IncidentKind:
    """What is done about incidents in one kind of place: who mends it; whether nodes that it makes unusable are isolated in its name."""

    owner: Owner
    isolates: bool = False


@dataclass(frozen=True)
class IncidentPolicy:
    """`at_least` nodes in service with one symptom, and `share` per cent of the place (of those with the symptom, where it is a version, a
    rail or a moment of `window_minutes`), which chance does less than once in `likelihood` times, are one incident.

    It closes when all its nodes were well for `calm_hours`, and is the same one if it comes back within `reopen_days`. As many as `as_one`
    isolations in its name count as one with the breaker. No kinds: nodes are taken each for itself.
    """

    at_least: int = 3
    share: float = 50.0
    window_minutes: float = 15.0
    likelihood: float = 1000.0
    calm_hours: float = 1.0
    reopen_days: float = 7.0
    as_one: int = 32
    kinds: Mapping[str, IncidentKind] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class Policy:
    """All of it. `wedged` is the number of sweeps after which what a node does not answer is a fault of the node; nothing is decided
    anew on what no sweep has seen for `fresh_hours`.
    """

    kinds: tuple[FaultKind, ...]
    climb: Climb
    repeat: Repeat
    flap: Flap
    requalify: Requalify
    ours: Ours
    breaker: BreakerPolicy
    wedged: int
    fresh_hours: float = 24.0
    files: tuple[str, ...] = ()
    incidents: IncidentPolicy = IncidentPolicy()
    remediation: Remediation = field(default_factory=Remediation)

    def kind(self, of: Of, rule: str, severity: Severity) -> FaultKind | None:
        """The kind that such a problem is of; None where the policy has nothing to say of it."""
        key = (of, rule, severity)
        if key not in self._found:
            self._found[key] = next((kind for kind in self.kinds if kind.covers(of, rule, severity)), None)
        return self._found[key]

    @cached_property
    def _found(self) -> dict[tuple[Of, str, Severity], FaultKind | None]:
        """Kinds by what was asked: a fleet asks some hundred thousand times for some hundred answers."""
        return {}
