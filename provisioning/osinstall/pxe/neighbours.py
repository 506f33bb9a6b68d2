"""Which hardware address a peer on the same network has, as the kernel knows it. Source: proc_net_arp,
Documentation/networking (columns: IP address, HW type, flags, HW address; flag 0x2: complete)."""

from __future__ import annotations

import re
from pathlib import Path

from inventory.entry import mac_address

TABLE = Path("/proc/net/arp")
_COMPLETE = 0x2
_FLAGS = re.compile("0x[0-9a-f]{1,8}")
_MOST_BYTES = 4 * 1024 * 1024


def hardware_address(peer: str, table: Path = TABLE) -> str | None:
    """The address; None where the kernel knows none, as of a peer behind a router."""
    try:
        with table.open("rb") as file:
            lines = file.read(_MOST_BYTES).decode("ascii", "replace").splitlines()[1:]
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if len(words) >= 4 and words[0] == peer and _FLAGS.fullmatch(words[2]) and (
                int(words[2], 16) & _COMPLETE):
            return mac_address(words[3])
    return None
