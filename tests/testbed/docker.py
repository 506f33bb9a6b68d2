"""Starts a real Docker daemon of its own, waits until it answers, and stops it whatever happens. Only root
can."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.planted import executable
from tests.testbed.processes import stop
from tests.testbed.sshd import wait_until

DOCKERD = shutil.which("dockerd", path="/usr/bin:/usr/sbin:/usr/local/bin:/usr/local/sbin")


@dataclass(frozen=True)
class Dockerd:
    """A running daemon: its socket, and its process to stop, continue and kill."""

    socket: Path
    process: subprocess.Popen[bytes]

    @property
    def host(self) -> str:
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


def led_to(daemon: Dockerd, folder: Path, client: str) -> Path:
    """A folder with a `docker` that asks this daemon where muster has it ask the node's own, by the client in
    that other folder."""
    folder.mkdir(parents=True, exist_ok=True)
    executable(
        folder / "docker",
        f'#!/bin/sh\n[ "$1" = --host ] && shift 2\nexec {client}/docker --host {daemon.host} "$@"\n')
    return folder


def docker(client: Path, *words: str, check: bool = True) -> str:
    """What this client prints."""
    done = subprocess.run([client / "docker", *words], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout.strip()


def busybox(client: Path, folder: Path) -> str:
    """An image with a shell and little else, imported from this machine's own programs; its tag."""
    program = shutil.which("busybox")
    needed = [program] if program else ["/bin/sh", "/bin/sleep", "/bin/false"]
    with tarfile.open(folder / "image.tar", "w") as tar:
        for path in needed:
            for found in {path, *_libraries(path)}:
                real = Path(found).resolve()
                tar.add(real, arcname=found.lstrip("/") if not program else "bin/busybox" if found == path
                        else found.lstrip("/"))
        for name in ("sh", "sleep", "false") if program else ():
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "/bin/busybox"
            tar.addfile(link)
    docker(client, "import", str(folder / "image.tar"), "muster-test:1")
    return "muster-test:1"


def _libraries(program: str) -> list[str]:
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return [word for line in said.splitlines() for word in line.split() if word.startswith("/")]


@contextmanager
def small_disk(at: Path, megabytes: int) -> Iterator[Path]:
    """A file system of this size on a loop device, mounted there."""
    at.mkdir(parents=True)
    file = at.with_suffix(".img")
    with file.open("wb") as made:
        made.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", file], check=True, timeout=60)
    subprocess.run(["mount", "-o", "loop", file, at], check=True, timeout=60)
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", at], check=True, timeout=60)


@contextmanager
def dockerd(data: Path | None = None, *, before: str = ":", tools: Path | None = None) -> Iterator[Dockerd]:
    """A daemon without network, whose data lie in a folder of its own, or in that one, and whose mounts in a
    namespace of its own.

    `before` is shell text that runs in that namespace first; programs of the folder `tools` are the daemon's
    before any other.
    """
    assert DOCKERD is not None, "no dockerd on this machine: apt-get install -y docker.io"
    # Not under pytest's folder: a socket's path may have 107 bytes, and an ordinary user must get as far as
    # the socket.
    with tempfile.TemporaryDirectory(prefix="muster-dockerd-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        socket = folder / "docker.sock"
        argv = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", f'{before}\nexec "$@"',
                "sh", DOCKERD,
                "--data-root", str(data or folder / "data"), "--exec-root", f"{folder}/exec", "--pidfile",
                f"{folder}/pid",
                "--host", f"unix://{socket}", "--iptables=false", "--ip6tables=false", "--bridge=none"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}" if tools
                                            else os.environ["PATH"]})

        def said() -> str:
            return (folder / "log").read_text(errors="replace")

        try:
            wait_until(lambda: "API listen on" in said() or process.poll() is not None, 60, "a Docker daemon")
            assert process.poll() is None, said()[-2000:]
            yield Dockerd(socket, process)
        finally:
            process.send_signal(signal.SIGCONT)
            stop(process)
