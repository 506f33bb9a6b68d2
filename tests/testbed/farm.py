"""Hundreds of nodes behind one real sshd on loopback that drops connections as a real one does, some of them
dead, each in its way.

What a node is to muster it is by its inventory entry: every node has a tree, a Python and, where it is dead,
an address of its own. So no network namespace is needed, nor root, nor another port: `node.python` is a
script that leads the real collector to the node's tree.
"""

from __future__ import annotations

import random
import secrets
import shlex
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from inventory.model import Node, Via
from inventory.transport.base import Stage
from tests.testbed.collector import MARK, PYTHON, await_none_with
from tests.testbed.planted import executable
from tests.testbed.ports import free_port
from tests.testbed.sshd import (
    SSHD,
    Sshd,
    full_backlog,
    hangs_after_banner,
    hangs_up,
    listener,
    make_key,
    public,
    silent,
    sshd,
    wait_until,
)

SKU = "cpu-only"
# rules that see this machine, and not the node's tree
UNLIKE = ("host-clock-*", "filesystem-space", "filesystem-inodes")


class Way(Enum):
    """How a node is dead."""

    REFUSED = "nobody listens"
    SILENT = "accepts, and says nothing"
    HANGS_AFTER_BANNER = "says its banner, and no more"
    FULL_BACKLOG = "drops every SYN"
    HANGS_UP = "closes every connection at once"
    NO_NAME = "its name has no address"
    HOST_KEY = "has another host key than it had"
    NO_KEY = "does not accept our key"
    NEVER_ENDS = "its program starts, and never answers"
    FLOODS = "its program prints without end"


STAGES: Mapping[Way, Stage] = {
    Way.REFUSED: Stage.CONNECT, Way.SILENT: Stage.CONNECT, Way.HANGS_AFTER_BANNER: Stage.CONNECT,
    Way.FULL_BACKLOG: Stage.CONNECT,
    Way.HANGS_UP: Stage.CONNECT, Way.NO_NAME: Stage.RESOLVE, Way.HOST_KEY: Stage.HOST_KEY,
    Way.NO_KEY: Stage.AUTH,
    Way.NEVER_ENDS: Stage.DEADLINE, Way.FLOODS: Stage.REPLY,
}


@dataclass(frozen=True)
class Farm:
    """Running nodes n0001 and on, in the inventory's order; `dead` says which are dead and how, all others
    are healthy."""

    nodes: tuple[Node, ...]
    dead: Mapping[str, Way]
    server: Sshd
    mark: str

    @property
    def healthy(self) -> set[str]:
        return {node.name for node in self.nodes} - self.dead.keys()

    def await_nothing_left(self) -> None:
        """Waits until sshd serves no one and no program runs on any node; fails the test when something
        stays."""
        wait_until(lambda: not _children(self.server.process.pid), what="the end of sshd's sessions")
        await_none_with(self.mark)


@contextmanager
def farm(
    folder: Path, nodes: int = 512, dead: float = 0.05, via: Via = Via.PARAMIKO, startups: str = "10:30:100",
    config: str = "",
) -> Iterator[Farm]:
    """A farm in `folder`; the share `dead` of its nodes is dead in each way, at least one node where it is
    not 0.

    `startups` is sshd's MaxStartups, by default sshd's own default, and `config` what else it is to do.
    """
    names = [f"n{number:04d}" for number in range(1, nodes + 1)]
    each = max(1, round(nodes * dead)) if dead else 0
    ways = [way for way in Way for _ in range(each)]
    assert len(ways) < nodes, "no node would be healthy"
    plan = dict(zip(random.Random(nodes).sample(names, len(ways)), ways, strict=True))
    mark = f"farm-{secrets.token_hex(8)}"
    with ExitStack() as stack:
        server = stack.enter_context(sshd(folder / "sshd",
                                          config=f"MaxStartups {startups}\n{_no_penalties(folder)}{config}"))
        ports = {Way.REFUSED: free_port(), Way.FULL_BACKLOG: stack.enter_context(full_backlog())}
        for way, serve in ((Way.SILENT, silent), (Way.HANGS_AFTER_BANNER, hangs_after_banner),
                           (Way.HANGS_UP, hangs_up)):
            ports[way] = stack.enter_context(listener(serve))
        stranger = make_key(folder / "stranger")
        changed = folder / "changed"
        changed.write_text(f"{server.known_name} {public(stranger)}\n")
        rng = random.Random(1)
        made = []
        for name in names:
            node_way = plan.get(name)
            python = _python(folder / name, name, node_way, mark, rng)
            node = replace(server.node(name), python=str(python), sku=SKU, transport=via)
            if node_way in ports:
                node = replace(node, port=ports[node_way])
            elif node_way is Way.NO_NAME:
                node = replace(node, address=f"{name}.invalid")
            elif node_way is Way.HOST_KEY:
                node = replace(node, known_hosts_file=(str(changed),))
            elif node_way is Way.NO_KEY:
                node = replace(node, identity_file=(str(stranger),))
            made.append(node)
        yield Farm(tuple(made), plan, server, mark)


def _python(at: Path, name: str, way: Way | None, mark: str, rng: random.Random) -> Path:
    """What the node has for Python, and where it is healthy its tree beside it."""
    at.mkdir()
    # the nonce is the last word of our command
    started = 'for nonce; do :; done; echo "muster:$nonce:python 3.11"'
    if way is Way.NEVER_ENDS:
        lines = (started, "exec cat >/dev/null")        # as long as its input is open
    elif way is Way.FLOODS:
        lines = (started, "exec tr '\\0' A </dev/zero")
    else:
        tree = at / "tree"
        for path, text in _files(name, rng).items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text)
        (tree / "run").mkdir()
        lines = (f"export MUSTER_ROOT={shlex.quote(str(tree))}", f'exec {shlex.quote(PYTHON)} "$@"')
    return executable(at / "python3", "\n".join(("#!/bin/sh", f"export {MARK}={mark}", *lines, "")))


def _files(name: str, rng: random.Random) -> dict[str, str]:
    """A machine without GPU and RDMA port on which nothing is wrong."""
    return {
        "proc/sys/kernel/hostname": f"{name}\n", "proc/sys/kernel/osrelease": "6.5.0-1019\n",
        "proc/sys/kernel/random/boot_id": f"{uuid.UUID(int=rng.getrandbits(128), version=4)}\n",
        "proc/meminfo": "MemTotal: 263889204 kB\nMemFree: 250000000 kB\nMemAvailable: 255000000 kB\n",
        "proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
        "proc/self/mountinfo": "30 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 "
                               "rw,errors=remount-ro\n",
        "sys/bus/pci/devices/"
        "0000:00:1f.0/uevent": "PCI_CLASS=60100\nPCI_ID=8086:1B81\nPCI_SLOT_NAME=0000:00:1f.0\n",
        "dev/kmsg": "".join(f"6,{number},{number * 1000},-;{text}\n"
                            for number, text in enumerate(("Linux version 6.5.0-1019 (gcc) #20 SMP",
                                                           "Command line: BOOT_IMAGE=/vmlinuz root=UUID=1 ro",
                                                           "Memory: 263889204K/268435456K"))),}


def _no_penalties(folder: Path) -> str:
    """sshd 9.8 and newer shut out an address whose keys were not accepted; here that is every node's."""
    assert SSHD is not None
    key = make_key(folder / "asking")
    known = subprocess.run([SSHD, "-T", "-f", "/dev/null", "-h", str(key)], capture_output=True, text=True,
                           check=True).stdout
    return "PerSourcePenalties no\n" if "persourcepenalties" in known else ""


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found
