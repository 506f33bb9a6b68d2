"""Machines that boot and lose power in an instant: each a real sshd in namespaces of its own, with its own
boot, name and board number.

A box sees this machine's files and network, and of itself what makes it one machine among others: the host
name, boot_id and machine-id, and the serial number of its board. It is dead at once when its power goes.
Needs root.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shlex
import shutil
import subprocess
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.testbed.ports import free_port
from tests.testbed.require import require
from tests.testbed.sshd import SSHD, make_key, public

MARKER = "/sys/class/site-image"     # a file that only a box has: its root file system is this machine's
_BOOT = """\
hostname {name}
mount --make-rprivate /
mount --bind {folder}/boot_id /proc/sys/kernel/random/boot_id
[ ! -e /etc/machine-id ] || mount --bind {folder}/machine-id /etc/machine-id
mount -t tmpfs none /sys/class
mkdir -p /sys/class/dmi/id
echo {serial} >/sys/class/dmi/id/product_serial
echo box >{marker}
exec {sshd} -D -e -f {folder}/sshd_config
"""


def require_boxes() -> None:
    require(SSHD, "no sshd on this machine: apt-get install -y openssh-server")
    require(os.geteuid() == 0, "only root can give a process namespaces of its own")
    require(shutil.which("unshare"), "no unshare on this machine: apt-get install -y util-linux")


@dataclass
class Boxes:
    """Those there are, all off at first; `power` is for a rack's `on_power`."""

    folder: Path
    key: Path
    known_hosts: Path
    addresses: Mapping[str, str]
    port: int
    serials: Mapping[str, str]
    marker: str = MARKER
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def entry(self, name: str) -> str:
        """The keys of its entry in an inventory by which it is reached, for a line of the form {...}."""
        return (
            f"address: {self.addresses[name]}, port: {self.port}, user: {getpass.getuser()}, identity_file: "
            f"{self.key}, "
            f"known_hosts_file: {self.known_hosts}")

    def power(self, name: str, on: bool) -> None:
        """Boots it, or takes its power away; twice the same does nothing."""
        with self._lock:
            if on and name not in self._running:
                own = self.folder / name
                (own / "boot_id").write_text(f"{uuid.uuid4()}\n")
                with (own / "log").open("ab") as log:
                    self._running[name] = subprocess.Popen(
                        ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc",
                         "sh", str(own / "boot")],
                        stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            elif not on and name in self._running:
                process = self._running.pop(name)
                process.kill()
                process.wait(10)


@contextlib.contextmanager
def boxes(folder: Path, serials: Mapping[str, str]) -> Iterator[Boxes]:
    """Boxes by name, with the serial numbers of their boards."""
    folder.mkdir(parents=True, exist_ok=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    key = make_key(folder / "key")
    block = f"127.{192 + secrets.randbelow(60)}.{secrets.randbelow(256)}"
    made = Boxes(folder, key, folder / "known_hosts",
                 {name: f"{block}.{at}" for at, name in enumerate(serials, 1)}, free_port(), serials)
    (folder / "authorized_keys").write_text(f"{public(key)}\n")
    for name, serial in serials.items():
        own = folder / name
        own.mkdir()
        make_key(own / "host_key")
        (own / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
        (own / "sshd_config").write_text("\n".join((
            f"ListenAddress {made.addresses[name]}:{made.port}", f"HostKey {own / 'host_key'}",
            f"AuthorizedKeysFile {folder / 'authorized_keys'}",
            "StrictModes no", "UsePAM no", "UseDNS no", "PidFile none", "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin yes", f"SetEnv HOME={own} PATH=/usr/local/bin:/usr/bin:/bin", "PrintMotd no",
            "PrintLastLog no", "")))
        (own / "boot").write_text(_BOOT.format(name=name, folder=shlex.quote(str(own)), serial=serial,
                                               sshd=SSHD, marker=MARKER))
    try:
        yield made
    finally:
        for name in serials:
            made.power(name, False)
