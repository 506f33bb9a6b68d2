"""A fabric whose switches are network namespaces that route as its forwarding tables say, its cables veth
pairs as fast as a test shapes them (tc). Needs root.

Each host has its one port as `eth0`; the head is at the first leaf. A host is reached by running its Python
in its namespace, so that the local transport does for it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from healthcheck.subnet.model import DeviceKind, FabricEnd, FabricLink, Subnet
from tests.testbed.planted import executable
from tests.testbed.require import require

MBIT = 160      # of a link that is as it should be


@dataclass(frozen=True)
class RoutedFabric:
    """`spaces` are the namespaces by GUID, `pythons` by the host's name what runs Python there; `head` is the
    head's address."""

    subnet: Subnet
    spaces: dict[str, str]
    pythons: dict[str, Path]
    head: str

    def between(self, one: str, other: str) -> FabricLink:
        """The link between two devices, by the first words of their descriptions."""
        names = {guid: device.description.split()[0] for guid, device in self.subnet.devices.items()}
        return next(link
                    for link in self.subnet.links if {names[link.a.guid], names[link.b.guid]} == {one, other})

    def carries(self, link: FabricLink, mbit: int) -> None:
        """From now on the link carries so much each way, in Mbit/s."""
        for end in (link.a, link.b):
            _run("tc", "qdisc", "replace", "dev", _port(self.subnet, end), "root", "tbf", "rate",
                 f"{mbit}mbit", "burst", "64kb",
                 "latency", "100ms", space=self.spaces[end.guid])

    def loses(self, link: FabricLink, share: float) -> None:
        """From now on such a share of the packets that switches put on the link is lost. (Not by netem, which
        not every kernel has.)"""
        for end in (link.a, link.b):
            if self.subnet.devices[end.guid].kind is DeviceKind.SWITCH:
                _run("iptables", "-A", "FORWARD", "-o", _port(self.subnet, end), "-m", "statistic", "--mode",
                     "random", "--probability",
                     str(share), "-j", "DROP", space=self.spaces[end.guid])


@contextlib.contextmanager
def routed(subnet: Subnet, folder: Path) -> Iterator[RoutedFabric]:
    """The fabric of this subnet, all of it sound."""
    require(os.geteuid() == 0, "needs root: network namespaces")
    require(shutil.which("tc") and shutil.which("ip"),
            "no ip and tc on this machine: apt-get install -y iproute2")
    tag, net = f"mf{secrets.token_hex(3)}", f"10.214.{secrets.randbelow(254)}"
    switches = [guid for guid, device in sorted(subnet.devices.items()) if device.kind is DeviceKind.SWITCH]
    hosts = [guid for guid, device in sorted(subnet.devices.items()) if device.kind is DeviceKind.ADAPTER]
    address = {**{guid: f"{net}.{at}" for at, guid in enumerate(hosts, 1)},
               **{guid: f"{net}.{at}" for at, guid in enumerate(switches, 150)}}
    head = f"{net}.254"
    fabric = RoutedFabric(subnet,
                          {guid: f"{tag}-{at}" for at, guid in enumerate((*switches, *hosts))}, {}, head)
    with contextlib.ExitStack() as stack:
        for guid, space in fabric.spaces.items():
            _run("ip", "netns", "add", space)
            stack.callback(_run, "ip", "netns", "delete", space)
            _run("ip", "link", "set", "lo", "up", space=space)
            if guid in switches:
                _run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0",
                     "net.ipv4.conf.default.rp_filter=0",
                     "net.ipv4.conf.all.send_redirects=0",
                     "net.ipv4.conf.default.send_redirects=0", space=space)
                _run("ip", "address", "add", f"{address[guid]}/32", "dev", "lo", space=space)
        for link in subnet.links:
            one, other = _port(subnet, link.a), _port(subnet, link.b)
            _run("ip", "link", "add", one, "netns", fabric.spaces[link.a.guid], "type", "veth", "peer",
                 "name", other,
                 "netns", fabric.spaces[link.b.guid])
            for end, name in ((link.a, one), (link.b, other)):
                _run("ip", "link", "set", name, "up", space=fabric.spaces[end.guid])
            fabric.carries(link, MBIT)
        for guid in hosts:
            peer = next(port.peer for port in subnet.devices[guid].ports.values() if port.peer is not None)
            _run("ip", "address", "add", f"{address[guid]}/32", "dev", "eth0", space=fabric.spaces[guid])
            _run("ip", "route", "add", "default", "via", address[peer.guid], "dev", "eth0", "onlink",
                 space=fabric.spaces[guid])
            name = subnet.devices[guid].description.split()[0]
            fabric.pythons[name] = executable(
                folder / f"python-{name}",
                f'#!/bin/sh\nexec nsenter --net=/run/netns/{fabric.spaces[guid]} {sys.executable} "$@"\n')
        first = next(guid for guid in switches
                     if any(_peer(subnet, guid, number) in hosts for number in subnet.devices[guid].ports))
        _run("ip", "link", "add", tag, "type", "veth", "peer", "name", "head", "netns", fabric.spaces[first])
        stack.callback(_run, "ip", "link", "delete", tag)
        _run("ip", "address", "add", f"{head}/32", "dev", tag)
        _run("ip", "link", "set", tag, "up")
        _run("ip", "link", "set", "head", "up", space=fabric.spaces[first])
        _run("ip", "route", "add", f"{net}.0/24", "via", address[first], "dev", tag, "onlink")
        beside = next(guid for guid in hosts if any(port.peer is not None and port.peer.guid == first
                                                    for port in subnet.devices[guid].ports.values()))
        for guid in switches:
            table = subnet.routes[guid]
            for host in hosts:
                lid = next(port.lid for port in subnet.devices[host].ports.values() if port.lid is not None)
                _route(fabric, address, guid, f"{address[host]}/32", table[lid], host)
                if host == beside and guid != first:
                    _route(fabric, address, guid, f"{head}/32", table[lid], host)
        _run("ip", "route", "add", f"{head}/32", "dev", "head", space=fabric.spaces[first])
        yield fabric


def _route(fabric: RoutedFabric, address: dict[str, str], switch: str, target: str, out: int,
           host: str) -> None:
    peer = _peer(fabric.subnet, switch, out)
    via = () if peer == host else ("via", address[peer])
    _run("ip", "route", "add", target, *via, "dev", f"p{out}", *(("onlink",) if via else ()),
         space=fabric.spaces[switch])


def _peer(subnet: Subnet, guid: str, number: int) -> str:
    peer = subnet.devices[guid].ports[number].peer
    return peer.guid if peer is not None else ""


def _port(subnet: Subnet, end: FabricEnd) -> str:
    return "eth0" if subnet.devices[end.guid].kind is DeviceKind.ADAPTER else f"p{end.number}"


def _run(*words: str, space: str | None = None) -> None:
    subprocess.run([*(("ip", "netns", "exec", space) if space else ()), *words], check=True,
                   capture_output=True)
