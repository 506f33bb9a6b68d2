"""The cabling that is there, by the names of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from healthcheck.subnet.cabling import PlannedCable, PlannedEnd


@dataclass(frozen=True)
class SeenCable:
    """A cable that a subnet shows: its two ends, and what its modules state of it where they were read.
    `degraded`: it is at its planned ends, and its link is not active, narrower or slower than planned, or one
    that the subnet manager leaves out."""

    a: PlannedEnd
    b: PlannedEnd
    serial: str | None = None
    part: str | None = None
    metres: float | None = None
    degraded: bool = False

    @property
    def ends(self) -> tuple[PlannedEnd, PlannedEnd]:
        """Both ends."""
        return self.a, self.b


@dataclass(frozen=True)
class CabledFabric:
    """What is there. `devices` are those of which anything was seen: a port of theirs without a cable has no
    link; of other devices nothing is known. In the planes of `partial` nothing is known to be absent (None:
    in every plane). `assumed` are ports of hosts that only their place names, with why nothing else does."""

    cables: tuple[SeenCable, ...]
    devices: frozenset[str]
    partial: frozenset[str | None] = field(default_factory=frozenset)
    notes: tuple[str, ...] = ()
    assumed: Mapping[PlannedEnd, str] = field(default_factory=lambda: MappingProxyType({}))

    def shows(self, end: PlannedEnd, plane: str) -> bool:
        """Whether a link at this port would have been seen."""
        return end.device in self.devices and not self.partial & {plane, None}


def fits(cable: SeenCable, planned: PlannedCable) -> bool:
    """Whether a cable can serve a link: the same part and long enough, as far as both are known."""
    if cable.part is not None and planned.part is not None and cable.part.lower() != planned.part.lower():
        return False
    return cable.metres is None or planned.metres is None or cable.metres >= planned.metres


def known_to_fit(cable: SeenCable, planned: PlannedCable) -> bool:
    """Whether it fits, and nothing that the plan asks for is unmeasured: an unknown length may not do."""
    return fits(cable, planned) and (planned.metres is None or cable.metres is not None)


def joins(cable: SeenCable, planned: PlannedCable) -> bool:
    """Whether a cable's ends are the planned ones."""
    return {cable.a, cable.b} == {planned.a, planned.b}
