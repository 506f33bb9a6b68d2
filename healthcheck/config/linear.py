"""Refuses patterns that a hostile line could make slow, and finds the words that a match must hold.

It examines the tree of Python's own parser. If one repeat can give characters to another, both are tried in
every combination: their lengths multiply. COST bounds the product, and with it the steps for each character
of a line.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import Any

from healthcheck.config.pattern import pieces

# The parser is not public.
if sys.version_info >= (3, 11):
    _parser: Any = re._parser  # type: ignore[attr-defined]
else:
    import sre_parse as _parser

COST = 10_000
SHORTEST = 3            # characters of the words that a pattern must have
_OTHER = 1 << 128       # stands for all characters beyond ASCII
_ALL = (1 << 129) - 1
_CHARACTERS = ("LITERAL", "NOT_LITERAL", "ANY", "IN")
_Open = tuple[tuple[int, int], ...]     # repeats that may still give or take characters: which, and how many


class TooSlow(ValueError):
    """The pattern could take more than linear time; the message says why, and what to write instead."""


def check(pattern: str) -> None:
    """Raises TooSlow, or re.error if it is no regular expression."""
    for piece in pieces(pattern):
        tree = _tree(piece)
        _walk(tree, (), bool(tree.state.flags & re.IGNORECASE))


@lru_cache(maxsize=64)
def _tree(piece: str) -> Any:
    return _parser.parse(piece, re.ASCII)


def _walk(tree: Any, held: _Open, caseless: bool) -> _Open:
    for op, value in tree:
        name = str(op)
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            held = _repeat(value, held, caseless)
        elif name == "SUBPATTERN":
            held = _walk(value[3], held, caseless or bool(value[1] & re.IGNORECASE))
        elif name == "BRANCH":
            held = tuple({one for branch in value[1] for one in _walk(branch, held, caseless)})
        elif name in ("ASSERT", "ASSERT_NOT"):
            if value[0] < 0:
                raise TooSlow(
                    "looks behind, which is not allowed: use `unless` for text that must not be there")
            _walk(value[1], held, caseless)
        elif name == "AT":
            continue
        elif name in _CHARACTERS:
            held = _closed(held, _set(op, value, caseless))
        else:
            raise TooSlow(f"holds {name.lower().replace('_', ' ')}, which is not allowed: write the allowed "
                          "text itself")
    return held


def _repeat(value: Any, held: _Open, caseless: bool) -> _Open:
    least, most, inner = value
    if most <= 1:
        after = _walk(inner, held, caseless)
        return tuple({*held, *after}) if least == 0 else after
    if not _plain(inner):
        raise TooSlow("repeats a group that itself repeats or has alternatives: write a class of characters, "
                      "as [0-9a-f ,]+")
    chars = _union(inner, caseless)
    if most == least:
        return _closed(held, chars)
    most = int(most)
    cost = most - least
    for other, length in held:
        if other & chars:
            cost *= length
    if cost > COST:
        raise TooSlow(
            f"two repeats can share characters, which takes {cost} steps at each: use a class without what "
            "separates them, as [^,]* or [^ ]+, or bound them, as .{0,80}")
    return (*(_closed(held, chars) if least else held), (chars, most - least))


def _plain(tree: Any) -> bool:
    """Whether it matches a fixed number of characters, in one way."""
    for op, value in tree:
        name = str(op)
        fixed = name in ("MAX_REPEAT", "MIN_REPEAT") and value[0] == value[1] and _plain(value[2])
        if not (fixed or name in _CHARACTERS or (name == "SUBPATTERN" and _plain(value[3]))):
            return False
    return True


def _closed(held: _Open, chars: int) -> _Open:
    """The repeats that can take one of these characters, too; any other ends here."""
    return tuple(one for one in held if one[0] & chars)


def _union(tree: Any, caseless: bool) -> int:
    chars = 0
    for op, value in tree:
        inner = {"SUBPATTERN": 3, "MAX_REPEAT": 2, "MIN_REPEAT": 2}.get(str(op))
        chars |= _set(op, value, caseless) if inner is None else _union(value[inner], caseless)
    return chars


def _set(op: Any, value: Any, caseless: bool) -> int:
    """The ASCII characters that it takes, a bit for each, and one bit for all others."""
    name = str(op)
    if name == "ANY":
        return _ALL
    if name == "LITERAL":
        return _one(value, caseless)
    if name == "NOT_LITERAL":
        return _ALL & ~(_one(value, caseless) & ~_OTHER)
    chars, negated = 0, False
    for kind, item in value:
        if str(kind) == "NEGATE":
            negated = True
        elif str(kind) == "LITERAL":
            chars |= _one(item, caseless)
        elif str(kind) == "RANGE":
            for code in range(item[0], min(item[1], 128) + 1):
                chars |= _one(code, caseless)
        else:
            chars |= _category(str(item))
    return _ALL & ~(chars & ~_OTHER) if negated else chars


def _one(code: int, caseless: bool) -> int:
    if code >= 128:
        return _OTHER
    return 1 << ord(chr(code).lower()) | 1 << ord(chr(code).upper()) if caseless else 1 << code


@lru_cache(maxsize=16)
def _category(name: str) -> int:
    kind = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}[name.rpartition("_")[2]]
    chars = sum(1 << code for code in range(128) if re.match(kind, chr(code), re.ASCII))
    return _ALL & ~chars if "_NOT_" in name else chars


def anything_first(pattern: str) -> bool:
    """Whether a match may begin with any text: `.*`, or a repeat of nearly every character."""
    first = pieces(pattern)[0]
    body = pattern.removeprefix("(?i)").lstrip("(?:")
    return body.startswith((".*", ".+", ".{")) or _wide(_flat(_tree(first))[:1])


def _wide(tree: list[tuple[Any, Any]]) -> bool:
    """Whether it begins with a repeat of a class of more than a hundred ASCII characters."""
    for op, value in tree:
        if str(op) == "BRANCH":
            return any(_wide(_flat(branch)[:1]) for branch in value[1])
        if str(op) in ("MAX_REPEAT", "MIN_REPEAT") and value[1] > 1 and _plain(value[2]):
            return _union(value[2], False).bit_count() > 100
    return False


def required_words(pattern: str) -> tuple[tuple[str, ...], ...]:
    """Groups of words in lower case, the most selective first; a match holds one word of each.

    Words have at least SHORTEST characters; empty if the pattern needs none of that length.
    """
    found = [given for piece in pieces(pattern) for given in _needed(_tree(piece))]
    fit = dict.fromkeys(given for given in found if len(min(given, key=len)) >= SHORTEST)
    return tuple(sorted(fit, key=_worth, reverse=True))


def _worth(given: tuple[str, ...]) -> tuple[int, int, int]:
    shortest = len(min(given, key=len)) if given else 0
    return min(shortest, 7), -len(given), shortest


def _needed(tree: Any) -> list[tuple[str, ...]]:
    """Groups of alternative words, one of which must be there."""
    found: list[tuple[str, ...]] = []
    run = ""
    for op, value in [*_flat(tree), ("END", None)]:
        name = str(op)
        if name == "LITERAL" and value < 128:
            run += chr(value).lower()
            continue
        if run:
            found.append((run,))
            run = ""
        if name == "BRANCH":
            each = [max(_needed(branch), key=_worth, default=()) for branch in value[1]]
            if all(each):
                found.append(tuple(dict.fromkeys(word for given in each for word in given)))
        elif name in ("MAX_REPEAT", "MIN_REPEAT") and value[0] > 0:
            found += _needed(value[2])
    return found


def _flat(tree: Any) -> list[tuple[Any, Any]]:
    """The tree without its groups."""
    made: list[tuple[Any, Any]] = []
    for op, value in tree:
        if str(op) == "SUBPATTERN":
            made += _flat(value[3])
        elif str(op) != "AT":
            made.append((op, value))
    return made
