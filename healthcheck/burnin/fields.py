"""Reads fields of a JSON document by type, bounded and cleaned; a mistake is one line with its place."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from healthcheck.burnin import limits
from inventory.errors import ConfigError
from inventory.text import clean, short

T = TypeVar("T")
E = TypeVar("E", bound=Enum)
_PLAIN = {str: "text", int: "a whole number", float: "a number", bool: "true or false", list: "a list",
          dict: "a map"}


class WrongField(Exception):
    """Where something is wrong, and what was expected."""


def content(path: Path, most: int) -> bytes:
    """The beginning of a file, one byte more than it may have; raises ConfigError."""
    try:
        with path.open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise ConfigError(f"{clean(path)}: cannot be read: {error.strerror}") from None


def read_document(data: bytes, name: str, most: int, make: Callable[[Fields], T]) -> T:
    """What `make` makes of a JSON document of at most so many bytes; raises ConfigError, one line with `name`
    and the place of the mistake."""
    if len(data) > most:
        raise ConfigError(f"{name}: is over the size limit of {most} bytes")
    try:
        whole = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        message = "nested too deeply" if isinstance(error, RecursionError) else clean(error, 120)
        raise ConfigError(f"{name}: not a JSON document: {message}") from None
    try:
        return make(Fields(whole, ""))
    except WrongField as error:
        raise ConfigError(f"{name}: {error}") from None


def _no_constant(word: str) -> Any:
    """For json.loads: NaN and Infinity are no JSON."""
    raise ValueError(f"{word} is no number of JSON")


def _what(value: Any) -> str:
    return ("nothing" if value is None else "a list" if isinstance(value, list)
            else "a map" if isinstance(value, dict) else short(value))


def fail(at: str, expected: str, value: Any) -> WrongField:
    """The error, for a value that is not what was expected at that place."""
    return WrongField(f"{at or 'the document'}: expected {expected}, got {_what(value)}")


class Fields:
    """A map of the document, with typed access to its keys."""

    def __init__(self, value: Any, at: str) -> None:
        if not isinstance(value, dict):
            raise fail(at, "a map", value)
        self.held, self.at = value, at

    def place(self, key: str) -> str:
        """The path of a key's value, as errors print it."""
        return f"{self.at}.{key}" if self.at else key

    def get(self, key: str, kind: type[T]) -> T:
        """The value, of exactly that type."""
        return typed(self.held.get(key), kind, self.place(key))

    def text(self, key: str) -> str:
        """Text, cleaned."""
        return self.get(key, str)

    def number(self, key: str) -> float:
        """A finite number."""
        return number(self.held.get(key), self.place(key))

    def whole(self, key: str) -> int:
        """A whole number of 64 bits."""
        return whole(self.held.get(key), self.place(key))

    def maybe(self, key: str, read: Callable[[Any, str], T]) -> T | None:
        """The value as `read` returns it; None where it is null or missing."""
        value = self.held.get(key)
        return None if value is None else read(value, self.place(key))

    def items(self, key: str) -> Iterator[tuple[Any, str]]:
        """The members of a list, each with its place."""
        for at, item in enumerate(self.get(key, list)):
            yield item, f"{self.place(key)}[{at}]"

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of text."""
        return tuple(typed(item, str, at) for item, at in self.items(key))

    def map(self, key: str) -> Fields:
        """A map within."""
        return Fields(self.held.get(key), self.place(key))

    def word(self, key: str, kind: type[E]) -> E:
        """A member of an Enum, by its value."""
        return word(self.held.get(key), kind, self.place(key))

    def plain(self, key: str, read: Callable[[Any, str], T]) -> Mapping[str, T]:
        """A map from text to what `read` gives."""
        inner = self.map(key)
        return MappingProxyType({typed(name, str, inner.at): read(value, inner.place(clean(name, 60)))
                                 for name, value in inner.held.items()})


def typed(value: Any, kind: type[T], at: str) -> T:
    """A value of exactly that type, within the bounds; text is cleaned."""
    if type(value) is not kind or (isinstance(value, str) and len(value) > limits.FIELD_TEXT) or (
            isinstance(value, (list, dict)) and len(value) > limits.FIELD_ITEMS):
        bound = f" of at most {limits.FIELD_TEXT} characters" if kind is str else ""
        raise fail(at, _PLAIN[kind] + bound, value)
    # Muster writes clean text, but others may have edited it.
    return clean(value, limits.FIELD_TEXT) if isinstance(value, str) else value  # type: ignore[return-value]


def text(value: Any, at: str) -> str:
    """Text."""
    return typed(value, str, at)


def texts(value: Any, at: str) -> Mapping[str, str]:
    """A map from text to text."""
    return MappingProxyType({text(name, at): text(each, f"{at}.{clean(name, 60)}")
                             for name, each in typed(value, dict, at).items()})


def whole(value: Any, at: str) -> int:
    """A whole number of 64 bits."""
    if type(value) is not int or abs(value) >= 2**63:
        raise fail(at, "a whole number", value)
    return value


def number(value: Any, at: str) -> float:
    """A finite number."""
    if type(value) not in (int, float) or abs(value) > 1e300 or not math.isfinite(value):
        raise fail(at, "a number", value)
    return float(value)


def word(value: Any, kind: type[E], at: str) -> E:
    """A member of an Enum, by its value."""
    for member in kind:
        if member.value == value:
            return member
    raise fail(at, f"one of {', '.join(str(member.value) for member in kind)}", value)


def row(value: Any, length: int, at: str) -> list[Any]:
    """A list of that many."""
    if not isinstance(value, list) or len(value) != length:
        raise fail(at, f"a list of {length}", value)
    return value


def time_of(text: str, at: str) -> float:
    """A time as epoch seconds."""
    try:
        return dt.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError, OSError):
        raise fail(at, "a time such as 2026-01-31T12:00:00.000Z", text) from None


def option(value: Any, at: str) -> str | int | float | bool | None:
    """Text, a number, true, false or null."""
    if value is None or isinstance(value, bool):
        return value
    return (text(value, at) if isinstance(value, str)
            else whole(value, at) if isinstance(value, int) else number(value, at))


def param(value: Any, at: str) -> str | int | float:
    """Text or a number."""
    found = option(value, at)
    if found is None or isinstance(found, bool):
        raise fail(at, "text or a number", value)
    return found
