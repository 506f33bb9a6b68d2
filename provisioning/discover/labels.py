"""Racks, leaves and ports of nodes as proposals for the inventory, each with its evidence; pure.

Nothing is proposed over a value that the inventory has: what differs is a conflict, for a person. A port gets
its leaf only where the inventory or the SKU says what the port is for: a plan of some ports would make
muster expect those alone. A switch counts among a node's leaves where such a compute port leads to it, or
where its name fits a pattern that a person gave.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from healthcheck.facts.lldpneighbours import LldpNeighbour
from inventory.errors import UsageError
from inventory.importers.base import Collected, Imported
from inventory.model import Inventory, Node, PortPlan
from inventory.nodeset import natural
from inventory.text import short

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,99}")
Plans = Mapping[str, PortPlan]


class LabelState(Enum):
    """How a proposal stands to the inventory."""

    NEW = "new"
    SAME = "as it is"
    CONFLICT = "conflict"       # the inventory says otherwise
    UNCLEAR = "unclear"         # what was found contradicts itself


@dataclass(frozen=True)
class LabelEvidence:
    """What was found of one node. `source` is "lldpctl" or "MAAS"; `pci` has interfaces' addresses. `racks`
    are names, `labels` values by key, each with its reason; `unread` says what could not be read."""

    node: str
    source: str
    neighbours: tuple[LldpNeighbour, ...] = ()
    pci: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    racks: tuple[tuple[str, str], ...] = ()
    labels: Mapping[str, tuple[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class LabelPatterns:
    """What a person said of names: `leaves` of switches that are leaves of the compute network, `rack` of
    switches in whose name the part in place of * is the rack; "" for none."""

    leaves: tuple[str, ...] = ()
    rack: str = ""


@dataclass(frozen=True)
class LabelProposal:
    """One value for one key of a node: rack, leaf, ports.0000:18:00.0.leaf, labels.zone. `has` is what the
    inventory says, empty for nothing; `why` names the evidence."""

    node: str
    key: str
    value: tuple[str, ...]
    has: tuple[str, ...]
    state: LabelState
    why: str


def proposal(node: Node, key: str, value: tuple[str, ...], has: str | None, why: str) -> LabelProposal:
    """That this key of a node gets this value; None stands for nothing yet."""
    if has is None:
        state = LabelState.NEW
    else:
        state = LabelState.SAME if has.lower() == value[0].lower() else LabelState.CONFLICT
    return LabelProposal(node.name, key, value, (has,) if has is not None else (), state, why)


def check_patterns(patterns: LabelPatterns) -> None:
    """Raises UsageError for a pattern that cannot name a rack."""
    if patterns.rack and (patterns.rack.count("*") != 1 or set(patterns.rack) & set("?[]")):
        raise UsageError(f"--rack {short(patterns.rack)}: expected a name with one * in the place of the "
                         "rack, such as 'tor-*'")


def propose(
    found: Sequence[LabelEvidence], inventory: Inventory, usual: Mapping[str, Plans], patterns: LabelPatterns,
) -> tuple[LabelProposal, ...]:
    """All proposals, node by node; `usual` has the ports of each node's kind of machine."""
    names = {node.name.lower() for node in inventory}
    leaves: dict[str, str] = {}
    for node in inventory:
        for name in _leaves(node):
            leaves.setdefault(name.lower(), name)
    shared = _shared(found)
    made: list[LabelProposal] = []
    for one in found:
        if (known := inventory.nodes.get(one.node)) is not None:
            reader = _Reader(known, one, usual.get(one.node, {}), patterns, names, leaves, shared)
            made += reader.proposals()
    return tuple(made)


def entries(proposals: Sequence[LabelProposal], inventory: Inventory, source: str) -> Imported | None:
    """The new values as entries, None without any; a port's keeps what the inventory says of it."""
    values: dict[str, dict[str, Any]] = {}
    for one in proposals:
        if one.state is not LabelState.NEW:
            continue
        entry = values.setdefault(one.node, {})
        first, _, rest = one.key.partition(".")
        if first == "ports":
            pci = rest.removesuffix(".leaf")
            have = inventory.nodes[one.node].ports.get(pci, PortPlan())
            plan = {"role": have.role, "rail": have.rail, "leaf": one.value[0], "expect": have.expect}
            entry.setdefault("ports", {})[pci] = {
                key: value for key, value in plan.items() if value is not None}
        elif first == "labels":
            entry.setdefault("labels", {})[rest] = one.value[0]
        else:
            entry[first] = list(one.value) if first == "leaf" and len(one.value) > 1 else one.value[0]
    if not values:
        return None
    collected = Collected(source)
    for name in (node.name for node in inventory if node.name in values):
        collected.node(name, values[name])
    return collected.done()


def _leaves(node: Node) -> Iterator[str]:
    yield from node.leaf
    yield from (plan.leaf for plan in node.ports.values() if plan.leaf)


def _shared(found: Sequence[LabelEvidence]) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """The nodes that see one and the same port of a switch, where several do: a cable has two ends."""
    seen: dict[tuple[str, str], dict[str, None]] = {}
    for one in found:
        for other in one.neighbours:
            if other.chassis and other.port:
                seen.setdefault((other.chassis, other.port), {})[one.node] = None
    return {end: tuple(nodes) for end, nodes in seen.items() if len(nodes) > 1}


class _Reader:
    """What the evidence of one node comes to."""

    def __init__(
        self, node: Node, found: LabelEvidence, usual: Plans, patterns: LabelPatterns, names: set[str],
        leaves: Mapping[str, str], shared: Mapping[tuple[str, str], tuple[str, ...]],
    ) -> None:
        self._node = node
        self._found = found
        self._patterns = patterns
        self._names = names
        self._known = leaves
        self._shared = shared
        self._usual = usual

    def proposals(self) -> Iterator[LabelProposal]:
        """Rack, leaves, ports in the order of their addresses, labels."""
        ports, leaves, racks = [], dict[str, list[str]](), list(self._found.racks)
        unclear: dict[str, list[str]] = {}
        for interface, switches in self._switches().items():
            pci = self._found.pci.get(interface, "")
            role, trouble = self._role(pci), self._trouble(switches)
            names = [self._canonical(one.system) for one in switches]
            at = f"{self._found.source}: {interface} leads to {_end(switches[0])}"
            if role:
                ports.append(self._port(pci, names[0], at, trouble))
            if role == "compute" or any(
                    _fits(name, pattern) for name in names for pattern in self._patterns.leaves):
                if trouble:
                    unclear.setdefault("leaf", []).append(f"{interface}: {trouble}")
                leaves.setdefault(names[0], []).append(f"{interface} {switches[0].port}".strip())
            elif self._patterns.rack and (rack := _starred(names[0], self._patterns.rack)):
                if trouble:
                    unclear.setdefault("rack", []).append(f"{interface}: {trouble}")
                racks.append((rack, at))
        if racks:
            yield self._unclear("rack", unclear) or self._rack(racks)
        if leaves:
            yield self._unclear("leaf", unclear) or self._leaf(leaves)
        yield from sorted(ports, key=lambda one: one.key)
        for key, (value, why) in self._found.labels.items():
            yield proposal(self._node, f"labels.{key}", (value,), self._node.labels.get(key),
                           f"{self._found.source}: {why}")

    def _unclear(self, key: str, why: Mapping[str, Sequence[str]]) -> LabelProposal | None:
        """Part of the truth is no proposal: what would be missing is not seen in the file any more."""
        if key not in why:
            return None
        has = self._node.leaf if key == "leaf" else (self._node.rack,) if self._node.rack else ()
        return LabelProposal(self._node.name, key, (), has, LabelState.UNCLEAR, "; ".join(why[key][:8]))

    def _switches(self) -> dict[str, list[LldpNeighbour]]:
        """The switches at each interface; other nodes, their cards and whatever forwards nothing are none."""
        found: dict[str, list[LldpNeighbour]] = {}
        for one in self._found.neighbours:
            first = one.system.lower().partition(".")[0]
            if one.switches is False or one.system.lower() in self._names or first in self._names:
                continue
            held = found.setdefault(one.interface, [])
            if (one.chassis, one.port) not in [(other.chassis, other.port) for other in held]:
                held.append(one)
        return found

    def _trouble(self, switches: Sequence[LldpNeighbour]) -> str:
        """Why the switch at an interface is not known."""
        if len(switches) > 1:
            return f"it leads to {' and to '.join(map(_end, switches[:4]))}"
        one = switches[0]
        if not _NAME.fullmatch(one.system):
            return (f"the switch calls itself {short(one.system)}" if one.system
                    else f"the switch {one.chassis or 'there'} says no name")
        others = [name for name in self._shared.get((one.chassis, one.port), ()) if name != self._node.name]
        return f"{', '.join(others[:4])} is at {_end(one)}, too" if others else ""

    def _role(self, pci: str) -> str:
        """What a port is for, by the inventory or the SKU; "" where neither says anything of it."""
        own, usual = self._node.ports.get(pci), self._usual.get(pci)
        if own is None and usual is None:
            return ""
        return (own.role if own is not None else None) or (usual.role if usual is not None else None) or (
            "compute")

    def _canonical(self, name: str) -> str:
        """A switch as the inventory spells it, if it knows it by its full or its first name."""
        return self._known.get(name.lower()) or self._known.get(name.lower().partition(".")[0]) or name

    def _port(self, pci: str, name: str, why: str, trouble: str) -> LabelProposal:
        planned = self._node.ports.get(pci)
        has = planned.leaf if planned is not None else None
        key = f"ports.{pci}.leaf"
        if trouble:
            return LabelProposal(self._node.name, key, (), (has,) if has else (), LabelState.UNCLEAR, trouble)
        return proposal(self._node, key, (name,), has, why)

    def _rack(self, racks: Sequence[tuple[str, str]]) -> LabelProposal:
        names = list(dict.fromkeys(name for name, _ in racks))
        why = "; ".join(dict.fromkeys(why if len(names) == 1 else f"{name}: {why}" for name, why in racks))
        has = self._node.rack
        if len(names) > 1 or not _NAME.fullmatch(names[0]):
            return LabelProposal(self._node.name, "rack", (), (has,) if has else (), LabelState.UNCLEAR, why)
        return proposal(self._node, "rack", (names[0],), has, why)

    def _leaf(self, leaves: Mapping[str, Sequence[str]]) -> LabelProposal:
        names = tuple(sorted(leaves, key=natural))
        why = f"{self._found.source}: " + "; ".join(
            f"{name} at {', '.join(leaves[name][:8])}" for name in names)
        has = self._node.leaf
        known = {name.lower() for name in has}
        if has and all(name.lower() in known for name in names):
            # A port whose link is down shows no neighbour.
            return LabelProposal(self._node.name, "leaf", has, has, LabelState.SAME, why)
        state = LabelState.CONFLICT if has else LabelState.NEW
        return LabelProposal(self._node.name, "leaf", names, has, state, why)


def _end(one: LldpNeighbour) -> str:
    return " ".join(filter(None, (one.system or one.chassis or "a switch without a name", one.port)))


def _fits(name: str, pattern: str) -> bool:
    return fnmatchcase(name.lower(), pattern.lower())


def _starred(name: str, pattern: str) -> str:
    """What stands in place of the pattern's star, in a full name's first part or all of it; or ""."""
    before, _, after = pattern.lower().partition("*")
    for spelt in (name.partition(".")[0], name):
        low = spelt.lower()
        if len(low) > len(before) + len(after) and low.startswith(before) and low.endswith(after):
            return spelt[len(before): len(spelt) - len(after)]
    return ""
