"""What a capture reads from, and why there may be nothing to read."""

from __future__ import annotations

from typing import Protocol


class ConsoleUnavailable(Exception):
    """The console cannot be captured; `passing`: it may be another time. One line without a secret."""

    def __init__(self, message: str, *, passing: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.passing = passing


class ConsoleSource(Protocol):
    """A console that is being read. `way` says how, for people."""

    way: str

    def read(self, seconds: float) -> bytes:
        """What came within so many seconds, or empty. Raises ConsoleUnavailable when it is lost."""

    def close(self) -> None:
        """Ends it, with whatever session it has at the controller; never raises."""
