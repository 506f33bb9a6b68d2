"""Finds at little cost that a fleet rule has nothing to say: facts that are alike are looked at once, whatever node they are of.

Thousands of GPUs differ in temperatures and serial numbers. A rule that compares what they have in common (model, VBIOS) is judged over
one node's GPUs in place of those of all nodes that bear the same mark (judge.alike), as long as it reads no more than marks stand
for. Only that all nodes pass is found out so; anything else is judged the long way, over what each node has itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from healthcheck.facts.values import Partial, Unmeasured
from healthcheck.judge.guard import Guards, Tracker
from healthcheck.judge.settled import Like
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.sku import SMALLEST_COHORT


class _Own(Exception):
    """What marks do not stand for was read."""


class _Reads(set[tuple[type, str]]):
    """What guards write down: raises _Own for a field that is not among those that may be read of its kind, and remembers the kind."""

    def __init__(self) -> None:
        super().__init__()
        self.may: dict[type, frozenset[str]] = {}
        self.own: type | None = None

    def add(self, field: tuple[type, str]) -> None:
        kind, name = field
        if field == Guards.WHOLLY or name not in self.may.get(kind, (name,)):
            self.own = kind
            raise _Own


def all_pass(rule: Rule, cohort: Mapping[str, Mapping[str, Any]], guards: Guards, like: Mapping[str, Mapping[str, Like]]) -> bool:
    """Whether every node of the cohort passes for certain, by what stands for its facts. `guards` are for facts that nothing stands for."""
    check = rule.checked
    # Of the first nodes of a sweep it was not known yet what others have in common with them.
    *_, last = cohort or [""]
    if len(cohort) < SMALLEST_COHORT or like.get(last, {}).keys().isdisjoint(check.facts):
        return False
    each: set[type] = set()     # facts of these kinds are taken as each node has them
    while True:
        reads, tracker = _Reads(), Tracker()
        standing, guards.tracker = Guards(tracker, read=reads), tracker
        arguments = []
        for name in check.facts:
            facts = _standing(name, cohort, guards, standing, reads, like, each)
            if facts is None:
                return False
            arguments.append(facts)
        if not reads.may:
            return False
        said = True
        with suppress(Exception):       # whatever it is, the long way tells it
            said = any(True for _ in check.function(*arguments, **rule.values(None)))
        if reads.own is None:
            return not said and tracker.clean
        if reads.own not in reads.may:
            return False
        each.add(reads.own)


def _standing(
    name: str, cohort: Mapping[str, Mapping[str, Any]], guards: Guards, standing: Guards, reads: _Reads,
    like: Mapping[str, Mapping[str, Like]], each: Collection[type],
) -> dict[str, Any] | None:
    """The facts of one name by node, each guarded, or what stands for it; None where one was not wholly measured."""
    facts: dict[str, Any] = {}
    made: dict[int, Any] = {}
    for node, held in cohort.items():
        fact = held.get(name)
        if fact is None or (type(fact) is tuple and not fact) or type(fact) is Partial or type(fact) is Unmeasured:
            return None
        stands = like.get(node, {}).get(name)
        if stands is None or stands.kind in each:
            facts[node] = guards.wrap(fact)
            continue
        if id(stands) not in made:
            made[id(stands)] = standing.wrap(stands.fact)
            reads.may[stands.kind] = reads.may.get(stands.kind, stands.fields) & stands.fields
        facts[node] = made[id(stands)]
    return facts
