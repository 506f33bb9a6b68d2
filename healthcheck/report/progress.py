"""Progress of long work: a bar on a terminal, lines at intervals in a log; always on standard error."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from healthcheck.model.progress import Progress

_INTERVAL_S = 5.0


def progress(total: int, what: str, *, quiet: bool = False) -> Progress:
    """A bar on a terminal, lines elsewhere; nothing for a single node or when quiet."""
    if quiet or total <= 1:
        return _Silent()
    return _Bar(total, what) if sys.stderr.isatty() else _Lines(total, what)


class _Silent:
    def done(self, name: str, reached: bool) -> None:
        pass

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        pass


class _Lines(_Silent):
    """A line at most every five seconds, so that the log of a quick sweep stays empty."""

    def __init__(self, total: int, what: str) -> None:
        self._total, self._what = total, what
        self._done = self._failed = 0
        self._next = time.monotonic() + _INTERVAL_S

    def done(self, name: str, reached: bool) -> None:
        self._done += 1
        self._failed += not reached
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _INTERVAL_S
            print(f"{self._what}: {self._done} of {self._total} nodes, {self._failed} not reached",  # noqa: T201
                  file=sys.stderr)


class _Bar:
    def __init__(self, total: int, what: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._bar: Any = RichProgress(
            TextColumn(what), BarColumn(), MofNCompleteColumn(),
            TextColumn("{task.fields[failed]} not reached"), TimeElapsedColumn(),
            console=Console(stderr=True), transient=True,
        )
        self._task = self._bar.add_task(what, total=total, failed=0)
        self._failed = 0

    def done(self, name: str, reached: bool) -> None:
        self._failed += not reached
        self._bar.update(self._task, advance=1, failed=self._failed)

    def __enter__(self) -> _Bar:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self._bar.__exit__(kind, error, trace)
