"""The text in files that options name."""

from __future__ import annotations

import sys
from pathlib import Path

from inventory.errors import UsageError


def text_of(option: str, name: str, *, piped: bool = False) -> str:
    """The text, without a byte order mark; with `piped`, `-` is standard input. Raises UsageError where the
    file that the option names cannot be read, or is no UTF-8."""
    piped = piped and name == "-"
    try:
        data = sys.stdin.buffer.read() if piped else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"{option} {name}: {error.strerror}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        source = "standard input" if piped else name
        raise UsageError(f"{source}: is no UTF-8 text, at byte {error.start}") from None
