"""Merges what an importer found into an inventory: new nodes are added in folded sets,
and existing values win.

Nothing is remembered between imports: a person wrote or approved each value in the file, and the file alone
is the truth. Differing values and nodes that the source lacks stay, and are reported.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Any

from inventory.edit import Document, read_document
from inventory.entry import pci_address, undefined
from inventory.errors import InventoryError
from inventory.importers.base import Imported
from inventory.load import LoadedInventory, parse_with_origins
from inventory.model import Bmc, Inventory, Lifecycle, LifecycleState, Node, PortPlan
from inventory.nodeset import fold
from inventory.place import MAX_KEY, NOTHING, DesiredValues, Path, change, sets_of
from inventory.yamltext import flow, render

_NESTED = ("labels", "ports", "burnin", "bmc")        # their keys merge one by one
_BMC = {"protocol": "speaks", "password": "secret"}     # what the model calls them
_LISTS = ("leaf", "unread", "identity_file", "known_hosts_file")
# ways to log in
_COMMON = ("user", "port", "transport", "privilege", "identity_file", "known_hosts_file", "proxy_jump",
           "python")
_GIVEN_AT = re.compile(r" \(given at [^)]*\)")
_MOST_KEPT = 200     # lines of differences that are printed


@dataclass(frozen=True)
class Merged:
    """The file's text afterwards, and remarks, one line each."""

    text: str
    remarks: tuple[str, ...]


def new_file(imported: Imported, path: str, skus: Collection[str] | None = None) -> Merged:
    """A whole new inventory; how all nodes are logged in to becomes `defaults`. Raises InventoryError."""
    values = {name: _flat(given) for name, given in imported.nodes.items()}
    expected = _load(imported, {}, path, skus).inventory
    common = _common(values)
    document: Document = {"version": 1}
    if common:
        document["defaults"] = _nested(common)
    if imported.groups:
        document["groups"] = {group: _members(names) for group, names in imported.groups.items()}
    document["nodes"] = _entries({name: {key: value for key, value in own.items() if key not in common}
                                  for name, own in values.items()})
    text = render(document)
    found = parse_with_origins(text, path, skus).inventory
    if (dict(found.nodes) != dict(expected.nodes)
        or any(set(found.groups[each]) != set(imported.groups[each]) for each in imported.groups)):
        raise InventoryError(f"{imported.source}: its content cannot be written as an inventory")
    return Merged(text, (f"new: {_count(found.nodes)}", *_notes(imported)))


def merge(text: str, path: str, imported: Imported, *, overwrite: Collection[str] = (), retire: bool = False,
          skus: Collection[str] | None = None) -> Merged:
    """The file's text with what the source has more. Keys in `overwrite` (rack, labels, labels.zone, groups)
    follow the source. With `retire`, nodes that the source lacks become retired. Raises InventoryError."""
    loaded = parse_with_origins(text, path, skus)
    before = loaded.inventory
    document = read_document(text, path)
    defaults = document.get("defaults") or {}
    source = _load(imported, {}, path, None)
    new = {name: given for name, given in imported.nodes.items() if name not in before.nodes}
    added = _load(replace(imported, nodes=new, groups={}), defaults, path, skus).inventory if new else None
    both = [name for name in imported.nodes if name in before.nodes]
    compared = _Compared(loaded, source, overwrite, _controller(defaults, path, skus))
    for name in both:
        compared.node(name, _flat(imported.nodes[name]))
    _check_skus(imported, compared.changed(("sku",)), skus)
    missing = [name for name in before.nodes if name not in imported.nodes]
    retiring = ([name for name in missing if before.nodes[name].lifecycle.state is not LifecycleState.RETIRED]
                if retire else [])

    def expected(_: Inventory) -> dict[str, Node]:
        nodes = {**before.nodes, **compared.expected}
        nodes |= {name: replace(before.nodes[name], lifecycle=Lifecycle(LifecycleState.RETIRED))
                  for name in retiring}
        return nodes | (dict(added.nodes) if added is not None else {})

    desired = list(compared.desired(defaults))
    if retiring:
        desired.append(DesiredValues(("lifecycle",), dict.fromkeys(retiring, "retired"),
                                     defaults.get("lifecycle", "service")))
    flat_defaults = _flat(defaults)
    entries = _entries({name: {key: value for key, value in _flat(given).items()
                               if flat_defaults.get(key) != value} for name, given in new.items()})
    groups = {group: _members(names) for group, names in imported.groups.items() if group not in before.groups
              or ("groups" in overwrite and set(before.groups[group]) != set(names))}
    after = change(text, path, desired, entries, expected, groups, loaded, skus)
    found = parse_with_origins(after, path, skus).inventory
    remarks = [f"new: {_count(new)}"] if new else []
    remarks += compared.kept(imported.source)
    for group, names in imported.groups.items():
        if set(found.groups[group]) != set(names):
            remarks.append(
                f"kept: group {group} {fold(found.groups[group])}, {imported.source} says {fold(names)}")
    if missing:
        done = ("; retired" if retiring else "" if retire
                else "; left as they are (--missing retired retires them)")
        remarks.append(f"not in {imported.source}: {fold(missing)}{done}")
    return Merged(after, (*remarks, *_notes(imported)))


class _Compared:
    """How the source differs from the file for nodes that both have."""

    def __init__(
        self, loaded: LoadedInventory, source: LoadedInventory, overwrite: Collection[str], controller: Bmc,
    ) -> None:
        self._loaded = loaded
        self._source = source
        self._overwrite = frozenset(overwrite)
        self._controller = controller
        self._kept: dict[tuple[str, str, str], list[str]] = {}
        self._values: dict[Path, dict[str, Any]] = {}
        self._equal: dict[Path, dict[str, Any]] = {}
        self.expected: dict[str, Node] = {}

    def node(self, name: str, values: Mapping[Path, Any]) -> None:
        mine, theirs = self._loaded.inventory.nodes[name], self._source.inventory.nodes[name]
        given = self._loaded.origins[name]
        for key, value in values.items():
            dotted = ".".join(key)
            one, other = _field(mine, key), _field(theirs, key)
            # A node without a lifecycle is in service, so that is a value too.
            if dotted not in given and key != ("lifecycle",):
                self._values.setdefault(key, {})[name] = value
            elif one == other:
                self._equal.setdefault(key, {})[name] = value
                continue
            elif self._overwrite & {key[0], dotted}:
                self._values.setdefault(key, {})[name] = value
            else:
                self._kept.setdefault((dotted, _value_text(one), _value_text(other)), []).append(name)
                continue
            self.expected[name] = _with(self.expected.get(name, mine), key, other, self._controller)

    def changed(self, key: Path) -> Collection[str]:
        """The nodes that get a value of the source for this key."""
        return self._values.get(key, {})

    def desired(self, defaults: Mapping[str, Any]) -> Iterator[DesiredValues]:
        otherwise = {("lifecycle",): "service", **_flat(defaults)}
        for key, values in self._values.items():
            yield DesiredValues(key, values, otherwise.get(key, NOTHING), self._equal.get(key, {}),
                                normalise=_normaliser(key))

    def kept(self, source: str) -> list[str]:
        lines = [f"kept: {fold(names)} {key} {mine}, {source} says {theirs}"
                 for (key, mine, theirs), names in self._kept.items()]
        if len(lines) > _MOST_KEPT:
            lines[_MOST_KEPT:] = [f"kept: and {len(lines) - _MOST_KEPT} more differences"]
        return lines


def _load(
    imported: Imported, defaults: Mapping[str, Any], path: str, skus: Collection[str] | None,
) -> LoadedInventory:
    """The source's nodes as loaded from a file at `path`; each has an entry of its own."""
    _check_skus(imported, imported.nodes, skus)
    document: Document = {"version": 1, "defaults": dict(defaults),
                          "nodes": {name: dict(given) for name, given in imported.nodes.items()}}
    try:
        return parse_with_origins(render(document), path, skus)
    except InventoryError as problem:
        from_sets = str(problem).removeprefix(f"{problem.mark}: ")
        raise InventoryError(f"{imported.source}: {_GIVEN_AT.sub('', from_sets)}") from None


def _check_skus(imported: Imported, names: Iterable[str], skus: Collection[str] | None) -> None:
    """Raises InventoryError, with its place in the source, for the first unknown SKU of these nodes."""
    if skus is None:
        return
    for name in names:
        sku = imported.nodes[name].get("sku")
        if isinstance(sku, str) and sku not in skus:
            from_sets = f"sku of {name} is an {undefined('SKU', sku, skus)}"
            mark = imported.sku_places.get(name)
            raise InventoryError(from_sets, mark) if mark is not None else InventoryError(
                f"{imported.source}: {from_sets}")


def _flat(given: Mapping[str, Any]) -> dict[Path, Any]:
    """An entry's values by path; PCI addresses in full form, `become` as a privilege."""
    values: dict[Path, Any] = {}
    for key, value in given.items():
        if key in _NESTED and isinstance(value, Mapping):
            values |= {(key, (pci_address(inner) or inner) if key == "ports" else inner): held
                       for inner, held in value.items()}
        elif key == "bmc":
            values["bmc", "address"] = value        # the shorter way to write it
        elif key == "become":
            values["privilege",] = "become" if value else "unprivileged"
        else:
            values[key,] = value
    return values


def _nested(values: Mapping[Path, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for key, value in values.items():
        if len(key) == 1:
            entry[key[0]] = _plain(value)
        else:
            entry.setdefault(key[0], {})[key[1]] = _plain(value)
    if list(entry.get("bmc", ())) == ["address"]:
        entry["bmc"] = entry["bmc"]["address"]
    return entry


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _common(values: Mapping[str, Mapping[Path, Any]]) -> dict[Path, Any]:
    first = next(iter(values.values()), {})
    return {key: value for key, value in first.items() if len(values) > 1 and key[0] in _COMMON
            and all(key in own and own[key] == value for own in values.values())}


def _entries(values: Mapping[str, Mapping[Path, Any]]) -> Document:
    """Entries that give each node its values: shared ones in folded sets, others in an entry of its own."""
    counts = Counter((key, flow(value)) for own in values.values() for key, value in own.items())
    sets: dict[tuple[tuple[Path, str], ...], list[str]] = {}
    own: dict[str, dict[Path, Any]] = {}
    for name, given in values.items():
        shared = tuple((key, text) for key, value in given.items() if counts[key, text := flow(value)] > 1)
        own[name] = {key: value for key, value in given.items() if counts[key, flow(value)] == 1}
        if shared or not own[name]:
            sets.setdefault(tuple(sorted(shared)), []).append(name)
    entries: dict[str, dict[Path, Any]] = {}
    for shared, names in sets.items():
        keys = {key for key, _ in shared}
        for text in sets_of(names):
            entries[text] = {key: value for key, value in values[names[0]].items() if key in keys}
    for name, given in own.items():
        if given:
            entries.setdefault(name, {}).update(given)
    return {text: _nested(given) for text, given in entries.items()}


def _members(names: Iterable[str]) -> Any:
    texts = list(sets_of(names))
    return texts[0] if len(texts) == 1 and len(texts[0]) <= MAX_KEY else texts


def _field(node: Node, key: Path) -> Any:
    value = getattr(node, key[0])
    if isinstance(value, Bmc):
        return getattr(value, _BMC.get(key[1], key[1]))
    return value.get(key[1]) if len(key) == 2 and value is not None else value


def _controller(defaults: Mapping[str, Any], path: str, skus: Collection[str] | None) -> Bmc:
    """The controller's `defaults`; they apply to a node once it has a controller's address."""
    if not defaults.get("bmc"):
        return Bmc("")
    made: Document = {"version": 1, "defaults": dict(defaults),
                      "nodes": {"controller": {"bmc": {"address": "controller.invalid"}}}}
    return parse_with_origins(render(made), path, skus).inventory.nodes["controller"].bmc or Bmc("")


def _with(node: Node, key: Path, value: Any, controller: Bmc) -> Node:
    changed: Any = value
    if key[0] == "bmc":
        fields: dict[str, Any] = {_BMC.get(key[1], key[1]): value}
        changed = replace(node.bmc or controller, **fields)
    elif len(key) == 2:
        changed = MappingProxyType({**getattr(node, key[0]), key[1]: value})
    values: dict[str, Any] = {key[0]: changed}
    return replace(node, **values)


def _normaliser(key: Path) -> Any:
    def of(value: Any) -> Any:
        if key[0] in _LISTS and not isinstance(value, list):
            return [str(value)]
        if key[0] == "lifecycle" and not isinstance(value, dict):
            return {"state": value}
        return value if isinstance(value, (dict, list)) else str(value)
    return of


def _value_text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    if isinstance(value, Lifecycle):
        return value.state.value
    if isinstance(value, PortPlan):
        return flow({key: inner for key, inner in vars(value).items() if inner is not None})
    return str(value.value) if isinstance(value, Enum) else str(value)


def _count(names: Collection[str]) -> str:
    folded = fold(names)
    return (f"{len(names)} node{'' if len(names) == 1 else 's'}, {folded}" if len(folded) <= 200
            else f"{len(names)} nodes")


def _notes(imported: Imported) -> Iterator[str]:
    return (f"note: {note}" for note in imported.notes)
