"""Makes foreign text safe to show: bounded, on one line, without control characters."""

from __future__ import annotations

from collections.abc import Sequence


def clean(value: object, most: int = 400) -> str:
    """One line of at most `most` characters, all of them printable: what a terminal acts on, and what Unicode
    gives no shape, becomes an escape (ESC as \\x1b)."""
    text = str(value)[: most * 2]
    if not text.isprintable():      # which nearly all is
        text = "".join([one if one.isprintable() else _escaped(one) for one in text])
    return text if len(text) <= most else text[: most - 1] + "…"


def fit(items: Sequence[str], most: int, head: str = "", end: str = "") -> str:
    """One line of at most `most` bytes of UTF-8 (64 or more): `head`, items with semicolons, `end`. It is cut
    at whole items and says how many more there are; only the first item is ever cut itself, and head and end
    where one takes over a third."""
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


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:        # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


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
