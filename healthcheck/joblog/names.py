"""Whom a line is of or names: the node behind a rank, a host's name, an address or an adapter's GID."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from healthcheck.joblog.model import JobEvent, JobLog
from healthcheck.joblog.prefix import short

_MAPPED = re.compile(r"^(?:0{0,4}:){0,6}:?ffff:(\d{1,3}(?:\.\d{1,3}){3})$", re.IGNORECASE)
_BY_ADDRESS = re.compile(r"^\d{1,3}(?:\.\d{1,3}){3}$")


@dataclass(frozen=True)
class JobParty:
    """An accused or reporting party: a node, a rank or an adapter of it; `address`: its name in a line."""

    node: str = ""
    rank: int | None = None
    part: str = ""
    address: str = ""

    @property
    def label(self) -> str:
        """The name for people, or ""."""
        if self.address:
            named = self.node and short(self.node) != short(self.address)
            return f"{self.node} ({self.address})" if named else self.address
        if self.part:
            return f"{self.node} {self.part}".strip()
        return ", ".join(filter(None, (self.node, f"rank {self.rank}" if self.rank is not None else "")))


class NodeNames:
    """Finds the node that a rank, a host or an address is of. `nodes` are those that the job is known to have
    had, by their own names, and `addresses` the node of further names and addresses."""

    def __init__(self, log: JobLog, nodes: Collection[str] = (), addresses: Mapping[str, str] = {}) -> None:
        self._hosts = log.hosts
        self._of = {**{short(address): node for address, node in addresses.items()},
                    **{address.lower(): host for address, host in log.addresses.items()}}
        self.nodes = tuple(nodes)
        self._known = {**{short(address): node for address, node in addresses.items() if not nodes
                          or node in set(nodes)},
                       **{short(node): node for node in nodes}}
        self._seen = {short(host): host for host in (*log.heard, *log.hosts.values())}
        # Nodes of which an address is known are not behind another one.
        self._placed = {self.named(host) for address, host in log.addresses.items()
                        if _BY_ADDRESS.match(address)} | {node for address, node in addresses.items()
                                                          if _BY_ADDRESS.match(address)}

    def of(self, event: JobEvent) -> JobParty:
        """The party that a line is from or about."""
        return JobParty(self.named(event.node) if event.node else self.rank(event.rank), event.rank)

    def rank(self, rank: int | None) -> str:
        """The node of a rank, empty where no line tells it."""
        host = "" if rank is None else self._hosts.get(rank, "")
        return (self.named(host) if host else self.nodes[0] if len(self.nodes) == 1 and rank is not None
                else "")

    def left(self, reporters: Collection[str]) -> list[str]:
        """The job's nodes of which no address is known, without these."""
        return [node for node in self.nodes if node not in reporters and node not in self._placed]

    def named(self, host: str) -> str:
        """The job's own name of this host, or the host as it is called."""
        if host == "localhost" and len(self.nodes) == 1:
            return self.nodes[0]
        return self._known.get(short(host)) or host

    def peer(self, address: str) -> str:
        """The node of a host name, an address or a GID, or ""."""
        mapped = _MAPPED.match(address)
        for one in (address, *((mapped[1],) if mapped is not None else ())):
            host = self._of.get(one.lower()) or self._of.get(short(one), "")
            if host:
                return self.named(host)
            if (near := self._known.get(short(one)) or self._seen.get(short(one))) is not None:
                return self.named(near)
            if _BY_ADDRESS.match(one):      # as clouds name their machines
                cloud = f"ip-{one.replace('.', '-')}"
                if (near := self._known.get(cloud) or self._seen.get(cloud)) is not None:
                    return self.named(near)
        return ""
