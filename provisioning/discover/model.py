"""What discovery finds, as values: controllers, leases, rows of a delivery list. "" is unsaid."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from inventory.text import clean

# What makers leave where a number should be; the UUID is that of DMTF's published example, which some
# firmware copies.
_NOTHING = re.compile(r"[0 .:_-]*|[f-]+|n/?a|none|null|unknown.*|not (specified|available)|default string|to "
                      r"be filled by o\.e\.m\.|"
                          r"(system|chassis|product)? ?serial "
                          r"number|0?123456789|empty|92384634-2938-2342-8820-489239905423", re.IGNORECASE)
_MAC = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True)
class FoundController:
    """A controller at an address. `said` is what kept it from reporting more, `login` how the account fared,
    `fingerprint` the SHA-256 of its certificate, which nothing vouches for, `host` its own name."""

    address: str
    speaks: tuple[str, ...]
    vendor: str = ""
    product: str = ""
    model: str = ""
    serial: str = ""
    uuid: str = ""
    firmware: str = ""
    host: str = ""
    macs: tuple[str, ...] = ()
    fingerprint: str = ""
    said: str = ""
    login: str = ""


@dataclass(frozen=True)
class DhcpLease:
    """A DHCP server's newest of an address. `ends` is epoch seconds, None for never; `held`: still one."""

    address: str
    mac: str
    name: str
    ends: float | None
    held: bool


@dataclass(frozen=True)
class Delivered:
    """A row of a delivery list, and the line on which it stands."""

    line: int
    serial: str
    name: str = ""
    rack: str = ""
    slot: str = ""
    mac: str = ""
    model: str = ""
    address: str = ""


def number(text: object) -> str:
    """A serial number or UUID as compared: cleaned, upper case; "" for makers' words for none."""
    found = clean(text, 80).strip() if isinstance(text, str) else ""
    return "" if _NOTHING.fullmatch(found) else found.upper()


def mac(text: object) -> str:
    """A MAC address as aa:bb:cc:dd:ee:ff, "" for what is none, or belongs to no one."""
    digits = re.sub(r"[^0-9a-z]", "", text.lower()) if isinstance(text, str) and len(text) <= 40 else ""
    if _MAC.fullmatch(digits) is None or digits in ("0" * 12, "f" * 12):
        return ""
    return ":".join(digits[at:at + 2] for at in range(0, 12, 2))


def macs(texts: Iterable[object]) -> tuple[str, ...]:
    """Those that are MAC addresses, each once, in order."""
    return tuple(dict.fromkeys(found for found in map(mac, texts) if found))
