"""A fabric's hierarchy as Slurm's topology.conf (slurm.schedmd.com/topology.conf.html).

`tree` (topology/tree): Slurm wants one leaf for each node and one parent for each switch, so a group of hosts
is a switch, whatever leaves it has, a pod is the switch above, and one above all joins the pods. `blocks`
(topology/block, Slurm 23.11 and later): each group is a block.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from healthcheck.subnet.hierarchy import FabricHierarchy, HostGroup
from inventory.errors import UsageError
from inventory.nodeset import NAME, fold
from inventory.text import many, short

_ROOT = "fabric"


def tree(found: FabricHierarchy) -> str:
    """topology.conf of topology/tree."""
    _check(found)
    lines = [*_head(found, "topology/tree")]
    for pod in found.pods:
        for group in pod.groups:
            if group.leaves != (group.name,):
                lines.append(f"# {group.name}: leaves {fold(group.leaves)}")
            lines.append(f"SwitchName={group.name} Nodes={fold(group.hosts)}")
    tops: list[str] = []
    for pod in found.pods:
        below = [group.name for group in pod.groups]
        if len(below) == 1 or len(found.pods) == 1:
            tops += below
            continue
        lines += [f"# {pod.name}: spines {fold(pod.spines)}"] if pod.spines else []
        lines.append(f"SwitchName={pod.name} Switches={fold(below)}")
        tops.append(pod.name)
    if len(tops) > 1:
        lines.append(f"SwitchName={_ROOT} Switches={fold(tops)}")
    return "\n".join(lines) + "\n"


def blocks(found: FabricHierarchy) -> str:
    """topology.conf of topology/block: the smallest group is the base size, which no block may be below."""
    _check(found)
    groups = [group for pod in found.pods for group in pod.groups]
    lines = [*_head(found, "topology/block")]
    lines += [f"BlockName={group.name} Nodes={fold(group.hosts)}" for group in groups]
    lines.append(f"BlockSizes={min(len(group.hosts) for group in groups)}")
    return "\n".join(lines) + "\n"


def _head(found: FabricHierarchy, plugin: str) -> Iterator[str]:
    yield f"# {many(len(found.hosts), 'host')}; slurm.conf: TopologyPlugin={plugin}"
    if found.alone:
        yield f"# without a leaf, and so in no switch: {fold(found.alone)}"


def _check(found: FabricHierarchy) -> None:
    """Raises UsageError for names that Slurm would not read, or that would mean something else to it."""
    if not found.hosts:
        raise UsageError("no host of the plan is cabled to a leaf: there is no topology to write")
    groups: Collection[HostGroup] = [group for pod in found.pods for group in pod.groups]
    for name in (
        *found.hosts,
        *(group.name for group in groups),
        *(leaf for group in groups for leaf in group.leaves),
        *(spine for pod in found.pods for spine in pod.spines),
    ):
        if not NAME.fullmatch(name):
            raise UsageError(
                f"{short(name)}: is no name that topology.conf can hold; expected letters, digits, "
                "'.', '-' and '_'"
            )
