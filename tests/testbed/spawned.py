"""Nodes with a real systemd that boot and lose power as they are told: Debian in systemd-nspawn, an overlay
each, at loopback addresses.

As in `nspawn`, whose root file system they share; what a node wrote before it lost power is there when it
boots again. Needs root.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.testbed.mounts import mount
from tests.testbed.nspawn import rootfs
from tests.testbed.ports import free_port
from tests.testbed.sshd import make_key, public, wait_until

# In a container there is no clock to discipline; that somebody does is among the checks.
_CHRONY = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
# The kernel is this machine's, and its log is none of a container's: instead, one in which nothing happened.
_KMSG = ("6,0,0,-;Linux version 6.1.0 (debian) #1 SMP\n6,1,1000,-;Command line: BOOT_IMAGE=/vmlinuz "
         "root=UUID=1 ro\n")
_IDLE = ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
         "fstrim.timer",
         "prometheus-node-exporter.service")


@dataclass
class Spawned:
    """Those there are, all off at first; `power` is for a rack's `on_power`."""

    folder: Path
    key: Path
    known_hosts: Path
    addresses: Mapping[str, str]
    port: int
    # a file that only an installed node has: its root file system is an overlay
    marker: str = "/etc/site-image"
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def entry(self, name: str) -> str:
        """The keys of its entry in an inventory by which it is reached, for a line of the form {...}."""
        return (f"address: {self.addresses[name]}, port: {self.port}, user: root, identity_file: {self.key}, "
                f"known_hosts_file: {self.known_hosts}")

    def root(self, name: str) -> Path:
        """Its root folder, as seen from here."""
        return self.folder / name / "root"

    def power(self, name: str, on: bool) -> None:
        """Boots it, or takes its power away; twice the same does nothing."""
        with self._lock:
            if on and name not in self._running:
                with (self.folder / name / "log").open("ab") as log:
                    self._running[name] = subprocess.Popen(
                        ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot",
                         f"--machine={name}",
                         f"--directory={self.root(name)}",
                         f"--bind-ro={self.folder / name / 'kmsg'}:/dev/kmsg"], stdin=subprocess.DEVNULL,
                        stdout=log, stderr=log, start_new_session=True)
            elif not on and name in self._running:
                process = self._running.pop(name)
                # With its first process all that runs there dies, and systemd-nspawn ends; by itself it would
                # leave them behind.
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
                wait_until(lambda: process.poll() is not None or children.read_text(),
                           what=f"the first process of {name}")
                for child in children.read_text().split() if process.poll() is None else ():
                    os.kill(int(child), signal.SIGKILL)
                process.wait(30)


@contextlib.contextmanager
def spawned(folder: Path, names: Sequence[str]) -> Iterator[Spawned]:
    """These nodes; gone afterwards."""
    lower = rootfs()
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        # An overlay cannot lie on an overlay, which is what /tmp is in a container.
        mount(stack, folder, "-t", "tmpfs", "nodes")
        key = make_key(folder / "key")
        block = f"127.{192 + secrets.randbelow(60)}.{secrets.randbelow(256)}"
        made = Spawned(folder, key, folder / "known_hosts",
                       {name: f"{block}.{at}" for at, name in enumerate(names, 1)}, free_port())
        for name in names:
            _prepared(stack, made, name, lower)
        stack.callback(lambda: [made.power(name, False) for name in names])
        yield made


def _prepared(stack: contextlib.ExitStack, made: Spawned, name: str, lower: Path) -> None:
    own, root = made.folder / name, made.root(name)
    for part in ("upper", "work", "root"):
        (own / part).mkdir(parents=True)
    mount(stack, root, "-t", "overlay", "-o",
          f"lowerdir={lower},upperdir={own}/upper,workdir={own}/work", "overlay")
    (own / "kmsg").write_text(_KMSG)
    (root / "etc/hostname").write_text(f"{name}\n")
    (root / made.marker.lstrip("/")).write_text("testbed\n")
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{made.addresses[name]} {name}\n")
    (root / "etc/machine-id").write_text(hashlib.sha256(name.encode()).hexdigest()[:32] + "\n")
    (root / "etc/ssh/sshd_config.d/here.conf").write_text(
        f"ListenAddress {made.addresses[name]}:{made.port}\nPermitRootLogin yes\nUsePAM no\nUseDNS no\n")
    # not those of the image, which all nodes would share
    for path in (root / "etc/ssh").glob("ssh_host_*"):
        path.unlink()
    make_key(root / "etc/ssh/ssh_host_ed25519_key")
    (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    (root / "root/.ssh/authorized_keys").write_text(f"{public(made.key)}\n")
    units = root / "etc/systemd/system"
    (units / "chrony.service").write_text(_CHRONY)
    (units / "multi-user.target.wants").mkdir(exist_ok=True)
    (units / "multi-user.target.wants/chrony.service").symlink_to("../chrony.service")
    for unit in _IDLE:
        (units / unit).symlink_to("/dev/null")
