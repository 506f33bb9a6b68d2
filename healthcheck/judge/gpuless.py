"""Whether a node for which no one named a SKU may be taken for a machine without GPUs. Pure.

A machine whose GPUs have all left the bus shows as few as one that never had any. So it is proven only where
everything was measured and says no: the node's own PCI bus, modules, installed drivers and firmware's name,
what is stored of the node and of this machine under any name, and its equals in the sweep, the inventory and
the store. Whatever is unread or speaks against it leaves the node as it was: without a SKU, and UNKNOWN.

What is left: a machine whose GPUs are gone, that has no driver, that neither firmware, bus, name nor log
gives away, that no earlier sweep met, and that has no equal. So the report says that it rests on this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from healthcheck.facts.gpusigns import GpuSigns
from inventory.nodeset import fold
from inventory.text import clean

# How the basis of a node's SKU begins in a report: that it was taken for one without GPUs, or why it was not.
TAKEN = "without GPUs by what it shows: "
NOT_TAKEN = "not taken for a machine without GPUs: "
_DIGITS = re.compile(r"\d+")
_LETTER = re.compile(r"[^\W\d_]")
_OF_GPUS = re.compile(r"gpu|dgx|hgx|nvl\d|(?<![a-z])g?[abh][1-3]00(?!\d)", re.IGNORECASE)


@dataclass(frozen=True)
class GpuHistory:
    """What the inventory and the store know of GPUs: by name of a node, those outside the sweep included, why
    it is to have or had GPUs; and by a machine's identity (`GpuSigns.identities`) the node that had them.
    `undeclared` are all nodes of the inventory without SKU, those outside the sweep included. `unread` is why
    the store could not be asked; empty where it was, or where there is none."""

    names: Mapping[str, str] = field(default_factory=dict)
    machines: Mapping[str, str] = field(default_factory=dict)
    undeclared: frozenset[str] = frozenset()
    unread: str = ""


@dataclass(frozen=True)
class SeenNode:
    """One node of the sweep: what it shows, None where it was not reached, and what an earlier snapshot of it
    showed of GPUs. `sku` says what an SKU that someone named says: True, it has GPUs; False, it has none;
    None, no one named one. `place` is what the inventory says of a place among GPUs, in words."""

    signs: GpuSigns | None
    before: str = ""
    sku: bool | None = None
    place: str = ""


def stem(name: str) -> str:
    """A node's name without its numbers and domain, by which equals are found: gpu[001-512] have one; "" for
    a name without letters, such as an address."""
    host = name.partition(".")[0]
    return _DIGITS.sub("#", host) if _LETTER.search(host) else ""


def not_gpuless(nodes: Mapping[str, SeenNode], history: GpuHistory) -> dict[str, str]:
    """By each reached node without a named SKU why it is not taken for a machine without GPUs; "" where it is
    proven to be one."""
    named: dict[str, dict[str, str]] = {}
    built: dict[str, dict[str, str]] = {}
    for name, why in history.names.items():
        if name not in nodes and (of := stem(name)):
            named.setdefault(of, {})[name] = why
    own = {name: next(_own(name, node, history), "") for name, node in nodes.items()}
    for name, node in nodes.items():
        if not own[name]:
            continue
        if of := stem(name):
            named.setdefault(of, {})[name] = own[name]
        if node.signs is not None and node.signs.machine:
            built.setdefault(node.signs.machine, {})[name] = own[name]
    silent = _silent(nodes, history)
    by_name = {of: _words(those, "by name") for of, those in named.items()}
    by_machine = {of: _words(those, f"by firmware, {clean(of, 80)}") for of, those in built.items()}
    return {name: own[name] or next(iter(node.signs.unread), "") or history.unread or by_name.get(stem(name))
            or by_machine.get(node.signs.machine) or silent.get(name, "")
            for name, node in nodes.items() if node.sku is None and node.signs is not None}


def _silent(nodes: Mapping[str, SeenNode], history: GpuHistory) -> dict[str, str]:
    """By node that it has equals by name, none of which answered in this sweep: then it is not known what
    they have."""
    equals: dict[str, set[str]] = {}
    for name in {*history.undeclared, *(name for name, node in nodes.items() if node.sku is None)}:
        if of := stem(name):
            equals.setdefault(of, set()).add(name)
    found = {}
    for those in equals.values():
        answered = [name for name in those if name in nodes and nodes[name].signs is not None]
        if len(answered) == 1 < len(those):
            others = clean(fold(sorted(those - set(answered))), 200)
            found[answered[0]] = f"of its equals (by name) {others} none answered in this sweep"
    return found


def basis(signs: GpuSigns) -> str:
    """On what it rests that a node is taken for a machine without GPUs, in words."""
    return (f"no GPU on PCI, no driver of one loaded or installed, no GPU server by firmware's name "
            f"({clean(signs.machine, 80)}), none in what is known of it and of its equals")


def _own(name: str, node: SeenNode, history: GpuHistory) -> Iterator[str]:
    """What says of a node by itself that GPUs belong in it."""
    if node.signs is not None and (node.signs.gpus or node.sku is not False):
        yield from node.signs.signs
    if node.sku is False:
        return      # someone said that it has none
    if node.sku:
        yield "the SKU that is named for it has GPUs"
    for identity in node.signs.identities if node.signs is not None else ():
        if (known := history.machines.get(identity)) is not None:
            yield f"this machine had GPUs as {known}"
    if node.before:
        yield f"an earlier snapshot of it had {node.before}"
    if name in history.names:
        yield history.names[name]
    if node.place:
        yield node.place
    if _OF_GPUS.search(name):
        yield "its name is one of a GPU node"


def _words(those: Mapping[str, str], how: str) -> str:
    """What equals say against it, in words that are the same for all nodes whose equals they are."""
    return f"of its equals ({how}) {clean(fold(those), 200)}: {clean(those[min(those)], 200)}"
