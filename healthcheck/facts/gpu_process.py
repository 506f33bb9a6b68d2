"""What runs on each GPU: the processes that the driver lists, and their state in /proc.

On Grace superchips a GPU's memory is a NUMA node of the operating system, which keeps its own pages and those
of ended processes there (nvidia-smi's manual page, FB Memory Usage): used memory does not mean a leak.
"""

from __future__ import annotations

import re
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.gpu import NVML, PCI, each
from healthcheck.facts.nvml_output import Line, handle_error, index_of, reading
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured

_SUPERCHIP = re.compile(r"\bG[HB][0-9]{3}\b")     # GH200, GB200, GB300


class GpuLoad(Fact):
    """What runs on one GPU ("GPU 3"): the numbers of the processes that use it, sorted; empty where it is
    idle.

    `gone` are listed processes that no longer exist, `zombies` those that have ended and were not waited for;
    both are among `processes`. `commands` are the kernel's names in the order of `processes`, "" where not
    known. `memory_used_bytes` excludes what the driver reserves, and is UNSUPPORTED where the operating
    system manages the GPU's memory.
    """

    name: str
    index: int
    processes: tuple[int, ...]
    gone: tuple[int, ...]
    zombies: tuple[int, ...]
    commands: tuple[str, ...]
    memory_used_bytes: int


@fact("gpu_loads", NVML, PCI, each="gpu_load")
def gpu_loads(captures: Captures) -> Any:
    """What runs on every GPU that the driver lists."""
    return each(captures, lambda lines: tuple(map(_load, lines)))


def _load(line: Line) -> GpuLoad:
    index = index_of(line)
    unread = handle_error(line)
    rows: Any = unread or reading(line, "processes", list)
    if type(rows) is list and not all(type(row) is list and [type(part) for part in row] == [int, str, str]
                                      for row in rows):
        rows = Unmeasured("NVML: processes is not in the reader's format")
    used: Any = unread or reading(line, "memory_used_bytes", int)
    model = reading(line, "name", str)
    if type(used) is int and isinstance(model, str) and _SUPERCHIP.search(model):
        used = UNSUPPORTED
    name = f"GPU {index}"
    if type(rows) is not list:
        return GpuLoad(name, index, processes=rows, gone=rows, zombies=rows, commands=rows,
                       memory_used_bytes=used)
    ended: Any = tuple(number for number, state, _ in rows if state == "")
    zombies: Any = tuple(number for number, state, _ in rows if state == "Z")
    states = {state for _, state, _ in rows}
    if "-" in states:
        ended = zombies = Unmeasured("process numbers mean nothing here: the collector runs in a PID "
                                     "namespace of its own")
    elif "?" in states:
        zombies = Unmeasured("/proc hides the processes of other users")
    return GpuLoad(
        name, index, processes=tuple(row[0] for row in rows), gone=ended, zombies=zombies,
        commands=tuple(row[2][:64] for row in rows), memory_used_bytes=used,
    )
