"""srun's output, as pure parsers: labelled lines of many tasks, and srun's own messages about nodes."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass

_LABEL = re.compile(rb"\s*(\d{1,7}): ?(.*)", re.DOTALL)
_LAUNCH = re.compile(r"Task launch for \S+ failed on node (\S+): (.+)")
_LONGEST = 64 * 1024
_LONGEST_RECORD = 4096


class Labelled:
    """Feed it bytes of `srun --label`; it yields (task number, line). Without a label it is of task -1."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yields each line that the bytes complete, without its end; an endless one is cut at 64 KiB."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            found = _LABEL.fullmatch(line)
            yield (int(found[1]), found[2]) if found else (-1, line)


class TaskRecords:
    """Puts together what `sruntask` and its shell write: records from one of `.!=` to `~`. At a task's end
    Slurm sends the rest in pieces, cut anywhere, and srun ends each with a newline."""

    def __init__(self) -> None:
        self._begun: dict[int, bytes] = {}

    def add(self, task: int, line: bytes) -> bytes | None:
        """The whole record that this line ends, without its `~`; another line as it is; None for a part."""
        begun = self._begun.pop(task, b"")
        if not begun and line[:1] not in (b".", b"!", b"="):
            return line
        whole = begun + line
        if whole.endswith(b"~"):
            return whole[:-1]
        if len(whole) > _LONGEST_RECORD:
            return whole        # it cannot be decoded
        self._begun[task] = whole
        return None


@dataclass(frozen=True)
class LaunchFailed:
    """srun could not start the program on this node; `reason` is Slurm's."""

    node: str
    reason: str


def launch_failure(line: bytes) -> LaunchFailed | None:
    """The node that a message of srun's names, if it says that the launch failed there."""
    found = _LAUNCH.search(line.decode("utf-8", "backslashreplace"))
    return LaunchFailed(found[1], found[2].strip()) if found else None


def carried(line: bytes) -> bytes | None:
    """The bytes in a line of `sruntask` after its mark; None for one that is damaged."""
    try:
        return base64.b64decode(line[1:], validate=True)
    except (binascii.Error, ValueError):
        return None
