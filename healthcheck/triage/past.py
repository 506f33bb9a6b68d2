"""What triage knows of a node: the store's memory of it and the inventory's word on it, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from healthcheck.store.history import Problem
from healthcheck.triage.policy import Isolation


@dataclass(frozen=True)
class Look:
    """One look under the profile of requalification; `state` is healthy where all that was against the node is silenced."""

    time: float
    state: str


RETURNED = "returned from the vendor"
# What stands for the fault in the verdict on a node of which something is at the vendor's.
RMA = "rma"


@dataclass(frozen=True)
class Repaired:
    """Something that was done to a node, or to what sits in one slot of it, and was seen to be done."""

    time: float
    what: str
    slot: str = ""


@dataclass(frozen=True)
class OpenCordon:
    """A cordon of ours that holds; `verdict` None: a person made it, and only a person ends it."""

    id: int
    backend: str
    why: str
    began: float
    verdict: int | None


@dataclass(frozen=True)
class OpenVerdict:
    """What triage decided before and holds to. Once an RMA is over it is what was decided before that."""

    id: int
    fault: str
    isolation: Isolation
    began: float


@dataclass(frozen=True)
class Past:
    """One node. Times are epoch seconds.

    `problems` are those that hold now, `over` those that ended within the longest window of the policy; neither holds what is silenced, of
    which `silenced` says how much there is. `moved` holds earlier failures, on whatever node, of components that sit here now; and of this
    node's own earlier failures only those that are not of a component that has left; when the last of the latter was over is `left`.
    `boots` are the first sweeps of its boots, oldest first. `overridden` says who gave the node back by hand while the verdict that
    isolated it holds; `others` who else keeps jobs away from it; `leased` who tests it now. `domains` are its failure domains by kind
    (rack, leaf ...). `away` is an open RMA's words, empty where there is none. `state` is
    what the newest sweep that judged it called it, at `seen`; empty where none has.
    """

    node: str
    in_service: bool = True
    lifecycle: str = "service"
    problems: tuple[Problem, ...] = ()
    over: tuple[Problem, ...] = ()
    moved: tuple[Problem, ...] = ()
    silenced: int = 0
    boots: tuple[float, ...] = ()
    looks: tuple[Look, ...] = ()
    repaired: tuple[Repaired, ...] = ()
    chassis_since: float = 0.0
    cordons: tuple[OpenCordon, ...] = ()
    verdict: OpenVerdict | None = None
    overridden: str = ""
    others: str = ""
    leased: str = ""
    domains: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    away: str = ""
    left: float = 0.0
    state: str = ""
    seen: float = 0.0


@dataclass(frozen=True)
class Isolated:
    """A new isolation that triage made, for the breaker's window."""

    node: str
    time: float


@dataclass(frozen=True)
class Fleet:
    """All nodes, at one time. `isolated` are triage's new isolations within the breaker's window; `open_since` is when the breaker opened,
    None while it is closed."""

    now: float
    nodes: tuple[Past, ...]
    isolated: tuple[Isolated, ...] = ()
    open_since: float | None = None
    open_why: str = ""
