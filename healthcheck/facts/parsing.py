"""Parsers of single values in files; each raises ValueError for a text in another format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any

from healthcheck.facts.values import UNSUPPORTED

SECTOR = 512        # bytes: the unit of /sys/block/*/size, whatever the disk's own (include/linux/types.h)
_decode = json.JSONDecoder().decode     # json.loads looks for bytes and options first
_DIGITS = 20        # of a number of 64 bits
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,8}")
_DECIMAL = re.compile(r"[0-9]{1,12}\.[0-9]{1,6}")
_MILLI = re.compile(r"-?[0-9]{1,7}")
_LANE_DIGITS = 3
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) GT/s(?: PCIe)?")


def matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    """The match of the whole text."""
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return found


def searched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    """The first match in the text."""
    found = pattern.search(text)
    if found is None:
        raise ValueError(text)
    return found


def matching(pattern: str) -> Callable[[str], str]:
    """A parser that returns a text that this pattern matches whole."""
    fullmatch = re.compile(pattern).fullmatch

    def parse(text: str) -> str:
        if fullmatch(text) is None:
            raise ValueError(text)
        return text

    return parse


def nonempty(text: str) -> str:
    """The text itself: the kernel prints no empty one for what it has."""
    if not text:
        raise ValueError(text)
    return text


def one_of(words: tuple[str, ...], text: str) -> str:
    """The text, which must be one of these words."""
    if text not in words:
        raise ValueError(text)
    return text


def line(text: str) -> str:
    """The text, which must be one line, and not empty."""
    if "\n" in text:
        raise ValueError(text)
    return nonempty(text)


def flag(text: str) -> bool:
    """The kernel's 0 or 1."""
    return one_of(("0", "1"), text) == "1"


def whole(text: str) -> int:
    """A whole number without a sign, of 64 bits."""
    if len(text) > _DIGITS or not text.isdigit() or not text.isascii():
        raise ValueError(text)
    return int(text)


def wholes(words: Collection[str]) -> list[int]:
    """As `whole`, of each of these words."""
    digits = "".join(words)
    usual = digits.isdigit() and digits.isascii() and max(map(len, words)) <= _DIGITS
    return list(map(int if usual else whole, words))


def hexadecimal(text: str) -> int:
    """A number of 32 bits, "0x1f"."""
    if _HEXADECIMAL.fullmatch(text) is None:
        raise ValueError(text)
    return int(text, 16)


def decimal(text: str) -> float:
    """A number with decimals, without which it is only the beginning of one, and without a sign."""
    return float(matched(_DECIMAL, text)[0])


def milli(text: str) -> float:
    """A number in thousandths."""
    if _MILLI.fullmatch(text) is None:
        raise ValueError(text)
    return int(text) / 1000


def pcie_lanes(text: str) -> Any:
    """Lanes of a PCI Express link; UNSUPPORTED for 0, 63 and 255, which virtual machines and devices without
    a link of their own show."""
    if text in ("0", "63", "255"):
        return UNSUPPORTED
    if len(text) > _LANE_DIGITS:
        raise ValueError(text)
    return whole(text)


def pcie_speed(text: str) -> Any:
    """GT/s of "32.0 GT/s PCIe", older kernels "8 GT/s"; UNSUPPORTED where the kernel does not know it."""
    return UNSUPPORTED if text.startswith("Unknown") else float(matched(_SPEED, text)[1])


def natural(name: str) -> tuple[str, int]:
    """A key that sorts mlx5_10 after mlx5_9."""
    head = name.rstrip("0123456789")
    return head, int(name[len(head):] or 0)


def json_object(text: str) -> dict[str, Any] | None:
    """The object that a text is in JSON; None for any other text."""
    try:
        found = _decode(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def member(document: Any, *names: str) -> Any:
    """The member of a member of a JSON document; None without one."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document
