"""Compares versions of firmware, which every maker writes in a way of its own."""

from __future__ import annotations

import re

_PIECE = re.compile(r"[0-9a-z]+", re.IGNORECASE)
_NUMBER = re.compile(r"v?(\d{1,18})", re.IGNORECASE)


def compared(one: str, other: str) -> int | None:
    """-1, 0 or 1 as the first is older than, like, or newer than the other; None where they cannot be
    compared.

    Numbers are compared as numbers, piece by piece (2.9 before 2.10; 1.0 is 1.0.0); pieces with letters have
    to be the same (U46 v1.2 and U54 v1.1 are of different families, and neither is the newer).
    """
    left, right = _pieces(one), _pieces(other)
    if not left or not right:
        return None
    for at in range(max(len(left), len(right))):
        a, b = (side[at] if at < len(side) else 0 for side in (left, right))
        if isinstance(a, str) or isinstance(b, str):
            if a != b:
                return None
        elif a != b:
            return -1 if a < b else 1
    return 0


def _pieces(version: str) -> list[int | str]:
    pieces = _PIECE.findall(version)
    return [int(match[1]) if (match := _NUMBER.fullmatch(piece)) else piece.casefold() for piece in pieces]
