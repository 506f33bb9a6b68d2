"""Nodes with a real systemd, a real sshd and a real node_exporter: Debian in systemd-nspawn, an overlay each,
on loopback ports of their own.

The root file system is made once, by mmdebstrap. Needs root.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import fuse
from tests.testbed.kept import bootstrapped
from tests.testbed.mounts import mount
from tests.testbed.ports import free_port
from tests.testbed.processes import stop
from tests.testbed.require import require
from tests.testbed.sshd import make_key, public, wait_until

_SUITE = "bookworm"
_PACKAGES = ("systemd", "systemd-sysv", "dbus", "openssh-server", "python3", "prometheus-node-exporter")
_OPTIONS = ("--variant=minbase", "--aptopt=Acquire::Languages \"none\"",
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/man/*", "--include=" + ",".join(_PACKAGES))


def require_nspawn() -> None:
    require(os.geteuid() == 0, "only root can start systemd in a container")
    require(all(map(shutil.which, ("systemd-nspawn", "mmdebstrap", "nsenter"))),
            "no systemd-nspawn or mmdebstrap on this machine: apt-get install -y systemd-container "
            "mmdebstrap")


@dataclass
class Machine:
    """A node that is up: its root folder as seen from here, its ports, and how to log in."""

    name: str
    root: Path
    port: int
    exporter: int
    key: Path
    known_hosts: Path
    process: subprocess.Popen[bytes]
    hung: bool = False

    @property
    def leader(self) -> int:
        """The pid, here, of its systemd."""
        return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])

    def run(self, *argv: str, check: bool = True) -> str:
        """What a command prints that root runs there."""
        done = subprocess.run(["nsenter", "--target", str(self.leader), "--all", *argv],
                              stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False, timeout=120)
        assert not check or done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def entry(self) -> str:
        """Its line in an inventory."""
        return f"  {self.name}: {{address: 127.0.0.1, port: {self.port}}}\n"


def rootfs() -> Path:
    """The root file system that nodes are overlays of; made if it is not there (about a minute)."""
    return bootstrapped(f"{_SUITE}-{hashlib.sha256(repr((_SUITE, _OPTIONS)).encode()).hexdigest()[:12]}",
                        _SUITE, *_OPTIONS)


@contextlib.contextmanager
def nodes(folder: Path, *names: str, hung: tuple[str, ...] = ()) -> Iterator[list[Machine]]:
    """These nodes, when their sshd answers; gone afterwards. Those of `hung` have a file system at /mnt that
    never answers."""
    lower = rootfs()
    # An overlay cannot lie on an overlay, which is what /tmp is in a container.
    folder = folder / "nodes"
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        mount(stack, folder, "-t", "tmpfs", "nodes")
        key = make_key(folder / "key")
        known = folder / "known_hosts"
        started = [stack.enter_context(_node(folder, name, lower, key, known, hung=name in hung))
                   for name in names]
        for one in started:
            wait_until(lambda one=one: _up(one), 120,
                       f"{one.name}: {(folder / one.name / 'log').read_text()[-400:]}")  # type: ignore[misc]
        yield started


@contextlib.contextmanager
def _node(folder: Path, name: str, lower: Path, key: Path, known: Path, *, hung: bool) -> Iterator[Machine]:
    own = folder / name
    for part in ("upper", "work", "root"):
        (own / part).mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        root = own / "root"
        mount(stack, root, "-t", "overlay", "-o",
              f"lowerdir={lower},upperdir={own}/upper,workdir={own}/work", "overlay")
        port, exporter = free_port(), free_port()
        (root / "etc/hostname").write_text(f"{name}\n")
        (root / "etc/machine-id").write_text(hashlib.sha256(name.encode()).hexdigest()[:32] + "\n")
        (root / "etc/ssh/sshd_config.d/here.conf").write_text(
            f"ListenAddress 127.0.0.1:{port}\nPermitRootLogin yes\nUsePAM no\nUseDNS no\n")
        (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
        (root / "root/.ssh/authorized_keys").write_text(f"{public(key)}\n")
        (root / "etc/default/prometheus-node-exporter").write_text(
            f'ARGS="--web.listen-address=127.0.0.1:{exporter} --collector.disable-defaults '
            f'--collector.textfile"\n')
        for unit in ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer",
                     "e2scrub_all.timer", "fstrim.timer"):
            (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
        with known.open("a") as file:
            file.write(f"[127.0.0.1]:{port} {public(root / 'etc/ssh/ssh_host_ed25519_key')}\n")
        bind = []
        hanging = stack.enter_context(contextlib.ExitStack())
        if hung:
            (own / "hung").mkdir()
            hanging.enter_context(fuse.hung(own / "hung"))
            bind = [f"--bind={own / 'hung'}:/mnt"]
        with (own / "log").open("wb") as log:
            process = subprocess.Popen(
                ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot", f"--machine={name}",
                 f"--directory={root}", *bind],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            yield Machine(name, root, port, exporter, key, known, process, hung)
        finally:
            # Else its systemd waits for who hangs there.
            hanging.close()
            stop(process)


def _up(machine: Machine) -> bool:
    assert machine.process.poll() is None, (machine.root.parent / "log").read_text()
    try:
        return machine.run("systemctl", "is-active", "ssh", "prometheus-node-exporter",
                           check=False).split() == ["active", "active"]
    except (OSError, IndexError):
        return False
