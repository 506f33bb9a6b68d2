"""Basics of the collector: processes, memory files, captures, and shared limits."""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import signal
import time
from typing import Any, Dict, Sequence, Tuple

from healthcheck.collector.onnode.shortage import OwnFailure, own_failure

GRACE = 0.5             # seconds for a killed child to die
ENTRIES = 16384         # files of one probe, names of one directory
STDERR = 4096
BLOCK = 16384           # above the kernel's longest log record (8192)
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)

# Reading these files makes a network device's driver ask its firmware.
LEFT_OUT = "left out: "
NETWORK = ("/sys/class/infiniband", "/sys/class/net")
FUNCTION = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")  # of a PCI device, as sysfs names it

ROOT = os.environ.get("MUSTER_ROOT", "/").rstrip("/")
clock = time.monotonic


def process(pid: int) -> Tuple[str, int, int]:
    """State, session and start time (clock ticks since boot) of a process; no state without one."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            words = file.read().rpartition(b")")[2].split()
        return words[0].decode(), int(words[3]), int(words[19])
    except (OSError, IndexError, ValueError):
        return "", 0, 0


def kill_all(leaders: Sequence[int]) -> None:
    """Kills these leaders' sessions: a grandchild may lead its own process group (timeout(1)).

    Without a free descriptor only what is in the leaders' own groups is found.
    """
    for pid in leaders:
        for kill in (os.kill, os.killpg):
            try:
                kill(pid, signal.SIGKILL)
            except OSError:
                pass
    killed = set()
    end = clock() + GRACE
    # What was listed may fork before its turn comes; what has been killed forks no more.
    while leaders and clock() < end:
        try:
            found = [name for name in os.listdir("/proc") if name.isdigit() and name not in killed
                     and process(int(name))[1] in leaders]
        except OSError:
            return
        if not found:
            return
        for name in found:
            killed.add(name)
            try:
                os.kill(int(name), signal.SIGKILL)
            except OSError:
                pass


def memory() -> int:
    """A file without a name. Raises OSError."""
    try:
        return os.memfd_create("muster")
    except (AttributeError, OSError) as error:
        if own_failure(error):
            raise
        import tempfile
        fd, path = tempfile.mkstemp()
        os.unlink(path)
        return fd


def contents(fd: int, limit: int, tail: bool) -> Tuple[bytes, int]:
    """The beginning or the end of a memory file up to the limit, and its whole size."""
    size = os.fstat(fd).st_size
    return os.pread(fd, limit, max(0, size - limit) if tail else 0), size


def text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def failure(error: OSError) -> Tuple[str, str]:
    """The outcome for a system error, and its name if the outcome alone is not clear.

    Raises OwnFailure for one that our own program met for want of something.
    """
    why = own_failure(error)
    if why:
        raise OwnFailure(why)
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV):
        return "missing", ""
    if error.errno in (errno.EACCES, errno.EPERM):
        return "denied", ""
    return "crashed", errno.errorcode.get(error.errno or 0, "error %s" % error.errno)


def capture(outcome: str, seconds: float = 0.0, size: int = 0, **rest: Any) -> Dict[str, Any]:
    """A capture in the reply's format; empty members are left out."""
    made: Dict[str, Any] = {"outcome": outcome, "seconds": round(seconds, 4), "bytes": size}
    made.update((key, value) for key, value in rest.items() if value not in (None, ""))
    return made


def first_line(path: str) -> str:
    """The first line of a file; empty without one. Raises OSError where we lack what reading it needs."""
    try:
        with open(ROOT + path, "rb") as file:
            return text(file.readline(256)).strip()
    except OSError as error:
        if own_failure(error):
            raise
        return ""


def excluded_device(path: str, patterns: Sequence[str]) -> str:
    """The name of the network device at or above this path if one of the patterns matches it; else empty.

    It reads only links and opens none of the device's files.
    """
    if not patterns:
        return ""
    parts = path.split("/")
    for end in range(4, len(parts)):
        # "/sys/class/net/eth0", and "/sys/class/infiniband/mlx5_0/device/net/eth0".
        if "/".join(parts[:end]) in NETWORK or (parts[end - 1] == "net" and parts[1:3] == ["sys", "class"]):
            name, address = parts[end], function("/".join(parts[:end + 1]))
            if any(fnmatch.fnmatchcase(word, pattern) for word in (name, address) if word
                   for pattern in patterns):
                return name + (" (%s)" % address if address else "")
    return ""


def function(path: str) -> str:
    """The PCI address of the device that this link leads to; empty without one."""
    for link in (path, path + "/device"):
        try:
            found = [part for part in os.readlink(ROOT + link).split("/") if FUNCTION.fullmatch(part)]
        except OSError:
            continue
        if found:
            return found[-1]
    return ""
