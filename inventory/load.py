"""The inventory file: YAML of nodes, node sets, groups and defaults, checked and merged."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from inventory.burninby import read_burnin
from inventory.cordonby import read_cordon
from inventory.entry import BMC_ADDRESS, EntryReader, Key, Values, check_keys, described, no_bmc_address
from inventory.errors import InventoryError, Mark
from inventory.locate import find_inventory
from inventory.located import LocatedList, LocatedMap, load_yaml, parse_yaml
from inventory.model import (
    Bmc,
    BurnInSettings,
    Inventory,
    Lifecycle,
    LifecycleState,
    Node,
    Privilege,
    Secret,
    Speaks,
    StageLimits,
    Via,
)
from inventory.nodeset import MAX_NODES, NAME, Groups, did_you_mean, fold
from inventory.text import short

# names that all entries together may spell out, which bounds the time for overlapping sets
MAX_NAMED = 1_000_000

_BMC_PORTS = {Speaks.REDFISH: 443, Speaks.IPMI: 623}
_TOP_KEYS = ("version", "cordon", "burnin", "defaults", "groups", "nodes")


@dataclass(frozen=True)
class LoadedInventory:
    """An inventory, and by node where each value came from; those of labels and such as `labels.KEY`."""

    inventory: Inventory
    origins: Mapping[str, Mapping[str, Mark]]


def load_inventory(
    path: str | os.PathLike[str], known_skus: Collection[str] | None = None,
    known_profiles: Collection[str] | None = None,
) -> Inventory:
    """The inventory of a file; nodes in its order, groups expanded. An entry for one node refines entries for
    sets, and both refine `defaults`; labels, ports, burnin, bmc and limits merge key by key. Names of SKUs
    and profiles are checked only where the known ones are given; relative paths start at the inventory's
    folder. Raises InventoryError: one line with file, line and column, the key, and what was expected."""
    return _load(path, known_skus, known_profiles)[0]


def usual_inventory(option: str | None) -> Inventory | None:
    """The inventory that `find_inventory` finds; None where there is none."""
    path = find_inventory(option)
    return load_inventory(path) if path is not None else None


def load_with_origins(
    path: str | os.PathLike[str], known_skus: Collection[str] | None = None,
    known_profiles: Collection[str] | None = None,
) -> LoadedInventory:
    """As `load_inventory`, and keeps where each value stands."""
    return _located(*_load(path, known_skus, known_profiles))


def parse_with_origins(
    text: str, path: str | os.PathLike[str], known_skus: Collection[str] | None = None,
) -> LoadedInventory:
    """As `load_with_origins`, from text."""
    return _located(*_read(parse_yaml(text, os.fspath(path), error=InventoryError), os.fspath(path),
                           known_skus))


def _located(inventory: Inventory, merged: Mapping[str, Values]) -> LoadedInventory:
    origins = {name: {_dotted(key): given.mark for key, given in values.items()}
               for name, values in merged.items()}
    return LoadedInventory(inventory, origins)


def _load(
    path: str | os.PathLike[str], known_skus: Collection[str] | None, known_profiles: Collection[str] | None,
) -> tuple[Inventory, Mapping[str, Values]]:
    return _read(load_yaml(path, error=InventoryError), os.fspath(path), known_skus, known_profiles)


def _read(
    document: Any, source: str, known_skus: Collection[str] | None,
    known_profiles: Collection[str] | None = None,
) -> tuple[Inventory, Mapping[str, Values]]:
    if not isinstance(document, LocatedMap):
        raise InventoryError("expected a map with the keys version and nodes", Mark(source, 1, 1))
    check_keys(document, _TOP_KEYS, "the inventory")
    _check_version(document, source)
    folder = Path(source).absolute().parent
    cordon = read_cordon(document, folder)
    burnin = read_burnin(document)
    reader = EntryReader(folder, known_skus, known_profiles)
    defaults = reader.entry(_submap(document, "defaults"))
    written = _groups(_submap(document, "groups"))
    merged = _merge(_submap(document, "nodes"), defaults, Groups(written), reader)
    nodes = {name: _node(name, values, defaults) for name, values in merged.items()}
    _check_addresses(nodes, merged)
    _check_controllers(nodes, merged)
    _check_macs(nodes, merged)
    return (Inventory(MappingProxyType(nodes), MappingProxyType(_expand_groups(written, nodes)), source,
                      cordon, burnin), merged)


def _dotted(key: Key) -> str:
    return key if isinstance(key, str) else ".".join(key)


def _check_version(document: LocatedMap, source: str) -> None:
    if "version" not in document:
        raise InventoryError("the key version is missing, expected version: 1", Mark(source, 1, 1))
    if type(document["version"]) is not int or document["version"] != 1:
        raise InventoryError(f"version is {described(document['version'])}, expected 1",
                             document.value_marks["version"])


def _submap(document: LocatedMap, key: str) -> LocatedMap:
    """The map under a key; an absent or empty one is an empty map."""
    value = document.get(key)
    if value is None:
        return LocatedMap(document.key_marks.get(key, document.mark))
    if not isinstance(value, LocatedMap):
        raise InventoryError(f"{key} is {described(value)}, expected a map", document.value_marks[key])
    return value


# groups

def _groups(found: LocatedMap) -> dict[str, list[tuple[str, Mark]]]:
    groups: dict[str, list[tuple[str, Mark]]] = {}
    for name, value in found.items():
        place = found.key_marks[name]
        if not NAME.fullmatch(name):
            raise InventoryError(
                f"{short(name)} is not a group name: expected letters, digits, '.', '-', '_'", place)
        if name == "all":
            raise InventoryError("a group cannot be called all: @all is every node", place)
        items = value if isinstance(value, LocatedList) else [value]
        groups[name] = []
        for at, item in enumerate(items):
            mark = value.value_marks[at] if isinstance(value, LocatedList) else found.value_marks[name]
            written = value.written.get(at) if isinstance(value, LocatedList) else found.written.get(name)
            text = written if isinstance(item, int) and not isinstance(item, bool) else item
            if not isinstance(text, str) or not text:
                raise InventoryError(
                    f"group {name} is {described(item)}, expected a node set or a list of them", mark)
            groups[name].append((text, mark))
    return groups


def _expand_groups(
    written: Mapping[str, Sequence[tuple[str, Mark]]], nodes: Mapping[str, Node],
) -> dict[str, tuple[str, ...]]:
    groups = Groups(written, nodes.keys())
    members = {name: groups.members(name) for name in written}
    for name, texts in written.items():
        if all(member in nodes for member in members[name]):
            continue
        for text, mark in texts:
            unknown = [member for member in groups.expand(text, mark) if member not in nodes]
            if unknown:
                hint = (f"; did you mean @{unknown[0]}?" if unknown[0] in written
                        else did_you_mean(unknown[0], nodes))
                raise InventoryError(
                    f"group {name} names {_few(unknown)}, which no entry under nodes describes{hint}", mark)
    return members


# nodes

def _merge(found: LocatedMap, defaults: Values, groups: Groups, reader: EntryReader) -> dict[str, Values]:
    """The values of each node, in the order in which the file first names it."""
    sets: dict[str, Values] = {}
    single: dict[str, Values] = {}
    single_marks: dict[str, Mark] = {}
    named = 0
    for text, value in found.items():
        mark = found.key_marks[text]
        names = groups.expand(text, mark)
        named += len(names)
        if named > MAX_NAMED:
            raise InventoryError(f"the entries up to here spell out over {MAX_NAMED} names", mark)
        if not names:
            raise InventoryError(f"{short(text)} names no node", mark)
        if value is not None and not isinstance(value, LocatedMap):
            raise InventoryError(f"{short(text)} is {described(value)}, expected a map of keys",
                                 found.value_marks[text])
        values = reader.entry(value) if value is not None else {}
        if len(names) == 1 and "@" not in text:      # a group is a set, however many are in it today
            name = names[0]
            if name in single:
                raise InventoryError(
                    f"duplicate key: {name} already has an entry of its own at {single_marks[name]}", mark)
            single[name], single_marks[name] = values, mark
            sets.setdefault(name, {})
        else:
            for name in names:
                _join(name, sets.setdefault(name, {}), values)
        if len(sets) > MAX_NODES:
            raise InventoryError(f"names over {MAX_NODES} nodes", mark)
    if not sets:
        raise InventoryError("nodes names no node; expected entries such as gpu[001-008]: {rack: r01}",
                             found.mark)
    return {name: _with_defaults(defaults, {**values, **single.get(name, {})})
            for name, values in sets.items()}


def _with_defaults(defaults: Values, own: Values) -> Values:
    """A node's values. `defaults` of controllers apply only to nodes with a controller's address."""
    merged = {**defaults, **own}
    if BMC_ADDRESS not in merged:
        for key, given in own.items():
            if key[0] == "bmc":
                raise no_bmc_address(given.mark)
        merged = {key: given for key, given in merged.items() if key[0] != "bmc"}
    return merged


def _join(name: str, into: Values, values: Values) -> None:
    """Adds a set's values to a node's; two sets may agree, never differ."""
    for key, given in values.items():
        held = into.setdefault(key, given)
        if held is not given and held.value != given.value:
            raise InventoryError(
                f"two sets disagree on {_dotted(key)} of {name}: {_value_text(held.value)} at {held.mark}, "
                f"{_value_text(given.value)} here",
                given.mark,
            )


def _node(name: str, values: Values, defaults: Values) -> Node:
    plain: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for key, given in values.items():
        if isinstance(key, str):
            plain[key] = given.value
        elif key[0] == "limits" and defaults.get(key) is given:
            nested.setdefault("default_limits", {})[key[1]] = given.value
        else:
            nested.setdefault(key[0], {})[key[1]] = given.value
    for key, inner in nested.items():
        plain[key] = (BurnInSettings(**inner) if key == "burnin" else _bmc(**inner) if key == "bmc"
                      else StageLimits(**inner) if key in ("limits", "default_limits")
                      else MappingProxyType(inner))
    return Node(name, **plain)


def _bmc(address: str, protocol: Speaks = Speaks.REDFISH, password: Secret | None = None, **more: Any) -> Bmc:
    return Bmc(address, speaks=protocol, secret=password, **more)


def _check_controllers(nodes: Mapping[str, Node], merged: Mapping[str, Values]) -> None:
    """Refuses two nodes on one controller and system of it: the wrong machine would be powered off."""
    seen: dict[tuple[str, tuple[int, Speaks] | None], dict[str | None, str]] = {}
    for node in nodes.values():
        if node.bmc is None or node.lifecycle.state is LifecycleState.RETIRED:
            continue
        # At the ports that controllers have by themselves an address is one controller,
        # whatever is spoken there.
        usual = node.bmc.port in (None, _BMC_PORTS[node.bmc.speaks])
        others = seen.setdefault((node.bmc.address.lower(), None if usual or node.bmc.port is None
                                  else (node.bmc.port, node.bmc.speaks)), {})
        system = node.bmc.system
        other = next(iter(others.values()), None) if system is None else others.get(system, others.get(None))
        if other is not None:
            place = merged[other][BMC_ADDRESS].mark
            raise InventoryError(
                f"{node.name} has the bmc of {other} (given at {place}): each node needs its own, or its own "
                "system: of one that has several", merged[node.name][BMC_ADDRESS].mark)
        others[system] = node.name


def _check_macs(nodes: Mapping[str, Node], merged: Mapping[str, Values]) -> None:
    """Refuses two nodes with one hardware address: the wrong machine would be installed."""
    seen: dict[str, str] = {}
    for node in nodes.values():
        if node.lifecycle.state is LifecycleState.RETIRED:
            continue
        for address in node.boot_mac:
            if (other := seen.setdefault(address, node.name)) != node.name:
                raise InventoryError(
                    f"{node.name} has the boot_mac {address} of {other} (given at "
                    f"{merged[other]['boot_mac'].mark}): each node needs its own",
                    merged[node.name]["boot_mac"].mark)


def _check_addresses(nodes: Mapping[str, Node], merged: Mapping[str, Values]) -> None:
    """Refuses two nodes in service at one address: one machine would be measured twice, the other never. A
    node without an address is reached by its name."""
    seen: dict[tuple[str, int | None, str | None], list[Node]] = {}
    for node in nodes.values():
        if node.in_service:
            # DNS takes no notice of case, or of a dot at the end.
            place = ((node.address or node.name).lower().rstrip("."), node.port, node.proxy_jump)
            seen.setdefault(place, []).append(node)
    for places in seen.values():
        first, *others = sorted(places, key=lambda node: node.address is not None)
        others = [node for node in others if node.address is not None]
        if others:
            names = [node.name for node in others]
            where = "its name"
            if first.address is not None:
                where = f"given at {merged[first.name]['address'].mark}"
            raise InventoryError(
                f"{_few(names)} {'has' if len(names) == 1 else 'have'} the address and port of {first.name} "
                f"({where}): each node in service needs its own",
                merged[names[0]]["address"].mark)


# words for messages

def _value_text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, Lifecycle):
        return value.state.value
    if isinstance(value, Secret):
        return f"{value.source.value} {' '.join(map(short, value.words))}"
    if isinstance(value, (Via, Privilege, Speaks)):
        return str(value.value)
    return short(value) if isinstance(value, str) else str(value)


def _few(names: Sequence[str]) -> str:
    folded = fold(names)
    return folded if len(folded) <= 120 else f"{names[0]} and {len(names) - 1} other nodes"
