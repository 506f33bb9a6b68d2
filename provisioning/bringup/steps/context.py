"""What steps after the operating system work with: rules, transport, state folder, inventory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from healthcheck.ruleset.ruleset import Ruleset
from inventory.model import Inventory, Node
from inventory.transport.base import Transport


@dataclass(frozen=True)
class StepContext:
    """`path` is the inventory file, `rules` rules folders in order, `default_sku` that of nodes without."""

    folder: Path
    path: Path
    inventory: Inventory
    ruleset: Ruleset
    rules: tuple[Path, ...]
    transport: Callable[[], Transport]
    who: str
    default_sku: str | None = None
    fanout: int = 64

    def sku(self, node: Node) -> str | None:
        """What the machine is to be."""
        return node.sku or self.default_sku
