"""The interface of a lease method. A method never touches what does not carry the lease's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from healthcheck.store.leases import LeaseRecord
from provisioning.actions.base import Backend


class LeaseMethod(Protocol):
    """One way to hold nodes. Methods raise ActionError where the back end cannot be asked or did not do it.
    Reasons are phrases by node; a node without one is fine."""

    kind: str
    base: Backend

    def hold(self, entry: LeaseRecord) -> None:
        """Begins to hold what it can of the lease's nodes; `gone` says of which that did not come true."""

    def gone(self, entry: LeaseRecord) -> Mapping[str, str]:
        """Nodes of the lease that are not held for it now, and why."""

    def keep(self, entry: LeaseRecord, nodes: Sequence[str]) -> None:
        """Holds these of its nodes only."""

    def extend(self, entry: LeaseRecord, until: float) -> None:
        """Holds until then."""

    def free(self, entry: LeaseRecord) -> None:
        """Gives back all that carries the lease's name."""

    def left(self, entry: LeaseRecord) -> bool:
        """Whether anything that carries the lease's name is still there."""
