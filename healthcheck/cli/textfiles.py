"""The text in files that options name."""

from __future__ import annotations

from pathlib import Path

from inventory.errors import UsageError


def text_of(option: str, name: str) -> str:
    """Raises UsageError where the file that the option names cannot be read, or is no text."""
    try:
        return decoded(Path(name).read_bytes(), name)
    except OSError as error:
        raise UsageError(f"{option} {name}: {error.strerror}") from None


def decoded(data: bytes, source: str) -> str:
    """Raises UsageError, with the source, for what is no UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{source}: is no UTF-8 text, at byte {error.start}") from None
