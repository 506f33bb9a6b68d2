"""What triage knows of a node, from the store and the inventory, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from healthcheck.model.faultkind import FaultKind, Isolation
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import StoredIncident
from healthcheck.store.fabricfindings import FabricTrouble
from healthcheck.store.machines import AnotherMachine
from healthcheck.store.marks import CordonMark
from healthcheck.store.rmas import Rma, RmaAlarm
from healthcheck.store.versions import POLICY, THERE
from healthcheck.triage.lots import FleetPart
from healthcheck.triage.symptom import symptom

_EMPTY: Mapping[Any, Any] = MappingProxyType({})


class RequalifySnapshot(NamedTuple):
    """One snapshot under the requalification profile; what is silenced counts in its `state` as all else.

    `measured` are the rules that it measured of those that have had a problem on the node; None for one that
    stands in the place of looks that are stored no more, and counts as they did.
    """

    time: float
    state: str
    measured: frozenset[str] | None = None


REPAIRED = "repaired"       # by a person's word
RETURNED = "returned from the vendor"


@dataclass(frozen=True)
class Repaired:
    """Something that was done to a node, or to what sits in one slot of it, and was seen to be done. `of`
    are, of a person's word or a return, the subjects, slots and serial numbers that it is of; empty where it
    is of all. `kind` is that of a part that returned."""

    time: float
    what: str
    slot: str = ""
    of: frozenset[str] = frozenset()
    kind: str = ""


@dataclass(frozen=True)
class OpenCordon:
    """A cordon of ours that holds; `verdict` None: a person made it, and only a person ends it."""

    id: int
    backend: str
    why: str
    began: float
    verdict: int | None
    store: str = ""

    @property
    def mark(self) -> CordonMark:
        """What the back end shows of it."""
        return CordonMark(self.store, self.id)


@dataclass(frozen=True)
class OpenVerdict:
    """What triage decided before and holds to; `incident` is the number of the one in whose name, 0 where it
    is the node's own. Once an RMA is over it is what was decided before that."""

    id: int
    fault: str
    isolation: Isolation
    began: float
    incident: int = 0


@dataclass(frozen=True)
class Anew:
    """A cordon by triage that ended because its node registered again or was reinstalled: when,
    and its fault."""

    time: float
    fault: str
    isolation: Isolation


@dataclass(frozen=True)
class IncidentMembership:
    """When a node was in an incident, with which symptoms; `ended` is None while it is."""

    incident: int
    symptoms: frozenset[str]
    began: float
    ended: float | None = None


@dataclass(frozen=True)
class VersionChange:
    """Something that decides, or that a node runs, is not what it was: a rule, a SKU, a baseline, muster
    itself, a fault of the policy; a driver, a kernel, a firmware. `digest` is what it is now, empty where it
    is gone; `began` is the first sweep with it, `before` the last without (None: there was none of the name),
    `until` the sweep after the first: what a change brings shows by then, and `after` when another followed.

    `was` is the digest before, and `said` and `says` are what it said then and says now, by key, as far as
    that is known. `rules` are those that a change of a SKU can concern, None where it can be any; `faults`
    those of the policy before a change of it, in their order.
    """

    kind: str
    name: str
    digest: str
    began: float
    before: float | None = None
    until: float = float("inf")
    after: float | None = None
    was: str = ""
    said: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    says: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    rules: frozenset[str] | None = None
    faults: tuple[FaultKind, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether it is known which rules, or which faults, it is about: of what begins with another muster
        most is no doing of it, nor is what a rule finds that was there before and is judged since then."""
        if self.kind == "rule":
            return not self.first_judged
        return self.kind == POLICY or (self.kind == "sku" and self.rules is not None)

    @property
    def first_judged(self) -> bool:
        """Whether a rule was there before, and is only judged since then."""
        return self.before is None and bool(self.says.get(THERE))

    def holds(self, now: float) -> bool:
        """Whether it held at that time."""
        return self.began <= now and (self.after is None or now < self.after)


@dataclass(frozen=True)
class CameWith:
    """Why a problem is there, or counts: a change of what the node is judged by, in words. `exact`: the
    change is of its own rule, its fault in the policy, or a number that its rule takes."""

    words: str
    exact: bool
    began: float


@dataclass(frozen=True)
class SilencedHistory:
    """What silences leave out of a node's history, under the names that it has there."""

    problems: tuple[Problem, ...] = ()
    over: tuple[Problem, ...] = ()
    moved: tuple[Problem, ...] = ()
    left: float = 0.0


NONE_SILENCED = SilencedHistory()


@dataclass(frozen=True)
class NodeHistory:
    """One node. Times are epoch seconds.

    `problems` are those that hold now, `over` those that ended within the longest window of the policy;
    neither holds what is silenced, which is `hidden`. `moved` holds earlier
    failures, on whatever node, of components that sit here now; and of this node's own earlier failures only
    those that are not of a component that has left; when the last of the latter was over is `left`. Since
    when it is this machine, installed as it is, is `new_since`; 0 where nothing else is known. `boots` are
    the first sweeps of its boots, oldest first. `overridden` says who gave the node back by hand while the
    verdict that isolated it holds, and `overridden_at` when: what is new since then they have not seen;
    `others` who else keeps jobs away from it; `leased` who tests it now.
    `domains` are its failure domains by kind (rack, leaf ...). `away` is an open RMA's words, empty where
    there is none. `state` is what the newest sweep that judged it called it, at `seen`; empty where none has.
    `versions` are those that its newest look showed (driver, kernel, firmware), `ports` its ports' leaf and
    rail by PCI address, empty where not known; `shared` are the incidents that it is or was in, `excused`
    the rules whose failing an incident answers for: they accuse it of nothing while it lasts; `came` is what
    is there, or was, only since a change of what it is judged by. `sku` is what
    the inventory calls its kind, `changed` what it runs since not long ago. `anew` is set where its last
    cordon ended so, and nothing has been proven since. `machine` is set where another machine has its name
    since then.
    """

    node: str
    in_service: bool = True
    lifecycle: str = "service"
    problems: tuple[Problem, ...] = ()
    over: tuple[Problem, ...] = ()
    moved: tuple[Problem, ...] = ()
    hidden: SilencedHistory = NONE_SILENCED
    boots: tuple[float, ...] = ()
    snapshots: tuple[RequalifySnapshot, ...] = ()
    repaired: tuple[Repaired, ...] = ()
    chassis_since: float = 0.0
    cordons: tuple[OpenCordon, ...] = ()
    verdict: OpenVerdict | None = None
    overridden: str = ""
    others: str = ""
    leased: str = ""
    domains: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _EMPTY)
    away: str = ""
    left: float = 0.0
    state: str = ""
    seen: float = 0.0
    versions: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    ports: Mapping[str, tuple[str, str]] = field(default_factory=lambda: _EMPTY)
    shared: tuple[IncidentMembership, ...] = ()
    new_since: float = 0.0
    anew: Anew | None = None
    excused: frozenset[str] = frozenset()
    sku: str = ""
    changed: tuple[VersionChange, ...] = ()
    machine: AnotherMachine | None = None
    overridden_at: float = float("inf")
    came: Mapping[Problem, CameWith] = field(default_factory=lambda: _EMPTY)

    @property
    def silenced(self) -> int:
        """How many problems that hold now are silenced."""
        return len(self.hidden.problems)

    @property
    def unsilenced(self) -> NodeHistory:
        """The same where no one had silenced anything."""
        hidden = self.hidden
        if hidden == NONE_SILENCED:
            return self
        return replace(self, problems=self.problems + hidden.problems, over=self.over + hidden.over,
                       moved=self.moved + hidden.moved, left=max(self.left, hidden.left),
                       hidden=NONE_SILENCED)

    def not_its_own(self, problem: Problem) -> bool:
        """Whether what is over was an incident's, or only there by a change of what the node is judged by."""
        return self.in_incident(problem) or (
            problem.ended is not None and (came := self.came.get(problem)) is not None and came.exact)

    def in_incident(self, problem: Problem) -> bool:
        """Whether a problem was part of an incident, from its beginning to its end if it has one; what
        outlives it is the node's own."""
        return any(one.began <= problem.began
                   and (one.ended is None or (problem.ended is not None and problem.ended <= one.ended))
                   and symptom(problem) in one.symptoms for one in self.shared)


@dataclass(frozen=True)
class Isolated:
    """A new isolation that triage made, for the breaker's window; `incident` is that in whose name, 0 for
    none, and `place` the kind and the name of its place as they were then."""

    node: str
    time: float
    incident: int = 0
    place: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Quiet:
    """Counts of nodes in service without problems: in total, by place, and ports by rail."""

    serving: int = 0
    places: Mapping[tuple[str, str], int] = field(default_factory=lambda: _EMPTY)
    rails: Mapping[str, int] = field(default_factory=lambda: _EMPTY)


@dataclass(frozen=True)
class FleetHistory:
    """All nodes, at one time; `quiet` are those that are only counted. `isolated` are triage's new isolations
    within the breaker's window; `open_since` is when the breaker opened, None while it is closed. `since` is
    when what the store remembers of faults begins. `incidents` are those that are open, and those that ended
    within the policy's windows; the next new one gets the number `next_incident`. `changes` are those of what
    nodes are judged by that hold, and `every_change` also those that changed again. `rmas` are all there are,
    and `alarms` by their numbers what stands of them now. `fabric` is what the subnets show and is not
    silenced. `parts` are by node those whose lot is known.
    """

    now: float
    nodes: tuple[NodeHistory, ...]
    isolated: tuple[Isolated, ...] = ()
    open_since: float | None = None
    open_why: str = ""
    since: float = float("inf")
    incidents: tuple[StoredIncident, ...] = ()
    next_incident: int = 1
    quiet: Quiet = Quiet()
    changes: tuple[VersionChange, ...] = ()
    every_change: tuple[VersionChange, ...] = ()
    rmas: tuple[Rma, ...] = ()
    alarms: Mapping[int, RmaAlarm] = field(default_factory=dict)
    fabric: tuple[FabricTrouble, ...] = ()
    parts: Mapping[str, tuple[FleetPart, ...]] = field(default_factory=lambda: _EMPTY)
