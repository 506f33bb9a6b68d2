"""Decides what comes next for one machine from its newest observation and past operations: pure, and the
safety core of bring-up.

Only a look ends a step. An operation that must not be done twice is done again only where it is known that it
was not made, or where it is not known and the look would have shown it; for that it is given all the time
that it may take to show, since the last moment at which it may have been sent. A step that is not so within
its time is trouble.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.text import clean
from provisioning.bringup.engine.model import (
    BringupStep,
    Machine,
    Observation,
    Operation,
    OperationResult,
    PastOperation,
    StepState,
)

MOST = 400      # characters of a message about a machine


@dataclass(frozen=True)
class Through:
    """The step has passed."""


@dataclass(frozen=True)
class StartOperation:
    """Record this operation and run it."""

    operation: Operation


@dataclass(frozen=True)
class Until:
    """Check it again at that time (epoch seconds)."""

    time: float
    message: str


@dataclass(frozen=True)
class Stuck:
    """A person has to act."""

    troubles: tuple[Trouble, ...]


After: TypeAlias = Through | StartOperation | Until | Stuck


@dataclass(frozen=True)
class StepTimes:
    """Epoch seconds: when this run first checked the machine in this step, when it began, when the look came
    back; `grace_s` is for how long an operation of unknown end is left alone."""

    came: float
    woke: float
    learned: float
    grace_s: float


def after(step: BringupStep, machine: Machine, seen: Observation, times: StepTimes) -> After:
    """What comes next for a machine whose look, begun at `machine.now`, showed this; `machine.operations` are
    those that count. What it did not show is not there as of its beginning: it may have come true since."""
    if seen.stand is StepState.SO:
        return Through()
    if seen.stand is StepState.TROUBLE:
        return Stuck(
            seen.troubles or (Trouble(clean(seen.message, MOST), step.owner, retry_advice(machine.name)),))
    over = times.came + step.seconds
    if machine.now >= over:
        return Stuck(
            seen.troubles or (late(step, machine.name, seen.message, seen.stand is StepState.UNKNOWN),))
    if seen.stand is not StepState.NOT_SO:
        return Until(max(min(times.learned + seen.again_s, over), times.learned), seen.message)
    if seen.operation is None:
        return Stuck((Trouble(f"a defect of muster: {step.name} has not passed, and names no operation",
                              Owner.OPERATOR, report_advice()),))
    wanted = _once(machine, seen, seen.operation, times) if seen.operation.once else _again(
        machine, seen, seen.operation, times)
    return Until(
        max(min(wanted.time, over), times.learned), wanted.message) if isinstance(wanted, Until) else wanted


def _again(
    machine: Machine, seen: Observation, operation: Operation, times: StepTimes,
) -> StartOperation | Until:
    """An operation that may be done as often as it takes; each is given its time to show."""
    past = machine.did(operation.key)
    if past is None or past.ended is None:
        return StartOperation(operation)
    # One that is accepted again and again and never shows must not keep the machine busy.
    ready = (past.ended + (max(operation.settle_s, seen.again_s) if past.done else seen.again_s
                           if past.done is False else times.grace_s))
    return StartOperation(operation) if machine.now >= ready else _wait(times, seen, ready, seen.message)


def _once(machine: Machine, seen: Observation, operation: Operation, times: StepTimes) -> After:
    """An operation that must not be done twice."""
    made = [past for past in machine.operations if past.key == operation.key and past.done is not False]
    if not made:
        past = machine.did(operation.key)
        ready = machine.now if past is None or past.ended is None else past.ended + seen.again_s
        return StartOperation(operation) if machine.now >= ready else _wait(
            times, seen, ready, f"{operation.name} was not done: {past.message if past else ''}")
    ready = max(_shown_by(past, operation, times) for past in made)
    if machine.now < ready:
        return _wait(times, seen, ready, seen.message)
    if any(past.done for past in made):
        return Stuck((_trouble(machine,
                               f"{operation.name} was accepted, and after {operation.settle_s:g} s it does "
                               f"not show: {seen.message}"),))
    if not operation.shows:
        return Stuck(
            (_trouble(machine, f"whether this was done is not known, and cannot be seen: {operation.name}"),))
    return StartOperation(operation)


def _shown_by(past: PastOperation, operation: Operation, times: StepTimes) -> float:
    """Until when an operation may yet show; one without an end may have been sent until this run began."""
    if past.done:
        return (past.ended or past.began) + operation.settle_s
    return (times.woke if past.ended is None else past.ended) + max(times.grace_s, operation.settle_s)


def _wait(times: StepTimes, seen: Observation, ready: float, message: str) -> Until:
    return Until(min(ready, times.learned + seen.again_s), message)


def _trouble(machine: Machine, what: str) -> Trouble:
    return Trouble(clean(what, MOST), Owner.OPERATOR, retry_advice(machine.name))


def found(past: PastOperation, what: After) -> OperationResult | None:
    """What became of an operation of unknown end, as far as it follows from what comes next; else None."""
    if isinstance(what, Through):
        return OperationResult(True, "it shows; found so later")
    if isinstance(what, Stuck):
        return OperationResult(None, "it is not known")
    if isinstance(what, Until):
        return None
    if what.operation.key != past.key:
        return OperationResult(None, f"{what.operation.name} is next by now")
    return (OperationResult(False, "it does not show; found so later") if what.operation.once
            else OperationResult(None, "it is done again"))


def late(step: BringupStep, node: str, message: str, unknown: bool = False) -> Trouble:
    """What is wrong with a machine whose time in a step is over."""
    how = "could not be measured" if unknown else "is not so"
    return Trouble(clean(f"{step.title}: {how} after {span(step.seconds)}: {message}", MOST), step.owner,
                   retry_advice(node))


def retry_advice(node: str) -> str:
    """The default advice."""
    return f"check it, then: muster bringup retry {node}"


def report_advice() -> str:
    """The advice for a defect in muster."""
    return "report it, with the line that muster printed"


def span(seconds: float) -> str:
    """So many seconds in words, as in a policy."""
    return f"{seconds / 60:g} min" if seconds >= 60 and seconds % 60 == 0 else f"{seconds:g} s"
