"""Chooses controls and rings for a change: the same for the same inventory, canary and name. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

from inventory.model import LifecycleState, Node
from inventory.nodeset import natural

# The noise of a figure is learned from its controls, so even one canary gets so many, where there are.
LEAST_CONTROLS = 8


def controls(name: str, canary: Sequence[Node], among: Iterable[Node]) -> tuple[Node, ...]:
    """As many nodes in service as the canary has (at least `LEAST_CONTROLS`), SKU by SKU and with the
    canary's mix of racks, as far as there are such. Within a rack the order is that of a hash of the change's
    name and the node's, so that no one prefers a node, and anyone can check the choice."""
    taken = {node.name for node in canary}
    wanted = Counter((node.sku, node.rack) for node in canary)
    of_sku = Counter(node.sku for node in canary)
    least = max(len(canary), LEAST_CONTROLS)
    found: list[Node] = []
    for sku, count in sorted(of_sku.items(), key=lambda each: str(each[0])):
        fit = sorted((node for node in among if node.sku == sku and node.name not in taken
                      and node.lifecycle.state is LifecycleState.SERVICE),
                     key=lambda node: _order(name, node.name))
        share = -(-least * count // len(canary))
        by_rack: dict[str | None, list[Node]] = defaultdict(list)
        for node in fit:
            by_rack[node.rack].append(node)
        chosen: list[Node] = []
        for (of, rack), there in sorted(wanted.items(), key=str):
            if of == sku:
                chosen += by_rack[rack][:-(-there * share // count)]
        rest = [node for node in fit if node not in chosen]
        found += [*chosen, *rest][:share]
    return tuple(sorted(found, key=lambda node: natural(node.name)))


def rings(canary: Sequence[Node], among: Iterable[Node]) -> tuple[tuple[str, ...], ...]:
    """The other nodes in service of the canary's SKUs, in natural order: each ring is twice as large
    as the one before it, the first twice as large as the canary, until none is left."""
    skus, taken = {node.sku for node in canary}, {node.name for node in canary}
    left = sorted((node.name for node in among if node.sku in skus and node.name not in taken
                   and node.lifecycle.state is LifecycleState.SERVICE), key=natural)
    found, size = [], len(canary)
    while left:
        size *= 2
        found.append(tuple(left[:size]))
        left = left[size:]
    return tuple(found)


def twice(groups: Sequence[Collection[str]]) -> str | None:
    """A node that is in two of these groups, if any is."""
    seen: set[str] = set()
    for group in groups:
        for node in group:
            if node in seen:
                return node
            seen.add(node)
    return None


def _order(name: str, node: str) -> bytes:
    return hashlib.sha256(f"{name}\0{node}".encode("utf-8", "surrogatepass")).digest()
