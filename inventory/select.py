"""Selects nodes of an inventory by a node set from a command line."""

from __future__ import annotations

from collections.abc import Sequence

from inventory.errors import InventoryError
from inventory.model import Inventory, Node
from inventory.nodeset import did_you_mean, expand, fold
from inventory.text import short


def select(inventory: Inventory, text: str | None) -> list[Node]:
    """The nodes of a node set, in natural order; all, in the file's order, when it is None. Raises
    InventoryError for bad syntax, unknown names and groups (it names the nearest), and no node at all."""
    if text is None:
        return list(inventory)
    names = expand(text, inventory.groups, inventory.nodes.keys())
    if unknown := [name for name in names if name not in inventory.nodes]:
        raise InventoryError(f"{inventory.source} has no node {_few(unknown)}{_hint(unknown[0], inventory)}")
    if not names:
        raise InventoryError(f"{short(text)} selects no node")
    return [inventory.nodes[name] for name in names]


def _few(names: Sequence[str]) -> str:
    folded = fold(names)
    return folded if len(folded) <= 120 else f"{names[0]} and {len(names) - 1} others"


def _hint(name: str, inventory: Inventory) -> str:
    if name in inventory.groups:
        return f"; did you mean the group @{name}?"
    return did_you_mean(name, inventory.nodes)
