"""Reads a SKU's `limits:`, and gives them to its nodes: below their own, above the inventory's defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from healthcheck.config.entry import kind_of, nearest
from healthcheck.ruleset.sku import Sku
from inventory.errors import Mark, RulesError
from inventory.limits import EXPECTED, STAGES, seconds
from inventory.located import LocatedMap
from inventory.model import NO_LIMITS, Inventory, Node, StageLimits


def read_limits(found: Any, mark: Mark, base: StageLimits) -> StageLimits:
    """Reads the value under `limits`, at `mark`, over those of the SKU above; raises RulesError."""
    if not isinstance(found, dict):
        raise RulesError(f"limits: expected a map with {', '.join(STAGES)}, got {kind_of(found)}", mark)
    limits: dict[str, float] = {}
    for key, value in found.items():
        located = found if isinstance(found, LocatedMap) else None
        if key not in STAGES:
            raise RulesError(f"limits: unknown key {ascii(key)[:60]}{nearest(str(key), list(STAGES))}; "
                             f"known: {', '.join(STAGES)}", located.key_marks[key] if located else mark)
        try:
            limits[key] = seconds(value)
        except ValueError:
            raise RulesError(f"limits: {key}: expected {EXPECTED}, got {kind_of(value)}",
                             located.value_marks[key] if located else mark) from None
    return StageLimits(**limits).over(base)


def limited(
    nodes: Iterable[Node], skus: Mapping[str, Sku], default_sku: str | None, given: StageLimits,
) -> tuple[Node, ...]:
    """The nodes with the limits that hold for them: `given` over their own, those over their SKU's."""
    return tuple(_limited(node, skus.get(node.sku or default_sku or ""), given) for node in nodes)


def limited_inventory(
    found: Inventory, skus: Mapping[str, Sku], default_sku: str | None, given: StageLimits,
) -> Inventory:
    """The inventory with such nodes."""
    nodes = {node.name: node for node in limited(found, skus, default_sku, given)}
    return replace(found, nodes=MappingProxyType(nodes))


def _limited(node: Node, sku: Sku | None, given: StageLimits) -> Node:
    limits = given.over(node.limits).over(sku.limits if sku is not None else NO_LIMITS)
    return node if limits == node.limits else replace(node, limits=limits)
