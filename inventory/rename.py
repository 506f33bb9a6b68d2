"""Gives a node another name in the text of an inventory: in entries, sets and groups alone. An entry of its
own keeps its place and gets the new key. A set is written without the old name and with the new one. A node
is reached by its name where it has no `address`: that follows the name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from inventory.edit import read_document, rewrite
from inventory.errors import InventoryError
from inventory.load import parse_with_origins
from inventory.model import Inventory
from inventory.nodeset import NAME, expand, fold
from inventory.text import short

# What joins the parts of a node set; an operator stands before the part that it is about.
_PARTS = re.compile(r"([,!&^]?)((?:\[[^\]]*\]|[^,!&^\[\]])+)")
_INDIRECT = frozenset("@*?")


def renamed(text: str, source: str, old: str, new: str, skus: Collection[str] | None = None) -> str:
    """The text with `new` for `old`. Raises InventoryError, also where it can only be done by hand."""
    before = parse_with_origins(text, source, skus).inventory
    check_name(new)
    if old not in before.nodes:
        raise InventoryError(f"{source} has no node {short(old)}")
    if new in before.nodes:
        raise InventoryError(f"{source} has a node {new} already: of one machine only one entry can be right")
    document = read_document(text, source)
    document["nodes"] = {_in_set(key, old, new): value for key, value in document["nodes"].items()}
    groups = document.get("groups") or {}
    for name, value in groups.items():
        members = {new if each == old else each for each in before.groups[name]}
        if set(before.groups[name]) != members or _mentions(value, old):
            groups[name] = _in_group(value, before, old, new, members)
    after = rewrite(text, document, source)
    _check(before, parse_with_origins(after, source, skus).inventory, source, old, new)
    return after


def check_name(name: str) -> None:
    """Raises InventoryError for what is no node's name."""
    if not NAME.fullmatch(name):
        raise InventoryError(f"{short(name)} is not a node name: expected letters, digits, '.', '-', '_'")


def _in_set(text: str, old: str, new: str) -> str:
    """The key of an entry; one that names a group follows the group."""
    if "@" in text:
        return text
    names = expand(text)
    if old not in names:
        return text
    return fold([new if name == old else name for name in names])


def _items(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _mentions(value: object, old: str) -> bool:
    return any(_is_of(part, old) for item in _items(value) for _, part in _PARTS.findall(item))


def _is_of(part: str, old: str) -> bool:
    return not _INDIRECT & set(part) and old in expand(part.strip())


def _in_group(value: object, before: Inventory, old: str, new: str, members: set[str]) -> object:
    """A group's texts, with its members under their names from now on. `!old` becomes `!new`."""
    items = [_in_item(item, old, new) for item in _items(value)]
    groups = {name: tuple(new if each == old else each for each in held)
              for name, held in before.groups.items()}
    every = {new if each == old else each for each in before.nodes}
    found = {name for item in items for name in expand(item, groups, every)}
    if new in members - found:          # a wildcard does not match it any more
        items[-1] += f",{new}"
    elif new in found - members:        # a wildcard does now
        items = [f"{item}!{new}" if new in expand(item, groups, every) else item for item in items]
    return items if isinstance(value, list) else items[0]


def _in_item(text: str, old: str, new: str) -> str:
    if not _INDIRECT & set(text) and {operator for operator, _ in _PARTS.findall(text)} <= {"", ","}:
        return _in_set(text, old, new)
    done = []
    for operator, part in _PARTS.findall(text):
        if not _is_of(part, old):
            done.append(operator + part)
            continue
        names = expand(part.strip())
        if names == (old,) or operator in ("", ",", "!"):
            # an operator is about the one part behind it
            rest = _PARTS.findall(fold(name for name in names if name != old))
            done.append(operator + (operator or ",").join([*(each for _, each in rest), new]))
        else:
            raise InventoryError(f"{short(text)}: a set behind {operator} cannot be edited; write its names "
                                 "one by one")
    return "".join(done)


def _check(before: Inventory, after: Inventory, source: str, old: str, new: str) -> None:
    """Raises InventoryError unless nothing but the name has changed."""
    nodes = {new if name == old else name: replace(node, name=new) if name == old else node
             for name, node in before.nodes.items()}
    if dict(after.nodes) == nodes and _as_sets(after.groups) == _as_sets(
            {name: [new if each == old else each for each in held] for name, held in before.groups.items()}):
        return
    raise InventoryError(f"{source}: the new name would change other nodes or groups, too; edit it by hand")


def _as_sets(groups: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset(held) for name, held in groups.items()}
