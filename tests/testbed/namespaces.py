"""Nodes in network namespaces behind one bridge, with NICs and paths as slow as a test shapes them (tc).
Needs root.

Each node has one NIC, `eth0`, shaped on its way out and, at the bridge, on its way in; the head is on the
bridge, too. A node is reached by running its Python in its namespace, so that the local transport does for
it.
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

from inventory.model import BurnInSettings, Node
from tests.testbed.planted import executable
from tests.testbed.require import require

MBIT = 100      # of a NIC that is as it should be


@dataclass(frozen=True)
class Net:
    """The namespaces, by node name; `head` is the head's address."""

    spaces: dict[str, str]
    folder: Path
    tag: str
    subnet: str

    @property
    def head(self) -> str:
        return f"{self.subnet}.254"

    def address(self, name: str) -> str:
        return f"{self.subnet}.{list(self.spaces).index(name) + 1}"

    def nodes(self, python: tuple[str, ...]) -> list[Node]:
        """Inventory entries for the local transport; `python` has PyTorch."""
        return [Node(name, python=str(self.folder / name), burnin=BurnInSettings(python))
                for name in self.spaces]

    def nic(self, name: str, mbit: int) -> None:
        """From now on this node's NIC carries so much, each way."""
        at = list(self.spaces).index(name)
        _shape(self.spaces[name], "eth0", mbit)
        _shape(None, f"{self.tag}{at}", mbit)

    def cut(self, name: str) -> None:
        """From now on nothing reaches this node or comes from it, and no one is told."""
        _run("ip", "link", "set", f"{self.tag}{list(self.spaces).index(name)}", "down")

    def path(self, one: str, other: str, mbit: int) -> None:
        """From now on so much goes between these two, each way, and all else as before."""
        for source, target in ((one, other), (other, one)):
            space = self.spaces[source]
            _run("tc", "qdisc", "replace", "dev", "eth0", "root", "handle", "1:", "htb", "default",
                 "1", space=space)
            for minor, rate in ((1, MBIT), (2, mbit)):
                _run("tc", "class", "replace", "dev", "eth0", "parent", "1:", "classid", f"1:{minor}", "htb",
                     "rate", f"{rate}mbit",
                     "burst", "64k", "quantum", "3000", space=space)
            _run("tc", "filter", "add", "dev", "eth0", "protocol", "ip", "parent", "1:", "u32",
                 "match", "ip", "dst",
                 f"{self.address(target)}/32", "flowid", "1:2", space=space)

    def apart(self, one: str, other: str, *, silent: bool) -> None:
        """From now on nothing goes between these two, and all else as before; who sends is told at once, or
        is not (`silent`)."""
        for source, target in ((one, other), (other, one)):
            space, address = self.spaces[source], self.address(target)
            if silent:
                _run("ip", "neighbour", "replace", address, "lladdr", "02:00:00:00:00:99", "dev", "eth0",
                     "nud", "permanent", space=space)
            else:
                _run("ip", "route", "replace", "unreachable", f"{address}/32", space=space)

    def joined(self, one: str, other: str, *, silent: bool) -> None:
        """Undoes `apart`."""
        for source, target in ((one, other), (other, one)):
            space, address = self.spaces[source], self.address(target)
            if silent:
                _run("ip", "neighbour", "delete", address, "dev", "eth0", space=space)
            else:
                _run("ip", "route", "delete", "unreachable", f"{address}/32", space=space)


@contextlib.contextmanager
def namespaces(folder: Path, count: int) -> Iterator[Net]:
    """So many nodes, n0 and on."""
    require(os.geteuid() == 0, "needs root: network namespaces")
    require(shutil.which("tc") and shutil.which("ip"),
            "no ip and tc on this machine: apt-get install -y iproute2")
    tag = f"mu{secrets.token_hex(3)}"
    net = Net({f"n{at}": f"{tag}-{at}" for at in range(count)}, folder, tag,
              f"10.213.{secrets.randbelow(254)}")
    with contextlib.ExitStack() as stack:
        made = subprocess.run(["ip", "link", "add", tag, "type", "bridge"], capture_output=True,
                              text=True, check=False)
        require(made.returncode == 0, f"no bridge on this machine: {made.stderr.strip()}")
        stack.callback(_run, "ip", "link", "delete", tag)
        _run("ip", "address", "add", f"{net.head}/24", "dev", tag)
        _run("ip", "link", "set", tag, "up")
        for at, (name, space) in enumerate(net.spaces.items()):
            _run("ip", "netns", "add", space)
            stack.callback(_run, "ip", "netns", "delete", space)
            _run("ip", "link", "add", f"{tag}{at}", "type", "veth", "peer", "name", "eth0", "netns", space)
            stack.callback(_run, "ip", "link", "delete", f"{tag}{at}")
            _run("ip", "link", "set", f"{tag}{at}", "master", tag, "up")
            _run("ip", "address", "add", f"{net.address(name)}/24", "dev", "eth0", space=space)
            for link in ("lo", "eth0"):
                _run("ip", "link", "set", link, "up", space=space)
            net.nic(name, MBIT)
            executable(
                folder / name, f'#!/bin/sh\nexec nsenter --net=/run/netns/{space} {sys.executable} "$@"\n')
        yield net


def _shape(space: str | None, device: str, mbit: int) -> None:
    _run("tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{mbit}mbit", "burst", "64kb",
         "latency", "100ms", space=space)


def _run(*words: str, space: str | None = None) -> None:
    subprocess.run([*(("ip", "netns", "exec", space) if space else ()), *words], check=True,
                   capture_output=True)
