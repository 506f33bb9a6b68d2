"""The emitters of a kernel log: subsystems and drivers that write to it, known by their messages' prefix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from re import ASCII, Match, Pattern, compile

CORE = "kernel"     # the emitter of what the kernel writes without a prefix


@dataclass(frozen=True)
class Emitter:
    """One emitter. `begins` is a regular expression for the prefix of its messages; entries do not repeat it.
    `subsystems` are the values of SUBSYSTEM= that the kernel attaches in /dev/kmsg. Empty: none or any."""

    id: str
    begins: str
    source: str
    subsystems: tuple[str, ...] = ()

    def prefix(self, text: str) -> Match[str] | None:
        """The prefix of a message of this emitter, or None if it is another's."""
        return _compiled(self.begins).match(text)

    def agrees(self, subsystem: str) -> bool:
        """Whether a record with this SUBSYSTEM= (empty: none) can be its own."""
        return not subsystem or not self.subsystems or subsystem in self.subsystems


@lru_cache(maxsize=1024)
def _compiled(begins: str) -> Pattern[str]:
    return compile(begins, ASCII)


KERNEL = Emitter(
    CORE, "", "what the core of the kernel writes has no prefix: entries begin where the message does")
