"""Starts a real Docker daemon of its own, waits until it answers, and stops it whatever happens. Only root can."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.sshd import wait_until

DOCKERD = shutil.which("dockerd", path="/usr/bin:/usr/sbin:/usr/local/bin:/usr/local/sbin")


@dataclass(frozen=True)
class Dockerd:
    """A running daemon: its socket, and its process to stop, continue and kill."""

    socket: Path
    process: subprocess.Popen[bytes]

    @property
    def host(self) -> str:
        """The value for DOCKER_HOST."""
        return f"unix://{self.socket}"

    def stop(self) -> None:
        """The daemon takes requests, and answers none until it is told to go on."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """The daemon is gone at once; its socket stays, as after a crash."""
        self.process.kill()
        self.process.wait(10)


@contextmanager
def dockerd() -> Iterator[Dockerd]:
    """A daemon without network, whose data lie in a folder of its own and whose mounts in a namespace of its own."""
    assert DOCKERD is not None, "no dockerd on this machine: apt-get install -y docker.io"
    # Not under pytest's folder: a socket's path may have 107 bytes, and an ordinary user must get as far as the socket.
    with tempfile.TemporaryDirectory(prefix="muster-dockerd-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        socket = folder / "docker.sock"
        argv = ["unshare", "--mount", "--propagation", "private", DOCKERD, "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec",
                "--pidfile", f"{folder}/pid", "--host", f"unix://{socket}", "--iptables=false", "--ip6tables=false", "--bridge=none"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

        def said() -> str:
            return (folder / "log").read_text(errors="replace")

        try:
            wait_until(lambda: "API listen on" in said() or process.poll() is not None, 60, "a Docker daemon")
            assert process.poll() is None, said()[-2000:]
            yield Dockerd(socket, process)
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
