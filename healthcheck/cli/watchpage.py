"""What `muster watch` shows: a table that is drawn again and again on a terminal, plain lines elsewhere, or
JSON lines."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import click

from healthcheck.watch import document
from healthcheck.watch.judged import unjudged
from healthcheck.watch.model import Certainty, SlowPattern, WatchFinding
from inventory.text import clean
from inventory.times import minute

if TYPE_CHECKING:
    from rich.console import RenderableType

    from healthcheck.watch.watcher import JobWatch, WatchUpdate

_LINE_S = 60.0      # between lines about the job where nothing is found
_MOST = 20          # findings in the table
_LEAST_TABLE = 76   # columns


class WatchView(Protocol):
    """Shows a watched job."""

    def show(self, job: str, watch: JobWatch, update: WatchUpdate) -> None:
        """After each pass that brought something."""

    def end(self, job: str, watch: JobWatch, caveats: Sequence[str], exit_code: int) -> None:
        """Once, last."""


def view(fmt: str) -> WatchView:
    """The view for a format and this standard output."""
    if fmt == "json":
        return _JsonLines()
    return _Table() if sys.stdout.isatty() else _Lines()


def speed(job: str, watch: JobWatch) -> str:
    """The job as it is now, in one line."""
    if not watch.windows:
        return f"job {job or '?'}: no step times yet"
    now = watch.windows[-1]
    of = f"{now.ranks} rank{'s' * (now.ranks != 1)}" if now.ranks else "as a whole"
    phases = ", ".join(f"{phase.value} {value:.3g}" for phase, value in now.phases.items())
    return (f"job {job or '?'}: step {now.last}, {now.seconds:.4g} s a step, {of}"
            f"{f' ({phases})' if phases else ''}, attempt {now.attempt + 1}")


def sentence(one: WatchFinding) -> str:
    """A finding in one line."""
    parts = [f"{minute(one.since)} {clean(one.subject, 120)}"]
    if one.level.value == "rank" and one.hosts:
        parts.append(f"on {clean(', '.join(one.hosts[:4]), 200)}")
    what = one.pattern.value + (f" in {one.phase.value}" if one.phase is not None else "")
    parts.append(f"{what} since step {one.since_step}")
    if one.pattern is not SlowPattern.HANG:
        parts.append(f"costs {one.lost_s:.3g} s a step ({100 * one.share:.0f} %)")
        parts.append(cause(one))
    if not one.still and one.pattern is not SlowPattern.SLOW_START:
        parts.append("over")
    return "; ".join((" ".join(parts[:2]) if one.level.value == "rank" and one.hosts else parts[0],
                      *parts[2 if one.level.value == "rank" and one.hosts else 1:]))


def cause(one: WatchFinding) -> str:
    """The cause in a few words."""
    verdict = one.verdict
    rivals = " or ".join(rival.value for rival in verdict.rivals)
    if verdict.certainty is Certainty.NONE:
        return "cause: cannot tell" + (f" between {rivals}" if rivals else "")
    return f"cause: {verdict.cause.value} ({verdict.certainty.value}{f'; or {rivals}' if rivals else ''})"


class _JsonLines:
    def show(self, job: str, watch: JobWatch, update: WatchUpdate) -> None:
        for window in update.windows:
            self._line(document.window(job, window))
        for one in update.findings:
            self._line(document.finding(job, one))
        sys.stdout.flush()

    def end(self, job: str, watch: JobWatch, caveats: Sequence[str], exit_code: int) -> None:
        self._line(document.end(job, watch, tuple(caveats), exit_code))

    def _line(self, value: dict[str, Any]) -> None:
        click.echo(json.dumps(value, separators=(",", ":")))


class _Lines:
    def __init__(self) -> None:
        self._next = 0.0

    def show(self, job: str, watch: JobWatch, update: WatchUpdate) -> None:
        for one in update.findings:
            click.echo(sentence(one))
            for words in (*one.evidence, *one.verdict.evidence):
                click.echo(f"    {words}")
        if update.windows and time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_S
            click.echo(speed(job, watch))

    def end(self, job: str, watch: JobWatch, caveats: Sequence[str], exit_code: int) -> None:
        for line in closing(job, watch):
            click.echo(line)


def closing(job: str, watch: JobWatch) -> list[str]:
    """The job at the end, in lines."""
    lines = [speed(job, watch)]
    attempts = watch.attempts
    for attempt in attempts[-_MOST:]:
        again = f", {attempt.lost_steps} of them done before" if attempt.lost_steps else ""
        idle = f", after {attempt.idle_s:.0f} s without steps" if attempt.idle_s >= 1 else ""
        lines.append(f"attempt {attempt.number + 1}: steps {attempt.first} to {attempt.last}{again}{idle}")
    if len(attempts) > _MOST:
        lines.insert(1, f"{len(attempts) - _MOST} attempts before these")
    if not watch.findings:
        lines.append(nothing(watch))
    return lines + [f"- {sentence(one)}" for one in watch.findings.values()]


def nothing(watch: JobWatch) -> str:
    """What to say of a job without findings: only where all could be judged does nothing slow it."""
    if not watch.windows:
        return "nothing is known of it"
    if not watch.judged:
        return "what slows it is not known"
    return "nothing is found that slows it" if unjudged(watch) else "nothing slows it"


class _Table:
    """Drawn again on each pass; what is left at the end is the last drawing."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(highlight=False), auto_refresh=False)
        self._live.start()

    def show(self, job: str, watch: JobWatch, update: WatchUpdate) -> None:
        self._live.update(self.drawn(job, watch, self._live.console.width), refresh=True)

    def end(self, job: str, watch: JobWatch, caveats: Sequence[str], exit_code: int) -> None:
        self._live.update(self.drawn(job, watch, self._live.console.width), refresh=True)
        self._live.stop()

    @staticmethod
    def drawn(job: str, watch: JobWatch, width: int) -> RenderableType:
        """The job in a line, and its findings, what lasts first; where a table would cut their words, as
        sentences."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False)
        for name in ("since", "who", "what", "s a step", "cause"):
            table.add_column(name, no_wrap=name == "since")
        newest = sorted(watch.findings.values(), key=lambda one: (not one.still, -one.last))
        for one in newest[:_MOST]:
            where = f" {', '.join(one.hosts[:4])}" if one.level.value == "rank" else ""
            phase = f" ({one.phase.value})" if one.phase is not None else ""
            table.add_row(minute(one.since), Text(clean(one.subject + where, 120)),
                          f"{one.pattern.value}{phase}{'' if one.still else ', over'}",
                          f"+{one.lost_s:.3g}", Text(cause(one).removeprefix("cause: ")))
        head = Text(speed(job, watch))
        more = len(newest) - _MOST
        rest = [Text(f"and {more} more")] if more > 0 else []
        if not newest:
            return Group(head, Text(nothing(watch)))
        if width < _LEAST_TABLE:
            return Group(head, *(Text(f"- {sentence(one)}") for one in newest[:_MOST]), *rest)
        return Group(head, table, *rest)
