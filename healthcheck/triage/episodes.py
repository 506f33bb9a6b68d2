"""A fault's history: which of its problems are one failure and which are several,
what came back after a reboot, and who repeats."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from healthcheck.model.problem import Problem
from healthcheck.triage.policy import Climb, Flap, RepeatPolicy
from inventory.times import minute

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


def flapping(problems: Iterable[Problem], flap: Flap, now: float) -> str:
    """Why a fault that comes and goes isolates, however short it is each time, and holds on while it is
    away; empty where it does not. `problems` are all that there were at one place, those of now included.

    It begins with so many occurrences within the policy's hours, and is over once it was away for its calm
    hours, whatever has left the hours that count meanwhile.
    """
    begun: deque[float] = deque()
    held, last = 0, float("-inf")
    occurrences = _occurrences(problems)
    for began, over in occurrences:
        begun.append(began)
        while began - begun[0] > flap.hours * 3600:
            begun.popleft()
        if began - last >= flap.calm_hours * 3600:
            held = 0
        if len(begun) >= flap.times:
            held = len(begun)
        last = now if over is None else over
    if not held or now - last >= flap.calm_hours * 3600:
        return ""
    away = ", this one included" if occurrences[-1][1] is None else f", and is away since {minute(last)}"
    return (f"it came {held} times in {flap.hours:g} h{away}; it holds until it was away for "
            f"{flap.calm_hours:g} h")


def _occurrences(problems: Iterable[Problem]) -> list[tuple[float, float | None]]:
    """When the place was not well, oldest first: what several rules find there at one time is one occurrence,
    and so is what began while another was there. The end is None where it is there now."""
    found: list[tuple[float, float | None]] = []
    for problem in sorted(problems, key=lambda problem: problem.began):
        if found and (found[-1][1] is None or problem.began <= found[-1][1]):
            ends = (found[-1][1], problem.ended)
            found[-1] = (found[-1][0], None if ends[0] is None or ends[1] is None else max(ends[0], ends[1]))
        else:
            found.append((problem.began, problem.ended))
    return found


def score(problems: Iterable[Problem], repeat: RepeatPolicy, now: float) -> tuple[float, int]:
    """The repeat-offender score of these failures, and how many they are."""
    since = now - repeat.days * _DAY
    begun = [began for began, seen in episodes(problems, repeat.apart_hours * 3600) if seen >= since]
    return sum(0.5 ** (max(0.0, now - began) / (repeat.half_life_days * _DAY)) for began in begun), len(begun)
