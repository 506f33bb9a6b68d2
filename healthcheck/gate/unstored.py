"""The snapshot's entries while the store cannot be opened: the newest snapshot's, and what else is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from healthcheck.gate.reading import GateSnapshot, SnapshotError
from healthcheck.store.waiting import WaitingCordon
from inventory.model import Inventory, LifecycleState
from inventory.text import clean


def entries_without_store(
    before: GateSnapshot, inventory: Inventory, waiting: Iterable[WaitingCordon],
) -> dict[str, dict[str, Any]]:
    """The entries of the inventory's nodes that the snapshot `before` has: states, looks and certificates as
    they were then, so that they age; lifecycles and places as the inventory has them now, and cordons that
    wait for the store. A node that it has not has no entry, and its gate stays closed."""
    cordons = {one.node: clean(f"{one.who}: {one.why} ({one.mark})", 200) for one in waiting}
    groups: dict[str, list[str]] = defaultdict(list)
    for group, names in sorted(inventory.groups.items()):
        for name in names:
            groups[name].append(group)
    found: dict[str, dict[str, Any]] = {}
    for node in inventory:
        try:
            entry = before.entry(node.name)
        except SnapshotError:
            continue
        if not isinstance(entry, dict):
            continue
        away = entry.get("lifecycle") == LifecycleState.RMA.value
        found[node.name] = {
            **entry, "lifecycle": LifecycleState.RMA.value if away else node.lifecycle.state.value,
            "cordoned": cordons.get(node.name, entry.get("cordoned")), "groups": groups.get(node.name, []),
            "leaf": list(node.leaf) or sorted({plan.leaf for plan in node.ports.values() if plan.leaf}),
            "domain": node.nvlink_domain}
    return found
