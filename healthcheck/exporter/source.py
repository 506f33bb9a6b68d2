"""The exporter's sources: on the head the store, on a node its agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from healthcheck.model.exposition import Sample
from healthcheck.store.newest import Newest, Packed
from inventory.model import Node


@dataclass(frozen=True)
class NodeNow:
    """One node: its inventory entry (None without an inventory), the newest snapshot (None without one), and
    our cordons as (back end, by whom: person or triage). An unchanged snapshot is the same object as
    before."""

    name: str
    node: Node | None
    newest: Newest | Packed | None
    cordons: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class HeadStatus:
    """The state of triage and sweeps, if the source knows it. Times are epoch seconds.

    `breaker` is when it opened, None while it is closed. `verdicts` counts open ones by (isolation, repair),
    `incidents` by (kind, owner). `triage_ended` is when the newest `muster triage --apply` ended, None if
    never; `triage_success` whether it completed.
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
    sweep_left_out: int = 0
    sweep_partial: bool = False
    store_bytes: int = 0
    triage_ended: float | None = None
    triage_success: bool = False


@dataclass(frozen=True)
class FleetStatus:
    """All data at one time. `head` may be None; `trouble` is one line on why nothing newer is known.

    `inventory_well` is False while an edited inventory cannot be read and the one before counts. `stale` is
    the age from which on a result counts as unknown, if the source knows it; `more` are its own samples.
    """

    nodes: Sequence[NodeNow]
    head: HeadStatus | None = None
    trouble: str = ""
    inventory_well: bool = True
    stale: float | None = None
    more: tuple[Sample, ...] = ()


class Source(Protocol):
    """A source of node data. One thread polls it."""

    def read(self, now: float) -> FleetStatus | None:
        """The current data; None if unchanged. Reports user errors in `trouble` instead of raising."""

    def close(self) -> None:
        """Ends the use of the source."""


def fresh(newest: Newest | Packed | None, now: float, stale: float) -> bool:
    """Whether a snapshot is current. One from the future, by more than the same span, means a wrong clock."""
    return newest is not None and abs(now - newest.time) <= stale
