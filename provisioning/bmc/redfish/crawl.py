"""Which paths of a service are still to be read, as several connections take them: what a document leads to
joins at once, so that none waits for a level. Also what earlier tries read."""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from provisioning.bmc.redfish.answers import Document

# Bytes of one machine; an HGX's 139 documents have some 0.5 MB, and a fifth of it when compressed.
MOST_KEPT = 1024 * 1024


class ToRead(NamedTuple):
    """A path, and what its document leads to; None for one that leads nowhere."""

    path: str
    onward: Onward | None = None


Onward: TypeAlias = Callable[[Document], Iterable[ToRead]]


class Frontier:
    """The paths that wait, each once; those that lead on come first, as the rest takes longest."""

    def __init__(self, first: Iterable[ToRead]) -> None:
        self._waiting: deque[ToRead] = deque()
        self._seen: set[str] = set()
        self._busy = 0
        self._changed = threading.Condition()
        self.add(first)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, found: Iterable[ToRead]) -> None:
        """Has these read, too."""
        with self._changed:
            for one in found:
                if one.path not in self._seen:
                    self._seen.add(one.path)
                    self._put(one)
            self._changed.notify_all()

    def taken(self) -> Iterator[ToRead]:
        """One path after the other, for one connection; ends when no more can come. The caller has `add`ed
        what came of a path, or `put_back` it, before it comes for the next."""
        while (one := self._take()) is not None:
            try:
                yield one
            finally:
                with self._changed:
                    self._busy -= 1
                    self._changed.notify_all()

    def put_back(self, one: ToRead) -> None:
        """For another connection, if there is one."""
        with self._changed:
            self._put(one)

    def _put(self, one: ToRead) -> None:
        if one.onward is None:
            self._waiting.append(one)
        else:
            self._waiting.appendleft(one)

    def _take(self) -> ToRead | None:
        with self._changed:
            while not self._waiting and self._busy:
                self._changed.wait()
            if not self._waiting:
                return None
            self._busy += 1
            return self._waiting.popleft()


class KeptDocuments:
    """What was read of a machine's parts in a try that did not end, none older than `seconds`. Answers are
    kept compressed: a run may have a thousand machines. No ETag is asked about: each is a request, of which a
    slow controller has too few."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._held: dict[str, tuple[float, bytes]] = {}
        self._bytes = 0
        self._writing = threading.Lock()
        self.cut = False        # the newest try was ended by a controller that gave no more answers

    def get(self, path: str) -> Document | None:
        """What stood at this path, None where that is not known, or too old."""
        read, body = self._held.get(path, (0.0, b""))
        if not body or self._clock() - read > self._seconds:
            return None
        found: Document = json.loads(zlib.decompress(body))     # it was a document when it was kept
        return found

    def put(self, path: str, body: bytes) -> None:
        """Keeps an answer, as long as there is room."""
        small = zlib.compress(body, 1)
        with self._writing:
            if self._bytes + len(small) <= MOST_KEPT:
                self._bytes += len(small)
                self._held[path] = self._clock(), small


class KeptTries:
    """What each machine's tries of a step read. `seconds` is how old it may be."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._of: dict[str, tuple[float, float, KeptDocuments]] = {}
        self._changing = threading.Lock()

    def of(self, node: str) -> KeptDocuments | None:
        """What is kept of this machine; None for one that has begun no step."""
        with self._changing:
            return self._of[node][2] if node in self._of else None

    def begin(self, node: str, began: float) -> None:
        """A try of the step that the machine came to at `began`; what other steps' tries read is dropped, and
        what is too old of others, who may never come again."""
        now = self._clock()
        with self._changing:
            self._of = {name: one for name, one in self._of.items() if now - one[1] <= self._seconds}
            held = self._of.get(node)
            kept = held[2] if held is not None and held[0] == began else KeptDocuments(
                self._seconds, self._clock)
            self._of[node] = began, now, kept

    def drop(self, node: str) -> None:
        """The try came to its end: the next one reads all of it anew."""
        with self._changing:
            self._of.pop(node, None)
