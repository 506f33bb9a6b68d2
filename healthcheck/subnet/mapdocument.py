"""A fabric's hierarchy as the document muster.fabric.map/1, and in lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from healthcheck.subnet.cabling import CablingPlan, PlannedCable
from healthcheck.subnet.hierarchy import FabricHierarchy
from healthcheck.subnet.linkstates import SHOWN_STATES, CableState
from inventory.nodeset import fold
from inventory.text import clean, many

SCHEMA = "muster.fabric.map/1"
FILE = "fabric-map.json"        # of the state folder, which the status page shows


def document(found: FabricHierarchy, plan: CablingPlan,
             states: Mapping[PlannedCable, CableState]) -> dict[str, Any]:
    """Pods, groups and hosts in the order for ranks; devices with racks; links with their states."""
    return {
        "schema": SCHEMA, "hosts": list(found.hosts), "alone": list(found.alone), "cores": list(found.cores),
        "pods": [{"name": pod.name, "spines": list(pod.spines),
                  "groups": [{"name": group.name, "hosts": list(group.hosts), "leaves": list(group.leaves)}
                             for group in pod.groups]} for pod in found.pods],
        "devices": [{"name": one.name, "tier": one.tier.value, "rack": one.rack}
                    for one in plan.devices.values()],
        "links": [{"a": one.a.device, "a_port": one.a.port, "b": one.b.device, "b_port": one.b.port,
                   "plane": one.plane, "state": states[one].value} for one in plan.cables],
    }


def text(found: FabricHierarchy, states: Mapping[PlannedCable, CableState]) -> Iterator[str]:
    """Pod by pod, group by group, and the links in numbers by state."""
    for pod in found.pods:
        above = f", spines {fold(pod.spines)}" if pod.spines else ", no spines"
        yield clean(f"{pod.name}: {many(len(pod.groups), 'group')}{above}", 400)
        for group in pod.groups:
            leaves = "" if group.leaves == (group.name,) else f", leaves {fold(group.leaves)}"
            yield clean(f"  {group.name}: {many(len(group.hosts), 'host')} {fold(group.hosts)}{leaves}", 400)
    if found.cores:
        yield clean(f"cores: {fold(found.cores)}", 400)
    if found.alone:
        yield clean(f"without a leaf: {fold(found.alone)}", 400)
    counts = Counter(states.values())
    yield f"{many(len(states), 'link')}: " + ", ".join(
        f"{counts[state]} {state.value}" for state in SHOWN_STATES if counts[state])
