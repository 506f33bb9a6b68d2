"""Makes foreign text safe to show: bounded, on one line, without control characters."""

from __future__ import annotations

import re
from collections.abc import Sequence

# C0, DEL and C1 controls, line and paragraph separators, bidirectional overrides,
# lone surrogates (bytes that are not UTF-8).
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def clean(value: object, most: int = 400) -> str:
    """One line of at most `most` characters;
    what a terminal could act on is shown as an escape (ESC as \\x1b)."""
    text = str(value)[: most * 2]
    if not (text.isascii() and text.isprintable()):     # which nearly all is
        text = _UNSAFE.sub(_escape, text)
    return text if len(text) <= most else text[: most - 1] + "…"


def fit(items: Sequence[str], most: int, head: str = "", end: str = "") -> str:
    """One line of at most `most` bytes of UTF-8 (64 or more): `head`, the items with semicolons between them,
    and `end`.

    It is cut at whole items, of which the first come first, and reports how many more there are. Only the
    first item is ever cut itself, and head and end where one of them takes over a third of the line.
    """
    head, end = _cut(clean(head, most), most // 3), _cut(clean(end, most), most // 3)
    room = most - _size(head) - _size(end)
    words = [clean(item, most) for item in items]
    if sum(map(_size, words)) + 2 * max(0, len(words) - 1) <= room:
        return f"{head}{'; '.join(words)}{end}"
    room -= len(f"; and {len(words)} more")
    shown = [_cut(words[0], room)]
    used = _size(shown[0])
    for word in words[1:]:
        used += 2 + _size(word)
        if used > room:
            break
        shown.append(word)
    more = f"; and {len(words) - len(shown)} more" if len(words) > len(shown) else ""
    return f"{head}{'; '.join(shown)}{more}{end}"


def _size(text: str) -> int:
    return len(text.encode())


def _cut(text: str, most: int) -> str:
    """At most `most` bytes, and no half of a character."""
    data = text.encode()
    return text if len(data) <= most else data[:most - len("…".encode())].decode(errors="ignore") + "…"


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


def listed(names: Sequence[str], most: int, between: str = ", ") -> str:
    """The first `most` names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more
