"""The policy of triage, as frozen values: kinds of fault with what is done about them,
and every number that a decision rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from types import MappingProxyType

from healthcheck.model.faultkind import FaultKind, Isolation, Of
from healthcheck.model.outcome import Owner, Repair, Severity
from healthcheck.model.problem import Problem
from healthcheck.triage.remediation import Remediation
from healthcheck.triage.windows import ChangeWindow

# The kinds of place, in the order in which one is named where several explain the same equally well.
# one can go there and mend it, and it fails as a whole
PHYSICAL = ("nvlink_domain", "rack", "leaf", "power")
VERSIONS = ("driver", "kernel", "firmware")
PLACES = ("nvlink_domain", "rack", "leaf", "rail", "power", *VERSIONS, "batch")
MOMENT = "moment"
KINDS = (*PLACES, MOMENT)
# In whose name nodes may be isolated. A version, a delivery batch and a moment explain, and isolate no node.
ISOLATING = (*PHYSICAL, "rail")
EXPLAINING = tuple(kind for kind in KINDS if kind not in ISOLATING)


@dataclass(frozen=True)
class Climb:
    """`failures` returns of a fault after so many reboots, within `days`, make it one of hardware."""

    failures: int = 2
    days: float = 30.0


@dataclass(frozen=True)
class RepeatPolicy:
    """A component, or a node, with a score of `score` is a repeat offender; a failure counts 1,
    and half after `half_life_days`."""

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
    """A node is returned when its newest looks under `profile`, all later than its repair, had nothing
    against it, and `sweeps` of them, at least `apart_minutes` apart, have measured what had failed."""

    profile: str = "bringup"
    sweeps: int = 2
    apart_minutes: float = 10.0


@dataclass(frozen=True)
class SharedUnknown:
    """The same UNKNOWN on more than `percent` of the nodes in service, and on `nodes` at least, is not
    theirs: muster's, or the site's."""

    percent: float = 5.0
    nodes: int = 2


@dataclass(frozen=True)
class BreakerPolicy:
    """New isolations within `hours`, however they are explained: at most `number`, and at most `percent` of
    the nodes in service (but `least` of these are allowed always); beside them one physical domain (see
    `IncidentPolicy.as_one`). At most `domains[kind]` of those that count are in one failure domain of that
    kind (rack, leaf, power, nvlink_domain).

    `reserve` of them are kept for the worst kinds. Once it opened it closes when there was room for
    `close_hours`; None: by hand alone.
    """

    number: int = 8
    percent: float = 5.0
    hours: float = 1.0
    domains: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    reserve: int = 2
    close_hours: float | None = None
    least: int = 1


@dataclass(frozen=True)
class PortPolicy:
    """Ports of the fabric that are disabled: within `hours` at most `number`, and at most `percent` of the
    links between switches and to hosts (but one is allowed always). A switch with hosts keeps `uplinks`
    links to other switches, and `uplinks_percent` of those that it is cabled with."""

    number: int = 4
    percent: float = 1.0
    hours: float = 24.0
    uplinks: int = 1
    uplinks_percent: float = 75.0

    def most(self, links: int) -> int:
        """How many of so many links may be disabled within `hours`."""
        return min(self.number, max(1, int(self.percent * links / 100)))


@dataclass(frozen=True)
class IncidentKind:
    """What is done about incidents in one kind of place: who mends it;
    whether nodes that it makes unusable are isolated in its name."""

    owner: Owner
    isolates: bool = False


@dataclass(frozen=True)
class Causes:
    """Which kinds of place can cause what these rules find: `rules` are globs over rule ids, `of` says
    whether they failed, could not be measured, or (without rules) the node was not reached."""

    id: str
    why: str
    kinds: frozenset[str]
    rules: tuple[str, ...] = ()
    of: Of = Of.FAIL

    def covers(self, of: Of, rule: str) -> bool:
        """Whether this is about a problem of this rule."""
        return of is self.of and (of is Of.UNREACHED or any(fnmatchcase(rule, glob) for glob in self.rules))


@dataclass(frozen=True)
class IncidentPolicy:
    """`at_least` nodes in service with one symptom, and `share` per cent of the place (of those with the
    symptom, where it is a version, a batch, a rail or a moment of `window_minutes`), which chance does less
    than once in `likelihood` times, are one incident, where that kind of place can cause such a symptom: the
    first of `causes` that covers it says so. Without any, all can. Where all or nearly all of a physical
    place has it, once in `whole` times is enough for an incident, which then only explains.

    It closes when all its nodes were well for `calm_hours`, and is the same one if it comes back within
    `reopen_days`. As many as `as_one` isolations in the name of one physical domain do not count with the
    breaker. No kinds: nodes are taken each for itself.
    """

    at_least: int = 3
    share: float = 50.0
    window_minutes: float = 15.0
    likelihood: float = 1000.0
    calm_hours: float = 1.0
    reopen_days: float = 7.0
    as_one: int = 32
    whole: float = 10.0
    kinds: Mapping[str, IncidentKind] = field(default_factory=lambda: MappingProxyType({}))
    causes: tuple[Causes, ...] = ()

    def cause(self, of: Of, rule: str) -> Causes | None:
        """The entry for such a problem, or None."""
        return next((one for one in self.causes if one.covers(of, rule)), None)

    def may_cause(self, of: Of, rule: str) -> frozenset[str]:
        """The kinds of place that can cause such a problem, of those that are looked for. What is not
        configured has no place: a version or a moment may explain it, and each node stands for itself."""
        key = (of, rule)
        if key not in self._found:
            found = self.cause(of, rule)
            kinds = (frozenset(KINDS) if not self.causes else found.kinds if found is not None
                     else frozenset(EXPLAINING))
            self._found[key] = kinds.intersection(self.kinds)
        return self._found[key]

    def isolates(self, kind: str) -> bool:
        """Whether nodes are isolated in the name of such a place."""
        return kind in ISOLATING and kind in self.kinds and self.kinds[kind].isolates

    @cached_property
    def _found(self) -> dict[tuple[Of, str], frozenset[str]]:
        """By what was asked."""
        return {}


@dataclass(frozen=True)
class TriagePolicy:
    """All of it. `wedged` is the number of sweeps after which what a node does not answer is a fault of the
    node; nothing is decided anew on what no sweep has seen for `fresh_hours`. In one of `windows` only the
    faults that it names isolate. `repairs` are what the remedies of rules ask for, by their ids.
    """

    kinds: tuple[FaultKind, ...]
    climb: Climb
    repeat: RepeatPolicy
    flap: Flap
    requalify: Requalify
    ours: SharedUnknown
    breaker: BreakerPolicy
    wedged: int
    fresh_hours: float = 24.0
    files: tuple[str, ...] = ()
    incidents: IncidentPolicy = IncidentPolicy()
    remediation: Remediation = field(default_factory=Remediation)
    windows: tuple[ChangeWindow, ...] = ()
    repairs: Mapping[str, Repair] = field(default_factory=lambda: MappingProxyType({}))
    ports: PortPolicy = PortPolicy()

    def repair(self, kind: FaultKind, problem: Problem) -> Repair:
        """What a problem of this kind asks for: what the driver or its table said, else as `asked`."""
        return Repair(problem.repair) if problem.repair is not None else self.asked(kind, problem.rule)

    def asked(self, kind: FaultKind, rule: str) -> Repair:
        """What the policy says of a kind, else what the remedy of the rule asks for, else that a person
        looks, where jobs are kept away."""
        if kind.repair is not None:
            return kind.repair
        otherwise = Repair.WATCH if kind.isolation is Isolation.NONE else Repair.INSPECT
        return self.repairs.get(rule, otherwise) if kind.of is Of.FAIL else otherwise

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
