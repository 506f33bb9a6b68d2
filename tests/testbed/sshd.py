"""Starts real sshd processes and other listeners on loopback, waits until they are ready, and stops them
whatever happens."""

from __future__ import annotations

import base64
import contextlib
import getpass
import hmac
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from inventory.model import Node
from tests.testbed.ports import free_port

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:" + os.environ.get("PATH", ""))


def wait_until(holds: Callable[[], object], seconds: float = 30.0, what: str = "the condition") -> None:
    """Returns once `holds()` is true; fails after `seconds`. At most a tenth of the time goes into asking:
    what is waited for needs the cores too."""
    end = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        if holds():
            return
        now = time.monotonic()
        assert now < end, f"{what} did not come about in {seconds} s"
        time.sleep(min(max(0.01, 9 * (now - asked)), 0.5))


def make_key(path: Path, type_: str = "ed25519", passphrase: str = "", *extra: str) -> Path:
    """A key pair at `path` and `path`.pub; one of RSA is made in half the time that ssh-keygen's usual size
    takes."""
    size = ("-b", "2048") if type_ == "rsa" else ()
    subprocess.run(
        ["ssh-keygen", "-q", "-t", type_, *size, "-N", passphrase, "-C", path.name, *extra, "-f",
         str(path)], check=True)
    return path


def public(key: Path) -> str:
    """"TYPE BASE64" of a key pair."""
    return " ".join(Path(f"{key}.pub").read_text().split()[:2])


def hashed(name: str) -> str:
    """A host name as known_hosts keeps it with HashKnownHosts."""
    salt = os.urandom(20)
    digest = hmac.digest(salt, name.encode(), "sha1")
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


@dataclass
class Sshd:
    """One running sshd: how to reach it, and its files."""

    folder: Path
    port: int
    user: str
    user_key: Path
    host_keys: dict[str, Path]
    known_hosts: Path
    authorized: Path
    process: subprocess.Popen[bytes]

    def node(self, name: str = "n1", **changes: object) -> Node:
        """A node that is this sshd."""
        values: dict[str, object] = {
            "address": "127.0.0.1", "port": self.port, "user": self.user,
            "identity_file": (str(self.user_key),), "known_hosts_file": (str(self.known_hosts),), **changes}
        return Node(name, **values)  # type: ignore[arg-type]

    @property
    def known_name(self) -> str:
        return f"[127.0.0.1]:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def logins(self) -> int:
        return self.log.count("Accepted publickey")

    @property
    def serving(self) -> list[int]:
        """The processes that serve a connection."""
        return [
            int(pid)
            for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()]

    def entry(self, name: str = "bastion", more: str = "", *, port: int | None = None,
              trusted: bool = True) -> str:
        """What an ssh_config says of it under this name; `trusted` is where its key is known."""
        known = f" UserKnownHostsFile {self.known_hosts}\n" if trusted else ""
        return (f"Host {name}\n HostName 127.0.0.1\n Port {port or self.port}\n User {self.user}\n "
                f"IdentityFile {self.user_key}\n"
                f"{known}{more}")


@contextlib.contextmanager
def sshd(folder: Path, *, config: str = "", host_key_types: tuple[str, ...] = ("ed25519",),
         user: str | None = None, user_key: Path | None = None, under: tuple[str, ...] = (),
         port: int | None = None) -> Iterator[Sshd]:
    """A real sshd on 127.0.0.1, logging in `user` (default: whoever runs this) by a key of its own; `config`
    goes before ours, and wins.

    `under` is a command that runs the one it is given, and ends with it. What was started in the folder
    before keeps its host keys.
    """
    assert SSHD is not None, "no sshd on this machine: apt-get install -y openssh-server"
    (folder / "home").mkdir(parents=True, exist_ok=True)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    user_key = user_key or make_key(folder / "user")
    host_keys = {
        type_: path if (path := folder / f"host_{type_}").exists() else make_key(path, type_)
        for type_ in host_key_types}
    authorized = folder / "authorized_keys"
    authorized.write_text(f"{public(user_key)}\n")
    if user is not None:    # sshd reads it as that user
        folder.chmod(0o755)
        authorized.chmod(0o644)
    port = free_port() if port is None else port
    known_hosts = folder / "known_hosts"
    known_hosts.write_text("".join(f"[127.0.0.1]:{port} {public(key)}\n" for key in host_keys.values()))
    path = folder / "sshd_config"
    path.write_text("\n".join([
        # Of most keywords the first counts; of MaxStartups the last.
        "MaxStartups 400:100:400", config, f"ListenAddress 127.0.0.1:{port}",
        *(f"HostKey {key}" for key in host_keys.values()), f"AuthorizedKeysFile {authorized}",
        "StrictModes no", "UsePAM no", "UseDNS no", "PidFile none", "LogLevel VERBOSE",
        "PasswordAuthentication no", "KbdInteractiveAuthentication no", "PermitRootLogin yes",
        # Else the rc files of whoever runs the tests take part in them.
        f"SetEnv HOME={folder / 'home'} PATH=/usr/local/bin:/usr/bin:/bin", "PrintMotd no", "PrintLastLog no",
        ""]))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*under, SSHD, "-D", "-e", "-f", str(path)], stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log)
    server = Sshd(folder, port, user or getpass.getuser(), user_key, host_keys, known_hosts, authorized,
                  process)
    try:
        wait_until(lambda: "Server listening" in server.log or process.poll() is not None, what="sshd")
        assert process.poll() is None, server.log
        yield server
    finally:
        process.terminate()
        process.wait(10)


@contextlib.contextmanager
def listener(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port on 127.0.0.1 where `serve` is called with each connection, in a thread; it may raise OSError.
    Yields the port."""
    open_: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            open_.append(connection)
            threading.Thread(target=handle, args=(connection,), daemon=True).start()

    def handle(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            serve(connection)

    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield int(server.getsockname()[1])
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(5)
            for connection in open_:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                connection.close()


def silent(_: socket.socket) -> None:
    """Accepts and says nothing."""


def web_server(connection: socket.socket) -> None:
    """Speaks, but not SSH."""
    connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
    connection.shutdown(socket.SHUT_WR)


def flooder(connection: socket.socket) -> None:
    """Never stops, and never ends a line."""
    while True:
        connection.sendall(b"A" * 65536)


def hangs_up(connection: socket.socket) -> None:
    """Closes every connection at once."""
    connection.close()


def hangs_after_banner(connection: socket.socket) -> None:
    """Speaks SSH, and then no more."""
    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")


@contextlib.contextmanager
def full_backlog() -> Iterator[int]:
    """A port whose queue of connections is full: the kernel drops what comes, as a dead host would."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = int(server.getsockname()[1])
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        yield port
