"""What rules say of facts that are alike is found out once, and looked up for all the other nodes of a sweep.

A rule that reads only what nodes have in common (facts that are equal, or bear the same mark: judge.alike) says the same of them.
A rule that reads what is each node's own (a temperature, a counter) is judged for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from healthcheck.checks.base import PREVIOUS
from healthcheck.judge.alike import Core
from healthcheck.judge.guard import Guards
from healthcheck.judge.judge import Facts, Ready, judge, ready
from healthcheck.model.outcome import Result, Status
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.sku import Sku

# So many times a rule was found to read what marks do not stand for, and it is judged for each node.
_TRIES = 4
_MOST_RESULTS, _MOST_PLANS, _MOST_FIRST = 8192, 64, 256
_NOTHING = object()


@dataclass(frozen=True)
class Look:
    """What is judged of one node."""

    facts: Facts
    previous: Facts | None
    sku: Sku | None


@dataclass(frozen=True)
class _Plan:
    """What is known of all nodes with the same marks: results by rule id, the rules that are to be judged for each of them, and those of
    which that is not known yet. Of a rule that is judged for each the result is what most nodes have: it passed."""

    settled: Mapping[str, Result]
    each: tuple[tuple[Rule, Ready | None], ...]
    open: tuple[Rule, ...]


_NO_PLAN: tuple[int, int, _Plan | None] = (0, 0, None)


class Like(NamedTuple):
    """A fact of an earlier node that bears the same mark: `fields` of it, of facts of this `kind`, are equal to those of this node's."""

    fact: Any
    kind: type
    fields: frozenset[str]


class _Marks:
    """By name what stands for each fact of a node: the identity of one that nodes have in common, a mark, or 0.

    Most facts are the very ones of the node before: those are known at sight.
    """

    def __init__(self) -> None:
        self.cores: dict[str, Core] = {}
        self.names: tuple[str, ...] = ()
        self.of: list[int] = []
        self._named: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self._facts: list[Any] = []         # of the node before those that nodes have in common
        self._first: dict[int, Like] = {}

    def forget(self) -> None:
        """Lets go of the node before."""
        self._facts = [_NOTHING] * len(self._facts)

    def take(self, look: Look, common: Mapping[int, Any]) -> bool:
        """Marks the facts of a node. `common` holds facts by identity; whether all is as it was for the node before."""
        previous = look.previous or {}
        named = (tuple(look.facts), tuple(previous))
        same = named == self._named
        if not same:
            self._named, self.names = named, (*look.facts, *(PREVIOUS + name for name in previous))
            self.of, self._facts = [0] * len(self.names), [_NOTHING] * len(self.names)
        facts = self._facts
        for place, fact in enumerate((*look.facts.values(), *previous.values())):
            if fact is facts[place]:
                continue
            facts[place] = _NOTHING
            mark, known = self._mark(self.names[place], fact, common)
            if mark != self.of[place]:
                self.of[place], same = mark, False
            facts[place] = known
        return same

    def _mark(self, name: str, fact: Any, common: Mapping[int, Any]) -> tuple[int, Any]:
        """The mark of a fact, and the fact itself where that is the mark of this one wherever it is met."""
        number, core = id(fact), self.cores.get(name)
        # Even what differs from node to node is the same on some (hours): the mark is what all of them have.
        if (core is None or core.whole) and number in common:
            return number, fact
        if core is None:
            core = self.cores[name] = Core()
        return core.mark(fact) or (number if number in common else 0), _NOTHING

    def like(self, look: Look, names: Iterable[str]) -> dict[str, Like]:
        """Of the node that was taken last, by name a fact that stands for it and for all with the same mark; none for what bears none."""
        found = {}
        marks = self.by_name()
        for name in names:
            if (mark := marks.get(name, 0)) < 0 and (kind := self.cores[name].kind) is not None:
                known = self._first.get(mark)
                if known is None:
                    if len(self._first) >= _MOST_FIRST:
                        self._first.clear()
                    earlier = look.previous if name.startswith(PREVIOUS) else look.facts
                    fact = (earlier or {})[name.removeprefix(PREVIOUS)]
                    known = self._first[mark] = Like(fact, kind, self.cores[name].common)
                found[name] = known
        return found

    def by_name(self) -> dict[str, int]:
        """The marks of the node that was taken last."""
        return dict(zip(self.names, self.of, strict=True))


def _judged_each(plan: _Plan, look: Look, guards: Guards) -> dict[str, Result]:
    """What rules that are judged for each node say of this one, where they do not just pass."""
    own = {}
    for rule, prepared in plan.each:
        if prepared is not None:
            found = prepared.judge(look.facts, look.previous, guards)
        else:
            found = judge(rule, look.facts, look.previous, look.sku, guards)
        if found is not rule.passed:
            own[rule.id] = found
    return own


class Settled:
    """Results by the facts they are of; for one sweep. Rules and SKUs are told apart by identity, and must live as long."""

    def __init__(self) -> None:
        self._marks = _Marks()
        self._results: dict[tuple[int, ...], Result] = {}
        self._plans: dict[tuple[Any, ...], _Plan] = {}
        self._last = _NO_PLAN               # of the node before, by the identities of rules and SKU
        self._vain: dict[int, int] = {}

    def forget(self) -> None:
        """Forgets all results: what stands for a fact may stand for another from now on."""
        self._results.clear()
        self._plans.clear()
        self._last = _NO_PLAN
        self._marks.forget()

    def results(
        self, rules: Sequence[Rule], look: Look, common: Mapping[int, Any], guards: Guards,
    ) -> tuple[Mapping[str, Result], dict[str, Result]]:
        """What each of the rules says of a node, by its id: what most nodes like it have, and what this one has in its place or beside.

        `common` holds facts by identity that several nodes have.
        """
        # Whatever ends this early, it leaves no plan behind that might be taken for the next node's.
        (of_rules, of_sku, plan), self._last = self._last, _NO_PLAN
        same = self._marks.take(look, common)
        if not same or plan is None or of_rules != id(rules) or of_sku != id(look.sku):
            plan = self._plans.get(self._like(rules, look))
        if plan is None:
            plan, own = self._planned(rules, look, guards)
        else:
            guards.few = True
            own = _judged_each(plan, look, guards)
            if plan.open:
                marks = self._marks.by_name()
                own.update({rule.id: self._judged(rule, look, marks, guards) for rule in plan.open})
                if not all(self._undecided(rule, look, marks) for rule in plan.open):
                    plan, own = self._planned(rules, look, guards, {**plan.settled, **own})
        self._last = id(rules), id(look.sku), plan
        return plan.settled, own

    def _like(self, rules: Sequence[Rule], look: Look) -> tuple[Any, ...]:
        """What is equal for nodes that have the same marks."""
        return id(rules), id(look.sku), self._marks.names, tuple(self._marks.of)

    def _planned(
        self, rules: Sequence[Rule], look: Look, guards: Guards, known: Mapping[str, Result] = MappingProxyType({}),
    ) -> tuple[_Plan, dict[str, Result]]:
        """Judges a node, as far as that was not done, and makes the plan for all like it. Beside it what holds of this node alone."""
        marks = self._marks.by_name()
        found = {rule.id: known.get(rule.id) or self._judged(rule, look, marks, guards) for rule in rules}
        others = [rule for rule in rules if self._key(rule, look.sku, marks) not in self._results]
        undecided = {rule.id for rule in others if self._undecided(rule, look, marks)}
        each = [rule for rule in others if rule.id not in undecided]
        own = {rule.id: found.pop(rule.id) for rule in others}
        found.update({rule.id: rule.passed for rule in each})
        plan = _Plan(found, tuple((rule, ready(rule, look.sku)) for rule in each), tuple(rule for rule in others if rule.id in undecided))
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        self._plans[self._like(rules, look)] = plan
        return plan, own

    def like(self, look: Look, names: Iterable[str]) -> dict[str, Like]:
        """What stands for facts of the node that was judged last, and for those of all nodes that are alike in as much."""
        return self._marks.like(look, names)

    def judging(self, look: Look, common: Mapping[int, Any], guards: Guards) -> Callable[[Rule], Result]:
        """What tells of each rule what it says of a node."""
        self._last = _NO_PLAN
        self._marks.take(look, common)
        marks = self._marks.by_name()
        return lambda rule: self._judged(rule, look, marks, guards)

    def _key(self, rule: Rule, sku: Sku | None, marks: Mapping[str, int]) -> tuple[int, ...]:
        """What stands for all that a rule may read. What there is none of, nodes have in common."""
        return (id(rule), id(sku), *[marks.get(name, 1) for name in rule.checked.facts])

    def _undecided(self, rule: Rule, look: Look, marks: Mapping[str, int]) -> bool:
        """Whether what a rule says may yet be found to hold of all nodes with these marks."""
        key = self._key(rule, look.sku, marks)
        return key not in self._results and 0 not in key and self._vain.get(id(rule), 0) < _TRIES

    def _judged(self, rule: Rule, look: Look, marks: Mapping[str, int], guards: Guards) -> Result:
        if self._vain.get(id(rule), 0) >= _TRIES:
            return judge(rule, look.facts, look.previous, look.sku, guards)
        key = self._key(rule, look.sku, marks)
        known = self._results.get(key)
        if known is not None:
            return known
        result = judge(rule, look.facts, look.previous, look.sku, guards)
        if 0 not in key and (min(key) > 0 or self._reads_what_is_marked(rule, look, marks, result)):
            if len(self._results) >= _MOST_RESULTS:
                self.forget()
            self._results[key] = result
        return result

    def _reads_what_is_marked(self, rule: Rule, look: Look, marks: Mapping[str, int], result: Result) -> bool:
        """Whether the marks stand for all that the rule reads: it is judged once more, over guards that write that down."""
        # Of a finding the numbers are shown, and equal ones may look different (1, 1.0).
        if result.status is Status.FAIL:
            return False
        guards = Guards(read=set())
        again = judge(rule, look.facts, look.previous, look.sku, guards)
        read = guards.read or set()
        cores = [self._marks.cores[name] for name in rule.checked.facts if marks.get(name, 1) < 0]
        if again == result and Guards.WHOLLY not in read and all(
                field in core.common for core in cores for kind, field in read if kind is core.kind):
            for core in cores:
                core.uses += 1
            self._vain.pop(id(rule), None)
            return True
        self._vain[id(rule)] = self._vain.get(id(rule), 0) + 1
        return False
