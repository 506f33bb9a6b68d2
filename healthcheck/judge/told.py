"""Puts together what was said of nodes, in the order of the rules, when most of it is the same of most of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from healthcheck.model.outcome import OUTCOME, NodeState, Result, Severity, Status, state_by
from healthcheck.ruleset.rule import Rule

_Seen = frozenset[tuple[Status, Severity]]


class Told:
    """Makes the results of nodes, each in the order of these rules. What is shared by several nodes must live as long."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._place = {rule.id: place for place, rule in enumerate(rules)}
        self._shared: dict[int, tuple[list[Result | None], _Seen]] = {}

    def of(self, shared: Mapping[str, Result], own: Mapping[str, Result]) -> tuple[tuple[Result, ...], NodeState]:
        """All results of a node, and its state; what is its `own` goes before what is `shared`, one object for all nodes like it.

        Raises KeyError for a rule of which nothing was said.
        """
        known = self._shared.get(id(shared))
        if known is None:
            known = self._shared[id(shared)] = [shared.get(rule) for rule in self._place], frozenset(map(OUTCOME, shared.values()))
        listed, seen = known[0].copy(), known[1]
        for rule, result in own.items():
            listed[self._place[rule]] = result
        added = sum(rule not in shared for rule in own)
        if added + len(shared) < len(self._place):
            raise KeyError(*(rule for rule in self._place if rule not in shared and rule not in own))
        told: tuple[Result, ...] = tuple(listed)  # type: ignore[arg-type]
        return told, state_by(seen.union(map(OUTCOME, own.values())) if added == len(own) else set(map(OUTCOME, told)))
