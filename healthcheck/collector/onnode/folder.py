"""The run folder: records child processes, so that the next run knows which of them are stuck."""

from __future__ import annotations

import json
import os
import stat
import time
from typing import Dict

from healthcheck.collector.onnode.system import BLOCK, ENTRIES, GRACE, ROOT, kill_all, process


class RunFolder:
    """Small files that name child processes, in a folder that only this user may write to.

    `unsafe` is why there is none that may be used, so that a wedged probe is started again in each run; empty
    where there is one.
    """

    def __init__(self) -> None:
        self.fd = -1
        self.stuck: Dict[str, str] = {}
        self.unsafe = ""
        uid = os.geteuid()
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        refused = []
        # The user's own folder is shown by its variable: it may hold a name.
        for path, shown in (("/run/muster", "/run/muster"), (runtime + "/muster", "$XDG_RUNTIME_DIR/muster"),
                            ("/tmp/muster-%d" % uid,) * 2):  # noqa: S108
            if path == "/muster":
                continue
            why = self.opened(ROOT + path, uid)
            if not why:
                self.find_stuck()
                return
            if uid == 0 or path != "/run/muster":     # that one is root's
                refused.append((shown, why))
        self.unsafe = "%s; see: ls -ld %s" % ("; ".join("%s %s" % one for one in refused),
                                              " ".join(shown for shown, _ in refused))

    def opened(self, path: str, uid: int) -> str:
        """Opens this folder, made if there is none; else why it may not be used."""
        trouble = None
        try:
            os.mkdir(path, 0o700)
        except OSError as error:
            trouble = error
        try:
            self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            found = os.fstat(self.fd)
        except OSError as error:
            if os.path.islink(path):
                return "is a link"
            if isinstance(error, FileNotFoundError) and trouble is not None:
                error = trouble
            return "cannot be used: %s" % os.strerror(error.errno or 0)
        why = ""
        if found.st_uid != uid:
            why = "belongs to user %d, not %d" % (found.st_uid, uid)
        elif found.st_mode & 0o022:
            why = "has mode %04o: others may write to it" % stat.S_IMODE(found.st_mode)
        elif not os.access(path, os.W_OK):
            why = "cannot be written to"
        if why:
            os.close(self.fd)
            self.fd = -1
        return why

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
            try:
                os.write(fd, record.encode())
            finally:
                os.close(fd)
        except OSError as error:
            self.unsafe = "the run folder cannot be written to: %s; see: df -hi /run /tmp" % (
                os.strerror(error.errno or 0))

    def drop(self, pid: int) -> None:
        try:
            os.unlink("child-%d" % pid, dir_fd=self.fd)
        except OSError:
            pass
