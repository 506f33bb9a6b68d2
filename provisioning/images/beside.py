"""Which nodes a pull leaves out: those that run a job as far as the scheduler says, and those that muster
itself holds for a test. A pull ends nothing there, but takes network and disk from it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from healthcheck.store.file import Store
from healthcheck.store.leases import open_leases
from inventory.errors import UsageError
from inventory.model import Inventory, Node
from provisioning.actions.base import ActionError
from provisioning.actions.choose import backend
from provisioning.lease.jobs import jobs


def in_use(inventory: Inventory | None, nodes: Sequence[Node], store: Store | None) -> dict[str, str]:
    """Why, by node. Without a known scheduler there is no job; raises UsageError where one is silent."""
    names = [node.name for node in nodes]
    found: dict[str, str] = {}
    if inventory is not None and (inventory.cordon is not None or shutil.which("scontrol") is not None):
        try:
            found.update(jobs(backend(inventory), names).busy)
        except (ActionError, UsageError) as error:
            raise UsageError(f"it is not known on which nodes a job is: {error}; --beside-jobs pulls "
                             "there anyway") from None
    if store is not None:
        leased = {node: one.name for one in open_leases(store) for node in one.nodes}
        found.update({name: f"muster holds it for a test ({leased[name]})"
                      for name in names if name in leased})
    return found
