"""The line protocol between the program on a node and the transport, as a pure state machine.

Everything of ours on the node's standard output begins with `muster:NONCE:`; what comes before or between
(banners, rc files, a sudo lecture) is skipped, within a bound. In order:

    muster:NONCE:login                       the shell ran our command
    muster:NONCE:python 3.11                 the loader runs; it ends if Python is older than 3.8
    muster:NONCE:want NAME                   send the extra NAME, as b"LENGTH\\n" + bytes on standard input
    muster:NONCE:frame LENGTH SHA256         LENGTH bytes of body follow, then nothing that matters
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inventory.transport.base import Program

MIN_PYTHON = (3, 8)
_LONGEST_LINE = 64 * 1024
_MOST_NOISE = 1024 * 1024
_FRAME = re.compile(rb"frame (\d{1,12}) ([0-9a-f]{64})")
_PYTHON = re.compile(rb"python (\d{1,3})\.(\d{1,3})")
_WANT = re.compile(rb"want ([a-z0-9_.-]{1,40})")


@dataclass(frozen=True)
class LoggedIn:
    """The shell ran our command."""


@dataclass(frozen=True)
class LoaderStarted:
    """Python runs the loader; `supported` is False when it is older than 3.8."""

    version: str
    supported: bool


@dataclass(frozen=True)
class ExtraRequested:
    """The program asks for an extra."""

    name: str


@dataclass(frozen=True)
class Body:
    """The whole frame arrived and its checksum holds."""

    data: bytes


@dataclass(frozen=True)
class Broken:
    """The data cannot become our frame any more."""

    reason: str


Event = LoggedIn | LoaderStarted | ExtraRequested | Body | Broken


class Framer:
    """Feed it the bytes of standard output; it yields events, and none after `Body` or `Broken`."""

    def __init__(self, nonce: str, limit: int) -> None:
        self._prefix = f"muster:{nonce}:".encode()
        self._limit = limit
        self._buffer = bytearray()
        self._noise = 0
        self._left: int | None = None
        self._digest = ""
        self._body = bytearray()
        self.over = False

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yields what the new bytes complete; noise is bounded at 1 MiB, a line of ours at 64 KiB."""
        if self.over:
            return
        self._buffer += chunk
        while not self.over:
            if self._left is not None:
                yield from self._take_body()
                return
            end = self._buffer.find(b"\n")
            if end < 0:
                if len(self._buffer) > _LONGEST_LINE:
                    self._skip(bytes(self._buffer[: -len(self._prefix)]))
                if self._noise > _MOST_NOISE:
                    yield self._stop("over 1 MiB of output before our answer")
                return
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            at = line.find(self._prefix)
            if at < 0:
                self._noise += end + 1
                if self._noise > _MOST_NOISE:
                    yield self._stop("over 1 MiB of output before our answer")
                continue
            yield from self._line(line[at + len(self._prefix):].rstrip(b"\r"))

    def cut(self) -> str:
        """What was missing when the output ended without `Body`."""
        if self._left is not None:
            return f"the answer was cut: {len(self._body)} of {len(self._body) + self._left} bytes arrived"
        return "the program ended without an answer"

    def _skip(self, noise: bytes) -> None:
        self._noise += len(noise)
        del self._buffer[: len(noise)]

    def _stop(self, reason: str) -> Broken:
        self.over = True
        self._buffer.clear()
        return Broken(reason)

    def _line(self, text: bytes) -> Iterator[Event]:
        if text == b"login":
            yield LoggedIn()
        elif match := _PYTHON.fullmatch(text):
            version = (int(match[1]), int(match[2]))
            yield LoaderStarted(f"{version[0]}.{version[1]}", version >= MIN_PYTHON)
        elif match := _WANT.fullmatch(text):
            yield ExtraRequested(match[1].decode())
        elif match := _FRAME.fullmatch(text):
            size = int(match[1])
            if size > self._limit:
                yield self._stop(f"the answer announces {size} bytes, over the limit of {self._limit}")
            else:
                self._left = size
                self._digest = match[2].decode()
        else:
            yield self._stop("an unknown protocol line: is the collector of another version?")

    def _take_body(self) -> Iterator[Event]:
        assert self._left is not None  # noqa: S101  (narrowing; feed() checked it)
        part = self._buffer[: self._left]
        self._body += part
        self._left -= len(part)
        self._buffer.clear()
        if self._left == 0:
            self.over = True
            data = bytes(self._body)
            if hashlib.sha256(data).hexdigest() == self._digest:
                yield Body(data)
            else:
                yield Broken("the answer's checksum does not hold: it was changed on the way")


def shell_command(program: Program, python: str, *, become: bool, words: Sequence[str] = ()) -> str:
    """The command for the node's login shell: says `login`, then becomes Python (through sudo, if asked).
    `words` are the node's own (`Node.words`). It holds no quote, newline or dollar sign besides shlex's
    quoting, so sh, bash, dash, zsh, csh and fish run it the same way."""
    command = [python, "-I", "-S", "-c", program.loader, program.nonce, *words]
    if become:
        command = ["sudo", "-n", "--", *command]
    return f"echo muster:{program.nonce}:login; exec {shlex.join(command)}"
