"""Starts a real registry (docker-registry, the reference implementation) on loopback, and stops it whatever
happens."""

from __future__ import annotations

import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.testbed.ports import free_port
from tests.testbed.require import require
from tests.testbed.sshd import wait_until

REGISTRY = shutil.which("docker-registry")


@contextmanager
def distribution(folder: Path) -> Iterator[str]:
    """Its HOST:PORT; what is pushed lies in the folder."""
    require(REGISTRY, "no registry on this machine: apt-get install -y docker-registry")
    assert REGISTRY is not None
    folder.mkdir()
    host = f"127.0.0.1:{free_port()}"
    (folder / "config.yml").write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {folder}/data}}}}\n"
        f"http: {{addr: '{host}'}}\n")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([REGISTRY, "serve", str(folder / "config.yml")], stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log)
    try:
        wait_until(lambda: _answers(host) or process.poll() is not None, 30, "a registry")
        assert process.poll() is None, (folder / "log").read_text()[-1000:]
        yield host
    finally:
        process.terminate()
        process.wait(10)


def _answers(host: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{host}/v2/", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
