"""Deeds that are done to many machines at once: who needs one waits until nobody of a look at many is looked at or asked about any more.

Only then it is done, to all of them; until it is over nobody else is looked at in that step.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from provisioning.bringup.model import Deed, Machine
from provisioning.bringup.ways import Way


@dataclass(frozen=True)
class Joined:
    """One machine that a deed is to be done to together with others."""

    way: Way
    machine: Machine
    deed: Deed


@dataclass
class Joint:
    """All steps, by name. `open` counts the machines that are asked about or changed; those that joined are among them."""

    looking: set[str] = field(default_factory=set)
    open: Counter[str] = field(default_factory=Counter)
    joined: dict[str, list[Joined]] = field(default_factory=dict)

    def join(self, step: str, one: Joined) -> None:
        """It waits for the others."""
        self.joined.setdefault(step, []).append(one)

    def all(self, step: str) -> list[Joined] | None:
        """Those to whom it is to be done now, once; nobody where nothing is under way any more, None where somebody may yet join."""
        if step in self.looking or self.open[step] > len(self.joined.get(step, ())):
            return None
        return self.joined.pop(step, [])
