"""`muster check --every`: one sweep after another on connections that live on; a page when something changed, else a line."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from healthcheck.cli.check import Live, show
from healthcheck.outcome import NodeReport, exit_code
from healthcheck.report.document import summary
from inventory.errors import MusterError

if TYPE_CHECKING:
    from healthcheck.sweep import Outcome, Plan

Shown = frozenset[tuple[str, str, str | None, frozenset[tuple[str, str]]]]


def rounds(planned: Callable[[], Plan], look: Live, form: str, every: float, count: int | None) -> int:
    """Sweeps every so many seconds, `count` times or until interrupted; returns the exit code of the last sweep.

    The plan is made anew for each, so that an edited inventory counts; where that fails, the plan before it is used and the reason
    told. A sweep that was late is not made up for: the next begins at the next multiple of the interval.
    """
    plan = planned()
    before: Shown | None = None
    done = 0
    begun = time.monotonic()
    try:
        while True:
            outcome = look(plan)
            done += 1
            now = _shown(outcome)
            if form != "table" or now != before:
                with contextlib.suppress(SystemExit):
                    if form == "table":
                        click.echo(f"{outcome.started}")
                    show(plan, outcome, form)
                    if form == "table":
                        click.echo()
            else:
                click.echo(_unchanged(outcome))
            before = now
            for trouble in outcome.troubles:
                click.echo(f"muster: {trouble}", err=True)
            if outcome.partial:
                return 130
            if done == count:
                return exit_code(outcome.assessed.reports)
            del outcome
            gc.collect()    # what a sweep leaves in cycles, before the next one comes on top of it
            due = begun + every * (1 + (time.monotonic() - begun) // every)
            time.sleep(max(0.0, due - time.monotonic()))
            plan = _again(planned, plan)
    finally:
        look.close()


def _again(planned: Callable[[], Plan], plan: Plan) -> Plan:
    try:
        return planned()
    except MusterError as error:
        click.echo(f"muster: {error}; going on with what was read before", err=True)
        return plan


def _shown(outcome: Outcome) -> Shown:
    """What makes two pages differ: states, stages, and the status of each rule; not figures that differ with every look."""
    return frozenset(_signature(report) for report in outcome.assessed.reports)


def _signature(report: NodeReport) -> tuple[str, str, str | None, frozenset[tuple[str, str]]]:
    return report.node, report.state.value, report.stage, frozenset((result.rule, result.status.value) for result in report.results)


def _unchanged(outcome: Outcome) -> str:
    counts = ", ".join(f"{number} {state}" for state, number in summary(outcome.assessed.reports).items() if number)
    return f"{outcome.started}  {outcome.seconds:.1f} s  {counts}  (as before)"
