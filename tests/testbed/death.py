"""A kill as an exception, a clock that tests set, and one at whose reading one dies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest


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


@contextlib.contextmanager
def killed_at(at: int, module: ModuleType, *names: str) -> Iterator[list[str]]:
    """Dies at the `at`-th event: the beginning or the end of one of these functions; gives the events."""
    events: list[str] = []

    def event(name: str) -> None:
        events.append(name)
        if len(events) == at:
            raise Death

    def around(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: object, **more: object) -> object:
            event(name)
            found = real(*given, **more)
            event(name)
            return found
        return wrapped

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Death):
        for name in names:
            patch.setattr(module, name, around(name, getattr(module, name)))
        yield events
