"""One triage at a time for a fleet: a lock, and a row in the store for other machines. Whose process is gone
is closed as 'ended without a word', and the next run goes on. Of a run on another machine no one here can say
whether it lives: it is waited for, and after an hour a person may say that it is dead (--take-over HOST)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from healthcheck.store import runs
from healthcheck.store.file import Store
from healthcheck.store.runs import DONE, FAILED, INCOMPLETE, SILENT, TriageRun
from healthcheck.triage.plan import Act, TriagePlan
from inventory.errors import MusterError, UsageError
from provisioning.actions.cordon import CordonResult
from provisioning.lease.holder import HolderState, life, me
from provisioning.lease.runlock import LockHolder, age, alone, here

LOCK = "triage.lock"
# No run lasts so long: a bulk of thousands of nodes takes minutes.
DEAD_AFTER_S = 3600.0
# Clocks of one site are not further apart; what began later than that does not mention how old it is.
_AHEAD_S = 300.0


@dataclass
class RunResult:
    """What came of a run, as far as it came; who does the work sets it."""

    outcome: str = ""


@contextmanager
def one_run(
    store: Store, folder: Path, who: str, clock: Callable[[], float], take_over: str | None = None,
) -> Iterator[RunResult]:
    """No one else triages this fleet meanwhile, and the store says who did and what came of it. `take_over`
    is a machine where, a person says, no run lives. Raises UsageError where another may be at work."""
    with alone(folder, LOCK, "triage"):
        left = runs.unfinished(store)
        if take_over is not None and take_over not in {run.host for run in left}:
            raise UsageError(f"--take-over {take_over}: no run of that machine is unfinished")
        for run in left:
            why = _ended(run, take_over, clock())
            runs.finish(store, run.id, f"{SILENT}{f': {why}' if why else ''}", clock())
        number = runs.begin(store, who, here(), me(), clock())
        report = RunResult()
        try:
            yield report
        except BaseException as error:
            with suppress(MusterError):
                runs.finish(
                    store, number,
                    f"{FAILED}: {error if isinstance(error, MusterError) else type(error).__name__}", clock())
            raise
        runs.finish(store, number, report.outcome or DONE, clock())


def outcome(plan: TriagePlan, done: Sequence[CordonResult]) -> str:
    """What came of a plan, for the run's row."""
    acts = {step.node: step.act for step in plan.steps}
    well = [one.node for one in done if not one.failed]
    isolated = sum(acts.get(node) is Act.ISOLATE for node in well)
    failed = len(done) - len(well)
    return (f"{INCOMPLETE if failed else DONE}: isolated {isolated}, released {len(well) - isolated}, "
            f"withheld {len(plan.withheld)}, failed {failed}")


def _ended(run: TriageRun, take_over: str | None, now: float) -> str:
    """Why a run that did not say so has ended; raises UsageError where it may be at work."""
    known = life(run.holder)
    if known is HolderState.DEAD:
        return ""
    owner = LockHolder(run.who, run.host, run.holder, run.began).words(now)
    if known is HolderState.ALIVE:
        raise UsageError(f"another muster triage --apply is running: {owner}; wait until it has ended")
    if run.host == here():
        return "the machine has booted since"
    if -_AHEAD_S <= now - run.began < DEAD_AFTER_S:
        raise UsageError(
            f"a muster triage --apply is running on another machine: {owner}; whether it lives cannot be "
            f"seen from here, so it is waited for until it is {age(DEAD_AFTER_S)} old")
    if take_over != run.host:
        raise UsageError(
            f"a muster triage --apply on another machine never reported its end and counts as dead: {owner}; "
            f"when you have made sure of that: muster triage --apply --take-over {run.host}")
    return f"taken over from {here()}"
