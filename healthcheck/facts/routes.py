"""Which addresses and routes each interface of the node has, in words that equal nodes share.

/proc/net/route: net/ipv4/fib_trie.c, fib_route_seq_show, the main table (addresses are hexadecimal in the
machine's byte order; flags in include/uapi/linux/route.h); /proc/net/if_inet6: net/ipv6/addrconf.c,
if6_seq_show, and RFC 4007's scopes. IPv4 addresses show as the subnets that the kernel has a route to
without a gateway. Interfaces of containers and bridges are left out: they come and go with jobs.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.bond import BONDING
from healthcheck.facts.netdev import NETDEV, NetDev, netdevs
from healthcheck.facts.parsing import matched
from healthcheck.facts.port import BASE as RDMA
from healthcheck.facts.roce import ROCE, unlisted_interfaces
from healthcheck.facts.team import TEAMD
from healthcheck.facts.values import UNSUPPORTED, Fact, Unsupported, first_unread, reading
from healthcheck.model.probes import MIB, Probe, ProbeKind

ROUTES4, ADDRESSES6 = "/proc/net/route", "/proc/net/if_inet6"
ROUTES = Probe("netdev.routes", ProbeKind.FILES, limit=1 * MIB, paths=(ROUTES4, ADDRESSES6))
_UP, _GATEWAY = 0x1, 0x2        # RTF_UP, RTF_GATEWAY
_ANYWHERE = "00000000"
_GLOBAL6 = "00"
# Iface, Destination, Gateway, Flags, RefCnt, Use, Metric, Mask, MTU, Window, IRTT
_ROUTE = re.compile(r"\s*(\S+)\s+([0-9A-Fa-f]{8})\s+[0-9A-Fa-f]{8}\s+([0-9A-Fa-f]{4})(?:\s+\S+){3}"
                    r"\s+([0-9A-Fa-f]{8})(?:\s+\S+){3}\s*")
_HEX32 = re.compile(r"[0-9a-f]{32}")


class Addressing(Fact):
    """One interface, "eno1 (0000:0b:00.0)" or "bond0": `place` is what those of equal nodes share, and
    `words` what it has ("an IPv4 subnet of /24, the default route"), "no address" where it has nothing.

    A node without any such interface has one entry, all UNSUPPORTED.
    """

    IDENTITY = ("place",)

    name: str
    place: str
    words: str


@fact("addressing", ROUTES, NETDEV, ROCE, besides=(TEAMD,), each="addresses")
def addressing(captures: Captures) -> tuple[Addressing, ...]:
    """Every interface with a driver of its own that is set up and in no bond, every bond, the VLANs on them,
    and the interfaces of InfiniBand ports, by name."""
    files = captures.files(ROUTES)
    routes = files.read(ROUTES4, parse_routes)
    # Without IPv6 the kernel has no such file.
    addresses: Any = files.optional(ADDRESSES6, parse_addresses6)
    found = [_addressing(name, netdev, routes, addresses)
             for name, netdev in sorted(_interfaces(captures, routes, addresses).items())]
    return tuple(one for one in found if one is not None) or (Addressing.absent("interfaces"),)


def _interfaces(captures: Captures, *tables: Any) -> dict[str, NetDev | None]:
    """The interfaces by name; None for those that are no Ethernet device of their own."""
    netdev_files, roce_files = captures.files(NETDEV), captures.files(ROCE)
    roce_files.require(*unlisted_interfaces(roce_files))
    names = {path.rpartition("/")[2] for path in netdev_files if path.startswith(f"{BONDING}/")}
    names |= {path.split("/")[-2] for path in roce_files
              if path.startswith(f"{RDMA}/") and path.endswith("/mtu")}
    known = {netdev.interface: netdev for netdev in captures.once(netdevs)
             if reading(netdev, "interface") is not UNSUPPORTED}
    names |= known.keys()
    names |= {name for table in tables if isinstance(table, dict) for name in table
              if name.partition(".")[0] in names}
    return {name: known.get(name) for name in names}


def _addressing(name: str, netdev: NetDev | None, routes: Any, addresses: Any) -> Addressing | None:
    """One interface; None where it is set down, or in a bond, whose addresses it carries."""
    shown, place, up, bond = name, name, True, ""
    if netdev is not None:
        shown, place, up, bond = (netdev.name, *(reading(netdev, field) for field in ("place", "up", "bond")))
    if up is False or (isinstance(bond, str) and bond):
        return None
    words: Any = first_unread((place, up, bond, routes, addresses))
    if isinstance(place, str):
        place = f"{name} at {place}" if netdev is not None else name
    if words is None:
        held = list(routes.get(name, ()))
        if not isinstance(addresses, Unsupported) and addresses[name]:
            held.append("a global IPv6 address")
        words = ", ".join(held) or "no address"
    return Addressing(name=shown, place=place, words=words)


def parse_routes(text: str) -> dict[str, tuple[str, ...]]:
    """What /proc/net/route gives each interface, in words; raises ValueError for another format."""
    head, *lines = text.splitlines() or [""]
    if head.split()[:4] != ["Iface", "Destination", "Gateway", "Flags"]:
        raise ValueError(head)
    subnets: dict[str, set[int]] = {}
    others: dict[str, set[str]] = {}
    for line in lines:
        name, destination, flag_bits, mask = matched(_ROUTE, line).groups()
        flags = int(flag_bits, 16)
        if not flags & _UP:
            continue
        if destination == mask == _ANYWHERE:
            others.setdefault(name, set()).add("the default route")
        elif flags & _GATEWAY:
            others.setdefault(name, set()).add("routes through a gateway")
        else:
            subnets.setdefault(name, set()).add(int(mask, 16).bit_count())
    return {name: (*_subnets(subnets.get(name, set())), *sorted(others.get(name, ())))
            for name in {**subnets, **others}}


def _subnets(lengths: set[int]) -> tuple[str, ...]:
    """Their prefix lengths in words; routes to single hosts come and go."""
    shown = sorted(lengths - {32})
    return (f"an IPv4 subnet of {' and '.join(f'/{length}' for length in shown)}",) if shown else ()


def parse_addresses6(text: str) -> Counter[str]:
    """How many global IPv6 addresses each interface has; raises ValueError for another format."""
    found: Counter[str] = Counter()
    for line in text.splitlines():
        words = line.split()
        if len(words) != 6 or not _HEX32.fullmatch(words[0]):
            raise ValueError(line)
        found[words[5]] += words[3] == _GLOBAL6
    return found
