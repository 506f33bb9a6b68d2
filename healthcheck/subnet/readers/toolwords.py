"""Values in the words of the tools: numbers, GUIDs, names, widths and rates, and the lines they stand in."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inventory.text import clean

# Past these an output is cut: the largest fabrics print about 60 MB of counters.
MOST_TEXT = 256 * 1024 * 1024
MOST_LINE = 4096
# NodeDescription has 64 bytes (InfiniBand Architecture Specification, volume 1, NodeDescription); node name
# maps may be longer.
_MOST_NAME = 128
# A lane's signalling rate in gigabits a second, as infiniband-diags prints it (libibmad/dump.c and
# libibnetdisc of rdma-core), and the name of the rate.
LANE_SPEEDS = {"2.5": "SDR", "5.0": "DDR", "10.0": "QDR", "14.0625": "FDR", "25.78125": "EDR",
               "53.125": "HDR", "106.25": "NDR", "212.5": "XDR"}
SPEED_NAMES = frozenset({*LANE_SPEEDS.values(), "FDR10"})
WIDTHS = frozenset({1, 2, 4, 8, 12})
_GUID = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})")
# Lines of the form "Name:....value" and "Name....value", which smpquery, saquery and perfquery share.
_COLON = re.compile(r"\s*([A-Za-z][\w ]{0,63}?):\.*(.*)")
_DOTS = re.compile(r"\s*([A-Za-z]\w{0,63})\.{2,}(.*)")


def guid_of(text: str) -> str | None:
    """16 hexadecimal digits in lower case of "0xa00" or "0000000000000a00"; None for no GUID, and for 0."""
    found = _GUID.fullmatch(text)
    return found[1].lower().zfill(16) if found and int(found[1], 16) else None


def name_of(text: str) -> str:
    """A description as it may be shown: one clean line."""
    return clean(text.strip(), _MOST_NAME)


def lanes(text: str) -> int | None:
    """The 4 of "4x" or "4X"; None for a width that no link has."""
    digits = text.strip().rstrip("xX")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 3 and \
        int(digits) in WIDTHS else None


def rate(text: str) -> str | None:
    """The name of a lane's rate from "53.125 Gbps", "10.0 Gbps (FDR10)" or "HDR"; None for another."""
    words = text.split()
    if not words:
        return None
    if words[-1] == "(FDR10)":
        return "FDR10"
    if len(words) == 1:
        return words[0] if words[0] in SPEED_NAMES else None
    return LANE_SPEEDS.get(words[0]) if words[1] == "Gbps" else None


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """The lines that hold anything, with their numbers from 1, each at most `MOST_LINE` characters."""
    for number, line in enumerate(text[:MOST_TEXT].split("\n"), 1):
        if line and not line.isspace():
            yield number, line[:MOST_LINE].rstrip("\r")


def cut_short(text: str) -> bool:
    """Whether a tool that ends its output with a new line was cut off, by its last character."""
    return len(text) > MOST_TEXT or (text != "" and not text.endswith("\n"))


def pair(line: str) -> tuple[str, str] | None:
    """The name and the value of a line with dots between them; None for another line."""
    found = _COLON.fullmatch(line) or _DOTS.fullmatch(line)
    return (found[1], found[2].strip()) if found is not None else None


def number(text: str) -> int | None:
    """A whole number, decimal or "0x1f", of at most 64 bits; None for anything else."""
    if not text.isascii() or not 0 < len(text) <= 20:
        return None
    try:
        value = int(text, 16 if text.startswith("0x") else 10)
    except ValueError:
        return None
    return value if 0 <= value < 1 << 64 else None
