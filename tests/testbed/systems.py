"""One machine's SSH port behind which different systems answer, one after the other: an installer, a live
system, an installed one.

Each is a real sshd with a host key of its own, and a tree of the files by which a machine shows what it runs;
sshd gives the program that looks at them the tree's folder (MUSTER_ROOT).
"""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from inventory.model import Node
from tests.testbed.ports import free_port
from tests.testbed.sshd import Sshd, make_key, sshd

_RELEASE = 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\nID=ubuntu\n'
_DISK = "30 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n"
_COW = ("25 1 0:25 / / rw,relatime shared:1 - overlay /cow "
        "rw,lowerdir=/installer.squashfs,upperdir=/cow/upper,workdir=/cow/work\n")
_CASPER = "BOOT_IMAGE=/casper/vmlinuz boot=casper autoinstall ds=nocloud-net;s=http://10.0.0.1/seed/ ---\n"
_GRUB = "BOOT_IMAGE=/boot/vmlinuz-6.8.0 root=UUID=1d3f ro console=ttyS1\n"


@dataclass(frozen=True)
class System:
    """What a machine shows of itself; `processes` are command lines. `lets_in` says whether it knows our
    user."""

    cmdline: str = _GRUB
    mounts: str = _DISK
    systemd: str = "running"
    release: str = _RELEASE
    processes: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    lets_in: bool = True


INSTALLED = System()
SUBIQUITY = System(_CASPER, _COW,
                   processes=("/snap/subiquity/5495/usr/bin/python3.10 -m subiquity.cmd.server",))
STRANGER = System(_CASPER, _COW, lets_in=False)
STARTING = System(systemd="starting")
FIRST_BOOT = System(
    files={"run/cloud-init/status.json": '{"v1": {"stage": "modules-final", "datasource": "x"}}'})
STATELESS = System(f"{_GRUB.strip()} wwinit.uri=http://10.0.0.1:9873/provision\n",
                   "25 1 0:2 / / rw - tmpfs tmpfs rw\n",
                   files={"etc/site-image": "compute r7\n"})


def plant(system: System, tree: Path) -> None:
    """Its files below a folder."""
    files = {"proc/cmdline": system.cmdline, "proc/self/mountinfo": system.mounts,
             "etc/os-release": system.release, **system.files,
             **{f"proc/{pid}/cmdline": "\0".join([*words.split(), ""])
                for pid, words in enumerate(("/sbin/init", *system.processes), 1)}}
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    tool = tree / "usr/bin/systemctl"
    tool.parent.mkdir(parents=True)
    tool.write_text(f"#!/bin/sh\necho {system.systemd}\n[ {system.systemd} = running ]\n")
    tool.chmod(0o755)


@dataclass
class Place:
    """A machine at an address; nothing answers there until a system is started."""

    folder: Path
    port: int
    key: Path
    known: Path
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    started: dict[str, Sshd] = field(default_factory=dict)

    def start(self, name: str, system: System, *types: str) -> Sshd:
        """In place of what runs; by the same name it has the same host keys as before."""
        self.stop()
        folder = self.folder / name
        tree = folder / "tree"
        if not tree.exists():
            plant(system, tree)
        server = self._stack.enter_context(sshd(
            folder, port=self.port, user_key=self.key, host_key_types=types or ("ed25519",),
            config=f"SetEnv MUSTER_ROOT={tree} HOME={folder / 'home'} PATH=/usr/local/bin:/usr/bin:/bin\n"))
        if not system.lets_in:
            server.authorized.write_text("")
        self.started[name] = server
        return server

    def stop(self) -> None:
        """Nothing answers any more."""
        self._stack.close()
        self._stack = contextlib.ExitStack()

    def node(self, name: str = "n1", **changes: object) -> Node:
        """As an inventory has it: no host key is known."""
        values: dict[str, object] = {"user": getpass.getuser(), "identity_file": (str(self.key),),
                                     "known_hosts_file": (str(self.known),), **changes}
        return Node(name, "127.0.0.1", self.port, **values)  # type: ignore[arg-type]


@contextlib.contextmanager
def place(folder: Path) -> Iterator[Place]:
    """One such machine."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Place(folder, free_port(), make_key(folder / "key"), folder / "known_hosts")
    try:
        yield made
    finally:
        made.stop()
