"""What the inventory and the store know of GPUs, for nodes that may be taken for machines without."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from healthcheck.judge.gpuless import GpuHistory, stem
from healthcheck.ruleset import sku as skus
from healthcheck.ruleset.sku import Sku
from healthcheck.store import newest
from healthcheck.store.file import NAME, opened
from healthcheck.store.hardware import gpus_met
from inventory.errors import StoreError
from inventory.model import Node
from inventory.text import clean


def known_of_gpus(nodes: Iterable[Node], known_skus: Mapping[str, Sku], folder: Path) -> GpuHistory:
    """What is known of `nodes`, which are all of the inventory, and in the store of the state folder; the
    names are those that may be equals of a node without SKU.

    A store that cannot be read leaves open what it holds, and no node is taken for one without GPUs.
    """
    nodes = tuple(nodes)
    undeclared = frozenset(node.name for node in nodes if node.sku is None)
    equals = {stem(name) for name in undeclared}
    names = {node.name: f"the inventory names the SKU {node.sku} for it" for node in nodes
             if node.sku is not None and stem(node.name) in equals and _has_gpus(node.sku, known_skus)}
    if not undeclared or not (folder / NAME).exists():
        return GpuHistory(names, undeclared=undeclared)
    try:
        with opened(folder) as store:
            met, machines = gpus_met(store)
            judged = {row[0]: newest.decoded(*row).sku for row in newest.rows(store) if row[0] in undeclared}
    except StoreError as error:
        return GpuHistory(names, undeclared=undeclared,
                          unread=f"the store was not read, which may know its GPUs ({clean(error, 200)})")
    stored = {name: "the store has serial numbers of its GPUs" for name in met if stem(name) in equals}
    stored |= {name: f"the store has it as {clean(sku, 60)}" for name, sku in judged.items()
               if sku is not None and _has_gpus(sku, known_skus)}
    declared = {node.name for node in nodes if node.sku is not None}
    return GpuHistory({**{name: why for name, why in stored.items() if name not in declared}, **names},
                      machines, undeclared)


def _has_gpus(sku: str, known: Mapping[str, Sku]) -> bool:
    """Whether machines of the SKU have GPUs, or may have: one that no folder defines any more may."""
    return sku not in known or "gpus" not in skus.must_lack(known[sku])
