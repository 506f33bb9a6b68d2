"""Progress of a pull on standard error: a bar on a terminal, a line now and then in a log; both name who
takes far longer than the others."""

from __future__ import annotations

import contextlib
import sys
import threading
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from inventory.nodeset import fold
from provisioning.images.model import ImageState, NodeImages
from provisioning.images.turns import PlaceTurns, stragglers

EVERY_S = 15.0
_NAMED = 3


class PullProgress:
    """Takes every node that is done. Used as a context manager around the pull."""

    def __init__(self, total: int, turns: PlaceTurns, every_s: float = EVERY_S) -> None:
        self._total, self._turns, self._every = total, turns, every_s
        self._done = self._lacking = 0
        self._seconds: dict[str, float] = {}
        self._over = threading.Event()
        self._shown: AbstractContextManager[Any] | None = None
        self._move: Any = None
        self._thread: threading.Thread | None = None

    def done(self, one: NodeImages) -> None:
        self._done += 1
        self._lacking += one.state is not ImageState.PRESENT
        if (took := pull_seconds(one)) > 0:
            self._seconds[one.node] = took
        if self._move is not None:
            self._move()

    def text(self) -> str:
        """How far it is, in a line."""
        at_work = self._turns.at_work()
        said = (f"{self._done} of {self._total} nodes, {self._lacking} without an image, "
                f"{len(at_work)} at work")
        _, late = stragglers(dict(self._seconds), at_work)
        slow = [name for name in late if name in at_work]
        return f"{said}; slow: {', '.join(slow[:_NAMED])}{_more(slow)}" if slow else said

    def __enter__(self) -> PullProgress:
        if self._total <= 1:
            return self
        if sys.stderr is not None and sys.stderr.isatty():
            self._bar()
        else:
            self._thread = threading.Thread(target=self._lines, name="pull-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._shown is not None:
            self._shown.__exit__(kind, error, trace)

    def _lines(self) -> None:
        while not self._over.wait(self._every):
            with contextlib.suppress(OSError, ValueError):      # no one reads them any more
                print(f"muster: pull: {self.text()}", file=sys.stderr, flush=True)  # noqa: T201

    def _bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn, Task, TimeElapsedColumn
        from rich.text import Text

        says = self.text

        class _Says(ProgressColumn):
            max_refresh = 0.5

            def render(self, task: Task) -> Text:
                return Text(says())

        bar = Progress(BarColumn(bar_width=20), _Says(), TimeElapsedColumn(), console=Console(stderr=True),
                       transient=True)
        task = bar.add_task("pull", total=self._total)
        self._move = lambda: bar.update(task, advance=1)
        self._shown = bar
        bar.__enter__()


def pull_seconds(one: NodeImages) -> float:
    """For how long the clients pulled on a node."""
    return sum(image.seconds for image in one.images)


def _more(slow: list[str]) -> str:
    return f" and {fold(slow[_NAMED:])}" if len(slow) > _NAMED else ""
