"""Which entries of an inventory file to change so that nodes get other values: a person's choice. An entry
for exactly the nodes meant is changed; a set made for this one key shrinks when some of its nodes leave it;
many nodes without a value get one folded entry; the rest get their own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from inventory.edit import Document, equal, read_document, rewrite
from inventory.entry import pci_address
from inventory.errors import InventoryError
from inventory.load import LoadedInventory, parse_with_origins
from inventory.model import Inventory, Node
from inventory.nodeset import expand, fold, natural

Path = tuple[str, ...]      # a key of an entry, such as ("rack",) or ("labels", "zone")
NOTHING = object()          # no value: what the defaults say holds

MAX_KEY = 100               # characters of one folded key; YAML allows 1024, a person reads fewer


@dataclass(frozen=True)
class DesiredValues:
    """The values that nodes are to have under one key; `otherwise` is that of a node without an entry. Nodes
    in `satisfied` are not written, but count where all nodes of a set must agree. `tidy` removes a node's own
    value where sets and defaults give the same. Values are compared after `normalise`."""

    key: Path
    values: Mapping[str, Any]
    otherwise: Any = NOTHING
    satisfied: Mapping[str, Any] = field(default_factory=dict)
    tidy: bool = False
    normalise: Callable[[Any], Any] = lambda value: value


def change(
    text: str, source: str, desired_values: Iterable[DesiredValues], add: Document,
    expected: Callable[[Inventory], Mapping[str, Node]], groups: Mapping[str, str], loaded: LoadedInventory,
    skus: Any = None,
) -> str:
    """The text with the desired values, the entries `add` and the groups; loaded, its nodes are what
    `expected` makes of the inventory as it was. Raises InventoryError when no edit does that."""
    wanted = dict(expected(loaded.inventory))
    trouble: InventoryError | None = None
    for by_sets in (True, False):
        document = read_document(text, source)
        try:
            for desired in desired_values:
                _place(document, loaded.inventory.groups, desired, by_sets)
            document["nodes"].update(add)
            if groups:
                document["groups"] = {**(document.get("groups") or {}), **groups}
            edited = rewrite(text, document, source)
            found = parse_with_origins(edited, source, skus).inventory
        except InventoryError as problem:
            trouble = problem
            continue
        if (dict(found.nodes) == wanted and list(found.nodes)[: len(loaded.inventory)]
            == list(loaded.inventory.nodes)):
            return edited
    raise trouble or InventoryError(f"{source}: found no edit that changes only this; edit it by hand")


def sets_of(names: Iterable[str]) -> Iterator[str]:
    """Folded node sets, each short enough for a line, that together name exactly these nodes."""
    ordered = sorted(names, key=natural)
    folded = fold(ordered)
    if len(folded) <= MAX_KEY or len(ordered) == 1:
        yield folded
        return
    half = len(ordered) // 2
    yield from sets_of(ordered[:half])
    yield from sets_of(ordered[half:])


@dataclass
class _Entry:
    text: str
    names: frozenset[str]
    own: bool       # an entry of one node, which refines sets
    value: Any      # NOTHING where it does not say


def _entries(document: Document, groups: Mapping[str, Any], key: Path) -> Iterator[_Entry]:
    for text, held in document["nodes"].items():
        names = frozenset(expand(text, groups))
        yield _Entry(text, names, len(names) == 1 and "@" not in text, _get(held, key))


def _place(document: Document, groups: Mapping[str, Any], desired: DesiredValues, by_sets: bool) -> None:
    """Changes the document so that the nodes get the desired values, judging by entries alone."""
    entries = list(_entries(document, groups, desired.key))
    if by_sets:
        entries = _shrink(document, entries, desired)
        _change_sets(document, entries, desired)
    from_sets: dict[str, Any] = {}       # by sets
    own: dict[str, _Entry] = {}
    by_set: set[str] = set()
    for entry in entries:
        if entry.own:
            own.update(dict.fromkeys(entry.names, entry))
        else:
            by_set |= entry.names
            if entry.value is not NOTHING:
                from_sets.update(dict.fromkeys(entry.names, entry.value))
    fresh: dict[str, tuple[Any, list[str]]] = {}
    for name, value in desired.values.items():
        inherited = _equal(desired, from_sets.get(name, desired.otherwise), value)
        single = own.get(name)
        if single is None:
            if not inherited:
                if by_sets and name not in from_sets:
                    fresh.setdefault(repr(desired.normalise(value)), (value, []))[1].append(name)
                else:
                    _put(document, name, desired.key, value)
        elif inherited and (desired.tidy or not _equal(desired, single.value, value)):
            _drop(document, single.text, desired.key)
            if not document["nodes"][single.text] and single.value is not NOTHING and name in by_set:
                del document["nodes"][single.text]
        elif not _equal(desired, single.value, value):
            _put(document, single.text, desired.key, value)
    for value, names in fresh.values():
        for text in sets_of(names):
            _put(document, text, desired.key, value)


def _shrink(document: Document, entries: list[_Entry], desired: DesiredValues) -> list[_Entry]:
    """Removes nodes that get another value from sets that hold only this key."""
    renamed: dict[str, str] = {}
    after: list[_Entry] = []
    for entry in entries:
        leaving = {name for name in entry.names if name in desired.values
                   and not _equal(desired, entry.value, desired.values[name])}
        alone = (not entry.own and entry.value is not NOTHING
                 and _only(document["nodes"][entry.text], desired.key) and "@" not in entry.text)
        named = ({name for other in entries if other is not entry for name in other.names} if alone
                 and leaving else set())
        staying = entry.names - leaving
        if not leaving or not staying or not leaving <= named:
            after.append(entry)
            continue
        text = fold(staying)
        if (len(text) > MAX_KEY or text in document["nodes"]
            or (len(staying) == 1 and any(e.own and e.names == staying for e in entries))):
            after.append(entry)
            continue
        renamed[entry.text] = text
        after.append(_Entry(text, frozenset(staying), len(staying) == 1, entry.value))
    document["nodes"] = {renamed.get(text, text): held for text, held in document["nodes"].items()}
    return after


def _change_sets(document: Document, entries: list[_Entry], desired: DesiredValues) -> None:
    """Changes sets whose nodes all get one value, widest first, unless a set would then disagree."""
    sets = sorted((entry for entry in entries if not entry.own), key=lambda entry: -len(entry.names))
    covered: set[str] = set()
    wanted = {**desired.satisfied, **desired.values}
    for entry in list(sets):
        if not entry.names <= wanted.keys() or entry.names.isdisjoint(desired.values):
            continue
        value = wanted[next(iter(entry.names))]
        if not all(_equal(desired, wanted[name], value) for name in entry.names):
            continue
        if entry.value is NOTHING:
            if _equal(desired, desired.otherwise, value) or entry.names <= covered:
                continue
            held = [other for other in sets if other.value is not NOTHING and other.names & entry.names]
            if any(not other.names <= wanted.keys() for other in held
                   if not _equal(desired, other.value, value)):
                continue
            if not entry.names - {name for other in held for name in other.names}:
                continue
        if not _equal(desired, entry.value, value):
            if _equal(desired, desired.otherwise, value):
                _drop(document, entry.text, desired.key)
                entry.value = NOTHING
                if (not document["nodes"][entry.text]
                    and entry.names <= {n for other in entries if other is not entry for n in other.names}):
                    del document["nodes"][entry.text]
                    entries.remove(entry)
                    sets.remove(entry)
            else:
                _put(document, entry.text, desired.key, value)
                entry.value = value
        covered |= entry.names


def _equal(desired: DesiredValues, one: Any, other: Any) -> bool:
    if one is NOTHING or other is NOTHING:
        return one is other
    return equal(desired.normalise(one), desired.normalise(other))


def _spelt(held: Any, key: Path) -> Path:
    """The key as this entry writes it: a PCI address may be short, and a controller's address stand alone."""
    if key == ("bmc", "address") and isinstance(held, dict) and isinstance(held.get("bmc"), str):
        return ("bmc",)
    if key[0] == "ports" and isinstance(held, dict) and isinstance(held.get("ports"), dict):
        return (key[0], next((each for each in held["ports"] if pci_address(each) == key[1]), key[1]))
    return key


def _get(held: Any, key: Path) -> Any:
    if key == ("privilege",) and isinstance(held, dict) and "become" in held:
        return "become" if held["become"] else "unprivileged"
    for part in _spelt(held, key):
        if not isinstance(held, dict) or part not in held:
            return NOTHING
        held = held[part]
    return held


def _only(held: Any, key: Path) -> bool:
    for part in _spelt(held, key):
        if not isinstance(held, dict) or list(held) != [part]:
            return False
        held = held[part]
    return True


def _put(document: Document, text: str, key: Path, value: Any) -> None:
    held = document["nodes"].get(text)
    if not isinstance(held, dict):
        held = document["nodes"][text] = {}
    if key == ("privilege",):
        held.pop("become", None)        # the older way to write it, which may not stand beside the newer
    key = _spelt(held, key)
    if len(key) == 2 and key[0] == "bmc" and isinstance(held.get("bmc"), str):
        held["bmc"] = {"address": held["bmc"]}
    for part in key[:-1]:
        if not isinstance(held.get(part), dict):
            held[part] = {}
        held = held[part]
    held[key[-1]] = copy.deepcopy(value)


def _drop(document: Document, text: str, key: Path) -> None:
    held = document["nodes"][text]
    key = (("become",) if key == ("privilege",) and isinstance(held, dict) and "become" in held
           else _spelt(held, key))
    if _get(held, key) is NOTHING:
        return
    for part in key[:-1]:
        held = held[part]
    del held[key[-1]]
    if not held and len(key) > 1:
        _drop(document, text, key[:-1])
