"""The result of an importer, and the checks of bounds, names and values that all importers share."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from inventory.entry import check_entry
from inventory.errors import ConfigError, InventoryError, Mark, UsageError
from inventory.located import MAX_BYTES, LocatedList, LocatedMap
from inventory.nodeset import MAX_MENTIONS, MAX_NAME, MAX_NODES, NAME, fold
from inventory.text import clean, short

MAX_NOTES = 50
_NOTE = 300     # characters of one note


@dataclass(frozen=True)
class Imported:
    """What a source holds, under our keys, so that it loads. `source` is a phrase for messages ("hosts.ini"),
    `nodes` has each node's plain values under keys of `inventory.entry`, in the source's order. `groups` are
    expanded. `notes`, at most `MAX_NOTES`, say what was ignored. `sku_places` are the places of SKUs, which
    are checked later, as importers do not know them."""

    source: str
    nodes: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...] = ()
    sku_places: Mapping[str, Mark] = field(default_factory=dict)


@dataclass
class Collected:
    """What an importer has read so far; every name and value is checked as it comes."""

    source: str
    nodes: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    groups: dict[str, dict[str, None]] = field(default_factory=dict)
    _notes: dict[str, dict[str, None]] = field(default_factory=dict)
    _places: dict[str, Mark | None] = field(default_factory=dict)
    _sku_places: dict[str, Mark] = field(default_factory=dict)
    _mentions: int = 0

    def node(
        self, name: str, values: Mapping[str, Any], mark: Mark | None = None,
        marks: Mapping[str, Mark] | None = None,
    ) -> None:
        """Adds a node; `marks` are the places of values. Raises InventoryError for what would not load."""
        if not NAME.fullmatch(name):
            raise self.error(f"{short(name)} is not a node name: expected letters, digits, '.', '-', '_', "
                             f"not '.' or '-' first, at most {MAX_NAME} characters", mark)
        if name in self.nodes:
            before = self._places.get(name)
            raise self.error(f"duplicate node {name}" + (f": it is already at {before}" if before is not None
                                                         else ""), mark)
        if len(self.nodes) >= MAX_NODES:
            raise self.error(f"names over {MAX_NODES} nodes", mark)
        place = mark or Mark(self.source, 1, 1)
        try:
            check_entry(_located(values, place, marks or {}))
        except InventoryError as problem:
            # Without a place in the source, the node is the place.
            raise problem if mark is not None else InventoryError(
                f"{self.source}: {name}: {str(problem).removeprefix(f'{place}: ')}") from None
        self.nodes[name] = MappingProxyType(dict(values))
        self._places[name] = mark
        if "sku" in values and (at := (marks or {}).get("sku", mark)) is not None:
            self._sku_places[name] = at

    def member(self, group: str, name: str) -> None:
        """Puts a node into a group; a name that is invalid for our groups is ignored with a note."""
        if group == "all":
            self.note("the group all is ignored: @all is every node")
        elif not NAME.fullmatch(group):
            self.note(f"the group {short(group)} is ignored: a group's name has letters, digits, '.', '-', "
                      "'_'")
        else:
            self._mentions += 1
            if self._mentions > MAX_MENTIONS:
                raise self.error(f"groups name over {MAX_MENTIONS} nodes in all", None)
            self.groups.setdefault(group, {})[name] = None

    def note(self, text: str, node: str | None = None) -> None:
        """Records what is ignored; nodes with the same note share one line."""
        line = clean(text, _NOTE)
        held = (self._notes.setdefault(line, {}) if len(self._notes) < 10 * MAX_NOTES
                else self._notes.get(line, {}))
        if node is not None:
            held[node] = None

    def error(self, message: str, mark: Mark | None) -> InventoryError:
        """An error that names its place, or else the source."""
        return (InventoryError(message, mark) if mark is not None
                else InventoryError(f"{self.source}: {message}"))

    def done(self) -> Imported:
        """The result; groups hold only nodes that were added. Raises InventoryError when there is no node."""
        if not self.nodes:
            raise InventoryError(f"{self.source}: names no node")
        groups = {group: tuple(name for name in names if name in self.nodes)
                  for group, names in self.groups.items()}
        notes = [f"{_folded(names)}: {text}" if names else text for text, names in self._notes.items()]
        if len(notes) > MAX_NOTES:
            notes[MAX_NOTES - 1:] = [f"and {len(notes) - MAX_NOTES + 1} or more notes like these"]
        return Imported(self.source, MappingProxyType(self.nodes),
                        MappingProxyType({group: names for group, names in groups.items() if names}),
                        tuple(notes), MappingProxyType(self._sku_places))


def read(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file of at most 16 MB; raises InventoryError when it cannot be read or is larger."""
    name = clean(os.fspath(path))
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            data = (file.read(MAX_BYTES + 1) if not stat.S_ISREG(status.st_mode)
                    or status.st_size <= MAX_BYTES else None)
    except FileNotFoundError:
        raise InventoryError(f"{name}: no such file") from None
    except IsADirectoryError:
        raise InventoryError(f"{name}: is a directory, expected a file") from None
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        raise InventoryError(f"{name}: cannot be read: {reason}") from None
    check_size(b"" if data is None else data, name)
    if data is None:
        raise InventoryError(f"{name}: is over the size limit of {MAX_BYTES} bytes")
    return data


def columns(pairs: Iterable[str]) -> dict[str, str]:
    """Keys by the columns' names, of words HEADER=KEY. Raises UsageError."""
    mapping: dict[str, str] = {}
    for pair in pairs:
        header, equals, key = pair.rpartition("=")
        if not equals or not header or not key:
            raise UsageError(f"--map is {short(pair)}, expected HEADER=KEY")
        mapping[header] = key
    return mapping


def check_size(data: bytes | str, source: str) -> None:
    """Raises InventoryError for more than 16 MB."""
    if len(data) > MAX_BYTES:
        raise InventoryError(f"{source}: is over the size limit of {MAX_BYTES} bytes")


def decode(data: bytes, source: str) -> str:
    """Bytes as UTF-8 text, without a byte order mark; raises InventoryError with the place of a bad byte."""
    check_size(data, source)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        before = data[: problem.start].decode("utf-8-sig", "replace")
        mark = Mark(source, before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise InventoryError(f"is not UTF-8 text: byte 0x{data[problem.start]:02x}", mark) from None


def parse_json(text: str, source: str) -> Any:
    """One JSON document; raises InventoryError, with its place, for bad JSON and for too deep nesting."""
    try:
        # Slurm puts line ends of a reason into its JSON
        return json.loads(text, parse_constant=_no_constant, strict=False)
    except json.JSONDecodeError as problem:
        raise InventoryError(f"not valid JSON: {problem.msg}",
                             Mark(source, problem.lineno, problem.colno)) from None
    except RecursionError:
        raise InventoryError(f"{source}: not valid JSON: nested too deep") from None
    except ValueError as problem:       # NaN, or a number of thousands of digits
        raise InventoryError(f"{source}: not valid JSON: {clean(problem, 120)}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")


def _located(values: Mapping[str, Any], mark: Mark, marks: Mapping[str, Mark]) -> LocatedMap:
    """Plain values as the inventory's reader takes them; `marks` are places by key ("labels.gres")."""
    made = LocatedMap(mark)
    for key, value in values.items():
        place = marks.get(key, mark)
        if isinstance(value, Mapping):
            inner = {each.removeprefix(f"{key}."): where for each, where in marks.items()
                     if each.startswith(f"{key}.")}
            made[key] = _located(value, place, inner)
        elif isinstance(value, (list, tuple)):
            made[key] = LocatedList(place)
            made[key].extend(value)
            made[key].value_marks = dict.fromkeys(range(len(value)), place)
        else:
            made[key] = value
        made.key_marks[key] = made.value_marks[key] = place
    return made


def _folded(names: Mapping[str, None]) -> str:
    text = fold(names)
    return text if len(text) <= 120 else f"{next(iter(names))} and {len(names) - 1} other nodes"


__all__ = ["MAX_BYTES", "MAX_NODES", "MAX_NOTES", "Collected", "ConfigError", "Imported", "check_size",
           "decode", "parse_json", "read"]
