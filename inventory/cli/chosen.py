"""The target nodes of a command and the user who runs it."""

from __future__ import annotations

import os
import pwd

from inventory.model import Inventory, Node
from inventory.text import clean


def chosen(nodes: str, option: str | None) -> tuple[tuple[str, ...], Inventory | None]:
    """The names that a node set stands for, and the inventory they are from; without one they are taken as
    they are. Raises InventoryError or UsageError for unknown names and groups."""
    from inventory.discover import from_names
    from inventory.load import usual_inventory
    from inventory.select import select

    found = usual_inventory(option)
    named = select(found, nodes) if found is not None else from_names(nodes)
    return tuple(node.name for node in named), found


def needed(nodes: str, option: str | None, why: str) -> tuple[list[Node], Inventory]:
    """The nodes, and the inventory; where there is none, UsageError says `why`. Raises InventoryError."""
    from inventory.load import load_inventory
    from inventory.locate import needed_inventory
    from inventory.select import select

    found = load_inventory(needed_inventory(option, why))
    return select(found, nodes), found


def who() -> str:
    """The person behind this command, for the ledger: the login name, and behind sudo the original one."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = str(os.geteuid())
    behind = os.environ.get("SUDO_USER")
    return clean(f"{behind} as {name}") if behind else name
