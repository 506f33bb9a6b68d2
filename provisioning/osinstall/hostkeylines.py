"""Public host keys as lines of `type base64`, from and to their wire form."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from inventory.hostkeys import key_type

MOST_KEYS = 16
_MOST_LINE = 4096


def line_of(blob: bytes) -> str:
    """The line of a key in wire form."""
    return f"{key_type(blob)} {base64.b64encode(blob).decode()}"


def blob_of(line: str) -> bytes:
    """The key of a line, which may have a comment; raises ValueError for what is none."""
    words = line.split() if len(line) <= _MOST_LINE else []
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (IndexError, binascii.Error, ValueError):
        raise ValueError(line) from None
    if not key_type(blob) or key_type(blob) != words[0]:
        raise ValueError(line)
    return blob


def kept(lines: Iterable[str]) -> str:
    """As a machine's store has them: one after another, a comma between."""
    return ",".join(lines)


def blobs(text: str) -> tuple[bytes, ...]:
    """Of what `kept` gave; whatever is none is left out."""
    found = []
    for line in text.split(",")[:MOST_KEYS] if text else ():
        try:
            found.append(blob_of(line))
        except ValueError:
            continue
    return tuple(found)
