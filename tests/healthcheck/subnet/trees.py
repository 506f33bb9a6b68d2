"""Small fat trees with forwarding tables, as values: what tests of routes and of link burns plan over."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from healthcheck.subnet.burnways import BurnPort
from healthcheck.subnet.model import DeviceKind, FabricDevice, FabricEnd, FabricPort, LinkState, Subnet

LEAVES, SPINES, HOSTS = 0x200, 0x100, 0x1000


def leaf(number: int) -> str:
    return f"{LEAVES + number:016x}"


def spine(number: int) -> str:
    return f"{SPINES + number:016x}"


def host(number: int) -> str:
    return f"{HOSTS + number:016x}"


@dataclass(frozen=True)
class Tree:
    """Leaves with `hosts` each (numbered from 0 over all leaves), and `cables` from each leaf to each spine.
    A leaf's ports are its hosts', from 1, then its uplinks by spine; a spine's are its leaves' in turn."""

    leaves: int
    hosts: int
    spines: int
    cables: int = 1

    @property
    def uplinks(self) -> int:
        return self.spines * self.cables

    def ports(self) -> tuple[BurnPort, ...]:
        return tuple(BurnPort(f"n{at:03}", FabricEnd(host(at), 1), 0)
                     for at in range(self.leaves * self.hosts))

    def subnet(self, up: Callable[[int, int], int], down: Callable[[int, int], int], speed: str = "NDR",
               up_speed: str = "NDR",
               state: LinkState | None = LinkState.ACTIVE) -> Subnet:
        """`up(leaf, host)` is which uplink (from 0) a leaf takes for a host elsewhere, `down(spine, host)`
        which of the cables to its leaf (from 0) a spine takes."""
        ends: dict[FabricEnd, tuple[FabricEnd, str]] = {}
        for at in range(self.leaves):
            for own in range(self.hosts):
                _cable(ends, FabricEnd(leaf(at), own + 1), FabricEnd(host(at * self.hosts + own), 1), speed)
            for uplink in range(self.uplinks):
                _cable(ends, FabricEnd(leaf(at), self.hosts + 1 + uplink),
                       FabricEnd(spine(uplink // self.cables), at * self.cables + uplink % self.cables + 1),
                       up_speed)
        lids = {guid: number for number, guid in enumerate(sorted({end.guid for end in ends}), 1)}
        devices = {}
        for guid in lids:
            adapter = int(guid, 16) >= HOSTS
            shown = {end.number: FabricPort(end, state, "linkup", 4, rate, lid=lids[guid], peer=peer)
                   for end, (peer, rate) in sorted(ends.items()) if end.guid == guid}
            devices[guid] = FabricDevice(guid, DeviceKind.ADAPTER if adapter else DeviceKind.SWITCH,
                                         guid.lstrip("0"), ports=shown)
        return Subnet("", devices,
                      routes={**{leaf(at): self._of_leaf(at, lids, up) for at in range(self.leaves)},
                              **{spine(at): self._of_spine(at, lids, down) for at in range(self.spines)}})

    def _of_leaf(self, at: int, lids: dict[str, int], up: Callable[[int, int], int]) -> dict[int, int]:
        return {lids[host(to)]: to % self.hosts + 1 if to // self.hosts == at else self.hosts + 1 + up(at, to)
                for to in range(self.leaves * self.hosts)}

    def _of_spine(self, at: int, lids: dict[str, int], down: Callable[[int, int], int]) -> dict[int, int]:
        return {lids[host(to)]: to // self.hosts * self.cables + 1 + down(at, to)
                for to in range(self.leaves * self.hosts)}

    def by_destination(self) -> Subnet:
        """Routed as a well-kept fat tree is: the uplink by the host's place in its leaf."""
        return self.subnet(lambda _, to: to % self.hosts % self.uplinks,
                           lambda _, to: to % self.hosts % self.cables)

    def at_random(self, seed: int) -> Subnet:
        """Any uplink for any host."""
        chosen = random.Random(seed)
        return self.subnet(lambda _, __: chosen.randrange(self.uplinks),
                           lambda _, __: chosen.randrange(self.cables))


def _cable(ends: dict[FabricEnd, tuple[FabricEnd, str]], one: FabricEnd, other: FabricEnd,
           speed: str) -> None:
    ends[one], ends[other] = (other, speed), (one, speed)
