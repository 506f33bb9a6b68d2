"""Starts a real containerd of its own, waits until it answers, and stops it whatever happens. Only root
can."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.processes import stop
from tests.testbed.require import require
from tests.testbed.sshd import wait_until

CONTAINERD = shutil.which("containerd", path="/usr/bin:/usr/sbin:/usr/local/bin:/usr/local/sbin")


def require_containerd() -> None:
    require(os.geteuid() == 0, "only root can start containerd")
    require(CONTAINERD is not None and shutil.which("ctr") is not None,
            "no containerd on this machine: apt-get install -y containerd")


@dataclass(frozen=True)
class Containerd:
    """A running daemon: its socket, its data, the folder of registries' hosts.toml, and its process."""

    socket: Path
    root: Path
    hosts: Path
    process: subprocess.Popen[bytes]

    def ctr(self, *words: str, check: bool = True) -> str:
        """What ctr prints in the namespace "default"."""
        done = subprocess.run(["ctr", "--address", self.socket, *words], capture_output=True, text=True,
                              timeout=60, check=False)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def plain(self, host: str) -> None:
        """This registry is reached without TLS."""
        (self.hosts / host).mkdir(parents=True)
        (self.hosts / host / "hosts.toml").write_text(f'server = "http://{host}"\n')

    def stop(self) -> None:
        """The daemon takes requests, and answers none until it is told to go on."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def containerd(root: Path | None = None) -> Iterator[Containerd]:
    """A daemon whose data lie in a folder of its own, or in that one, and whose mounts in a namespace of its
    own."""
    assert CONTAINERD is not None
    # Not under pytest's folder: a socket's path may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="muster-containerd-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        socket, data = folder / "s.sock", root or folder / "root"
        (folder / "config.toml").write_text(
            f'version = 2\nroot = "{data}"\nstate = "{folder}/state"\ndisabled_plugins = '
            f'["io.containerd.grpc.v1.cri"]\n'
            f'[grpc]\naddress = "{socket}"\n[ttrpc]\naddress = "{folder}/t.sock"\n')
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", CONTAINERD, "--config",
                 str(folder / "config.toml")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

        def said() -> str:
            return (folder / "log").read_text(errors="replace")

        try:
            wait_until(lambda: "containerd successfully booted" in said() or process.poll() is not None,
                       60, "containerd")
            assert process.poll() is None, said()[-2000:]
            yield Containerd(socket, data, folder / "certs.d", process)
        finally:
            process.send_signal(signal.SIGCONT)
            stop(process)
