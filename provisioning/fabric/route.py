"""By whom ports are set and read back: a route, by ibportstate on a node or through UFM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from healthcheck.subnet.model import FabricEnd, Subnet


@dataclass(frozen=True)
class PortTarget:
    """A port that is to be set, and where its cable ends."""

    plane: str
    end: FabricEnd
    peer: FabricEnd


@dataclass(frozen=True)
class PortAnswer:
    """What was said of a port that was to be set. `done` is False where certainly nothing was changed, True
    where it was so already, and None otherwise: only reading back tells."""

    done: bool | None
    message: str


class PortRoute(Protocol):
    """Whoever can set ports of a fabric, and shows what came of it."""

    @property
    def name(self) -> str:
        """In words, for the ledger. The first word is the means: what one means has set, another neither
        sees nor undoes."""

    def look(self) -> tuple[Subnet, ...]:
        """The fabric as it is now, as far as it is seen. Raises MusterError where no one can look."""

    def set(self, target: PortTarget, *, enable: bool, seen: Subnet) -> PortAnswer:
        """Has a port disabled or enabled, once; `seen` is the subnet as it was looked at for that."""
