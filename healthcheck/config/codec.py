"""Dataclass values as plain JSON and back, by their annotations; default values are left out."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

_PLAIN = (str, int, float, bool, type(None))


def to_plain(value: Any) -> Any:
    """Dataclasses, enums, mappings, sets, sequences and plain values as JSON, equal for equal values."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, _PLAIN):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {field.name: to_plain(held) for field, held in given if not _by_default(field, held)}
    if isinstance(value, Mapping):
        return {str(to_plain(key)): to_plain(held) for key, held in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((to_plain(item) for item in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no plain form")


def _by_default(field: dataclasses.Field[Any], held: Any) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return bool(held == field.default_factory())
    return (field.default is not dataclasses.MISSING and type(held) is type(field.default)
            and bool(held == field.default))


def from_plain(hint: Any, data: Any) -> Any:
    """The value that `to_plain` wrote; raises ValueError, TypeError or KeyError for anything else."""
    return _reader(hint)(data)


@functools.cache
def _reader(hint: Any) -> Any:
    if hint is Any:
        return lambda data: tuple(data) if isinstance(data, list) else data
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (part for part in parts if part is not type(None))
        return lambda data: None if data is None else from_plain(inner, data)
    if origin is tuple:
        if len(parts) == 2 and parts[1] is Ellipsis:
            return lambda data: tuple(from_plain(parts[0], item) for item in _checked(list, data))
        return lambda data: tuple(from_plain(part, item)
                                  for part, item in zip(parts, _checked(list, data), strict=True))
    if origin is frozenset:
        return lambda data: frozenset(from_plain(parts[0], item) for item in _checked(list, data))
    if origin is not None and issubclass(origin, Mapping):
        return lambda data: types.MappingProxyType(
            {_key(parts[0], key): from_plain(parts[1], held) for key, held in _checked(dict, data).items()})
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if dataclasses.is_dataclass(hint):
        kind: Any = hint
        return lambda data: kind(
            **{key: from_plain(_hints(kind)[key], held) for key, held in _checked(dict, data).items()})
    return lambda data: _checked(hint, data)


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _key(hint: Any, key: str) -> Any:
    return int(key) if hint is int else from_plain(hint, key)


def _checked(kind: Any, data: Any) -> Any:
    if type(data) is not kind and not (kind is float and type(data) is int):
        raise TypeError(f"expected {kind.__name__}, got {ascii(data)[:60]}")
    return data
