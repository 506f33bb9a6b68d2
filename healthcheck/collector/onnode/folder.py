"""The run folder: remembers our children, so that the next run knows which of them are stuck."""

from __future__ import annotations

import json
import os
import time
from typing import Dict

from healthcheck.collector.onnode.system import BLOCK, ENTRIES, GRACE, ROOT, process, slay


class RunFolder:
    """Small files that name our children, in a folder that only we may write to; so that the next run knows which are stuck."""

    def __init__(self) -> None:
        self.fd = -1
        self.stuck: Dict[str, str] = {}
        uid = os.geteuid()
        for path in ("/run/muster", os.environ.get("XDG_RUNTIME_DIR", "") + "/muster", "/tmp/muster-%d" % uid):  # noqa: S108
            if path == "/muster":
                continue
            try:
                os.mkdir(ROOT + path, 0o700)
            except OSError:
                pass
            try:
                self.fd = os.open(ROOT + path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except OSError:
                continue
            found = os.fstat(self.fd)
            if found.st_uid == uid and not found.st_mode & 0o022 and os.access(ROOT + path, os.W_OK):
                self.look()
                return
            os.close(self.fd)
            self.fd = -1

    def look(self) -> None:
        """Learns what must not be touched again: a child of an earlier run is past its limit on it.

        A process is the one that was recorded only if its start time is, too. Another run's child within its limit is no
        obstacle.
        """
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        for name in os.listdir(self.fd)[:ENTRIES]:
            try:
                pid = int(name.rpartition("child-")[2])
                with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self.fd), "rb") as file:
                    key, start, began, seconds = json.loads(file.read(BLOCK).decode("ascii"))
                since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began))
                age = now - start / os.sysconf("SC_CLK_TCK")
                late = bool(age > seconds + GRACE)
            except (OSError, ValueError, TypeError, OverflowError, RecursionError):
                continue
            state, _, ticks = process(pid)
            if state in ("", "Z", "X") or ticks != start:
                self.drop(pid)
            elif late:
                # Whatever started it may have been killed before it could do this.
                slay([pid])
                self.stuck[key] = "since %s (pid %d)" % (since, pid)

    def put(self, pid: int, key: str, seconds: float) -> None:
        if self.fd < 0:
            return
        start = process(pid)[2]
        record = json.dumps([key, start, time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - start / os.sysconf("SC_CLK_TCK")),
                             seconds])
        try:
            fd = os.open("child-%d" % pid, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600, dir_fd=self.fd)
            os.write(fd, record.encode())
            os.close(fd)
        except OSError:
            pass

    def drop(self, pid: int) -> None:
        try:
            os.unlink("child-%d" % pid, dir_fd=self.fd)
        except OSError:
            pass
