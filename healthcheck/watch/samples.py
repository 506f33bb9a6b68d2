"""Two samples of a node, some seconds apart: what both have of a fact, and how much a counter grew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from healthcheck.checks import catalogue  # noqa: F401  (registers all facts)
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.values import Fact, Partial, Unmeasured, reading
from healthcheck.model.recording import Host, Recording
from healthcheck.watch.nodeload import NodeLoad
from healthcheck.watch.signals import NodeSignal, SignalKind


@dataclass(frozen=True)
class WatchSample:
    """What a node said at one time: `time` (epoch seconds by its own clock) and `received` (by the head's),
    its load, and facts by name and identity."""

    node: str
    boot: str
    time: float
    received: float
    load: NodeLoad
    facts: Mapping[str, Mapping[tuple[Any, ...], Any]]


def sample_of(recording: Recording, host: Host, load: NodeLoad, captures: Captures,
              names: Iterable[str]) -> WatchSample:
    """The sample with these facts."""
    return WatchSample(recording.node, host.boot_id, host.time, recording.received, load,
                      {name: {_identity(one): one for one in _built(captures, name)} for name in names})


@dataclass(frozen=True)
class SamplePair:
    """Two samples of a node; `host` is what ranks call it."""

    before: WatchSample
    after: WatchSample
    host: str

    @property
    def seconds(self) -> float:
        """Between the two, by the node's clock."""
        return self.after.time - self.before.time

    def signal(self, kind: SignalKind, value: float, part: str = "",
               gpu: frozenset[str] = frozenset(), beside: str = "") -> NodeSignal:
        """A signal of this node over this time."""
        return NodeSignal(self.host, kind, value, self.before.received, self.after.received, part, gpu,
                          beside)

    def subjects(self, name: str) -> Iterator[tuple[Any, Any]]:
        """The members of a fact that both samples have, by identity."""
        earlier = self.before.facts[name]
        for identity, one in self.after.facts[name].items():
            if identity in earlier:
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
