"""What the exporter is told, and by whom: on the head node by the store, on a node by whatever looks at that node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from healthcheck.model.exposition import MetricFamily
from healthcheck.store.newest import Newest, Packed
from inventory.model import Node


@dataclass(frozen=True)
class NodeNow:
    """One node: the inventory's word on it (None where there is no inventory), the newest look (None where there was none), and our
    cordons as (back end, by whom: person or triage). A look that has not changed is the same object as the time before."""

    name: str
    node: Node | None
    newest: Newest | Packed | None
    cordons: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class HeadStatus:
    """What triage and sweeps did, where the source knows. Times are epoch seconds.

    `breaker` is when it opened, None while it is closed. `verdicts` counts open ones by (isolation, repair), `incidents` by (kind, owner).
    `triage_ended` is when the newest `muster triage --apply` ended, None where none ever did; `triage_success` whether it did all of it.
    """

    breaker: float | None = None
    verdicts: Mapping[tuple[str, str], int] = field(default_factory=lambda: MappingProxyType({}))
    incidents: Mapping[tuple[str, str], int] = field(default_factory=lambda: MappingProxyType({}))
    silences: int = 0
    leases: int = 0
    rmas: int = 0
    unfinished: int = 0
    sweeps: int = 0
    sweep_started: float | None = None
    sweep_finished: float | None = None
    sweep_nodes: int = 0
    sweep_unreached: int = 0
    sweep_partial: bool = False
    store_bytes: int = 0
    triage_ended: float | None = None
    triage_success: bool = False


@dataclass(frozen=True)
class FleetStatus:
    """All that is known at one time. `head` is None where there is none; `trouble` says, in one line, why nothing newer is known.

    `inventory_well` is False while an edited inventory cannot be read and the one before counts. `stale` is the age from which on a
    result says nothing, where the source knows; `more` are samples of its own.
    """

    nodes: Sequence[NodeNow]
    head: HeadStatus | None = None
    trouble: str = ""
    inventory_well: bool = True
    stale: float | None = None
    more: tuple[tuple[MetricFamily, str], ...] = ()


class Source(Protocol):
    """Anything that knows of nodes. It is asked by one thread, again and again."""

    def read(self, now: float) -> FleetStatus | None:
        """What is known now; None where that is as it was. Never raises for what a person can mend, but says so in `trouble`."""

    def close(self) -> None:
        """Nobody asks any more."""


def fresh(newest: Newest | Packed | None, now: float, stale: float) -> bool:
    """Whether a look says how the node is now. One from the future, by more than the same span, says that a clock is wrong."""
    return newest is not None and abs(now - newest.time) <= stale
