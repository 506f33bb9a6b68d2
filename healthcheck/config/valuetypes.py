"""Types of values in policy files: each reads a value or raises an error that says what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from healthcheck.config.entry import kind_of, nearest
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList
from inventory.text import clean

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")
_GLOB = re.compile(r"[\x21-\x7e]{1,120}")
_MOST_TEXT, _MOST_ITEMS = 400, 200


@dataclass(frozen=True)
class ValueType:
    """`read` gives the value or raises ValueError; `known` are all words; `item` types a list's members."""

    phrase: str
    read: Callable[[Any], Any]
    known: tuple[str, ...] = ()
    item: ValueType | None = None


def needed(held: Container[str], keys: Iterable[str], forms: Mapping[str, ValueType], where: str,
           mark: Mark) -> None:
    """Raises RulesError for the first of the keys that is missing."""
    for key in keys:
        if key not in held:
            raise RulesError(f"{where}: {key} is missing: expected {forms[key].phrase}", mark)


def parse_value(where: str, given: Any, mark: Mark, form: ValueType) -> Any:
    """The given value of this type; raises RulesError at the mark, or at that of a list's member."""
    try:
        if form.item is None:
            return form.read(given)
        return tuple(parse_value(where, one, given.value_marks[at], form.item)
                     for at, one in enumerate(form.read(given)))
    except ValueError:
        hint = nearest(given, form.known) if isinstance(given, str) else ""
        raise RulesError(f"{where}: expected {form.phrase}, got {kind_of(given)}{hint}", mark) from None


def integer(least: int, most: int) -> ValueType:
    """A whole number within bounds."""
    def read(given: object) -> int:
        if type(given) is not int or not least <= given <= most:
            raise ValueError
        return given

    return ValueType(f"a whole number from {least} to {most}", read)


def number(least: float, most: float) -> ValueType:
    """A finite number within bounds."""
    def read(given: Any) -> float:
        if type(given) not in (int, float) or not least <= given <= most:
            raise ValueError
        return float(given)

    return ValueType(f"a number from {least:g} to {most:g}", read)


def optional(form: ValueType) -> ValueType:
    """A value of this type, or null."""
    return ValueType(f"{form.phrase}, or null", lambda given: None if given is None else form.read(given))


def choice(kind: type[Enum]) -> ValueType:
    """A member of an Enum, by its value."""
    known = tuple(str(member.value) for member in kind)
    return ValueType(f"one of {', '.join(known)}", kind, known)


def list_of(what: str, item: ValueType) -> ValueType:
    """A list of at least one."""
    def read(given: Any) -> Any:
        if not isinstance(given, LocatedList) or not 1 <= len(given) <= _MOST_ITEMS:
            raise ValueError
        return given

    return ValueType(f"a list of {what}, 1 to {_MOST_ITEMS}", read, item=item)


def _text(given: object) -> str:
    if not isinstance(given, str) or not given.strip() or len(given) > _MOST_TEXT:
        raise ValueError
    return clean(" ".join(given.split()))


def _glob(given: object) -> str:
    if not isinstance(given, str) or not _GLOB.fullmatch(given):
        raise ValueError
    return given


def _name(given: object) -> str:
    if not isinstance(given, str) or not _NAME.fullmatch(given):
        raise ValueError
    return given


def _flag(given: object) -> bool:
    if not isinstance(given, bool):
        raise ValueError
    return given


TEXT = ValueType(f"text of at most {_MOST_TEXT} characters", _text)
GLOB = ValueType("a glob over the ids of rules, such as gpu-*", _glob)
NAME = ValueType("a name of lower-case letters, digits and -, at most 60", _name)
FLAG = ValueType("true or false", _flag)
