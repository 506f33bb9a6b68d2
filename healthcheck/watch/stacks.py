"""Where processes of a job that hangs stand: what `py-spy dump` prints of each, in a line of words.

    Thread 25523 (idle): "MainThread"
        all_reduce (torch/distributed/distributed_c10d.py:2501)
        step (train.py:88)

The newest call comes first. Form: github.com/benfred/py-spy src/dump.rs, as printed by 0.4.3.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from inventory.text import clean

FRAMES = 4          # of a stack that are shown
_MOST_LINES = 2000
_THREAD = re.compile(r'^Thread (?:0x)?[0-9A-Fa-f]{1,20} \((\w{1,12})(?:\+\w{1,12})?\)(?:: "(.{0,80})")?$')
_FRAME = re.compile(r"^ {4}(.{1,200}?) \((.{1,400}?)(?::(\d{1,9}))?\)$")


@dataclass(frozen=True)
class ProcessStack:
    """The main thread of one process: its calls, the newest first."""

    host: str
    pid: int
    calls: tuple[str, ...]


def parse(text: str, host: str, pid: int) -> ProcessStack | None:
    """The main thread's stack, or the first's where none is called so; None where there is none."""
    threads: dict[str, list[str]] = {}
    own: list[str] | None = None
    for line in text.splitlines()[:_MOST_LINES]:
        if (thread := _THREAD.match(line)) is not None:
            own = threads.setdefault(thread[2] or "", [])
        elif own is not None and len(own) < FRAMES and (frame := _FRAME.match(line)) is not None:
            place = frame[2].rpartition("/")[2] + (f":{frame[3]}" if frame[3] else "")
            own.append(clean(f"{frame[1]} ({place})", 120))
    calls = threads.get("MainThread") or next((one for one in threads.values() if one), [])
    return ProcessStack(clean(host, 253), pid, tuple(calls)) if calls else None


def words(stacks: Iterable[ProcessStack], most: int = 12) -> tuple[str, ...]:
    """A line for each place that processes stand at, the rarest first: it matters who stands elsewhere."""
    found = sorted(stacks, key=lambda one: (one.host, one.pid))
    count = Counter(one.calls for one in found)
    lines = []
    for calls, many in sorted(count.items(), key=lambda one: (one[1], one[0]))[:most]:
        who = [f"process {one.pid} on {one.host}" for one in found if one.calls == calls]
        more = f" and {many - 2} others" if many > 2 else ""
        lines.append(f"py-spy: {', '.join(who[:2])}{more}: {' < '.join(calls)}")
    return tuple(lines)
