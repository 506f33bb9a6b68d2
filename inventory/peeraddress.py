"""Which clients of a server count as one: by IPv4 address, or by network of IPv6."""

from __future__ import annotations

import ipaddress


def peer_of(address: str) -> str:
    """The address that is counted as one client: of IPv6 the network of 64 bits, which one host may have."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((int(found), 64), strict=False))
    return str(found)
