"""Lines of the form "Name:....value" and "Name....value", which smpquery, saquery and perfquery share."""

from __future__ import annotations

import re

_COLON = re.compile(r"\s*([A-Za-z][\w ]{0,63}?):\.*(.*)")
_DOTS = re.compile(r"\s*([A-Za-z]\w{0,63})\.{2,}(.*)")


def pair(line: str) -> tuple[str, str] | None:
    """The name and the value; None for a line that is not one."""
    found = _COLON.fullmatch(line) or _DOTS.fullmatch(line)
    return (found[1], found[2].strip()) if found is not None else None


def number(text: str) -> int | None:
    """A whole number, decimal or "0x1f", of at most 64 bits; None for anything else."""
    if not text.isascii() or not 0 < len(text) <= 20:
        return None
    try:
        value = int(text, 16 if text.startswith("0x") else 10)
    except ValueError:
        return None
    return value if 0 <= value < 1 << 64 else None
