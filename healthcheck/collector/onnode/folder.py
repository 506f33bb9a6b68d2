"""The run folder: records child processes, so that the next run knows which of them are stuck."""

from __future__ import annotations

import json
import os
import time
from typing import Dict

from healthcheck.collector.onnode.system import BLOCK, ENTRIES, GRACE, ROOT, kill_all, process


class RunFolder:
    """Small files that name child processes, in a folder that only this user may write to."""

    def __init__(self) -> None:
        self.fd = -1
        self.stuck: Dict[str, str] = {}
        uid = os.geteuid()
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        for path in ("/run/muster", runtime + "/muster", "/tmp/muster-%d" % uid):  # noqa: S108
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
                self.find_stuck()
                return
            os.close(self.fd)
            self.fd = -1

    def find_stuck(self) -> None:
        """Finds what must not be touched again: a child of an earlier run is past its limit on it.

        A process is the recorded one only if its start time matches, too. Another run's child within its
        limit does not matter.
        """
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        try:
            names = os.listdir(self.fd)[:ENTRIES]
        except OSError:
            return
        for name in names:
            try:
                pid = int(name.rpartition("child-")[2])
                fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self.fd)
                with open(fd, "rb") as file:
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
                # Its own run may have been killed before it could do this.
                kill_all([pid])
                self.stuck[key] = "since %s (pid %d)" % (since, pid)

    def put(self, pid: int, key: str, seconds: float) -> None:
        if self.fd < 0:
            return
        start = process(pid)[2]
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - start / os.sysconf("SC_CLK_TCK")
        record = json.dumps([key, start, time.time() - age, seconds])
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        try:
            fd = os.open("child-%d" % pid, flags, 0o600, dir_fd=self.fd)
            os.write(fd, record.encode())
            os.close(fd)
        except OSError:
            pass

    def drop(self, pid: int) -> None:
        try:
            os.unlink("child-%d" % pid, dir_fd=self.fd)
        except OSError:
            pass
