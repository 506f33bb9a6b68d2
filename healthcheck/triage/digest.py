"""What judges or decides, as a digest that differs where it does, and in words. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from healthcheck.store.versions import Version


def version(kind: str, name: str, content: Mapping[str, Any]) -> Version:
    """This content under its kind and name."""
    text = in_words(content)
    return Version(kind, name, digest(text), text)


def in_words(content: Mapping[str, Any], plain: Callable[[object], str] = str) -> str:
    """As JSON; `plain` gives what JSON has no form for."""
    return json.dumps(content, default=plain, separators=(",", ":"))


def digest(*content: object) -> str:
    """16 hexadecimal digits."""
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]
