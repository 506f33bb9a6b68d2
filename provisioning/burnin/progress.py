"""Reports the progress of a burn-in on standard error: a bar on a terminal, a line for each step in a log."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from healthcheck.burnin.model import TaskResult
from healthcheck.burnin.stages import StageStep
from inventory.text import clean, many


class ProgressReport:
    """A context manager around the work that hears of each step and finished task; this one is silent."""

    def step(self, step: StageStep, kw: float | None) -> None:
        """A step begins."""

    def done(self, result: TaskResult) -> None:
        """A task of it is over."""

    def __enter__(self) -> ProgressReport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        pass


def progress_report(steps: int, *, quiet: bool = False) -> ProgressReport:
    """A bar where standard error is a terminal, lines elsewhere."""
    if quiet:
        return ProgressReport()
    return _Bar(steps) if sys.stderr.isatty() else _Lines()


def _line(step: StageStep, kw: float | None) -> str:
    """A step in words."""
    power = f", at most {kw:.1f} kW" if kw is not None else ""
    return (f"{step.stage.value} {step.name}: {many(len(step.tasks), 'task')} on "
            f"{many(len(step.nodes), 'node')}, about {max(1, round(step.seconds))} s{power}")


class _Lines(ProgressReport):
    def step(self, step: StageStep, kw: float | None) -> None:
        _print(f"burnin: {_line(step, kw)}")

    def done(self, result: TaskResult) -> None:
        for one in result.accusations:
            _print(f"burnin: {result.task.id}: {one.object.value} {clean(one.name, 120)}: {one.fault}")


class _Bar(ProgressReport):
    def __init__(self, steps: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar: Any = Progress(
            TextColumn("burnin"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[what]}"),
            TimeElapsedColumn(), console=Console(stderr=True), transient=True)
        self._steps = self._bar.add_task("steps", total=steps, what="")
        self._begun = 0

    def step(self, step: StageStep, kw: float | None) -> None:
        # Confirmations come beside what was planned.
        total = max(self._bar.tasks[0].total or 0, self._begun + 1)
        self._bar.update(self._steps, completed=self._begun, total=total, what=_line(step, kw))
        self._begun += 1

    def done(self, result: TaskResult) -> None:
        for one in result.accusations:
            line = f"{result.task.id}: {one.object.value} {clean(one.name, 120)}: {one.fault}"
            self._bar.console.print(line, markup=False, highlight=False)

    def __enter__(self) -> _Bar:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self._bar.__exit__(kind, error, trace)


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201
