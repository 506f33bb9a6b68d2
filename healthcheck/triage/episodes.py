"""A fault's history: which of its problems are one failure and which are several,
what came back after a reboot, and who repeats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from healthcheck.model.problem import Problem
from healthcheck.triage.policy import Climb, Flap, RepeatPolicy

_DAY = 86400.0


def place(problem: Problem) -> str:
    """Where a problem is: a component wherever it sits, else the part of the node, else the node (empty)."""
    if problem.serial is not None:
        return f"{problem.kind} {problem.serial}"
    return problem.subject.partition(",")[0]


def episodes(problems: Iterable[Problem], apart: float) -> list[tuple[float, float]]:
    """When each failure began and was last seen, oldest first;
    what begins within `apart` seconds of the one before is the same."""
    found: list[tuple[float, float]] = []
    for began, seen in sorted((problem.began, problem.seen) for problem in problems):
        if found and began - found[-1][1] <= apart:
            found[-1] = (found[-1][0], max(found[-1][1], seen))
        else:
            found.append((began, seen))
    return found


def returns(problems: Sequence[Problem], events: Sequence[float], climb: Climb, now: float) -> int:
    """How many of these events (reboots, repairs) the fault has outlived: it was there before,
    and was seen again after.

    `events` are the times from which on the node was looked at after them.
    """
    since = now - climb.days * _DAY
    held = [(problem.began, problem.seen) for problem in problems if problem.seen >= since]
    if not held:
        return 0
    first, last = min(began for began, _ in held), max(seen for _, seen in held)
    return sum(1 for event in events if event >= since and first < event <= last)


def flapping(problems: Sequence[Problem], flap: Flap, now: float) -> str:
    """Why a fault that came and went holds on though it is away; empty where it does not.
    `problems` are all over."""
    if not problems:
        return ""
    recent = [problem for problem in problems if now - problem.began <= flap.hours * 3600]
    last = max(problem.ended if problem.ended is not None else problem.seen for problem in problems)
    if len(recent) < flap.times or now - last >= flap.calm_hours * 3600:
        return ""
    return (f"it came {len(recent)} times in {flap.hours:g} h; it holds until it was away for "
            f"{flap.calm_hours:g} h")


def score(problems: Iterable[Problem], repeat: RepeatPolicy, now: float) -> tuple[float, int]:
    """The repeat-offender score of these failures, and how many they are."""
    since = now - repeat.days * _DAY
    begun = [began for began, seen in episodes(problems, repeat.apart_hours * 3600) if seen >= since]
    return sum(0.5 ** (max(0.0, now - began) / (repeat.half_life_days * _DAY)) for began in begun), len(begun)
