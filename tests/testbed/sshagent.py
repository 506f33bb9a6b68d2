"""A real ssh-agent that holds keys."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.testbed.sshd import wait_until


@contextlib.contextmanager
def agent(folder: Path, *keys: Path) -> Iterator[Path]:
    """Its socket; keys may be encrypted with the word `secret`."""
    path, secret = folder / "agent", folder / "askpass"
    secret.write_text("#!/bin/sh\necho secret\n")
    secret.chmod(0o700)
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: _listens(path), what="the agent")
        environment = {**os.environ, "SSH_AUTH_SOCK": str(path), "SSH_ASKPASS": str(secret),
                       "SSH_ASKPASS_REQUIRE": "force"}
        for key in keys:
            subprocess.run(["ssh-add", "-q", str(key)], env=environment, check=True, stdin=subprocess.DEVNULL)
        yield path
    finally:
        process.terminate()
        process.wait(10)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0
