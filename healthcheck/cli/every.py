"""`muster check --every`: repeated sweeps on kept connections; a page on each change, else a line."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from healthcheck.cli.check import LiveSweeps, ended, show
from healthcheck.model.outcome import NodeReport, NodeState
from healthcheck.report.document import summary
from inventory.errors import MusterError

if TYPE_CHECKING:
    from healthcheck.sweep.sweep import SweepPlan, SweepResult

_WORST_FIRST = {state.value: number for number, state in enumerate(NodeState)}
Shown = frozenset[tuple[object, ...]]


def rounds(
    planned: Callable[[], SweepPlan], sweep_once: LiveSweeps, fmt: str, every: float, count: int | None,
    full: bool = False, *, everything: bool = False, brief: bool = False,
) -> int:
    """Sweeps every so many seconds, `count` times or until interrupted;
    returns the exit code of the last sweep.

    Each sweep makes its plan again, so that an edited inventory counts; if that fails, it uses the previous
    plan and reports the reason. After a late sweep the next begins at the next multiple of the interval.
    """
    plan = planned()
    before: Shown | None = None
    done = 0
    begun = time.monotonic()
    try:
        while True:
            try:
                outcome = sweep_once(plan)
            except MusterError as error:
                if not done:
                    raise
                # Probably someone is editing a file of ssh.
                click.echo(f"muster: {error}; trying again in {every:g} s", err=True)
                time.sleep(every)
                continue
            done += 1
            now = _visible(outcome)
            try:
                if fmt != "table":
                    show(plan, outcome, fmt, full)
                elif now != before:
                    click.echo(f"{outcome.started}")
                    show(plan, outcome, fmt, every=everything, brief=brief)
                    click.echo()
                else:
                    click.echo(_unchanged(outcome))
            except (BrokenPipeError, SystemExit):
                # The output was closed (`| head`): rich raises SystemExit then,
                # with standard output on /dev/null.
                return ended(plan, outcome)
            before = now
            for line in (*outcome.remarks, *outcome.troubles):
                click.echo(f"muster: {line}", err=True)
            if outcome.partial:
                return 130
            if done == count:
                return ended(plan, outcome)
            del outcome
            gc.collect()    # free what the sweep left in cycles before the next one
            next_start = begun + every * (1 + (time.monotonic() - begun) // every)
            time.sleep(max(0.0, next_start - time.monotonic()))
            plan = _again(planned, plan)
    finally:
        sweep_once.close()


def _again(planned: Callable[[], SweepPlan], plan: SweepPlan) -> SweepPlan:
    try:
        return planned()
    except MusterError as error:
        click.echo(f"muster: {error}; using the previous plan", err=True)
        return plan


def _visible(outcome: SweepResult) -> Shown:
    """What makes two pages differ: states, stages, whether a node counts, each rule's status and findings;
    not measured figures that always differ."""
    reports = outcome.assessed.reports
    # Which healthy nodes are visited changes from sweep to sweep, by chance.
    brief = any(report.agent is not None for report in reports)
    return frozenset(_signature(report, brief=brief) for report in reports)


def _signature(report: NodeReport, *, brief: bool) -> tuple[object, ...]:
    if brief and report.state is NodeState.HEALTHY:
        return report.node, report.state
    results = frozenset((each.rule, each.status, frozenset(finding.subject for finding in each.findings))
                        for each in report.results)
    return report.node, report.state, report.stage, report.in_service, results


def _unchanged(outcome: SweepResult) -> str:
    found = summary(outcome.assessed.reports)
    order = sorted(found, key=lambda name: _WORST_FIRST.get(name, len(_WORST_FIRST)))
    counts = ", ".join(f"{found[name]} {name.replace('_', ' ')}" for name in order if found[name])
    return f"{outcome.started}  {outcome.seconds:.1f} s  {counts}  (unchanged)"
