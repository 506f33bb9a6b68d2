"""The progress of a bring-up on standard error: a table on a terminal, a line for each change in a log."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from healthcheck.store.bringupnotes import DONE, LEFT, SKIPPED, TROUBLE, WAITING
from inventory.errors import MusterError
from inventory.text import clean
from inventory.times import ago
from provisioning.bringup.engine.site import BY_POLICY
from provisioning.bringup.pages import status
from provisioning.bringup.pages.progress import BringupStatus

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from healthcheck.report.findings import Fold

EVERY_S = 2.0           # between two looks: of a thousand machines one takes a tenth of that
SUMMARY_S = 60.0        # between two lines in a log that sum all up
_LEAST_ROWS = 5
_WIDEST = 24            # column of the second table, but for the last
_STUCK = ("NODES", "STEP", "FOR", "OWNER", "WHAT, AND THE NEXT HAND")
_COLOURS = {TROUBLE: "red", WAITING: "yellow"}

Observe = Callable[[], BringupStatus]       # how it stands now; may raise MusterError


class RunReporter:
    """Used as a context manager around the work, and called for each change. This one says nothing."""

    def on_event(self, node: str, step: str, stand: str, message: str) -> None:
        """The stand of a machine in a step from now on; without a machine of the step, or the run."""

    def __enter__(self) -> RunReporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        pass


def live(observe: Observe, fold: Fold, *, quiet: bool = False) -> RunReporter:
    """A table where standard error is a terminal that can be drawn on, lines elsewhere."""
    if quiet:
        return RunReporter()
    return Screen(
        observe, fold) if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else LineReporter(observe)


class LineReporter(RunReporter):
    """A line for each change, and all summed up once a minute while anything changes."""

    def __init__(self, observe: Observe, clock: Callable[[], float] = time.monotonic) -> None:
        self._observe, self._clock = observe, clock
        self._stands: dict[str, tuple[str, str, str]] = {}
        self._next = clock() + SUMMARY_S

    def on_event(self, node: str, step: str, stand: str, message: str) -> None:
        """See `RunReporter.on_event`; waiting on, and what the policy leaves out, is not said."""
        if (stand, message) == (SKIPPED, BY_POLICY):
            return      # of every machine, and the plan has said it
        mark = (step, stand, "" if stand == WAITING else message)
        if self._stands.get(node) != mark:
            self._stands[node] = mark
            _print(
                f"{' '.join(filter(None, (node, step, stand)))}"
                f"{f': {clean(message, 200)}' if message else ''}"
            )
        if self._clock() >= self._next:
            self._next = self._clock() + SUMMARY_S
            try:
                _print(status.summary(self._observe()))
            except MusterError as error:
                _print(f"the state could not be read: {error}")


class Screen(RunReporter):
    """The table of `muster bringup status`, drawn every other second, gone when the work is over."""

    def __init__(self, observe: Observe, fold: Fold) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._observe, self._fold = observe, fold
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._drawn: RenderableType = ""
        self._live: Any = RichLive(
            get_renderable=self._draw, console=self._console, refresh_per_second=1 / EVERY_S, transient=True)

    def _draw(self) -> RenderableType:
        # In a thread of rich's, which would end with an error: what was drawn before stays.
        try:
            self._drawn = table(self._observe(), self._fold, self._console)
        except MusterError as error:
            self._drawn = f"muster: {clean(error)}"
        return self._drawn

    def __enter__(self) -> Screen:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)


def watch(observe: Observe, fold: Fold, sleep: Callable[[float], None] = time.sleep) -> None:
    """Shows how it stands until no one is on the way any more, or someone interrupts it."""
    with live(observe, fold) as shown:
        while True:
            progress = observe()
            for spot in progress.spots:
                shown.on_event(spot.node, spot.step, spot.stand, spot.what)
            if all(spot.stand in (DONE, LEFT) for spot in progress.spots):
                return
            sleep(EVERY_S)


def table(progress: BringupStatus, fold: Fold, console: Console) -> RenderableType:
    """How many are in each step, and as many that wait or are in trouble as fit, the worst first."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    steps = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for at, name in enumerate(status.COUNTED):
        steps.add_column(name, justify="right" if 1 <= at <= 5 else "left", no_wrap=True)
    for count in progress.counts:
        row = status.counted(count, progress.now)
        steps.add_row(*row, style=_COLOURS[TROUBLE] if count.here.get(TROUBLE) else "")
    groups = status.groups(progress.stuck, fold)
    room = max(_LEAST_ROWS, console.height - len(progress.counts) - 6)
    cells = [(fold(one.nodes), one.step, ago(progress.now - one.since), one.owner or "-",
              clean(f"{one.what}; next: {one.hand}" if one.hand else one.what, 300)) for one in groups[:room]]
    stuck = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", show_header=bool(groups))
    widths = [min(_WIDEST, max([len(name), *(len(row[at]) for row in cells)]))
              for at, name in enumerate(_STUCK[:-1])]
    for name, width in zip(
        _STUCK, (*widths, max(len(_STUCK[-1]), console.width - sum(widths) - 2 * len(_STUCK))), strict=True):
        stuck.add_column(name, no_wrap=True, width=width, overflow="ellipsis")
    for one, row in zip(groups, cells, strict=False):
        stuck.add_row(*map(Text, row), style=_COLOURS.get(one.stand, ""))
    more = Text(f"and {len(groups) - room} more: muster bringup status" if len(groups) > room else "")
    return Group(Text(status.summary(progress)), steps, stuck, more)


def _print(text: str) -> None:
    print(f"bringup: {text}", file=sys.stderr, flush=True)  # noqa: T201
