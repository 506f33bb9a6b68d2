"""A serial console's bytes as safe lines. Pure. Firmware paints menus with escape sequences and moves the
cursor; kernels end lines with CR LF; a line may come in many pieces, or never end. Sequences (ECMA-48, 5.4:
CSI; 8.3.89: OSC) are left out, a CR alone ends a line as an LF does, and the rest is escaped."""

from __future__ import annotations

import re

from inventory.text import clean

LONGEST = 1000          # characters of a kept line
_MOST_OPEN = 8192       # bytes of a line that has not ended: then it is cut there
_SEQUENCE = re.compile(
    rb"\x1b(?:\[[0-?]{0,32}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\^_=>78])")
_PLACED = re.compile(rb"\x1b\[[0-9;]{0,16}[HfJ]")     # the cursor is put elsewhere: another line begins
_END = re.compile(rb"[\r\n]+")


class ConsoleLines:
    """Puts lines together from pieces as they come."""

    def __init__(self) -> None:
        self._open = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that this piece ends."""
        *whole, self._open = _END.split(self._open + data)
        while len(self._open) > _MOST_OPEN:
            whole.append(self._open[:_MOST_OPEN])
            self._open = self._open[_MOST_OPEN:]
        return [line for one in whole for line in _shown(one)]

    def rest(self) -> list[str]:
        """What has not ended, such as a prompt; forgotten afterwards."""
        left, self._open = self._open, b""
        return _shown(left)


def _shown(data: bytes) -> list[str]:
    parts = _PLACED.sub(b"\n", data).split(b"\n")
    lines = (_SEQUENCE.sub(b"", part).replace(b"\x00", b"").decode("utf-8", "surrogateescape").strip()
             for part in parts)
    return [clean(line.expandtabs(), LONGEST) for line in lines if line]
