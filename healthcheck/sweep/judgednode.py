"""One node of a sweep judged by itself, and what of its facts waits for the other nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any

from healthcheck.checks import catalogue  # noqa: F401  (registers all facts)
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.cache import FactCache
from healthcheck.facts.gpusigns import GpuSigns
from healthcheck.facts.nvlink_place import Whereabouts
from healthcheck.facts.values import Fact, Partial, narrowed
from healthcheck.judge.leftout import LeftOut
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.judge.view import ProfileRules
from healthcheck.model.agentversion import NOT_RECORDED
from healthcheck.model.coverage import Coverage
from healthcheck.model.outcome import LogView, NodeReport, NodeState, Result
from healthcheck.model.recording import Outcome, Recording
from healthcheck.ruleset.sku import Sku
from inventory.model import Node


@dataclass
class JudgedNode:
    """One node judged by itself: results so far by rule id, and the facts that are needed once all nodes are
    there.

    `unreached` is the report of a node that was not reached or could not be judged; then nothing else is set.
    `learned` holds a SKU's numbers as this node shows them. `lacking` are probes that its agent's version
    does not have. `whereabouts` says by number where each GPU is to be found, if the GPUs know. `ahead` is
    how many seconds its clock is ahead of the head's. `signs` are what it shows of GPUs and `had_gpus` what
    an earlier snapshot showed, where nodes may be taken for machines without GPUs; `sku_basis` is the
    report's.
    """

    node: Node
    unreached: NodeReport | None = None
    sku: Sku | None = None
    facts: NodeFacts = field(default_factory=lambda: NodeFacts({}))
    results: MutableMapping[str, Result] = field(default_factory=dict)
    machine: tuple[str, str] = ("", "")
    learned: Mapping[str, Any] = field(default_factory=dict)
    empty: Mapping[str, bool] = field(default_factory=dict)
    probes: Coverage | None = None
    left_out: LeftOut = field(default_factory=dict)
    log: LogView | None = None
    rests: Mapping[str, Collection[int] | None] = field(default_factory=dict)
    lacking: frozenset[str] = frozenset()
    whereabouts: Mapping[int, Whereabouts] = field(default_factory=dict)
    ahead: float = 0.0
    signs: GpuSigns | None = None
    had_gpus: str = ""
    sku_basis: str = ""


def unknown(node: Node, reason: str) -> NodeReport:
    """The report of a node of which nothing is known."""
    return NodeReport(node.name, NodeState.UNKNOWN, reason, (), node.in_service)


def facts_of(recording: Recording, names: Iterable[str], cache: FactCache | None = None) -> dict[str, Any]:
    """The facts of these names in a reached node's recording."""
    captures = Captures(recording, cache)
    return {name: build_fact(FACTS[name], captures) for name in names}


def narrowed_for_fleet(facts: Mapping[str, Any], view: ProfileRules) -> dict[str, Any]:
    """The facts with what fleet rules read of them: nodes wait for each other with a fraction of the rest."""
    return {name: with_fields(value, view.fleet_fields[name]) if name in view.fleet_fields else value
            for name, value in facts.items()}


def with_fields(value: Any, fields: frozenset[str]) -> Any:
    """A fact with these fields, and with what names it."""
    if isinstance(value, Partial):
        return replace(value, value=with_fields(value.value, fields))
    if type(value) is tuple:
        return tuple([with_fields(member, fields) for member in value])
    if isinstance(value, Fact):
        return narrowed(value, {*fields, *value.IDENTITY, "name", "caveat"})
    return value


def lacking_probes(recording: Recording) -> frozenset[str]:
    """The probes that its agent's version does not have."""
    return frozenset([name for name, capture in recording.captures.items()
                      if capture.outcome is Outcome.UNABLE and capture.note.startswith(NOT_RECORDED)])


def same_boot(now: Recording, before: Recording | None) -> bool:
    """Whether both are of one boot."""
    return before is not None and before.host is not None and now.host is not None \
        and bool(now.host.boot_id) and now.host.boot_id == before.host.boot_id


def machine_of(recording: Recording) -> tuple[str, str]:
    """A machine's identity: hostname and boot. (Containers of one machine share the boot, not the name.)"""
    return (recording.host.hostname, recording.host.boot_id) if recording.host else ("", "")
