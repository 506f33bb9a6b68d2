"""`muster check --every`: one sweep after another on connections that live on; a page when something changed, else a line."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from healthcheck.cli.check import LiveSweeps, ended, show
from healthcheck.model.outcome import NodeReport
from healthcheck.report.document import summary
from inventory.errors import MusterError

if TYPE_CHECKING:
    from healthcheck.sweep.sweep import SweepPlan, SweepResult

Shown = frozenset[tuple[object, ...]]


def rounds(planned: Callable[[], SweepPlan], look: LiveSweeps, form: str, every: float, count: int | None) -> int:
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
            try:
                outcome = look(plan)
            except MusterError as error:
                if not done:
                    raise
                # A file of ssh's, most likely, that somebody is editing.
                click.echo(f"muster: {error}; trying again in {every:g} s", err=True)
                time.sleep(every)
                continue
            done += 1
            now = _shown(outcome)
            try:
                if form != "table":
                    show(plan, outcome, form)
                elif now != before:
                    click.echo(f"{outcome.started}")
                    show(plan, outcome, form)
                    click.echo()
                else:
                    click.echo(_unchanged(outcome))
            except (BrokenPipeError, SystemExit):
                # Nobody reads any more (`| head`): rich leaves by SystemExit then, with standard output on /dev/null.
                return ended(plan, outcome)
            before = now
            for trouble in outcome.troubles:
                click.echo(f"muster: {trouble}", err=True)
            if outcome.partial:
                return 130
            if done == count:
                return ended(plan, outcome)
            del outcome
            gc.collect()    # what a sweep leaves in cycles, before the next one comes on top of it
            due = begun + every * (1 + (time.monotonic() - begun) // every)
            time.sleep(max(0.0, due - time.monotonic()))
            plan = _again(planned, plan)
    finally:
        look.close()


def _again(planned: Callable[[], SweepPlan], plan: SweepPlan) -> SweepPlan:
    try:
        return planned()
    except MusterError as error:
        click.echo(f"muster: {error}; going on with what was read before", err=True)
        return plan


def _shown(outcome: SweepResult) -> Shown:
    """What makes two pages differ: states, stages, whether a node counts, the status of each rule and what it found wrong; not figures
    that differ with every look."""
    return frozenset(_signature(report) for report in outcome.assessed.reports)


def _signature(report: NodeReport) -> tuple[object, ...]:
    results = frozenset((each.rule, each.status, frozenset(finding.subject for finding in each.findings)) for each in report.results)
    return report.node, report.state, report.stage, report.in_service, results


def _unchanged(outcome: SweepResult) -> str:
    counts = ", ".join(f"{number} {state}" for state, number in summary(outcome.assessed.reports).items() if number)
    return f"{outcome.started}  {outcome.seconds:.1f} s  {counts}  (as before)"
