"""Resources of the exporter's process, from /proc (proc(5))."""

from __future__ import annotations

import os
import platform
import time

from healthcheck.exporter.fleet import Process
from inventory.release import VERSION

_STARTED = time.time()


def processed(refused: int = 0, sweeper: tuple[bool, int] | None = None, ours: str = VERSION) -> Process:
    """The process now; `ours` is the version of muster that runs."""
    with open("/proc/self/statm", "rb") as file:
        pages = int(file.read().split()[1])
    return Process(ours, platform.python_version(), time.process_time(), pages * os.sysconf("SC_PAGE_SIZE"),
                   _STARTED, len(os.listdir("/proc/self/fd")), refused, sweeper)  # noqa: PTH208  (not a real folder)
