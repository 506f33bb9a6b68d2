"""Each rank's position in memory shared with the nursery, written without locks. Python 3.8."""

from __future__ import annotations

import mmap
import time
from typing import Any

from healthcheck.burnin.wire import PHASES

SLOT_WORDS = 4
MOST_SLOTS = 1024


class Slot:
    """What one rank alone writes: progress, when that changed, when its helper last ran (ns), spare."""

    def __init__(self, words: Any, index: int) -> None:
        self.words = words
        self.base = index * SLOT_WORDS

    def clear(self) -> None:
        """Resets the slot."""
        now = time.monotonic_ns()
        self.words[self.base] = 0
        self.words[self.base + 1] = now
        self.words[self.base + 2] = now

    def at(self, iteration: int, phase: int) -> None:
        """The rank is now in this phase (an index of PHASES) of this iteration, -1 before the first."""
        self.words[self.base] = (iteration + 1) * 16 + phase
        self.words[self.base + 1] = time.monotonic_ns()

    def tick(self) -> None:
        """The rank's helper thread is alive now."""
        self.words[self.base + 2] = time.monotonic_ns()

    def position(self) -> dict[str, Any]:
        """Its iteration, its phase, and the seconds since it moved and ticked."""
        place = self.words[self.base]
        now = time.monotonic_ns()
        return {"iteration": place // 16 - 1, "phase": PHASES[min(place % 16, len(PHASES) - 1)],
                "moved": round((now - self.words[self.base + 1]) / 1e9, 3),
                "tick": round((now - self.words[self.base + 2]) / 1e9, 3)}


def shared_words() -> Any:
    """Memory for MOST_SLOTS slots that a forked child shares."""
    return memoryview(mmap.mmap(-1, MOST_SLOTS * SLOT_WORDS * 8)).cast("q")
