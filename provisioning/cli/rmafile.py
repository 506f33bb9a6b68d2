"""The inventory file, which `muster rma` changes along with the store."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import click

from inventory.cli.lifecycle import _lifecycle_text, edited
from inventory.cli.propose import propose
from inventory.cli.show import _found, _known_skus
from inventory.errors import UsageError
from inventory.inventoryfile import InventoryFile
from inventory.load import LoadedInventory, parse_with_origins
from inventory.model import Lifecycle, Node
from inventory.select import select


@dataclass(frozen=True)
class InventoryEdit:
    """The inventory file to change, as it was read."""

    given: InventoryFile
    loaded: LoadedInventory
    skus: Collection[str] | None

    @classmethod
    def of(cls, ctx: click.Context, option: str | None) -> InventoryEdit:
        """Reads it; raises InventoryError, or UsageError where there is none."""
        given, skus = InventoryFile.read(_found(option)), _known_skus(ctx)
        return cls(given, parse_with_origins(given.text, str(given.path), skus), skus)

    def node(self, name: str) -> Node:
        """One node; raises InventoryError or UsageError."""
        found = select(self.loaded.inventory, name)
        if len(found) != 1:
            raise UsageError(f"{name} names {len(found)} nodes, expected one")
        return found[0]

    def change(
        self, name: str, wanted: Lifecycle, action: Callable[[Callable[[], str]], None], remark: str, *,
        yes: bool, dry_run: bool,
    ) -> bool:
        """Shows what changes in the file, asks, and runs `action`, which gets the function that writes it;
        returns whether it ran. `remark` describes the rest of the operation."""
        source = str(self.given.path)
        same = self.loaded.inventory.nodes[name].lifecycle == wanted
        after = self.given.text if same else edited(self.given, self.loaded, {name: wanted}, self.skus)

        def write() -> str:
            if same:
                return f"lifecycle {_lifecycle_text(wanted)}, as {source} says already"
            self.given.write(after)
            return f"lifecycle {_lifecycle_text(wanted)}, written to {source}"

        if same and not dry_run:
            action(write)
            return True
        return propose(
            source, self.given.text, after, lambda: action(write), yes=yes, dry_run=dry_run, remarks=[remark])
