"""Silences in words: what each holds back now, which end soon, and which have ended, one line each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from healthcheck.model.faultkind import Isolation
from healthcheck.model.problem import Problem
from healthcheck.store.silences import Silence, SilenceEnd, silenced
from healthcheck.triage.plan import TriagePlan
from inventory.nodeset import fold
from inventory.text import clean, many
from inventory.times import ago, minute

SOON_S = 86400.0            # an operator looks once a day
_SHOWN = 3


def held_back(plan: TriagePlan, silences: Collection[Silence]) -> Iterator[str]:
    """A line for each silence that holds something back: nodes, rules, for what these would isolate."""
    for one in silences:
        mine = {each.node: problems for each in plan.held_back if (problems := [
            problem for problem in each.problems if silenced(problem, silences, plan.now) == one])}
        if not mine:
            continue
        faults = {fault.kind.id: None for each in plan.held_back if each.verdict is not None
                  for fault in each.verdict.faults if fault.isolation is not Isolation.NONE
                  and any(problem in mine.get(each.node, ()) for problem in fault.problems)}
        would = f", would isolate for {_listed(faults)}" if faults else ""
        rules = _listed(dict.fromkeys(problem.rule or "not reached" for problems in mine.values()
                                      for problem in problems))
        number = many(sum(map(len, mine.values())), "problem")
        yield (f"silenced  {fold(mine)}: {number}, {rules}{would}; silence {one.id} of {clean(one.who, 60)} "
               f"{_until(one, plan.now)}: {clean(one.why, 150)}")


def document(plan: TriagePlan, silences: Collection[Silence]) -> list[dict[str, Any]]:
    """What is silenced, for muster.triage/1: an entry for each problem."""
    found = []
    for each in plan.held_back:
        for problem in each.problems:
            by = silenced(problem, silences, plan.now)
            fault = next((fault for fault in (each.verdict.faults if each.verdict is not None else ())
                          if fault.isolation is not Isolation.NONE and problem in fault.problems), None)
            found.append({
                "node": each.node, "rule": problem.rule, "subject": problem.subject,
                "silence": by.id if by is not None else None, "until": by.until if by is not None else None,
                "fault": fault.kind.id if fault is not None else "",
                "isolation": (fault.isolation if fault is not None else Isolation.NONE).value})
    return found


def of_node(problems: Iterable[Problem], silences: Collection[Silence], now: float) -> str:
    """What is silenced on one node, by which silence, in one phrase; empty where nothing is."""
    found: dict[Silence, dict[str, None]] = {}
    for problem in problems:
        if (by := silenced(problem, silences, now)) is not None:
            found.setdefault(by, {})[problem.rule or "not reached"] = None
    return "; ".join(f"silence {one.id} {_until(one, now)} hides {_listed(rules)}"
                     for one, rules in found.items())


def notes(silences: Iterable[Silence], problems: Collection[Problem], now: float) -> Iterator[str]:
    """A note for each silence that ends within a day, or expired within the last one, and covers a problem
    that is there now and that no other silence covers then."""
    every = list(silences)
    for one in every:
        if one.ended is not None or one.began > now or not now - SOON_S <= one.until < now + SOON_S:
            continue
        at = max(now, one.over)
        others = [each for each in every if each is not one]
        mine = [problem for problem in problems if one.covers(problem)
                and silenced(problem, others, at) is None]
        if not mine:
            continue
        nodes = fold({problem.node for problem in mine})
        what = f"note: silence {one.id} ({clean(one.rule)} on {nodes})"
        counts = f"{many(len(mine), 'problem')} count{'s' * (len(mine) == 1)} again"
        if one.until <= now:
            yield f"{what} expired {ago(now - one.until)} ago: {counts}"
        else:
            yield (f"{what} ends in {ago(one.until - now)}: then {counts}; or: muster silence {nodes} "
                   f"'{clean(one.rule)}' --for 5d --reason TEXT")


def line(
    one: Silence, now: float, problems: Collection[Problem] | None, held: Collection[str],
) -> str:
    """A silence that holds or will: what it holds back, of `problems` if they are given, and which of its
    nodes a cordon of ours holds all the same."""
    count = ""
    if problems is not None:
        mine = [problem for problem in problems if one.covers(problem)]
        count = f"  {many(len(mine), 'problem')} now" + (f"  {_where(mine)}" if mine else "")
    kept = sorted(one.nodes.intersection(held))
    hold = f"  {fold(kept)} stay{'s' * (len(kept) == 1)} held: muster uncordon {fold(kept)}" if kept else ""
    return (f"silence {one.id}: {clean(one.rule)} on {fold(one.nodes)}  {_until(one, now)}{count}{hold}  "
            f"{clean(one.who)}  {clean(one.why)}")


def ended_line(one: Silence, now: float, by: SilenceEnd | None) -> str:
    """A silence that is over, by time or by a person's word."""
    how = f"ended by {clean(by.who)} ({clean(by.why, 100)})" if by is not None else "expired"
    return (f"silence {one.id}: {clean(one.rule)} on {fold(one.nodes)}  {how} at {minute(one.over)}, "
            f"{ago(now - one.over)} ago  {clean(one.who)}  {clean(one.why)}")


def json_of(
    one: Silence, now: float, problems: Collection[Problem] | None, held: Collection[str],
    by: SilenceEnd | None = None,
) -> dict[str, Any]:
    """One silence, for muster.silences/1; `problems` is None where the store was not asked for them."""
    count = sum(map(one.covers, problems)) if problems is not None else None
    return {**vars(one), "nodes": sorted(one.nodes), "problems": count,
            "ends_soon": now < one.over < now + SOON_S, "held": sorted(one.nodes.intersection(held)),
            "ended_by": by.who if by is not None else None, "ended_why": by.why if by is not None else None}


def _until(one: Silence, now: float) -> str:
    if one.began > now:
        return f"from {minute(one.began)} until {minute(one.until)}"
    soon = ": soon" if one.until < now + SOON_S else ""
    return f"until {minute(one.until)} ({left(one.until - now)}{soon})"


def left(seconds: float) -> str:
    """A duration in its two largest units."""
    minutes = round(seconds / 60)
    days, hours = divmod(minutes // 60, 24)
    return f"{days}d {hours}h" if days else f"{hours}h {minutes % 60}m" if hours else f"{minutes}m"


def _where(problems: Collection[Problem]) -> str:
    """The first problems by name."""
    return _listed(f"{problem.rule or 'not reached'}"
                   f"{f' of {clean(problem.subject, 80)}' if problem.subject else ''} on {problem.node}"
                   for problem in problems)


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"{', '.join(found[:_SHOWN])}{more}"
