"""Connections that the system's ssh keeps between two sweeps (ControlMaster), by their sockets."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

MOST_MASTERS = 512          # a process each
_LONGEST = 15 * 60          # seconds that a kept connection may outlive us, should we be killed
_CLOSE_SECONDS = 10.0       # for ending all that is kept
_CLOSERS = 8


class Masters:
    """The connections that ssh keeps for us, by their sockets. They end after `seconds` without use."""

    def __init__(self, keep: float) -> None:
        self.seconds = min(math.ceil(keep * 2.2) + 5, _LONGEST)
        self._folder: str | None = None
        self._paths: set[str] = set()
        self._dropped: dict[str, int] = {}
        self._lock = threading.Lock()

    def path(self, words: list[str]) -> str | None:
        """The socket of the connection with these options; None when there are too many."""
        # The name of our configuration differs from sweep to sweep.
        message = "\0".join(word for word in words if not word.startswith("/proc/")).encode(
            "utf-8", "surrogateescape")
        digest = hashlib.sha256(message).hexdigest()[:16]
        with self._lock:
            if self._folder is not None and not Path(self._folder).is_dir():
                # /run/user/UID is removed at the last logout, and old files in /tmp are cleaned up.
                self._folder, self._paths = None, set()
            if self._folder is None:
                # A socket's path has room for 107 bytes, of which ssh takes 17 for a temporary name.
                home = f"/run/user/{os.getuid()}"
                self._folder = tempfile.mkdtemp(prefix="muster-", dir=home if os.access(home, os.W_OK)
                                                else "/tmp")  # noqa: S108
            # ssh removes its socket when it ends, however late, so a dropped name is never reused.
            path = f"{self._folder}/{digest}.{self._dropped.get(digest, 0)}"
            if path not in self._paths and len(self._paths) >= MOST_MASTERS:
                # Connections to removed nodes have ended, and their sockets with them.
                self._paths = {known for known in self._paths if Path(known).exists()}
                if len(self._paths) >= MOST_MASTERS:
                    return None
            self._paths.add(path)
            return path

    def drop(self, path: str) -> None:
        """Stops using a connection. Returns at once."""
        with self._lock:
            self._paths.discard(path)
            digest, _, number = Path(path).name.partition(".")
            self._dropped[digest] = int(number) + 1
        with suppress(RuntimeError):    # no free thread: it ends by itself, unused
            threading.Thread(target=_end, args=(path,), name="muster-close", daemon=True).start()

    def close(self) -> None:
        """Ends them all, within 10 s."""
        with self._lock:
            folder, self._folder = self._folder, None
            paths, self._paths = list(self._paths), set()
        if folder is None:
            return
        paths = [path for path in paths if Path(path).exists()]
        threads = [threading.Thread(target=_end, args=tuple(paths[number::_CLOSERS]), name="muster-close",
                                    daemon=True) for number in range(min(_CLOSERS, len(paths)))]
        until = time.monotonic() + _CLOSE_SECONDS
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        shutil.rmtree(folder, ignore_errors=True)


def _end(*paths: str) -> None:
    for path in paths:
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(["ssh", "-F", "none", "-O", "exit", "-o", f"ControlPath={path}", "--", "muster"],
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           timeout=2, check=False)
        with suppress(OSError):
            Path(path).unlink()
