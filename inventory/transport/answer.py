"""What a program of ours answers from a node: one JSON document, compressed. It may be anything."""

from __future__ import annotations

import json
import zlib
from typing import Any

# What reading an answer may raise, where it is none of ours.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError, zlib.error)


def document(body: bytes | None, most: int) -> Any:
    """The document, of whose text no more than `most` bytes are read; raises one of UNREADABLE."""
    return json.loads(zlib.decompressobj().decompress(body or b"", most))
