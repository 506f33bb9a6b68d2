"""Two samples of a node, some seconds apart: what both have of a fact, and how much a counter grew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.values import Fact, Partial, Unmeasured, reading
from healthcheck.watch.signals import NodeSignal, SignalKind


@dataclass(frozen=True)
class SamplePair:
    """Two samples of a node and the seconds between them, by its own clock; `since` and `until` are by the
    head's. `host` is what ranks call the node."""

    before: Captures
    after: Captures
    host: str
    since: float
    until: float
    seconds: float

    def signal(self, kind: SignalKind, value: float, part: str = "",
               gpu: frozenset[str] = frozenset(), beside: str = "") -> NodeSignal:
        """A signal of this node over this time."""
        return NodeSignal(self.host, kind, value, self.since, self.until, part, gpu, beside)

    def subjects(self, name: str) -> Iterator[tuple[Any, Any]]:
        """The members of a fact that both samples have, by identity."""
        earlier = {_identity(one): one for one in _built(self.before, name)}
        for one in _built(self.after, name):
            if (identity := _identity(one)) in earlier:
                yield earlier[identity], one


def grown_by(before: Fact, after: Fact, name: str) -> float | None:
    """The growth of a counter; None where it is not known, or fell."""
    one, other = reading(before, name), reading(after, name)
    if type(one) is not int or type(other) is not int or other < one:
        return None
    return float(other - one)


def _built(captures: Captures, name: str) -> tuple[Any, ...]:
    value = build_fact(FACTS[name], captures)
    if isinstance(value, Partial):
        value = value.value
    return () if isinstance(value, Unmeasured) else tuple(value)


def _identity(one: Fact) -> tuple[Any, ...]:
    return tuple(str(reading(one, name)) for name in one.IDENTITY)
