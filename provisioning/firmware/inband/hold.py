"""Holds a machine for a step that disturbs it: what is not proven idle is refused (invariant 8 of
healthcheck/help/architecture.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from healthcheck.ruleset.sku import Sku
from healthcheck.store.file import opened
from healthcheck.sweep.sweep import limits
from inventory.errors import MusterError
from inventory.model import Inventory, Node
from inventory.transport.base import Transport
from provisioning.actions.choose import Options, backend
from provisioning.lease.check import MARGIN_S, manager
from provisioning.lease.idle import idle
from provisioning.lease.take import give_back, take
from provisioning.lease.watch import LeaseWatch


class NotHeldError(MusterError):
    """A machine cannot be disturbed now; one line with why."""


@dataclass(frozen=True)
class MachineHold:
    """What holding machines takes: where state is, who asks, how nodes are reached, and the SKUs."""

    folder: Path
    who: str
    transport: Callable[[], Transport]
    skus: Mapping[str, Sku]
    default_sku: str | None
    why: str = "muster firmware update"

    @contextmanager
    def held(self, inventory: Inventory, node: Node, seconds: float) -> Iterator[Transport]:
        """Gives the transport for a step on this machine, by the inventory as it stands now. One in service
        is leased for it; to one that is not, no scheduler gives jobs. Either has to be idle. Raises
        NotHeldError, ActionError, StoreError, UsageError."""
        if not node.in_service:
            self._idle(node)
            yield self.transport()
            return
        made = manager(None, backend(inventory, Options()), self.who)
        with opened(self.folder, make=True) as store:
            lessor = made(store)
            taken = take(lessor, [node.name], seconds + 4 * MARGIN_S, self.why)
            if taken.entry is None:
                raise NotHeldError(f"no lease: {taken.refused.get(node.name, 'it was refused')}")
            try:
                self._idle(node)
                with LeaseWatch(self.folder, made, taken.entry, self.transport()) as watch:
                    yield watch
            finally:
                trouble = give_back(lessor, taken.entry, "the step was made")
        if trouble:
            raise NotHeldError(f"the lease was not given back: {trouble}; see: muster lease list")

    def _idle(self, node: Node) -> None:
        """Raises NotHeldError where something may compute on its GPUs."""
        looked = idle([node], self.transport(), self.skus, self.default_sku, limits(None, 1))
        if why := looked.refused.get(node.name):
            raise NotHeldError(f"it is not proven idle: {why}")
