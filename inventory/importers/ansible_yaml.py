"""Ansible's dialect of YAML, which is 1.1 with tags of its own, as plain data with places. Unlike the
inventory's own YAML it has merge keys, `yes` for true and `010` for eight; the last of equal keys counts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import yaml

from inventory.errors import InventoryError, Mark
from inventory.importers.ansible_tree import SECRET
from inventory.located import MAX_DEPTH, MAX_VALUES, LocatedList, LocatedMap
from inventory.text import clean, short

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_SCALARS = frozenset(_TAG + name for name in ("str", "int", "float", "bool", "null", "timestamp", "binary",
                                              "value", "merge"))
_NUMBER = 4096      # characters of a number or date
_SECRETS = frozenset({"!vault", "!vault-encrypted"})


def load(text: str, source: str, note: Callable[[str], None]) -> Any:
    """One document as LocatedMap, LocatedList and plain values, None for an empty one; `note` is called for
    duplicate keys. InventoryError: what Ansible cannot read either, over 64 levels, a million values."""
    try:
        _measure(text, source)
        node = yaml.compose(text, Loader=_Loader)
        return _Reader(source, note).value(node) if node is not None else None
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        # libyaml's own limit, which newer ones meet before ours
        if "maximum nesting depth" in str(problem.problem):
            raise InventoryError(f"nested deeper than {MAX_DEPTH} levels", _mark(source, mark)) from None
        raise InventoryError(f"not valid YAML: {clean(problem.problem or problem.context, 200)}",
                             _mark(source, mark)) from None
    except yaml.YAMLError as problem:
        raise InventoryError(
            f"{source}: not valid YAML: {clean(' '.join(str(problem).split()), 200)}") from None


def _measure(text: str, source: str) -> None:
    """Checks depth and size first, because the code after it recurses."""
    depth = 0
    for values, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            depth += 1
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            depth -= 1
        if depth > MAX_DEPTH:
            raise InventoryError(f"nested deeper than {MAX_DEPTH} levels", _mark(source, event.start_mark))
        if values > MAX_VALUES:
            raise InventoryError(f"holds over {MAX_VALUES} values", _mark(source, event.start_mark))


class _Reader:
    """Converts YAML nodes to data, each once, however many aliases name it."""

    def __init__(self, source: str, note: Callable[[str], None]) -> None:
        self._source = source
        self._note = note
        self._done: dict[int, Any] = {}
        self._open: set[int] = set()
        self._merged = 0
        self._scalars = yaml.constructor.SafeConstructor()

    def value(self, node: Any) -> Any:
        if id(node) in self._done:
            return self._done[id(node)]
        mark = _mark(self._source, node.start_mark)
        if id(node) in self._open:
            raise InventoryError("an alias is inside its own anchor", mark)
        self._open.add(id(node))
        if node.tag in _SECRETS:
            made: Any = SECRET
        elif isinstance(node, yaml.ScalarNode):
            made = self._scalar(node, mark)
        elif node.tag not in (_TAG + "map", _TAG + "seq", _TAG + "set", _TAG + "omap", _TAG + "pairs"):
            raise InventoryError(f"unknown tag {short(node.tag)}", mark)
        elif isinstance(node, yaml.SequenceNode):
            made = LocatedList(mark)
            made.extend(self.value(each) for each in node.value)
        else:
            made = self._map(node, mark)
        self._open.discard(id(node))
        self._done[id(node)] = made
        return made

    def _scalar(self, node: Any, mark: Mark) -> Any:
        if node.tag in ("!unsafe", "!"):
            return node.value
        if node.tag not in _SCALARS:
            raise InventoryError(f"unknown tag {short(node.tag)}", mark)
        if node.tag != _TAG + "str" and len(node.value) > _NUMBER:
            raise InventoryError(f"a value other than text has over {_NUMBER} characters", mark)
        try:
            made = self._scalars.construct_object(node)
        # 2026-99-99, !!int x
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError):
            raise InventoryError(f"{short(node.value)} does not fit its tag {short(node.tag)}",
                                 mark) from None
        return str(made) if isinstance(made, (dt.date, bytes)) else made

    def _map(self, node: Any, mark: Mark) -> LocatedMap:
        made = LocatedMap(mark)
        for key, value in node.value:
            if key.tag == _TAG + "merge":
                self._merge(made, value)
        own: set[str] = set()
        for key, value in node.value:
            if key.tag == _TAG + "merge":
                continue
            place = _mark(self._source, key.start_mark)
            if not isinstance(key, yaml.ScalarNode):
                raise InventoryError("a key must be text, not a map or a list", place)
            if key.value in own:
                self._note(f"{place}: duplicate key {short(key.value)}: as in Ansible, the last one counts")
            own.add(key.value)
            made[key.value] = self.value(value)
            made.key_marks[key.value] = place
            made.value_marks[key.value] = _mark(self._source, value.start_mark)
        return made

    def _merge(self, into: LocatedMap, node: Any) -> None:
        """Adds the keys of the map, or of each in a list, that are not there yet."""
        found = self.value(node)
        for each in found if isinstance(found, LocatedList) else [found]:
            if not isinstance(each, LocatedMap):
                raise InventoryError("a merge key (<<) does not name a map",
                                     _mark(self._source, node.start_mark))
            self._merged += len(each)
            if self._merged > MAX_VALUES:
                raise InventoryError(f"holds over {MAX_VALUES} values with its merge keys written out",
                                     into.mark)
            for key in each:
                if key not in into:
                    into[key] = each[key]
                    into.key_marks[key], into.value_marks[key] = each.key_marks[key], each.value_marks[key]


def _mark(source: str, mark: Any) -> Mark:
    return Mark(source, mark.line + 1, mark.column + 1) if mark is not None else Mark(source, 1, 1)
