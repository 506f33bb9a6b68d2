"""An inventory's values as YAML text, on one line each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from inventory.located import parse_yaml

_PLAIN = re.compile(r"[A-Za-z0-9_./~][A-Za-z0-9_./~@%+=-]*")
_PLAIN_IN_BLOCK = re.compile(r"[A-Za-z0-9_./~](?:[A-Za-z0-9_./~@%+=,!&^-]|\[[0-9,/-]+\])*")
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_YAML_1_1 = frozenset({"y", "n", "yes", "no", "on", "off"})      # text in YAML 1.2, booleans in YAML 1.1
_NUMBER_1_1 = re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?")


def render(document: dict[str, Any]) -> str:
    """A whole new file: sections as blocks, one line for each entry."""
    return "".join(section(key, value, "\n") + "\n" for key, value in document.items())


def flow(value: Any) -> str:
    """A value on one line, as in {rack: r01, leaf: [leaf01, leaf02]}."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key_text(key, in_flow=True)}: {flow(inner)}"
                               for key, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(flow, value)) + "]"
    return _scalar(value, in_flow=True)


def section(key: str, value: Any, line_end: str) -> str:
    """A key of the whole document and what it holds; a map as a block."""
    if not isinstance(value, dict) or not value or key == "defaults":
        return f"{key}: {flow(value)}"
    lines = (f"  {key_text(inner, in_flow=False)}: {value_text(held, in_flow=False)}"
             for inner, held in value.items())
    return line_end.join((f"{key}:", *lines))


def value_text(value: Any, *, in_flow: bool) -> str:
    """A value on one line, as plain as it can stand there."""
    return flow(value) if isinstance(value, (dict, list)) else _scalar(value, in_flow=in_flow)


def key_text(key: str, *, in_flow: bool) -> str:
    """A key, in quotes where it needs them."""
    safe = (_PLAIN if in_flow else _PLAIN_IN_BLOCK).fullmatch(key) or _PCI.fullmatch(key)
    return key if safe and key != "~" else _quoted(key)


def _scalar(value: Any, *, in_flow: bool) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    safe = (_PLAIN if in_flow else _PLAIN_IN_BLOCK).fullmatch(value)
    return (value if safe and value.lower() not in _YAML_1_1 and not _NUMBER_1_1.fullmatch(value)
            and _is_text(value) else _quoted(value))


@lru_cache(maxsize=1 << 13)      # a value stands on many nodes
def _is_text(word: str) -> bool:
    # so are most; the parser need not be asked
    if word[0].isalpha() and word.lower() not in ("true", "false", "null"):
        return True
    return isinstance(parse_yaml(f"- {word}", "value")[0], str)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
