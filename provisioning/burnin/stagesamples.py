"""Samples the counters of nodes between the stages of a burn-in, so that growth is known stage by stage; and
those of a fabric's ports before the first round of a link burn, and after the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from healthcheck.burnin.fabricresult import FabricCounters
from healthcheck.burnin.model import BurnInStage
from healthcheck.burnin.stagecounters import StageCounters, between
from healthcheck.burnin.stages import StageStep
from healthcheck.subnet.model import PortCounters
from inventory.errors import UsageError
from inventory.text import clean
from provisioning.burnin.counters import Values

ReadCounters = Callable[[], Mapping[str, PortCounters | None]]


@dataclass(frozen=True)
class StageReading:
    """The counters of one node as one look saw them, and why it saw none; "" where it did."""

    values: Values
    why: str = ""


class StageSamples:
    """Called for each step before it begins, it looks once where a stage is over, at the nodes that took part
    and have counters. `read` looks at nodes by name; `first` is what was read before the first stage."""

    def __init__(
        self, read: Callable[[Sequence[str]], Mapping[str, StageReading]], first: Mapping[str, StageReading],
    ) -> None:
        self.found: list[StageCounters] = []
        self._read = read
        self._before = {node: reading for node, reading in first.items() if reading.values or reading.why}
        self._stage: BurnInStage | None = None
        self._nodes: dict[str, None] = {}

    def begins(self, step: StageStep) -> None:
        """A step is about to begin."""
        if step.stage is not self._stage:
            there = [node for node in self._nodes if node in self._before]
            if there:
                self._over(self._read(there))
            self._stage, self._nodes = step.stage, {}
        self._nodes.update(dict.fromkeys(step.nodes))

    def ends(self, last: Mapping[str, StageReading]) -> None:
        """The last stage is over, and all nodes were checked."""
        self._over(last)
        self._nodes = {}

    def _over(self, after: Mapping[str, StageReading]) -> None:
        for node in self._nodes:
            before = self._before.get(node)
            if before is None or self._stage is None:
                continue
            now = after.get(node, StageReading({}, "they were not read after it"))
            why = now.why or (f"before it, {before.why}" if before.why else "")
            self.found.append(between(self._stage, node, before.values, now.values, why))
            self._before[node] = now


class FabricSamples:
    """Called with each step before it begins, and None at the end; `read` looks at the fabric, if any can."""

    def __init__(self, read: ReadCounters | None) -> None:
        self.found = FabricCounters()
        self._read = read
        self._under_way = False

    def begins(self, step: StageStep | None) -> None:
        """Looks where the link burn begins, and where it is over."""
        burns = step is not None and step.stage.at_once
        if self._read is not None and burns != self._under_way:
            self._look(self._read, burns)
        self._under_way = burns

    def _look(self, read: ReadCounters, first: bool) -> None:
        when = "before" if first else "after"
        try:
            seen = read()
        except UsageError as error:
            self.found = replace(self.found, why=f"they were not read {when} it: {clean(error, 200)}")
            return
        if first:
            self.found = FabricCounters(before=seen, why="they were not read after it")
        elif self.found.before:
            self.found = replace(self.found, after=seen, why="")
