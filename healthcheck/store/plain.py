"""Frozen values as JSON and back, by the types of their fields."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints


def plain(value: Any) -> Any:
    """A value as JSON can hold it: dataclasses and mappings become objects, enums their values, collections
    lists. What JSON has no form for becomes its text."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (Sequence, AbstractSet)) and not isinstance(value, bytes):
        return [plain(one) for one in value]
    return str(value)


def typed(kind: Any, data: Any) -> Any:
    """The value of this type that `plain` made this of; fields that are not there take their default. Raises
    ValueError, TypeError, KeyError or AttributeError where it is no such value."""
    if kind is Any or kind is object:
        return data
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        kinds = get_args(kind)
        if data is None and type(None) in kinds:
            return None
        return typed(next(one for one in kinds if one is not type(None)), data)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{name: typed(hints[name], value) for name, value in data.items() if name in hints})
    if origin is tuple:
        items = get_args(kind)
        if len(items) == 2 and items[1] is Ellipsis:
            return tuple(typed(items[0], one) for one in data)
        return tuple(typed(item, one) for item, one in zip(items, data, strict=True))
    if origin in (frozenset, AbstractSet):
        return frozenset(typed(get_args(kind)[0], one) for one in data)
    if origin in (dict, Mapping):
        return {key: typed(get_args(kind)[1], value) for key, value in data.items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    if kind is float and isinstance(data, int):
        return float(data)
    if not isinstance(data, kind):
        raise TypeError(f"{kind.__name__} is expected")
    return data


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
