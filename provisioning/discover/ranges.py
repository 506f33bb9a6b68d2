"""Addresses that a person names: 10.1.0.0/24, 10.1.0.10-10.1.0.99, or one; none else is asked."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from inventory.errors import UsageError
from inventory.text import short

MOST = 65536
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def addresses(texts: Iterable[str]) -> tuple[str, ...]:
    """Each address once, in order; of a network its hosts. Raises UsageError for none, or over 65536."""
    found: dict[str, None] = {}
    for text in texts:
        first, last = _ends(text.strip())
        if int(last) - int(first) >= MOST or int(last) - int(first) + 1 + len(found) > 2 * MOST:
            raise _many()
        kind = type(first)
        found |= dict.fromkeys(str(kind(at)) for at in range(int(first), int(last) + 1))
        if len(found) > MOST:
            raise _many()
    return tuple(found)


def _ends(text: str) -> tuple[_Address, _Address]:
    try:
        if "/" in text:
            network = ipaddress.ip_network(text)
            whole = network.version == 6 or network.prefixlen >= 31
            return network[0 if whole else 1], network[-1 if whole else -2]
        low, dash, high = (part.strip() for part in text.partition("-"))
        first = ipaddress.ip_address(low)
        last = ipaddress.ip_address(high) if dash else first
        if type(first) is type(last) and first <= last:  # type: ignore[operator]
            return first, last
    except ValueError:
        pass
    raise UsageError(f"--range is {short(text)}, expected a network such as 10.1.0.0/24, addresses such as "
                     "10.1.0.10-10.1.0.99, or one")


def _many() -> UsageError:
    return UsageError(f"--range names over {MOST} addresses: name fewer at a time")
