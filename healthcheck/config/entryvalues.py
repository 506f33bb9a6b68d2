"""Values that several kinds of entries have; each mistake raises RulesError, one line with the entry's name,
the key and its place."""

from __future__ import annotations

import re
from enum import Enum
from typing import TypeVar

from healthcheck.config import linear
from healthcheck.config.entry import Entry, kind_of, nearest
from inventory.errors import RulesError

E = TypeVar("E", bound=Enum)
_LONGEST_PATTERN = 500


def wrong(given: Entry, key: str, said: str) -> RulesError:
    """What is wrong with the value of a key."""
    return RulesError(f"{given.what} {given.name}: {key}: {said}", given.marks.get(key, given.mark))


def sentence(given: Entry, key: str) -> str:
    """A text, on one line."""
    value = given.values.get(key)
    if key not in given.values:
        raise wrong(given, key, "is missing: expected a sentence")
    if not isinstance(value, str) or not value.strip():
        raise wrong(given, key, f"expected a sentence, got {kind_of(value)}")
    return " ".join(value.split())


def switch(given: Entry, key: str, usual: bool) -> bool:
    """True or false."""
    value = given.values.get(key, usual)
    if not isinstance(value, bool):
        raise wrong(given, key, f"expected true or false, got {kind_of(value)}")
    return value


def member(given: Entry, key: str, kind: type[E]) -> E:
    """One of the values of an enum."""
    value = given.values.get(key)
    known = [str(one.value) for one in kind]
    if key not in given.values:
        raise wrong(given, key, f"is missing: expected one of {', '.join(known)}")
    if value not in known:
        guess = nearest(str(value), known)
        raise wrong(given, key, f"expected one of {', '.join(known)}; got {kind_of(value)}{guess}")
    return kind(value)


def pattern(given: Entry, key: str, *, proven: bool = False) -> str:
    """A regular expression that is matched in linear time; of one that is `proven` that is known."""
    value = given.values.get(key)
    if not isinstance(value, str) or not value.strip():
        raise wrong(given, key, f"expected a regular expression, got {kind_of(value)}"
                    if key in given.values else "is missing: expected a regular expression")
    if len(value) > _LONGEST_PATTERN:
        raise wrong(given, key, f"is over {_LONGEST_PATTERN} characters: make it several")
    if not proven:
        check_pattern(given, key, value)
    return value


def check_pattern(given: Entry, key: str, value: str) -> None:
    """Raises RulesError for what is no regular expression, or for one that may take too long."""
    try:
        linear.check(value)
    except linear.TooSlow as problem:
        raise wrong(given, key, str(problem)) from None
    except (re.error, OverflowError, RecursionError) as problem:
        raise wrong(given, key, f"is no regular expression: {problem}") from None
