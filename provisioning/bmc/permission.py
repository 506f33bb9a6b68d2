"""Decides whether a machine may be turned off or have its next boot changed: what is not proven idle is
refused (invariant 8 of healthcheck/help/architecture.md)."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence

from inventory.errors import UsageError
from inventory.model import Inventory, LifecycleState, Node
from provisioning.actions.base import Holder, NodeHold
from provisioning.actions.choose import backend
from provisioning.lease.jobs import Jobs, jobs

_OURS = frozenset({LifecycleState.PLANNED, LifecycleState.BRINGUP})       # no scheduler has given them jobs
_AWAY = frozenset({LifecycleState.RMA, LifecycleState.RETIRED})


def why_not(inventory: Inventory, nodes: Sequence[Node], *, off: bool) -> dict[str, str]:
    """Why not, by node; those that may are not in it. `off` is for what ends whatever runs there: then the
    back end must say that no job does; where a site has none, lifecycle planned, bringup, rma or retired
    does. A node in service must be cordoned in our name."""
    affected = [node for node in nodes if off or node.in_service]
    if inventory.cordon is None:
        affected = [node for node in affected if node.lifecycle.state not in _OURS]
        if shutil.which("scontrol") is None:
            return {node.name: _unproven(node) for node in affected if node.lifecycle.state not in _AWAY}
    if not affected:
        return {}
    through = backend(inventory)
    names = [node.name for node in affected]
    try:
        held: Mapping[str, NodeHold] = through.held(names)
        running = jobs(through, names) if off else Jobs({}, frozenset())
    except UsageError as problem:
        return dict.fromkeys(names, f"it is not known whether a job is there: {problem}")
    found: dict[str, str] = {}
    for node in affected:
        holder = held[node.name].holder
        if node.in_service and holder is not Holder.US:
            found[node.name] = (f"it is in service, and we do not hold it; first: muster cordon {node.name} "
                                "--reason ...")
        elif node.name in running.busy:
            found[node.name] = f"{running.busy[node.name]}; wait until it has ended"
        elif (off and holder is not Holder.ABSENT and node.name in running.unknown
                and node.lifecycle.state not in _OURS | _AWAY):
            found[node.name] = (f"{through.name} cannot say whether a job is there, and its lifecycle is "
                                f"{node.lifecycle.state.value}")
    return found


def _unproven(node: Node) -> str:
    return (f"its lifecycle is {node.lifecycle.state.value}, and nothing here shows whether a job is there: "
            f"set `cordon:` in the inventory, or: muster inventory lifecycle {node.name} rma")
