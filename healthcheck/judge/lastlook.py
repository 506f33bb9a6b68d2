"""Facts of a look that are those of the look before it, whosever that was: all that are made of captures that did not change.

Two nodes of a fleet, one after the other, say the same in most of what they are asked. So of each look the captures are compared with those
of the last one, and only facts of captures that differ are made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.marks import NOTHING, Builder, Mark


class LastLook:
    """The facts of these names in the last look that had none cut short."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._marks: Mapping[str, Mark | None] = {}
        self._facts: dict[str, Any] = dict.fromkeys(names)
        self._others = frozenset(names)         # which are made of more than captures that bear marks, and what builders make of them
        self._through: dict[str, frozenset[Builder]] = {}
        self._made: dict[Builder, Any] = {}
        self._of: dict[str, list[str]] = {}
        for name in names:
            for probe in FACTS[name].ids:
                self._of.setdefault(probe, []).append(name)

    def facts(self, captures: Captures) -> dict[str, Any]:
        """The facts of a look."""
        if captures.cut:
            return {name: build_fact(FACTS[name], captures) for name in self._names}
        before, marks = self._marks, captures.marks
        changed = [probe for probe, mark in marks.items() if mark is None or before.get(probe, NOTHING) != mark]
        changed += [probe for probe in before if probe not in marks]
        found = dict(self._facts)
        made = {*self._others, *chain.from_iterable([self._of.get(probe, ()) for probe in changed])}
        parts = {build: captures.asked(build) for build in frozenset().union(*self._through.values())}
        other = frozenset(build for build, value in parts.items() if value is NOTHING or value is not self._made.get(build, NOTHING))
        made.update(name for name, through in self._through.items() if through & other)
        for name in made:
            found[name] = build_fact(FACTS[name], captures)
        self._keep({name: captures.through(FACTS[name]) for name in made}, found)
        self._made = {build: captures.asked(build) for build in frozenset().union(*self._through.values())}
        self._marks = marks
        return found

    def _keep(self, made: Mapping[str, frozenset[Builder] | None], found: Mapping[str, Any]) -> None:
        """What is the node's own is not kept for the next."""
        self._others = frozenset(name for name, through in made.items() if through is None)
        for name, through in made.items():
            self._facts[name] = found[name] if through is not None else None
            if through:
                self._through[name] = through
            else:
                self._through.pop(name, None)
