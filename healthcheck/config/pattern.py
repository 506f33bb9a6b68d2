"""The patterns of the catalogue: regular expressions with bounded backtracking, and the search for them.

They are Python's, over ASCII, with less allowed (`linear.py`) and two additions:

- `.*` outside of any group splits a pattern: the part before it is searched first, then the part after it. So
  `A.*B` is two searches, and neither repeats the other.
- Every other repeat without a bound takes at most MOST characters, that of a dot MOST_ANY: `\\d+` is
  `\\d{1,256}`, and `(?:x.*y|z)` is `(?:x.{0,99}y|z)`.
"""

from __future__ import annotations

import re
from functools import lru_cache

MOST = 256
MOST_ANY = 99
_CASELESS = "(?i)"
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?|\{\d*,?\d*\}\??|[*+?]\??|.", re.DOTALL)
_REPEAT = re.compile(r"[*+?]\??|\{\d+\}\??|\{\d*,\d*\}\??")
_LEAST = {"*": 0, "+": 1}


@lru_cache(maxsize=4096)
def pieces(pattern: str) -> tuple[str, ...]:
    """The regular expressions that are searched one after another."""
    head = _CASELESS if pattern.startswith(_CASELESS) else ""
    tokens: list[str] = _TOKEN.findall(pattern[len(head):])
    whole = _alternatives(tokens)
    made: list[list[str]] = [[]]
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token in ("(", "(?")) - (token == ")")    # noqa: S105  (a token of a pattern, no password)
        anything = token == "." and depth == 0 and not whole and at + 1 < len(tokens)    # noqa: S105
        if anything and tokens[at + 1][0] in "*+":
            continue
        if at and tokens[at - 1] == "." and depth == 0 and not whole and token[0] in "*+":
            made[-1] += ["."] * (token[0] == "+")
            made.append([])
            continue
        made[-1].append(token)
    return tuple(head + "".join(_bounded(piece, last=piece is made[-1])) for piece in made if piece)


def _alternatives(tokens: list[str]) -> bool:
    """Whether the pattern is `A|B`, which cannot be split."""
    depth = 0
    for token in tokens:
        depth += (token in ("(", "(?")) - (token == ")")    # noqa: S105
        if depth == 0 and token == "|":    # noqa: S105
            return True
    return False


def _bounded(piece: list[str], last: bool) -> list[str]:
    """The piece with a bound for each repeat; a repeat before a split is lazy."""
    made: list[str] = []
    for token in piece:
        most = MOST_ANY if made and made[-1] == "." else MOST
        if token[0] in _LEAST:
            token = f"{{{_LEAST[token[0]]},{most}}}{token[1:]}"
        elif token[0] == "{" and token.rstrip("?").endswith(",}"):
            token = token.replace(",}", f",{most}}}")
        made.append(token)
    if not last and _REPEAT.fullmatch(made[-1]) and not (len(made[-1]) > 1 and made[-1].endswith("?")):
        made[-1] += "?"
    return made


class Pattern:
    """One pattern, compiled on first use."""

    __slots__ = ("_compiled", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._compiled: tuple[re.Pattern[str], ...] | None = None

    def begins(self, text: str, at: int) -> int:
        """The end of a match that begins at this place; -1 without one."""
        first = self._pieces()[0].match(text, at)
        return -1 if first is None else self._follow(text, first.end(), 1)

    def found(self, text: str, at: int = 0) -> bool:
        """Whether it matches at this place or after it."""
        return self._follow(text, at, 0) >= 0

    def _pieces(self) -> tuple[re.Pattern[str], ...]:
        if self._compiled is None:
            self._compiled = tuple(re.compile(piece, re.ASCII) for piece in pieces(self._text))
        return self._compiled

    def _follow(self, text: str, at: int, first: int) -> int:
        for piece in self._pieces()[first:]:
            match = piece.search(text, at)
            if match is None:
                return -1
            at = match.end()
        return at
