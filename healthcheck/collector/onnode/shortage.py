"""Failures of our own programs for want of descriptors, memory, processes or room; no fault of the node.

The limits are those of getrlimit(2). A login gets them from limits.conf(5), a unit from its Limit...=.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
from typing import List

# Below this many files no program is started: it might exit with 0 and have left out what it could not open.
FEWEST_FILES = 64
# Limit of a process, what our programs and those that we start need of it, and its unit in the message.
# NVML opens a few files for each GPU; the rest is far above what any of them was seen to use.
NEEDED = (
    ("RLIMIT_NOFILE", 256, 1, "may open only %d files (ulimit -n)"),
    ("RLIMIT_NPROC", 256, 1, "may run only %d processes (ulimit -u)"),
    ("RLIMIT_AS", 8 << 30, 1 << 20, "may use only %d MiB of address space (ulimit -v)"),
    ("RLIMIT_DATA", 2 << 30, 1 << 20, "may use only %d MiB of data (ulimit -d)"),
    ("RLIMIT_STACK", 1 << 20, 1 << 10, "may use only %d KiB of stack (ulimit -s)"),
    ("RLIMIT_FSIZE", 64 << 20, 1 << 10, "may write only %d KiB to a file (ulimit -f)"),
    ("RLIMIT_CPU", 600, 1, "may use only %d s of CPU in a process (ulimit -t)"),
)
RAISE = "raise it for the login in limits.conf(5), or for the unit with Limit...="
# Errors of ours, by number: what was lacking, and the limits of a process that may be the reason.
LACKING = {
    errno.EMFILE: ("no file descriptor was free", ("RLIMIT_NOFILE",)),
    errno.ENFILE: ("the node's table of open files is full (fs.file-max)", ()),
    errno.ENOMEM: ("no memory was free for our own program", ("RLIMIT_AS", "RLIMIT_DATA")),
    errno.EAGAIN: ("no process could be started, or a resource was busy", ("RLIMIT_NPROC",)),
    errno.ENOBUFS: ("the kernel had no buffer for a message", ()),
    errno.ENOSPC: ("no room was left for our own files", ()),
    errno.EDQUOT: ("the login's quota of disk space is used up", ()),
    errno.EFBIG: ("our own file became too large", ("RLIMIT_FSIZE",)),
    errno.E2BIG: ("no room was left for the arguments of a program", ("RLIMIT_STACK",)),
}
# What programs write when they fail so: strerror(3), the dynamic loader, Go, C++ and Python.
WORDS = (
    (errno.ENFILE, "too many open files in system|Errno 23\\]"),
    (errno.EMFILE, "too many open files|error 24\\b|Errno 24\\]|EMFILE"),
    (errno.ENOMEM, "cannot allocate memory|failed to map segment(?!.*not permitted)|bad_alloc|MemoryError|"
                   "cannot create shared object descriptor|runtime: out of memory|"
                   "runtime: cannot allocate|Errno 12\\]|ENOMEM"),
    (errno.EAGAIN, "resource temporarily unavailable|failed to create new OS thread|pthread_create|"
                   "can(?:no|')t (?:fork|start new thread)|unable to fork|Errno 11\\]|EAGAIN"),
    (errno.ENOBUFS, "no buffer space available|Errno 105\\]|ENOBUFS"),
    (errno.ENOSPC, "no space left on device|Errno 28\\]"),
    (errno.EDQUOT, "disk quota exceeded|Errno 122\\]"),
)
# A client that passes on what its daemon met: the daemon is the node's.
DAEMON = re.compile(r"response from daemon|server error|rpc error", re.IGNORECASE)


class OwnFailure(Exception):
    """Our own program could not do its work; the message says for want of what."""


def limit(name: str) -> int:
    """The soft limit of this process; -1 without one, and where it is not enforced."""
    if name == "RLIMIT_NPROC" and not os.geteuid():
        return -1
    found = resource.getrlimit(getattr(resource, name))[0]
    return -1 if found == resource.RLIM_INFINITY else found


def raise_limits() -> None:
    """Raises this process's own soft limits to what is needed, as far as the hard ones allow."""
    for name, needed, _, _ in NEEDED:
        soft, hard = resource.getrlimit(getattr(resource, name))
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        if resource.RLIM_INFINITY != soft < most:
            try:
                resource.setrlimit(getattr(resource, name), (most, hard))
            except (OSError, ValueError):
                pass


def short_of(names: object = None) -> str:
    """Which limits of this login are below what our programs need; empty if none is. `names` chooses."""
    found: List[str] = []
    for name, needed, unit, words in NEEDED:
        value = limit(name)
        if (names is None or name in names) and 0 <= value < needed:    # type: ignore[operator]
            found.append("this login " + words % (value // unit))
    return "; ".join(found)


def lacked(number: int) -> str:
    """What the errors of LACKING mean here, with the error's name and what to do."""
    what, limits = LACKING[number]
    why = short_of(limits) if limits else ""
    if not why and number in (errno.EAGAIN, errno.ENOMEM):
        why = group_limit("pids.max" if number == errno.EAGAIN else "memory.max")
    return "%s: %s" % (errno.errorcode[number], "; ".join((why, RAISE)) if why else what)


def group_limit(name: str, proc: str = "/proc", groups: str = "/sys/fs/cgroup") -> str:
    """The limit of this process's control group, or of the nearest above it that has one; empty without.

    `name` is that of cgroup v2, pids.max or memory.max; of v1 the same is read.
    """
    try:
        with open(proc + "/self/cgroup", encoding="ascii", errors="replace") as file:
            lines = [line.strip().split(":", 2) for line in file]
        for _, controllers, path in lines:
            first = controllers and name.split(".")[0] in controllers.split(",")
            if controllers and not first:
                continue
            base = groups + ("/" + controllers if first else "")
            wanted = "memory.limit_in_bytes" if first and name == "memory.max" else name
            path = path.rstrip("/")
            while path:
                value = read_limit("%s%s/%s" % (base, path, wanted))
                if value:
                    return "this login's control group %s has %s = %s" % (path, wanted, value)
                path = path.rpartition("/")[0]
    except (OSError, ValueError, MemoryError):
        pass
    return ""


def read_limit(path: str) -> str:
    """The number in a limit's file; empty without one, and where it is no limit."""
    try:
        with open(path, encoding="ascii") as file:
            value = file.read(32).strip()
    except FileNotFoundError:
        return ""
    return value if value.isdigit() and int(value) < 1 << 60 else ""


def own_failure(error: BaseException) -> str:
    """What our own program lacked when it met this error; empty for what may be the node's answer."""
    if isinstance(error, OwnFailure):
        return str(error)
    if isinstance(error, MemoryError):
        return lacked(errno.ENOMEM)
    if isinstance(error, OSError):
        return lacked(error.errno) if error.errno in LACKING else ""
    why = words_of(str(error))
    if isinstance(error, ImportError):
        return why or "the node's Python lacks a module of its standard library: %s" % error
    return why


def words_of(text: str) -> str:
    """What a program lacked by its own message; empty where it names nothing of the kind."""
    for number, words in WORDS:
        if re.search(words, text, re.IGNORECASE):
            return lacked(number)
    return ""


def why_ended(status: int, message: str, short: str, budget: bool) -> str:
    """What a program of ours lacked that ended by itself with this status; empty where it may be the node's.

    `short` are the login's own low limits: whoever failed under them has not measured the node. `budget`:
    we ourselves limit its CPU time.
    """
    if not status:
        return ""
    if status == -signal.SIGKILL:
        return "another process killed it (SIGKILL): has the kernel run out of memory?"
    if status == -signal.SIGXCPU:
        return "" if budget else "its CPU time was over: " + (short or "RLIMIT_CPU")
    said = "" if DAEMON.search(message) else words_of(message)
    return said if not short or RAISE in said else "; ".join(part for part in (said, short, RAISE) if part)
