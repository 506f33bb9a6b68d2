"""What a value of the policy may be: each form reads one and says, where it is none, what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable
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
class Form:
    """`read` gives the value, or raises ValueError; `known` are the words that there are; `item` is that of each member of a list."""

    phrase: str
    read: Callable[[Any], Any]
    known: tuple[str, ...] = ()
    item: Form | None = None


def value(where: str, given: Any, mark: Mark, form: Form) -> Any:
    """What was given, as the form reads it; raises RulesError at the mark, or at that of the member of a list."""
    try:
        if form.item is None:
            return form.read(given)
        return tuple(value(where, one, given.value_marks[at], form.item) for at, one in enumerate(form.read(given)))
    except ValueError:
        hint = nearest(given, form.known) if isinstance(given, str) else ""
        raise RulesError(f"{where}: expected {form.phrase}, got {kind_of(given)}{hint}", mark) from None


def whole(least: int, most: int) -> Form:
    """A whole number within bounds."""
    def read(given: Any) -> int:
        if type(given) is not int or not least <= given <= most:
            raise ValueError
        return given

    return Form(f"a whole number from {least} to {most}", read)


def real(least: float, most: float) -> Form:
    """A finite number within bounds."""
    def read(given: Any) -> float:
        if type(given) not in (int, float) or not least <= given <= most:
            raise ValueError
        return float(given)

    return Form(f"a number from {least:g} to {most:g}", read)


def yet(form: Form) -> Form:
    """The same, or null."""
    return Form(f"{form.phrase}, or null", lambda given: None if given is None else form.read(given))


def word(kind: type[Enum]) -> Form:
    """A member of an Enum, by its value."""
    known = tuple(str(member.value) for member in kind)
    return Form(f"one of {', '.join(known)}", kind, known)


def several(what: str, item: Form) -> Form:
    """A list of at least one."""
    def read(given: Any) -> Any:
        if not isinstance(given, LocatedList) or not 1 <= len(given) <= _MOST_ITEMS:
            raise ValueError
        return given

    return Form(f"a list of {what}, 1 to {_MOST_ITEMS}", read, item=item)


def _text(given: Any) -> str:
    if not isinstance(given, str) or not given.strip() or len(given) > _MOST_TEXT:
        raise ValueError
    return clean(" ".join(given.split()))


def _glob(given: Any) -> str:
    if not isinstance(given, str) or not _GLOB.fullmatch(given):
        raise ValueError
    return given


def _name(given: Any) -> str:
    if not isinstance(given, str) or not _NAME.fullmatch(given):
        raise ValueError
    return given


def _flag(given: Any) -> bool:
    if not isinstance(given, bool):
        raise ValueError
    return given


TEXT = Form(f"text of at most {_MOST_TEXT} characters", _text)
GLOB = Form("a glob over the ids of rules, such as gpu-*", _glob)
NAME = Form("a name of lower-case letters, digits and -, at most 60", _name)
FLAG = Form("true or false", _flag)
