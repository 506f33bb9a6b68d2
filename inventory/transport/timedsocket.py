"""A socket whose whole answer has one deadline, for http.client, whose time limit holds for one read each."""

from __future__ import annotations

import io
import socket
from typing import Protocol


class TimeLeft(Protocol):
    """A deadline."""

    def left(self) -> float:
        """Seconds that are left, above 0; raises where none are."""


class TimedSocket:
    """What http.client reads an answer from: of a socket, until the deadline."""

    def __init__(self, connection: socket.socket, deadline: TimeLeft) -> None:
        self._connection = connection
        self._deadline = deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        """The reading end."""
        return io.BufferedReader(_Reader(self._connection, self._deadline))


class _Reader(io.RawIOBase):
    def __init__(self, connection: socket.socket, deadline: TimeLeft) -> None:
        self._connection = connection
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._connection.settimeout(self._deadline.left())
        return self._connection.recv_into(buffer)
