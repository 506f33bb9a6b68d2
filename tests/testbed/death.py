"""A kill as an exception, a clock that tests set, and one at whose reading one dies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


class Death(BaseException):
    """Stands for a kill."""


@dataclass
class Clock:
    """Time goes on as a test says, or where somebody sleeps."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Mortal:
    """Whose time goes on by a second at each reading."""

    now = 0.0

    def clock(self, lives: int) -> Callable[[], float]:
        """One at whose `lives`-th reading it dies."""
        left = lives

        def time() -> float:
            nonlocal left
            left -= 1
            if not left:
                raise Death
            self.now += 1
            return self.now
        return time
