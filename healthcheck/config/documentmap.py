"""A map of a YAML document whose keys are read by type; every mistake is a RulesError with its place."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import TypeVar

from healthcheck.config.entry import kind_of, known_keys, nearest
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList, LocatedMap

M = TypeVar("M", bound=Enum)


class DocumentMap:
    """A map with some of these keys. `what` begins each message; `mark` is the place of what is no map."""

    def __init__(self, item: object, keys: Collection[str], what: str, mark: Mark) -> None:
        if not isinstance(item, LocatedMap):
            raise RulesError(f"{what}: expected a map, got {kind_of(item)}", mark)
        if item.keys() - set(keys):
            known_keys(item, tuple(keys), f"{what}: ")
        self.item, self.what = item, what

    def __contains__(self, key: str) -> bool:
        return key in self.item

    def mark(self, key: str) -> Mark:
        """Where the key's value stands; without it, where the map does."""
        return self.item.value_marks.get(key, self.item.mark)

    def fail(self, key: str, expected: str, hint: str = "") -> RulesError:
        """The error for a key that is missing or has another value than expected."""
        if key not in self.item:
            return RulesError(f"{self.what}: {key}: is missing: expected {expected}", self.item.mark)
        got = kind_of(self.item[key])
        return RulesError(f"{self.what}: {key}: expected {expected}, got {got}{hint}", self.mark(key))

    def text(self, key: str) -> str:
        """Text with something in it, in one line."""
        value = self.item.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.fail(key, "text")
        return " ".join(value.split())

    def number(self, key: str, least: float, most: float) -> float:
        """A number within these bounds."""
        value = self.item.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise self.fail(key, f"a number from {least:g} to {most:g}")
        return value

    def whole(self, key: str, least: int, most: int) -> int:
        """A whole number within these bounds."""
        value = self.item.get(key)
        if type(value) is not int or not least <= value <= most:
            raise self.fail(key, f"a whole number from {least} to {most}")
        return value

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self.item.get(key)
        if not isinstance(value, bool):
            raise self.fail(key, "true or false")
        return value

    def items(self, key: str) -> LocatedList:
        """A list."""
        value = self.item.get(key)
        if not isinstance(value, LocatedList):
            raise self.fail(key, "a list")
        return value

    def member(self, key: str, kind: type[M]) -> M:
        """A member of an Enum, by its value."""
        value, known = self.item.get(key), [str(member.value) for member in kind]
        if value not in known:
            raise self.fail(key, f"one of {', '.join(known)}", nearest(str(value), known))
        return kind(value)
