"""Samples the counters of a fabric's ports before the first round of a link burn, and after the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from healthcheck.burnin.fabricresult import FabricCounters
from healthcheck.burnin.stages import StageStep
from healthcheck.subnet.model import PortCounters
from inventory.errors import UsageError
from inventory.text import clean

ReadCounters = Callable[[], Mapping[str, PortCounters | None]]


class FabricSamples:
    """Called with each step before it begins, and None at the end. `read` looks at the fabric; None: no one
    can."""

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
