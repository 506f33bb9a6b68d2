"""Makes foreign text safe to show: bounded, on one line, without control characters."""

from __future__ import annotations

import re

# C0, DEL and C1 controls, line and paragraph separators, bidirectional overrides,
# lone surrogates (bytes that are not UTF-8).
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def clean(value: object, most: int = 400) -> str:
    """One line of at most `most` characters;
    what a terminal could act on is shown as an escape (ESC as \\x1b)."""
    text = _UNSAFE.sub(_escape, str(value)[: most * 2])
    return text if len(text) <= most else text[: most - 1] + "…"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(match[0],
                                                       f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def short(text: object) -> str:
    """Foreign text quoted, in ASCII, within 80 characters: for the words of an error message."""
    quoted = ascii(str(text))
    return quoted if len(quoted) <= 80 else f"{quoted[:77]}..."


def many(count: int, what: str) -> str:
    """A count and its noun: 1 node, 2 nodes."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
