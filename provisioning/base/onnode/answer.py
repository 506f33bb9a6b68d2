"""What every program here needs: bounded reads, systemd, the answer in one frame. Python 3.8."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import zlib
from typing import Any

from provisioning.agent.onnode.files import InstallError

MOST = 1 << 20      # bytes of a file of settings
SYSTEMCTL_S, TOOL_S = 60, 60
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Unseen(Exception):
    """It could not be read, and why."""


class LocalHost:
    """This machine; `root` is another root folder, in tests."""

    def __init__(self, root: str = "") -> None:
        self.root = root

    def read(self, path: str, most: int = MOST) -> str | None:
        """What a file holds, None where there is none."""
        try:
            # Not to hang on a FIFO that no one writes to.
            with open(os.open(self.root + path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
                    raise Unseen("%s is a FIFO" % path)
                data = file.read(most + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Unseen("%s: %s" % (path, error.strerror)) from None
        if len(data) > most:
            raise Unseen("%s is over %d bytes" % (path, most))
        return data.decode("utf-8", "replace")

    def there(self, path: str) -> bool:
        return os.path.exists(self.root + path)

    def found(self, *patterns: str) -> list[str]:
        """The paths that fit, in the patterns' order and each time by name."""
        cut = len(self.root)
        return [path[cut:] for pattern in patterns
                for path in sorted(glob.glob(glob.escape(self.root) + pattern))]

    def container(self) -> str:
        """What kind of container this is, empty for a machine (systemd-detect-virt(1), systemd's file)."""
        return (self.read("/run/systemd/container") or "").strip()[:40]

    def systemd(self) -> bool:
        return os.path.isdir(self.root + "/run/systemd/system")

    def ran(self, *argv: str) -> str:
        """What a command prints that ends well."""
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=TOOL_S)
        except OSError as error:
            raise InstallError("%s: %s" % (argv[0], error.strerror)) from None
        except subprocess.TimeoutExpired:
            raise InstallError("%s did not end within %d s" % (" ".join(argv), TOOL_S)) from None
        if done.returncode:
            last = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
            raise InstallError("%s: %s" % (" ".join(argv), last[:300] or "exit %d" % done.returncode))
        return done.stdout.decode("utf-8", "replace")

    def systemctl(self, *words: str) -> str:
        return self.ran("systemctl", "--no-ask-password", "--no-pager", *words)

    def units(self, *names: str) -> dict[str, dict[str, str]]:
        """What systemd says of these units, by their own names (an alias's is its unit's), if there."""
        wanted = ("Id", "LoadState", "ActiveState", "UnitFileState", "Result", "ConditionResult")
        try:
            text = self.systemctl("show", *("--property=" + name for name in wanted), "--", *names)
        except InstallError as error:
            raise Unseen(str(error)) from None
        blocks = [dict(line.split("=", 1) for line in block.split("\n") if "=" in line)
                  for block in text.split("\n\n")]
        return {
            block["Id"]: block for block in blocks
            if block.get("Id") and block.get("LoadState") not in (None, "not-found")}


def plain(text: str | None) -> list[str]:
    """The lines of a file of settings that say something."""
    lines = [re.split(r"(?:^|\s)[#;]", line, maxsplit=1)[0].strip() for line in (text or "").split("\n")]
    return [line for line in lines if line]


def answered(nonce: str, report: Any) -> None:
    """Hands the answer back, in one frame."""
    body = zlib.compress(json.dumps(report).encode())
    sys.stdout.write("muster:%s:frame %d %s\n" % (nonce, len(body), hashlib.sha256(body).hexdigest()))
    sys.stdout.flush()
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()


def clean_environment() -> None:
    """Afterwards tools are those of the system, and speak English."""
    os.umask(0o022)
    os.environ.clear()
    os.environ.update(PATH=PATH, LC_ALL="C")
