"""Runs commands on this machine, several at once, bounded in time and output; none outlives its caller."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

TERM_S = 15.0       # for a salloc that is asked to end, which gives its nodes back first
_CHUNK = 1 << 16
# with TERM, then with KILL; whatever holds its output open after that is no longer listened to
_SIGNALS = 2


@dataclass(frozen=True)
class HeadCommand:
    """A command under a name, with its whole environment, and how many seconds it may take."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    seconds: float


@dataclass(frozen=True)
class Ran:
    """Its exit code (negative: a signal; None where its time or room was over), and what it printed."""

    name: str
    code: int | None
    output: bytes
    seconds: float


class _Child:
    def __init__(self, command: HeadCommand) -> None:
        self.command = command
        self.began = time.monotonic()
        self.due = self.began + command.seconds
        self.output = bytearray()
        self.over = False   # its output has ended
        self.signals_sent = 0       # how often it was asked to end, the last time by SIGKILL
        # Both outputs in one, as on a terminal: whatever fails says so in its place.
        self.process = subprocess.Popen(
            command.argv, env=dict(command.environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True)

    def end(self) -> None:
        """Its time is over: it is asked to end once, and killed when that does not help."""
        self._signal(signal.SIGKILL if self.signals_sent else signal.SIGTERM)
        self.signals_sent, self.due = self.signals_sent + 1, time.monotonic() + TERM_S

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def ran(self) -> Ran:
        """After its output has ended, or no one reads it any more."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(TERM_S)
        if self.process.poll() is None:
            self.signals_sent += 1
            self._signal(signal.SIGKILL)
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        return Ran(self.command.name, None if self.signals_sent else self.process.returncode,
                   bytes(self.output), time.monotonic() - self.began)


def in_parallel(commands: Sequence[HeadCommand], most_bytes: int) -> Iterator[Ran]:
    """Starts all, and yields what came of each as soon as it has ended; ending the iteration ends them."""
    with selectors.DefaultSelector() as selector:
        left: list[_Child] = []
        try:
            for command in commands:
                try:
                    child = _Child(command)
                except OSError as error:
                    yield Ran(command.name, 127, f"{command.argv[0]}: {error.strerror}".encode(), 0.0)
                    continue
                left.append(child)
                selector.register(child.process.stdout or -1, selectors.EVENT_READ, child)
            while left:
                for key, _ in selector.select(max(0.0, min(child.due for child in left) - time.monotonic())):
                    child = key.data
                    data = os.read(key.fd, _CHUNK)
                    child.output += data[:max(0, most_bytes - len(child.output))]
                    if len(child.output) >= most_bytes and not child.signals_sent:
                        child.end()
                    if not data:
                        child.due, child.over = 0.0, True
                for child in [child for child in left if time.monotonic() >= child.due]:
                    if not child.over and child.signals_sent < _SIGNALS:
                        child.end()
                        continue
                    selector.unregister(child.process.stdout or -1)
                    left.remove(child)
                    yield child.ran()
        finally:
            _end_all(left)


def _end_all(children: Sequence[_Child]) -> None:
    for child in children:
        child.end()
    for child in children:
        child.ran()
