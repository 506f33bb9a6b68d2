"""Reads a pickle that holds plain values only: whatever it names of code is refused,
so that a stranger's file runs nothing."""

from __future__ import annotations

import io
import pickle
from typing import Any, NoReturn


class NotPlain(ValueError):
    """A pickle that is broken, or holds more than plain values."""


class _Plain(pickle.Unpickler):
    """Dictionaries, lists, tuples, texts and numbers need no class to be looked up;
    everything that would run code does."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise NotPlain(f"the pickle names {module}.{name}: it is not read")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise NotPlain("the pickle refers to something outside it: it is not read")


def loads(data: bytes) -> Any:
    """The value. Raises NotPlain for anything but plain values, and for what is no pickle."""
    try:
        return _Plain(io.BytesIO(data)).load()
    except NotPlain:
        raise
    except Exception as error:  # noqa: BLE001  (a broken pickle raises whatever it likes)
        raise NotPlain(f"it cannot be read: {type(error).__name__}") from None
