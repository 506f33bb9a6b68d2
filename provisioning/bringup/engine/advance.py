"""What comes next for one machine, of what a look at its step showed and what was done to it: a pure function, and the safety of bring-up.

Only a look ends a step. A deed that must not be done twice is done again only where it is known that it was not made, or where nobody knows
and the look would have shown it; for that it is given all the time that it may take to show, since the last moment at which it may
have been sent. A step that is not so within its time is trouble.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from inventory.text import clean
from provisioning.bringup.engine.model import BringupStep, Machine, Made, Observation, Operation, PastOperation, StepState

MOST = 400      # characters of what is told of a machine


@dataclass(frozen=True)
class Through:
    """The step is so."""


@dataclass(frozen=True)
class StartOperation:
    """This deed is to be written down and done."""

    deed: Operation


@dataclass(frozen=True)
class Until:
    """It is to be looked at again then (epoch seconds)."""

    time: float
    said: str


@dataclass(frozen=True)
class Stuck:
    """Somebody has to lend a hand."""

    troubles: tuple[Trouble, ...]


After: TypeAlias = Through | StartOperation | Until | Stuck


@dataclass(frozen=True)
class StepTimes:
    """`came` is when this run first looked at the machine in this step, `woke` when this run began, `learned` when the look came back.
    `grace_s` is for how long a deed is left alone whose end is not known. Epoch seconds."""

    came: float
    woke: float
    learned: float
    grace_s: float


def after(step: BringupStep, machine: Machine, seen: Observation, times: StepTimes) -> After:
    """What comes next for a machine of which a look showed this that was begun at `machine.now`; `machine.deeds` are those that count.

    What a look did not show is not there as of its beginning: it may have come true while the look took its time.
    """
    if seen.stand is StepState.SO:
        return Through()
    if seen.stand is StepState.TROUBLE:
        return Stuck(seen.troubles or (Trouble(clean(seen.said, MOST), step.owner, retry_hand(machine.name)),))
    over = times.came + step.seconds
    if machine.now >= over:
        return Stuck(seen.troubles or (late(step, machine.name, seen.said, seen.stand is StepState.UNKNOWN),))
    if seen.stand is not StepState.NOT_SO:
        return Until(max(min(times.learned + seen.again_s, over), times.learned), seen.said)
    if seen.deed is None:
        return Stuck((Trouble(f"a defect of muster: {step.name} is not so, and names no deed", Owner.OPERATOR, report_hand()),))
    wanted = _once(machine, seen, seen.deed, times) if seen.deed.once else _again(machine, seen, seen.deed, times)
    return Until(max(min(wanted.time, over), times.learned), wanted.said) if isinstance(wanted, Until) else wanted


def _again(machine: Machine, seen: Observation, deed: Operation, times: StepTimes) -> StartOperation | Until:
    """A deed that may be done as often as it takes; each is given its time to show."""
    past = machine.did(deed.key)
    if past is None or past.ended is None:
        return StartOperation(deed)
    # One that is accepted again and again and never shows must not keep the machine busy.
    ready = past.ended + (max(deed.settle_s, seen.again_s) if past.done else seen.again_s if past.done is False else times.grace_s)
    return StartOperation(deed) if machine.now >= ready else _wait(times, seen, ready, seen.said)


def _once(machine: Machine, seen: Observation, deed: Operation, times: StepTimes) -> After:
    """A deed that must not be done twice."""
    made = [past for past in machine.deeds if past.key == deed.key and past.done is not False]
    if not made:
        past = machine.did(deed.key)
        ready = machine.now if past is None or past.ended is None else past.ended + seen.again_s
        return StartOperation(deed) if machine.now >= ready else _wait(times, seen, ready,
                                                                       f"{deed.name} was not done: {past.said if past else ''}")
    ready = max(_shown_by(past, deed, times) for past in made)
    if machine.now < ready:
        return _wait(times, seen, ready, seen.said)
    if any(past.done for past in made):
        return Stuck((_trouble(machine, f"{deed.name} was accepted, and after {deed.settle_s:g} s it does not show: {seen.said}"),))
    if not deed.shows:
        return Stuck((_trouble(machine, f"whether this was done is not known, and cannot be seen: {deed.name}"),))
    return StartOperation(deed)


def _shown_by(past: PastOperation, deed: Operation, times: StepTimes) -> float:
    """Until when a deed may yet show. One whose end nobody wrote down may have been sent until this run began."""
    if past.done:
        return (past.ended or past.began) + deed.settle_s
    return (times.woke if past.ended is None else past.ended) + max(times.grace_s, deed.settle_s)


def _wait(times: StepTimes, seen: Observation, ready: float, said: str) -> Until:
    return Until(min(ready, times.learned + seen.again_s), said)


def _trouble(machine: Machine, what: str) -> Trouble:
    return Trouble(clean(what, MOST), Owner.OPERATOR, retry_hand(machine.name))


def found(past: PastOperation, what: After) -> Made | None:
    """What became of a deed of which nobody knew, as far as it follows from what comes next; None where one has to look on."""
    if isinstance(what, Through):
        return Made(True, "it shows; found so later")
    if isinstance(what, Stuck):
        return Made(None, "nobody knows")
    if isinstance(what, Until):
        return None
    if what.deed.key != past.key:
        return Made(None, f"{what.deed.name} is next by now")
    return Made(False, "it does not show; found so later") if what.deed.once else Made(None, "it is done again")


def late(step: BringupStep, node: str, said: str, unknown: bool = False) -> Trouble:
    """What is wrong with a machine whose time in a step is over."""
    how = "could not be measured" if unknown else "is not so"
    return Trouble(clean(f"{step.title}: {how} after {span(step.seconds)}: {said}", MOST), step.owner, retry_hand(node))


def retry_hand(node: str) -> str:
    """What to do where nothing better is known."""
    return f"look, then: muster bringup retry {node}"


def report_hand() -> str:
    """What to do about a defect of ours."""
    return "report it, with the line that muster printed"


def span(seconds: float) -> str:
    """So many seconds in words, as in a policy."""
    return f"{seconds / 60:g} min" if seconds >= 60 and seconds % 60 == 0 else f"{seconds:g} s"
